"""The reference pages are made from what the program itself knows."""

from __future__ import annotations

from pathlib import Path

from framework.cli.main import VERBS
from framework.cli.write.docs import pages
from framework.config.writing.reference_page import page

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"


def test_the_pages_are_up_to_date() -> None:
    """Every page of the reference is what `floe docs` writes, and no other lies beside them."""
    written = {path.name: path.read_text(encoding="utf-8") for path in REFERENCE.iterdir()}

    stale = [name for name, text in pages().items() if written.get(name) != text]
    assert (stale, sorted(written)) == ([], sorted(pages())), "run `floe docs`"


def test_every_verb_is_on_the_page() -> None:
    """The page of commands has a section for each verb, with its own help."""
    text = pages()["commands.md"]

    assert [verb for verb in VERBS if f"## `floe {verb}`" not in text] == []
    assert "## `floe local up`" in text


def test_every_key_is_on_the_page() -> None:
    """No key of a pipeline file is without a description."""
    rows = [line for line in page("pipeline").splitlines() if line.startswith("| `")]

    assert len(rows) > 60
    assert [row for row in rows if row.endswith("|  |")] == []
