"""Rows in typed columns to the rows of tables: routed, checked against each table's columns, converted exactly.

In: columns whose types are known (a schema's, or what SQL gave), each row's place in the block, and what each column asks
of a table that lacks it. Out: rows, needs and failures, in the block's Batch. A record is atomic: when one of its tables
refuses it, it is in none. Keeps invariants 8 and 9.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from framework.config.spec import EvolveMode
from framework.record.arrays import Ints, Mask
from framework.record.block_state import Batch
from framework.record.convert.nested import ChildField, fold
from framework.record.convert.typed_columns import (
    convert_typed,
    observed_from_typed,
    of_kind,
    plain_value,
    typed_failure,
    widening,
)
from framework.record.failure import RecordFailure
from framework.record.fit_to_table import because, leaves_empty_out, no_column, refused
from framework.record.json.single_record import creatable, json_value
from framework.record.model import ColumnDetail, ObservedType
from framework.record.observe import missing_fields
from framework.record.route import lower_values, route_columns, route_record
from framework.table.admit import admitted_fields

# With types that columns have as a whole, a value has no column of its own: `new_column` does what `widen` does.
_MAY_WIDEN = (EvolveMode.WIDEN, EvolveMode.NEW_COLUMN)


@dataclass(frozen=True)
class TypedRows:
    """Rows and what their columns are.

    Attributes:
        places: each row's place in the block.
        columns: one chunk a column.
        kinds: for each column the type that a table without it must gain.
        details: what the schema says beside types, for new tables.
        by_schema: the columns are a schema's, so that they count also where no row has a value. The other columns come
            from SQL and count by their values; the pipeline's hints are not for them.
    """

    places: Ints
    columns: pa.Table
    kinds: Mapping[str, ObservedType]
    details: Mapping[str, ColumnDetail] = field(default_factory=dict)
    by_schema: bool = True

    def at(self, places: Ints) -> TypedRows:
        """The rows at some of the places."""
        if len(places) == len(self.places):
            return self
        order = np.argsort(self.places, kind="stable")
        rows = order[np.searchsorted(self.places[order], places)]
        return replace(self, places=places, columns=self.columns.take(pa.array(rows)))

    def present(self, rows: pa.Table) -> dict[str, ObservedType]:
        """The columns that count among these rows, with their types."""
        if self.by_schema:
            return dict(self.kinds)
        return {n: kind for n, kind in self.kinds.items() if rows.column(n).null_count < len(rows)}


def place(batch: Batch, typed: TypedRows) -> None:
    """Route and convert rows; what cannot be is a failure of its record."""
    plan, columns, places = batch.plan, typed.columns, typed.places
    routing = columns
    for name, column in batch.routing_metadata(places).items():
        same = [n for n in routing.column_names if fold(n, batch.insensitive) == fold(name, batch.insensitive)]
        routing = routing.drop_columns(same).append_column(name, column)
    routed = route_columns(routing, batch.block.topic, plan.route, lower_values(plan), batch.insensitive)
    batch.unrouted(places[routed.unrouted].tolist())
    batch.drop(routed.elsewhere)
    for row in routed.refused.tolist():
        record = {name: json_value(plain_value(routing.column(name)[row])) for name in routing.column_names}
        try:
            route_record(record, batch.block.topic, plan.route, lower_values(plan), batch.insensitive)
        except RecordFailure as failure:
            batch.fail(int(places[row]), failure)
    failures: dict[int, RecordFailure] = {}
    converted: list[tuple[str, Ints, pa.Table]] = []
    kept: Mask = np.zeros(len(columns), dtype=bool)
    for label, name in enumerate(routed.names):
        mine = np.sort(routed.rows[routed.labels == label])
        if not len(mine):
            continue
        part = columns if len(mine) == len(columns) else columns.take(pa.array(mine))
        if name not in batch.tables:
            _missing_table(batch, name, mine, part, typed, failures, kept)
            continue
        kept[mine] = True
        _unknown_columns(batch, name, mine, part, typed, failures)
        converted.append((name, mine, _convert(batch, name, mine, part, typed, failures)))
    for row, reason in failures.items():
        batch.fail(int(places[row]), reason)
    failed = np.fromiter(failures, dtype=np.int64, count=len(failures))
    for name, mine, table in converted:
        keep = ~np.isin(mine, failed)
        if keep.any():
            rows = table if keep.all() else table.filter(pa.array(keep))
            batch.add_rows(
                name, places[mine[keep]], pa.Table.from_arrays(rows.columns, schema=batch.shapes[name].schema)
            )
    dropped = np.setdiff1d(np.setdiff1d(routed.rows, np.flatnonzero(kept)), failed)
    batch.drop(len(dropped))


def _missing_table(
    batch: Batch,
    name: str,
    mine: Ints,
    part: pa.Table,
    typed: TypedRows,
    failures: dict[int, RecordFailure],
    kept: Mask,
) -> None:
    try:
        if not creatable(batch, name):
            return
    except RecordFailure as failure:
        failures.update(dict.fromkeys(mine.tolist(), failure))
        return
    kept[mine] = True
    own = _without_metadata(batch, typed.present(part))
    batch.need(name, own, _first(mine, typed), hinted=typed.by_schema, details=typed.details)


def _without_metadata(batch: Batch, kinds: dict[str, ObservedType]) -> dict[str, ObservedType]:
    metadata = batch.metadata_columns
    return {name: kind for name, kind in kinds.items() if name.lower() not in metadata} if metadata else kinds


def _unknown_columns(
    batch: Batch, name: str, mine: Ints, part: pa.Table, typed: TypedRows, failures: dict[int, RecordFailure]
) -> None:
    policy, shape = batch.policy(name), batch.shapes[name]
    word = policy.evolve.columns
    if lacking := batch.lacking_metadata(name):
        batch.need(name, lacking, _first(mine, typed))
    present = _without_metadata(batch, typed.present(part))
    missing = admitted_fields(missing_fields(present, shape.root), policy)
    if word is EvolveMode.EVOLVE and missing:
        batch.need(name, missing, _first(mine, typed), hinted=typed.by_schema, details=typed.details)
    elif word is not EvolveMode.DISCARD_VALUE:
        for column in missing:
            for row in mine[part.column(column).is_valid().to_numpy()].tolist():
                failures[row] = because(no_column(column, name, word), batch.tables[name].frozen)
    # A schema says what will come: the column is widened for its type before a value asks for it.
    if typed.by_schema and policy.evolve.data_type in _MAY_WIDEN:
        _widen(batch, name, _unhinted(batch, name, present), _first(mine, typed))


def _first(mine: Ints, typed: TypedRows) -> int:
    """The place of the first record of these rows: the one that asks for what they have in common."""
    return int(typed.places[mine].min())


def _widen(batch: Batch, name: str, kinds: Mapping[str, ObservedType], at: int) -> bool:
    """Ask for the columns to be promoted to these types, where Iceberg can; False where it cannot."""
    wider = widening(kinds, batch.shapes[name].root)
    if wider:
        batch.need(name, wider, at, hinted=False)
    return bool(wider)


def _unhinted(batch: Batch, name: str, kinds: dict[str, ObservedType]) -> dict[str, ObservedType]:
    insensitive = batch.shapes[name].insensitive
    roots = {path.split(".")[0] for path in batch.hints(insensitive)}
    return {n: kind for n, kind in kinds.items() if fold(n, insensitive) not in roots}


def _convert(
    batch: Batch, name: str, mine: Ints, part: pa.Table, typed: TypedRows, failures: dict[int, RecordFailure]
) -> pa.Table:
    """The rows as the table's columns, nulls where a value failed (its row is in `failures` then)."""
    shape, evolve = batch.shapes[name], batch.policy(name).evolve
    metadata = batch.metadata(typed.places[mine])
    by_name = _by_name(part, mine, shape.insensitive, failures)
    children = {child.name: child for child in shape.root.children}
    kinds = {fold(column, shape.insensitive): kind for column, kind in typed.kinds.items()}
    arrays = []
    for field_ in shape.schema:
        if field_.name in shape.metadata:
            arrays.append(metadata[shape.metadata[field_.name]])
            continue
        child = children[field_.name]
        source = by_name.get(fold(field_.name, shape.insensitive))
        failed: list[int] = []
        if source is None:
            array = pa.nulls(len(part), field_.type)
        else:
            kind = kinds.get(fold(field_.name, shape.insensitive), "null")
            converter = of_kind(kind, source.type, child.converter)
            array, bad = convert_typed(converter, source, leaves_empty_out(batch.policy(name)))
            failed = [] if bad is None else np.flatnonzero(bad).tolist()
            if failed and not _is_let_be(batch, name, child, source, _first(mine, typed)):
                word = evolve.otherwise if evolve.data_type in _MAY_WIDEN else evolve.data_type
                for at in failed:
                    reason = typed_failure(field_.name, child.converter, source[at])
                    failures[int(mine[at])] = because(refused(reason, word), batch.tables[name].frozen)
        arrays.append(array)
        if child.required and array.null_count > len(failed):
            fixed = (child.name,) in shape.always_required
            if evolve.nullability is EvolveMode.RELAX and not fixed:
                batch.relax(name, [(child.name,)])
                continue
            word = evolve.otherwise if evolve.nullability is EvolveMode.RELAX else evolve.nullability
            message = f"{field_.name} is required and the row has no value for it"
            missing = refused(RecordFailure("convert", "FLOE-D305", message, field_path=field_.name), word)
            missing = because(missing, batch.tables[name].frozen)
            for at in np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)).tolist():
                failures.setdefault(int(mine[at]), missing)
    return pa.table(arrays, names=shape.schema.names)


def _is_let_be(batch: Batch, name: str, child: ChildField, source: pa.Array, at: int) -> bool:
    """Whether values that do not fit their column are no failures: the column will be widened, or they are left out."""
    evolve = batch.policy(name).evolve
    if evolve.data_type in _MAY_WIDEN and _widen(batch, name, {child.name: observed_from_typed(source.type)}, at):
        return True
    word = evolve.otherwise if evolve.data_type in _MAY_WIDEN else evolve.data_type
    return word is EvolveMode.DISCARD_VALUE and not child.required


def _by_name(part: pa.Table, mine: Ints, insensitive: bool, failures: dict[int, RecordFailure]) -> dict[str, pa.Array]:
    """The columns by folded name; rows with two values for one name fail."""
    found: dict[str, pa.Array] = {}
    for name in part.column_names:
        column, folded = _one_chunk(part.column(name)), fold(name, insensitive)
        if folded not in found:
            found[folded] = column
            continue
        both = pc.and_(found[folded].is_valid(), column.is_valid())
        failure = RecordFailure(
            "convert", "FLOE-D306", f"{name}: the record has two fields that differ only in case", field_path=name
        )
        for at in np.flatnonzero(both.to_numpy(zero_copy_only=False)).tolist():
            failures[int(mine[at])] = failure
        if found[folded].type == column.type:
            found[folded] = pc.coalesce(found[folded], column)
    return found


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
