"""The invariants stand in docs/protocol.md by number, and nobody cites a number that does not stand there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROTOCOL = ROOT / "docs" / "protocol.md"
FOLDERS = ("framework", "tests", "docs", "benchmarks", "pipelines", "schemas")
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "setup.cfg", "setup.py", "Makefile")
TEXT = {".py", ".c", ".md", ".json", ".yaml", ".html", ".txt", ".properties"}

DEFINITION = re.compile(r"^(\d+)\. \*\*(.+?)\*\*(.*?)(?=^\d+\. |\Z)", re.MULTILINE | re.DOTALL)
MODULE = re.compile(r"`(framework/[a-z_/]+\.py)`")
# A citation may go on in the next line, behind the sign of a comment.
LINE_END = re.compile(r"[ \t]*\n[ \t]*(?:#|//|\*|>)?[ \t]*")
CITATION = re.compile(
    r"\binvariant(?P<several>s?)[ ](?P<first>\d+)(?P<more>(?:(?:, (?:and |or )?| and | or | to |-)\d+)*)", re.IGNORECASE
)


def defined() -> dict[int, tuple[str, str]]:
    """Number -> the rule and what is said of who keeps it."""
    _, _, rest = PROTOCOL.read_text(encoding="utf-8").partition("\n## The invariants\n")
    section, _, _ = rest.partition("\n## ")
    return {int(number): (rule, kept) for number, rule, kept in DEFINITION.findall(section)}


def cited(text: str) -> Iterator[int]:
    for found in CITATION.finditer(LINE_END.sub(" ", text)):
        yield int(found["first"])
        if found["several"]:  # "invariant 3, 10 s later" cites one
            yield from (int(number) for number in re.findall(r"\d+", found["more"]))


def test_all_invariants_stand_in_the_protocol() -> None:
    """docs/protocol.md defines the invariants 1 to 19 in order, each with a module that keeps it and exists."""
    found = defined()
    assert list(found) == list(range(1, 20))
    for number, (_, kept) in found.items():
        modules = MODULE.findall(kept)
        assert modules, f"no module keeps invariant {number}"
        assert [module for module in modules if not (ROOT / module).is_file()] == []


def test_every_number_that_is_cited_is_defined() -> None:
    """Whoever meets `Invariant 7` anywhere in the project finds it in docs/protocol.md."""
    numbers = set(defined())
    files = [ROOT / page for page in PAGES]
    files += [file for folder in FOLDERS for file in (ROOT / folder).rglob("*") if file.suffix in TEXT]
    strays: list[str] = []
    citations: dict[int, int] = {}
    for file in files:
        if file == Path(__file__):
            continue
        for number in cited(file.read_text(encoding="utf-8", errors="replace")):
            citations[number] = citations.get(number, 0) + 1
            if number not in numbers:
                strays.append(f"{file.relative_to(ROOT)}: invariant {number}")
    assert strays == []
    assert set(citations) == numbers, "an invariant that nobody cites is kept by nobody"


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("# Invariant 18: none", [18]),
        ("keeps invariants 3 and 14.", [3, 14]),
        ("(invariants 1, 2, 5 and 70)", [1, 2, 5, 70]),
        ("invariants 2, and 99", [2, 99]),
        ("invariants 1 to 15", [1, 15]),
        ("invariants 2-20", [2, 20]),
        ("Keeps invariant\n    # 88 by order", [88]),
        ("invariants 6,\n11 and\n * 77", [6, 11, 77]),
        ("(invariant 3, 100 times)", [3]),
        ("no invariant here, 100 times", []),
    ],
)
def test_a_citation_is_seen_however_it_is_written(text: str, numbers: list[int]) -> None:
    """One number or several, in one line or over two, with or without the sign of a comment."""
    assert list(cited(text)) == numbers
