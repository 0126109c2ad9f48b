"""Finds what records lack: Debezium's placeholder for a value that the database did not log, and what a partial update leaves
out.

In: records as JSON texts or in typed columns. Out: the same with null in place of placeholders, and for each such record
the names of the fields that it lacks (framework.record.upsert.lacking). A block without a placeholder is searched once, in
its bytes, and no record of it is looked at.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from framework.config.spec import Envelope
from framework.record.arrays import Mask, one_array
from framework.record.formats.typed_rows import TypedRows
from framework.record.json.member_spans import Spans, member_spans, object_spans
from framework.record.state.block_state import BlockState
from framework.record.upsert.lacking import Lacking, LackingRecords, envelope_columns, is_about_the_change
from framework.record.value_buffer import JoinedValues

PLACEHOLDER = "__debezium_unavailable_value"
_BYTES = PLACEHOLDER.encode()
_BASE64 = base64.b64encode(_BYTES).decode()
_HEX = _BYTES.hex()
# Of an array of whole numbers: the placeholder's bytes. Of one of UUIDs: what Java's `UUID.nameUUIDFromBytes` makes of them.
_NUMBERS = list(_BYTES)
_UUID = str(UUID(bytes=hashlib.md5(_BYTES, usedforsecurity=False).digest(), version=3))
# An hstore is a map, or such a map as text.
_MAP = {PLACEHOLDER: PLACEHOLDER}
_TEXTS = (PLACEHOLDER, _BASE64, _HEX, json.dumps(_MAP), json.dumps(_MAP, separators=(",", ":")))
_LISTS: tuple[list[object], ...] = ([PLACEHOLDER], [_BASE64], [_HEX], [_UUID], [_BYTES], list(_NUMBERS))
# What of them is in a record's bytes, whatever its format: of numbers the beginning, as JSON and Avro write them.
_ZIGZAG = bytes(b for number in _NUMBERS[:8] for b in (2 * number & 0x7F | 0x80, number >> 6))
_NUMBERS_AS_TEXT = tuple(comma.join(map(str, _NUMBERS[:8])).encode() for comma in (",", ", "))
_NEEDLES = (_BYTES, _BASE64.encode(), _HEX.encode(), _UUID.encode(), _ZIGZAG, *_NUMBERS_AS_TEXT)
_LONGEST = max(len(json.dumps(each, default=str)) for each in (*_LISTS, _MAP)) + 64


def may_lack_values(state: BlockState) -> bool:
    """Whether records of the block may lack values that the old rows of their keys have."""
    keyed, values = state.tables.keyed, state.block.values if state.elements is None else state.values
    if keyed is None or keyed.are_partial:
        return keyed is not None
    return _holds_needle(values.data if isinstance(values, JoinedValues) else b"\n".join(filter(None, values)))


def _holds_needle(data: bytes) -> bool:
    return any(needle in data for needle in _NEEDLES)


def take_placeholders_out(state: BlockState) -> None:
    """Put null in their place in the texts that are parsed, and note what each record lacks."""
    are_partial = state.tables.keyed is not None and state.tables.keyed.are_partial
    form = state.plan.decode.format
    of_envelope = None if form.envelope is Envelope.NONE else envelope_columns(form)
    state.values, state.lacking = _without_placeholders(state.values, are_partial, of_envelope)


# ---- JSON -------------------------------------------------------------------------------------------------------


def _without_placeholders(
    values: Sequence[bytes | None], are_partial: bool, of_envelope: Collection[str] | None
) -> tuple[list[bytes | None], LackingRecords]:
    """The texts with null where a placeholder was, and what each record lacks. One that must be read with care stays as it
    is: it is an error, whatever it lacks.

    Args:
        are_partial: whether a table has partial updates; with an envelope those records alone are partial that say `u`.
        of_envelope: the names of what is kept of an envelope; None where there is none.
    """
    found: list[bytes | None] = list(values)
    records = LackingRecords()
    for place, value in enumerate(values):
        if value is None or not (are_partial or _holds_needle(value)):
            continue
        read = member_spans(value)
        if read is None:
            continue
        text, spans = read
        cells = _cells(text, spans, of_envelope) if are_partial and of_envelope is not None else None
        if cells is not None:
            text, spans = cells
        gone = [name for name, (start, end) in spans.items() if _is_placeholder_text(text[start:end])]
        is_update = are_partial and (of_envelope is None or text[slice(*spans.get("__op", (0, 0)))] == '"u"')
        if gone or is_update or cells is not None:
            by_start = sorted((spans[name] for name in gone), reverse=True)
            present = frozenset(spans) if is_update else None
            for start, end in by_start:
                text = f"{text[:start]}null{text[end:]}"
            found[place] = text.encode()
        if gone or is_update:
            records.by_place[place] = Lacking(frozenset(gone), present)
    return found, records


def _is_placeholder_text(text: str) -> bool:
    if len(text) > _LONGEST or text[:1] not in '"[{':
        return False
    try:
        return _is_placeholder(json.loads(text))
    except ValueError:
        return False


def _is_placeholder(value: object) -> bool:
    return (isinstance(value, str) and value in _TEXTS) or value in _LISTS or value == _MAP


def _cells(text: str, spans: Spans, of_envelope: Collection[str]) -> tuple[str, Spans] | None:
    """The row of YugabyteDB's connector, in which each column is `{"value": ..., "set": true}` and one that did not change
    null: its columns as any other row has them. None where it is no such row."""
    parts: list[str] = []
    is_cells = False
    for name, (start, end) in spans.items():
        value = text[start:end]
        if is_about_the_change(name, of_envelope):
            parts.append(f"{json.dumps(name)}:{value}")
            continue
        if value == "null":
            continue
        inner = object_spans(text, start)
        if inner is None or inner[0].keys() != {"value", "set"}:
            return None
        is_cells = True
        parts.append(f"{json.dumps(name)}:{text[slice(*inner[0]['value'])]}")
    if not is_cells:
        return None
    return member_spans(f"{{{','.join(parts)}}}".encode())


# ---- typed columns ----------------------------------------------------------------------------------------------


def without_typed_placeholders(state: BlockState, rows: TypedRows) -> TypedRows:
    """The rows with null where a placeholder was; what each lacks is noted."""
    records = state.lacking = state.lacking or LackingRecords()
    columns = rows.columns
    for at, name in enumerate(columns.column_names):
        column = one_array(columns.column(name))
        mask = _placeholders(column)
        if mask is None or not mask.any():
            continue
        for place in rows.places[mask].tolist():
            known = records.by_place.get(place, Lacking())
            records.by_place[place] = replace(known, unavailable=known.unavailable | {name})
        nothing = pa.nulls(len(column), column.type)
        columns = columns.set_column(at, columns.schema.field(name), pc.if_else(pa.array(mask), nothing, column))
    return rows if columns is rows.columns else replace(rows, columns=columns)


def _placeholders(column: pa.Array) -> Mask | None:
    """Which values are one; None where none can be."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        found = pc.is_in(column, pa.array(_TEXTS, kind))
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        found = pc.equal(column, pa.scalar(_BYTES, kind)).fill_null(False)
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        lengths = pc.list_value_length(column) if pa.types.is_list(kind) else _lengths_of_maps(column)
        short = pc.is_in(lengths, pa.array([1, len(_NUMBERS)], lengths.type)).to_numpy(zero_copy_only=False)
        mask = np.zeros(len(column), bool)
        for row in np.flatnonzero(short).tolist():
            value = column[row].as_py()
            mask[row] = _is_placeholder(dict(value) if pa.types.is_map(kind) else _plain(value))
        return mask
    else:
        return None
    return np.asarray(found.to_numpy(zero_copy_only=False), bool)


def _lengths_of_maps(column: pa.Array) -> pa.Array:
    offsets = np.asarray(column.offsets)
    return pa.array(offsets[1:] - offsets[:-1], pa.int32())


def _plain(value: Sequence[object]) -> list[object]:
    return [str(each) if isinstance(each, UUID) else each for each in value]
