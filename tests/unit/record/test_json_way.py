"""A JSON record comes through few modules on its way from bytes to rows."""

from __future__ import annotations

import pytest

from tests.json_way import PLAIN, STRICT, way_of

# A plain record's: what every format does (the block, its accounts, its tables), then frame, parse, route, convert, one
# module each. Fewer would put the accounts, or two formats' doors, into one module with what they keep apart.
MOST = {"plain": (33, 83), "strict": (39, 121)}


@pytest.mark.parametrize(("name", "record"), [("plain", PLAIN), ("strict", STRICT)])
def test_the_way_of_a_json_record_stays_short(name: str, record: dict[str, object]) -> None:
    """Whoever reads a record's way has so many modules to open, and no more."""
    way = way_of(record)
    rooms, returns = MOST[name]
    assert len(way.rooms) <= rooms, sorted(way.rooms)
    assert way.returns <= returns, way.steps.most_common(20)


def test_the_way_does_not_grow_with_the_records() -> None:
    """Plain records travel in columns: a thousand have the way of three."""
    few, many = way_of(PLAIN, 3), way_of(PLAIN, 1000)
    assert (few.rooms.keys(), few.returns) == (many.rooms.keys(), many.returns)
