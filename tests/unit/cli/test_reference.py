"""The reference pages are made from what the program itself knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.config.reference_page import page
from framework.diagnose import codes_page

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"


@pytest.mark.parametrize("name", ["pipeline", "target", "template"])
def test_file_pages_are_up_to_date(name: str) -> None:
    """Each page is what `floe schema NAME --format markdown` prints."""
    assert (REFERENCE / f"{name}-file.md").read_text(encoding="utf-8") == page(name)


def test_the_page_of_codes_is_up_to_date() -> None:
    """The page is what `floe explain --format markdown` prints."""
    assert (REFERENCE / "codes.md").read_text(encoding="utf-8") == codes_page.page()


def test_every_key_is_on_the_page() -> None:
    """No key of a pipeline file is without a description."""
    rows = [line for line in page("pipeline").splitlines() if line.startswith("| `")]

    assert len(rows) > 60
    assert [row for row in rows if row.endswith("|  |")] == []
