"""What the simulator found in decisions about recovery, each in its smallest form."""

from __future__ import annotations

import pytest

from framework.commit.events.event_types import Accounting, SourceRange
from framework.commit.offset_ranges import OffsetRanges
from framework.commit.offsets import PartitionFacts
from framework.commit.recovery.missing import Gap, gaps_from, gaps_of, gaps_text
from framework.commit.recovery.settle_offsets import OffsetsOrigin, PartitionPlaces, PipelineOffsets, settle
from framework.commit.recovery.table_replay import comes_by_itself, plan_replay
from framework.errors import DataLossError, StateDisagreement
from tests.protocol.build import written


def test_two_topics_of_one_name_are_in_gaps_of_their_own() -> None:
    """A gap's text has one id for each topic, so records of the topic before must not stand in it as this one's."""
    lacks = OffsetRanges.of((SourceRange("t", "old", 0, 4, 6), SourceRange("t", "new", 0, 0, 2)))
    gaps = gaps_from({"p": lacks}, "g")
    assert gaps_of(gaps_text(gaps)) == gaps
    assert OffsetRanges.of(r for gap in gaps for r in gap.ranges) == lacks
    assert all(len({r.topic_id for r in gap.ranges}) == 1 for gap in gaps)


def test_a_gap_of_a_topic_that_is_no_more_keeps_nobody_from_the_others() -> None:
    """What can be read is read; only where nothing can be is it refused."""
    old, new = Gap("g", "p", (SourceRange("t", "old", 0, 4, 6),)), Gap("h", "p", (SourceRange("t", "new", 0, 0, 2),))
    facts = {("t", 0): PartitionFacts("new", 0, 9)}
    assert plan_replay("db.t", "p", (old, new), None, 0, facts, False).gaps == (new,)
    with pytest.raises(StateDisagreement, match="now it is new"):
        plan_replay("db.t", "p", (old,), None, 0, facts, False)


def test_what_comes_by_itself_is_not_replayed() -> None:
    """Records that are announced for the table, or that the pipeline has not read yet, would come twice."""
    facts = {("t", 0): PartitionFacts("id", 0, 20)}
    event = written("p", 2, source=(SourceRange("t", "id", 0, 5, 10),))
    coming = comes_by_itself([(7, event)], 7, {("t", 0): 12}, facts)
    assert coming == OffsetRanges.of((SourceRange("t", "id", 0, 5, 10), SourceRange("t", "id", 0, 12, 20)))
    assert not comes_by_itself([(7, event)], 8, {("t", 0): 20}, facts)
    named = Gap("n", "p", (SourceRange("t", "id", 0, 9, 11),))
    with pytest.raises(StateDisagreement, match="by themselves"):
        plan_replay("db.t", "p", (), named, 0, facts, False, coming)
    assert plan_replay("db.t", "p", (), named, 0, facts, True, coming).gaps == (named,)


def places(*partitions: PartitionPlaces) -> PipelineOffsets:
    return PipelineOffsets("p", "c", "control", "control-id", 3, 0, Accounting(), "", partitions)


def test_records_that_only_the_group_knows_are_not_lost_in_silence() -> None:
    """Where retention removed the chain and no table holds any, the group's offset says what would be skipped."""
    one = PartitionPlaces("t", 0, "id", 0, 9, 2, "id")
    with pytest.raises(DataLossError):
        settle(places(one), OffsetsOrigin.GIVEN, {("t", 0): 5})
    assert settle(places(one), OffsetsOrigin.GIVEN, {("t", 0): 5}, True).lost == 3


def test_what_tables_hold_beyond_the_log_is_counted_as_repeated() -> None:
    """A move by hand makes the tables' records count no more, also for partitions that stay."""
    ahead = PartitionPlaces("t", 0, "id", 0, 9, 1, "id", 1, "id", {"db.t": 6})
    moved = PartitionPlaces("t", 1, "id", 0, 9, 4, "id", 4, "id", {"db.t": 4})
    with pytest.raises(StateDisagreement, match="a second time"):
        settle(places(ahead, moved), OffsetsOrigin.GIVEN, {("t", 1): 5}, allow_loss=True)
    assert settle(places(ahead, moved), OffsetsOrigin.LOG, {}).repeated == 0
