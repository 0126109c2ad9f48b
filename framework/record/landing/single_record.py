"""One record, judged alone: parsed strictly, routed, and converted for each of its tables, or the reason why not.

In: the position of a record that no column could decide. Out: a row in each of its tables, a need, or a failure;
nothing in between (a record is atomic). This path is the one that decides what an error is (invariant 9).
"""

from __future__ import annotations

import numpy as np

from framework.record.convert.nested import fold
from framework.record.destination import Destination
from framework.record.failure import RecordFailure
from framework.record.fit.fit_to_table import Fitted, fit
from framework.record.fit.infer_types import observe_record
from framework.record.fit.parsed_columns import rows_to_table
from framework.record.routing.refusal import no_table
from framework.record.routing.route import asked_for, route_record
from framework.record.routing.upsert import record_with_deletes, widened
from framework.record.state.block_state import BlockState
from framework.record.strict_json import JsonValue, NumberText, parse_record
from framework.table.policy.answers import Act

Rows = dict[Destination, list[tuple[int, dict[str, object]]]]


def judge(state: BlockState) -> None:
    """Decide every record that was left over."""
    tables = state.tables
    route = widened(state.plan.route, tables.keyed)
    rows: Rows = {}
    for position in sorted(state.alone):
        value = state.values[position]
        if value is None:
            continue
        try:
            record = parse_record(value)
            with_metadata = _with_metadata(state, position, record)
            found = route_record(
                with_metadata,
                state.block.topic,
                state.plan.route,
                tables.insensitive,
                tables.keyed,
            )
            if not found:
                state.unrouted([position])
                continue
            found = asked_for(found, route)
            is_tombstone = tables.takes_tombstones and bool(state.tombstones[position])
            lacking = state.lacking.by_place.get(position) if state.lacking else None
            found = record_with_deletes(found, with_metadata, tables.keyed, is_tombstone, tables.insensitive, lacking)
            found = asked_for(found, state.plan.route)
            if not found:
                state.drop(1)
                continue
            _fit_to_tables(state, position, record, found, rows)
        except RecordFailure as failure:
            state.fail(position, failure)
    for to, fitted in rows.items():
        positions = np.array([position for position, _ in fitted], dtype=np.int64)
        converted = rows_to_table([row for _, row in fitted], tables.shapes[to], state.metadata(positions, to))
        state.rows.add(to, positions, converted)


def _fit_to_tables(
    state: BlockState, position: int, record: dict[str, JsonValue], destinations: list[Destination], rows: Rows
) -> None:
    tables = state.tables
    fitted: dict[Destination, Fitted] = {}
    missing: list[Destination] = []
    for to in destinations:
        if to in tables.targets:
            own = tables.own_fields(record, to)
            fitted[to] = fit(record, own, to.table, tables.shapes[to], tables.rules(to))
            continue
        answer = tables.rules(to).missing_table()
        if answer.act is Act.REFUSE:
            raise no_table(to.table, answer)
        if answer.act is Act.CHANGE:
            missing.append(to)
    for to in missing:
        fields = observe_record(tables.own_fields(record, to))
        state.needs.add(to, tables.made_by(to).usable(fields), position)
    for to, found in fitted.items():
        state.needs.add_metadata(to, position)
        if found.row is not None:
            rows.setdefault(to, []).append((position, found.row))
            continue
        state.needs.add(to, found.new, position)
        # A declared type says how a field is read; what its column becomes is for the table to say.
        state.needs.add(to, found.wider, position, hinted=False)
        state.needs.relax(to, found.optional)
    if not fitted and not missing:
        state.drop(1)


def _with_metadata(state: BlockState, position: int, record: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """A record's fields and the metadata columns that rules look at."""
    if not state.tables.routing_metadata:
        return record
    metadata = state.routing_metadata(np.array([position], dtype=np.int64))
    folded = {fold(name, state.tables.insensitive) for name in metadata}
    own = {name: value for name, value in record.items() if fold(name, state.tables.insensitive) not in folded}
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
