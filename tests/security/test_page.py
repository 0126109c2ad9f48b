"""docs/security.md names a test for each cell, and each of them is there: nobody reads a promise that nothing keeps."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security.md"
CITED = re.compile(
    r"`((?:tests/)?(?:unit|security|fuzz|kafka|iceberg|spark|acceptance|registry|chaos)/[\w./-]+(?:::\w+)?)`"
)
ACTORS = (
    "pipeline author", "a pull request's author", "template author", "producer", "somebody with ALTER on a table",
    "somebody with write on the control topic", "a REST catalog's server", "a visitor of page or metrics",
    "another user of the machine",
)  # fmt: skip


def _rows() -> list[list[str]]:
    table = PAGE.read_text().partition("## What each person can and cannot do")[2].partition("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def _is_there(cited: str) -> bool:
    file, _, test = cited.removeprefix("tests/").partition("::")
    path = ROOT / "tests" / file
    if not test:
        return path.exists()
    functions = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef))
    return any(function.name == test for function in functions)


def test_every_test_that_the_page_names_is_there() -> None:
    """A test that was renamed or removed takes its promise with it."""
    cited = CITED.findall(PAGE.read_text())
    assert len(cited) > 50
    assert [each for each in cited if not _is_there(each)] == []


def test_each_row_says_who_wants_what_and_what_he_gets_and_where_it_is_shown() -> None:
    """No cell is empty but a name that goes on, and every row has its test."""
    rows = _rows()
    assert tuple(row[0].strip("*") for row in rows if row[0]) == ACTORS
    for row in rows:
        assert len(row) == 4, row
        assert row[1], row
        assert row[2], row
        assert CITED.search(row[3]), row


def test_every_test_of_attacks_is_on_the_page_or_beside_one_that_is() -> None:
    """A file of attacks that the page does not know of would be read by nobody."""
    cited = {each.removeprefix("tests/").partition("::")[0] for each in CITED.findall(PAGE.read_text())}
    files = {f"security/{path.name}" for path in Path(__file__).parent.glob("test_*.py")}
    assert files - cited == {"security/test_page.py"}
