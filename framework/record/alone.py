"""One record, judged alone: parsed strictly, routed, and converted for each of its tables, or the reason why not.

In: the position of a record that no column could decide. Out: a row in each of its tables, a need, or a failure; nothing
in between (a record is atomic). This path is the one that decides what an error is (invariant 9).
"""

from __future__ import annotations

import numpy as np

from framework.config.spec import EvolveMode
from framework.record.batch import Batch
from framework.record.convert import convert_record, rows_to_table
from framework.record.convert_nested import fold
from framework.record.failure import RecordFailure
from framework.record.json_strict import JsonValue, NumberText, parse_record
from framework.record.model import ObservedType
from framework.record.observe import missing_fields, observe_record, observed_at
from framework.record.route import lower_values, route_record

Rows = dict[str, list[tuple[int, dict[str, object]]]]


def judge(batch: Batch) -> None:
    """Decide every record that was left over."""
    rows: Rows = {}
    for position in sorted(batch.alone):
        value = batch.values[position]
        if value is None:
            continue
        try:
            record = parse_record(value)
            names = route_record(
                _with_metadata(batch, position, record),
                batch.block.topic,
                batch.plan.route,
                lower_values(batch.plan),
                batch.insensitive,
            )
            if not names:
                batch.unrouted([position])
                continue
            _convert(batch, position, record, names, rows)
        except RecordFailure as failure:
            batch.fail(position, failure)
    for table, found in rows.items():
        positions = np.array([position for position, _ in found], dtype=np.int64)
        converted = rows_to_table([row for _, row in found], batch.shapes[table], batch.metadata(positions))
        batch.add_rows(table, positions, converted)


def _convert(batch: Batch, position: int, record: dict[str, JsonValue], names: list[str], rows: Rows) -> None:
    converted: dict[str, dict[str, object]] = {}
    needed: dict[str, dict[str, ObservedType]] = {}
    dropped = 0
    for table in names:
        if table not in batch.tables:
            if creatable(batch, table):
                needed[table] = observe_record(_without_metadata(batch, record))
            else:
                dropped += 1
            continue
        policy, shape = batch.policy(table).evolve, batch.shapes[table]
        lacking = missing_fields(observe_record(_without_metadata(batch, record)), shape.root)
        if lacking and policy.columns in (EvolveMode.FREEZE, EvolveMode.FAIL):
            name = next(iter(lacking))
            raise RecordFailure(
                "convert",
                "FLOE-D307",
                f"{name}: {table} has no such column and its columns are frozen",
                field_path=name,
            )
        if lacking and policy.columns is EvolveMode.EVOLVE:
            needed[table] = lacking
        try:
            converted[table] = convert_record(record, shape)
        except RecordFailure as failure:
            need = _need_of(failure, policy.data_type, policy.nullability)
            if need is None:
                raise
            needed.setdefault(table, {}).update([need])
    for table, fields in needed.items():
        batch.need(table, fields)
    for table, row in converted.items():
        rows.setdefault(table, []).append((position, row))
    if not converted and not needed and dropped:
        batch.drop(1)


def creatable(batch: Batch, table: str) -> bool:
    """Whether a table that does not exist may be created; False when its records are to be dropped.

    Raises:
        RecordFailure: FLOE-D204, the policy says that such a record is an error.
    """
    policy = batch.policy(table)
    if policy.create.enabled and policy.evolve.tables in (EvolveMode.EVOLVE, EvolveMode.RELAX, EvolveMode.WIDEN):
        return True
    if policy.evolve.tables is EvolveMode.IGNORE:
        return False
    raise RecordFailure(
        "route", "FLOE-D204", f"the table {table!r} does not exist and may not be created", expected="an existing table"
    )


def _need_of(failure: RecordFailure, data_type: EvolveMode, nullability: EvolveMode) -> tuple[str, ObservedType] | None:
    """What change to the table would let the record in, where the policy allows to ask for it."""
    if failure.field_path is None or "'" in failure.field_path:
        return None
    if failure.wider is not None and data_type in (EvolveMode.WIDEN, EvolveMode.EVOLVE):
        return observed_at(failure.field_path, failure.wider)
    if failure.code == "FLOE-D305" and nullability in (EvolveMode.RELAX, EvolveMode.EVOLVE):
        return observed_at(failure.field_path, "null")
    return None


def _without_metadata(batch: Batch, record: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """A record's own fields that are named like floe's metadata columns are no columns."""
    metadata = batch.metadata_columns
    return {name: value for name, value in record.items() if name.lower() not in metadata} if metadata else record


def _with_metadata(batch: Batch, position: int, record: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """A record's fields and the metadata columns that rules look at."""
    metadata = batch.routing_metadata(np.array([position], dtype=np.int64))
    if not metadata:
        return record
    folded = {fold(name, batch.insensitive) for name in metadata}
    own = {name: value for name, value in record.items() if fold(name, batch.insensitive) not in folded}
    return own | {name: json_value(column[0].as_py()) for name, column in metadata.items()}


def json_value(value: object) -> JsonValue:
    """A routing field in a typed column as the JSON value it would have been."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (int, float)):
        return NumberText(value)
    if isinstance(value, dict):
        return {str(name): json_value(item) for name, item in value.items()}
    return str(value)
