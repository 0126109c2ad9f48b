"""Rows in typed columns to the rows of tables: routed, checked against each table's columns, converted exactly.

In: columns whose types are known (a schema's, or what SQL gave), each row's place in the block, and what each column
asks of a table that lacks it. Out: rows, needs and failures, in the block's BlockState. A record is atomic: when one of
its tables refuses it, it is in none. Keeps invariants 8 and 9.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from framework.record.arrays import Ints, Mask, one_array
from framework.record.convert.converter import Converter
from framework.record.convert.nested import ChildField, StructConverter, fold
from framework.record.destination import Destination
from framework.record.failure import RecordFailure
from framework.record.fit.field_path import PathStep, columns_of, required_and_missing
from framework.record.fit.table_shape import TableShape, relaxed
from framework.record.fit.typed_columns import (
    convert_typed,
    holds_nothing,
    observed_from_typed,
    of_kind,
    plain_value,
    typed_failure,
    widening,
)
from framework.record.formats.present_values import rows_with_value
from framework.record.landing.single_record import json_value
from framework.record.model import ColumnDetail, ObservedType
from framework.record.routing.refusal import no_column, no_such_name, no_table, no_value, refused
from framework.record.routing.route import asked_for, route_columns, route_record
from framework.record.routing.upsert import record_with_deletes, widened
from framework.record.state.block_state import BlockState
from framework.table.policy.answers import NOTHING_TO_LEAVE_OUT, Act, PolicyAnswer


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


def route_and_convert(state: BlockState, typed: TypedRows) -> None:
    """Route and convert rows; what cannot be is a failure of its record."""
    tables = state.tables
    plan, columns, places = state.plan, typed.columns, typed.places
    routing = columns
    for name, column in state.routing_metadata(places).items():
        same = [n for n in routing.column_names if fold(n, tables.insensitive) == fold(name, tables.insensitive)]
        routing = routing.drop_columns(same).append_column(name, column)
    tombstones = state.tombstones[places] if tables.takes_tombstones else None
    lacking = state.lacking.masks(places) if state.lacking else None
    routed = route_columns(
        routing, state.block.topic, plan.route, tables.insensitive, tables.keyed, tombstones, lacking
    )
    state.unrouted(places[routed.unrouted].tolist())
    state.drop(routed.elsewhere)
    for row in routed.refused.tolist():
        record = {name: json_value(plain_value(routing.column(name)[row])) for name in routing.column_names}
        try:
            route = widened(plan.route, tables.keyed)
            found = route_record(record, state.block.topic, route, tables.insensitive, tables.keyed)
            is_tombstone = tombstones is not None and bool(tombstones[row])
            lacks = state.lacking.by_place.get(int(places[row])) if state.lacking else None
            record_with_deletes(asked_for(found, route), record, tables.keyed, is_tombstone, tables.insensitive, lacks)
        except RecordFailure as failure:
            state.fail(int(places[row]), failure)
    failures: dict[int, RecordFailure] = {}
    converted: list[tuple[Destination, Ints, pa.Table]] = []
    kept: Mask = np.zeros(len(columns), dtype=bool)
    for label, to in enumerate(routed.destinations):
        mine = np.sort(routed.rows[routed.labels == label])
        if not len(mine):
            continue
        part = columns if len(mine) == len(columns) else columns.take(pa.array(mine))
        if to not in tables.targets:
            answer = tables.rules(to).missing_table()
            if answer.act is Act.REFUSE:
                _fail(failures, mine, no_table(to.table, answer))
            elif answer.act is Act.CHANGE:
                kept[mine] = True
                shown = tables.own_fields(typed.present(part), to)
                own = places[mine].tolist()
                state.needs.add(to, shown, min(own), hinted=typed.by_schema, details=typed.details, others=own)
            continue
        kept[mine] = True
        _unknown_columns(state, to, mine, part, typed, failures)
        converted.append((to, mine, _table_rows(state, to, mine, part, typed, failures)))
    for row, reason in failures.items():
        state.fail(int(places[row]), reason)
    failed = np.fromiter(failures, dtype=np.int64, count=len(failures))
    for to, mine, table in converted:
        keep = ~np.isin(mine, failed)
        if keep.any():
            rows = table if keep.all() else table.filter(pa.array(keep))
            rows = pa.Table.from_arrays(rows.columns, schema=tables.shapes[to].schema)
            state.rows.add(to, places[mine[keep]], rows)
    dropped = np.setdiff1d(np.setdiff1d(routed.rows, np.flatnonzero(kept)), failed)
    state.drop(len(dropped))


def _fail(failures: dict[int, RecordFailure], rows: Ints, reason: RecordFailure) -> None:
    """Of several reasons against a row the first is reported, as of records that are judged alone."""
    for row in rows.tolist():
        failures.setdefault(row, reason)


def _unknown_columns(
    state: BlockState, to: Destination, mine: Ints, part: pa.Table, typed: TypedRows, failures: dict[int, RecordFailure]
) -> None:
    tables = state.tables
    rules, shape, first = tables.rules(to), tables.shapes[to], _first(mine, typed)
    state.needs.add_metadata(to, first)
    present = tables.own_fields(typed.present(part), to)
    asked = shape.lacking(present, rules.policy)
    missing, answer = asked.fields, rules.missing_column()
    if answer.act is not Act.LEAVE_OUT:
        for column, kind in asked.refused.items():
            asking = rows_with_value(one_array(part.column(column)), kind)
            _fail(failures, mine[asking], no_such_name(asked, to.table, rules.unusable_name()))
    if answer.act is Act.CHANGE and missing:
        state.needs.add(to, missing, first, hinted=typed.by_schema, details=typed.details)
    elif answer.act is Act.REFUSE:
        for column, kind in missing.items():
            asking = rows_with_value(one_array(part.column(column)), kind)
            _fail(failures, mine[asking], no_column(column, to.table, answer))
    # A schema says what will come: the column is widened for its type before a value asks for it.
    if typed.by_schema and rules.unfit_value(can_widen=True, can_move=False).act is Act.CHANGE:
        wider = widening(_unhinted(state, to, _beside_key(present, shape)), shape.root)
        if wider:
            state.needs.add(to, wider, first, hinted=False)


def _first(mine: Ints, typed: TypedRows) -> int:
    """The place of the first record of these rows: the one that asks for what they have in common."""
    return int(typed.places[mine].min())


def _beside_key(kinds: dict[str, ObservedType], shape: TableShape) -> dict[str, ObservedType]:
    """Without the columns of a table's key, whose types never change."""
    keys = {fold(name, shape.insensitive) for name in shape.keys}
    return {name: kind for name, kind in kinds.items() if shape.root.fold(name) not in keys}


def _unhinted(state: BlockState, to: Destination, kinds: dict[str, ObservedType]) -> dict[str, ObservedType]:
    tables = state.tables
    insensitive = tables.shapes[to].insensitive
    roots = {path.split(".")[0] for path in tables.hints(insensitive)}
    return {n: kind for n, kind in kinds.items() if fold(n, insensitive) not in roots}


def _table_rows(
    state: BlockState, to: Destination, mine: Ints, part: pa.Table, typed: TypedRows, failures: dict[int, RecordFailure]
) -> pa.Table:
    """The rows as the table's columns, nulls where a value failed (its row is in `failures` then)."""
    tables = state.tables
    shape, rules = tables.shapes[to], tables.rules(to)
    metadata = state.metadata(typed.places[mine], to)
    by_name = _by_name(part, mine, shape.root, failures)
    children = {child.name: child for child in shape.root.children}
    kinds = {shape.root.fold(column): kind for column, kind in typed.kinds.items()}
    arrays = []
    for field_ in shape.schema:
        if field_.name in shape.metadata:
            arrays.append(metadata[shape.metadata[field_.name]])
            continue
        child = children[field_.name]
        source = by_name.get(shape.root.fold(field_.name))
        if source is None:
            array, lacking = pa.nulls(len(part), field_.type), np.ones(len(part), dtype=bool)
        else:
            kind = kinds.get(shape.root.fold(field_.name), "null")
            converter = of_kind(kind, source.type, child.converter)
            array, bad = convert_typed(converter, source, rules.leaves_empty_out)
            lacking = array.is_null().to_numpy(zero_copy_only=False)
            if bad is not None and bad.any():
                _unfit_values(_Column(state, to, child, converter, source, mine, typed), bad, failures)
                lacking &= ~bad
            if child.required and lacking.any():
                # What holds nothing was left out, and where null is forbidden it is a value that does not fit.
                left_out = lacking & source.is_valid().to_numpy(zero_copy_only=False)
                answer = _at_the_top(rules.unfit_value(can_widen=False, can_move=False))
                for at in np.flatnonzero(left_out).tolist():
                    reason = refused(
                        typed_failure(child.name, child.converter, source[at], not typed.by_schema), answer
                    )
                    failures.setdefault(int(mine[at]), reason)
                lacking &= ~left_out
        arrays.append(array)
        if child.required and lacking.any():
            answer = rules.missing_value(can_relax=(child.name,) not in shape.always_required)
            if answer.act is Act.CHANGE:
                state.needs.relax(to, [(child.name,)])
            else:
                _fail(failures, mine[lacking], no_value(child.name, _at_the_top(answer)))
    return pa.table(arrays, names=shape.schema.names)


@dataclass(frozen=True)
class _Column:
    """Values of one column of a table: `source` as they came, `mine` their rows."""

    state: BlockState
    to: Destination
    child: ChildField
    converter: Converter
    source: pa.Array
    mine: Ints
    typed: TypedRows


def _unfit_values(column: _Column, bad: Mask, failures: dict[int, RecordFailure]) -> None:
    """What becomes of values that are none of their column: the column is widened or made optional inside, they are
    left out, or their rows are failures."""
    state, child, source = column.state, column.child, column.source
    rules, shape = state.tables.rules(column.to), state.tables.shapes[column.to]
    at = np.flatnonzero(bad)
    wider = widening(_beside_key({child.name: observed_from_typed(source.type)}, shape), shape.root)
    answer = rules.unfit_value(can_widen=bool(wider), can_move=False)
    if answer.act is Act.CHANGE:
        state.needs.add(column.to, wider, _first(column.mine, column.typed), hinted=False)
        return
    is_nested = pa.types.is_nested(source.type)
    if answer.act is Act.LEAVE_OUT and not child.required and not is_nested:
        return
    unfit = _never_fits(column, at) if is_nested else np.ones(len(at), dtype=bool)
    step = PathStep("field", child.name, child.name, child.converter, child.required)
    for row, is_unfit in zip(at.tolist(), unfit.tolist(), strict=True):
        value, said = source[row], answer
        missing = [] if is_unfit else list(required_and_missing(plain_value(value), child.converter, (step,)))
        if missing:
            columns = {columns_of(place) for place in missing}
            said = rules.missing_value(can_relax=columns.isdisjoint(shape.always_required))
            if said.act is Act.CHANGE:
                state.needs.relax(column.to, columns)
                continue
        elif not is_unfit and rules.leaves_empty_out and not child.required and holds_nothing(source.slice(row, 1)):
            continue  # `[]` inside of it, where null is forbidden, takes nothing else with it
        if said.act is Act.LEAVE_OUT and not child.required:
            continue
        said = _at_the_top(said)
        failures.setdefault(
            int(column.mine[row]),
            no_value(".".join(columns_of(missing[0])), said)
            if missing
            else refused(typed_failure(child.name, child.converter, value, not column.typed.by_schema), said),
        )


def _at_the_top(answer: PolicyAnswer) -> PolicyAnswer:
    """There is nothing around a column's value that could be left out with it."""
    return NOTHING_TO_LEAVE_OUT if answer.act is Act.LEAVE_OUT else answer


def _never_fits(column: _Column, at: Ints) -> Mask:
    """Which of the values that do not fit would not, either, if nothing inside of the column were required."""
    values = column.source.take(pa.array(at))
    _, bad = convert_typed(relaxed(column.converter), values, column.state.tables.rules(column.to).leaves_empty_out)
    return np.zeros(len(at), dtype=bool) if bad is None else bad


def _by_name(
    part: pa.Table, mine: Ints, root: StructConverter, failures: dict[int, RecordFailure]
) -> dict[str, pa.Array]:
    """The columns by folded name; rows with two values for one name fail."""
    found: dict[str, pa.Array] = {}
    for name in part.column_names:
        column, folded = one_array(part.column(name)), root.fold(name)
        if folded not in found:
            found[folded] = column
            continue
        if found[folded].null_count == len(column):
            found[folded] = column
            continue
        alike = found[folded].type == column.type
        both = pc.and_(found[folded].is_valid(), column.is_valid()) if alike else column.is_valid()
        failure = RecordFailure("convert", "FLOE-D306", root.two_fields(name), field_path=name)
        for at in np.flatnonzero(both.to_numpy(zero_copy_only=False)).tolist():
            failures.setdefault(int(mine[at]), failure)
        if alike:
            found[folded] = pc.coalesce(found[folded], column)
    return found
