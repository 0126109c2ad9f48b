"""Figures from what driver and coordinator know, and whose failures they count."""

from __future__ import annotations

from dataclasses import replace

import pytest

from framework.commit.events.event_types import (
    Accounting,
    CommitToTable,
    Health,
    Holds,
    PauseChanged,
    StateChanged,
    Subject,
    TableMeasured,
)
from framework.commit.machine.effects import (
    CommitConflict,
    CommitFailed,
    Committed,
    FailureCause,
    FilesGone,
    Input,
)
from framework.commit.machine.step import Limits
from framework.commit.maintenance.health import MANY_SNAPSHOTS, Need, TableHealth
from framework.commit.objectives.fresh_time import FreshTime
from framework.commit.offsets import PartitionFacts
from framework.commit.watch import PipelineBacklog
from framework.config.values.objectives import Objectives
from framework.errors import FloeError, OutcomeUnknown, RetriableError
from framework.metrics.figures import RunPhase, Service, Stall, TableFigures
from framework.metrics.lag import EndsSeen
from framework.metrics.services import outcome_of, service_of, service_of_commit
from framework.runtime.batches.measures import RunMeasures, steady_ms
from framework.runtime.measures.commits import CommitMeasures
from framework.runtime.measures.figures import RunFacts, coordinator_figures, pipeline_figures
from tests.protocol.build import complete, view, written
from tests.unit.commit.test_coordinator_step import SteppedCoordinator, commits

NOW_MS = 50_000_000


def facts(reported: Health | None = Health.RUNNING, pause: PauseChanged | None = None, broken: str = "") -> RunFacts:
    report = None
    if reported is not None:
        code = "" if reported is Health.STOPPED else "FLOE-R324"  # one that stopped as it was asked to has none
        report = StateChanged(Subject.PIPELINE, "orders", reported, "why", "do", code, 1, 7_000, 8_000, "r1")
    positions = {("t", 0): 10, ("t", 1): 5}
    return RunFacts(
        "orders", "r1", positions, Accounting(15, 15), 3, report, pause, PipelineBacklog(2, 300, 1, 1), broken
    )


def measured() -> RunMeasures:
    measures = RunMeasures()
    measures.look({("t", 0): PartitionFacts("i", 0, 12), ("t", 1): PartitionFacts("i", 0, 5)}, facts().positions)
    measures.enter(RunPhase.WRITING, 4)
    return measures


def test_objectives_are_counted_from_totals_and_from_the_time_that_is_measured() -> None:
    """Records are of the pipeline's whole life, as its totals are; seconds are those of this process."""
    fresh = FreshTime(60_000)
    totals = Accounting(20, written=15, filtered=1, dead_lettered=2, lost=2)
    promised = replace(facts(), totals=totals, objectives=Objectives(60_000, "99.9%", "1%"), fresh=fresh)

    def found() -> dict[str, tuple[float, float]]:
        figures = pipeline_figures(promised, measured(), NOW_MS, steady_ms(), 600_000)
        return {each.objective.value: (each.counted, each.bad) for each in figures.objectives}

    assert found() == {"freshness": (0, 0), "complete": (19, 4), "dead_letters": (18, 2)}
    fresh.reach(NOW_MS - 100_000, NOW_MS - 110_000)
    assert found()["freshness"] == (100, 50)


def test_a_source_is_read_where_its_newest_look_found_nothing_beyond_the_positions() -> None:
    """And a look is as old as it is: a broker that is silent says nothing new."""
    ends = measured().ends
    assert ends.all_read_ms({("t", 0): 12, ("t", 1): 5}) == ends.looked_ms
    assert ends.all_read_ms({("t", 0): 11, ("t", 1): 5}) is None
    assert EndsSeen().all_read_ms({}) is None


PAUSE = PauseChanged(Holds.READING, "orders", True, "a migration", "me@here", 5_000)


@pytest.mark.parametrize(
    ("given", "quiet_ms", "state"),
    [
        (facts(), 0, Health.RUNNING),
        (facts(Health.DEGRADED), 0, Health.DEGRADED),
        (facts(), 60_000, Health.STALLED),
        (facts(Health.DEGRADED), 60_000, Health.STALLED),
        (facts(pause=PAUSE), 60_000, Health.PAUSED),
        (facts(broken="a gap"), 60_000, Health.BLOCKED),
        (facts(Health.FAILED), 60_000, Health.FAILED),
        (facts(Health.STOPPED), 0, Health.STOPPED),
    ],
)
def test_the_state_is_that_of_status_and_a_stall_is_seen_at_once(given: RunFacts, quiet_ms: int, state: Health) -> None:
    """What `floe status` would say; a run that is quiet for too long is STALLED before that is in the log, unless
    somebody holds it or must mend it."""
    found = pipeline_figures(given, measured(), NOW_MS, steady_ms() + quiet_ms, 60_000)
    assert found.state is state
    assert (found.stall is not None) == bool(quiet_ms)
    if state is Health.STALLED:
        assert found.since_ms == pytest.approx(NOW_MS - quiet_ms, abs=1_000)
        assert found.stall is not None
        assert found.stall.phase is RunPhase.WRITING


def test_figures_of_a_run_are_its_own() -> None:
    """Lag by partition, the sum since the pipeline first ran, and what waits, as the run knows them."""
    found = pipeline_figures(facts(), measured(), NOW_MS, steady_ms(), 60_000)
    assert [(p.topic, p.partition, p.safe_offset, p.lag) for p in found.partitions] == [("t", 0, 10, 2), ("t", 1, 5, 0)]
    assert (found.batch, found.totals.written, found.waiting_batches, found.waiting_bytes) == (3, 15, 2, 300)


def test_an_owner_shows_what_waits_for_its_tables() -> None:
    """Announced rows, files and bytes until they are committed, and the time of the oldest; then nothing, and the
    commit. Whoever stands by shows no table."""
    coordinator, measures = SteppedCoordinator(), CommitMeasures()
    event = written("a", 1)
    coordinator.read(event, complete("a", 1))
    (commit,) = commits(coordinator.load() + coordinator.tick())
    assert coordinator_figures("control", coordinator.state, measures, coordinator.now).tables == ()

    measures.assigned(owns=True)
    found = coordinator_figures("control", coordinator.state, measures, coordinator.now)
    [table] = found.tables
    assert (table.table, table.state) == ("db.t", Health.RUNNING)
    assert (table.announcements, table.records, table.files, table.bytes) == (1, event.rows, 1, event.bytes)
    assert table.oldest_ms is not None
    coordinator.commit(commit)
    coordinator.read(CommitToTable("db.t", commit.view.table_uuid, 7, commit.commit_id, 2, 1, 1, 9_000))
    [table] = coordinator_figures("control", coordinator.state, measures, coordinator.now).tables
    assert table == TableFigures("db.t", Health.IDLE, valid_through_ms=table.valid_through_ms, last_commit_ms=9_000)


def test_an_owner_shows_how_healthy_its_tables_are() -> None:
    """What was last measured of a table, when, and why a person should maintain it; nothing of a table that nobody has
    measured."""
    coordinator, measures = SteppedCoordinator(), CommitMeasures()
    measures.assigned(owns=True)
    coordinator.read(written("a", 1), complete("a", 1))
    coordinator.load()
    health = TableHealth(200, 190, 10**8, 10**6, 0, 0, 3, 9_000, 600, None, 150, 10**8, gain_snapshots=MANY_SNAPSHOTS)
    reported = {name: TableMeasured(name, health, 7_000, "c") for name in ("db.t", "db.unknown")}
    [table] = coordinator_figures("control", coordinator.state, measures, coordinator.now, reported).tables
    assert (table.table, table.health, table.measured_ms) == ("db.t", health, 7_000)
    assert table.needs == {Need.SMALL_FILES: 1, Need.SNAPSHOTS: 1}
    [table] = coordinator_figures("control", coordinator.state, measures, coordinator.now, {}).tables
    assert (table.health, table.measured_ms, table.needs) == (None, None, {})


def test_a_commit_that_gets_no_answer_is_a_stalled_table() -> None:
    """The table is STALLED in the metrics as soon as the time is up."""
    coordinator, measures = SteppedCoordinator(Limits(stalled_ms=60_000)), CommitMeasures()
    measures.assigned(owns=True)
    coordinator.read(written("a", 1), complete("a", 1))
    assert len(commits(coordinator.load() + coordinator.tick())) == 1
    states = [
        coordinator_figures("c", coordinator.state, measures, coordinator.now + at).tables[0].state
        for at in (59_999, 60_000)
    ]
    assert states == [Health.RUNNING, Health.STALLED]


def test_takeovers_are_counted() -> None:
    """Each time that a process begins to coordinate is one; while it does not, it has no since."""
    measures = CommitMeasures()
    for owns in (True, False, True):
        measures.assigned(owns)
    assert (measures.takeovers, measures.owns, measures.owner_since_ms is not None) == (2, True, True)


@pytest.mark.parametrize(
    ("answer", "outcome", "service"),
    [
        (Committed("t", "c", view("t"), 1, 1), "committed", None),
        (CommitConflict("t", "c", "moved"), "conflict", None),
        (FilesGone("t", "c", ("a",)), "files_gone", None),
        (CommitFailed("t", "c", "503"), "failed", Service.CATALOG),
        (CommitFailed("t", "c", "full", FailureCause.STORE), "failed", Service.STORE),
        (CommitFailed("t", "c", "403", FailureCause.REFUSED), "refused", Service.CATALOG),
        (CommitFailed("t", "c", "no answer", FailureCause.UNKNOWN), "unknown", Service.CATALOG),
    ],
)
def test_commits_are_counted_by_outcome(answer: Input, outcome: str, service: Service | None) -> None:
    """Each way in which a commit can end is one outcome, and what is tried again is somebody's failure."""
    assert outcome_of(answer) == outcome
    assert service_of_commit(answer) is service


@pytest.mark.parametrize(
    ("error", "service"),
    [
        (RetriableError("no broker", code="FLOE-R123"), Service.BROKER),
        (OutcomeUnknown("no answer", code="FLOE-R107"), Service.BROKER),
        (FloeError("no catalog", code="FLOE-E201"), Service.CATALOG),
        (RetriableError("no registry", code="FLOE-R141"), Service.REGISTRY),
        (RetriableError("a batch failed: OSError: No space left on device", code="FLOE-R324"), Service.STORE),
        (RetriableError("a batch failed: executor lost", code="FLOE-R324"), Service.SPARK),
    ],
)
def test_failed_batches_are_counted_by_service(error: FloeError, service: Service) -> None:
    """Whose failure it was is known from the code, or from what a task's traceback ends with."""
    assert service_of(error) is service
    measures = RunMeasures()
    measures.failed(error)
    assert (measures.failed_batches, measures.retries) == (1, {service: 1})


def test_a_stall_is_a_value() -> None:
    """Two looks at one stall are equal, so that it is told once."""
    progress = measured().progress
    later = progress.progress_ms + 60_000
    assert (
        progress.stall(later, 60_000)
        == progress.stall(later + 5_000, 60_000)
        == Stall(RunPhase.WRITING, progress.progress_ms)
    )


def test_whether_the_store_takes_files_is_as_it_was_last() -> None:
    """Unknown before the first file; no from a failure that names a file, until a batch or a commit is through; a failure of
    somebody else changes nothing."""
    run, coordinator = RunMeasures(), CommitMeasures()
    assert (run.store_up, coordinator.store_up) == (None, None)
    run.failed(RetriableError("a batch failed: PermissionError: [Errno 1]", code="FLOE-R324"))
    assert run.store_up is False
    run.failed(RetriableError("no answer", code="FLOE-R120"))
    assert run.store_up is False
    assert run.registry_up is None
    run.failed(RetriableError("no answer", code="FLOE-R141"))
    assert run.registry_up is False
    stepped = SteppedCoordinator()
    stepped.read(written("a", 1), complete("a", 1))
    (commit,) = commits(stepped.load() + stepped.tick())
    for answer, expected in (
        (CommitFailed("db.t", "c", "full", FailureCause.STORE), False),
        (CommitFailed("db.t", "c", "503"), False),
        (Committed("db.t", "c", view("db.t"), 1, 1), True),
        (CommitConflict("db.t", "c", "moved"), True),
    ):
        coordinator.begin("default", commit)
        coordinator.end("default", commit, commit, answer)
        assert coordinator.store_up is expected
