"""Moving source offsets by hand: what disagrees, what a move costs, and that nothing is lost or repeated without
consent."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.commit.events.event_types import Accounting, SourceRange
from framework.commit.offsets import PartitionFacts, SafeOffset, decide_start
from framework.commit.recovery.settle_offsets import (
    OffsetsOrigin,
    PartitionPlaces,
    PipelineOffsets,
    disagreements,
    settle,
)
from framework.errors import DataLossError, StateDisagreement


def place(partition: int = 0, **changes: object) -> PartitionPlaces:
    """A partition that everybody agrees about: read up to 50 of [0, 80)."""
    settled = PartitionPlaces(
        "src", partition, "id", 0, 80, group=50, group_topic_id="id", announced=50, announced_topic_id="id"
    )
    return replace(settled, **{"recorded": {"db.t": 50}, **changes})  # type: ignore[arg-type]


def places(*partitions: PartitionPlaces, **changes: object) -> PipelineOffsets:
    found = PipelineOffsets("p", "cluster", "control", "control-id", 7, 0, Accounting(), "", partitions or (place(),))
    return replace(found, **changes)  # type: ignore[arg-type]


def test_where_all_agree_nothing_moves() -> None:
    """From the log, from the tables: the same offsets, nothing lost or repeated, and the tables' guard stays."""
    assert disagreements(places()) == ()
    for origin in (OffsetsOrigin.LOG, OffsetsOrigin.TABLES):
        found = settle(places(), origin, {})
        assert [(m.before, m.after) for m in found.moves] == [(50, 50)]
        assert (found.lost, found.repeated, found.batch, found.base_batch) == (0, 0, 8, 0)


@pytest.mark.parametrize(
    ("partition", "said"),
    [
        (place(group=None), "announced up to 50, the group has no offset"),
        (place(group=70), "announced up to 50, the group's offset is 70"),
        (place(announced=None), "knows no announcement"),
        (place(recorded={"db.t": 60}), "table db.t holds records up to 60, announced is 50"),
        (place(announced_topic_id="old"), "recreated"),
        (place(topic_id=None), "taken out of the file"),
        (place(log_start=60), "records 50 to 59 were removed by retention"),
        (place(log_end=40), "the log ends at 40"),
    ],
)
def test_every_disagreement_is_said_with_both_values(partition: PartitionPlaces, said: str) -> None:
    """Each place that does not fit is named, in one sentence."""
    assert any(said in line for line in disagreements(places(partition)))


@pytest.mark.parametrize("group", [None, 20, 70])
def test_group_offsets_that_went_away_or_were_moved_come_back_from_the_log(group: int | None) -> None:
    """What is announced counts, whatever the group says: nothing is lost and nothing repeated."""
    found = settle(places(place(group=group)), OffsetsOrigin.LOG, {})
    assert [(m.before, m.after, m.lost, m.repeated) for m in found.moves] == [(group, 50, 0, 0)]


def test_a_move_forwards_loses_and_needs_consent_by_name() -> None:
    """Records that would never be read are counted, and --allow-duplicates does not allow their loss."""
    with pytest.raises(DataLossError, match=r"10 records of src:0 before 60"):
        settle(places(), OffsetsOrigin.GIVEN, {("src", 0): 60}, allow_duplicates=True)
    found = settle(places(), OffsetsOrigin.GIVEN, {("src", 0): 60}, allow_loss=True)
    assert (found.lost, found.base_batch) == (10, found.batch)


def test_a_move_backwards_repeats_and_needs_consent_by_name() -> None:
    """Records that would be added a second time are counted, and --allow-loss does not allow them."""
    with pytest.raises(StateDisagreement, match=r"15 records of src:0 from 35 on"):
        settle(places(), OffsetsOrigin.GIVEN, {("src", 0): 35}, allow_loss=True)
    found = settle(places(), OffsetsOrigin.GIVEN, {("src", 0): 35}, allow_duplicates=True)
    assert (found.repeated, found.base_batch) == (15, found.batch)


def test_records_that_retention_removed_are_given_up_by_name() -> None:
    """The only way on is to the log's start, and the gap is counted as lost."""
    gone = places(place(log_start=60))
    with pytest.raises(StateDisagreement, match="60 to 80"):
        settle(gone, OffsetsOrigin.LOG, {})
    with pytest.raises(DataLossError):
        settle(gone, OffsetsOrigin.GIVEN, {("src", 0): 60})
    assert settle(gone, OffsetsOrigin.GIVEN, {("src", 0): 60}, allow_loss=True).lost == 10


def test_a_recreated_topic_is_crossed_by_name_only() -> None:
    """Invariant 11: what is known of the former topic is never used for the new one."""
    other = places(place(topic_id="new"))
    with pytest.raises(StateDisagreement, match="recreated"):
        settle(other, OffsetsOrigin.LOG, {})
    with pytest.raises(DataLossError, match="former topic src"):
        settle(other, OffsetsOrigin.GIVEN, {("src", 0): 0})
    found = settle(other, OffsetsOrigin.GIVEN, {("src", 0): 0}, allow_loss=True)
    assert (found.moves[0].topic_id, found.repeated, found.recreated) == ("new", 0, ("src",))


def test_a_partition_that_is_gone_is_forgotten_by_consent() -> None:
    """The others go on from the log."""
    some = places(place(0), place(1, topic_id=None))
    with pytest.raises(DataLossError, match="src:1, which was deleted"):
        settle(some, OffsetsOrigin.LOG, {})
    found = settle(some, OffsetsOrigin.LOG, {}, allow_loss=True)
    assert ([m.partition for m in found.moves], found.forgotten) == ([0], ("src:1",))


def test_tables_that_differ_may_lack_records_when_no_log_knows_of_them() -> None:
    """From the tables means from the furthest one; a table behind it may lose what no announcement names."""
    lost_log = places(place(group=None, announced=None, announced_topic_id=None, recorded={"db.t": 50, "db.u": 30}))
    with pytest.raises(DataLossError, match=r"db\.u holds records up to 30"):
        settle(lost_log, OffsetsOrigin.TABLES, {})
    assert settle(lost_log, OffsetsOrigin.TABLES, {}, allow_loss=True).moves[0].after == 50


def test_a_place_that_knows_nothing_is_refused() -> None:
    """Neither a log without announcements nor tables without a record give offsets; an unknown partition is named."""
    empty = places(place(group=None, announced=None, announced_topic_id=None, recorded={}))
    empty = replace(empty, partitions=(replace(empty.partitions[0], recorded={}),))
    for origin in (OffsetsOrigin.LOG, OffsetsOrigin.TABLES):
        with pytest.raises(StateDisagreement, match="no offsets of pipeline p"):
            settle(empty, origin, {})
    with pytest.raises(StateDisagreement, match="other:3"):
        settle(places(), OffsetsOrigin.GIVEN, {("other", 3): 5})


@st.composite
def any_places(draw: st.DrawFn) -> PipelineOffsets:
    start, width = draw(st.integers(0, 60)), draw(st.integers(0, 60))
    inside = st.integers(start, start + width)
    ends = st.one_of(inside, inside, inside, inside, inside, st.none(), st.integers(0, 130))
    found = [
        PartitionPlaces(
            "src",
            number,
            draw(st.sampled_from(["id"] * 8 + ["new", None])),
            start,
            start + width,
            group=draw(ends),
            group_topic_id="id",
            announced=(announced := draw(ends)),
            announced_topic_id=None if announced is None else "id",
            recorded=draw(st.dictionaries(st.sampled_from(["db.t", "db.u"]), inside | st.integers(0, 130))),
        )
        for number in range(draw(st.integers(1, 3)))
    ]
    return places(*found, broken=draw(st.sampled_from(["", "a gap"])))


def test_what_is_not_named_stays_where_it_is() -> None:
    """Offsets that are given by hand move these partitions alone, and the totals of the pipeline go on."""
    before = places(place(0), place(1), totals=Accounting(offsets=100, written=100))
    settled = settle(before, OffsetsOrigin.GIVEN, {("src", 0): 60}, True, True)
    assert {(move.partition, move.after) for move in settled.moves} == {(0, 60), (1, 50)}
    assert settled.totals == before.totals


def test_nothing_is_lost_or_repeated_without_consent() -> None:
    """Whatever the places say: without a flag no move loses or repeats, and every new offset is in its log."""
    settled = Counter[bool]()

    @settings(max_examples=300)
    @given(any_places(), st.sampled_from(OffsetsOrigin), st.lists(st.integers(-3, 63), max_size=4), st.booleans())
    def settle_anything(found: PipelineOffsets, origin: OffsetsOrigin, shifts: list[int], consent: bool) -> None:
        given_offsets = {p.key: (p.log_start or 0) + shift for p, shift in zip(found.partitions, shifts, strict=False)}
        asked = given_offsets if origin is OffsetsOrigin.GIVEN else {}
        try:
            result = settle(found, origin, asked, consent, consent)
        except StateDisagreement:
            return
        settled[consent] += 1
        there = {p.key: p for p in found.partitions}
        for move in result.moves:
            p = there[move.topic, move.partition]
            assert p.log_start is not None
            assert p.log_end is not None
            assert p.log_start <= move.after <= p.log_end
            if not consent:
                assert p.reached in (None, move.after)
                assert p.announced_topic_id in (None, p.topic_id)
        assert result.batch > found.batch

    settle_anything()
    assert settled[True] >= 5, "hardly anything was settled with consent"
    assert settled[False] >= 10, "hardly anything was settled without"


A_PARTITION = st.tuples(
    st.none() | st.integers(0, 9),  # the group's offset
    st.none() | st.integers(0, 9),  # announced up to
    st.none() | st.sampled_from([("id", 0, 9), ("id", 3, 9), ("id", 0, 4), ("other", 0, 9)]),  # the broker's facts
)


@given(st.lists(A_PARTITION, min_size=1, max_size=3), st.sampled_from(["fail", "skip_and_record"]))
def test_who_does_what_a_start_says_is_not_refused(
    partitions: list[tuple[int | None, int | None, tuple[str, int, int] | None]], policy: str
) -> None:
    """A start that names `floe offsets set --from-log` without any consent is right: whatever else is wrong with another
    partition is said instead, since the command would be refused for it."""
    group, facts, chain, seen = {}, {}, [], []
    for number, (offset, announced, fact) in enumerate(partitions):
        key = ("src", number)
        if offset is not None:
            group[key] = SafeOffset(offset, "id", 3, Accounting())
        if announced is not None:
            chain.append(SourceRange("src", "id", number, announced, announced))
        if fact is not None:
            facts[key] = PartitionFacts(*fact)
        topic_id, start, end = fact or (None, None, None)
        group_id, announced_id = ("id" if offset is not None else None), ("id" if announced is not None else None)
        seen.append(PartitionPlaces("src", number, topic_id, start, end, offset, group_id, announced, announced_id, {}))
    try:
        decide_start("p", group, facts, chain or None, "earliest", policy)
    except (StateDisagreement, DataLossError) as error:
        if "--from-log`" in error.remedy:
            assert settle(places(*seen), OffsetsOrigin.LOG, {}).lost == 0
