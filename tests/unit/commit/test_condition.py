"""The eight states: what each needs, what counts more than what, and what is told with it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from framework.commit.events.event_types import Health, Holds, PauseChanged, StateChanged, Subject
from framework.commit.machine.reporting import condition
from framework.commit.machine.reporting.condition import (
    Condition,
    PipelineFacts,
    TableFacts,
    pipeline_condition,
    table_condition,
)

PAUSE = PauseChanged(Holds.READING, "orders", True, "a migration", "me@here", 5_000)
LIVE = PipelineFacts("orders", ("r2",), (), 0, "", (), "", None)
QUIET = TableFacts("shop.orders", 0, (Health.IDLE, ""), None, 9_000, None, True)


def report(state: Health, by: str = "r2", at: int = 7_000, subject: Subject = Subject.PIPELINE) -> StateChanged:
    return StateChanged(subject, "orders", state, "503", "wait", "FLOE-R324", 3, 6_000, at, by)


def stall(code: str) -> StateChanged:
    """As the log has it: DEGRADED with a code of its own."""
    return replace(report(Health.DEGRADED, at=9_500), code=code, reason="no progress")


@pytest.mark.parametrize(
    ("facts", "state", "said"),
    [
        (LIVE, Health.IDLE, ""),
        (replace(LIVE, lag=5), Health.RUNNING, ""),
        (replace(LIVE, reports=(report(Health.DEGRADED),)), Health.DEGRADED, "503"),
        (replace(LIVE, reports=(stall("FLOE-R150"),)), Health.STALLED, "no progress"),
        (replace(LIVE, reports=(report(Health.FAILED, "r1"),)), Health.IDLE, ""),
        (replace(LIVE, reports=(report(Health.DEGRADED),), pause=PAUSE), Health.PAUSED, "a migration"),
        (replace(LIVE, broken="a gap", pause=PAUSE), Health.BLOCKED, "a gap"),
        (replace(LIVE, missing_topics=("src",)), Health.BLOCKED, "topic src does not exist"),
        (replace(LIVE, recreated_topics=("src",)), Health.BLOCKED, "topic src was recreated"),
        (replace(LIVE, live=(), recreated_topics=("src",)), Health.BLOCKED, "topic src was recreated"),
        (replace(LIVE, foreign_offsets="not written by floe"), Health.BLOCKED, "not written by floe"),
        (replace(LIVE, live=()), Health.STOPPED, "no run is live"),
        (replace(LIVE, live=(), reports=(replace(report(Health.STOPPED), code=""),)), Health.STOPPED, "503"),
        (replace(LIVE, live=(), reports=(report(Health.STOPPED),)), Health.FAILED, "503"),
        (replace(LIVE, live=(), reports=(report(Health.FAILED),)), Health.FAILED, "503"),
        (replace(LIVE, live=(), reports=(report(Health.RUNNING),)), Health.FAILED, "r2 vanished"),
        (replace(LIVE, live=(), reports=(report(Health.DEGRADED),)), Health.FAILED, "r2 vanished"),
    ],
)
def test_the_state_of_a_pipeline(facts: PipelineFacts, state: Health, said: str) -> None:
    """What can be looked at counts more than what was told, and only a live run's word is heeded while one lives."""
    found = pipeline_condition(facts)
    assert found.state is state
    assert said in found.reason
    assert bool(found.remedy) == (state not in (Health.RUNNING, Health.IDLE))


@pytest.mark.parametrize(
    ("facts", "state", "said"),
    [
        (QUIET, Health.IDLE, ""),
        (replace(QUIET, pending=2, examined=(Health.RUNNING, "")), Health.RUNNING, ""),
        (replace(QUIET, pending=2, examined=(Health.BLOCKED, "it is missing")), Health.BLOCKED, "it is missing"),
        (replace(QUIET, pending=2, report=report(Health.FAILED, at=9_500)), Health.FAILED, "503"),
        (replace(QUIET, pending=2, report=report(Health.DEGRADED, at=8_500)), Health.RUNNING, ""),
        (replace(QUIET, pending=2, report=stall("FLOE-R151")), Health.STALLED, "no progress"),
        (replace(QUIET, pending=2, examined=(Health.STALLED, "no answer")), Health.STALLED, "no answer"),
        (replace(QUIET, report=stall("FLOE-R151")), Health.IDLE, ""),
        (replace(QUIET, report=report(Health.FAILED, at=9_500)), Health.IDLE, ""),
        (replace(QUIET, pending=2, examined=(Health.DEGRADED, "503")), Health.DEGRADED, "503"),
        (replace(QUIET, unreadable="the catalog is down"), Health.DEGRADED, "the catalog is down"),
        (replace(QUIET, pending=2, coordinated=False), Health.STOPPED, "nobody coordinates"),
        (replace(QUIET, pause=replace(PAUSE, holds=Holds.COMMITS)), Health.PAUSED, "commits paused for `orders`"),
    ],
)
def test_the_state_of_a_table(facts: TableFacts, state: Health, said: str) -> None:
    """A report is over with the next commit; a table for which nothing waits is well whatever was told."""
    found = table_condition(facts)
    assert found.state is state
    assert said in found.reason
    assert bool(found.remedy) == (state not in (Health.RUNNING, Health.IDLE))


def test_a_stopped_pipeline_that_is_paused_says_how_it_reads_again() -> None:
    """Who starts it would else see it read nothing, and look a second time."""
    for reports in ((), (report(Health.FAILED),), (report(Health.RUNNING),)):
        stopped = replace(LIVE, live=(), reports=reports)
        assert "`floe resume --reading orders`" in pipeline_condition(replace(stopped, pause=PAUSE)).remedy
        assert "floe resume" not in pipeline_condition(stopped).remedy


def test_a_run_is_stopped_before_a_command_that_refuses_live_runs() -> None:
    """What is typed from top to bottom works: no verb that asks `refuse_live` comes before `floe stop`, what was stopped is
    started again, and the words are the same when the run ends by itself in between."""
    folder = Path(condition.__file__).parents[3] / "cli" / "repair"
    verbs = {path.stem for path in folder.glob("*.py") if "refuse_live" in path.read_text()}
    assert verbs == {"offsets", "discard", "rebase", "rollback"}
    for facts in (
        replace(LIVE, broken="a gap"),
        replace(LIVE, foreign_offsets="not written by floe"),
        replace(LIVE, missing_topics=("src",)),
        replace(LIVE, recreated_topics=("src",)),
    ):
        remedy = pipeline_condition(facts).remedy
        commands = re.findall("`floe ([^`]+)`", remedy)
        assert commands[-1] == "run FILE"
        changing = [each for each in commands if each.split()[0] in verbs and not each.startswith("offsets show")]
        assert not changing or commands[0] == "stop orders"
        assert pipeline_condition(replace(facts, live=())).remedy == remedy


def test_since_when_is_said() -> None:
    """A state that was told says when it began; a pause, when it was said; a calm table, when it was last committed."""
    assert pipeline_condition(replace(LIVE, reports=(report(Health.DEGRADED),))).since_ms == 6_000
    assert pipeline_condition(replace(LIVE, pause=PAUSE)).since_ms == 5_000
    assert table_condition(QUIET).since_ms == 9_000


def test_since_is_the_time_of_the_event_and_not_of_the_last_report() -> None:
    """A run that vanished did so after the log heard of it last; a run is idle since its last batch, a table waits since
    its oldest announcement, also where nobody coordinates."""
    gone = replace(LIVE, live=(), reports=(report(Health.RUNNING),))
    assert pipeline_condition(gone).since_ms == 7_000
    assert pipeline_condition(replace(gone, heard_ms=9_000)).since_ms == 9_000
    assert pipeline_condition(replace(gone, heard_ms=6_500)).since_ms == 7_000
    idle = replace(LIVE, reports=(report(Health.RUNNING),))
    assert pipeline_condition(idle).since_ms == 6_000
    assert pipeline_condition(replace(idle, last_batch_ms=8_000)).since_ms == 8_000
    assert pipeline_condition(replace(idle, last_batch_ms=8_000, lag=1)).since_ms == 6_000
    gone_topic = replace(gone, missing_topics=("src",), last_batch_ms=9_000)
    assert pipeline_condition(gone_topic).since_ms == 9_000
    assert pipeline_condition(replace(gone_topic, reports=(report(Health.FAILED),))).since_ms == 6_000
    waiting = replace(QUIET, pending=2, examined=(Health.RUNNING, ""), waits_since_ms=9_500)
    assert table_condition(waiting).since_ms == 9_500
    assert table_condition(replace(waiting, coordinated=False)).since_ms == 9_500


def test_what_a_run_said_at_its_end_is_what_to_do() -> None:
    """The remedy of a run that failed is shown, and how to start it then; where it said none, that alone is."""
    failed = replace(LIVE, live=(), reports=(report(Health.FAILED),))
    assert pipeline_condition(failed) == Condition(
        Health.FAILED,
        "503",
        "wait; then `floe run FILE` goes on from the safe offsets",
        "FLOE-R324",
        6_000,
        3,
        is_reported=True,
    )
    again = replace(report(Health.FAILED), remedy="`floe run a.yaml --allow FLOE-P102`")
    assert pipeline_condition(replace(failed, reports=(again,))).remedy == again.remedy
    assert pipeline_condition(replace(LIVE, broken="a gap")).code == "FLOE-R105"
    silent = replace(LIVE, live=(), reports=(replace(report(Health.FAILED), remedy=""),))
    assert pipeline_condition(silent).remedy == "`floe run FILE` goes on from the safe offsets"


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("a batch failed: PermissionError: [Errno 1] Failed to open local file 'x'", "takes files"),
        ("a batch failed: NotADirectoryError: [Errno 20] Cannot create directory 'x'", "takes files"),
        ("a batch failed: org.apache.spark.SparkException: Job aborted", "`spark.log` has the whole failure"),
    ],
)
def test_a_batch_that_fails_has_a_command(reason: str, said: str) -> None:
    """What a task's exception says is no remedy: where a file could not be written it is the store, else each service is asked;
    both are floe's own words, so that their command can be copied."""
    failing = replace(report(Health.DEGRADED), reason=reason, remedy="Spark's log has the details")
    found = pipeline_condition(replace(LIVE, reports=(failing,)))
    assert said in found.remedy
    assert "`floe doctor FILE`" in found.remedy
    assert not found.is_reported
