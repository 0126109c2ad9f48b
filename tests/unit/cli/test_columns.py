"""Tables fit the terminal: what it can do without goes first, is named, and no name or number is ever cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from framework.cli.shared import status_text
from framework.cli.shared.columns import fitting, in_columns, left_out
from framework.commit.events.event_types import Health
from framework.observe.status.model import CommitStatus, PendingStatus, TableStatus
from tests.unit.overview.test_overview import committed, folded, seen, text, written

_NAMES = ("table", "state", "last\ncommit", "snapshot", "waiting\nrows")
_SPARE = ("snapshot", "last\ncommit")


@given(st.lists(st.tuples(*[st.text("0123456789ab", max_size=25)] * 5), min_size=1, max_size=4), st.integers(10, 120))
def test_what_is_shown_fits_or_is_needed(rows: list[tuple[str, ...]], width: int) -> None:
    """No line is wider than the terminal while a column is left that it can do without; all that is left out is named."""
    kept = fitting(_NAMES, rows, _SPARE, width)
    lines = in_columns([_NAMES[n] for n in kept], [[row[n] for n in kept] for row in rows])

    assert max(map(cell_len, lines)) <= width or not {_NAMES.index(name) for name in _SPARE} & set(kept)
    assert all(name.replace("\n", " ") in left_out(_NAMES, kept) for n, name in enumerate(_NAMES) if n not in kept)
    assert fitting(_NAMES, rows, _SPARE, None) == list(range(5))


def test_zeros_go_first() -> None:
    """Where a column holds nothing but zeros, it is left out before one that says something."""
    assert fitting(("name", "long one", "zeros"), [("a", "b", "0")], ("long one", "zeros"), 15) == [0, 1]


def _table() -> TableStatus:
    last = CommitStatus(6886691193027183295, 0, 15, 1, None, 42, 0)
    return TableStatus(
        "shop.orders_refund", Health.IDLE, "", "", "", None, 0, PendingStatus(0, 0, 0, 0), last, None, 0, 110_000
    )


@pytest.mark.parametrize("width", [80, 100])
def test_status_fits(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`floe status` has no line of its table of tables that is wider than a terminal of 80 or 100 columns; a pipe gets all."""
    monkeypatch.setattr(status_text, "terminal_width", lambda: width)
    lines = status_text.tables_table((_table(),), 75_000)
    monkeypatch.setattr(status_text, "terminal_width", lambda: None)

    assert max(map(cell_len, lines)) <= width
    assert "too narrow for: data age" in lines[-1]
    assert "6886691193027183295" in "\n".join(status_text.tables_table((_table(),), 75_000))


@pytest.mark.parametrize("width", [80, 100])
def test_top_fits(width: int) -> None:
    """`floe top` has no line that is wider than a terminal of 80 or 100 columns, and cuts no name in its tables."""
    shown = text(seen(folded(written("shop.orders_refund", 1), committed("shop.orders_refund", 2))), 40, width)

    assert max(map(cell_len, shown.splitlines())) <= width
    assert "shop.orders_refund" in shown
