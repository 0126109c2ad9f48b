"""Source positions: start decisions, batch ends, task cuts and read-back, through their public functions."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.commit.events.event_types import Accounting, SourceRange
from framework.commit.offsets import (
    MAX_GAPS,
    SKIP_AND_RECORD,
    PartitionFacts,
    SafeOffset,
    add_gap,
    check_still_readable,
    cut_tasks,
    decide_start,
    decode_metadata,
    encode_metadata,
    find_gaps,
    plan_ends,
    recreated_topics,
)
from framework.commit.read_back import AnnounceState, check_owner, read_back
from framework.errors import DataLossError, FencedError, FloeError, StateDisagreement

KEYS = st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 3))
T = "topic-id-1"


def safe(offset: int, batch: int = 1, topic_id: str = T, run: str = "r1") -> SafeOffset:
    return SafeOffset(offset, topic_id, batch, Accounting(), run)


def facts(start: int, end: int, topic_id: str = T) -> PartitionFacts:
    return PartitionFacts(topic_id, start, end)


@given(
    st.integers(0, 2**60),
    st.lists(st.integers(0, 2**60), min_size=8, max_size=8),
    st.lists(st.tuples(st.integers(0, 2**60), st.integers(0, 2**60)), max_size=MAX_GAPS).map(tuple),
)
def test_metadata_round_trip(batch: int, numbers: list[int], gaps: tuple[tuple[int, int], ...]) -> None:
    """What is written beside a source offset is read back as it was, and fits the broker's limit."""
    text = encode_metadata("u" * 22, batch, Accounting(*numbers), "r1", batch, gaps)

    assert decode_metadata(5, text, "here") == SafeOffset(5, "u" * 22, batch, Accounting(*numbers), "r1", batch, gaps)
    assert len(text) < 4096


def test_metadata_of_before_gaps_is_read() -> None:
    """Offsets committed by a version that knew no gaps have seven totals; nothing was lost then."""
    text = '{"topic_id":"u","run":"r1","batch":3,"totals":[7,6,0,0,0,1,6]}'

    assert decode_metadata(7, text, "here") == SafeOffset(7, "u", 3, Accounting(7, 6, 0, 0, 0, 1, 6), "r1")


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), max_size=3 * MAX_GAPS))
def test_gaps_are_kept_apart_in_order_and_bounded(steps: list[tuple[int, int]]) -> None:
    """Gaps that touch become one, the newest are kept, and the newest of all is never cut."""
    gaps: tuple[tuple[int, int], ...] = ()
    at = 0
    every: set[int] = set()
    for distance, length in steps:
        gaps = add_gap(gaps, at + distance, at + distance + length)
        every |= set(range(at + distance, at + distance + length))
        at += distance + length

    assert len(gaps) <= MAX_GAPS
    assert all(first[1] < second[0] for first, second in itertools.pairwise(gaps))
    kept = {offset for start, end in gaps for offset in range(start, end)}
    assert kept == {offset for offset in every if offset >= min(kept)} if gaps else not every


@pytest.mark.parametrize("text", ["", "x", "{}", '{"topic_id": "a"}', "[]"])
def test_foreign_metadata_is_refused(text: str) -> None:
    """An offset that something else committed is never taken for ours."""
    with pytest.raises(StateDisagreement):
        decode_metadata(5, text, "here")


def test_first_run_starts_at_the_log_start_or_end() -> None:
    """A pipeline that never ran starts where `starting_offsets` says."""
    now = {("a", 0): facts(10, 50)}

    start = decide_start("p", {}, now, None, "earliest")
    assert (start.positions, start.first_run, start.base_batch) == ({("a", 0): 10}, True, 0)
    assert decide_start("p", {}, now, None, "latest").positions == {("a", 0): 50}


def test_a_later_run_ignores_starting_offsets() -> None:
    """A pipeline that has run goes on at its safe offset, whatever `starting_offsets` says."""
    start = decide_start("p", {("a", 0): safe(20, 7)}, {("a", 0): facts(10, 50)}, None, "latest")

    assert start.positions == {("a", 0): 20}
    assert start.batch == 7
    assert start.first_run is False


def test_a_grown_topic_is_read_from_its_log_start() -> None:
    """A partition never named before is read from its beginning, also with `latest`, once the pipeline has run."""
    start = decide_start("p", {("a", 0): safe(20)}, {("a", 0): facts(0, 50), ("a", 1): facts(0, 9)}, None, "latest")

    assert start.positions == {("a", 0): 20, ("a", 1): 0}


def test_a_missing_offset_of_a_named_partition_stops_the_start() -> None:
    """A group that lost the offset of a partition it had announced is never read as new."""
    chain = [SourceRange("a", T, 0, 0, 20), SourceRange("a", T, 1, 0, 5)]

    with pytest.raises(StateDisagreement, match="has no offset") as caught:
        decide_start("p", {("a", 0): safe(20)}, {("a", 0): facts(0, 50), ("a", 1): facts(0, 9)}, chain, "earliest")
    assert (caught.value.code, caught.value.place) == ("FLOE-R314", "a-1")
    assert "floe offsets set p --from-log" in caught.value.remedy


@pytest.mark.parametrize("group", [{}, {("a", 1): 3}])
@pytest.mark.parametrize(
    ("fact", "code"),
    [
        (None, "FLOE-R315"),  # deleted, or taken out of the file
        (PartitionFacts("another-id", 0, 9), "FLOE-R316"),
        (facts(7, 9), None),  # retention has passed it
        (facts(0, 4), "FLOE-R317"),  # the log ends in front of it
    ],
)
def test_the_log_is_named_as_a_remedy_only_where_its_offset_can_be_written_back(
    group: dict[tuple[str, int], int], fact: PartitionFacts | None, code: str | None
) -> None:
    """`floe offsets set --from-log` would refuse it; so the start names what is wrong with the partition itself."""
    chain = [SourceRange("a", T, 0, 0, 20), SourceRange("a", T, 1, 0, 5)]
    now = {("a", 0): facts(0, 50)} | ({} if fact is None else {("a", 1): fact})
    held = {("a", 0): safe(20)} | {key: safe(offset) for key, offset in group.items()}
    with pytest.raises(FloeError) as caught:
        decide_start("p", held, now, chain, "earliest")
    assert caught.value.code not in ("FLOE-R314", "FLOE-R105")
    assert code in (None, caught.value.code)


def test_a_group_that_disagrees_with_the_chain_stops_the_start() -> None:
    """Group offsets that were moved by hand are refused, with both values."""
    with pytest.raises(StateDisagreement, match=r"10.*20"):
        decide_start("p", {("a", 0): safe(10)}, {("a", 0): facts(0, 50)}, [SourceRange("a", T, 0, 0, 20)], "earliest")


@pytest.mark.parametrize(
    ("fact", "error"),
    [
        (facts(30, 50), DataLossError),
        (facts(0, 10), DataLossError),
        (facts(0, 50, "topic-id-2"), StateDisagreement),
    ],
    ids=["retention passed", "beyond the end", "recreated"],
)
def test_an_offset_outside_its_log_stops(fact: PartitionFacts, error: type[Exception]) -> None:
    """An offset before the log's start, behind its end, or of another incarnation stops start and running job alike."""
    with pytest.raises(error):
        decide_start("p", {("a", 0): safe(20)}, {("a", 0): fact}, None, "earliest")
    with pytest.raises(error):
        check_still_readable("p", {("a", 0): 20}, {"a": T}, {("a", 0): fact})


def test_skip_and_record_goes_on_behind_what_retention_removed() -> None:
    """With `skip_and_record` what is gone is a gap to be recorded; what cannot be retention is refused all the same."""
    now = {("a", 0): facts(30, 50), ("a", 1): facts(0, 9)}

    start = decide_start("p", {("a", 0): safe(20), ("a", 1): safe(5)}, now, None, "earliest", SKIP_AND_RECORD)
    assert start.positions == {("a", 0): 20, ("a", 1): 5}, "the gap is announced from where the chain ended"
    check_still_readable("p", start.positions, {"a": T}, now, SKIP_AND_RECORD)
    assert find_gaps(start.positions, now) == (SourceRange("a", T, 0, 20, 30),)
    assert find_gaps({("a", 0): 30}, now) == ()

    for fact in (facts(0, 10), facts(30, 50, "topic-id-2")):
        with pytest.raises(StateDisagreement):
            check_still_readable("p", {("a", 0): 20}, {"a": T}, {("a", 0): fact}, SKIP_AND_RECORD)


def test_a_vanished_partition_stops() -> None:
    """A partition that was read and is gone is refused, not forgotten."""
    with pytest.raises(StateDisagreement, match="taken out of the file"):
        decide_start("p", {("a", 0): safe(20), ("a", 1): safe(2)}, {("a", 0): facts(0, 50)}, None, "earliest")


@given(st.dictionaries(KEYS, st.tuples(st.integers(0, 1000), st.integers(0, 1000)), max_size=8), st.integers(1, 3000))
def test_ends_stay_within_backlog_and_cap(spans: dict[tuple[str, int], tuple[int, int]], cap: int) -> None:
    """A batch never goes behind the ends, never back, keeps to its cap, and makes progress when there is any
    backlog."""
    positions = {k: a for k, (a, _) in spans.items()}
    ends = {k: a + n for k, (a, n) in spans.items()}

    planned = plan_ends(positions, ends, cap)

    taken = {k: planned[k] - positions[k] for k in positions}
    assert all(0 <= taken[k] <= spans[k][1] for k in positions)
    assert sum(taken.values()) <= max(cap, sum(1 for _, n in spans.values() if n))
    assert (sum(taken.values()) > 0) == any(n for _, n in spans.values())


@given(
    st.dictionaries(KEYS, st.tuples(st.integers(0, 10**9), st.integers(0, 10**6)), max_size=8),
    st.integers(1, 16),
    st.integers(1, 10**5),
)
def test_tasks_cover_the_ranges_exactly(spans: dict[tuple[str, int], tuple[int, int]], tasks: int, least: int) -> None:
    """The tasks of a batch cover every offset once, in no more tasks than asked for."""
    start = {k: a for k, (a, _) in spans.items()}
    end = {k: a + n for k, (a, n) in spans.items()}

    bundles = cut_tasks(start, end, tasks, least)

    total = sum(end[key] - start[key] for key in end)
    assert all(type(number) is int for b in bundles for s in b for number in (s.start, s.end)), (
        "they are written as JSON"
    )
    assert len(bundles) <= min(tasks, -(-total // max(1, least)))
    assert all(bundles)
    pieces = sorted((s.topic, s.partition, s.start, s.end) for b in bundles for s in b)
    at = dict(start)
    for topic, partition, begin, stop in pieces:
        assert begin == at[topic, partition]
        assert stop > begin
        at[topic, partition] = stop
    assert at == end


def test_read_back_tells_announced_from_not() -> None:
    """After an unknown outcome: at the end, announced; at the start, not; anywhere else, stop."""
    ranges = [SourceRange("a", T, 0, 10, 20), SourceRange("a", T, 1, 5, 5)]

    assert read_back("p", "r1", 4, ranges, {("a", 0): safe(20, 4), ("a", 1): safe(5, 4)}) == AnnounceState.ANNOUNCED
    assert read_back("p", "r1", 4, ranges, {("a", 0): safe(10, 3), ("a", 1): safe(5, 3)}) == AnnounceState.NOT_ANNOUNCED
    assert read_back("p", "r1", 4, ranges, {}) == AnnounceState.NOT_ANNOUNCED
    with pytest.raises(StateDisagreement):
        read_back("p", "r1", 4, ranges, {("a", 0): safe(20, 4, run="r2"), ("a", 1): safe(5, 4, run="r2")})
    with pytest.raises(StateDisagreement):
        read_back("p", "r1", 4, ranges, {("a", 0): safe(15, 3), ("a", 1): safe(5, 3)})


def test_a_run_that_was_replaced_stops() -> None:
    """Offsets of a run that is neither this one nor the one before it mean that this run has been replaced."""
    check_owner("p", {"r1", "r0"}, {("a", 0): safe(20, run="r1"), ("a", 1): safe(5, run="r0")})

    with pytest.raises(FencedError, match="r2"):
        check_owner("p", {"r1", "r0"}, {("a", 0): safe(20, run="r2")})


def test_what_retention_took_of_several_partitions_is_settled_by_one_command() -> None:
    """The command that is shown goes on behind every gap: one for the first alone would be refused by the next start."""
    log = {("a", 0): facts(30, 50), ("a", 1): facts(0, 50), ("b", 2): facts(25, 50)}
    places = dict.fromkeys(log, 20)
    with pytest.raises(DataLossError, match=r"records 20 to 29 of a-0 .* and so were records of 1 other") as start:
        decide_start("p", dict.fromkeys(log, safe(20)), log, None, "earliest")
    with pytest.raises(DataLossError) as running:
        check_still_readable("p", places, {"a": T, "b": T}, log)
    assert "`floe offsets set p a:0=30 b:2=25 --allow-loss`" in start.value.remedy == running.value.remedy


def test_a_topic_that_was_recreated_is_known_by_the_group_or_by_what_was_announced() -> None:
    """With a topic the broker deletes the group's offsets of it: then the newest announcement says which one was read. Where
    the group holds an offset again, that counts; a topic that is not there is not recreated."""
    read, former = SafeOffset(3, "new", 1, Accounting()), SourceRange("t", "old", 0, 0, 3)
    assert recreated_topics({("t", 0): replace(read, topic_id="old")}, (), {"t": "new"}) == ("t",)
    assert recreated_topics({}, (former,), {"t": "new"}) == ("t",)
    assert recreated_topics({("t", 0): read}, (former,), {"t": "new"}) == ()
    assert recreated_topics({}, (former,), {}) == ()
    assert recreated_topics({}, (replace(former, topic_id=""),), {"t": "new"}) == ()
