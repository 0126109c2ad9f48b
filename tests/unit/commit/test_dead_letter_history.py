"""A flood of dead letters: seen after seconds, with its beginning, and over when records are well again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from framework.commit.dead_letter_history import FLOOD_MS, FLOOD_SHARE, MOST_BATCHES, DeadLetterHistory

NOW_MS = 1_800_000_000_000
SECOND = 1_000


def of(*batches: tuple[int, int, int]) -> DeadLetterHistory:
    history = DeadLetterHistory()
    for at_s, records, letters in batches:
        history.add(NOW_MS + at_s * SECOND, records, letters)
    return history


def test_one_record_in_ten_is_seen_within_ten_seconds() -> None:
    """Of twenty records a second two are dead letters after an hour without any: a flood within 10 s, since its first batch."""
    batches = [(second, 20, 0 if second < 300 else 2) for second in range(310)]
    found = of(*batches).flood(NOW_MS + 310 * SECOND)
    assert found is not None
    assert found.since_ms == NOW_MS + 300 * SECOND
    assert (found.dead_letters, found.records) == (20, 200)


def test_a_few_dead_letters_are_no_flood() -> None:
    """One in fifty is what a feed may have; nor are two of the first three records, once others have come."""
    assert of(*((second, 50, 1) for second in range(200))).flood(NOW_MS + 200 * SECOND) is None
    assert of((0, 3, 2), *((second, 50, 0) for second in range(1, 10))).flood(NOW_MS + 10 * SECOND) is None


def test_a_flood_goes_on_over_one_good_batch_and_ends_when_records_are_well() -> None:
    """It has one beginning while it lasts, and is over two minutes after the last dead letter at the latest."""
    flood = [(second, 20, 4) for second in range(100)]
    begun = NOW_MS
    for later in (0, 1, 20):
        found = of(*flood, *((100 + second, 20, 0) for second in range(later))).flood(NOW_MS + 120 * SECOND)
        assert found is not None
        assert found.since_ms == begun
    well = ((100 + second, 20, 0) for second in range(121))
    assert of(*flood, *well).flood(NOW_MS + 221 * SECOND) is None


def test_a_feed_that_stopped_is_no_flood_any_longer() -> None:
    """Nothing came for two minutes after it: what is shown then is not how the feed is."""
    history = of(*((second, 20, 10) for second in range(60)))
    assert history.flood(NOW_MS + 60 * SECOND) is not None
    assert history.flood(NOW_MS + 59 * SECOND + FLOOD_MS) is None


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 400), st.floats(0, 1)), max_size=700))
def test_what_is_told_is_a_flood(batches: list[tuple[int, int, float]]) -> None:
    """Whatever comes: a flood that is told has more than one dead letter in twenty records, and began with a batch that is
    there; memory stays bounded."""
    history, at_ms, times = DeadLetterHistory(), NOW_MS, set()
    for seconds, records, share in batches:
        at_ms += seconds * SECOND
        letters = int(records * share)
        times |= {at_ms} if letters else set()
        history.add(at_ms, records, letters)
        found = history.flood(at_ms)
        if found is not None:
            assert found.dead_letters > FLOOD_SHARE * found.records
            assert found.since_ms in times
    assert len(history._batches) <= MOST_BATCHES
