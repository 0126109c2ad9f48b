"""Which tables are looked at again, simulated over minutes of batches."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from framework.table.refresh import PROBES, REFRESHED_AT_ONCE, REFRESHES_A_SECOND, plan_refresh


def ages_of_batches(count: int, between_s: float, seconds: float) -> list[tuple[int, int, list[float]]]:
    """For each batch of a flow: how many tables it waited for and how many were loaded while it ran, and how long ago
    each table was loaded when its files were begun."""
    loaded = [0.0] * count
    batches = []
    now = 0.0
    while now < seconds:
        now += between_s
        order = sorted(range(count), key=lambda i: loaded[i])
        turn = plan_refresh([now - loaded[i] for i in order], between_s)
        for place in turn.first:
            loaded[order[place]] = now
        batches.append((len(turn.first), len(turn.meanwhile), [now - at for at in loaded]))
        for place in turn.meanwhile:
            assert place not in turn.first
            loaded[order[place]] = now
    return batches


@given(st.integers(0, REFRESHED_AT_ONCE), st.floats(0.1, 60))
def test_a_batch_of_few_tables_waits_for_all(count: int, between_s: float) -> None:
    """A pipeline of up to 20 tables follows what others change with its next batch."""
    for first, meanwhile, ages in ages_of_batches(count, between_s, 100):
        assert (first, meanwhile) == (count, 0)
        assert max(ages, default=0.0) == 0.0


@given(st.integers(REFRESHED_AT_ONCE + 1, 150), st.floats(0.1, 60))
def test_of_up_to_150_tables_none_is_older_than_half_a_minute(count: int, between_s: float) -> None:
    """What is written is written to tables as they were at most half a minute ago; tables are loaded little by little
    where batches come often, so that hardly a batch waits for any."""
    batches = ages_of_batches(count, between_s, 200)
    assert max(max(ages) for _, _, ages in batches) < 30.0
    if between_s < 4.0 and count <= 100:
        assert {first for first, _, _ in batches} == {0}


@settings(max_examples=30)
@given(st.integers(151, 2000), st.floats(0.5, 20))
def test_of_very_many_tables_each_has_its_turn(count: int, between_s: float) -> None:
    """However many tables there are, about five a second are loaded, and each has its turn within the time that this
    takes."""
    batches = ages_of_batches(count, between_s, 60 + 2 * count / REFRESHES_A_SECOND)
    for first, meanwhile, _ in batches:
        assert first <= max(REFRESHED_AT_ONCE, between_s * REFRESHES_A_SECOND)
        assert first + meanwhile <= max(REFRESHED_AT_ONCE, between_s * REFRESHES_A_SECOND + 1)
    assert max(max(ages) for _, _, ages in batches) <= 30 + between_s + 1.2 * count / REFRESHES_A_SECOND
    if count > 500:
        assert {first for first, _, _ in batches[-10:]} == {PROBES}
