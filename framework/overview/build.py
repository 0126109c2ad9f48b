"""Values for people, from the folded log and from what the broker says: states, reasons, what waits, what comes first.

In: a `LogFold`, what the broker said, and the time. Out: an `Overview`.
Pure; states are found by the same functions as everywhere else. A table's value is made anew only when it changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from framework.commit.dead_letter_replay import is_replay
from framework.commit.events.event_types import Accounting, Health, Holds
from framework.commit.machine.effects import OUTCOME_UNKNOWN
from framework.commit.machine.pauses import holding
from framework.commit.machine.reporting.condition import (
    Condition,
    PipelineFacts,
    TableFacts,
    later,
    pipeline_condition,
    table_condition,
)
from framework.commit.maintenance.health import needs_of
from framework.commit.risks import (
    RETENTION_NEAR,
    Held,
    Risk,
    Silence,
    coordinator_flaps,
    feed_silent,
    many_dead_letters,
    records_hidden,
    retention_near,
)
from framework.diagnose.whole_commands import UNKNOWN_RUN, ReaderPlace, StartedFrom, whole_commands
from framework.overview.fold import MINUTES, LogFold, PendingAnnouncement, PipelineFold, TableFold
from framework.overview.values import (
    IN_TROUBLE,
    URGENCY,
    AnnouncementOutcome,
    BrokerSeen,
    Minute,
    Overview,
    PartitionView,
    PhaseTime,
    PipelineFactsSeen,
    PipelineView,
    ScreenProblem,
    TableView,
    TimelineEntry,
    WaitingView,
)

# More lines of one kind are reported as a number: with 1,000 blocked tables the cause is one.
SAME_REASON = 3


@dataclass
class Built:
    """What was made before and holds still: tables by name, and under which coordination they were judged."""

    tables: dict[str, TableView] = field(default_factory=dict)
    coordinated: bool | None = None
    minute: int = 0


def overview(
    fold: LogFold,
    broker: BrokerSeen,
    built: Built,
    at_ms: int,
    version: int,
    place: ReaderPlace,
) -> Overview:
    """Everything at this moment, with commands for whoever reads it at that place; `built` is changed, and the fold's
    `touched` is emptied."""
    minute = at_ms // 60_000
    coordinated = broker.owner is not None
    everything = built.coordinated is not coordinated or built.minute != minute
    built.coordinated, built.minute = coordinated, minute
    for name in fold.tables if everything else fold.touched:
        built.tables[name] = table_view(fold.tables[name], fold, coordinated, minute, place)
    fold.touched.clear()
    tables = tuple(each for _, each in sorted(built.tables.items()) if not given_up(each))
    pipelines = tuple(
        pipeline_view(fold.pipelines[name], fold, broker, at_ms, place) for name in sorted(fold.pipelines)
    )
    flaps = coordinator_flaps(place.control_topic, fold.leadership.takeovers_ms, at_ms)
    lines = [
        *(ScreenProblem("pipeline", each.pipeline, each.condition) for each in pipelines),
        *(ScreenProblem("pipeline", each.pipeline, risk) for each in pipelines for risk in each.risks),
        *(
            (ScreenProblem("coordinator", place.control_topic, _whole(as_condition(flaps), place)),)
            if flaps is not None
            else ()
        ),
        *(ScreenProblem("table", each.table, each.condition) for each in tables),
    ]
    return Overview(
        version,
        at_ms,
        place.target,
        place.control_topic,
        broker,
        fold.position,
        pipelines,
        tables,
        _ordered(line for line in lines if line.condition.state in IN_TROUBLE),
        _ordered(
            line
            for line in lines
            if line.condition.state is Health.PAUSED
            or (line.condition.state is Health.STOPPED and line.condition.reason)
        ),
        tuple(reversed(fold.acts)),
    )


def pipeline_view(
    found: PipelineFold,
    fold: LogFold,
    broker: BrokerSeen,
    now_ms: int,
    place: ReaderPlace,
) -> PipelineView:
    minute = now_ms // 60_000
    name, link = found.pipeline, found.link
    facts = broker.pipelines.get(name, PipelineFactsSeen())
    condition = pipeline_condition(
        PipelineFacts(
            name=name,
            live=facts.runs,
            reports=tuple(found.reports.values()),
            lag=facts.lag,
            broken=found.broken,
            missing_topics=facts.missing_topics,
            recreated_topics=facts.recreated_topics,
            foreign_offsets=facts.foreign_offsets,
            pause=holding(fold.pauses, Holds.READING, name),
            replay=is_replay(name),
            last_batch_ms=found.last_batch_ms,
            heard_ms=later(found.heard_ms, facts.live_until_ms),
            is_deployed=bool(found.run.deployment),
        )
    )
    risks = tuple(
        _whole(as_condition(risk), place, found.run)
        for risk in (
            retention_near(name, held_of(facts.partitions)),
            records_hidden(name, facts.transactions, now_ms),
            many_dead_letters(name, found.dead_letters.flood(now_ms)),
            feed_silent(name, Silence(found.silent_after_ms, found.last_batch_ms), now_ms) if facts.runs else None,
        )
        if risk is not None
    )
    return PipelineView(
        pipeline=name,
        condition=_whole(condition, place, found.run),
        runs=facts.runs,
        batch=link.batch if link is not None else 0,
        totals=link.totals if link is not None else Accounting(),
        lag=facts.lag,
        partitions=facts.partitions,
        valid_through_ms=found.valid_through_ms,
        waiting=_waiting(
            w for t in found.tables for q in fold.tables[t].waiting.values() for w in q if w.pipeline == name
        ),
        minutes=_hour(found.minutes.found, minute),
        phases=_phases(found, minute),
        at_risk=next(iter(risks), None),
        risks=risks,
        waits_since_ms=facts.waits_since_ms,
        lag_trend=found.trend.word(now_ms, facts.waits_since_ms),
        owners=found.owners,
        budgets=fold.objectives.budgets(name, now_ms),
    )


def _whole(condition: Condition, place: ReaderPlace, run: StartedFrom = UNKNOWN_RUN) -> Condition:
    if not condition.remedy:
        return condition
    return replace(condition, remedy=whole_commands(condition.remedy, place, run))


def _phases(found: PipelineFold, minute: int) -> tuple[PhaseTime, ...]:
    lately = [spent for at, spent in found.phases if at > minute - MINUTES]
    names = {name for spent in lately for name in spent}
    times = (
        PhaseTime(name, lately[-1].get(name, 0), sum(spent.get(name, 0) for spent in lately) // len(lately))
        for name in sorted(names)
    )
    return tuple(sorted(times, key=lambda each: -each.mean_ms))


def as_condition(risk: Risk) -> Condition:
    """A risk beside the states: it comes before what is DEGRADED, and is shown like it."""
    return Condition(Health.DEGRADED, risk.reason, risk.remedy, risk.code, risk.since_ms)


def held_of(partitions: Iterable[PartitionView]) -> tuple[Held, ...]:
    """What topics hold of the partitions of which something was announced: of others nobody knows where a run begins."""
    return tuple(
        Held(each.topic, each.partition, each.log_start, each.log_end, each.safe_offset, each.waits_since_ms)
        for each in partitions
        if each.safe_offset is not None
    )


def table_view(found: TableFold, fold: LogFold, coordinated: bool, minute: int, place: ReaderPlace) -> TableView:
    waiting = _waiting(w for queue in found.waiting.values() for w in queue)
    report, commit = found.report, found.commit
    last_commit_ms = commit.timestamp_ms if commit is not None else None
    is_over = report is not None and last_commit_ms is not None and report.timestamp_ms < last_commit_ms
    examined = (Health.BLOCKED, found.blocked) if found.blocked else (Health.IDLE, "")
    if report is not None and not is_over and report.state is Health.BLOCKED and not found.blocked:
        examined = (Health.BLOCKED, report.reason)
    condition = table_condition(
        TableFacts(
            table=found.table,
            pending=waiting.announcements,
            examined=examined,
            report=report,
            last_commit_ms=last_commit_ms,
            pause=holding(fold.pauses, Holds.COMMITS, found.table),
            coordinated=coordinated,
            blocked_since_ms=found.blocked_since_ms,
            waits_since_ms=waiting.oldest_ms,
        )
    )
    of = next(iter(found.pipelines)) if len(found.pipelines) == 1 else ""
    condition = _whole(condition, place, fold.pipelines[of].run if of in fold.pipelines else UNKNOWN_RUN)
    minutes = _hour(found.minutes.found, minute)
    unknown = condition.state in IN_TROUBLE and condition.reason.startswith(OUTCOME_UNKNOWN)
    return TableView(
        table=found.table,
        condition=condition,
        waiting=waiting,
        pipelines=tuple(sorted(found.pipelines)),
        snapshot_id=commit.snapshot_id if commit is not None else None,
        last_commit_ms=last_commit_ms,
        valid_through_ms=commit.valid_through_ms if commit is not None else None,
        hour=_sum(minutes),
        minutes=minutes,
        timeline=tuple(_entry(entry, unknown) for entry in reversed(found.timeline)),
        schema_id=found.schema_id,
        schema_changes=tuple(reversed(found.schema_changes)),
        health=found.measured.health if found.measured is not None else None,
        measured_ms=found.measured.timestamp_ms if found.measured is not None else None,
        needs=needs_of(found.measured.health) if found.measured is not None else (),
    )


def given_up(table: TableView) -> bool:
    """Whether nothing is left of a table: it never had a commit, and a person gave up all that was announced for it."""
    never = table.snapshot_id is None and not table.waiting.announcements
    return (
        never and bool(table.timeline) and all(each.outcome is AnnouncementOutcome.GIVEN_UP for each in table.timeline)
    )


def _entry(entry: TimelineEntry, unknown: bool) -> TimelineEntry:
    return (
        replace(entry, outcome=AnnouncementOutcome.UNKNOWN)
        if unknown and entry.outcome is AnnouncementOutcome.WAITING
        else entry
    )


def _waiting(entries: Iterable[PendingAnnouncement]) -> WaitingView:
    announcements = rows = files = size = 0
    oldest: int | None = None
    for each in entries:
        announcements += 1
        rows += each.rows
        files += each.files
        size += each.bytes
        at_ms = each.at_ms
        if at_ms is not None and (oldest is None or at_ms < oldest):
            oldest = at_ms
    return WaitingView(announcements, rows, files, size, oldest)


def _hour(found: Iterable[Minute], minute: int) -> tuple[Minute, ...]:
    return tuple(each for each in found if each.minute > minute - MINUTES)


def _sum(minutes: tuple[Minute, ...]) -> Minute:
    total = Minute(minutes[-1].minute if minutes else 0)
    for each in minutes:
        total = replace(
            total,
            commits=total.commits + each.commits,
            rows=total.rows + each.rows,
            files=total.files + each.files,
            bytes=total.bytes + each.bytes,
        )
    return total


def _ordered(lines: Iterable[ScreenProblem]) -> tuple[ScreenProblem, ...]:
    """The most urgent first, pipelines before tables, the oldest first; many that share a reason are one line with a
    number."""
    ordered = sorted(
        lines,
        key=lambda line: (
            line.condition.code != RETENTION_NEAR,  # nothing brings back what that takes
            URGENCY.index(line.condition.state),
            line.kind != "pipeline",
            line.condition.since_ms if line.condition.since_ms is not None else 2**53,
            line.name,
        ),
    )
    reported: dict[tuple[str, str, str], list[int]] = {}
    result: list[ScreenProblem] = []
    for line in ordered:
        key = (line.kind, line.condition.state.value, general(line))
        same = reported.setdefault(key, [])
        if len(same) < SAME_REASON:
            same.append(len(result))
            result.append(line)
        else:
            result[same[-1]] = replace(result[same[-1]], others=result[same[-1]].others + 1)
    return tuple(result)


def general(line: ScreenProblem) -> str:
    """A reason without the name that it is about, so that the same trouble of several tables is one."""
    return line.condition.reason.replace(line.name, "")
