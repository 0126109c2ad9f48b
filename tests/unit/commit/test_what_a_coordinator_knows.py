"""What a coordinator remembers, hands to the next one and reports: each rule here once went unnoticed when it was
changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from framework.commit.events.event_types import CommitComplete, CommitRequested, CommitToTable, Discarded, SourceRange
from framework.commit.machine.cycle import chain_from, low_water
from framework.commit.machine.effects import (
    Assigned,
    CommitConflict,
    CommitFailed,
    CommitTable,
    Effect,
    PipelineProgress,
    StopCoordinator,
    TableMissing,
    TableProgress,
)
from framework.commit.machine.progress.chain import Fit, check_recorded
from framework.commit.machine.step import CoordinatorState, Limits, snapshot, step
from tests.protocol.build import STEP, TOPIC_ID, complete, heartbeat, offsets_set, pause, ranges, written
from tests.unit.commit.test_coordinator_step import SteppedCoordinator, commits, paths, published


def committing(coordinator: SteppedCoordinator, *tables: str) -> list[CommitTable]:
    """A batch for each of these tables is announced and its commit is under way."""
    effects: tuple[Effect, ...] = ()
    for table in tables:
        effects += coordinator.read(written(f"to-{table}", 1, table), complete(f"to-{table}", 1, (table,)))
        effects += coordinator.load(table)
    return commits(effects + coordinator.tick())


def test_a_successor_begins_at_the_link_of_what_waits_also_while_a_batch_is_open() -> None:
    """Invariant 2: a batch that is announced behind what waits does not move the place from which its link is seen."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1), complete("a", 1))
    (first,) = commits(coordinator.load() + coordinator.tick())
    coordinator.commit(first)
    coordinator.read(written("a", 2), complete("a", 2), written("a", 3))
    assert (low_water(coordinator.state), chain_from(coordinator.state)) == (2, 1)


def test_a_repeated_link_is_the_end_of_the_chain() -> None:
    """Invariant 2: a reader that begins at a CommitComplete knows from it how the chain goes on, and what breaks it."""
    link = replace(heartbeat("a", 4, 4 * STEP), ranges=ranges(4, start=4 * STEP, end=4 * STEP))
    for batch, breaks in [(5, False), (6, True)]:
        coordinator = SteppedCoordinator(log_start=10, low_water=10)
        coordinator.offset = 10
        coordinator.read(CommitComplete("c0", 10, 0, chain={"a": link}, position=10))
        known = coordinator.state.pipelines["a"]
        assert (known.link, known.link_offset) == (link, 10)
        coordinator.read(written("a", batch), complete("a", batch))
        assert (coordinator.state.pipelines["a"].broken is not None) is breaks


def test_what_a_predecessor_said_of_times_is_known_and_never_moves_back() -> None:
    """The valid-through times of a CommitComplete count for pipelines of which nothing else was read."""
    coordinator = SteppedCoordinator()
    coordinator.read(
        CommitComplete("c0", 0, 0, valid_through_ms={"a": 50}), CommitComplete("c1", 0, 0, valid_through_ms={"a": 40})
    )
    report = snapshot(coordinator.state).pipelines["a"]
    assert (report.valid_through_ms, report.visible_through_ms) == (50, 50)


def test_a_request_that_is_read_while_catching_up_is_answered_if_it_is_not_over() -> None:
    """Who asks a coordinator that is still reading is answered when it has read all; one whose deadline passed so long
    ago that no clock can be that wrong is not."""
    coordinator = SteppedCoordinator()
    coordinator.tick(caught_up=False)
    late = coordinator.now - Limits().clocks_apart_ms - 1
    assert (
        coordinator.read(CommitRequested("late", "", late), CommitRequested("soon", "", coordinator.now + 10_000)) == ()
    )
    assert snapshot(coordinator.state).open_requests == ("soon",)
    answers = published(coordinator.tick(), CommitComplete)
    assert [answer.request_id for answer in answers if isinstance(answer, CommitComplete)] == ["soon"]
    assert snapshot(coordinator.state).open_requests == ()
    (answer,) = published(coordinator.read(CommitRequested("past", "", coordinator.now - 1)), CommitComplete)
    assert isinstance(answer, CommitComplete)
    assert answer.request_id == "past"


def test_what_the_table_records_is_not_queued_when_it_is_read_later() -> None:
    """Invariant 5: announcements below the recorded progress are dropped, whether they were read before or after it."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1), complete("a", 1))
    coordinator.load(progress=TableProgress(TOPIC_ID, 4))
    coordinator.read(written("a", 2), complete("a", 2))
    assert coordinator.state.tables["db.t"].pending_files == 0
    (commit,) = commits(coordinator.read(written("a", 3), complete("a", 3)) + coordinator.tick())
    assert paths(commit) == ["db.t/a-r-3-0-0"]


@pytest.mark.parametrize(("recorded", "waits_from"), [(2, 2), (3, 3), (5, None)])
def test_what_was_not_kept_in_memory_ends_with_the_recorded_progress(recorded: int, waits_from: int | None) -> None:
    """Invariants 3 and 6: what the table records is no longer waited for, and what it does not record holds the
    mark."""
    coordinator = SteppedCoordinator(Limits(undrained_files=1, blocked_first_ms=1, blocked_most_ms=1))
    coordinator.read(written("a", 1), complete("a", 1))
    coordinator.tick()
    coordinator.feed(TableMissing("db.t", "dropped"))
    coordinator.read(written("a", 2), complete("a", 2), written("a", 3), complete("a", 3))
    assert coordinator.state.tables["db.t"].unread is not None
    assert low_water(coordinator.state) == 0
    coordinator.tick(10)
    coordinator.load(progress=TableProgress(TOPIC_ID, recorded))
    unread = coordinator.state.tables["db.t"].unread
    assert (unread.offset if unread is not None else None) == waits_from


def test_pauses_after_conflicts_begin_short_and_double() -> None:
    """The fourth conflict in a row waits a moment, each further one twice as long, up to a bound."""
    limits = Limits(immediate_conflict_retries=3, conflict_first_ms=100, conflict_most_ms=400)
    coordinator = SteppedCoordinator(limits)
    coordinator.read(written("a", 1, interval_ms=180_000), complete("a", 1))
    effects = coordinator.load() + coordinator.tick()
    waits: list[int] = []
    for _ in range(7):
        (commit,) = commits(effects)
        assert commits(coordinator.feed(CommitConflict("db.t", commit.commit_id, "the branch has moved"))) == []
        retry = coordinator.state.tables["db.t"].retry_at_ms
        waits.append(retry - coordinator.now if retry is not None else 0)
        effects = coordinator.tick(waits[-1]) + coordinator.load()
        effects += coordinator.tick()
    assert waits[:3] == [0, 0, 0]
    for wait, full in zip(waits[3:], [100, 200, 400, 400], strict=True):
        assert 3 * full // 4 <= wait <= full


def test_a_cycle_is_reported_when_its_last_commit_is_done_or_too_long_after_the_one_before() -> None:
    """While another table's commit is under way nothing is told, unless that has lasted for half a minute."""
    coordinator = SteppedCoordinator()
    (first,) = committing(coordinator, "db.t")
    assert len(published(coordinator.commit(first), CommitComplete)) == 1
    one, two, three = committing(coordinator, "db.u", "db.v", "db.w")
    assert published(coordinator.commit(one), CommitComplete) == []
    coordinator.now += Limits().complete_most_ms
    assert len(published(coordinator.commit(two), CommitComplete)) == 1
    assert len(published(coordinator.commit(three), CommitComplete)) == 1


def test_the_report_says_what_is_known() -> None:
    """State, progress of an examined table, none of one that was not, and the state of a broken chain."""
    coordinator = SteppedCoordinator()
    assert snapshot(coordinator.state).state == "catching_up"
    coordinator.read(written("a", 1), complete("a", 1), written("b", 1, "db.u"), complete("b", 1, ("db.u",)))
    assert snapshot(coordinator.state).tables["db.t"].progress is None
    (commit,) = commits(coordinator.load(progress=TableProgress(TOPIC_ID, 0)) + coordinator.tick())
    assert snapshot(coordinator.state).tables["db.t"].progress == 0
    coordinator.commit(commit)
    report = snapshot(coordinator.state)
    assert (report.state, report.tables["db.t"].progress, report.tables["db.u"].progress) == ("running", 4, None)
    coordinator.read(written("a", 3), complete("a", 3))
    assert (snapshot(coordinator.state).pipelines["a"].state, snapshot(coordinator.state).pipelines["b"].state) == (
        "blocked",
        "ok",
    )
    stopped, (stop,) = step(CoordinatorState(), Assigned("c", TOPIC_ID, 9, 5, TOPIC_ID), 0)
    assert isinstance(stop, StopCoordinator)
    assert (snapshot(stopped).state, snapshot(stopped).reason) == ("stopped", stop.message)
    assert snapshot(CoordinatorState()).state == "waiting"


def test_a_pause_that_was_taken_back_is_not_revived_by_a_late_word() -> None:
    """A repetition counts only for what was said below its position, for a successor as for who reads on."""
    coordinator = SteppedCoordinator()
    coordinator.read(
        pause("db.t"), pause("db.t", False), CommitComplete("c0", 0, 0, position=1, paused=(pause("db.t"),))
    )
    coordinator.read(written("a", 1), complete("a", 1))
    assert len(commits(coordinator.load() + coordinator.tick())) == 1


@pytest.mark.parametrize(
    ("batch", "start", "fit"),
    [
        (3, 2, Fit.FOLLOWS),
        (3, 3, Fit.BROKEN),
        (4, 3, Fit.FOLLOWS),
        (3, 1, Fit.REPEAT),
        (2, 1, Fit.REPEAT),
        (2, 2, Fit.FOLLOWS),
        (2, 3, Fit.BROKEN),
        (1, 2, Fit.BROKEN),
    ],
)
def test_what_a_table_records_says_how_a_batch_fits(batch: int, start: int, fit: Fit) -> None:
    """Invariant 5, after batch 2 ended at 20: the next one begins there, a later one may begin further on, since
    batches without rows for the table leave no trace; what lies wholly in what the table holds is a repeat. A
    run that began in the middle of a rebase has the number that the table records, and begins where that ends."""
    recorded = PipelineProgress(2, {"src": {"0": 2 * STEP}}, {"src": "src-id"})
    event = written("a", batch, source=ranges(batch, start=start * STEP, end=(start + 1) * STEP))
    assert check_recorded(recorded, event).fit is fit


def test_a_pause_of_commits_means_a_table_with_or_without_its_catalog() -> None:
    """A pattern that names no catalog holds a table of any; one of pipelines' reading holds no table."""
    coordinator = SteppedCoordinator()
    coordinator.read(pause("db.*"), written("a", 1, "cold:db.t"), complete("a", 1, ("cold:db.t",)))
    assert commits(coordinator.load("cold:db.t") + coordinator.tick()) == []
    (commit,) = commits(coordinator.read(pause("db.*", False)) + coordinator.tick())
    assert commit.table == "cold:db.t"


def test_a_batch_that_does_not_fit_what_its_table_records_waits_and_says_why() -> None:
    """Invariants 5 and 10: records between what the table holds and the next batch are missing, so nothing is added."""
    coordinator = SteppedCoordinator()
    coordinator.read(offsets_set("a", 2, 3 * STEP))
    coordinator.read(written("a", 3, source=ranges(4)), complete("a", 3, source=ranges(4)))
    recorded = PipelineProgress(2, {"src": {"0": 2 * STEP}}, {"src": "src-id"})
    assert commits(coordinator.load(progress=TableProgress(TOPIC_ID, 0, {"a": recorded})) + coordinator.tick()) == []
    report = snapshot(coordinator.state).tables["db.t"]
    assert report.state == "blocked"
    assert "starts at 30" in report.reason
    assert "batch 2 ended at 20" in report.reason


def test_a_late_answer_to_another_commit_is_not_heeded() -> None:
    """Invariant 7: what came of an older commit says nothing of the one that is under way."""
    coordinator = SteppedCoordinator()
    (commit,) = committing(coordinator, "db.t")
    before = coordinator.state.tables
    assert coordinator.feed(CommitFailed("db.t", "an older one", "no answer")) == ()
    assert coordinator.state.tables == before
    assert published(coordinator.commit(commit), CommitComplete) != []


def test_the_interval_counts_from_a_predecessors_commit() -> None:
    """A new coordinator waits for what is left of the interval, whether it reads of the commit before or after the
    files."""
    for told_first in (True, False):
        coordinator = SteppedCoordinator()
        reported = CommitToTable("db.t", "uuid-db.t", 1, "c0", 0, 1, 1, coordinator.now - 400)
        events = (
            [reported, written("a", 1), complete("a", 1)]
            if told_first
            else [written("a", 1), reported, complete("a", 1)]
        )
        coordinator.read(*events)
        coordinator.load()
        assert commits(coordinator.tick()) == []
        assert commits(coordinator.tick(599)) == []
        assert len(commits(coordinator.tick(1))) == 1


def test_what_was_not_kept_is_given_up_from_its_first_announcement_on() -> None:
    """A discard that begins just where memory ends moves the place from which the log would be read again."""
    coordinator = SteppedCoordinator(Limits(undrained_files=1))
    coordinator.read(written("a", 1), complete("a", 1))
    coordinator.tick()
    coordinator.feed(TableMissing("db.t", "dropped"))
    coordinator.read(written("a", 2), complete("a", 2), written("a", 3), complete("a", 3))
    coordinator.read(Discarded("db.t", 2, 3, 1, 1, {}, "", 0))
    unread = coordinator.state.tables["db.t"].unread
    assert unread is not None
    assert unread.offset == 3


def test_a_cycle_tells_the_chains_that_moved() -> None:
    """Invariant 2: each CommitComplete carries the links that moved since the one before, and settled ones by their
    name."""
    coordinator = SteppedCoordinator()
    (first,) = committing(coordinator, "db.t")
    coordinator.commit(first)
    (second,) = committing(coordinator, "db.u")
    (reported,) = published(coordinator.commit(second), CommitComplete)
    assert isinstance(reported, CommitComplete)
    assert set(reported.chain) == {"to-db.u"}
    coordinator.read(offsets_set("to-db.t", 2, STEP))
    link = coordinator.state.pipelines["to-db.t"].link
    assert link is not None
    assert (link.pipeline, link.batch) == ("to-db.t", 2)


def test_a_partition_that_is_not_named_keeps_its_place_in_the_chain() -> None:
    """Invariant 2: after batches without it, a partition goes on where its last batch ended, or the chain is broken."""
    for start, breaks in [(10, False), (11, True)]:
        coordinator = SteppedCoordinator()
        both = (*ranges(1), SourceRange("src", "src-id", 1, 0, 10))
        coordinator.read(written("a", 1, source=both), complete("a", 1, source=both), written("a", 2), complete("a", 2))
        late = (SourceRange("src", "src-id", 1, start, 20),)
        coordinator.read(written("a", 3, source=late), complete("a", 3, source=late))
        assert (coordinator.state.pipelines["a"].broken is not None) is breaks
