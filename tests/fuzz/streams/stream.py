"""A stream of records that hold changes of rows, by every way, beside what must become of them.

In: records, and for each of them the changes that an oracle says it is, or that it must be a dead letter. Out: a Report: by
each way the record gives these changes in this order, and nothing else. A record in an append table is rows, in an upsert
table rows, deletes, and rows that keep values of the old one.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from framework.config.spec import FormatSpec, RouteRule, TablePolicy
from framework.plan.model import Plan
from framework.record.model import BlockResult, TableTarget
from framework.record.rows.dictionary_text import plain_table
from testbed.record_samples import block, plan, target
from tests.fuzz.kinds import Shape
from tests.fuzz.oracle import May, may_be_refused, same
from tests.fuzz.report import Landed, Report, plain_values
from tests.fuzz.strict import Refused
from tests.fuzz.ways import METADATA, OFFSET, ROUTES, UNFORESEEN, WAYS, fixed_policy

INDEX = "_kafka_index"
TABLE = "ns.t"
ROW, UPSERT, DELETE = "row", "upsert", "delete"


@dataclass(frozen=True)
class Change:
    """What one document does. `values` are those of the row, of a delete those of the key; `kept` are the columns whose
    values are the old row's."""

    what: str
    values: dict[str, Any]
    kept: frozenset[str] = frozenset()


Wanted = list[Change] | Refused


@dataclass(frozen=True)
class Stream:
    """Records for tables of one shape. `key` are the key columns of an upsert table, () where rows are appended. `made` and
    `known` are a plan and tables that come from a pipeline file."""

    name: str
    shape: Shape
    sent: Sequence[bytes]
    wanted: Sequence[Wanted]
    form: FormatSpec = field(default_factory=FormatSpec)
    parsed: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    policy: TablePolicy | None = None
    documents: int = 0
    is_routed: bool = False
    made: Plan | None = None
    known: dict[str, TableTarget] | None = None

    @property
    def kinds(self) -> dict[str, str]:
        """The columns of Kafka's own fields."""
        return METADATA | ({INDEX: "int"} if self.form.explode else {})

    @property
    def table_policy(self) -> TablePolicy:
        return self.policy or fixed_policy(self.shape)

    def plan(self) -> Plan:
        if self.made is not None:
            return self.made
        rules, names = [RouteRule(TABLE)], [TABLE]
        if self.is_routed:
            rules, names = [RouteRule(f"{TABLE}_{{r}}")], [f"{TABLE}_{name}" for name in ROUTES]
        metadata = [name.removeprefix("_kafka_") for name in self.kinds]
        made = plan(rules, hints=self.shape.hints(), metadata=metadata, defaults=self.table_policy, allow=names)
        return replace(made, decode=replace(made.decode, format=self.form, parsed=self.parsed))

    def tables(self) -> dict[str, TableTarget]:
        if self.known is not None:
            return self.known
        schema = self.shape.schema(self.kinds)
        names = [f"{TABLE}_{name}" for name in ROUTES] if self.is_routed else [TABLE]
        return {name: target(name, schema=schema, table_policy=self.table_policy) for name in names}


def check_stream(stream: Stream, seed: int) -> Report:
    """What became of a stream by each way."""
    report = Report(documents=stream.documents or len(stream.sent), streams=[stream] if stream.key else [])
    made, tables = stream.plan(), stream.tables()
    first: tuple[str, list[Any]] | None = None
    for way, process in WAYS.items():
        try:
            result = process(block(stream.sent), made, tables)
            found = _found(result, stream)
        except Exception:
            report.uncaught += 1
            report.faults.append((f"uncaught {stream.name} {way}", seed, traceback.format_exc()))
            continue
        for at, (must, got) in enumerate(zip(stream.wanted, found, strict=True)):
            if isinstance(got, str):
                report.refused[way] += 1
                good = isinstance(must, Refused) or any(may_be_refused(each.values) for each in must)
            else:
                report.rows[way] += len(got)
                good = not isinstance(must, Refused) and _same_changes(must, got)
            agree = first is None or _agree(first[1][at], got)
            if not (good and agree):
                report.wrong += not good
                report.disagreements += not agree
                text = f"{stream.sent[at][:600]!r}\n  must be {must!s:.600}\n  is {got!s:.600}\n  {stream.shape} {stream.form}"
                what = f"{'disagreement' if good else 'wrong'} {stream.name} {way}"
                report.faults.append((what, seed, f"{text}\n  {stream.table_policy.write}"))
                break
        if first is None:
            first = way, found
            report.landed += [
                Landed(stream.name, name, tables[name].schema_json, plain_table(rows))
                for name, rows in result.rows.items()
            ]
    return report


def _same_changes(must: Sequence[Change], got: Sequence[Change]) -> bool:
    return len(must) == len(got) and all(
        (one.what, one.kept) == (other.what, other.kept) and same(one.values, other.values)
        for one, other in zip(must, got, strict=True)
    )


def _agree(one: Any, other: Any) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return bool(one == other)
    return _same_changes(one, other)


def _found(result: BlockResult, stream: Stream) -> list[Any]:
    """For each record its changes in order, or the code of its dead letter; exactly one of them."""
    count, is_exploded = len(stream.sent), stream.form.explode is not None
    assert not result.needs, result.needs
    changes: list[dict[int, Change]] = [{} for _ in range(count)]

    def add(
        what: str, rows: pa.Table, offsets: Any, indexes: Any, kept: Sequence[frozenset[str]] | None = None
    ) -> None:
        rows = plain_table(rows)
        rows.validate(full=True)
        names = [name for name in rows.column_names if name in stream.shape.columns]
        columns = {name: plain_values(rows.column(name), stream.shape.columns[name]) for name in names}
        for i, (offset, index) in enumerate(zip(offsets, indexes, strict=True)):
            assert index not in changes[offset], "an element is in two places"
            values = {name: columns[name][i] for name in names}
            changes[offset][index] = Change(what, values, kept[i] if kept is not None else frozenset())

    tables = [rows for _, rows in result.rows.items()]
    tables += [rows for alike in result.alike for _, _, rows in alike.split()]
    for rows in tables:
        offsets = plain_table(rows).column(OFFSET).to_pylist()
        add(ROW, rows, offsets, plain_table(rows).column(INDEX).to_pylist() if is_exploded else [0] * len(offsets))
    for keyed in result.keyed.values():
        for what, rows, offsets, indexes in (
            (UPSERT, keyed.upserts, keyed.upsert_offsets, keyed.upsert_indexes),
            (DELETE, keyed.deletes, keyed.delete_offsets, keyed.delete_indexes),
        ):
            add(
                what,
                rows,
                offsets.tolist(),
                np.zeros(len(offsets), int).tolist() if indexes is None else indexes.tolist(),
            )
        if (some := keyed.partial) is not None:
            names = {str(each.field_id): each.name for each in stream.shape.schema(stream.kinds).fields}
            kept = [frozenset(names[number] for number in text.split(",") if number) for text in some.kept.to_pylist()]
            places = [0] * len(some.rows) if some.indexes is None else some.indexes.tolist()
            add(UPSERT, some.rows, some.offsets.tolist(), places, kept)
    letters = {letter.offset: letter.code for letter in result.dead_letters}
    assert UNFORESEEN not in letters.values(), result.dead_letters
    assert len(letters) == len(result.dead_letters)
    found: list[Any] = []
    for offset, elements in enumerate(changes):
        assert not (elements and offset in letters), "a record is in two places"
        assert stream.form.envelope_paths or sorted(elements) == list(range(len(elements))), "an element is nowhere"
        found.append(letters.get(offset, [elements[index] for index in sorted(elements)]))
    written = sum(map(bool, changes))
    assert (result.written, result.dropped) == (written, count - written - len(letters))
    return found


def newest(stream: Stream) -> dict[Any, dict[str, Any]]:
    """By key the row that an upsert table must hold in the end: each change over the row that is there."""
    held: dict[Any, dict[str, Any]] = {}
    for wanted in stream.wanted:
        for change in [] if isinstance(wanted, Refused) else wanted:
            key = tuple(change.values[name] for name in stream.key)
            old = held.pop(key, dict.fromkeys(stream.shape.columns))
            if change.what == UPSERT:
                plain = {name: each.value if isinstance(each, May) else each for name, each in change.values.items()}
                held[key] = plain | {name: old[name] for name in change.kept}
    return held
