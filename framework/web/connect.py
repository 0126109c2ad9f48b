"""Pipelines in the words of Kafka Connect's REST interface, for the tools that speak it.

In: views of pipelines. Out: values whose JSON has Connect's shape; what Connect has no words for stands under `floe`.
A task is a live run. States that need a person are FAILED, so that what watches connectors sees them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from framework.commit.events.event_types import Health
from framework.overview.values import PipelineView
from framework.web.backend import SettingFinding

SINK = "sink"
PLUGIN = "floe"
SINKS = ("org.apache.iceberg.connect.IcebergSinkConnector", "io.tabular.iceberg.connect.IcebergSinkConnector")
_STATES = {
    Health.RUNNING: "RUNNING",
    Health.IDLE: "RUNNING",
    Health.DEGRADED: "RUNNING",
    Health.PAUSED: "PAUSED",
    Health.STOPPED: "STOPPED",
}


@dataclass(frozen=True)
class TaskId:
    connector: str
    task: int


@dataclass(frozen=True)
class Connector:
    name: str
    config: Mapping[str, str]
    tasks: tuple[TaskId, ...]
    type: str = SINK


@dataclass(frozen=True)
class ConnectorState:
    """`trace` is the reason, "" where all is well."""

    state: str
    worker_id: str
    trace: str = ""


@dataclass(frozen=True)
class TaskState:
    id: int
    state: str
    worker_id: str
    trace: str = ""


@dataclass(frozen=True)
class FloeState:
    """What floe says besides: its own state, what to do, and since when."""

    state: str
    reason: str
    remedy: str
    code: str
    since_ms: int | None
    lag: int
    batch: int


@dataclass(frozen=True)
class ConnectorStatus:
    name: str
    connector: ConnectorState
    tasks: tuple[TaskState, ...]
    floe: FloeState
    type: str = SINK


@dataclass(frozen=True)
class Expanded:
    """Under `?expand=status` and `?expand=info`."""

    status: ConnectorStatus | None = None
    info: Connector | None = None


@dataclass(frozen=True)
class ConnectPartition:
    kafka_topic: str
    kafka_partition: int


@dataclass(frozen=True)
class Offset:
    kafka_offset: int


@dataclass(frozen=True)
class PartitionOffset:
    """`offset` is None where nothing was announced yet."""

    partition: ConnectPartition
    offset: Offset | None


@dataclass(frozen=True)
class Offsets:
    offsets: tuple[PartitionOffset, ...]


@dataclass(frozen=True)
class Topics:
    topics: tuple[str, ...]


@dataclass(frozen=True)
class Plugin:
    """What configurations may be checked for."""

    class_name: Annotated[str, Field(serialization_alias="class")]  # `class` is a word of Python's
    type: str = SINK
    version: str = ""


@dataclass(frozen=True)
class ConfigDefinition:
    name: str
    type: str = "STRING"
    required: bool = False
    importance: str = "HIGH"
    documentation: str = ""


@dataclass(frozen=True)
class Value:
    name: str
    value: str | None
    errors: tuple[str, ...]
    recommended_values: tuple[str, ...] = ()
    visible: bool = True


@dataclass(frozen=True)
class ConfigInfo:
    definition: ConfigDefinition
    value: Value


@dataclass(frozen=True)
class ConfigInfos:
    name: str
    error_count: int
    groups: tuple[str, ...]
    configs: tuple[ConfigInfo, ...]


def connector(found: PipelineView, config: Mapping[str, str]) -> Connector:
    given = {"name": found.pipeline, "connector.class": PLUGIN, **config}
    return Connector(found.pipeline, given, tasks(found))


def tasks(found: PipelineView) -> tuple[TaskId, ...]:
    return tuple(TaskId(found.pipeline, number) for number in range(len(found.runs)))


def status(found: PipelineView) -> ConnectorStatus:
    condition = found.condition
    state = _STATES.get(condition.state, "FAILED")
    trace = " ".join(part for part in (condition.reason, condition.remedy) if part)
    worker = found.runs[-1] if found.runs else ""
    return ConnectorStatus(
        found.pipeline,
        ConnectorState(state, worker, trace),
        tuple(TaskState(number, state, run, trace) for number, run in enumerate(found.runs)),
        FloeState(
            condition.state.value,
            condition.reason,
            condition.remedy,
            condition.code,
            condition.since_ms,
            found.lag,
            found.batch,
        ),
    )


def offsets(found: PipelineView) -> Offsets:
    return Offsets(
        tuple(
            PartitionOffset(
                ConnectPartition(each.topic, each.partition),
                Offset(each.safe_offset) if each.safe_offset is not None else None,
            )
            for each in found.partitions
        )
    )


MOST_FINDINGS = 200


def checked(plugin: str, settings: Mapping[str, str], findings: tuple[SettingFinding, ...]) -> ConfigInfos:
    """Connect's answer to `config/validate`: one entry for each setting, and for each other key that is missing. Of many
    findings the first ones are reported, and how many there are."""
    if len(findings) > MOST_FINDINGS:
        more = SettingFinding(findings[0].key, f"{len(findings) - MOST_FINDINGS:,} more findings are not shown")
        findings = (*findings[:MOST_FINDINGS], more)
    by_key: dict[str, list[str]] = {key: [] for key in settings}
    for finding in findings:
        if finding.is_error:
            by_key.setdefault(finding.key, []).append(finding.message)
    advice: dict[str, str] = {}
    for finding in findings:
        if not finding.is_error:
            advice[finding.key] = f"{advice.get(finding.key, '')} {finding.message}".strip()
    return ConfigInfos(
        plugin,
        sum(1 for errors in by_key.values() if errors),
        ("floe",),
        tuple(
            ConfigInfo(
                ConfigDefinition(key, documentation=advice.get(key, "")), Value(key, settings.get(key), tuple(errors))
            )
            for key, errors in by_key.items()
        ),
    )
