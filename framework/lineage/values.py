"""What lineage events are made of: a run's begin and end, and a commit, each as a small value.

In: what the coordinator committed and what a driver knows of its run. Out: frozen values without a record's value, a file's
path or a secret. What a commit brought is the difference of a table's recorded progress, before and after.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from framework.commit.events.event_types import Accounting
from framework.commit.machine.effects import CommitTable, Committed, PipelineProgress
from framework.config.names.metadata import kept_column
from framework.config.spec import SettingValue
from framework.config.values.owners import NOBODY, Owners

_KAFKA_PORT = 9092


@dataclass(frozen=True)
class Names:
    """The namespaces: of jobs, of Kafka's topics, and of the tables of each catalog."""

    jobs: str
    kafka: str
    catalogs: Mapping[str, str]


@dataclass(frozen=True)
class OffsetsRead:
    """Offsets [start, end) of one partition; `start` None where the table records nothing before."""

    topic: str
    topic_id: str
    partition: int
    start: int | None
    end: int


@dataclass(frozen=True)
class TableCommitted:
    """One commit of one table; `reads` are, by pipeline, the offsets up to which it moved the table. `replaced` counts the
    rows that the upsert took away."""

    table: str
    branch: str
    snapshot_id: int
    schema_id: int
    commit_id: str
    at_ms: int
    rows: int
    files: int
    bytes: int
    replaced: int
    reads: Mapping[str, tuple[OffsetsRead, ...]]


@dataclass(frozen=True)
class TableRecovered:
    """What a person did to a table with a verb of recovery: a commit that brings no records."""

    verb: str
    commit: TableCommitted


@dataclass(frozen=True)
class TableSchema:
    """A table as it was found: Iceberg's JSON of its schema, and where it lies."""

    schema_json: str
    schema_id: int
    location: str


class RunEnd(str, Enum):
    """OpenLineage's words for how a run ends."""

    COMPLETE = "COMPLETE"
    ABORT = "ABORT"  # drained because of another pipeline
    FAIL = "FAIL"


@dataclass(frozen=True)
class RunBegan:
    """A run begins to read. `tables` are those that the routes name."""

    pipeline: str
    run: str
    at_ms: int
    topics: tuple[str, ...]
    tables: tuple[str, ...]
    owners: Owners = NOBODY


@dataclass(frozen=True)
class RunEnded:
    """A run has ended; `code` is why, "" where nothing failed. An error's words are not kept: they may repeat a record."""

    pipeline: str
    run: str
    at_ms: int
    end: RunEnd
    code: str
    batches: int
    accounting: Accounting


def committed(effect: CommitTable, outcome: Committed) -> TableCommitted:
    """What a commit was, without the names of its files."""
    before = effect.view.progress.pipelines if effect.view.progress is not None else {}
    reads = {
        name: found
        for name, progress in effect.progress.pipelines.items()
        if (found := _moved(before.get(name), progress))
    }
    return TableCommitted(
        effect.table,
        effect.view.branch,
        outcome.snapshot_id,
        effect.view.schema_id,
        effect.commit_id,
        outcome.timestamp_ms,
        sum(file.record_count for file in effect.files),
        len(effect.files),
        sum(file.file_size_bytes for file in effect.files),
        sum(keyed.updated + keyed.deleted for keyed in effect.keyed),
        reads,
    )


def _moved(before: PipelineProgress | None, after: PipelineProgress) -> tuple[OffsetsRead, ...]:
    found = []
    for topic, ends in sorted(after.offsets.items()):
        topic_id = after.topic_ids.get(topic, "")
        known = before is not None and before.topic_ids.get(topic, "") == topic_id
        starts = before.offsets.get(topic, {}) if before is not None and known else {}
        for partition, end in sorted(ends.items(), key=lambda item: int(item[0])):
            start = starts.get(partition)
            if start != end:
                found.append(OffsetsRead(topic, topic_id, int(partition), start, end))
    return tuple(found)


def kafka_namespace(bootstrap_servers: str) -> str:
    """`kafka://host:port` of the first broker that is named, as OpenLineage's naming has it."""
    first = bootstrap_servers.split(",", maxsplit=1)[0].strip().rpartition("://")[2]
    has_port = first.rpartition(":")[2].isdigit() and (":" in first)
    return f"kafka://{first if has_port else f'{first}:{_KAFKA_PORT}'}"


def catalog_namespace(name: str, settings: Mapping[str, SettingValue]) -> str:
    """A catalog's address without user, password and query; its kind and name where it has none that may be shown."""
    kind, uri = settings.get("type", "catalog"), settings.get("uri")
    if not isinstance(uri, str) or "://" not in uri:
        return f"{kind}://{name}"
    parts = urlsplit(uri.split(",", maxsplit=1)[0].strip())
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")).rstrip("/")


def column_sources(plan: Mapping[str, Any], columns: tuple[str, ...]) -> dict[str, tuple[str, bool]] | None:
    """By column the field of the record that it is made of, and whether that is declared to be converted; None where the plan
    does not say, as with SQL. Columns that floe fills are left out.

    Args:
        plan: as `framework.plan.canonical` says it, perhaps of another version.
    """
    try:
        if plan["transform"] is not None:
            return None
        decode = plan["decode"]
        kind, is_wrapped = decode["format"]["type"], decode["format"]["envelope"] == "debezium"
        paths = decode["format"].get("envelope_paths")
        prefix = decode["key"]["prefix"] if decode["key"] else None
        declared = {str(hint["path"]).lower() for hint in decode["hints"]} | {*map(str.lower, decode.get("parsed", ()))}
        raw = str(decode["format"]["column"]).lower()
    except (KeyError, TypeError):
        return None
    found = {}
    for column in columns:
        field = _field_of(column, is_wrapped, prefix)
        if paths is not None and field == column:
            kept = {"__op": paths["operation"], **{kept_column(path): path for path in paths["fields"]}}
            field = kept.get(column) or f"{paths['after']}.{column}"
        if kind == "raw" and column.lower() == raw:
            field = "value"
        if field is not None:
            found[column] = field, column.lower() in declared
    return found


def _field_of(column: str, is_wrapped: bool, key_prefix: str | None) -> str | None:
    if column.startswith("_kafka_") or column == "_op":
        return None
    if key_prefix and column.startswith(key_prefix):
        return f"key.{column.removeprefix(key_prefix)}"
    if not is_wrapped:
        return column
    if column.startswith("__source_"):
        return f"source.{column.removeprefix('__source_')}"
    return column.removeprefix("__") if column in ("__op", "__ts_ms") else f"after.{column}"
