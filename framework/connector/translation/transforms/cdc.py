"""What the transforms for change events make of the records: Debezium's, and those of AWS DMS.

In: a step and the shape of the records before it. Out: the shape after it. The sink's transforms put a struct `_cdc`
beside the row; where it holds the record's offset, SQL cannot give it, and it may only be dropped again.
"""

from __future__ import annotations

from dataclasses import replace

from framework.config.values.type_text import Structure, text_of
from framework.connector.translation.transforms.chain import ConnectTransform
from framework.connector.translation.transforms.record_shape import (
    RecordColumn,
    RecordShape,
    inside,
    is_struct,
)

_CDC = "_cdc"


def _object(step: ConnectTransform, shape: RecordShape, name: str) -> RecordColumn:
    column = next((one for one in shape.known(step) if one.name == name), None)
    if column is None or not is_struct(column.kind) or column.sql is None:
        step.refuse("type", f"`{name}` is not a struct among the declared fields", "declare it in `--fields`")
    return column


def dms(step: ConnectTransform, shape: RecordShape) -> RecordShape:
    """`data` becomes the row; `_cdc` says what was done, when, and in which table."""
    data, about = _object(step, shape, "data"), _object(step, shape, "metadata")
    parts = {one.name: one.sql for one in inside(about)}
    if "operation" not in parts:
        step.refuse("type", "`metadata` has no field `operation`", "declare it in `--fields`")
    operation = f"CASE {parts['operation']} WHEN 'update' THEN 'U' WHEN 'delete' THEN 'D' ELSE 'I' END"
    named = [
        f"coalesce({parts[name]}, 'null')" if name in parts else "'null'" for name in ("schema-name", "table-name")
    ]
    items: list[tuple[str, str, Structure]] = [
        ("op", operation, "string"),
        ("source", f"concat({named[0]}, '.', {named[1]})", "string"),
    ]
    if "timestamp" in parts:
        kind = next(one.kind for one in inside(about) if one.name == "timestamp")
        items.insert(1, ("ts", str(parts["timestamp"]), kind))
    sql = f"named_struct({', '.join(f'{name!r}, {item}' for name, item, _ in items)})"
    cdc = RecordColumn(_CDC, ["struct", [[name, kind] for name, _, kind in items]], sql)
    where = (*shape.where, f"{data.sql} IS NOT NULL", f"{about.sql} IS NOT NULL")
    return replace(shape, columns=tuple(inside(data)), where=where).put(cdc)


def debezium(step: ConnectTransform, shape: RecordShape) -> RecordShape:
    """The row behind a change, or the one before a delete; `_cdc` beside it."""
    before, after = _object(step, shape, "before"), _object(step, shape, "after")
    op = next((one for one in shape.known(step) if one.name == "op"), None)
    if op is None or op.kind != "string" or op.sql is None:
        step.refuse("type", "`op` is not text among the declared fields", "declare it in `--fields`")
    olds, news = {one.name: one for one in inside(before)}, {one.name: one for one in inside(after)}
    columns = []
    for name in dict.fromkeys((*news, *olds)):
        old, new = olds.get(name), news.get(name)
        kinds = {text_of(one.kind) for one in (old, new) if one is not None}
        if len(kinds) > 1:
            step.refuse("type", f"`{name}` has another type in `before` than in `after`", "declare both alike")
        sql = f"CASE WHEN {op.sql} = 'd' THEN {old.sql if old else 'NULL'} ELSE {new.sql if new else 'NULL'} END"
        columns.append(RecordColumn(name, (old or new).kind, sql))  # type: ignore[union-attr]
    row = f"CASE WHEN {op.sql} = 'd' THEN {before.sql} IS NOT NULL ELSE {after.sql} IS NOT NULL END"
    cdc = RecordColumn(
        _CDC,
        ["struct", [["op", "string"], ["source", "string"], ["target", "string"]]],
        key=step.key(),
        why="it adds `_cdc` with the record's offset and key, and floe's columns of a change have other names",
    )
    return replace(shape, columns=tuple(columns), where=(*shape.where, row)).put(cdc)


def new_record_state(step: ConnectTransform, shape: RecordShape) -> RecordShape:
    if not shape.has_schema:
        step.refuse(
            "type",
            "it leaves records without a schema as they are, so the sink writes `before`, `after` and `op`",
            "for floe's own reading of Debezium write `format: {type: json, envelope: debezium}` in a file of your own",
        )
    step.refuse(
        "type",
        "floe reads Debezium's types as dates and moments where the sink writes numbers, and its columns of a change "
        "have other names",
        "to write such a file by hand, begin with `envelope: debezium`",
    )
