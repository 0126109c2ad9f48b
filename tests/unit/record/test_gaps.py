"""Holes are gaps between offsets that were handed on, and gaps are looked at again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.errors import AccountingError
from framework.record.gaps import FIRST_LOOKS, MOST_OFFSETS, Looks, Tally, check_seen
from framework.record.model import RecordBlock, TaskRange

PIECE = TaskRange("t", "id-t", 0, 10, 110)


def block_of(offsets: list[int], values: int | None = None) -> RecordBlock:
    count = len(offsets) if values is None else values
    return RecordBlock("t", 0, [b"{}"] * count, offsets, [1] * count, [None] * count, [None] * count)


def tally_of(*blocks: list[int]) -> Tally:
    tally = Tally(PIECE)
    for offsets in blocks:
        tally.add(block_of(offsets))
    tally.end()
    return tally


@given(st.sets(st.integers(10, 109)), st.integers(1, 40))
def test_records_and_holes_fill_the_slice(kept: set[int], size: int) -> None:
    """Whatever offsets come, in whatever blocks, those that did not are the holes, and each gap can be looked at."""
    offsets = sorted(kept)
    tally = tally_of(*(offsets[at : at + size] for at in range(0, len(offsets), size)))
    assert (tally.records, tally.holes) == (len(kept), 100 - len(kept))
    for chance in (0.0, 0.5, 0.999):
        for gap in tally.to_look_at(True, Looks(0, 1), chance):
            assert PIECE.start <= gap.start < gap.end <= PIECE.end
            assert not kept & set(range(gap.start, gap.end))


@pytest.mark.parametrize(
    "blocks",
    [[[10, 12, 11]], [[10, 10]], [[9]], [[110]], [[10, 11], [11, 12]], [[12], [11]], [[10, 10, 12]]],
    ids=str,
)
def test_offsets_that_do_not_ascend_inside_the_slice_are_refused(blocks: list[list[int]]) -> None:
    """A block that repeats an offset, goes back or leaves its slice ends it, also where the count would fit."""
    with pytest.raises(AccountingError, match="not read whole"):
        tally_of(*blocks)


def test_a_value_without_an_offset_is_refused() -> None:
    """A block has as many offsets as records, and the client gave as many as were handed on."""
    with pytest.raises(AccountingError, match="3 values, 4 offsets"):
        Tally(PIECE).add(block_of([10, 11, 12, 13], values=3))
    with pytest.raises(AccountingError, match="5 records came from the broker, but 4 were passed on"):
        check_seen(PIECE, 5, 4)
    check_seen(PIECE, 5, 5)


def test_every_gap_of_a_log_that_should_have_none_is_looked_at() -> None:
    """The first gaps of a partition are read again, however much time that took already; later ones are samples within
    their share of the time, and of a large gap a part is."""
    whole = list(range(10, 110))
    assert tally_of(whole).to_look_at(False, Looks(), 0.0) == []
    one = tally_of([o for o in whole if o != 50]).to_look_at(False, Looks(9, 9), 0.0)
    assert [(gap.start, gap.end) for gap in one] == [(50, 51)]

    many = tally_of([o for o in whole if o % 3])
    assert len(many.to_look_at(False, Looks(9, 9), 0.0)) == FIRST_LOOKS
    assert len(many.to_look_at(True, Looks(0.1, 100), 0.3)) == 1
    assert many.to_look_at(True, Looks(5, 100), 0.3) == []

    huge = Tally(TaskRange("t", "id-t", 0, 0, 10**9))
    huge.end()
    [gap] = huge.to_look_at(False, Looks(), 0.0)
    assert (gap.start, gap.end) == (0, MOST_OFFSETS)
