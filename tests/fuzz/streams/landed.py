"""Tables of the fuzzer in a real catalog, as Spark reads them.

In: rows that the oracle has found right (`Landed`), and streams of changes of upsert tables. Out: what Spark, with Iceberg's own
runtime, has against their tables: it cannot read one, or reads another value. One process of Spark's answers for a whole run.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
    TimeType,
)

from framework.adapters.parquet.files import TableWriter
from framework.commit.events.event_types import Accounting, DataWritten
from framework.commit.machine.effects import Committed
from framework.record.model import UpsertRows
from framework.record.process import process_block
from framework.runtime.batches.batch import summarise
from framework.table.changes import CreateTable
from framework.table.readable import TableDefinition, faults
from framework.table.schema.arrow import parse_schema
from testbed.record_samples import block, policy
from tests.fuzz.kinds import Kind
from tests.fuzz.oracle import same
from tests.fuzz.report import Landed, Report, plain_values
from tests.fuzz.streams.stream import Stream, newest
from tests.fuzz.strict import Refused
from tests.iceberg.conftest import Lake
from tests.iceberg.keyed_pipeline import Pipeline, upserting
from tests.iceberg.spark_server import IcebergSpark

# Spark has no type for them, and reads no table with such a column.
UNKNOWN_TO_SPARK = (TimeType, TimestampNanoType, TimestamptzNanoType)
EVERY = 50


def readable(kind: IcebergType) -> bool:
    """Whether Spark has a type for it."""
    if isinstance(kind, StructType):
        return all(readable(each.field_type) for each in kind.fields)
    if isinstance(kind, ListType):
        return readable(kind.element_type)
    if isinstance(kind, MapType):
        return readable(kind.key_type) and readable(kind.value_type)
    return not isinstance(kind, UNKNOWN_TO_SPARK)


def in_tables(fields: Iterable[NestedField]) -> list[NestedField]:
    """Those columns that a table can have: in memory the fuzzer has others, too."""
    fields = list(fields)
    while wrong := {each.path[0] for each in faults(TableDefinition(Schema(*fields), format_version=3))}:
        fields = [each for each in fields if each.name not in wrong]
    return fields


def _in_spark(schema: Schema) -> list[NestedField]:
    return in_tables(each for each in schema.fields if readable(each.field_type))


def _plain(field: NestedField) -> NestedField:
    """The column without what is required inside of it: PySpark hands on no required value below a null."""
    return field.model_copy(update={"field_type": _optional(field.field_type)})


def _optional(kind: IcebergType) -> IcebergType:
    if isinstance(kind, StructType):
        inner = ((each, _optional(each.field_type)) for each in kind.fields)
        return StructType(*(each.model_copy(update={"field_type": own, "required": False}) for each, own in inner))
    if isinstance(kind, ListType):
        return ListType(kind.element_id, _optional(kind.element_type), element_required=False)
    if isinstance(kind, MapType):
        return MapType(kind.key_id, kind.key_type, kind.value_id, _optional(kind.value_type), value_required=False)
    return kind


def kind_of(kind: IcebergType) -> Kind:
    if isinstance(kind, StructType):
        return Kind(
            "struct", tuple(kind_of(each.field_type) for each in kind.fields), tuple(each.name for each in kind.fields)
        )
    if isinstance(kind, ListType):
        return Kind("list", (kind_of(kind.element_type),))
    return (
        Kind("map", (kind_of(kind.key_type), kind_of(kind.value_type)))
        if isinstance(kind, MapType)
        else Kind(str(kind))
    )


def as_in_spark(value: Any, kind: Kind) -> Any:
    """A value as Spark gives it: UUIDs are text there."""
    if value is None:
        return None
    if kind.name == "uuid":
        return str(UUID(bytes=value))
    if kind.name == "struct":
        return {name: as_in_spark(value[name], inner) for name, inner in zip(kind.names, kind.inner, strict=True)}
    if kind.name == "list":
        return [as_in_spark(each, kind.inner[0]) for each in value]
    if kind.name == "map":
        return [(as_in_spark(key, kind.inner[0]), as_in_spark(each, kind.inner[1])) for key, each in value]
    return value


@dataclass
class SparkReader:
    """One catalog and one process of Spark's; each table is dropped once it was read."""

    folder: Path
    seen: Counter[str] = field(default_factory=Counter)
    number: int = 0

    def __enter__(self) -> SparkReader:
        self.settings = {
            "type": "sql",
            "uri": f"sqlite:///{self.folder}/catalog.db",
            "warehouse": f"file://{self.folder}/warehouse",
        }
        self.lake = Lake(self.settings)
        self.spark = IcebergSpark(self.folder)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.spark.stop()

    def is_due(self, family: str) -> bool:
        """Whether it is this block's turn among those of its family."""
        self.seen[family] += 1
        return self.seen[family] % EVERY == 1

    def check(self, block: Report, seed: int) -> Report:
        """The rows of one block's tables as they are read back: those that are appended, and those that an upsert table has
        once all changes are committed."""
        report = Report()
        for landed in block.landed:
            self._judge(report, landed.family, seed, partial(self._appended, landed))
        for stream in block.streams:
            self._judge(report, stream.name, seed, partial(self._upserted, stream))
        return report

    def _judge(self, report: Report, family: str, seed: int, run: Callable[[], str | None]) -> None:
        try:
            wrong = run()
        except Exception:
            report.uncaught += 1
            report.faults.append((f"uncaught spark {family}", seed, traceback.format_exc()))
            return
        if wrong is None:
            return
        report.read_back[family] += 1
        if wrong:
            report.wrong += 1
            report.faults.append((f"wrong spark {family}", seed, wrong))

    def _name(self) -> str:
        self.number += 1
        return f"shop.t{self.number}"

    def _appended(self, landed: Landed) -> str | None:
        schema = parse_schema(landed.schema_json)
        fields = _in_spark(schema)
        rows = landed.rows.select([each.name for each in fields])
        used = {by.column for by in landed.partition_by} | {order.by.column for order in landed.sort_by}
        if not fields or not len(rows) or not used <= {each.name for each in fields}:
            return None
        name, own = self._name(), Schema(*map(_plain, fields), identifier_field_ids=schema.identifier_field_ids)
        definition = CreateTable(
            name, own.model_dump_json(), landed.partition_by, (("format-version", "2"),), landed.sort_by
        )
        self.lake.tables.create_table(definition)
        target = self.lake.tables.load_target(name, policy())
        assert target is not None
        writer = TableWriter(self.lake.tables.io_properties(), "p", "run", 1, 1 << 28, 1 << 28)
        writer.add(target, rows)
        answer = self.lake.tables.commit(self.lake.effect(name, writer.finish()[name], 1))
        assert isinstance(answer, Committed), answer
        wanted = list(_rows(rows, fields))
        return self._compared(name, fields, wanted)

    def _upserted(self, stream: Stream) -> str | None:
        schema = stream.shape.schema(stream.kinds)
        if len(_in_spark(schema)) < len(schema.fields):
            return None
        name = self._name()
        self.lake.create(name, Schema(*map(_plain, schema.fields)), format_version="2")
        good = [
            data
            for data, each in zip(stream.sent, stream.wanted, strict=True)
            if each and not isinstance(each, Refused)
        ]
        changes = _Changes(self.lake, name, stream)
        cut = len(good) // 2
        for part in (good[:cut], good[cut:]):
            if part:
                changes.batch_of(part)
        fields = [each for each in self.lake.plain(name).schema().fields if each.name in stream.shape.columns]
        kinds = {each.name: kind_of(each.field_type) for each in fields}
        wanted = [{n: as_in_spark(row[n], kinds[n]) for n in kinds} for row in newest(stream).values()]
        return self._compared(name, fields, wanted)

    def _compared(self, name: str, fields: Sequence[NestedField], wanted: list[dict[str, Any]]) -> str:
        columns = ", ".join(f"`{each.name.replace('`', '``')}`" for each in fields)
        [found] = self.spark.ask(self.settings, [f"SELECT {columns} FROM `default`.{name}"])
        read = [dict(zip((each.name for each in fields), row, strict=True)) for row in _spark_rows(found, fields)]
        self.lake.catalog.drop_table(name)
        left = list(wanted)
        for row in read:
            at = next((at for at, each in enumerate(left) if same(each, row)), None)
            if at is None:
                return f"Spark reads {row!s:.600}\n  which is none of {left!s:.1200}"
            del left[at]
        return f"Spark does not read {left!s:.1200}" if left else ""


def _rows(rows: pa.Table, fields: Sequence[NestedField]) -> Iterator[dict[str, Any]]:
    kinds = {each.name: kind_of(each.field_type) for each in fields}
    columns = {name: plain_values(rows.column(name), kind) for name, kind in kinds.items()}
    for at in range(len(rows)):
        yield {name: as_in_spark(values[at], kinds[name]) for name, values in columns.items()}


def _spark_rows(found: pa.Table, fields: Sequence[NestedField]) -> Iterator[tuple[Any, ...]]:
    columns = [plain_values(found.column(at), kind_of(each.field_type)) for at, each in enumerate(fields)]
    return zip(*columns, strict=True)


class _Changes(Pipeline):
    """What tasks, driver and coordinator make of a stream's records."""

    def __init__(self, lake: Lake, name: str, stream: Stream) -> None:
        super().__init__(lake, name)
        write = replace(stream.table_policy.write, key_index=self.policy.write.key_index)
        self.policy = replace(stream.table_policy, write=write)
        made = stream.plan()
        own = upserting(name, policy=self.policy)
        rules = (replace(made.route.rules[0], table=name),)
        self.plan = replace(own, decode=made.decode, route=replace(made.route, rules=rules, allow_tables=("shop.*",)))
        self.restart()

    def keyed_rows(self, changes: Sequence[tuple[Any, Any]], first: int, schema: pa.Schema) -> UpsertRows:
        target = self.lake.tables.load_target(self.name, self.policy)
        assert target is not None
        found = process_block(block([data for _, data in changes], first_offset=first), self.plan, {self.name: target})
        assert not found.needs
        assert not found.dead_letters
        return found.keyed[self.name]

    def batch_of(self, records: Sequence[bytes]) -> None:
        scope, reports = self.reports(self.context(), [(0, None, data) for data in records], block=len(records))
        for event in summarise(self.plan, scope, reports, Accounting()).events:
            if isinstance(event, DataWritten):
                self.commit(event)
