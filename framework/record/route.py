"""Every record to the names of its tables, by the plan's rules.

In: parsed columns of many records, or one record's JSON values, and the topic. Out: full names of tables. A rule's condition
and a name's `{field}` are evaluated once per distinct value, by the same functions for both forms, so that they cannot differ.
A rendered name is confined: its values hold letters, digits, `_` and `-` only, and the whole name must match a glob of
`allow_tables`. Values are lower-cased where the tables' default case policy is insensitive.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from framework.config.patterns import compiled
from framework.config.spec import Case, Condition, RouteMode, RouteRule
from framework.config.table_names import placed
from framework.plan.model import Plan, Route
from framework.record.arrays import Ints, Mask, Numbers
from framework.record.convert.nested import fold
from framework.record.failure import RecordFailure, shown
from framework.record.json.strict_parser import JsonValue, NumberText

_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
_NAME_VALUE = re.compile(r"[A-Za-z0-9_-]{1,128}", re.ASCII)
_EXACT_DOUBLE = 1 << 53

Scalar = bool | int | float | Decimal | str | None


@dataclass(frozen=True)
class Routed:
    """Pairs of (row, table): `rows[i]` goes to `names[labels[i]]`. `unrouted` rows match no rule; `refused` rows are named
    a table they may not have, and are judged one by one; `elsewhere` counts rows for tables that are not asked for. With
    `all_in_order` the pairs are every row once, in order."""

    rows: Ints
    labels: Numbers
    names: list[str]
    unrouted: Ints
    refused: Ints
    elsewhere: int = 0
    all_in_order: bool = False


def routing_fields(route: Route) -> frozenset[str]:
    """The dotted paths that rules look at."""
    paths = {rule.when.field for rule in route.rules if rule.when and rule.when.field}
    for rule in route.rules:
        paths.update(_PLACEHOLDER.findall(rule.table))
    return frozenset(paths)


def lower_values(plan: Plan) -> bool:
    return plan.write.tables.defaults.case is Case.INSENSITIVE


# ---- one value --------------------------------------------------------------------------------------------------


def text_of(value: Scalar) -> str | None:
    """A value as it may stand in a table's name or be matched: text, whole numbers, true and false."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(value)
    if isinstance(value, (float, Decimal)) and -_EXACT_DOUBLE < value < _EXACT_DOUBLE and value == int(value):
        return str(int(value))
    return None


def matches(condition: Condition, value: Scalar) -> bool:
    """Whether a field's value meets the condition; a value of another kind never equals (`5` is not `"5"`)."""
    if value is None:
        return False
    if condition.matches is not None:
        text = text_of(value)
        return text is not None and compiled(condition.matches).is_all_of(text)
    expected = condition.equals
    if isinstance(expected, bool) or isinstance(value, bool):
        return expected is value
    if isinstance(expected, str) or isinstance(value, str):
        return isinstance(expected, str) and isinstance(value, str) and expected == value
    return expected is not None and value == expected


def render(rule: RouteRule, values: tuple[Scalar, ...], route: Route, lower: bool) -> str | None:
    """The table's full name for the values of its placeholders, in order; None when one is missing. Raises RecordFailure."""
    parts = iter(values)
    texts = []
    for path in _PLACEHOLDER.findall(rule.table):
        value = next(parts)
        if value is None:
            return None
        text = text_of(value)
        if text is None or _NAME_VALUE.fullmatch(text) is None:
            raise RecordFailure(
                "route",
                "FLOE-D202",
                f"{path}: {shown(value)!r} cannot be part of a table name",
                field_path=path,
                expected="letters, digits, _ and -",
                actual=shown(value),
            )
        texts.append(text.lower() if lower else text)
    remaining = iter(texts)
    name = _PLACEHOLDER.sub(lambda _: next(remaining), rule.table)
    fold_case = str.lower if lower else str
    if texts and not any(fnmatchcase(fold_case(name), fold_case(glob)) for glob in route.allow_tables):
        raise RecordFailure(
            "route",
            "FLOE-D203",
            f"the table {name!r} is outside routes.allow_tables",
            expected=", ".join(route.allow_tables) or "no table",
            actual=name,
        )
    name = placed(name, route.catalogs, fold_case)
    for refused, reason in route.refused_tables:
        if name == refused:
            message = f"the table {name!r} cannot be written now: {reason}"
            raise RecordFailure("route", "FLOE-D205", message, expected="a table", actual=name)
    return name


# ---- one record -------------------------------------------------------------------------------------------------


def asked_for(names: list[str], route: Route) -> list[str]:
    """Of the tables of a record those that are asked for: all, unless one alone is replayed."""
    return [name for name in names if name in route.only_tables] if route.only_tables else names


def route_record(record: dict[str, JsonValue], topic: str, route: Route, lower: bool, insensitive: bool) -> list[str]:
    """The tables of one record, none when no rule matches. Raises RecordFailure."""
    fields = {path: _value_at(record, path, insensitive) for path in sorted(routing_fields(route))}
    tables: list[str] = []
    for rule in route.rules:
        when = rule.when
        if when is not None and when.topic is not None and not compiled(when.topic).is_within(topic):
            continue
        if when is not None and when.field is not None and not matches(when, fields[when.field]):
            continue
        values = tuple(fields[path] for path in _PLACEHOLDER.findall(rule.table))
        name = render(rule, values, route, lower)
        if name is None:
            continue
        if route.mode is RouteMode.FIRST_MATCH:
            return [name]
        if name not in tables:
            tables.append(name)
    return tables


def _value_at(record: JsonValue, path: str, insensitive: bool) -> Scalar:
    found: list[JsonValue] = [record]
    for step in path.split("."):
        wanted = fold(step, insensitive)
        found = [
            value
            for outer in found
            if isinstance(outer, dict)
            for name, value in outer.items()
            if value is not None and fold(name, insensitive) == wanted
        ]
    scalars = [value for value in found if isinstance(value, (bool, str))]
    if len(scalars) > 1:
        raise RecordFailure(
            "route", "FLOE-D306", f"{path}: the record has two keys that differ only in case", field_path=path
        )
    if not scalars:
        return None
    value = scalars[0]
    if isinstance(value, NumberText):
        return int(value) if value.is_integer_literal and len(value) < 1000 else float(value)
    return value


# ---- many records -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Coded:
    """A column as codes into its distinct values; code -1 is null."""

    codes: Numbers
    values: list[Scalar]


class _Columns:
    """Looks fields up by dotted path, once each; `ambiguous` marks rows that have two spellings of one."""

    def __init__(self, table: pa.Table, insensitive: bool) -> None:
        self._table = table
        self._insensitive = insensitive
        self._coded: dict[str, _Coded] = {}
        self.ambiguous: Mask = np.zeros(table.num_rows, dtype=bool)

    def __len__(self) -> int:
        return len(self.ambiguous)

    def coded(self, path: str) -> _Coded:
        if path not in self._coded:
            self._coded[path] = self._encode(path)
        return self._coded[path]

    def _encode(self, path: str) -> _Coded:
        rows = self._table.num_rows
        steps = path.split(".")
        found = [
            self._table.column(i)
            for i, name in enumerate(self._table.column_names)
            if fold(name, self._insensitive) == fold(steps[0], self._insensitive)
        ]
        for step in steps[1:]:
            found = [
                pc.struct_field(column, [i])
                for column in found
                if pa.types.is_struct(column.type)
                for i, child in enumerate(column.type)
                if fold(child.name, self._insensitive) == fold(step, self._insensitive)
            ]
        codes: Numbers | None = None
        values: list[Scalar] = []
        for column in found:
            if pa.types.is_nested(column.type) or pa.types.is_null(column.type):
                continue
            if isinstance(column, pa.ChunkedArray):
                column = column.combine_chunks()
            encoded = column.dictionary_encode()
            own = encoded.indices
            own = (own.fill_null(-1) if own.null_count else own).to_numpy(zero_copy_only=False)
            if codes is None:
                codes, values = own, encoded.dictionary.to_pylist()
                continue
            self.ambiguous |= (codes >= 0) & (own >= 0)
            codes = np.where((codes < 0) & (own >= 0), own + len(values), codes)
            values += encoded.dictionary.to_pylist()
        return _Coded(np.full(rows, -1, np.int32) if codes is None else codes, values)


def route_columns(table: pa.Table, topic: str, route: Route, lower: bool, insensitive: bool) -> Routed:
    """The tables of many records at once."""
    rows = table.num_rows
    columns = _Columns(table, insensitive)
    first_match = route.mode is RouteMode.FIRST_MATCH
    for path in routing_fields(route):
        columns.coded(path)
    clear = ~columns.ambiguous
    pending = clear.copy()
    matched = np.zeros(rows, dtype=bool)
    refused = columns.ambiguous.copy()
    names: dict[str, int] = {}
    taken: list[tuple[Ints, Numbers]] = []
    for rule in route.rules:
        candidates = _candidates(rule, columns, topic, pending if first_match else clear)
        selected = np.flatnonzero(candidates)
        if not len(selected):
            continue
        labels, outside = _labels(rule, columns, selected, route, lower, names)
        named = labels >= 0
        if first_match and not route.only_tables and len(selected) == rows and named.all():
            # Nearly every block: each row has its table by one rule, and no other one is asked.
            none = np.empty(0, np.int64)
            return Routed(selected, labels, list(names), none, none, all_in_order=True)
        refused[selected[outside]] = True
        taken.append((selected[named], labels[named]))
        matched[selected[named]] = True
        pending[selected[named | outside]] = False
    matched |= refused
    all_rows = np.concatenate([r for r, _ in taken]) if taken else np.empty(0, np.int64)
    all_labels: Numbers = np.concatenate([label for _, label in taken]) if taken else np.empty(0, np.int64)
    if refused.any():
        keep = ~refused[all_rows]
        all_rows, all_labels = all_rows[keep], all_labels[keep]
    if not first_match and len(taken) > 1:
        # Two rules may name one table for a record: it lands there once.
        pairs = np.unique(all_rows * max(len(names), 1) + all_labels)
        all_rows, all_labels = pairs // max(len(names), 1), pairs % max(len(names), 1)
    elsewhere = 0
    if route.only_tables:
        # Names that nothing of the block goes to have no label any more, as everywhere.
        wanted = [label for name, label in names.items() if name in route.only_tables]
        keep = np.isin(all_labels, wanted)
        elsewhere = len(np.setdiff1d(all_rows, all_rows[keep]))
        all_rows = all_rows[keep]
        present, all_labels = np.unique(all_labels[keep], return_inverse=True)
        by_label = list(names)
        names = {by_label[label]: number for number, label in enumerate(present)}
    return Routed(all_rows, all_labels, list(names), np.flatnonzero(~matched), np.flatnonzero(refused), elsewhere)


def _candidates(rule: RouteRule, columns: _Columns, topic: str, pending: Mask) -> Mask:
    when = rule.when
    if when is None:
        return pending.copy()
    if when.topic is not None and not compiled(when.topic).is_within(topic):
        return np.zeros_like(pending)
    if when.field is None:
        return pending.copy()
    coded = columns.coded(when.field)
    meets = np.array([*(matches(when, value) for value in coded.values), False], dtype=bool)
    chosen: Mask = pending & meets[coded.codes]
    return chosen


def _labels(
    rule: RouteRule,
    columns: _Columns,
    selected: Ints,
    route: Route,
    lower: bool,
    names: dict[str, int],
) -> tuple[Numbers, Mask]:
    """For each selected row the number of its table's name (-1: no name), and whether its name is refused."""
    paths = _PLACEHOLDER.findall(rule.table)
    coded = [columns.coded(path) for path in paths]
    every = len(selected) == len(columns)
    combined: Numbers | None = None
    for column in coded:
        # Null is 0 from here on. Numbers of one column stay as narrow as they came, since there may be many rows.
        codes = (column.codes if every else column.codes[selected]) + 1
        combined = codes if combined is None else combined.astype(np.int64) * (len(column.values) + 1) + codes
    if combined is None:
        combined = np.zeros(len(selected), np.int8)
    distinct, places = _distinct(combined)
    labels = np.full(len(distinct), -1, dtype=np.int64)
    outside = np.zeros(len(distinct), dtype=bool)
    rendered = _rendered(rule, route, lower)
    for i, code in enumerate(distinct.tolist()):
        values: list[Scalar] = []
        for column in reversed(coded):
            code, own = divmod(code, len(column.values) + 1)
            values.append(column.values[own - 1] if own else None)
        name = rendered.name(tuple(reversed(values)))
        if isinstance(name, str):
            labels[i] = names.setdefault(name, len(names))
        else:
            outside[i] = name is _REFUSED
    # Of one byte or two, as a rule: what is sorted by labels is sorted by their digits then.
    of_code = labels.astype(np.min_scalar_type(-len(names) - 1))[places.of_code]
    refused = np.zeros(len(selected), bool) if not outside.any() else outside[places.of_code][places.codes]
    return np.take(of_code, places.codes), refused


class _Places(NamedTuple):
    """Row `i` has the distinct value at place `of_code[codes[i]]`."""

    of_code: Ints
    codes: Numbers


def _distinct(codes: Numbers) -> tuple[Ints, _Places]:
    """The distinct codes in order, and where each row's is; small codes are counted, which is quicker than sorting them."""
    end = int(codes.max(initial=-1)) + 1
    if end > len(codes):
        distinct, inverse = np.unique(codes.astype(np.int64), return_inverse=True)
        return distinct, _Places(np.arange(len(distinct)), inverse)
    present = np.zeros(end, dtype=bool)
    present[codes] = True
    return np.flatnonzero(present), _Places(np.cumsum(present, dtype=np.int64) - 1, codes)


_REFUSED = object()
_MOST_NAMES = 10_000


class _Rendered:
    """The names that a rule gives for values it has met; kept from block to block, since they are the same ones mostly."""

    def __init__(self, rule: RouteRule, route: Route, lower: bool) -> None:
        self._of = rule, route, lower
        self._names: dict[tuple[Scalar, ...], object] = {}

    def name(self, values: tuple[Scalar, ...]) -> object:
        """The table's full name, None when a value is missing, or `_REFUSED`."""
        # 1, 1.0 and True are equal keys: only text is kept.
        if not all(isinstance(value, str) for value in values):
            return self._render(values)
        found = self._names.get(values, self)
        if found is self:
            if len(self._names) >= _MOST_NAMES:
                self._names.clear()
            found = self._names[values] = self._render(values)
        return found

    def _render(self, values: tuple[Scalar, ...]) -> object:
        rule, route, lower = self._of
        try:
            return render(rule, values, route, lower)
        except RecordFailure:
            return _REFUSED


@lru_cache(maxsize=64)
def _rendered(rule: RouteRule, route: Route, lower: bool) -> _Rendered:
    return _Rendered(rule, route, lower)
