"""Where everything stands, judged from the control log, from what the broker shows, and, if somebody looked, the tables.

In: a folded `ControlLog`, `BrokerView`, and `StatusInput` or None, all as values; the time is an argument. Out: a `Status`. Pure:
nothing is asked of anybody. Without a look at the tables the log counts: a commit that it does not report yet
still waits, and a table is as the coordinator last said; `Status.word` and `PipelineStatus.word` say whose words those
are and how old. The states are judged by the functions that the metrics use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TypeVar

from framework.commit.dead_letter_replay import is_replay
from framework.commit.events.event_types import (
    Accounting,
    CommitToTable,
    DataComplete,
    Deployed,
    Health,
    Heartbeat,
    Holds,
)
from framework.commit.machine.cycle import low_water
from framework.commit.machine.model import TableState, Unread
from framework.commit.machine.pauses import active, holding
from framework.commit.machine.reporting.condition import PipelineFacts, TableFacts, pipeline_condition, table_condition
from framework.commit.machine.reporting.health import table_health
from framework.commit.maintenance.health import TableHealth
from framework.commit.offsets import PartitionKey, SafeOffset
from framework.commit.risks import (
    Held,
    OpenTransaction,
    Risk,
    Silence,
    coordinator_flaps,
    feed_silent,
    many_dead_letters,
    records_hidden,
    retention_near,
    silent_after_ms,
)
from framework.config.spec import TemplateUse
from framework.config.values.owners import NOBODY, Owners, owners_in
from framework.diagnose.counted import counted
from framework.diagnose.whole_commands import ReaderPlace, StartedFrom, whole_commands
from framework.observe.status.control_log import ControlLog
from framework.observe.status.model import (
    CommitStatus,
    ControlStatus,
    PartitionStatus,
    PauseStatus,
    PendingStatus,
    PipelineStatus,
    Status,
    TableStatus,
)


@dataclass(frozen=True)
class PipelineSeen:
    """What the broker shows of a pipeline: its group's offsets (or why they are not its own), its live runs, and which
    of its topics are there, with their ends and what they still hold."""

    group: Mapping[PartitionKey, SafeOffset] = field(default_factory=dict)
    foreign: str = ""
    live: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    ends: Mapping[PartitionKey, int] = field(default_factory=dict)
    starts: Mapping[PartitionKey, int] = field(default_factory=dict)
    held: tuple[Held, ...] = ()
    recreated: tuple[str, ...] = ()
    waits_since_ms: int | None = None
    transactions: tuple[OpenTransaction, ...] = ()


@dataclass(frozen=True)
class BrokerView:
    """What the broker shows now. `coordinator`: who owns the control topic, None: nobody."""

    coordinator: str | None
    pipelines: Mapping[str, PipelineSeen]


@dataclass(frozen=True)
class TableLook:
    """What a table itself shows; `unreadable` says why it could not be looked at."""

    total_rows: int | None = None
    health: TableHealth | None = None
    unreadable: str = ""


@dataclass(frozen=True)
class StatusInput:
    """`log`: the same records, folded with what the tables record; `tables` by name."""

    log: ControlLog
    tables: Mapping[str, TableLook]


def pipeline_names(log: ControlLog) -> list[str]:
    return sorted({*log.links, *log.state.pipelines, *log.reports})


def table_names(log: ControlLog) -> list[str]:
    return sorted(set(log.commits) | set(log.state.tables))


def status_of(
    place: ReaderPlace, log: ControlLog, seen: BrokerView, now_ms: int, looked: StatusInput | None = None
) -> Status:
    """Everything that the log knows of, once; with commands for whoever reads it at that place."""
    facts, stopped = log.facts, log.state.stopped
    low = low_water(looked.log.state if looked is not None else log.state) if stopped is None else facts.log_start
    control = ControlStatus(
        facts.name,
        facts.topic_id,
        facts.log_start,
        log.end,
        low,
        stopped.message if stopped is not None else "",
        stopped.remedy if stopped is not None else "",
        stopped.code if stopped is not None else "",
    )
    found = Status(
        place.target,
        control,
        seen.coordinator,
        tuple(_pipeline(name, log, seen.pipelines.get(name, PipelineSeen()), now_ms) for name in pipeline_names(log)),
        tuple(_table(name, log, seen.coordinator is not None, now_ms, looked) for name in table_names(log)),
        tuple(
            PauseStatus(each.event.holds, each.event.pattern, each.event.reason, each.event.by, each.event.timestamp_ms)
            for each in active(log.state.pauses)
        ),
        read_ms=now_ms,
        word=log.word,
        verified=looked is not None,
        risks=tuple(_risks(log, seen, now_ms)),
    )
    return _with_whole_commands(found, place, {name: started_from(run) for name, run in log.deployed.items()})


WithRemedy = TypeVar("WithRemedy", PipelineStatus, TableStatus, Risk)


def _with_whole_commands(found: Status, place: ReaderPlace, runs: Mapping[str, StartedFrom]) -> Status:
    def whole(one: WithRemedy, pipeline: str) -> WithRemedy:
        if not one.remedy:
            return one
        return replace(
            one, remedy=whole_commands(one.remedy, place, runs.get(pipeline, StartedFrom(pipeline=pipeline)))
        )

    return replace(
        found,
        control=replace(found.control, remedy=whole_commands(found.control.remedy, place)),
        pipelines=tuple(whole(each, each.pipeline) for each in found.pipelines),
        tables=tuple(whole(each, each.pipelines[0] if len(each.pipelines) == 1 else "") for each in found.tables),
        risks=tuple(whole(each, each.name) for each in found.risks),
    )


def started_from(run: Deployed) -> StartedFrom:
    return StartedFrom(run.file, run.deployment, run.pipeline)


def _risks(log: ControlLog, seen: BrokerView, now_ms: int) -> Iterator[Risk]:
    for name in pipeline_names(log):
        near = retention_near(name, seen.pipelines[name].held) if name in seen.pipelines else None
        if near is not None:
            yield near
        hidden = records_hidden(name, seen.pipelines[name].transactions, now_ms) if name in seen.pipelines else None
        if hidden is not None:
            yield hidden
        many = many_dead_letters(name, log.dead_letters[name].flood(now_ms)) if name in log.dead_letters else None
        if many is not None:
            yield many
        run, is_live = log.deployed.get(name), name in seen.pipelines and bool(seen.pipelines[name].live)
        if run is not None and is_live:
            silent = feed_silent(name, Silence(silent_after_ms(run), log.batched_ms.get(name)), now_ms)
            if silent is not None:
                yield silent
    flaps = coordinator_flaps(log.facts.name, log.leadership.takeovers_ms, now_ms)
    if flaps is not None:
        yield flaps


def template_of(reported: Deployed | None) -> TemplateUse | None:
    """The template that a run said it was made with."""
    value = reported.plan.get("template") if reported else None
    keys = tuple(each.name for each in fields(TemplateUse))
    if not isinstance(value, dict) or not all(isinstance(value.get(key), str) for key in keys):
        return None
    return TemplateUse(*(value[key] for key in keys))


def owners_of(reported: Deployed | None) -> Owners:
    """The owners that a run reported."""
    return owners_in(reported.plan.get("owners")) if reported else NOBODY


def newest_link(log: ControlLog, name: str) -> DataComplete | Heartbeat | None:
    """The newest batch or heartbeat of a pipeline."""
    folded = log.state.pipelines.get(name)
    return log.links.get(name) or (folded.link if folded else None)


def _pipeline(name: str, log: ControlLog, seen: PipelineSeen, now_ms: int) -> PipelineStatus:
    folded, group = log.state.pipelines.get(name), seen.group
    partitions = tuple(
        PartitionStatus(
            topic,
            partition,
            group[topic, partition].offset if (topic, partition) in group else None,
            end,
            max(
                0,
                end
                - (
                    group[topic, partition].offset
                    if (topic, partition) in group
                    else seen.starts.get((topic, partition), 0)
                ),
            ),
            group[topic, partition].gaps if (topic, partition) in group else (),
        )
        for (topic, partition), end in sorted(seen.ends.items())
    )
    newest: SafeOffset | DataComplete | Heartbeat | None
    newest = max(group.values(), key=lambda safe: safe.batch, default=None)
    link = newest_link(log, name)
    if is_replay(name):  # its source is a table: no group keeps its place
        newest = link
    lag = sum(p.lag for p in partitions)
    condition = pipeline_condition(
        PipelineFacts(
            name=name,
            live=seen.live,
            reports=tuple(log.reports.get(name, {}).values()),
            lag=lag,
            broken=(folded.broken if folded else None) or "",
            missing_topics=seen.missing,
            recreated_topics=seen.recreated,
            foreign_offsets=seen.foreign,
            pause=holding(log.state.pauses, Holds.READING, name),
            replay=is_replay(name),
            unannounced=link is None and not group,
            last_batch_ms=log.batched_ms.get(name),
            heard_ms=word.timestamp_ms if (word := log.words.get(name)) is not None else None,
            is_deployed=bool((run := log.deployed.get(name)) is not None and run.deployment),
        )
    )
    valid_through_ms = folded.visible_through_ms if folded is not None else None
    return PipelineStatus(
        name,
        condition.state,
        condition.reason,
        condition.remedy,
        condition.code,
        condition.since_ms,
        seen.live,
        newest.batch if newest else 0,
        lag,
        newest.totals if newest else Accounting(),
        partitions,
        template_of(log.deployed.get(name)),
        valid_through_ms,
        _age_ms(valid_through_ms, now_ms),
        log.words.get(name),
        seen.waits_since_ms,
        log.trends[name].word(now_ms, seen.waits_since_ms) if name in log.trends else "",
        owners_of(log.deployed.get(name)),
        log.objectives.budgets(name, now_ms),
    )


def _age_ms(moment_ms: int | None, now_ms: int) -> int | None:
    return max(0, now_ms - moment_ms) if moment_ms is not None else None


def _table(name: str, log: ControlLog, coordinated: bool, now_ms: int, looked: StatusInput | None) -> TableStatus:
    said = _one_table(name, log, coordinated, now_ms, None, False)
    if looked is None:
        return said
    found = _one_table(name, looked.log, coordinated, now_ms, looked.tables.get(name, TableLook()), True)
    return replace(found, differs=_difference(said, found))


def _difference(said: TableStatus, found: TableStatus) -> str:
    """What the log says otherwise than the table shows."""
    parts = []
    if said.state is not found.state:
        parts.append(said.state.value)
    if said.pending != found.pending:
        waiting = counted(said.pending.announcements, "announcement waits", "announcements wait")
        parts.append(f"{waiting} with {counted(said.pending.rows, 'row')}")
    return ", ".join(parts)


def _one_table(
    name: str, log: ControlLog, coordinated: bool, now_ms: int, look: TableLook | None, examined: bool
) -> TableStatus:
    state: TableState | None = log.state.tables.get(name)
    pending = PendingStatus(0, 0, 0, 0)
    if state is not None and state.pending:
        unread = state.unread or Unread(0)
        pending = PendingStatus(
            len(state.pending) + unread.announcements,
            state.pending_files + unread.files,
            state.pending_rows + unread.rows,
            state.pending_bytes + unread.bytes,
        )
    commit = log.commits.get(name)
    health = table_health(log.state, state)[:2] if state is not None and examined else (Health.IDLE, "")
    blocked = log.blocked.found.get(name) if not examined else None
    if blocked is not None:
        health = (Health.BLOCKED, blocked.reason)
    condition = table_condition(
        TableFacts(
            table=name,
            pending=pending.announcements,
            examined=health if examined or blocked is not None else None,
            report=log.state.reports.get(name),
            last_commit_ms=commit.timestamp_ms if commit is not None else None,
            pause=holding(log.state.pauses, Holds.COMMITS, name),
            coordinated=coordinated,
            blocked_since_ms=blocked.since_ms if blocked is not None else None,
            waits_since_ms=first.timestamp_ms if state is not None and (first := state.pending.first) else None,
            unreadable=look.unreadable if look is not None else "",
        )
    )
    valid_through_ms = commit.valid_through_ms if commit is not None else None
    writers = log.writers.get(name, frozenset()) | frozenset(state.newest if state is not None else ())
    return TableStatus(
        name,
        condition.state,
        condition.reason,
        condition.remedy,
        condition.code,
        condition.since_ms,
        condition.failures,
        pending,
        _commit(commit, look.total_rows if look is not None else None) if commit else None,
        look.health if look is not None else None,
        valid_through_ms,
        _age_ms(valid_through_ms, now_ms),
        tuple(sorted(writers)),
    )


def _commit(event: CommitToTable, total: int | None) -> CommitStatus:
    return CommitStatus(
        event.snapshot_id,
        event.timestamp_ms,
        event.rows,
        event.files,
        total,
        event.control_offset,
        event.valid_through_ms,
    )
