"""Invariant 12 as a property: nothing that anybody names, and nothing young, is ever an orphan."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from framework.adapters.iceberg.files import path_key
from framework.commit.file_ages import DAY_MS, SAFETY_AGE_MS, YOUNG_MS, ClockReading, may_be_gone, now_for_orphans_ms
from framework.commit.recovery import path_keys
from framework.commit.recovery.orphans import StoredFile, inside, sort_out
from framework.commit.recovery.path_keys import PathKeys

keys = st.sampled_from(
    [f"/t/data/{n}.parquet" for n in range(6)]
    + ["/t/metadata/m.avro", "/t/data/d.puffin", "/t/metadata/v1.metadata.json"]
)
NOW_MS, AGE_MS = 1_000, 50
modified = st.none() | st.integers(0, 2 * AGE_MS).map(lambda age_ms: NOW_MS - age_ms)
files = st.lists(
    st.builds(StoredFile, st.just("file://x"), keys, st.integers(0, 9), modified), unique_by=lambda f: f.key
)


@given(files, st.frozensets(keys), st.frozensets(keys))
def test_what_is_named_or_young_is_spared(
    found: list[StoredFile], referenced: frozenset[str], announced: frozenset[str]
) -> None:
    """A file is an orphan exactly when it is old, of our kind, and named by nobody; all others are counted as
    spared."""
    result = sort_out(found, referenced, announced, NOW_MS, AGE_MS)
    assert len(result.orphans) + sum(result.spared.values()) == len(found)
    assert set(result.orphans) == {
        file
        for file in found
        if file.key not in referenced | announced
        and not file.key.endswith(".json")
        and file.modified_ms is not None
        and file.modified_ms <= NOW_MS - AGE_MS
    }


@pytest.mark.parametrize(
    "names",
    [
        ("file:///a/b.parquet", "file:/a/b.parquet", "/a/b.parquet", "file:///a//b.parquet"),
        ("s3://bucket/k/a.parquet", "s3a://bucket/k/a.parquet"),
        ("s3://bucket/d=1%20x/a.parquet", "s3://bucket/d=1 x/a.parquet"),
    ],
)
def test_two_names_of_one_file_have_one_key(names: tuple[str, ...]) -> None:
    """Another writer may name a file by another scheme, or with its special characters escaped."""
    assert len({path_key(name) for name in names}) == 1


def test_a_location_inside_another_is_noticed() -> None:
    """A name that only begins alike lies beside it."""
    assert inside("/w/t", "/w/t/inner")
    assert inside("/w/t", "/w/t")
    assert not inside("/w/t", "/w/t2")


HOUR_MS = 3_600_000
spans = st.integers(0, 2 * HOUR_MS) | st.integers(0, 2 * DAY_MS) | st.integers(0, 40 * DAY_MS)
skews = st.integers(-40 * DAY_MS, 40 * DAY_MS)
ages = st.integers(SAFETY_AGE_MS, 5 * DAY_MS)


@settings(report_multiple_bugs=False)
@example(4 * DAY_MS, 0, 3 * DAY_MS, 0, 0, 0, 0, DAY_MS)  # a driver that slept
@example(0, 2 * DAY_MS, 2 * DAY_MS, 0, 0, 2 * DAY_MS, 0, DAY_MS)  # and one whose clock is ahead by what it waited
@example(0, 0, HOUR_MS, HOUR_MS, 0, 0, 2 * DAY_MS, DAY_MS)  # somebody who looks with a clock that is ahead
@given(spans, spans, spans, spans, skews, skews, skews, ages)
def test_no_clock_and_no_sleep_lets_a_missing_file_be_committed(
    took: int, waited: int, looked: int, slept: int, store: int, driver: int, coordinator: int, older_than_ms: int
) -> None:
    """A file is begun at 0, announced after `took`, seen after `waited` and committed `slept` later without a look if it
    seems young; somebody who does not know the log looks for orphans after `looked`. All clocks are off. What was not
    looked for is there: nothing young for the store is removed, and nothing old is added unseen."""
    reported, committed = took, took + waited + slept
    unseen = slept < YOUNG_MS and not may_be_gone(
        took + waited + coordinator, reported + coordinator, reported + driver, driver, YOUNG_MS
    )
    file = StoredFile("file://x", "/t/data/0.parquet", 1, store)
    now_ms = now_for_orphans_ms(looked + coordinator, looked + store)
    assert now_ms is not None
    gone = bool(sort_out([file], (), (), now_ms, older_than_ms).orphans) and looked <= committed
    assert not (unseen and gone)
    assert looked >= older_than_ms or not sort_out([file], (), (), now_ms, older_than_ms).orphans


@given(spans, spans, skews)
def test_a_moment_is_as_long_ago_as_any_clock_says(slept: int, awake: int, set_to: int) -> None:
    """A clock that is set, forth or back, hides no sleep."""
    then = ClockReading(10**12, 5_000)
    now = ClockReading(10**12 + slept + awake + set_to, 5_000 + slept + awake)
    assert then.elapsed_ms(now) >= slept + awake


@given(st.integers(0, HOUR_MS), st.integers(0, HOUR_MS), skews)
def test_what_is_young_by_each_clock_needs_no_look(waited: int, took: int, driver: int) -> None:
    """However far the clocks of two machines are apart: the store is asked for nothing on the usual way."""
    now = 10**12
    assert not may_be_gone(now, now - waited, now + driver, now + driver - took, YOUNG_MS)


@given(st.lists(st.frozensets(st.text(max_size=20), max_size=30), max_size=6), st.frozensets(st.text(max_size=20)))
def test_what_was_announced_stays_known(rounds: list[frozenset[str]], others: frozenset[str]) -> None:
    """Whatever is put in is in it, in however many rounds; and nothing else, as far as 64 bits tell keys apart."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(path_keys, "_NEW_KEYS", 4)
        known = PathKeys()
        for found in rounds:
            known.add(found)
        reported = frozenset[str]().union(*rounds)
        assert all(key in known for key in reported)
        assert not any(key in known for key in others - reported)


def test_names_take_a_few_bytes_each_however_long_they_are() -> None:
    """What a control topic of 30 days names fits into memory: some hundred bytes a file before."""
    tracemalloc.start()
    try:
        known = PathKeys()
        for batch in range(1_000):
            known.add(f"/warehouse/shop/orders/data/p-run-{batch}-{number}.parquet" for number in range(300))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 300_000 * 24
    assert "/warehouse/shop/orders/data/p-run-999-299.parquet" in known
    assert "/warehouse/shop/orders/data/p-run-1000-0.parquet" not in known
