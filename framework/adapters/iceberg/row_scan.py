"""The rows of one table, snapshot or branch, a few at a time, whoever wrote them.

In: a catalog, a table's name and what is to be read of it. Out: its columns by name, and its live rows in batches of
Arrow, from several files at once. Nothing of floe's own way of writing is relied on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, EqualTo, GreaterThanOrEqual, LessThan
from pyiceberg.table import Table
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StructType,
)

from framework.adapters.iceberg.private.row_batches import scan_files
from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.secrets import first_line
from framework.commit.events.event_types import SourceRange
from framework.config.names.metadata import metadata_column
from framework.diagnose.shown import argument
from framework.errors import FloeError, TableBlocked


@dataclass(frozen=True)
class RowScan:
    """One table at one snapshot. `columns`: what each holds, in words that are the same for types whose values can be the
    same. `snapshot_id` is None where the table has no rows at all."""

    name: str
    snapshot_id: int | None
    columns: dict[str, str]
    _table: Table
    _where: BooleanExpression

    def files(self, columns: Sequence[str]) -> list[Iterator[pa.RecordBatch]]:
        """The rows of each file, which may be read beside one another; nothing is read before that.

        Raises:
            FloeError: FLOE-R135, the table cannot be read.
        """
        if self.snapshot_id is None:
            return []
        try:
            tasks, read = scan_files(self._table, self.snapshot_id, self._where)
        except Exception as error:  # each catalog and store has exceptions of its own
            raise self._unreadable(error) from error

        def rows_of(task: object) -> Iterator[pa.RecordBatch]:
            try:
                yield from read(task, columns)  # type: ignore[arg-type]
            except Exception as error:  # as above
                raise self._unreadable(error) from error

        return [rows_of(task) for task in tasks]

    def _unreadable(self, error: Exception) -> FloeError:
        return FloeError(
            f"table {self.name} cannot be read: {first_line(error)}",
            code="FLOE-R135",
            place=self.name,
            remedy="check that the store answers and that these credentials may read it",
        )


def open_scan(tables: IcebergTables, name: str, ref: str, of: SourceRange | None, target: str) -> RowScan:
    """A table as it is at `ref`: a branch, a tag, a snapshot's id, or "" for main.

    Args:
        of: only rows that came from this offset range.
        target: its name, for the commands of remedies.

    Raises:
        TableBlocked: FLOE-R412: there is no such table, or no such snapshot.
    """
    table = tables.opened(name)[0]
    if table is None:
        raise TableBlocked(
            f"there is no table {name}",
            code="FLOE-R412",
            place=name,
            remedy=f"check the name; `floe status -t {argument(target)}` lists the tables",
        )
    metadata = table.metadata
    found = metadata.snapshot_by_id(int(ref)) if ref.isdecimal() else metadata.snapshot_by_name(ref or "main")
    if found is None and ref:
        raise TableBlocked(
            f"table {name} has no branch, tag or snapshot {ref}",
            code="FLOE-R412",
            place=name,
            remedy=f"choose one of {', '.join(sorted(metadata.refs)) or 'none: the table is empty'}",
        )
    schema = table.schema() if found is None or found.schema_id is None else table.schemas()[found.schema_id]
    columns = {each.name: kind_of(each.field_type) for each in schema.fields}
    return RowScan(name, None if found is None else found.snapshot_id, columns, table, _expression(of))


def _expression(of: SourceRange | None) -> BooleanExpression:
    if of is None:
        return AlwaysTrue()
    offset = metadata_column("offset")
    place = And(
        EqualTo(term=metadata_column("topic"), value=of.topic),
        EqualTo(term=metadata_column("partition"), value=of.partition),
    )
    return And(place, And(GreaterThanOrEqual(term=offset, value=of.start), LessThan(term=offset, value=of.end)))


def kind_of(kind: IcebergType) -> str:
    """A type in words that are the same wherever values can be compared."""
    if isinstance(kind, (IntegerType, LongType)):
        return "whole number"
    if isinstance(kind, (FloatType, DoubleType)):
        return "floating point number"
    if isinstance(kind, DecimalType):
        return f"decimal of scale {kind.scale}"
    if isinstance(kind, StructType):
        return f"struct<{', '.join(sorted(f'{each.name}: {kind_of(each.field_type)}' for each in kind.fields))}>"
    if isinstance(kind, ListType):
        return f"list<{kind_of(kind.element_type)}>"
    if isinstance(kind, MapType):
        return f"map<{kind_of(kind.key_type)}, {kind_of(kind.value_type)}>"
    return str(kind)
