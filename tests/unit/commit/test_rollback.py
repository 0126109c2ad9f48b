"""Going back to an older snapshot and reading again what that gives up: what is decided, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from framework.commit.events.event_types import SourceRange
from framework.commit.machine.effects import PipelineProgress, TableProgress
from framework.commit.offset_ranges import OffsetRanges
from framework.commit.offsets import PartitionFacts
from framework.commit.recovery.missing import Gap, gaps_from, gaps_of, gaps_text, lacking_after
from framework.commit.recovery.rollback import (
    Announcements,
    RollbackFacts,
    SnapshotFacts,
    given_up_ranges,
    plan_rollback,
    target_of,
)
from framework.commit.recovery.table_replay import named_gap, plan_replay, without_replay
from framework.errors import DataLossError, StateDisagreement, TableBlocked
from tests.protocol.build import TOPIC_ID, written

HELD = {"a": PipelineProgress(3, {"src": {"0": 30}}, {"src": "src-id"})}


def snapshot(number: int, parent: int | None, offset: int | None = None, **more: object) -> SnapshotFacts:
    topic = None if offset is None else str(more.get("topic", TOPIC_ID))
    return SnapshotFacts(number, parent, number * 100, "append", 10, offset, topic, more.get("recovery"))  # type: ignore[arg-type]


def table(*line: SnapshotFacts, beside: tuple[SnapshotFacts, ...] = (), recorded: int = 9, whole: bool = True):  # type: ignore[no-untyped-def]
    return RollbackFacts("db.t", TOPIC_ID, TableProgress(TOPIC_ID, recorded, HELD), line, beside, whole)


LINE = (snapshot(4, 3, 9), snapshot(3, 2), snapshot(2, 1, 6), snapshot(1, None, 3))


def test_a_snapshot_is_meant_by_its_id_or_by_a_time() -> None:
    """A time means the newest snapshot that is not younger; what is not on the line is refused with what is."""
    facts = table(*LINE)
    assert target_of(facts, 2, is_time=False, replay=True).snapshot_id == 2
    assert target_of(facts, 399, is_time=True, replay=True).snapshot_id == 3
    assert target_of(facts, 400, is_time=True, replay=True).snapshot_id == 4
    with pytest.raises(TableBlocked, match="no snapshot as old") as caught:
        target_of(facts, 99, is_time=True, replay=True)
    assert "`floe rollback --table db.t --to 1 --replay`" in caught.value.remedy
    with pytest.raises(TableBlocked, match="no snapshot 7"):
        target_of(facts, 7, is_time=False, replay=True)
    with pytest.raises(TableBlocked) as caught:
        target_of(table(LINE[3]), 7, is_time=False, replay=False)
    assert "none is left to go back to" in caught.value.remedy


def test_what_is_given_up_is_named_newest_first() -> None:
    """Snapshots of other writers are given up as well, and are told apart."""
    plan = plan_rollback(table(*LINE), LINE[2], replay=True)
    assert [(each.snapshot_id, each.by_floe) for each in plan.given_up] == [(4, True), (3, False)]
    assert (plan.reached, plan.recorded, plan.own_snapshots, plan.pipelines) == (6, 9, (4,), ("a",))
    assert not plan.settled
    assert plan_rollback(table(*LINE), LINE[0], replay=True).settled


def test_a_rollback_by_others_is_found_on_the_line_that_the_table_left() -> None:
    """The head is older than the progress: what lies on the former line is given up, and not what an earlier rollback,
    long settled, left beside it."""
    former = (snapshot(4, 3, 9), snapshot(3, 2, 8))
    settled = snapshot(5, 1, 7)
    plan = plan_rollback(table(*LINE[2:], beside=(*former, settled)), LINE[2], replay=True)
    assert [each.snapshot_id for each in plan.given_up] == [4, 3]
    assert not plan.settled
    after = (snapshot(6, 2, 9, recovery="rollback"), *LINE[2:])
    assert plan_rollback(table(*after, beside=former), after[0], replay=True).settled
    assert plan_rollback(table(*after, beside=former), LINE[2], replay=True).settled


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (table(snapshot(2, 1, 9), snapshot(1, None, 3, topic="old")), "can no longer be determined"),
        (table(*LINE[2:], beside=(snapshot(4, 3, 9),)), "expired"),
        (table(*LINE[2:]), "expired"),
        (table(snapshot(2, 1, 9, topic="old"), snapshot(1, None, 3)), "another control topic"),
    ],
)
def test_a_replay_of_what_cannot_be_determined_is_refused(facts: RollbackFacts, said: str) -> None:
    """Expired snapshots and those of another control topic: `--skip` is left, and named ranges."""
    target = facts.ancestry[-1]
    if said == "can no longer be determined":
        facts = RollbackFacts(facts.table, TOPIC_ID, facts.progress, facts.ancestry, (), whole=False)
    with pytest.raises(StateDisagreement, match=said) as caught:
        plan_rollback(facts, target, replay=True)
    assert caught.value.code == "FLOE-R357"
    assert "--skip" in caught.value.remedy
    assert plan_rollback(facts, target, replay=False)


def test_what_is_lacking_is_the_ranges_of_the_announcements_that_were_given_up() -> None:
    """A repeat that was never added is not part of it; a replay's own batches belong to its pipeline; what lies between
    two announcements is nobody's; rows that the log does not know are refused."""
    plan = plan_rollback(table(*LINE), LINE[2], replay=True)
    repeat, added = written("a", 2, paths=("r",)), written("a", 3, paths=("x",))
    later, replayed = written("a", 5, paths=("z",)), written("b.replay.12", 4, paths=("y",))
    found = given_up_ranges(plan, Announcements((repeat, added), 0), {"x"})
    assert found == {"a": OffsetRanges.of([SourceRange("src", "src-id", 0, 20, 30)])}
    with pytest.raises(StateDisagreement, match="knows of 0") as caught:
        given_up_ranges(plan, Announcements((repeat,), 5), {"x"})
    assert caught.value.code == "FLOE-R357"
    wide = plan_rollback(table(snapshot(6, 5, 15), snapshot(5, 4, 12), *LINE, recorded=15), LINE[2], replay=True)
    found = given_up_ranges(wide, Announcements((added, replayed, later), 0), {"x", "y", "z"})
    assert sorted(found) == ["a", "b"]
    assert [(r.start, r.end) for r in found["a"].ranges] == [(20, 30), (40, 50)]
    assert [[(r.start, r.end) for r in gap.ranges] for gap in gaps_from({"a": found["a"]}, "id")] == [
        [(20, 30)],
        [(40, 50)],
    ]


def test_what_was_announced_twice_is_cut_where_an_announcement_ends() -> None:
    """Who deletes a file leaves all rows of each piece or none; files that were not added there cut nothing."""
    again, other = SourceRange("src", "src-id", 0, 25, 28), SourceRange("src", "src-id", 0, 23, 24)
    added = written("a", 3, paths=("x",))
    replayed, elsewhere = (
        written("a.replay.1", 1, paths=("y",), source=(again,)),
        written("a", 1, paths=("z",), source=(other,)),
    )
    wanted = {"a": OffsetRanges.of([SourceRange("src", "src-id", 0, 22, 40)])}
    pieces = list(Announcements((added, replayed, elsewhere), 0).pieces_of({"x", "y"}, wanted))
    assert [(name, r.start, r.end) for name, r in pieces] == [("a", 22, 25), ("a", 25, 28), ("a", 28, 30)]
    assert list(Announcements((added,), 0).pieces_of({"x"}, {})) == []


def test_rows_that_came_from_dead_letters_are_not_read_again_from_the_topic() -> None:
    """They are marked as replayed where they were kept; a gap could not bring them back, so it is refused."""
    plan = plan_rollback(table(*LINE), LINE[2], replay=True)
    with pytest.raises(StateDisagreement, match="dead letters") as caught:
        given_up_ranges(plan, Announcements((written("a.replay", 3, paths=("x",)),), 0), {"x"})
    assert caught.value.code == "FLOE-R357"


def test_what_is_on_the_list_is_not_named_as_well() -> None:
    """A range that the table lacks by its own word would come twice; consent to duplicates is consent."""
    noted = Gap("1", "a", (SourceRange("src", "src-id", 0, 20, 30),))
    named = Gap("2", "a", (SourceRange("src", "src-id", 0, 25, 35),))
    with pytest.raises(StateDisagreement, match="5 offsets") as caught:
        plan_replay("db.t", "a", (noted,), named, 0, FACTS, False)
    assert caught.value.code == "FLOE-R359"
    assert "floe replay FILE --table db.t" in caught.value.remedy
    assert plan_replay("db.t", "b", (noted,), named, 0, FACTS, False).declared
    assert plan_replay("db.t", "a", (noted,), named, 0, FACTS, True).declared


def test_gaps_survive_their_property() -> None:
    """gaps_of(gaps_text(g)) == g, and what is not floe's is refused."""
    gaps = (
        Gap("1", "a", (SourceRange("s", "i", 0, 1, 2), SourceRange("s", "i", 10, 3, 4))),
        Gap("2", "b", (SourceRange("ü", "j", 0, 0, 9),)),
    )
    assert gaps_of(gaps_text(gaps)) == gaps
    assert gaps_of(None) == ()
    assert gaps[0].offsets == 2
    for text in ("{}x", "[1]", '[{"id":1}]'):
        with pytest.raises(StateDisagreement):
            gaps_of(text)


FACTS = {("src", 0): PartitionFacts("src-id", 10, 40), ("src", 1): PartitionFacts("src-id", 0, 40)}


def test_a_replay_reads_what_the_table_says_it_lacks() -> None:
    """Gaps of the pipeline alone; none means that nothing is to do."""
    mine, others = Gap("1", "a", (SourceRange("src", "src-id", 0, 20, 30),)), Gap("2", "b", ())
    assert plan_replay("db.t", "a", (mine, others), None, 0, FACTS, False).gaps == (mine,)
    assert plan_replay("db.t", "c", (mine, others), None, 0, FACTS, False).settled


@pytest.mark.parametrize(
    ("gap", "held", "code"),
    [
        (SourceRange("src", "src-id", 0, 20, 30), 3, "FLOE-R359"),
        (SourceRange("src", "src-id", 0, 20, 30), None, "FLOE-R359"),
        (SourceRange("src", "other", 0, 20, 30), 0, "FLOE-R316"),
        (SourceRange("gone", "src-id", 0, 20, 30), 0, "FLOE-R316"),
        (SourceRange("src", "src-id", 0, 5, 30), 0, "FLOE-R352"),
        (SourceRange("src", "src-id", 0, 20, 50), 0, "FLOE-R317"),
    ],
)
def test_what_the_table_may_hold_or_the_topic_has_not_is_not_replayed(
    gap: SourceRange, held: int | None, code: str
) -> None:
    """Each refusal has its own code; consent helps against duplicates only."""
    named = Gap("1", "a", (gap,))
    with pytest.raises(StateDisagreement) as caught:
        plan_replay("db.t", "a", (), named, held, FACTS, False)
    assert caught.value.code == code
    assert isinstance(caught.value, DataLossError) == (code in ("FLOE-R352", "FLOE-R317"))
    if code == "FLOE-R359":
        assert plan_replay("db.t", "a", (), named, held, FACTS, True).declared
    else:
        with pytest.raises(StateDisagreement):
            plan_replay("db.t", "a", (), named, held, FACTS, True)


def test_named_ranges_are_those_between() -> None:
    """Partitions that are named on one side only, or with nothing between, are left out; none at all is refused."""
    zero, one = ("src", 0), ("src", 1)
    gap = named_gap("a", FACTS, {zero: 20, one: 7}, {zero: 30, one: 7}, "id")
    assert gap.ranges == (SourceRange("src", "src-id", 0, 20, 30),)
    with pytest.raises(StateDisagreement) as caught:
        named_gap("a", FACTS, {zero: 20}, {one: 30}, "id")
    assert caught.value.code == "FLOE-R358"
    with pytest.raises(StateDisagreement) as caught:
        named_gap("a", FACTS, {("x", 0): 20}, {("x", 0): 30}, "id")
    assert caught.value.code == "FLOE-R341"


def test_a_filled_gap_leaves_no_trace_in_the_progress() -> None:
    """The run that filled it is forgotten, so that nobody waits for it."""
    gap = Gap("1", "a", ())
    progress = TableProgress(TOPIC_ID, 9, {**HELD, gap.replay_pipeline: PipelineProgress(1)})
    assert without_replay(progress, gap) == TableProgress(TOPIC_ID, 9, HELD)
    # Where the pipeline itself has no record in the table, the run's says whose records are there.
    alone = TableProgress(TOPIC_ID, 9, {gap.replay_pipeline: PipelineProgress(1)})
    assert without_replay(alone, gap) == alone


def test_what_a_table_lacks_counts_from_where_its_list_was_made() -> None:
    """Others move the branch to what floe had rolled back to long ago, and then on: its list was made on another line, and
    what that held is given up. Without a noted number it is where the branch was last."""
    filled = replace(snapshot(2, 1, 9), sequence_number=2, headed_at=1)
    former = replace(snapshot(3, 1, 9, recovery="rollback"), sequence_number=3, headed_at=4)
    again = replace(snapshot(4, 2, 9, recovery="rollback"), sequence_number=4, headed_at=3)
    facts = table(snapshot(1, None, 3), beside=(filled, former, again))
    plan = plan_rollback(replace(facts, made_at=4), facts.ancestry[0], replay=True)
    assert [each.snapshot_id for each in plan.given_up] == [2]
    assert plan_rollback(facts, facts.ancestry[0], replay=True).given_up == ()


def test_a_rollback_says_nothing_of_what_its_line_holds() -> None:
    """Its snapshot has the offset of what it gave up: what is announced has to be read from the commit before."""
    facts = table(snapshot(3, 1, 9, recovery="rollback"), snapshot(1, None, 3), beside=(snapshot(2, 1, 9),))
    assert plan_rollback(facts, facts.ancestry[0], replay=True).reached == 3
    alone = table(snapshot(3, -1, 9, recovery="rollback"), whole=False)
    assert plan_rollback(alone, alone.ancestry[0], replay=True).reached == 0


def test_a_gap_stays_on_the_list_while_its_replay_reads() -> None:
    """By its id nothing is read again, and whoever does not know its control topic sees that its rows will come. Once the
    table holds some of it, or lost it again, what is left gets a new id."""
    noted = Gap("1", "a", (SourceRange("src", "src-id", 0, 10, 20),))
    read = OffsetRanges.of((SourceRange("src", "src-id", 0, 10, 15),))
    rest = Gap("2", "a", (SourceRange("src", "src-id", 0, 15, 20),))
    assert lacking_after((noted,), {}, {"1": read}, {}, "2") == (noted,)
    assert lacking_after((noted,), {}, {"1": read}, {"a": read}, "2") == (rest,)
    assert lacking_after((noted,), {"a": read}, {"1": read}, {}, "2") == (Gap("2", "a", noted.ranges),)
