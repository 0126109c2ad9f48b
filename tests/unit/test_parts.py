"""The page about parts shows what the script computes."""

from __future__ import annotations

from pathlib import Path

from benchmarks.parts import Load, first_to_end, parts, table

PAGE = Path(__file__).parents[2] / "docs" / "parts.md"
TODAY = Load(10_000, 100, 12, 60)


def test_the_page_shows_what_the_script_computes() -> None:
    """Both tables and both verdicts of docs/parts.md are those of the load that it names."""
    page = PAGE.read_text(encoding="utf-8")
    for grow_tables in (False, True):
        assert "\n".join(table(TODAY, grow_tables)) in page
        assert f"the first to end is: {first_to_end(TODAY, grow_tables)}." in page


def test_more_tables_end_the_coordinator_and_more_records_the_executors() -> None:
    """A hundred times the tables need several coordinators; a thousand times the records need more cores alone."""
    needed = {each.name: each.count for each in parts(TODAY.grown(100, tables=True))}
    assert needed["coordinator"] == 4
    needed = {each.name: each.count for each in parts(TODAY.grown(1_000, tables=False))}
    assert (needed["coordinator"], needed["executors"]) == (1, 13)
