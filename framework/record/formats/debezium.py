"""Debezium's change events as rows: the row after the change, or before a delete, with what happened and where it
stood.

In: typed columns of envelopes, or one envelope as JSON values. Out: rows with the table's own columns and Debezium's
names for the rest (`__op`, `__ts_ms`, `__source_lsn`, ...), as its own `ExtractNewRecordState` gives them; failures for
what is no change of a row. The table is the log of changes: every event is one row, deletes too; nothing is merged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from framework.config.names.metadata import DEBEZIUM_MOMENTS
from framework.config.spec import FormatSpec, Truncates
from framework.record.arrays import Mask
from framework.record.failure import RecordFailure
from framework.record.formats.typed_rows import TypedRows
from framework.record.model import ColumnDetail, ObservedType
from framework.record.strict_json import JsonValue

# What is kept of `source`: the table, and the position in the log of each database that Debezium reads.
SOURCE_FIELDS = (
    "connector", "name", "db", "schema", "table", "collection", "keyspace", "ts_ms", "snapshot", "sequence", "txId", "lsn",
    "gtid", "file", "pos", "row", "scn", "commit_scn", "change_lsn", "commit_lsn", "event_serial_no", "ord",
)  # fmt: skip
_ROW_OPS = ("c", "u", "d", "r")
_TRUNCATE = "t"
_PLAIN = FormatSpec()


@dataclass
class Flat:
    parts: list[TypedRows] = field(default_factory=list)
    failures: dict[int, RecordFailure] = field(default_factory=dict)
    dropped: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class EnvelopeFields:
    """What is kept of an envelope beside the row, by the fields' names: at its top, and of `source`."""

    top: tuple[str, ...]
    source: frozenset[str]


@lru_cache(maxsize=64)
def kept_fields(spec: FormatSpec) -> EnvelopeFields:
    asked = spec.envelope_fields
    below = frozenset(name.removeprefix("source.") for name in asked if name.startswith("source."))
    return EnvelopeFields(("op", "ts_ms", *(name for name in asked if "." not in name)), below | set(SOURCE_FIELDS))


def no_change(names: frozenset[str]) -> RecordFailure:
    """Why a record is no change of a row, from the names of its fields."""
    what = "it has no field `op`"
    if "ddl" in names or "tableChanges" in names:
        what = "it is a change of the database's schema, from Debezium's schema history topic"
    elif {"id", "status"} <= names:
        what = "it marks the begin or end of a transaction, from Debezium's transaction topic"
    return RecordFailure(
        "decode", "FLOE-D121", f"the record is no change of a row: {what}", field_path="op", expected="c, u, d or r"
    )


def no_row(op: object) -> RecordFailure:
    """Why a change event gives no row."""
    if op == "d":
        reason = "a delete without the old row; give the table a primary key or REPLICA IDENTITY FULL"
    elif op in _ROW_OPS:
        reason = f"an event of kind {op!r} without the new row"
    else:
        reason = f"an event of kind {op!r}, which is about no row"
    return RecordFailure("decode", "FLOE-D122", f"the record is {reason}", field_path="op", expected="a row")


def flatten_rows(envelopes: TypedRows, spec: FormatSpec = _PLAIN) -> Flat:
    """The rows of envelopes that came in columns."""
    names = envelopes.columns.column_names
    places = envelopes.places
    if "op" not in names or not {"before", "after"} & set(names):
        return Flat(failures=dict.fromkeys(places.tolist(), no_change(frozenset(names))))
    flat = Flat()
    ops = envelopes.columns.column("op").combine_chunks()
    beside = _beside(envelopes, kept_fields(spec))
    taken = np.zeros(len(places), dtype=bool)
    for image, wanted in (("after", [op for op in _ROW_OPS if op != "d"]), ("before", ["d"])):
        if image not in names or not pa.types.is_struct(envelopes.columns.column(image).type):
            continue
        rows = envelopes.columns.column(image).combine_chunks()
        mine = pc.and_(pc.is_in(ops, pa.array(wanted)), rows.is_valid())
        mask: Mask = mine.fill_null(False).to_numpy(zero_copy_only=False)
        if mask.any():
            flat.parts.append(_image(envelopes, image, rows, beside, mask))
            taken |= mask
    for at in np.flatnonzero(~taken).tolist():
        op = ops[at].as_py()
        if op == _TRUNCATE and spec.on_truncate is Truncates.IGNORE:
            flat.dropped.append(int(places[at]))
        else:
            flat.failures[int(places[at])] = no_row(op)
    return flat


def _image(
    envelopes: TypedRows, image: str, rows: pa.Array, beside: Mapping[str, tuple[ObservedType, pa.Array]], mask: Mask
) -> TypedRows:
    keep = pa.array(mask)
    kind = envelopes.kinds[image]
    kinds: dict[str, ObservedType] = {str(name): inner for name, inner in kind[1]} if isinstance(kind, list) else {}
    children = dict(zip((child.name for child in rows.type), rows.flatten(), strict=True))
    columns = {name: child.filter(keep) for name, child in children.items()}
    for name, (own, column) in beside.items():
        columns[name], kinds[name] = column.filter(keep), own
    details = {
        path.removeprefix(f"{image}."): ColumnDetail(detail.comment)
        for path, detail in envelopes.details.items()
        if path.startswith(f"{image}.")
    }
    return TypedRows(envelopes.places[mask], pa.table(columns), kinds, details)


def _beside(envelopes: TypedRows, kept: EnvelopeFields) -> dict[str, tuple[ObservedType, pa.Array]]:
    """The columns that tell of the change, with their types."""
    columns = envelopes.columns
    found: dict[str, tuple[ObservedType, pa.Array]] = {}
    for name in kept.top:
        if name in columns.column_names:
            found[f"__{name}"] = _reported(f"__{name}", envelopes.kinds[name], columns.column(name).combine_chunks())
    kind = envelopes.kinds.get("source")
    if isinstance(kind, list) and kind[0] == "struct":
        source = columns.column("source").combine_chunks()
        children = dict(zip((child.name for child in source.type), source.flatten(), strict=True))
        for name, inner in kind[1]:
            if name in kept.source:
                found[f"__source_{name}"] = _reported(f"__source_{name}", inner, children[name])
    return found


def _reported(name: str, kind: ObservedType, column: pa.Array) -> tuple[ObservedType, pa.Array]:
    if name in DEBEZIUM_MOMENTS and pa.types.is_int64(column.type):
        return "timestamptz", column.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
    return kind, column


def flatten_json(envelope: Mapping[str, JsonValue], kept: EnvelopeFields) -> dict[str, JsonValue]:
    """The row of one envelope without a schema, as JSON values.

    Raises:
        RecordFailure: FLOE-D121, it is no change event; FLOE-D122, it holds no row.
    """
    op = envelope.get("op")
    if not isinstance(op, str) or not {"before", "after"} & set(envelope):
        raise no_change(frozenset(envelope))
    image = envelope.get("before" if op == "d" else "after")
    if op not in _ROW_OPS or not isinstance(image, dict):
        raise no_row(op)
    row = dict(image)
    row["__op"] = op
    row |= {f"__{name}": envelope[name] for name in kept.top[1:] if name in envelope}
    source = envelope.get("source")
    if isinstance(source, dict):
        row |= {f"__source_{name}": value for name, value in source.items() if name in kept.source}
    return row


def is_truncate(envelope: Mapping[str, JsonValue]) -> bool:
    """Whether an envelope says that all rows of the table went."""
    return envelope.get("op") == _TRUNCATE
