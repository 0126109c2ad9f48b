"""What the simulator found in decisions about recovery, each in its smallest form."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from framework.commit.events.event_types import Accounting, Heartbeat, SourceRange
from framework.commit.file_ages import DAY_MS, ClockReading, earliest_ms
from framework.commit.machine.effects import ClockSetBack, PipelineProgress, Read, TableProgress
from framework.commit.machine.fifo import Fifo
from framework.commit.machine.fold import fold
from framework.commit.machine.model import Announcement, CoordinatorState, PipelineState, TableState
from framework.commit.machine.progress.chain import Fit, check_recorded
from framework.commit.machine.progress.examine import rollback_commands
from framework.commit.machine.progress.recorded import is_off_line, made_in, merge, parse
from framework.commit.machine.queues import queue_announcement
from framework.commit.machine.reporting.blocked_remedies import blocked_remedy
from framework.commit.machine.step import step
from framework.commit.machine.step_draft import StepDraft
from framework.commit.offset_ranges import OffsetRanges
from framework.commit.offsets import PartitionFacts, SafeOffset, decide_start, first_position
from framework.commit.recovery.held import HeldBy
from framework.commit.recovery.missing import Gap, gaps_from, gaps_of, gaps_text
from framework.commit.recovery.rebase import RebaseChoice, RebaseFacts, plan_rebase
from framework.commit.recovery.rollback import (
    Announcements,
    RollbackFacts,
    SnapshotFacts,
    plan_rollback,
    without_unclear,
)
from framework.commit.recovery.settle_offsets import OffsetsOrigin, PartitionPlaces, PipelineOffsets, settle
from framework.commit.recovery.table_replay import comes_by_itself, plan_replay
from framework.errors import DataLossError, StateDisagreement, TableBlocked
from framework.recovery import rebase, rollback
from framework.recovery.recover_table import check_not_rolled_back
from tests.protocol.build import view, written


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


def test_a_partition_that_is_not_named_does_not_move() -> None:
    """Retention removed the chain, and what the group has read beyond the tables was given up: to go back to the tables'
    offset would bring it back."""
    named = PartitionPlaces("s", 0, "new", 0, 9, 5, "old")
    other = PartitionPlaces("t", 0, "id", 0, 9, 2, "id", None, None, {"db.t": 1})
    with pytest.raises(StateDisagreement, match="t:0 is not named") as refused:
        settle(places(named, other), OffsetsOrigin.GIVEN, {("s", 0): 0}, allow_loss=True)
    assert (refused.value.code, "`floe offsets set p s:0=0 t:0=2 --allow-loss`" in refused.value.remedy) == (
        "FLOE-R347",
        True,
    )
    both = settle(places(named, other), OffsetsOrigin.GIVEN, {("s", 0): 0, ("t", 0): 2}, allow_loss=True)
    assert [(move.topic, move.after) for move in both.moves] == [("s", 0), ("t", 2)]
    for same in (replace(other, group=1), replace(other, announced=2, announced_topic_id="id")):
        assert (
            settle(places(named, same), OffsetsOrigin.GIVEN, {("s", 0): 0}, allow_loss=True).moves[1].after
            == same.group
        )


def test_a_table_goes_back_under_no_replay_that_would_double_its_rows() -> None:
    """Others deleted rows, a replay has announced them again, and the older snapshot holds them: they would be there twice."""
    plan = SimpleNamespace(table="db.t", snapshot_id=1)
    at = SimpleNamespace(catalog=SimpleNamespace(rows_in=lambda table, ranges, snapshot: 2 if ranges else 0))
    again, own = written("p.replay.1", 1), written("p", 4)
    for harmless in (Announcements((again,), 0), Announcements((own,), 0, (own,))):
        rollback._refuse_doubled(at, plan, harmless, ())  # type: ignore[arg-type]
    with pytest.raises(StateDisagreement, match="2 rows that a replay has announced") as refused:
        rollback._refuse_doubled(at, plan, Announcements((again,), 0, (again,)), ())  # type: ignore[arg-type]
    assert refused.value.code == "FLOE-R359"
    # What a replay by another control topic has read may wait there, whatever this log holds.
    with pytest.raises(StateDisagreement, match="2 rows that a replay has announced"):
        rollback._refuse_doubled(at, plan, Announcements((), 0), again.ranges)  # type: ignore[arg-type]


def test_where_only_the_group_knows_a_partition_it_is_to_be_named() -> None:
    """In a control topic that was made anew nobody knows whether what the group has read came into any table: what was
    announced in the former one would be lost without a word. Nothing was read in front of a log's start."""
    named = PartitionPlaces("s", 0, "new", 0, 9, 5, "old")
    only_read = PartitionPlaces("t", 0, "id", 0, 9, 3, "id")
    with pytest.raises(StateDisagreement, match="no table holds any of it, the group's offset is 3") as refused:
        settle(places(named, only_read), OffsetsOrigin.GIVEN, {("s", 0): 0}, allow_loss=True)
    assert refused.value.code == "FLOE-R347"
    assert "`floe offsets set p s:0=0 t:0=3 --allow-loss` goes on where the group is" in refused.value.remedy
    assert "`floe offsets set p s:0=0 t:0=0 --allow-loss` where the tables are" in refused.value.remedy
    for unread in (replace(only_read, group=0), replace(only_read, group=4, log_start=4)):
        assert len(settle(places(named, unread), OffsetsOrigin.GIVEN, {("s", 0): 0}, allow_loss=True).moves) == 2


def test_what_the_group_has_read_beyond_the_tables_is_counted_as_repeated() -> None:
    """Where the log does not say, what lies between may have been given up, and nobody wants it back in silence."""
    one = PartitionPlaces("t", 0, "id", 0, 9, 4, "id", None, None, {"db.t": 3})
    with pytest.raises(StateDisagreement, match="a second time, 2 records of t:0 from 2 on"):
        settle(places(one), OffsetsOrigin.GIVEN, {("t", 0): 2})
    with pytest.raises(StateDisagreement, match="a second time, 1 record of t:0 from 3 on"):
        settle(places(one), OffsetsOrigin.TABLES, {})
    there = settle(places(one), OffsetsOrigin.GIVEN, {("t", 0): 4}, allow_loss=True)
    assert (there.lost, there.repeated) == (1, 0)


def test_a_topic_that_comes_back_recreated_is_not_read_by_itself() -> None:
    """Its tables hold records of the topic before, and would block: a person says where to begin."""
    fact = PartitionFacts("new", 0, 9)
    with pytest.raises(StateDisagreement, match="recreated") as refused:
        first_position("p", ("t", 0), fact, (SourceRange("t", "old", 0, 4, 4),))
    assert refused.value.code == "FLOE-R316"
    assert first_position("p", ("t", 0), PartitionFacts("old", 0, 9), (SourceRange("t", "old", 0, 4, 4),)) == 4


def test_rebase_leaves_what_waits_of_a_recreated_topic() -> None:
    """Under the record of the new topic no table would take it any more, and no verb would settle that."""
    facts = RebaseFacts(
        "p", "c", "control", "id", {("t", 0): PartitionFacts("new", 0, 9)}, {}, {("t", 0): SourceRange("t", "old", 0, 3, 3)},
        "", (HeldBy("db.t", (), None),), ("db.t",), 1, Accounting(),
    )  # fmt: skip
    with pytest.raises(StateDisagreement, match=r"with id old wait for table db\.t") as refused:
        plan_rebase(facts, RebaseChoice(from_log_start=True))
    assert "`floe offsets set p t:0=0 --allow-loss`" in refused.value.remedy
    assert plan_rebase(replace(facts, waiting=()), RebaseChoice(from_log_start=True)).partitions[0].after == 0


def test_a_clock_that_is_set_back_makes_no_announcement_younger() -> None:
    """Two days ahead, then two days behind: four days later the moment would look like now."""
    seen, later = ClockReading(10 * DAY_MS, 0), ClockReading(6 * DAY_MS, 0)
    assert earliest_ms(seen, later) == 2 * DAY_MS
    assert earliest_ms(seen, ClockReading(11 * DAY_MS, DAY_MS)) == 10 * DAY_MS


def test_both_ways_to_settle_a_rollback_by_others_are_whole_commands() -> None:
    """Each is typed as it stands, and says what it does."""
    said = rollback_commands("db.t", 7)
    assert "`floe rollback --table db.t --to 7 --replay`" in said
    assert "`floe rollback --table db.t --to 7 --skip` gives them up" in said
    assert "--to 7 --replay --dry-run" in blocked_remedy("db.t", f"it was rolled back: x; {said}")


@pytest.mark.parametrize(("batch", "start", "end"), [(3, 4, 7), (3, 1, 7), (2, 4, 7), (1, 3, 4)])
def test_a_batch_that_disagrees_with_the_record_names_the_rebase(batch: int, start: int, end: int) -> None:
    """A gap, an overlap, the number that the table records or one before it, with other offsets: `floe offsets set` would
    go on where the chain ends and change nothing, so the remedy is a rebase."""
    recorded = PipelineProgress(2, {"t": {"0": 3}}, {"t": "id"})
    found = check_recorded(recorded, written("orders", batch, source=(SourceRange("t", "id", 0, start, end),)))
    assert found.fit is Fit.BROKEN
    assert "floe rebase FILE --dry-run" in blocked_remedy("db.t", f"pipeline orders: {found.reason}")


def test_a_table_that_is_moved_behind_a_rebase_was_rolled_back() -> None:
    """In a control topic that was made anew its record begins at offset 0, and 0 is what an older branch seems to hold."""
    old = SnapshotFacts(1, None, 1, "append", 2, 4, "old")
    lost = SnapshotFacts(2, 1, 2, "append", 3, 9, "old")
    begun = SnapshotFacts(3, 2, 3, "append", 0, 0, "new", recovery="rebase", headed_at=2)
    facts = RollbackFacts("db.t", "new", TableProgress("new", 0), (old,), (lost, begun), True)
    assert not plan_rollback(facts, old, False).settled
    with pytest.raises(StateDisagreement, match="snapshot 2 was made by another control topic"):
        plan_rollback(facts, old, True)
    sound = replace(facts, ancestry=(begun, lost, old), beside=())
    assert plan_rollback(sound, begun, True).settled
    moved = view(progress=TableProgress("new", 0), snapshot_control_offset=0, is_older=True)
    with pytest.raises(TableBlocked, match="older than that record"):
        check_not_rolled_back(moved)
    check_not_rolled_back(replace(moved, is_older=False))


def test_a_topic_that_comes_back_beside_a_quiet_table_is_no_gap() -> None:
    """A table without rows of the last batches of a topic records less than was read when the topic was taken out. The
    run that reads it again begins under a number of its own; a gap between consecutive batches is one as before."""
    facts = {("t", 0): PartitionFacts("id", 0, 9), ("s", 0): PartitionFacts("id", 0, 9)}
    group = {("s", 0): SafeOffset(9, "id", 6, Accounting(), base_batch=5)}
    left, chain = (SourceRange("t", "id", 0, 5, 5),), (SourceRange("s", "id", 0, 9, 9),)
    start = decide_start("p", group, facts, chain, "earliest", given_up=left)
    assert (start.batch, start.claimed_batch, start.positions["t", 0]) == (6, 7, 5)
    assert decide_start("p", group, {("s", 0): facts["s", 0]}, chain, "earliest", given_up=left).claimed_batch == 6
    held = PipelineProgress(6, {"t": {"0": 4}, "s": {"0": 9}}, {"t": "id", "s": "id"})
    ranges = (SourceRange("t", "id", 0, 5, 7), SourceRange("s", "id", 0, 9, 9))
    assert check_recorded(held, written("p", start.claimed_batch + 1, source=ranges)).fit is Fit.FOLLOWS
    assert check_recorded(held, written("p", 7, source=ranges)).fit is Fit.BROKEN


def test_a_partition_that_comes_back_says_nothing_of_what_was_read() -> None:
    """The heartbeat with which it does has a number of its own, as one of a pipeline that had nothing to read."""
    link = Heartbeat("p", "r", 6, (SourceRange("s", "id", 0, 9, 9),), Accounting())
    pipeline = PipelineState("p", link=link, newest_ms=500, valid_through_ms=300)
    both = (*link.ranges, SourceRange("t", "id", 0, 5, 5))
    draft = StepDraft(CoordinatorState(pipelines={"p": pipeline}), 0)
    fold(draft, Read(0, replace(link, batch=7, ranges=both), 0, 0))
    assert draft.state.pipelines["p"].valid_through_ms == 300
    fold(draft, Read(1, replace(link, batch=8, ranges=both), 0, 0))
    assert draft.state.pipelines["p"].valid_through_ms == 500


def test_a_list_that_nobody_can_bring_in_line_is_not_left_in_silence() -> None:
    """Others moved the table to what it lacked, and retention removed the announcements: what they delete then would come
    back with the next replay."""
    here = SnapshotFacts(2, 1, 2, "append", 3, 9, "id")
    facts = RollbackFacts("db.t", "id", TableProgress("id", 9), (here,), (), True)
    gaps = (Gap("g", "p", (SourceRange("t", "id", 0, 4, 6),)), Gap("h", "p", (SourceRange("t", "id", 0, 8, 9),)))
    plan = replace(plan_rollback(facts, here, True), noted=gaps, gaps=gaps)
    assert plan.settled
    assert without_unclear(plan, {"g": 0, "h": 0}) == plan
    with pytest.raises(StateDisagreement, match="2 rows of what its own list says it lacks") as refused:
        without_unclear(plan, {"g": 2, "h": 0})
    assert "`floe rollback --table db.t --to 2 --skip`" in refused.value.remedy
    skipped = without_unclear(replace(plan, replay=False), {"g": 2, "h": 0})
    assert (skipped.gaps, skipped.unclear, skipped.settled) == (gaps[1:], gaps[:1], False)


def test_a_record_names_the_snapshot_in_which_it_was_made() -> None:
    """Who moves a branch off the line of that snapshot is seen, also to a snapshot with the same offset, and also where no
    other of floe's is left. What has expired says nothing; neither does a record of an older version."""
    text = merge(made_in(merge(None, TableProgress("one", 4)), "one", 7), TableProgress("two", 0))
    assert parse(text, "one") == TableProgress("one", 4)
    for line, moved in (
        ((9, 8, 7, 6), False),
        ((6, 5), True),
        ((9, 6), True),
        ((9, 8), False),
        ((), False),
        ((None,), True),
    ):
        assert is_off_line(text, "one", line) is moved
    assert not is_off_line(text, "two", (6, 5))
    assert not is_off_line(None, "one", (6, 5))
    onto_another_branch = merge(text, TableProgress("one", 5))
    assert is_off_line(onto_another_branch, "one", (6,))
    assert not is_off_line(made_in(onto_another_branch, "one", 6), "one", (6,))


def test_a_table_that_is_moved_to_what_floe_had_rolled_back_waits() -> None:
    """Its list of what it lacks belongs to the other line: what others delete here would come back with a replay."""
    moved = view(progress=TableProgress("id", 9), snapshot_control_offset=9, is_older=True)
    with pytest.raises(TableBlocked, match="progress 9 is recorded, its branch main is older than that record"):
        check_not_rolled_back(moved)
    with pytest.raises(TableBlocked, match="its branch main holds 4"):
        check_not_rolled_back(replace(moved, snapshot_control_offset=4))
    with pytest.raises(TableBlocked):
        check_not_rolled_back(replace(moved, snapshot_control_offset=None))
    first = SnapshotFacts(1, None, 1, "append", 2, 4, "id")
    here = SnapshotFacts(2, 1, 2, "append", 3, 9, "id", headed_at=3)
    back = SnapshotFacts(3, 1, 3, "append", 0, 9, "id", recovery="rollback", headed_at=2)
    facts = RollbackFacts("db.t", "id", TableProgress("id", 9), (here, first), (back,), True, off_line=True)
    for replay in (True, False):
        plan = plan_rollback(facts, here, replay)
        assert (plan.settled, plan.given_up) == (False, ())
        assert plan_rollback(replace(facts, off_line=False), here, replay).settled


def test_a_rebase_changes_no_table_while_one_is_rolled_back() -> None:
    """Those before it would be under the new record and wait for it, and the pipeline begins in neither."""
    sound = view(progress=TableProgress("id", 9), snapshot_control_offset=9)
    views = {"db.a": sound, "db.b": replace(sound, table="db.b", snapshot_control_offset=4), "db.c": None}
    at = SimpleNamespace(catalog=SimpleNamespace(load_view=lambda name, branch, topic_id: views[name]))
    rebase._check_none_rolled_back(at, ["db.a", "db.c"], "id")  # type: ignore[arg-type]
    with pytest.raises(TableBlocked, match=r"db\.b was rolled back"):
        rebase._check_none_rolled_back(at, sorted(views), "id")  # type: ignore[arg-type]


def test_a_clock_that_is_set_back_while_files_wait_makes_them_no_younger() -> None:
    """Announced when the clock was two days ahead, and committed four days later when it is two days behind: by the time of
    day no moment has passed, and others may have removed the files."""
    assert ClockReading(10 * DAY_MS, 0).set_back_ms(ClockReading(10 * DAY_MS, 4 * DAY_MS)) == 4 * DAY_MS
    assert ClockReading(10 * DAY_MS, 0).set_back_ms(ClockReading(11 * DAY_MS, 5)) < 0
    event = written("p", 1)
    waiting = [Announcement(3, event, after_ms=10 * DAY_MS), Announcement(5, event)]
    table = queue_announcement(TableState(event.table, "main", event.commit), waiting[0], 0)
    table = queue_announcement(table, waiting[1], 0)
    state = CoordinatorState(assigned=True, tables={table.table: table, "db.empty": replace(table, pending=Fifo())})
    after, effects = step(state, ClockSetBack(4 * DAY_MS), 10 * DAY_MS)
    assert effects == ()
    assert [a.after_ms for a in after.tables[table.table].pending] == [6 * DAY_MS, None]
    assert after.tables[table.table].pending_rows == table.pending_rows
    assert [a.after_ms for a in state.tables[table.table].pending] == [10 * DAY_MS, None]
