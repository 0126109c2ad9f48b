"""Every record to the names of its tables, by the plan's rules.

In: parsed columns of many records, or one record's JSON values, and the topic. Out: full names of tables. A rule's
condition and a name's `{field}` are evaluated once per distinct value, by the same functions for both forms, so that
they cannot differ. A rendered name is confined: its values hold letters, digits, `_` and `-` only, and the whole name
must match a glob of `allow_tables`. A part of the topic's name stands in the rule before any record is looked at, with `_`
for characters that no name has. Values are lower-cased where the tables' default case policy is insensitive.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from framework.config.names.patterns import captured, compiled, groups
from framework.config.names.table_names import placed
from framework.config.spec import RouteCondition, RouteMode, RouteRule
from framework.plan.model import Route
from framework.record.arrays import Ints, Mask, Numbers
from framework.record.destination import Destination, rows_of
from framework.record.failure import RecordFailure, shown
from framework.record.routing.conditions import FieldColumns, Scalar, is_there, matches, text_of, value_at
from framework.record.routing.refusal import not_now, of_another_pipeline
from framework.record.routing.upsert import RoutedRows, upsert_columns, widened
from framework.record.strict_json import JsonValue
from framework.record.upsert.lacking import LackingRows
from framework.record.upsert.tables import UpsertTables

_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]", re.ASCII)
_NAME_VALUE = re.compile(r"[A-Za-z0-9_-]{1,128}", re.ASCII)


def routing_fields(route: Route) -> frozenset[str]:
    """The dotted paths that rules look at."""
    paths = {part.field for rule in route.rules if rule.when for part in rule.when.parts if part.field}
    for rule in route.rules:
        own = _topic_parts(rule)
        paths.update(path for path in _PLACEHOLDER.findall(rule.table) if path not in own)
    return frozenset(paths)


def _topic_parts(rule: RouteRule) -> frozenset[str]:
    """What stands for parts of the topic in the rule's name."""
    when = rule.when
    if when is None or when.topic is None or "{topic." not in rule.table:
        return frozenset()
    return frozenset(f"topic.{name}" for name in groups(when.topic))


@dataclass(frozen=True)
class _RuleOfTopic(RouteRule):
    """A rule in whose name parts of the topic stand: it is confined like one that records take part in."""


def of_topic(route: Route, topic: str, lower: bool) -> Route:
    """The route with the parts of this topic in the names of its rules. A rule of which a part is not in the topic takes
    no record."""
    return _of_topic(route, topic, lower) if any("{topic." in rule.table for rule in route.rules) else route


@lru_cache(maxsize=4096)
def _of_topic(route: Route, topic: str, lower: bool) -> Route:
    rules: list[RouteRule] = []
    for rule in route.rules:
        parts = _topic_parts(rule)
        if not parts or rule.when is None or rule.when.topic is None:
            rules.append(rule)
            continue
        found = captured(rule.when.topic, topic)
        texts = {name: _NO_NAME.sub("_", value) for name, value in (found or {}).items() if value}
        values = {f"topic.{name}": text.lower() if lower else text for name, text in texts.items()}
        asked = parts & set(_PLACEHOLDER.findall(rule.table))
        if asked <= set(values):
            name = rule.table
            for part in asked:
                name = name.replace(f"{{{part}}}", values[part])
            rules.append(_RuleOfTopic(name, rule.when))
    return replace(route, rules=tuple(rules))


# ---- one value --------------------------------------------------------------------------------------------------


def render(rule: RouteRule, values: tuple[Scalar, ...], route: Route, lower: bool) -> str | None:
    """The table's full name for the values of its placeholders, in order; None when one is missing. Raises
    RecordFailure."""
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
    if (texts or isinstance(rule, _RuleOfTopic)) and not any(
        fnmatchcase(fold_case(name), fold_case(glob)) for glob in route.allow_tables
    ):
        raise RecordFailure(
            "route",
            "FLOE-D203",
            f"the table {name!r} is outside routes.allow_tables",
            expected=", ".join(route.allow_tables) or "no table",
            actual=name,
        )
    name = placed(name, route.catalogs, fold_case)
    if route.not_for_records is not None and fold_case(name) == fold_case(route.not_for_records):
        raise RecordFailure(
            "route",
            "FLOE-D203",
            f"the table {name!r} holds dead letters and no records",
            expected="a table of records",
            actual=name,
        )
    for owned, reason in route.owned_by_others:
        if name == owned:
            raise of_another_pipeline(name, reason)
    for refused, reason in route.refused_tables:
        if name == refused:
            raise not_now(name, reason)
    return name


# ---- one record -------------------------------------------------------------------------------------------------


def asked_for(destinations: list[Destination], route: Route) -> list[Destination]:
    """Of where a record goes the tables that are asked for: all, unless one alone is replayed."""
    return [to for to in destinations if to.table in route.only_tables] if route.only_tables else destinations


def route_record(
    record: dict[str, JsonValue],
    topic: str,
    route: Route,
    insensitive: bool,
    keyed: UpsertTables | None = None,
) -> list[Destination]:
    """The tables of one record, none when no rule matches. Raises RecordFailure, also for a field of `keyed` that
    cannot be determined."""
    route = of_topic(route, topic, insensitive)
    paths = routing_fields(route) if keyed is None else routing_fields(route) | keyed.fields
    fields = {path: value_at(record, path, insensitive) for path in sorted(paths)}
    tables: list[Destination] = []
    for rule in route.rules:
        if rule.when is not None and not _meets(rule.when, record, fields, topic, insensitive):
            continue
        values = tuple(fields[path] for path in _PLACEHOLDER.findall(rule.table))
        name = render(rule, values, route, insensitive)
        if name is None:
            continue
        to = rows_of(name)
        if route.mode is RouteMode.FIRST_MATCH:
            return [to]
        if to not in tables:
            tables.append(to)
    return tables


def _meets(
    when: RouteCondition, record: dict[str, JsonValue], fields: Mapping[str, Scalar], topic: str, insensitive: bool
) -> bool:
    """Whether one record meets a condition; `fields` are the values that rules look at, by path."""
    if when.topic is not None and not compiled(when.topic).is_within(topic):
        return False
    if when.field is not None and when.exists is not None:
        if is_there(record, when.field, insensitive) is not when.exists:
            return False
    elif when.field is not None and not matches(when, fields[when.field]):
        return False
    if when.negated is not None and _meets(when.negated, record, fields, topic, insensitive):
        return False
    return all(_meets(each, record, fields, topic, insensitive) for each in when.all_of)


# ---- many records -----------------------------------------------------------------------------------------------


def route_columns(
    table: pa.Table,
    topic: str,
    route: Route,
    insensitive: bool,
    keyed: UpsertTables | None = None,
    tombstones: Mask | None = None,
    lacking: LackingRows | None = None,
) -> RoutedRows:
    """The tables of many records at once; `tombstones` are rows of records without a value, given with `keyed`, `lacking`
    those that lack values."""
    columns = FieldColumns(table, insensitive)
    route = of_topic(route, topic, insensitive)
    if keyed is None:
        return _routed(columns, topic, route, insensitive)
    for path in keyed.fields:
        columns.coded(path)
    routed = _routed(columns, topic, widened(route, keyed), insensitive)
    tombstones = np.zeros(len(columns), bool) if tombstones is None else tombstones
    return upsert_columns(routed, columns, keyed, tombstones, route, lacking)


def _routed(columns: FieldColumns, topic: str, route: Route, lower: bool) -> RoutedRows:
    rows = len(columns)
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
            return RoutedRows(selected, labels, [*map(rows_of, names)], none, none, all_in_order=True)
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
    destinations = [*map(rows_of, names)]
    return RoutedRows(all_rows, all_labels, destinations, np.flatnonzero(~matched), np.flatnonzero(refused), elsewhere)


def _candidates(rule: RouteRule, columns: FieldColumns, topic: str, pending: Mask) -> Mask:
    return pending.copy() if rule.when is None else _chosen(rule.when, columns, topic, pending)


def _chosen(when: RouteCondition, columns: FieldColumns, topic: str, pending: Mask) -> Mask:
    """Which of the pending rows meet a condition."""
    if when.topic is not None and not compiled(when.topic).is_within(topic):
        return np.zeros_like(pending)
    chosen: Mask = pending.copy()
    if when.field is not None and when.exists is not None:
        chosen &= columns.are_there(when.field) == when.exists
    elif when.field is not None:
        chosen &= columns.meets(when)
    if when.negated is not None:
        chosen &= ~_chosen(when.negated, columns, topic, pending)
    for each in when.all_of:
        chosen &= _chosen(each, columns, topic, pending)
    return chosen


def _labels(
    rule: RouteRule,
    columns: FieldColumns,
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
    """The distinct codes in order, and where each row's is; small codes are counted, which is quicker than sorting
    them."""
    end = int(codes.max(initial=-1)) + 1
    if end > len(codes):
        distinct, inverse = np.unique(codes.astype(np.int64), return_inverse=True)
        return distinct, _Places(np.arange(len(distinct)), inverse)
    present = np.zeros(end, dtype=bool)
    present[codes] = True
    return np.flatnonzero(present), _Places(np.cumsum(present, dtype=np.int64) - 1, codes)


_REFUSED = object()
_MOST_NAMES = 10_000


class _RenderedNames:
    """The names that a rule gives for values it has met; kept from block to block, since they are the same ones
    mostly."""

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


@lru_cache(maxsize=1024)
def _rendered(rule: RouteRule, route: Route, lower: bool) -> _RenderedNames:
    return _RenderedNames(rule, route, lower)
