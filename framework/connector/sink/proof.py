"""A test of an imported pipeline file: real records, and the rows that the sink adds for them.

In: the connector's settings, records, and the spec of the file. Out: one test, and the records that make none: the sink
stops at them, or writes them nowhere. The rows come from the interpreter beside this module, never from the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from framework.config.spec import PipelineSpec
from framework.connector.sink.model import SinkRecord, Value
from framework.connector.sink.sink import column_type, columns, key_of, together, written
from framework.table.policy.rules import may_create
from framework.testing.recorded import Taken, as_input

NAME = "as the sink writes these records"


@dataclass(frozen=True)
class Proof:
    """`test` as it stands in a file, or None where the sink writes nothing of the records; `left_out` are sentences."""

    test: Mapping[str, Any] | None
    left_out: tuple[str, ...]


def proof(settings: Mapping[str, str], records: Sequence[Taken], spec: PipelineSpec) -> Proof:
    """The test of a file whose settings these are.

    Raises:
        Unknown: the interpreter does not know what the sink does.
    """
    rows: dict[str, list[dict[str, Value]]] = {}
    seen: dict[str, list[dict[str, Value]]] = {}
    inputs: list[Any] = []
    left_out = []
    for number, record in enumerate(records):
        topic = record.topic or next(iter(spec.source.kafka.topics), "")
        moment = record.timestamp_ms if record.timestamp_ms >= 0 else None
        offset = record.offset if record.topic is not None else number
        found = written(settings, SinkRecord(topic, record.partition, offset, moment, None), record.value)
        place = f"{topic}-{record.partition}@{offset}"
        if found.stops is not None:
            left_out.append(f"{place}: the sink stops at it ({found.stops})")
            continue
        if found.is_unrouted:
            left_out.append(f"{place}: the sink writes it to no table, and the pipeline stops at it")
            continue
        if unnamed := set(found.tables) - set(spec.routes.allow_tables):
            left_out.append(f"{place}: it names the table {min(unnamed)}, and the pipeline stops at it")
            continue
        item = as_input(record, spec)
        if record.topic is None and "offset" in spec.source.metadata_columns:
            item["offset"] = offset
        inputs.append(item)
        for table in found.tables:
            kept = rows.setdefault(table, [])
            seen.setdefault(table, []).append(found.row)
            if found.replaces:
                key = key_of(settings, table)
                kept[:] = [row for row in kept if any(row.get(name) != found.row.get(name) for name in key)]
            if not found.deletes:
                kept.append(found.row)
    if not rows:
        return Proof(None, tuple(left_out))
    given: dict[str, Any] = {}
    if not may_create(spec.tables.defaults):
        given = {"given": {"tables": {table: {"schema": columns(found)} for table, found in seen.items()}}}
    expected = {}
    for table, kept in rows.items():
        made = together(seen[table])
        # Declared types are a person's word; where there are none, the columns are those that the sink would make.
        is_inferred = may_create(spec.tables.defaults) and not spec.source.hints and made
        schema = {"schema": columns(seen[table])} if is_inferred else {}
        expected[table] = {**schema, "rows": [_plain(row, made) for row in kept], "exact": True}
    return Proof({"name": NAME, **given, "input": inputs, "expect": {"tables": expected}}, tuple(left_out))


def _plain(value: Value, made: Value) -> Value:
    """A value as an expectation has it, without the fields that the sink makes no column of.

    Args:
        made: a value that has all fields that the column has.
    """
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, dict) and isinstance(made, dict):
        return {name: _plain(inner, made[name]) for name, inner in value.items() if column_type(made.get(name))}
    if isinstance(value, list):
        return [_plain(inner, inner) for inner in value]
    return value
