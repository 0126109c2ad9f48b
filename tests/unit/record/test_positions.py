"""Offsets that went into the SQL beside those that came out of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.errors import AccountingError
from framework.record.arrays import Ints
from framework.record.sql.accounting import pack, removed, unpack

OFFSETS = st.lists(st.integers(0, 2**62), max_size=50).map(lambda found: np.array(found, np.int64))


@given(st.lists(OFFSETS, max_size=4))
def test_offsets_survive_packing(blocks: list[Ints]) -> None:
    """What a task packs is what the driver unpacks, whatever the order."""
    packed = pack(blocks)
    assert unpack(packed).tolist() == [offset for block in blocks for offset in block.tolist()]
    assert packed.count == sum(map(len, blocks))


def test_offsets_that_follow_one_another_take_no_room() -> None:
    """A million records without a hole are a few kilobytes to the driver."""
    assert len(pack([np.arange(1_000_000)]).steps) < 50_000


def test_what_did_not_come_out_was_removed() -> None:
    """Records that went in and did not come out were removed by the SQL's condition, over all tasks and blocks."""
    decoded = [np.arange(10, 60), np.arange(60, 110)]
    assert removed("t-0", decoded, [np.arange(108, 50, -2), np.arange(10, 20)], may_remove=True) == 100 - 29 - 10
    assert removed("t-0", decoded, reversed(decoded), may_remove=False) == 0
    assert removed("t-0", [], [], may_remove=False) == 0


WRONG = {
    "decoded twice": ([range(5), range(4, 6)], [range(6)], True, "1 record was decoded more than once"),
    "given out twice": ([range(5)], [range(5), range(2)], True, "2 records were given out"),
    "never decoded": ([range(5)], [range(6)], True, "never went in, the first at offset 5"),
    "lost behind the SQL": ([range(5)], [range(4)], False, "has no WHERE, the first at offset 4"),
    "lost and twice": ([range(5)], [range(1, 5), range(1, 2)], True, "given out"),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_what_cannot_be_is_refused(case: tuple[list[range], list[range], bool, str]) -> None:
    """Invariant 8: a record that comes twice, from nowhere, or is missing without a condition ends the batch."""
    decoded, arrived, may_remove, said = case
    with pytest.raises(AccountingError, match=said):
        removed("t-0", map(np.array, decoded), map(np.array, arrived), may_remove)
