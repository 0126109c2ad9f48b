"""The documents of `/v1`, as values: a first screen, lines of tables, and the message of whatever is no success.

In: an `Overview`. Out: frozen values; their JSON and the schemas that OpenAPI names are both made from these classes.
What is large (timelines, minutes) stands only in the document of one table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from framework.commit.maintenance.health import Need
from framework.overview.values import ActView, Minute, Overview, PipelineView, ScreenProblem, TableView, WaitingView


@dataclass(frozen=True)
class ErrorMessage:
    """Connect's form of an error."""

    error_code: int
    message: str


@dataclass(frozen=True)
class Summary:
    """The first screen. `version` grows whenever anything but the time has changed; `coordinator` None: nobody.
    `broker_trouble`: why the broker cannot be asked, and since when; what is shown then is what it said before."""

    version: int
    at_ms: int
    target: str
    control_topic: str
    coordinator: str | None
    low_water: int
    log_end: int
    broker_trouble: str
    broker_trouble_since_ms: int | None
    pipelines: Mapping[str, int]
    tables: Mapping[str, int]
    troubles: tuple[ScreenProblem, ...]
    held: tuple[ScreenProblem, ...]
    acts: tuple[ActView, ...]


@dataclass(frozen=True)
class Pipelines:
    pipelines: tuple[PipelineView, ...]


@dataclass(frozen=True)
class TableLine:
    """A table in a list. `hour` is what was announced and committed in the last hour; `needs` is why a person should
    maintain it."""

    table: str
    state: str
    reason: str
    remedy: str
    code: str
    since_ms: int | None
    waiting: WaitingView
    pipelines: tuple[str, ...]
    last_commit_ms: int | None
    valid_through_ms: int | None
    hour: Minute
    schema_id: int | None
    needs: tuple[Need, ...]


@dataclass(frozen=True)
class Tables:
    """`next`: the value of `after` for the next page, None at the end."""

    tables: tuple[TableLine, ...]
    next: str | None


@dataclass(frozen=True)
class ShownDeadLetter:
    """A dead letter. `lines`: the record's value in one line, cut around what is wrong, and under it a mark there; no
    character in any text has an effect."""

    place: str
    at_ms: int | None
    stage: str
    code: str
    title: str
    message: str
    field_path: str
    expected: str
    actual: str
    key: str
    lines: tuple[str, ...]
    replayed: bool


@dataclass(frozen=True)
class DeadLetterPage:
    """The newest of a pipeline's dead letters whose records are younger than `since_ms`; `found` counts all of them."""

    pipeline: str
    table: str
    since_ms: int
    found: int
    letters: tuple[ShownDeadLetter, ...]


def summary(found: Overview) -> Summary:
    return Summary(
        found.version,
        found.at_ms,
        found.target,
        found.control_topic,
        found.broker.owner,
        found.broker.low_water,
        found.broker.log_end,
        found.broker.trouble,
        found.broker.trouble_since_ms,
        Counter(each.condition.state.value for each in found.pipelines),
        Counter(each.condition.state.value for each in found.tables),
        found.troubles,
        found.held,
        found.acts,
    )


def line(found: TableView) -> TableLine:
    condition = found.condition
    return TableLine(
        found.table,
        condition.state.value,
        condition.reason,
        condition.remedy,
        condition.code,
        condition.since_ms,
        found.waiting,
        found.pipelines,
        found.last_commit_ms,
        found.valid_through_ms,
        found.hour,
        found.schema_id,
        found.needs,
    )


def tables(found: Overview, pattern: str, state: str, after: str, limit: int) -> Tables:
    """A page of the tables whose name holds the text and that are in the state; "" for all."""
    wanted = [
        each
        for each in found.tables
        if each.table > after and pattern in each.table and (not state or each.condition.state.value == state)
    ]
    chosen = wanted[:limit]
    return Tables(tuple(map(line, chosen)), chosen[-1].table if len(wanted) > limit else None)
