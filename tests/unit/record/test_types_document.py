"""docs/types.md is what the tests prove."""

from __future__ import annotations

from tests.types_document import DOCUMENT, render


def test_document_is_up_to_date() -> None:
    """docs/types.md is the rendering of the table the value tests use; `python -m tests.types_document` writes it."""
    assert DOCUMENT.read_text(encoding="utf-8") == render()
