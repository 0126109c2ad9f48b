"""Which of the newest records are looked at first, where partitions hold different numbers of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from framework.adapters.kafka.live import newest_shares


@given(st.dictionaries(st.tuples(st.just("t"), st.integers(0, 9)), st.integers(0, 50), max_size=8), st.integers(0, 100))
def test_as_many_as_are_wanted_and_evenly(offsets: dict[tuple[str, int], int], wanted: int) -> None:
    """Together they are as many as are wanted, or all; none gives more than it has, and one gives less than another only
    where it has no more."""
    shares = newest_shares(offsets, wanted)
    assert shares.keys() == offsets.keys()
    assert sum(shares.values()) == min(wanted, sum(offsets.values()))
    for key, share in shares.items():
        assert 0 <= share <= offsets[key]
        assert share == offsets[key] or share >= max(shares.values()) - 1
