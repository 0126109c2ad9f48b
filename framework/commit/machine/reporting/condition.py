"""Which of the eight states a pipeline or a table is in, from everything that is known of it.

In: what the broker shows, what the log was folded to, and what runs and coordinators reported, as values. Out: the state
with its reason, since when, and what to do. What can be looked at counts more than what was reported: a report is heeded
only while the run that reported it lives, or until a commit has come after it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from framework.commit.events.event_types import Health, PauseChanged, StateChanged, Subject
from framework.commit.machine.pauses import describe, resume_command
from framework.commit.machine.reporting.batch_remedies import batch_remedy
from framework.commit.machine.reporting.blocked_remedies import (
    FAILING_REMEDY,
    FILES_GONE,
    blocked_remedy,
    failing_remedy,
)
from framework.commit.machine.reporting.health import (
    STALLED_BATCH,
    STALLED_BATCH_REMEDY,
    STALLED_COMMIT,
    STALLED_COMMIT_REMEDY,
)
from framework.commit.offsets import RECREATED_REMEDY
from framework.commit.watch import PipelineBacklog, hold_reason
from framework.diagnose.counted import counted
from framework.diagnose.shown import argument, is_command

_QUOTED = re.compile("`([^`]*)`")
_STARTS = re.compile("`floe (?:run|deploy|submit) ")
GOES_ON_ALONE = "`floe run FILE` goes on from the safe offsets"
GOES_ON_DEPLOYED = "`floe deploy FOLDER` starts it again at the safe offsets"
HELD = "FLOE-R139"
HELD_REMEDY = "`floe status` says why those tables wait; reading resumes by itself once they are committed"


@dataclass(frozen=True)
class Condition:
    """`is_told`: reason and remedy are text of the control log, of which nothing becomes a command to copy."""

    state: Health
    reason: str = ""
    remedy: str = ""
    code: str = ""
    since_ms: int | None = None
    failures: int = 0
    is_reported: bool = False


@dataclass(frozen=True)
class PipelineFacts:
    """`live`: ids of runs that are members of the group; `reports`: what runs published, the newest run last.
    `last_batch_ms`: when a batch was announced last; `heard_ms`: when the log holds anything of a run last."""

    name: str
    live: tuple[str, ...]
    reports: tuple[StateChanged, ...]
    lag: int
    broken: str
    missing_topics: tuple[str, ...]
    foreign_offsets: str  # why the group's offsets are not this pipeline's own; "" when they are
    pause: PauseChanged | None
    replay: bool = False  # of dead letters: done by a command, no run of its own goes on
    unannounced: bool = False  # neither the log nor the group says where it stands: its lag is not known
    last_batch_ms: int | None = None
    heard_ms: int | None = None
    recreated_topics: tuple[str, ...] = ()
    is_deployed: bool = False  # `floe deploy` started its newest run


@dataclass(frozen=True)
class TableFacts:
    """`examined`: state and reason as a coordinator would find them now, without what only its memory knows; None:
    nobody looked, and what was reported counts. `blocked_since_ms`: when a commit's word first named it as blocked;
    `waits_since_ms`: the time of the oldest announcement that waits."""

    table: str
    pending: int
    examined: tuple[Health, str] | None
    report: StateChanged | None
    last_commit_ms: int | None
    pause: PauseChanged | None
    coordinated: bool
    unreadable: str = ""
    blocked_since_ms: int | None = None
    waits_since_ms: int | None = None


def pipeline_condition(facts: PipelineFacts) -> Condition:
    """The state of a pipeline. What a person must repair comes first, then what a person holds, then whether it runs."""
    name = argument(facts.name)
    reported = next((r for r in reversed(facts.reports) if not facts.live or r.by in facts.live), None)
    since_ms = reported.since_ms if reported is not None else None
    # What is looked at began when the run reported its end, and else after the newest batch.
    is_ended = reported is not None and reported.state in (Health.FAILED, Health.STOPPED)
    found_ms = since_ms if is_ended else later(since_ms, facts.last_batch_ms)
    goes_on = GOES_ON_DEPLOYED if facts.is_deployed else GOES_ON_ALONE
    if facts.pause is not None:  # what starts reads nothing
        goes_on += f", and `{resume_command(facts.pause)}` lets it read"
    # A run ends by itself some seconds after most of these, and commands that repair refuse a live one: the same words hold
    # before and after. What repairs the cause starts nothing.
    stop, then = f"`floe stop {name}`, then ", f"; then {goes_on}"
    if facts.broken:
        remedy = f"`floe offsets set {name} --from-log` goes on where its good chain ends"
        return Condition(Health.BLOCKED, facts.broken, stop + remedy + then, "FLOE-R105", found_ms)
    if facts.foreign_offsets:
        remedy = f"`floe offsets set {name} --from-log` writes the announced offsets back"
        return Condition(Health.BLOCKED, facts.foreign_offsets, stop + remedy + then, "FLOE-R313", found_ms)
    if facts.missing_topics:
        reason = f"topic {', '.join(facts.missing_topics)} does not exist"
        remedy = f"restore the topic, or correct the file's source.kafka.topics; `floe offsets show {name}`"
        return Condition(Health.BLOCKED, reason, remedy + then, "FLOE-R315", found_ms)
    if facts.recreated_topics:
        reason = f"topic {', '.join(facts.recreated_topics)} was recreated, and holds other records than those that were read"
        return Condition(Health.BLOCKED, reason, stop + RECREATED_REMEDY + then, "FLOE-R316", found_ms)
    if facts.replay:
        return Condition(Health.IDLE)
    if not facts.live:
        return _ended(reported, facts.heard_ms, goes_on)
    if facts.pause is not None:
        remedy = f"`{resume_command(facts.pause)}` resumes it"
        return Condition(Health.PAUSED, describe(facts.pause), remedy, "", facts.pause.timestamp_ms)
    if reported is not None and reported.state in (Health.DEGRADED, Health.BLOCKED):
        return _as_reported(reported)
    if facts.unannounced or facts.lag:
        return Condition(Health.RUNNING, since_ms=since_ms)
    return Condition(Health.IDLE, since_ms=later(since_ms, facts.last_batch_ms))


def later(one_ms: int | None, other_ms: int | None) -> int | None:
    """The later of two moments of which each may be unknown."""
    known = [each for each in (one_ms, other_ms) if each is not None]
    return max(known, default=None)


def _ended(reported: StateChanged | None, heard_ms: int | None, goes_on: str) -> Condition:
    """No run is live. One that said nothing of its end vanished after the log had heard of it last."""
    if reported is None:
        return Condition(Health.STOPPED, "no run is live", goes_on)
    if reported.state in (Health.STOPPED, Health.FAILED):
        # One that stopped with a code did not end as it was asked to: what it announced is not in all tables.
        state = Health.FAILED if reported.code else reported.state
        found = _as_reported(replace(reported, state=state, remedy=reported.remedy or goes_on))
        if state is Health.FAILED and not _STARTS.search(found.remedy):
            found = replace(found, remedy=f"{found.remedy}; then {goes_on}")  # what repairs the cause starts nothing
        return found
    reason = f"run {reported.by} vanished: it was killed, or its machine is gone"
    since_ms = later(reported.timestamp_ms, heard_ms)
    return Condition(Health.FAILED, reason, goes_on, "FLOE-R138", since_ms)


def _as_reported(report: StateChanged) -> Condition:
    """In the log a stall is DEGRADED with a code of its own. What to do is made of code and name where floe knows it."""
    state = Health.STALLED if report.code in (STALLED_BATCH, STALLED_COMMIT) else report.state
    if (made := _made(report)) is not None:
        return Condition(state, report.reason, made, report.code, report.since_ms, report.failures)
    is_floes = all(map(is_command, _QUOTED.findall(report.remedy)))
    remedy = report.remedy if is_floes else "see what its process said itself"
    return Condition(state, report.reason, remedy, report.code, report.since_ms, report.failures, is_reported=True)


def _made(report: StateChanged) -> str | None:
    """The remedy of a code, from nothing but its subject's name and the words by which a reason is known."""
    if report.subject is Subject.TABLE and report.code == "FLOE-R110":
        return blocked_remedy(report.name, report.reason)
    if report.subject is Subject.PIPELINE and report.state is Health.DEGRADED:
        made = batch_remedy(report.code, report.reason)
        if made is not None:
            return made
    return {
        STALLED_BATCH: STALLED_BATCH_REMEDY,
        STALLED_COMMIT: STALLED_COMMIT_REMEDY,
        "FLOE-R135": FAILING_REMEDY,
        "FLOE-R136": failing_remedy(report.reason),
        "FLOE-R316": RECREATED_REMEDY,
    }.get(report.code)


def reading_hold(
    pause: PauseChanged | None, waiting: PipelineBacklog, max_batches: int, max_bytes: int
) -> Condition | None:
    """Why a live run reads nothing for now: a person holds it, or too much waits for its tables. None: it reads. What waits
    goes on by itself, so it is DEGRADED: a table that a person must repair is BLOCKED itself."""
    if pause is not None:
        remedy = f"`{resume_command(pause)}` resumes it"
        return Condition(Health.PAUSED, describe(pause), remedy, "", pause.timestamp_ms)
    reason = hold_reason(waiting, max_batches, max_bytes)
    return Condition(Health.DEGRADED, reason, HELD_REMEDY, HELD) if reason is not None else None


def commit_hold(waiting: PipelineBacklog, is_seen: bool) -> Condition | None:
    """Why a live run whose tables are upserted reads nothing for now: a batch of it is not committed yet
    (invariant 17). None: all are.

    Args:
        is_seen: whether what the run announced last is among what waits, or was.
    """
    if is_seen and not waiting.batches:
        return None
    where = f" for {waiting.oldest_table}" if waiting.oldest_table else ""
    reason = f"a batch is announced{where}, and the next one is done when it is committed: it may replace rows of it"
    return Condition(Health.DEGRADED, reason, HELD_REMEDY, HELD)


def table_condition(facts: TableFacts) -> Condition:
    """The state of a table."""
    report = facts.report
    if report is not None and facts.last_commit_ms is not None and report.timestamp_ms < facts.last_commit_ms:
        report = None  # what was reported was over with that commit
    if facts.pause is not None:
        remedy = f"`{resume_command(facts.pause)}` resumes it"
        return Condition(Health.PAUSED, describe(facts.pause), remedy, "", facts.pause.timestamp_ms)
    state, reason = facts.examined or (Health.RUNNING, "")
    if facts.pending and report is not None and report.state is Health.BLOCKED:
        # A look at the table shows nothing of files that it does not have yet.
        is_unseen = state is not Health.BLOCKED and report.reason.startswith(FILES_GONE)
        if facts.examined is None or is_unseen:
            return _as_reported(report)
    if facts.pending and state is Health.BLOCKED:
        is_reported = report is not None and report.state is Health.BLOCKED
        since_ms = report.since_ms if report is not None and is_reported else facts.blocked_since_ms
        return Condition(Health.BLOCKED, reason, blocked_remedy(facts.table, reason), "FLOE-R110", since_ms)
    if facts.pending and state is Health.STALLED:
        return Condition(state, reason, STALLED_COMMIT_REMEDY, STALLED_COMMIT)
    if facts.pending and report is not None and report.state in (Health.DEGRADED, Health.FAILED):
        return _as_reported(report)
    if facts.pending and state in (Health.DEGRADED, Health.FAILED):
        return Condition(Health.DEGRADED, reason, failing_remedy(reason), "FLOE-R136")
    if facts.unreadable:
        return Condition(Health.DEGRADED, facts.unreadable, FAILING_REMEDY, "FLOE-R135")
    if facts.pending and not facts.coordinated:
        reason = f"nobody coordinates, and {counted(facts.pending, 'announcement waits', 'announcements wait')}"
        remedy = "`floe coordinator`, or a run of any pipeline, commits them"
        return Condition(Health.STOPPED, reason, remedy, since_ms=facts.waits_since_ms)
    if facts.pending:
        return Condition(Health.RUNNING, since_ms=facts.waits_since_ms)
    return Condition(Health.IDLE, since_ms=facts.last_commit_ms)
