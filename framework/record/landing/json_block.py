"""JSON records to rows per table, dead letters, and what tables would need first.

In: a BlockState with the plan, and the tables as the task knows them. Out: what became of each record, in the same
BlockState. Records travel in columns; what no column can decide exactly goes the slow path
(framework.record.landing.single_record), which alone decides what is an error. A record is atomic: it lands in all its
tables or is one dead letter.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from framework.record.arrays import Ints, Mask, Numbers, one_array
from framework.record.convert.nested import fold
from framework.record.destination import Destination
from framework.record.fit.infer_types import observe_records
from framework.record.fit.parse_plan import ParseGroup, project
from framework.record.fit.parsed_columns import convert_columns
from framework.record.json.framing import ParsedRows, frame
from framework.record.json.maps import parse_with_maps
from framework.record.json.mixed_kinds import Leniency
from framework.record.landing.single_record import judge
from framework.record.model import AlikeRows
from framework.record.routing.route import route_columns
from framework.record.routing.upsert import RoutedRows
from framework.record.rows.dictionary_text import is_encoded, plain_schema
from framework.record.state.block_state import BlockState
from framework.table.policy.admitted import never_admitted
from framework.table.policy.answers import Act

_MOST_BESIDE = 64


def process_json(state: BlockState, positions: Ints) -> None:
    """Parse, route and convert the JSON records at these positions; the state gathers what becomes of them."""
    tables = state.tables
    groups = tables.parse_groups
    if not groups:
        # Their records are judged alone anyway, and Arrow would make a column of each key of an inner map.
        state.judge_alone(positions.tolist())
    elif len(groups) == 1:
        parts, schema = _parse(state, positions, groups[0].schema)
        for part in parts:
            _give_to_tables(state, part, schema, _route(state, part))
    else:
        _process_groups(state, positions, groups)
    if state.alone:
        state.take_back_alone()
        judge(state)


def _process_groups(state: BlockState, positions: Ints, groups: list[ParseGroup]) -> None:
    """Tables disagree about parse types: route on the routing fields alone, then parse for each group of tables."""
    tables = state.tables
    routing: dict[str, pa.DataType] = {}
    for group in groups:
        for field in group.schema:
            if fold(field.name, tables.insensitive) in tables.routing_roots:
                routing.setdefault(field.name, field.type)
    found: dict[Destination, list[Ints]] = {}
    parts, _ = _parse(state, positions, pa.schema(list(routing.items())))
    for part in parts:
        routed = _route(state, part)
        for label, to in enumerate(routed.destinations):
            found.setdefault(to, []).append(part.positions[routed.rows[routed.labels == label]])
    going = {to: np.concatenate(positions) for to, positions in found.items()}
    group_of = {to: group for group in groups for to in group.tables}
    for group in groups:
        own = sorted(to for to in going if group_of.get(to, groups[0]) is group)
        if not own:
            continue
        wanted = np.unique(np.concatenate([going[to] for to in own]))
        parts, schema = _parse(state, wanted, group.schema)
        for part in parts:
            rows = [np.flatnonzero(np.isin(part.positions, going[to])) for to in own]
            labels = np.repeat(np.arange(len(own)), [len(each) for each in rows])
            none = np.empty(0, np.int64)
            _give_to_tables(state, part, schema, RoutedRows(np.concatenate(rows), labels, own, none, none))


def _parse(state: BlockState, positions: Ints, schema: pa.Schema) -> tuple[list[ParsedRows], pa.Schema]:
    """The records at these positions in columns, and the schema they were parsed with: `schema` and fields beside it
    that must not be left to inference. Records that Arrow cannot take are left to be judged alone."""
    values = state.values
    chosen = values if len(positions) == len(values) else [values[i] for i in positions.tolist()]
    framed = frame(cast("list[bytes]", chosen), positions)
    state.judge_alone(framed.alone)
    beside = _beside(schema)
    while True:
        known = pa.schema([*schema, *(pa.field(name, kind) for name, kind in beside.items())])
        parts, alone = parse_with_maps(framed, known, partial(_leniency, state, known), state.encode)
        found = _not_to_infer(state, parts, known)
        if not found or len(beside) > _MOST_BESIDE:
            state.judge_alone(alone)
            return parts, known
        beside.update(found)


def _leniency(state: BlockState, known: pa.Schema) -> Leniency:
    """Fields that may be brought to one kind: never those that rules look at. Numbers may become text only where no
    column of that name, at any depth, is more than text: a number must not be taken for base64. Text may become a
    number only where numbers count no unit of time: the text may be a date."""
    tables = state.tables
    roots = {path.split(".")[0].lower() for path in tables.routing_paths}
    free = [field for field in known if field.name.lower() not in roots]
    return Leniency(
        text=frozenset(f.name for f in free if pa.types.is_string(f.type) and f.name.lower() not in tables.no_text),
        number=frozenset(f.name for f in free if _is_number(f.type)),
        counts=tables.counts,
        never=frozenset(roots | {field.name.lower() for field in known}),
        reads_text=tables.read_text,
    )


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


@lru_cache(maxsize=256)
def _beside(schema: pa.Schema) -> dict[str, pa.DataType]:
    """Fields found beside a schema in earlier blocks. Only speed depends on what is remembered here: without it a block
    is parsed twice."""
    return {}


def _not_to_infer(state: BlockState, parts: list[ParsedRows], known: pa.Schema) -> dict[str, pa.DataType]:
    """Inferred fields that should have been parsed to a given type: other spellings of known fields, and routing fields
    whose text Arrow took for timestamps."""
    tables = state.tables
    spelled = {field.name.lower(): field.type for field in known} if tables.any_insensitive else {}
    found: dict[str, pa.DataType] = {}
    for part in parts:
        if plain_schema(part.table.schema).equals(known):
            continue
        for field in part.table.schema:
            folded = fold(field.name, tables.insensitive)
            if field.name in known.names or part.table.column(field.name).null_count == len(part):
                continue
            if field.name.lower() in spelled:
                found[field.name] = spelled[field.name.lower()]
            elif folded in tables.routing_roots and text_for_times(field.type) != field.type:
                found[field.name] = text_for_times(field.type)
    return found


def text_for_times(kind: pa.DataType) -> pa.DataType:
    """An inferred type with text where Arrow inferred timestamps."""
    if pa.types.is_timestamp(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([child.with_type(text_for_times(child.type)) for child in kind])
    return kind


def _route(state: BlockState, part: ParsedRows) -> RoutedRows:
    tables = state.tables
    plan = state.plan
    table = part.table
    for name, column in state.routing_metadata(part.positions).items():
        same = [n for n in table.column_names if fold(n, tables.insensitive) == fold(name, tables.insensitive)]
        table = table.drop_columns(same).append_column(name, column)
    tombstones = state.tombstones[part.positions] if tables.takes_tombstones else None
    lacking = state.lacking.masks(part.positions) if state.lacking else None
    routed = route_columns(table, state.block.topic, plan.route, tables.insensitive, tables.keyed, tombstones, lacking)
    if not routed.all_in_order:
        state.unrouted(part.positions[routed.unrouted].tolist())
        state.judge_alone(part.positions[routed.refused].tolist())
        state.drop(routed.elsewhere)
    return routed


def _give_to_tables(state: BlockState, part: ParsedRows, schema: pa.Schema, routed: RoutedRows) -> None:
    """Give each table its rows of the part."""
    tables = state.tables
    if not len(routed.rows):
        return
    known = {field.name: _known(part.table.column(field.name), field.type) for field in schema}
    extra = _beyond(part.table, schema)
    respelled = {
        name
        for name in extra
        if name in known and _respelled(part.table.field(name).type, schema.field(name).type, tables.any_insensitive)
    }
    groups = _alike(state, routed.destinations)
    if (
        len(groups) == 1 < len(routed.destinations)
        and routed.all_in_order
        and state.gives_unsorted(routed.destinations)
    ):
        rows = _Rows(part.positions, routed.labels, known, extra, respelled)
        if _give_unsorted(state, routed.destinations, rows):
            return
    grouped = [to for group in groups for to in group]
    place = {to: i for i, to in enumerate(grouped)}
    labels: Numbers = np.array([place[to] for to in routed.destinations], np.int64)[routed.labels]
    positions = part.positions
    in_order = len(routed.rows) == len(part) and (len(grouped) == 1 or not labels.any())
    if not in_order:
        # As narrow as they can be: numbers of one byte or two are sorted by their digits, in a fraction of the time.
        order = np.argsort(labels.astype(np.min_scalar_type(len(grouped))), kind="stable")
        taken = routed.rows[order]
        labels = labels[order]
        indices = pa.array(taken)
        known = {name: pc.take(column, indices, boundscheck=False) for name, column in known.items()}
        extra = {name: pc.take(column, indices, boundscheck=False) for name, column in extra.items()}
        positions = positions[taken]
    bounds = np.searchsorted(labels, np.arange(len(grouped) + 1)).tolist()
    rows = _Rows(positions, labels, known, extra, respelled)
    for group in groups:
        first, last = place[group[0]], place[group[-1]]
        of_group = rows.slice(bounds[first], bounds[last + 1], first)
        if len(group) > 1 and (_candidates(state, group[0], of_group) or any(map(tables.lacking_metadata, group))):
            # What a table needs depends on its own policy, and is reported for each of them.
            for number in range(first, last + 1):
                _convert_alike(state, [grouped[number]], rows.slice(bounds[number], bounds[number + 1], number))
        else:
            _convert_alike(state, group, of_group)


def _give_unsorted(state: BlockState, destinations: list[Destination], rows: _Rows) -> bool:
    """Give tables that are alike their rows as they come; False, with nothing done, where a table must be looked at by
    itself: it has more to it than its columns, or is not there."""
    tables = state.tables
    to, positions, labels = destinations[0], rows.positions, rows.labels
    if to not in tables.targets or not tables.is_readable(tables.shapes[to]):
        return False
    if _candidates(state, to, rows) or any(map(tables.lacking_metadata, destinations)):
        return False
    table, bad = convert_columns(rows.known, len(positions), tables.shapes[to], state.metadata(positions, to))
    if bad is not None:
        state.judge_alone(positions[bad].tolist())
        positions, labels = positions[~bad], labels[~bad]
    state.rows.add_alike(positions, AlikeRows(tuple(each.table for each in destinations), labels, table))
    return True


@dataclass(frozen=True)
class _Rows:
    """Parsed rows of some tables, those of one table together: `labels` numbers the tables in order. `extra` says where
    there is more than was asked for; `respelled` are fields of `extra` that are other spellings of known ones."""

    positions: Ints
    labels: Numbers
    known: dict[str, pa.Array]
    extra: dict[str, pa.Array]
    respelled: set[str]

    def slice(self, first: int, end: int, number: int) -> _Rows:
        """The rows [first, end) of tables of which the first has this number, and is 0 from here on."""
        return _Rows(
            self.positions[first:end],
            self.labels[first:end] - number,
            {name: column.slice(first, end - first) for name, column in self.known.items()},
            {name: column.slice(first, end - first) for name, column in self.extra.items()},
            self.respelled,
        )


def _alike(state: BlockState, destinations: list[Destination]) -> list[list[Destination]]:
    """Tables that one conversion serves: all of one shape. A thousand tables are one group, as a rule."""
    tables = state.tables
    groups: dict[object, list[Destination]] = {}
    for to in destinations:
        groups.setdefault((id(tables.shapes[to]), to.in_history) if to in tables.targets else to, []).append(to)
    return list(groups.values())


def _known(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """A parsed column as one array, without what was inferred beyond its type (which is never copied either)."""
    whole = column.type == kind
    chunks = [chunk if whole or is_encoded(chunk.type) else project(chunk, kind) for chunk in column.chunks]
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)


def _beyond(table: pa.Table, schema: pa.Schema) -> dict[str, pa.Array]:
    """Columns that hold more than the schema asked for, as null or not null only: whole inferred columns, and known
    ones with inferred children. What is in them is looked at record by record, or by another parse."""
    parsed = plain_schema(table.schema)
    if parsed.equals(schema):
        return {}
    return {
        field.name: one_array(table.column(field.name).is_valid())
        for field in parsed
        if field.name not in schema.names or schema.field(field.name).type != field.type
    }


def _respelled(parsed: pa.DataType, known: pa.DataType, insensitive: bool) -> bool:
    """Whether inferred children are other spellings of known ones, or of each other, at any depth of known structs."""
    if parsed == known or not insensitive:
        return False
    if pa.types.is_struct(parsed) and pa.types.is_struct(known):
        children = {child.name: child.type for child in known}
        folded = {name.lower() for name in children}
        if len({child.name.lower() for child in parsed}) < parsed.num_fields:
            return True
        return any(
            _respelled(child.type, children[child.name], insensitive)
            if child.name in children
            else child.name.lower() in folded
            for child in parsed
        )
    if pa.types.is_list(parsed) and pa.types.is_list(known):
        return _respelled(parsed.value_type, known.value_type, insensitive)
    return False


def _convert_alike(state: BlockState, destinations: list[Destination], rows: _Rows) -> None:
    """Give tables that are alike their rows; a single one may also be missing, or need a change."""
    to, positions = destinations[0], rows.positions
    if not len(positions):
        return
    if to not in state.tables.targets:
        _need_table(state, to, positions)
        return
    shape = state.tables.shapes[to]
    state.needs.add_metadata(to, int(positions[0]))
    if not state.tables.is_readable(shape):
        state.judge_alone(positions.tolist())
        return
    alone = _unknown_fields(state, to, rows)
    table, bad = convert_columns(rows.known, len(positions), shape, state.metadata(positions, to))
    labels = rows.labels
    if bad is not None:
        state.judge_alone(positions[bad].tolist())
        positions, labels = positions[~bad], labels[~bad]
        alone = None if alone is None else alone[~bad]
    if alone is not None and alone.any():
        state.judge_alone(positions[alone].tolist())
        positions, labels, table = positions[~alone], labels[~alone], table.filter(pa.array(~alone))
    bounds = np.searchsorted(labels, np.arange(len(destinations) + 1)).tolist()
    for to, first, end in zip(destinations, bounds, bounds[1:], strict=False):
        state.rows.add(to, positions[first:end], table if len(destinations) == 1 else table.slice(first, end - first))


def _need_table(state: BlockState, to: Destination, positions: Ints) -> None:
    if state.tables.rules(to).missing_table().act is Act.CHANGE:
        state.needs.add_shown(to, positions.tolist())
    else:
        # Errors, or dropped; with all_match the records may have other tables: alone they are counted right.
        state.judge_alone(positions.tolist())


def _has_refused_names(state: BlockState, to: Destination, positions: Ints) -> bool:
    """Whether one of the records asks for a column of a name that the policy refuses."""
    tables = state.tables
    if tables.rules(to).unusable_name().act is not Act.REFUSE:
        return False
    shown = observe_records([state.values[at] or b"" for at in positions.tolist()])
    return bool(tables.shapes[to].lacking(tables.own_fields(shown, to), tables.policy(to)).refused)


def _candidates(state: BlockState, to: Destination, rows: _Rows) -> dict[str, pa.Array]:
    """Fields for which a table may have no column, and where they have a value."""
    shape = state.tables.shapes[to]
    lacking = shape.without_column(rows.known)
    beside = {
        name: rows.known[name].is_valid() for name in lacking if rows.known[name].null_count < len(rows.positions)
    }
    return {n: c for n, c in state.tables.own_fields(beside | rows.extra, to).items() if c.true_count}


def _unknown_fields(state: BlockState, to: Destination, rows: _Rows) -> Mask | None:
    """Report fields the table has no column for, as its policy says; the mask is of rows to judge alone."""
    tables = state.tables
    shape, positions = tables.shapes[to], rows.positions
    candidates = _candidates(state, to, rows)
    if not candidates:
        return None
    policy = tables.policy(to)
    alone = np.zeros(len(positions), dtype=bool)
    spelled = Counter(shape.root.fold(column) for column in candidates)
    # A field spelled otherwise than its column was not parsed for it; two spellings of one unknown field may be in one
    # record.
    for column, present in candidates.items():
        twice = spelled[shape.root.fold(column)] > 1
        if twice or column in rows.respelled or (shape.has_column(column) and column not in rows.known):
            alone |= present.to_numpy(zero_copy_only=False)
    act = tables.rules(to).missing_column().act
    if act is Act.LEAVE_OUT:
        return alone
    unknown = np.zeros(len(positions), dtype=bool)
    for column, present in candidates.items():
        if not never_admitted(column, policy):
            unknown |= present.to_numpy(zero_copy_only=False)
    if not unknown.any():
        return alone
    if act is Act.CHANGE and not _has_refused_names(state, to, positions[unknown]):
        state.needs.add_shown(to, positions[unknown].tolist())
        return alone
    alone |= unknown
    return alone
