"""The coordinator's `step`, through its public door: inputs in, effects out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from framework.commit.events.event_types import (
    Accounting,
    CommitComplete,
    CommitRequested,
    CommitToTable,
    ControlEvent,
    Health,
    Holds,
    PauseChanged,
    StateChanged,
)
from framework.commit.machine import cycle
from framework.commit.machine.effects import (
    Assigned,
    CommitConflict,
    CommitFailed,
    CommitTable,
    Committed,
    Effect,
    ExaminedTable,
    Input,
    LoadFailed,
    LoadTable,
    PipelineProgress,
    Publish,
    Read,
    Revoked,
    StopCoordinator,
    StoreLowWater,
    TableLoaded,
    TableMissing,
    TableProgress,
    Tick,
)
from framework.commit.machine.model import TablePhase
from framework.commit.machine.reporting.health import table_health
from framework.commit.machine.step import (
    CoordinatorState,
    Limits,
    next_due_ms,
    snapshot,
    start_offset,
    step,
    wants_more,
)
from tests.protocol.build import STEP, TOPIC_ID, complete, heartbeat, offsets_set, ranges, view, written


class SteppedCoordinator:
    """One coordinator by hand: keeps its state, collects its effects, answers for the catalog when told to."""

    def __init__(self, limits: Limits | None = None, log_start: int = 0, low_water: int | None = None) -> None:
        self.state = CoordinatorState(limits=limits or Limits())
        self.now = 1_000_000
        self.offset = 0
        topic_id = TOPIC_ID if low_water is not None else None
        self.effects = self.feed(Assigned("c1", TOPIC_ID, log_start, low_water, topic_id))

    def feed(self, message: Input) -> tuple[Effect, ...]:
        before = self.state
        again = step(before, message, self.now)
        self.state, effects = step(before, message, self.now)
        assert (self.state, effects) == again, "a state can be stepped twice with one outcome"
        tables = self.state.tables.values()
        assert self.state.pending_files == sum(table.pending_files for table in tables), "sums are those of the tables"
        assert self.state.committing == sum(table.phase is TablePhase.COMMITTING for table in tables)
        return effects

    def read(self, *events: ControlEvent | None) -> tuple[Effect, ...]:
        effects: tuple[Effect, ...] = ()
        for event in events:
            effects += self.feed(Read(self.offset, event))
            self.offset += 1
        return effects

    def tick(self, later_ms: int = 0, caught_up: bool = True) -> tuple[Effect, ...]:
        self.now += later_ms
        return self.feed(Tick(caught_up))

    def load(self, table: str = "db.t", **changes: object) -> tuple[Effect, ...]:
        return self.feed(TableLoaded(view(table, **changes)))  # type: ignore[arg-type]

    def commit(self, effect: CommitTable, snapshot_id: int = 7) -> tuple[Effect, ...]:
        after = after_commit(effect, snapshot_id)
        return self.feed(Committed(effect.table, effect.commit_id, after, snapshot_id, self.now))


def after_commit(effect: CommitTable, snapshot_id: int = 7) -> ExaminedTable:
    return replace(
        effect.view,
        snapshot_id=snapshot_id,
        progress=effect.progress,
        snapshot_control_offset=effect.progress.control_offset,
    )


def commits(effects: tuple[Effect, ...]) -> list[CommitTable]:
    return [e for e in effects if isinstance(e, CommitTable)]


def published(effects: tuple[Effect, ...], kind: type) -> list[ControlEvent]:
    return [e.event for e in effects if isinstance(e, Publish) and isinstance(e.event, kind)]


def stored(effects: tuple[Effect, ...]) -> list[int]:
    return [e.offset for e in effects if isinstance(e, StoreLowWater)]


def paths(effect: CommitTable) -> list[str]:
    return [file.path for file in effect.files]


def test_one_batch_travels_from_the_log_into_its_table() -> None:
    """An announced batch is loaded, committed once, reported, and then lies below the low-water mark."""
    coordinator = SteppedCoordinator()
    assert coordinator.read(written("a", 1)) == (LoadTable("db.t", "main"),)
    assert coordinator.read(complete("a", 1)) == ()
    assert coordinator.load() == ()
    (commit,) = commits(coordinator.tick())
    assert paths(commit) == ["db.t/a-r-1-0-0"]
    assert commit.progress.control_offset == 2
    assert commit.progress.pipelines["a"].batch == 1
    assert commit.progress.pipelines["a"].offsets == {"src": {"0": 10}}
    effects = coordinator.commit(commit)
    (table_event,) = published(effects, CommitToTable)
    assert isinstance(table_event, CommitToTable)
    assert (table_event.rows, table_event.files, table_event.control_offset) == (10, 1, 2)
    (end,) = published(effects, CommitComplete)
    assert isinstance(end, CommitComplete)
    assert end.low_water == 2
    assert stored(effects) == [2]


def test_the_interleaved_order_of_two_transactions_loses_nothing() -> None:
    """In `A:DataWritten@0, B:DataWritten@1, B:DataComplete@2, A:DataComplete@4` progress never passes A's files."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1), written("b", 1), complete("b", 1))
    coordinator.load()
    assert commits(coordinator.tick()) == []
    (commit,) = commits(coordinator.read(None, complete("a", 1)))
    assert paths(commit) == ["db.t/a-r-1-0-0", "db.t/b-r-1-0-0"]
    assert commit.progress.control_offset == 5


def test_a_complete_batch_behind_an_open_one_waits_in_its_own_table_only() -> None:
    """The prefix of a table ends at an open batch's announcement; tables without one are committed to the position."""
    coordinator = SteppedCoordinator()
    coordinator.read(
        written("b", 1, "db.u"), complete("b", 1, ("db.u",)), written("a", 1), written("b", 2), complete("b", 2)
    )
    coordinator.load("db.u")
    coordinator.load("db.t")
    (commit,) = commits(coordinator.tick())
    assert commit.table == "db.u"
    assert commit.progress.control_offset == 5


def test_announcements_below_recorded_progress_are_dropped() -> None:
    """What the table's metadata says is in the table is not committed again."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1), complete("a", 1), written("a", 2), complete("a", 2))
    (commit,) = commits(coordinator.load(progress=TableProgress(TOPIC_ID, 2, {})) + coordinator.tick())
    assert paths(commit) == ["db.t/a-r-2-0-0"]


def test_what_a_dead_coordinator_committed_is_said_by_the_next() -> None:
    """kill -9 between a commit and its word: whoever coordinates next finds the announcement in the table, and says that all is
    committed, once; readers of the log would wait for ever."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1), complete("a", 1))
    effects = coordinator.load(progress=TableProgress(TOPIC_ID, 2, {})) + coordinator.tick() + coordinator.tick(60_000)
    [said] = published(effects, CommitComplete)
    assert isinstance(said, CommitComplete)
    assert said.low_water == 2
    coordinator.load()
    assert not published(coordinator.tick(60_000), CommitComplete)


def test_a_table_waits_for_its_interval() -> None:
    """After a commit the next one begins an interval later, at the time that `next_due_ms` names."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1), complete("a", 1))
    coordinator.load()
    (commit,) = commits(coordinator.tick())
    begun = coordinator.now
    coordinator.commit(commit)
    assert commits(coordinator.read(written("a", 2), complete("a", 2))) == []
    assert next_due_ms(coordinator.state) == begun + 1_000
    assert commits(coordinator.tick(999)) == []
    assert len(commits(coordinator.tick(1))) == 1


@pytest.mark.parametrize("limit", [{"max_rows": 20}, {"max_bytes": 200}])
def test_rows_and_bytes_make_a_table_due_before_its_interval(limit: dict[str, int]) -> None:
    """As soon as what waits reaches a limit, the arrival of the batch's end starts the commit."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1, **limit), complete("a", 1))
    coordinator.load()
    (commit,) = commits(coordinator.tick())
    coordinator.commit(commit)
    assert commits(coordinator.read(written("a", 2, **limit), complete("a", 2))) == []
    assert len(commits(coordinator.read(written("a", 3, **limit), complete("a", 3)))) == 1


def test_one_commit_at_most_is_in_flight_per_table() -> None:
    """While a commit is not answered, its table is not committed again; another table is."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1), complete("a", 1))
    coordinator.load()
    assert len(commits(coordinator.tick())) == 1
    effects = coordinator.read(written("a", 2, max_rows=1), written("a", 2, "db.u"), complete("a", 2, ("db.t", "db.u")))
    assert commits(effects) == []
    assert [c.table for c in commits(coordinator.load("db.u") + coordinator.tick(5_000))] == ["db.u"]


def test_a_conflict_loads_the_table_and_decides_again() -> None:
    """After a conflict nothing examined before is used, and what the other coordinator committed is not repeated."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1), complete("a", 1), written("a", 2), complete("a", 2))
    coordinator.load()
    (commit,) = commits(coordinator.tick())
    effects = coordinator.feed(CommitConflict("db.t", commit.commit_id, "the branch has moved"))
    assert effects == (LoadTable("db.t", "main"),)
    progress = TableProgress(TOPIC_ID, 2, {"a": PipelineProgress(1, {"src": {"0": 10}}, {"src": "src-id"})})
    (again,) = commits(coordinator.load(snapshot_id=8, progress=progress, snapshot_control_offset=2))
    assert again.view.snapshot_id == 8
    assert paths(again) == ["db.t/a-r-2-0-0"]
    assert again.commit_id != commit.commit_id


def test_a_failed_commit_is_decided_again_after_a_growing_pause() -> None:
    """Failures pause one table with back-off; the outcome is read from the table before anything else (invariant 7)."""
    coordinator = SteppedCoordinator(
        Limits(retry_first_ms=1_000, retry_most_ms=4_000, failed_after=3, report_ms=1 << 40)
    )
    coordinator.read(written("a", 1, interval_ms=180_000), complete("a", 1))
    effects = coordinator.load() + coordinator.tick()
    pauses = []
    for _ in range(5):
        (commit,) = commits(effects)
        assert commits(coordinator.feed(CommitFailed("db.t", commit.commit_id, "503"))) == []
        due = next_due_ms(coordinator.state)
        assert due is not None
        pauses.append(due - coordinator.now)
        early, loads = coordinator.tick(due - coordinator.now - 1), coordinator.tick(1)
        assert [e for e in early if not isinstance(e, Publish)] == []
        assert [e for e in loads if not isinstance(e, Publish)] == [LoadTable("db.t", "main")]
        effects = coordinator.load()
    assert pauses[0] <= 1_000
    assert sorted(pauses[:3]) == pauses[:3]
    assert max(pauses) <= 4_000
    assert len(commits(effects)) == 1, "announcements are never given up"


def pauses_between_looks(coordinator: SteppedCoordinator, answer: LoadFailed | TableMissing) -> list[int]:
    """How long db.t waits each time until it is looked at again, with this answer always."""
    pauses = []
    for _ in range(12):
        due = next_due_ms(coordinator.state)
        assert due is not None
        pauses.append(due - coordinator.now)
        effects = coordinator.tick(due - coordinator.now)
        assert [e for e in effects if not isinstance(e, Publish)] == [LoadTable("db.t", "main")]
        coordinator.feed(answer)
    return pauses


@pytest.mark.parametrize(("interval_ms", "longest_ms"), [(1_000, 1_000), (10_000, 5_000), (600_000, 60_000)])
def test_a_failing_table_is_tried_twice_an_interval(interval_ms: int, longest_ms: int) -> None:
    """However long an outage lasts, a table waits no longer than half its interval for the next attempt, and a minute
    at most: so it is committed again within two intervals after the end of the outage."""
    coordinator = SteppedCoordinator(Limits(report_ms=1 << 40))  # no timer of its own for what is told
    coordinator.read(written("a", 1, interval_ms=interval_ms), complete("a", 1))
    (commit,) = commits(coordinator.load() + coordinator.tick())
    coordinator.feed(CommitFailed("db.t", commit.commit_id, "503"))
    pauses = pauses_between_looks(coordinator, LoadFailed("db.t", "503"))
    assert longest_ms * 3 // 4 <= max(pauses) <= longest_ms


@pytest.mark.parametrize(
    ("interval_ms", "longest_ms"), [(1_000, 5_000), (10_000, 5_000), (60_000, 30_000), (600_000, 60_000)]
)
def test_a_blocked_table_is_examined_twice_an_interval(interval_ms: int, longest_ms: int) -> None:
    """A table that is said to be missing, as catalogs say while their storage is away, is examined again after 5 s, and
    later after half its interval, a minute at most: of 10 s and more, it is committed again within two after it is
    back."""
    coordinator = SteppedCoordinator(Limits(report_ms=1 << 40))
    coordinator.read(written("a", 1, interval_ms=interval_ms), complete("a", 1))
    coordinator.feed(TableMissing("db.t", "no such table"))
    pauses = pauses_between_looks(coordinator, TableMissing("db.t", "no such table"))
    assert pauses[0] <= 5_000
    assert longest_ms * 3 // 4 <= max(pauses) <= longest_ms


def test_a_gap_in_the_source_that_was_recorded_does_not_break_the_chain() -> None:
    """A batch that only records what retention removed is a link like any other: what follows it is committed."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1), complete("a", 1))
    coordinator.load()
    (first,) = commits(coordinator.tick())
    coordinator.commit(first)
    lost = ranges(2)
    gap = replace(complete("a", 2, (), source=lost), gaps=lost, accounting=Accounting(offsets=10, lost=10))
    coordinator.read(gap, written("a", 3), complete("a", 3))
    (second,) = commits(coordinator.tick(10_000))
    assert [file.path for file in second.files] == ["db.t/a-r-3-0-0"]
    (end,) = published(coordinator.commit(second, 8), CommitComplete)
    assert isinstance(end, CommitComplete)
    assert end.blocked_pipelines == {}
    assert end.low_water == coordinator.offset


def test_an_unknown_outcome_that_was_a_success_adds_nothing() -> None:
    """When the table shows that the commit was applied after all, its announcements are done with."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1), complete("a", 1))
    coordinator.load()
    (commit,) = commits(coordinator.tick())
    coordinator.feed(CommitFailed("db.t", commit.commit_id, "no answer"))
    coordinator.tick(60_000)
    after = after_commit(commit)
    effects = coordinator.feed(TableLoaded(after)) + coordinator.tick(60_000)
    assert commits(effects) == []
    assert stored(effects) == [2]


@pytest.mark.parametrize(
    ("trouble", "word"),
    [
        (TableMissing("db.t", "no such table"), "missing"),
        (TableLoaded(view(table_uuid="another")), "replaced"),
        (TableLoaded(view(unusable_schema_ids=frozenset({0}))), "dropped"),
        (
            TableLoaded(view(progress=TableProgress(TOPIC_ID, 9), snapshot_control_offset=4)),
            "`floe rollback --table db.t --to",
        ),
        (TableLoaded(view(progress=TableProgress("old-topic", 9))), "old-topic"),
        (TableLoaded(view(elsewhere={"a": "old-topic"})), "`floe rebase FILE`"),
    ],
)
def test_a_table_in_trouble_waits_alone_and_goes_on_by_itself(trouble: Input, word: str) -> None:
    """Invariant 10: its announcements wait and hold the low-water mark, others are committed, it resumes when
    restored."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1), written("a", 1, "db.u"), complete("a", 1, ("db.t", "db.u")))
    coordinator.feed(trouble)
    coordinator.load("db.u")
    (commit,) = commits(coordinator.tick())
    assert commit.table == "db.u"
    (end,) = published(coordinator.commit(commit), CommitComplete)
    assert isinstance(end, CommitComplete)
    assert end.low_water == 0
    assert word in end.blocked["db.t"]
    due = next_due_ms(coordinator.state)
    assert due is not None
    coordinator.now = due
    assert LoadTable("db.t", "main") in coordinator.tick()
    assert [c.table for c in commits(coordinator.load())] == ["db.t"]


def test_two_control_topics_fill_one_table_by_pipelines_of_their_own() -> None:
    """Invariant 11 asks about one pipeline only: another's records by another control topic hold nobody back."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1), complete("a", 1), written("b", 1), complete("b", 1))
    coordinator.load(elsewhere={"b": "old-topic"})
    (commit,) = commits(coordinator.tick())
    assert paths(commit) == ["db.t/a-r-1-0-0"]
    assert commit.progress.control_offset == 2
    after = replace(after_commit(commit), elsewhere={"b": "old-topic"})
    coordinator.feed(Committed("db.t", commit.commit_id, after, 7, coordinator.now))
    assert commits(coordinator.tick(5_000)) == []
    assert "old-topic" in snapshot(coordinator.state).tables["db.t"].reason


@pytest.mark.parametrize(
    ("second", "word"),
    [
        ((2, ranges(3)), "a gap"),
        ((2, ranges(2, start=5)), "an overlap"),
        ((3, ranges(2)), "batch 3 follows batch 1"),
        ((2, ranges(2, topic_id="other")), "recreated"),
    ],
)
def test_a_broken_chain_blocks_its_pipeline(second: tuple[int, tuple[object, ...]], word: str) -> None:
    """Invariant 2: nothing of a batch that does not start where its predecessor ended is committed, nor passed."""
    coordinator = SteppedCoordinator()
    batch, source = second
    coordinator.read(written("a", 1), complete("a", 1))
    coordinator.load()
    (commit,) = commits(coordinator.tick())
    coordinator.commit(commit)
    effects = coordinator.read(
        written("a", batch, source=source),  # type: ignore[arg-type]
        written("b", 1),
        complete("a", batch, source=source),  # type: ignore[arg-type]
        complete("b", 1),
        written("b", 2, "db.u"),
        complete("b", 2, ("db.u",)),
    )
    assert commits(effects) == []
    (other,) = commits(coordinator.load("db.u") + coordinator.tick(10_000))
    assert other.table == "db.u", "another pipeline goes on"
    (end,) = published(coordinator.commit(other), CommitComplete)
    assert isinstance(end, CommitComplete)
    assert word in end.blocked_pipelines["a"]
    assert word in end.blocked["db.t"]
    assert end.low_water == 2


def test_a_broken_chain_is_still_broken_for_the_next_coordinator() -> None:
    """A successor begins to read where it sees the chain's last good link."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1), complete("a", 1))
    coordinator.load()
    (commit,) = commits(coordinator.tick())
    effects = coordinator.commit(commit)
    (store,) = [e for e in effects if isinstance(e, StoreLowWater)]
    assert (store.offset, store.chain_from) == (2, 1)
    assigned = Assigned("c2", TOPIC_ID, 0, store.offset, TOPIC_ID, store.chain_from)
    state, _ = step(CoordinatorState(), assigned, 0)
    begin = start_offset(assigned)
    log: list[ControlEvent] = [
        written("a", 1),
        complete("a", 1),
        written("a", 2, source=ranges(3)),
        complete("a", 2, source=ranges(3)),
    ]
    found: list[Effect] = []
    for offset in range(begin, len(log)):
        state, effects = step(state, Read(offset, log[offset]), 0)
        found += effects
    assert state.pipelines["a"].broken is not None
    state, effects = step(state, TableLoaded(view(progress=TableProgress(TOPIC_ID, 2))), 0)
    found += effects
    state, effects = step(state, Tick(True), 100_000)
    assert commits(tuple(found) + effects) == []


def test_a_broken_chain_goes_on_where_a_person_settled_it() -> None:
    """Invariant 2: what waits of the broken chain is given up, and batches from the settled offsets on are
    committed."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1), complete("a", 1))
    coordinator.read(written("a", 2, source=ranges(3)), complete("a", 2, source=ranges(3)))
    (first,) = commits(coordinator.load() + coordinator.tick())
    coordinator.commit(first)
    assert coordinator.state.pipelines["a"].broken is not None
    effects = coordinator.read(
        offsets_set("a", 3, STEP), written("a", 4, source=ranges(2)), complete("a", 4, source=ranges(2))
    )
    (second,) = commits(effects + coordinator.tick(5_000))
    assert paths(second) == ["db.t/a-r-4-0-0"]
    assert coordinator.state.pipelines["a"].broken is None
    assert snapshot(coordinator.state).pipelines["a"].ends == {"src": {0: 2 * STEP}}
    coordinator.commit(second)
    assert snapshot(coordinator.state).low_water == coordinator.state.position


def test_what_waits_and_is_read_again_is_not_committed_as_well() -> None:
    """A pipeline that goes on before batches that still wait reads their records again: only those behind are given
    up."""
    coordinator = SteppedCoordinator()
    for batch in (1, 2, 3):
        coordinator.read(written("a", batch), complete("a", batch))
    coordinator.read(offsets_set("a", 4, STEP), written("a", 5, source=ranges(2)), complete("a", 5, source=ranges(2)))
    (commit,) = commits(coordinator.load() + coordinator.tick(5_000))
    assert paths(commit) == ["db.t/a-r-1-0-0", "db.t/a-r-5-0-0"]
    coordinator.commit(commit)
    assert snapshot(coordinator.state).low_water == coordinator.state.position


def test_a_taken_over_table_takes_what_it_lacks_and_drops_what_it_holds() -> None:
    """After a rebase a table records a number above every batch so far: what was announced before waits for the event
    that gives it up, what it holds is dropped under its new number, and what it lacks is added."""
    coordinator = SteppedCoordinator()
    coordinator.read(heartbeat("a", 1, STEP))
    coordinator.read(written("a", 2), complete("a", 2))  # announced before the rebase, seen before its event
    held = {"a": PipelineProgress(3, {"src": {"0": STEP}}, {"src": "src-id"})}
    coordinator.load(progress=TableProgress(TOPIC_ID, 0, held), snapshot_control_offset=0)
    assert commits(coordinator.tick(5_000)) == []
    assert "batch 3 was recorded" in snapshot(coordinator.state).tables["db.t"].reason
    coordinator.read(offsets_set("a", 3, 0), written("a", 4, source=ranges(1)), complete("a", 4, source=ranges(1)))
    coordinator.read(written("a", 5, source=ranges(2)), complete("a", 5, source=ranges(2)))
    coordinator.tick(60_000)
    (commit,) = commits(
        coordinator.load(progress=TableProgress(TOPIC_ID, 0, held), snapshot_control_offset=0) + coordinator.tick(5_000)
    )
    assert paths(commit) == ["db.t/a-r-5-0-0"]


def test_a_batch_after_a_move_is_not_held_against_what_the_table_recorded_before() -> None:
    """A table that holds more than where a person had the pipeline go on takes the records again, by consent."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1), complete("a", 1))
    (first,) = commits(coordinator.load() + coordinator.tick())
    coordinator.commit(first)
    again = ranges(1, start=5, end=STEP)
    coordinator.read(offsets_set("a", 2, 5, base_batch=2), written("a", 3, source=again, base_batch=2))
    (second,) = commits(coordinator.read(complete("a", 3, source=again)) + coordinator.tick(5_000))
    assert paths(second) == ["db.t/a-r-3-0-0"]
    coordinator.commit(second)
    # The guard is back: the same batch once more is a repeat.
    coordinator.read(written("a", 3, source=again, base_batch=2, paths=("copy",)), complete("a", 3, source=again))
    assert commits(coordinator.tick(50_000)) == []


def test_a_repeated_batch_adds_nothing() -> None:
    """Invariant 5: a batch that was announced before is skipped and counted, and does not block its pipeline."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1), complete("a", 1), written("a", 1, paths=("copy",)), complete("a", 1))
    coordinator.load()
    (commit,) = commits(coordinator.tick())
    assert paths(commit) == ["db.t/a-r-1-0-0"]
    assert commit.progress.control_offset == 4
    assert coordinator.state.tables["db.t"].repeats == 1
    coordinator.commit(commit)
    assert len(commits(coordinator.read(written("a", 2), complete("a", 2)) + coordinator.tick(5_000))) == 1


def test_a_batch_that_the_table_records_is_a_repeat_although_its_announcement_is_new() -> None:
    """Invariant 5, second guard: the table's own record of the pipeline refuses what it already holds."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1), complete("a", 1))
    (commit,) = commits(coordinator.load() + coordinator.tick())
    recorded = replace(commit.progress, control_offset=0)
    fresh = SteppedCoordinator()
    fresh.read(written("a", 1, paths=("copy",)), complete("a", 1))
    assert commits(fresh.load(progress=recorded) + fresh.tick()) == []
    assert fresh.state.tables["db.t"].repeats == 1


def test_parts_of_one_announcement_are_never_divided() -> None:
    """A commit takes all parts of a batch or none, even when another pipeline's announcement lies between them."""
    coordinator = SteppedCoordinator(Limits(commit_files=3))
    coordinator.read(
        written("a", 1, files=2, part=0, parts=2),
        written("b", 1),
        written("a", 1, files=2, part=1, parts=2),
        complete("a", 1),
        complete("b", 1),
        written("b", 2),
        complete("b", 2),
    )
    (commit,) = commits(coordinator.load() + coordinator.tick())
    assert len(commit.files) == 5
    assert commit.progress.control_offset == 5
    effects = coordinator.commit(commit)
    (rest,) = commits(effects + coordinator.tick(5_000))
    assert paths(rest) == ["db.t/b-r-2-0-0"]


def test_parts_with_an_open_batch_between_them_wait_without_a_timer() -> None:
    """Nothing can be taken until the other batch is complete, and nothing is loaded or awakened for it meanwhile."""
    coordinator = SteppedCoordinator()
    coordinator.read(
        written("a", 1, part=0, parts=2), written("b", 1), written("a", 1, part=1, parts=2), complete("a", 1)
    )
    assert coordinator.load() + coordinator.tick() == ()
    assert next_due_ms(coordinator.state) is None
    (commit,) = commits(coordinator.read(complete("b", 1)))
    assert len(commit.files) == 3


def test_a_commit_is_bounded_by_files() -> None:
    """A backlog becomes several commits, each a gapless prefix of at most the bound."""
    coordinator = SteppedCoordinator(Limits(commit_files=4))
    for batch in range(1, 8):
        coordinator.read(written("a", batch, files=2), complete("a", batch))
    effects = coordinator.load() + coordinator.tick()
    sizes, reached = [], []
    while found := commits(effects):
        sizes.append(len(found[0].files))
        reached.append(found[0].progress.control_offset)
        effects = coordinator.commit(found[0]) + coordinator.tick(5_000)
    assert sizes == [4, 4, 4, 2]
    assert reached == [4, 8, 12, 14]


def test_an_incomplete_announcement_blocks_its_pipeline() -> None:
    """A batch whose end names a table that no announcement was seen for is not committed."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1), complete("a", 1), written("a", 2), complete("a", 2, ("db.t", "db.u")))
    (commit,) = commits(coordinator.load() + coordinator.tick())
    assert commit.progress.control_offset == 2
    assert "db.u" in (coordinator.state.pipelines["a"].broken or "")


def test_a_request_makes_tables_due_and_is_answered_when_they_are_committed() -> None:
    """A CommitRequested is answered once, after every announcement before it is in its table."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1), complete("a", 1))
    (first,) = commits(coordinator.load() + coordinator.tick())
    coordinator.commit(first)
    coordinator.read(written("a", 2), complete("a", 2))
    effects = coordinator.read(CommitRequested("q", "", coordinator.now + 10_000))
    (commit,) = commits(effects)
    assert published(effects, CommitComplete) == []
    (answer,) = published(coordinator.commit(commit), CommitComplete)
    assert isinstance(answer, CommitComplete)
    assert (answer.request_id, answer.blocked) == ("q", {})
    assert published(coordinator.tick() + coordinator.tick(20_000), CommitComplete) == []


def test_a_request_with_nothing_to_commit_is_answered_at_once() -> None:
    """Nothing announced means nothing to wait for."""
    coordinator = SteppedCoordinator()
    coordinator.tick()
    (answer,) = published(coordinator.read(CommitRequested("q", "", coordinator.now + 10_000)), CommitComplete)
    assert isinstance(answer, CommitComplete)
    assert answer.request_id == "q"


def test_a_request_for_a_blocked_table_is_answered_with_the_reason() -> None:
    """Who asks for a commit is told which tables wait and why, instead of waiting in vain."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1), complete("a", 1))
    coordinator.tick()
    coordinator.feed(TableMissing("db.t", "dropped"))
    (answer,) = published(coordinator.read(CommitRequested("q", "a", coordinator.now + 10_000)), CommitComplete)
    assert isinstance(answer, CommitComplete)
    assert "missing" in answer.blocked["db.t"]


def test_a_request_is_answered_at_its_deadline() -> None:
    """At the deadline the answer names what is not committed."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1), complete("a", 1))
    coordinator.tick()
    assert published(coordinator.read(CommitRequested("q", "", coordinator.now + 10_000)), CommitComplete) == []
    (answer,) = published(coordinator.tick(10_000), CommitComplete)
    assert isinstance(answer, CommitComplete)
    assert "deadline" in answer.blocked["db.t"]


def test_a_request_that_the_log_shows_as_answered_is_not_answered_again() -> None:
    """A coordinator that reads an old request says nothing before it has seen the log's end."""
    coordinator = SteppedCoordinator()
    assert (
        coordinator.read(CommitRequested("q", "", coordinator.now + 10_000), CommitComplete("c0", 0, 1, request_id="q"))
        == ()
    )
    effects = coordinator.tick() + coordinator.tick(20_000)
    assert published(effects, CommitComplete) == []
    assert stored(effects)[-1:] == [2], "an answered request holds no low-water mark"
    assert coordinator.state.requests == {}


def test_the_low_water_mark_waits_for_an_answer_to_be_in_the_log() -> None:
    """If the answer is lost with its coordinator, the next one still sees the request."""
    coordinator = SteppedCoordinator()
    coordinator.tick()
    effects = coordinator.read(CommitRequested("q", "", coordinator.now + 10_000))
    (answer,) = published(effects, CommitComplete)
    assert stored(effects + coordinator.tick(30_000)) == []
    coordinator.read(answer)
    assert stored(coordinator.tick(30_000)) == [2]


def test_the_low_water_mark_reaches_the_end_of_an_idle_log() -> None:
    """Transaction markers behind the last event do not hold the low-water mark below the log's end."""
    coordinator = SteppedCoordinator()
    coordinator.read(heartbeat("a", 1, 0))
    assert stored(coordinator.feed(Tick(True, 5))) == [5]
    assert next_due_ms(coordinator.state) is None


@pytest.mark.parametrize(
    ("assigned", "word"),
    [
        (Assigned("c", TOPIC_ID, 9, 5, TOPIC_ID), "retention"),
        (Assigned("c", TOPIC_ID, 0, 5, "older-id"), "recreated"),
        (Assigned("c", TOPIC_ID, 0, 5, None), "no known topic"),
    ],
)
def test_a_position_that_cannot_be_trusted_stops_the_coordinator(assigned: Assigned, word: str) -> None:
    """Invariants 6 and 11: a log that starts above the low-water mark, or an offset of another topic, is refused."""
    state, effects = step(CoordinatorState(), assigned, 0)
    (stop,) = effects
    assert isinstance(stop, StopCoordinator)
    assert word in stop.message
    assert stop.remedy
    assert step(state, Read(10, written("a", 1)), 0) == (state, ())


def test_without_a_position_a_log_that_lost_its_beginning_needs_proof() -> None:
    """Invariant 6: nothing is committed, and at the log's end the coordinator stops."""
    coordinator = SteppedCoordinator(log_start=4)
    coordinator.offset = 4
    effects = coordinator.read(written("a", 1), complete("a", 1))
    effects += coordinator.load() + coordinator.tick(60_000, caught_up=False)
    assert commits(effects) == []
    (stop,) = coordinator.tick()
    assert isinstance(stop, StopCoordinator)


def test_without_a_position_a_commit_complete_proves_the_missing_beginning() -> None:
    """A CommitComplete whose low-water mark is at or above the log's start shows that nothing was lost."""
    coordinator = SteppedCoordinator(log_start=4)
    coordinator.offset = 4
    coordinator.read(written("a", 1), complete("a", 1))
    coordinator.load()
    coordinator.read(CommitComplete("c0", 4, 0))
    assert len(commits(coordinator.tick())) == 1


def test_without_a_position_reading_begins_at_the_log_start() -> None:
    """Invariant 6: never at the end."""
    assert start_offset(Assigned("c", TOPIC_ID, 0, None)) == 0
    assert start_offset(Assigned("c", TOPIC_ID, 3, None)) == 3
    assert start_offset(Assigned("c", TOPIC_ID, 3, 9, TOPIC_ID, 7)) == 7
    assert start_offset(Assigned("c", TOPIC_ID, 8, 9, TOPIC_ID, 7)) == 8


def test_replies_to_an_earlier_ownership_change_nothing() -> None:
    """After Revoked and Assigned, an answer to a commit of before is not taken for one of now."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1), complete("a", 1))
    (commit,) = commits(coordinator.load() + coordinator.tick())
    coordinator.feed(Revoked())
    coordinator.feed(Assigned("c1", TOPIC_ID, 0, None))
    assert coordinator.commit(commit) == ()
    assert coordinator.state.tables == {}


def test_records_delivered_twice_are_folded_once() -> None:
    """An offset below the position changes nothing."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1), complete("a", 1))
    state = coordinator.state
    assert coordinator.feed(Read(0, written("a", 1))) == ()
    assert coordinator.state == state


def test_valid_through_is_the_least_of_the_busy_partitions() -> None:
    """A partition without records in the batch holds nothing back; a heartbeat shows everything up to the newest."""
    coordinator = SteppedCoordinator()
    one = replace(ranges(1, ts=500)[0], partition=0)
    two = replace(ranges(1, ts=400)[0], partition=1)
    coordinator.read(written("a", 1, source=(one, two)), complete("a", 1, source=(one, two)))
    (commit,) = commits(coordinator.load() + coordinator.tick())
    assert commit.valid_through_ms == 400
    coordinator.commit(commit)
    busy = replace(ranges(2, ts=900)[0], partition=0)
    idle = replace(ranges(2, start=10, end=10)[0], partition=1)
    coordinator.read(written("a", 2, source=(busy, idle)), complete("a", 2, source=(busy, idle)))
    (commit,) = commits(coordinator.tick(5_000))
    assert commit.valid_through_ms == 900
    (end,) = published(coordinator.commit(commit), CommitComplete)
    assert isinstance(end, CommitComplete)
    assert end.valid_through_ms == {"a": 900}


def test_the_log_is_not_read_on_while_much_waits_that_can_be_committed() -> None:
    """Memory stays bounded on a long log; a blocked table does not stop the others."""
    coordinator = SteppedCoordinator(Limits(pending_files=5))
    coordinator.read(written("a", 1, files=6, interval_ms=1 << 40), complete("a", 1))
    assert not wants_more(coordinator.state)
    recorded = TableProgress(TOPIC_ID, 0, {})
    (commit,) = commits(coordinator.load(progress=recorded) + coordinator.tick(caught_up=False))
    coordinator.commit(commit)
    assert wants_more(coordinator.state)
    effects = coordinator.read(written("a", 2, files=6), complete("a", 2))
    (commit,) = commits(effects + coordinator.tick(5_000))
    coordinator.feed(CommitConflict("db.t", commit.commit_id, ""))
    coordinator.feed(TableMissing("db.t", "gone"))
    assert wants_more(coordinator.state)


def test_a_clock_that_is_set_back_delays_nothing_for_the_lost_time() -> None:
    """After the clock jumps back by a day, the next commit still comes within one interval."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1), complete("a", 1))
    (commit,) = commits(coordinator.load() + coordinator.tick())
    coordinator.commit(commit)
    coordinator.tick()
    coordinator.read(written("a", 2), complete("a", 2))
    coordinator.now -= 86_400_000
    assert commits(coordinator.tick()) == []
    assert len(commits(coordinator.tick(1_000))) == 1


@pytest.mark.parametrize(("records_end", "kept"), [(4, 3), (None, None)])
def test_a_coordinator_that_finds_only_markers_hands_on_what_its_mark_vouches_for(
    records_end: int | None, kept: int | None
) -> None:
    """The next mark says by which epoch a cut-off log is known, as this one did. Without the records' end it says none:
    markers may be of a later leader."""
    assigned = Assigned("c2", TOPIC_ID, 0, 5, TOPIC_ID, None, 9, low_water_epoch=3, records_end=records_end)
    state, _ = step(CoordinatorState(), assigned, 0)
    _, effects = step(state, Tick(True, 9), 1_000_000)
    assert [e for e in effects if isinstance(e, StoreLowWater)] == [StoreLowWater(9, 9, kept, records_end)]


def test_a_repeat_is_still_a_repeat_for_the_next_coordinator() -> None:
    """While another table holds the low-water mark, a successor reads the link before any batch it reads again."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1), complete("a", 1))
    (first,) = commits(coordinator.load() + coordinator.tick())
    coordinator.commit(first)
    coordinator.read(written("b", 1, "db.gone"), complete("b", 1, ("db.gone",)))
    coordinator.read(written("a", 1, "db.u", paths=("copy",)), complete("a", 1, ("db.u",)))
    effects = coordinator.read(written("a", 2), complete("a", 2)) + coordinator.tick(20_000)
    for commit in commits(effects):
        effects += coordinator.commit(commit)
    store = [e for e in effects if isinstance(e, StoreLowWater)][-1:]
    assert [(e.offset, e.chain_from) for e in store] in ([], [(2, 1)])
    assert cycle.chain_from(coordinator.state) == 1


def reported(effects: tuple[Effect, ...]) -> list[tuple[Health, int, str]]:
    """(state, failures, reason) of what is told of tables."""
    events = [e.event for e in effects if isinstance(e, Publish) and isinstance(e.event, StateChanged)]
    return [(event.state, event.failures, event.reason) for event in events]


def test_a_tables_trouble_is_reported_when_it_begins_changes_and_ends() -> None:
    """DEGRADED from the first failure, FAILED from the tenth in a row, RUNNING when it is over; each told once."""
    coordinator = SteppedCoordinator(Limits(retry_first_ms=100_000, retry_most_ms=100_000))
    coordinator.read(written("a", 1), complete("a", 1))
    effects = coordinator.load() + coordinator.tick()
    said: list[tuple[Health, int, str]] = []
    for _ in range(12):
        (commit,) = commits(effects)
        effects = (
            coordinator.feed(CommitFailed("db.t", commit.commit_id, "503"))
            + coordinator.tick()
            + coordinator.tick(100_000)
        )
        said += reported(effects)
        effects = coordinator.load()
    assert said == [(Health.DEGRADED, 1, "503"), (Health.FAILED, 10, "503")]
    (commit,) = commits(effects)
    assert reported(coordinator.commit(commit) + coordinator.tick()) == [(Health.RUNNING, 0, "")]
    assert reported(coordinator.tick(1_000_000)) == []


def test_a_table_whose_commits_fail_is_not_named_as_blocked() -> None:
    """What is tried again by itself needs nobody: the end of a cycle names it only once a person pauses it, and whoever asks
    for a commit is answered with the failure."""
    limits = Limits(retry_first_ms=1, retry_most_ms=1, failed_after=2, report_ms=1 << 40)
    coordinator = SteppedCoordinator(limits)
    coordinator.read(written("a", 1), complete("a", 1))
    effects = coordinator.load() + coordinator.tick()
    for _ in range(3):
        (commit,) = commits(effects)
        coordinator.feed(CommitFailed("db.t", commit.commit_id, "503"))
        coordinator.tick(1)
        effects = coordinator.load()
    (commit,) = commits(effects)
    coordinator.feed(CommitFailed("db.t", commit.commit_id, "503"))
    (answer,) = published(coordinator.read(CommitRequested("q", "", coordinator.now + 10_000)), CommitComplete)
    assert isinstance(answer, CommitComplete)
    assert "4 commits failed" in answer.blocked["db.t"]
    (answer,) = published(coordinator.read(CommitRequested("q2", "b", coordinator.now + 10_000)), CommitComplete)
    assert isinstance(answer, CommitComplete)
    assert answer.blocked == {}
    coordinator.read(pause())
    (answer,) = published(coordinator.read(CommitRequested("q3", "b", coordinator.now + 10_000)), CommitComplete)
    assert isinstance(answer, CommitComplete)
    assert list(answer.blocked) == ["db.t"]


def test_another_cause_of_a_blocked_table_is_reported_within_seconds() -> None:
    """Who puts a table back that was missing, and not as it was, reads in ten seconds what is wrong now, and not five minutes
    later; the same cause with other figures is told as seldom as before."""
    coordinator = SteppedCoordinator(Limits(blocked_first_ms=1_000, blocked_most_ms=1_000))
    coordinator.read(written("a", 1), complete("a", 1))
    effects = coordinator.feed(TableMissing("db.t", "the table does not exist")) + coordinator.tick()
    assert [reason for _, _, reason in reported(effects)] == ["it is missing: the table does not exist"]
    effects = coordinator.tick(1_000) + coordinator.load(schema_id=1, unusable_schema_ids=frozenset({0}))
    effects += coordinator.tick(9_000)
    (found,) = [reason for _, _, reason in reported(effects)]
    assert "was dropped or changed its type" in found
    effects = coordinator.tick(1_000) + coordinator.load(schema_id=2, unusable_schema_ids=frozenset({0}))
    assert reported(effects + coordinator.tick(20_000)) == []


def stalls_reported(effects: tuple[Effect, ...]) -> list[tuple[Health, str, int]]:
    """(state, code, since) of what is told of tables."""
    events = [e.event for e in effects if isinstance(e, Publish) and isinstance(e.event, StateChanged)]
    return [(event.state, event.code, event.since_ms) for event in events]


def test_a_commit_that_gets_no_answer_is_reported_once_the_time_is_up_and_over_with_its_answer() -> None:
    """A commit under way for too long is a stall since it was begun, told once, in words that every version reads; a
    Tick is due for it; whatever the answer, the stall is over."""
    coordinator = SteppedCoordinator(Limits(stalled_ms=60_000))
    coordinator.read(written("a", 1), complete("a", 1))
    (commit,) = commits(coordinator.load() + coordinator.tick())
    began = coordinator.now
    assert reported(coordinator.tick(59_000)) == []
    assert next_due_ms(coordinator.state) == began + 60_000
    assert stalls_reported(coordinator.tick(1_000)) == [(Health.DEGRADED, "FLOE-R151", began)]
    assert table_health(coordinator.state, coordinator.state.tables["db.t"])[0] is Health.STALLED
    assert reported(coordinator.tick(1_000_000)) == []
    assert next_due_ms(coordinator.state) is None
    assert reported(coordinator.commit(commit) + coordinator.tick(10_000)) == [(Health.RUNNING, 0, "")]


def test_a_commit_that_stalls_after_another_has_failed_is_reported_as_a_stall() -> None:
    """A table that is DEGRADED already is told anew when its next commit stalls: the code says which it is."""
    coordinator = SteppedCoordinator(Limits(stalled_ms=60_000, retry_first_ms=1_000))
    coordinator.read(written("a", 1), complete("a", 1))
    (commit,) = commits(coordinator.load() + coordinator.tick())
    coordinator.feed(CommitFailed("db.t", commit.commit_id, "503"))
    assert stalls_reported(coordinator.tick()) == [(Health.DEGRADED, "FLOE-R136", coordinator.now)]
    coordinator.tick(1_000)
    assert len(commits(coordinator.load() + coordinator.tick())) == 1
    began = coordinator.now
    assert stalls_reported(coordinator.tick(60_000)) == [(Health.DEGRADED, "FLOE-R151", began)]


def test_without_a_limit_no_commit_stalls() -> None:
    """Who only looks, or sets no time, is told of no stall, and no Tick is due for one."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1), complete("a", 1))
    assert len(commits(coordinator.load() + coordinator.tick())) == 1
    assert next_due_ms(coordinator.state) is None
    assert reported(coordinator.tick(10**9)) == []


def test_a_table_that_flaps_is_reported_at_a_bounded_rate() -> None:
    """However often a table fails and recovers within ten seconds, one change of it is told, and the last one is."""
    coordinator = SteppedCoordinator(Limits(retry_first_ms=1, retry_most_ms=1))
    said = 0
    progress: TableProgress | None = None
    for batch in range(1, 101):
        effects = coordinator.read(written("a", batch, interval_ms=0), complete("a", batch))
        effects += coordinator.load() if batch == 1 else ()
        (commit,) = commits(effects + coordinator.tick())
        effects = (
            coordinator.feed(CommitFailed("db.t", commit.commit_id, "503")) + coordinator.tick() + coordinator.tick(200)
        )
        said += len(reported(effects))
        (commit,) = commits(coordinator.load(progress=progress) + coordinator.tick())
        progress = commit.progress
        effects = coordinator.commit(commit) + coordinator.tick()
        said += len(reported(effects))
    assert said <= 2 + (100 * 200) // 10_000
    assert next_due_ms(coordinator.state) is not None
    said_last = reported(coordinator.tick(10_000))
    assert said_last in ([], [(Health.RUNNING, 0, "")])


def test_since_when_a_table_is_in_trouble_outlives_the_coordinator() -> None:
    """A successor reads what was told, goes on from its moment, and tells nothing that stands in the log already."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1), complete("a", 1))
    coordinator.load(schema_id=1, unusable_schema_ids=frozenset({0}))
    (event,) = [e.event for e in coordinator.tick() if isinstance(e, Publish) and isinstance(e.event, StateChanged)]
    assert event.state is Health.BLOCKED
    successor = SteppedCoordinator()
    successor.read(written("a", 1), complete("a", 1), event)
    successor.load(schema_id=1, unusable_schema_ids=frozenset({0}))
    assert reported(successor.tick()) == []
    assert reported(successor.tick(5_000) + successor.load() + successor.tick(60_000)) == [(Health.RUNNING, 0, "")]


def pause(paused: bool = True, pattern: str = "db.*", holds: Holds = Holds.COMMITS) -> PauseChanged:
    return PauseChanged(holds, pattern, paused, "a migration", "me@here", 1_000)


def test_a_paused_table_waits_and_holds_the_low_water_mark() -> None:
    """Commits of matching tables are held, others go on; a request is answered with the reason; resume commits at
    once."""
    coordinator = SteppedCoordinator()
    coordinator.read(
        pause(pattern="db.t"), written("a", 1), written("a", 1, "db.u"), complete("a", 1, ("db.t", "db.u"))
    )
    effects = coordinator.load("db.t") + coordinator.load("db.u") + coordinator.tick()
    (commit,) = commits(effects)
    assert commit.table == "db.u"
    coordinator.commit(commit)
    (answer,) = published(coordinator.read(CommitRequested("q", "", coordinator.now + 10_000)), CommitComplete)
    assert isinstance(answer, CommitComplete)
    assert "db.u" not in answer.blocked
    assert "paused for `db.t` by me@here" in answer.blocked["db.t"]
    assert snapshot(coordinator.state).low_water == 1
    assert commits(coordinator.tick(1_000_000)) == []
    (late,) = commits(coordinator.read(pause(False, "db.t")))
    assert late.table == "db.t"


def test_a_pause_is_seen_by_a_successor_that_reads_from_the_stored_mark() -> None:
    """A pause holds `chain_from` until it is repeated; then the mark moves on, and a successor knows of it all the
    same."""
    coordinator = SteppedCoordinator()
    log: list[ControlEvent | None] = []

    def append(*events: ControlEvent) -> tuple[Effect, ...]:
        """The events, and after them what the coordinator publishes, as it is read back."""
        effects: tuple[Effect, ...] = ()
        todo = list(events)
        while todo:
            log.append(todo[0])
            found = coordinator.read(todo.pop(0))
            todo += [e.event for e in found if isinstance(e, Publish)]
            effects += found
        return effects

    append(pause(pattern="db.other"))
    marks: list[StoreLowWater] = []
    for batch in range(1, 40):
        effects = append(written("a", batch), complete("a", batch))
        effects += coordinator.load() if batch == 1 else ()
        effects += coordinator.tick(60_000)
        (commit,) = commits(effects)
        done = coordinator.commit(commit) + coordinator.tick(20_000)
        append(*[e.event for e in effects + done if isinstance(e, Publish)])
        marks += [e for e in effects + done if isinstance(e, StoreLowWater)]
    assert marks[0].chain_from == 0
    assert (marks[-1].chain_from or 0) > 20
    for mark in marks:
        assigned = Assigned("c2", TOPIC_ID, 0, mark.offset, TOPIC_ID, mark.chain_from)
        successor, _ = step(CoordinatorState(), assigned, 0)
        for offset in range(start_offset(assigned), mark.offset):
            successor, _ = step(successor, Read(offset, log[offset]), 0)
        assert [seen.event.pattern for seen in successor.pauses.values()] == ["db.other"]


def test_a_late_repetition_brings_no_pause_back() -> None:
    """What a stale coordinator repeats of before the resume does not count."""
    coordinator = SteppedCoordinator()
    coordinator.read(pause(), pause(False))
    stale = CommitComplete("old", 0, 0, position=1, paused=(pause(),))
    coordinator.read(stale)
    assert not any(seen.event.paused for seen in coordinator.state.pauses.values())
