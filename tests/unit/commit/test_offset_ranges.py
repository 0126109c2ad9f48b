"""Sets of offsets have the laws of sets: whatever is put together, taken away or cut, beside Python's own sets."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from framework.commit.events.event_types import SourceRange
from framework.commit.offset_ranges import OffsetRanges

RANGES = st.lists(
    st.builds(
        lambda topic_id, partition, start, length: SourceRange("t", topic_id, partition, start, start + length),
        st.sampled_from(["one", "two"]),
        st.integers(0, 1),
        st.integers(0, 30),
        st.integers(0, 10),
    ),
    max_size=8,
)
Offsets = set[tuple[str, str, int, int]]


def offsets(ranges: list[SourceRange] | tuple[SourceRange, ...]) -> Offsets:
    return {(r.topic, r.topic_id, r.partition, n) for r in ranges for n in range(r.start, r.end)}


@given(RANGES, RANGES)
def test_the_laws_of_sets(one: list[SourceRange], other: list[SourceRange]) -> None:
    """Union, difference and intersection hold the offsets that they should, of each incarnation apart."""
    left, right = OffsetRanges.of(one), OffsetRanges.of(other)
    assert offsets(left.ranges) == offsets(one)
    assert offsets((left | right).ranges) == offsets(one) | offsets(other)
    assert offsets((left - right).ranges) == offsets(one) - offsets(other)
    assert offsets((left & right).ranges) == offsets(one) & offsets(other)
    assert bool(left) == bool(offsets(one))
    assert left.offsets == len(offsets(one))


@given(RANGES, RANGES)
def test_equal_sets_are_equal_values(one: list[SourceRange], other: list[SourceRange]) -> None:
    """However the ranges came: in another order, in pieces, twice."""
    left, right = OffsetRanges.of(one), OffsetRanges.of(other)
    assert (left == right) == (offsets(one) == offsets(other))
    assert OffsetRanges.of([*reversed(one), *one]) == left
    assert left | right == right | left
    for before, after in pairwise((left | right).ranges):
        key, next_key = (before.topic_id, before.partition), (after.topic_id, after.partition)
        assert key < next_key or (key == next_key and before.end < after.start)


@given(RANGES)
def test_layers_are_the_set_in_parts_that_one_run_can_read(one: list[SourceRange]) -> None:
    """Each part has one range of a partition at most, and together they are the set, nothing twice."""
    whole = OffsetRanges.of(one)
    layers = list(whole.layers())
    for layer in layers:
        assert len({(r.topic, r.topic_id, r.partition) for r in layer}) == len(layer)
    assert sum(r.end - r.start for layer in layers for r in layer) == whole.offsets
    assert OffsetRanges.of(r for layer in layers for r in layer) == whole
