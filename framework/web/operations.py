"""Everything that the REST surface answers, in one list: routes, rights and the description by OpenAPI are made from it.

In: what was asked, as values. Out: what is answered, as values, or `Refused`. Invariant: what the list does not have is
neither routed nor described, and each operation says which role it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from framework import __version__
from framework.commit.events.event_types import Health
from framework.overview.values import PipelineView, TableView
from framework.web import connect, documents
from framework.web.access.access import Identity, Role
from framework.web.backend import Backend, Refused

WHY_LENGTH = 500
NAME_LENGTH = 400
PAGE = 1_000
RESTART = (
    "floe cannot restart a run from here: whatever started it, a supervisor, a scheduler or a person, starts it again. "
    "`floe stop PIPELINE` ends it, drained; `floe run` goes on from the safe offsets"
)


@dataclass(frozen=True)
class OperationRequest:
    """`query` has a value for each parameter of the operation: its default where none was given."""

    backend: Backend
    who: Identity
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Parameter:
    """A parameter of the query. `most` is the maximum of a number, or the maximum length of a text."""

    name: str
    about: str
    default: str | int
    most: int
    choices: tuple[str, ...] = ()
    several: bool = False


@dataclass(frozen=True)
class Operation:
    """One operation of the REST API. With `returns` None the response has no body. A `cached` response depends on nothing
    but the overview."""

    method: str
    path: str
    name: str
    about: str
    handle: Callable[[OperationRequest], object]
    returns: Any
    role: Role = Role.READ
    status: int = 200
    query: tuple[Parameter, ...] = ()
    has_body: bool = False
    refuses: tuple[int, ...] = ()
    cached: bool = False

    @property
    def path_names(self) -> tuple[str, ...]:
        return tuple(part[1:-1] for part in self.path.split("/") if part.startswith("{"))


def pipeline_of(asked: OperationRequest) -> PipelineView:
    name = asked.path["connector" if "connector" in asked.path else "pipeline"]
    found = next((each for each in asked.backend.view().pipelines if each.pipeline == name), None)
    if found is None:
        raise Refused(404, f"there is no pipeline {name}")
    return found


def table_of(asked: OperationRequest) -> TableView:
    name = asked.path["table"]
    found = next((each for each in asked.backend.view().tables if each.table == name), None)
    if found is None:
        raise Refused(404, f"there is no table {name}")
    return found


def _letters(asked: OperationRequest) -> documents.DeadLetterPage:
    found = pipeline_of(asked)
    return asked.backend.letters(found.pipeline, asked.query["code"], asked.query["limit"], asked.who.name)


def _tables(asked: OperationRequest) -> documents.Tables:
    asks = asked.query
    return documents.tables(asked.backend.view(), asks["name"], asks["state"], asks["after"], asks["limit"])


def _connectors(asked: OperationRequest) -> object:
    found = asked.backend.view().pipelines
    wanted = asked.query["expand"]
    if not wanted:
        return [each.pipeline for each in found]
    return {
        each.pipeline: connect.Expanded(
            connect.status(each) if "status" in wanted else None,
            connect.connector(each, asked.backend.config(each.pipeline)) if "info" in wanted else None,
        )
        for each in found
    }


def _connector(asked: OperationRequest) -> connect.Connector:
    found = pipeline_of(asked)
    return connect.connector(found, asked.backend.config(found.pipeline))


def _topics(asked: OperationRequest) -> Mapping[str, connect.Topics]:
    found = pipeline_of(asked)
    return {found.pipeline: connect.Topics(tuple(sorted({each.topic for each in found.partitions})))}


def _hold(paused: bool) -> Callable[[OperationRequest], None]:
    def handle(asked: OperationRequest) -> None:
        found = pipeline_of(asked)
        if any(sign in found.pipeline for sign in "*?["):
            raise Refused(409, f"the name {found.pipeline} is a pattern: it would hold others, too")
        has_changed = asked.backend.hold(found.pipeline, paused, asked.who.name, asked.query["why"])
        condition = found.condition
        if not paused and not has_changed and condition.state is Health.PAUSED:
            raise Refused(409, f"it stays paused: {condition.reason}; {condition.remedy}")

    return handle


def _task_status(asked: OperationRequest) -> connect.TaskState:
    found = pipeline_of(asked)
    task = next((each for each in connect.status(found).tasks if str(each.id) == asked.path["task"]), None)
    if task is None:
        raise Refused(404, f"pipeline {found.pipeline} has no task {asked.path['task']}: no such run is live")
    return task


def _stop(asked: OperationRequest) -> None:
    found = pipeline_of(asked)
    if not asked.backend.stop(found.pipeline, asked.who.name, asked.query["why"]):
        raise Refused(409, f"no run of pipeline {found.pipeline} is live")


def _restart(asked: OperationRequest) -> None:
    pipeline_of(asked)
    raise Refused(501, RESTART)


def _plugins(asked: OperationRequest) -> tuple[connect.Plugin, ...]:
    return tuple(connect.Plugin(name, version=__version__) for name in (connect.PLUGIN, *connect.SINKS))


def _check(asked: OperationRequest) -> connect.ConfigInfos:
    plugin = asked.path["plugin"]
    if plugin not in (connect.PLUGIN, *connect.SINKS):
        raise Refused(404, f"there is no plugin {plugin}; GET /connector-plugins lists them")
    return connect.checked(plugin, asked.body, asked.backend.check(plugin, asked.body))


_WHY = Parameter("why", "Why; it stands in the control log beside the token's name and the time.", "", WHY_LENGTH)
_STATE = Parameter("state", "Only tables in this state.", "", 20, tuple(each.value for each in Health))

OPERATIONS = (
    Operation(
        "GET",
        "/v1/overview",
        "overview",
        "What is in trouble, what is held, how many pipelines and tables are in which state, and what people did.",
        lambda asked: documents.summary(asked.backend.view()),
        documents.Summary,
        cached=True,
    ),
    Operation(
        "GET",
        "/v1/pipelines",
        "pipelines",
        "All pipelines, whole.",
        lambda asked: documents.Pipelines(asked.backend.view().pipelines),
        documents.Pipelines,
        cached=True,
    ),
    Operation(
        "GET",
        "/v1/pipelines/{pipeline}",
        "pipeline",
        "One pipeline: its state, partitions, lag, and minute by minute what it announced.",
        pipeline_of,
        PipelineView,
        refuses=(404,),
    ),
    Operation(
        "GET",
        "/v1/pipelines/{pipeline}/dead-letters",
        "dead_letters",
        "The newest dead letters of the last day with their text and a mark at what is wrong. Only where the target says so "
        "(`allow.dead_letters_on_page`), and only to who may act.",
        _letters,
        documents.DeadLetterPage,
        Role.ACT,
        query=(
            Parameter("code", "Only letters with this code.", "", 20),
            Parameter("limit", "So many at most.", 20, 100),
        ),
        refuses=(404, 409, 501),
    ),
    Operation(
        "GET",
        "/v1/tables",
        "tables",
        "Tables by name, a page at a time.",
        _tables,
        documents.Tables,
        query=(
            Parameter("name", "Only tables whose name holds this text.", "", NAME_LENGTH),
            _STATE,
            Parameter("after", "Only tables behind this name: the `next` of the page before.", "", NAME_LENGTH),
            Parameter("limit", "So many at most.", PAGE, 10_000),
        ),
        cached=True,
    ),
    Operation(
        "GET",
        "/v1/tables/{table}",
        "table",
        "One table: its timeline of announcements and commits, minutes, schema changes.",
        table_of,
        TableView,
        refuses=(404,),
    ),
    Operation(
        "GET",
        "/connectors",
        "connectors",
        "Names of pipelines, or with `expand` their status and configuration.",
        _connectors,
        list[str] | dict[str, connect.Expanded],
        query=(Parameter("expand", "Say more of each; may be repeated.", "", 20, ("status", "info"), several=True),),
    ),
    Operation(
        "GET",
        "/connectors/{connector}",
        "connector",
        "One pipeline as a connector.",
        _connector,
        connect.Connector,
        refuses=(404,),
    ),
    Operation(
        "GET",
        "/connectors/{connector}/config",
        "connector_config",
        "What the newest run published that it runs, as flat settings.",
        lambda asked: _connector(asked).config,
        dict[str, str],
        refuses=(404,),
    ),
    Operation(
        "GET",
        "/connectors/{connector}/status",
        "connector_status",
        "Its state in Connect's words, one task for each live run, and floe's own words under `floe`.",
        lambda asked: connect.status(pipeline_of(asked)),
        connect.ConnectorStatus,
        refuses=(404,),
    ),
    Operation(
        "GET",
        "/connectors/{connector}/tasks",
        "connector_tasks",
        "Its live runs.",
        lambda asked: connect.tasks(pipeline_of(asked)),
        tuple[connect.TaskId, ...],
        refuses=(404,),
    ),
    Operation(
        "GET",
        "/connectors/{connector}/tasks/{task}/status",
        "task_status",
        "The state of one of them, by its number.",
        _task_status,
        connect.TaskState,
        refuses=(404,),
    ),
    Operation(
        "GET",
        "/connectors/{connector}/topics",
        "connector_topics",
        "The topics that it reads.",
        _topics,
        dict[str, connect.Topics],
        refuses=(404,),
    ),
    Operation(
        "GET",
        "/connectors/{connector}/offsets",
        "connector_offsets",
        "Its safe source offsets: everything below them is announced.",
        lambda asked: connect.offsets(pipeline_of(asked)),
        connect.Offsets,
        refuses=(404,),
    ),
    Operation(
        "PUT",
        "/connectors/{connector}/pause",
        "pause",
        "Pause its reading, as `floe pause --reading` does.",
        _hold(True),
        None,
        Role.ACT,
        202,
        query=(_WHY,),
        refuses=(404, 409),
    ),
    Operation(
        "PUT",
        "/connectors/{connector}/resume",
        "resume",
        "Resume its reading, as `floe resume --reading` does. 409: a pause of another pattern holds it still.",
        _hold(False),
        None,
        Role.ACT,
        202,
        query=(_WHY,),
        refuses=(404, 409),
    ),
    Operation(
        "PUT",
        "/connectors/{connector}/stop",
        "stop",
        "Ask its live run to drain and end, as `floe stop` does. 409: no run is live. `resume` starts none: whatever started "
        "the run does.",
        _stop,
        None,
        Role.ACT,
        202,
        query=(_WHY,),
        refuses=(404, 409),
    ),
    Operation(
        "POST",
        "/connectors/{connector}/restart",
        "restart",
        "Not possible: the answer says who can.",
        _restart,
        None,
        Role.ACT,
        204,
        refuses=(404, 501),
    ),
    Operation(
        "GET",
        "/connector-plugins",
        "plugins",
        "What configurations may be checked for.",
        _plugins,
        tuple[connect.Plugin, ...],
    ),
    Operation(
        "PUT",
        "/connector-plugins/{plugin}/config/validate",
        "validate",
        "Check a configuration: of an Iceberg sink, as `floe import-connector` reads it; of `floe`, the text of a "
        "pipeline file under the key `file`.",
        _check,
        connect.ConfigInfos,
        has_body=True,
        refuses=(404,),
    ),
)
