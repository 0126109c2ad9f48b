"""Many kinds of upsert tables at once, drawn from a seed: their part of a pipeline file, their records, and a plain fold.

In: a seed. Out: `Kind`s, each a table of its own with keys of some types, partitions, an order, words that delete, a
layout of deletes and perhaps a history; records that one topic carries for all of them; and the rows each table must
have. The fold is written from the documentation, and shares no code with floe.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

Document = dict[str, Any]
Position = tuple[int, int]
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
PARTITIONS = 3
FEW = 12  # keys of a kind, so that each changes often
REMEMBERS = "field"


def _micros(number: int) -> datetime:
    return EPOCH + timedelta(microseconds=number)


@dataclass(frozen=True)
class KeyType:
    """`value(i)` is the i-th key as JSON has it, `cell(i)` as a reader of the table sees it."""

    column: str
    type: str
    value: Callable[[int], Any]
    cell: Callable[[int], Any]
    partitions: tuple[str, ...]
    wrong: Any  # a value that is none of the type


_WORDS = ["", " ", "é", "e\u0301", "Z", "z", "0", "00", "\U0001f600", "a/b", "a=b%2F", "ключ"]
_TIMES = [0, 1, -1, 999_999, -62_135_596_800_000_000, 253_402_300_799_999_999, 1_704_369_600_123_456, -86_400_000_001]
_TIMES += [86_400_000_000 * i + i for i in range(4)]
_LONGS = [0, -1, 1, 2**63 - 1, -(2**63), 2**53 + 1, 10, 11, 12, 100, 2**31, -(2**31)]
_DECIMALS = ["0", "0.001", "-0.001", "1", "1.1", "10", "999999999.999", "-999999999.999", "0.010", "5", "7.5", "8"]
_LEAST = _LONGS.index(-(2**63))
_LOWEST = _DECIMALS.index("-999999999.999")
_UUIDS = [UUID(int=i * 2**120 + i) for i in range(FEW)]


def _decimal(i: int) -> Decimal:
    return Decimal(_DECIMALS[i]).quantize(Decimal("0.001"))


KEY_TYPES = (
    KeyType("k_long", "long", lambda i: _LONGS[i], lambda i: _LONGS[i],
            ("{c}", "bucket(4, {c})", "truncate(10, {c})"), "eleven"),
    KeyType("k_int", "int", lambda i: i - 3, lambda i: i - 3, ("{c}", "bucket(3, {c})", "truncate(4, {c})"), 2**31),
    KeyType("k_text", "string", lambda i: _WORDS[i], lambda i: _WORDS[i],
            ("{c}", "bucket(5, {c})", "truncate(1, {c})"), None),
    KeyType("k_dec", "decimal(12, 3)", _decimal, _decimal, ("{c}", "bucket(4, {c})", "truncate(50, {c})"), "0.0001"),
    KeyType("k_uuid", "uuid", lambda i: str(_UUIDS[i]).upper() if i % 2 else str(_UUIDS[i]), lambda i: _UUIDS[i],
            ("bucket(4, {c})",), "no-uuid"),
    KeyType("k_day", "date", lambda i: (date(1969, 12, 28) + timedelta(i)).isoformat(),
            lambda i: date(1969, 12, 28) + timedelta(i), ("{c}", "month({c})", "year({c})", "day({c})"), "2024-13-01"),
    KeyType("k_at", "timestamptz", lambda i: _micros(_TIMES[i]).isoformat(), lambda i: _micros(_TIMES[i]),
            ("day({c})", "hour({c})", "month({c})", "bucket(4, {c})"), "yesterday"),
    KeyType("k_local", "timestamp", lambda i: _micros(_TIMES[i]).replace(tzinfo=None).isoformat(),
            lambda i: _micros(_TIMES[i]).replace(tzinfo=None), ("{c}", "day({c})", "year({c})"), "2024-01-01T00:00:00Z"),
    KeyType("k_clock", "time", lambda i: time(i, i, i, i).isoformat(), lambda i: time(i, i, i, i),
            ("bucket(4, {c})",), "25:00:00"),
    KeyType("k_flag", "boolean", lambda i: bool(i % 2), lambda i: bool(i % 2), ("{c}",), "maybe"),
    KeyType("k_bytes", "binary", lambda i: ["", "AA==", "AAA=", "/w==", "AAE=", "AQ=="][i % 6],
            lambda i: [b"", b"\0", b"\0\0", b"\xff", b"\0\1", b"\1"][i % 6], ("{c}", "bucket(4, {c})"), "%"),
    KeyType("k_fixed", "fixed[2]", lambda i: ["AAA=", "AAE=", "//8="][i % 3], lambda i: [b"\0\0", b"\0\1", b"\xff\xff"][i % 3],
            ("bucket(4, {c})",), "AA=="),
)  # fmt: skip
ORDERS = {
    "ver": ("long", lambda n: n - 5_000, lambda n: n - 5_000),
    "ver_at": ("timestamptz", lambda n: _micros(n * 7).isoformat(), lambda n: _micros(n * 7)),
    "ver_dec": ("decimal(20, 2)", lambda n: Decimal(n) / 4, lambda n: (Decimal(n) / 4).quantize(Decimal("0.01"))),
    "ver_text": ("string", lambda n: f"é{n:06}", lambda n: f"é{n:06}"),
    "ver_day": ("date", lambda n: (date(1, 1, 1) + timedelta(n)).isoformat(), lambda n: date(1, 1, 1) + timedelta(n)),
}  # fmt: skip
_OTHER_PARTITIONS = ("region", "truncate(1, region)", "bucket(3, region)", "day(at)", "month(at)", "hour(at)",
                     "truncate(10, v)", "bucket(2, v)", "amount", "bucket(4, amount)", "flag", "year(born)", "born",
                     "truncate(5, amount)")  # fmt: skip
SCHEMA = {
    **{key.column: key.type for key in KEY_TYPES},
    **{f"key_{key.column}": key.type for key in KEY_TYPES},
    **{name: type_ for name, (type_, _, _) in ORDERS.items()},
    "op": "string", "dead": "boolean", "code": "long", "region": "string", "v": "long", "at": "timestamptz",
    "amount": "decimal(9, 2)", "flag": "boolean", "born": "date", "tags": "list<string>",
    "more": "struct<a: long, b: map<string, double>>", "n": "long",
}  # fmt: skip
CELLS = ("region", "v", "at", "amount", "flag", "born", "tags", "more")
UNAVAILABLE = {"region": "__debezium_unavailable_value", "tags": ["__debezium_unavailable_value"]}
VALUES = ("region", "v", "at", "amount", "flag", "born", "tags", "more", "n")


@dataclass(frozen=True)
class Kind:
    """One table. `order` is a column or empty; `deletes_by` a field and its value, `tombstone` or nothing."""

    name: str
    keys: tuple[KeyType, ...]
    order: str
    deletes_by: tuple[str, Any] | str | None
    override: Document

    @property
    def table(self) -> str:
        return f"shop.{self.name}"

    @property
    def history(self) -> str | None:
        history: str | None = self.override["write"].get("history")
        return history

    @property
    def prefix(self) -> str:
        return "key_" if self.deletes_by == "tombstone" else ""

    def columns(self) -> list[str]:
        return [self.prefix + key.column for key in self.keys]


def kinds(seed: int, count: int) -> list[Kind]:
    """Tables of every sort; the first ones go through the types of keys in turn, so that none is left out."""
    pick = random.Random(seed)
    found = []
    for number in range(count):
        first = KEY_TYPES[number % len(KEY_TYPES)]
        keys = tuple({key.column: key for key in (first, *pick.sample(KEY_TYPES, pick.choice((0, 0, 1, 2))))}.values())
        deletes_by: tuple[str, Any] | str | None = pick.choice(
            (("op", "d"), ("dead", True), ("code", 7), "tombstone", None, ("more.a", 5))
        )
        order = pick.choice(("", "", *ORDERS)) if deletes_by != "tombstone" else pick.choice(("", "_kafka_timestamp"))
        version = pick.choice(("2", "3"))
        write: Document = {"mode": "upsert"}
        prefix = "key_" if deletes_by == "tombstone" else ""
        write["key"] = [prefix + key.column for key in keys]
        if order:
            write["order"] = {REMEMBERS: order}
        if isinstance(deletes_by, tuple):
            write["delete_when"] = {"field": deletes_by[0], "equals": deletes_by[1]}
        elif deletes_by:
            write["delete_when"] = deletes_by
        write["deletes"] = pick.choice(("auto", "auto", "copy_on_write"))
        write["key_index"] = pick.choice(("auto", "always", "never"))
        if pick.random() < 0.4:
            write["history"] = f"shop.h_{number:02}"
        if not order and pick.random() < 0.5:
            write["updates"] = "partial"
        parts = [text.format(c=prefix + key.column) for key in keys for text in pick.sample(key.partitions, 1)]
        parts = [each for each in parts if pick.random() < 0.5]
        parts += pick.sample(_OTHER_PARTITIONS, pick.choice((0, 0, 1, 2)))
        create: Document = {"partition_by": _one_of_each_column(parts), "properties": {"format-version": version}}
        if pick.random() < 0.4:
            create["sort_by"] = pick.sample(("v desc nulls last", "region", "bucket(4, amount) asc"), 2)
        name = f"{'x' if 'history' in write else 'k'}_{number:02}"
        override = {
            "match": f"shop.{name}", "write": write, "create": create,
            "distribution": pick.choice(("none", "hash")),
        }  # fmt: skip
        found.append(Kind(name, keys, order, deletes_by, override))
    return found


def _one_of_each_column(parts: Iterable[str]) -> list[str]:
    """Iceberg allows no two partition fields of one column and like transforms; here each column is used once."""
    found: dict[str, str] = {}
    for part in parts:
        column = part.partition("(")[2].rstrip(")").split(", ")[-1] or part
        found.setdefault(column, part)
    return list(found.values())


def pipeline_text(topic: str, of: Iterable[Kind]) -> str:
    """The pipeline file's text behind `metadata`, as JSON, which is YAML."""
    found = list(of)
    histories = [
        {"match": kind.history, "create": {"properties": {"format-version": "2"}, "partition_by": []}}
        for kind in found[::2]
        if kind.history
    ]
    # A table with a history needs a rule of its own.
    rules = [
        {"when": {"field": "key_number", "equals": kind.name}, "table": kind.table} for kind in found if kind.history
    ]
    document = {
        "source": {
            "kafka": {"connection": "main", "topics": [topic]},
            "key": {"type": "json"},
            "schema": SCHEMA,
            "metadata_columns": ["timestamp", "partition", "offset"],
        },
        "routes": {
            "rules": [*rules, {"table": "shop.k_{key_number}"}], "allow_tables": ["shop.*"], "unrouted": "dead_letter",
        },
        "tables": {
            "defaults": {"commit": {"interval": "1s"}},
            "overrides": [*(kind.override for kind in found), *histories],
        },
        "errors": {"policy": "dead_letter", "dead_letter_table": "shop.dead_letters"},
    }  # fmt: skip
    return "\n".join(f"{key}: {json.dumps(value, default=str)}" for key, value in document.items())


@dataclass(frozen=True)
class Record:
    """One record, and what it must come to: a change of a key, or a dead letter."""

    kind: Kind
    partition: int
    timestamp_ms: int
    key: bytes
    value: bytes | None
    row: Document | None  # the cells of the row; None deletes
    kept: frozenset[str]  # those that the record lacks, and the row keeps
    identity: tuple[Any, ...]
    order: Any
    is_bad: bool


@dataclass
class Fold:
    """The rows that a table must have, from its records in the order in which Kafka has them."""

    rows: dict[tuple[Any, ...], tuple[Any, Document]] = field(default_factory=dict)
    deleted: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    changes: int = 0

    def take(self, record: Record) -> None:
        if record.is_bad:
            return
        self.changes += 1
        key = record.identity
        if record.kind.order:
            known = [each[0] for each in [self.rows.get(key)] if each] + [
                each for each in [self.deleted.get(key)] if each is not None
            ]
            if any(record.order < each for each in known):
                return
        _, old = self.rows.pop(key, (None, {}))
        self.deleted.pop(key, None)
        if record.row is None:
            self.deleted[key] = record.order
        else:
            kept = {name: old.get(name) for name in record.kept}
            self.rows[key] = (record.order, {**record.row, **kept})


class Source:
    """Records of all kinds, one after the other, each with a number of its own."""

    def __init__(self, seed: int, of: Iterable[Kind]) -> None:
        self._pick = random.Random(f"records {seed}")
        self._kinds = list(of)
        self._n = 0
        self._orders = {kind.name: self._pick.sample(range(10_000), 10_000) for kind in self._kinds}

    def records(self, count: int, late: bool = False) -> list[Record]:
        return [self._record(self._pick.choice(self._kinds), late) for _ in range(count)]

    def _record(self, kind: Kind, late: bool) -> Record:
        pick, n = self._pick, self._n
        self._n += 1
        numbers = [pick.randrange(FEW) for _ in kind.keys]
        rank = self._orders[kind.name].pop()
        cells = {key.column: key.cell(i) for key, i in zip(kind.keys, numbers, strict=True)}
        keyed: Document = {"number": kind.name if kind.history else kind.name.removeprefix("k_")}
        keyed |= {key.column: key.value(i) for key, i in zip(kind.keys, numbers, strict=True)}
        value: Document = {key: each for key, each in keyed.items() if key != "number"}
        value |= {
            "region": pick.choice((None, "", "eu", "us", "é/=%")),
            "v": pick.choice((None, n, -n)),
            "at": pick.choice((None, f"20{n % 90 + 10}-01-0{n % 9 + 1}T0{n % 10}:30:00Z")),
            "amount": pick.choice((None, Decimal(n) / 100)),
            "flag": pick.choice((None, True, False)),
            "born": pick.choice((None, f"19{n % 90 + 10}-02-03")),
            "tags": pick.choice((None, [], ["a", None, "b"])),
            "more": pick.choice((None, {"a": n}, {"a": None, "b": {"x": 0.5, "": -0.0}})),
            "n": n,
        }
        if late:
            value["late"] = f"late {n}"
        if kind.order in ORDERS:
            value[kind.order] = ORDERS[kind.order][1](rank)
        kept = self._without_some(kind, value)
        deletes = kind.deletes_by is not None and pick.random() < 0.25
        if isinstance(kind.deletes_by, tuple):
            name, equals = kind.deletes_by
            head, _, tail = name.partition(".")
            if deletes:
                value[head] = {tail: equals} if tail else equals
            elif not tail:
                value[head] = {"d": pick.choice(("u", "D", "d ", None)), True: False, 7: pick.choice((8, None))}[equals]
            elif value.get(head) and value[head].get(tail) == equals:
                value[head] = None
        bad = pick.random() < 0.03
        target = keyed if kind.deletes_by == "tombstone" else value
        if bad:
            spoilt = pick.choice(kind.keys)
            target[spoilt.column] = pick.choice((None, spoilt.wrong))
            if kind.order in ORDERS and pick.random() < 0.3:
                target[spoilt.column] = keyed[spoilt.column]
                value[kind.order] = None
        parts = kind.override["create"]["partition_by"]
        for key, i in zip(kind.keys, numbers, strict=True):
            if (key.column, i) in (("k_dec", _LOWEST), ("k_long", _LEAST)):  # truncated it has no partition
                bad = bad or any(part.startswith("truncate") and key.column in part for part in parts)
        text = None if deletes and kind.deletes_by == "tombstone" else _json(value).encode()
        by_key = repr(sorted((key, repr(each)) for key, each in cells.items()))
        stable = random.Random(by_key).randrange(PARTITIONS)  # where no column decides, Kafka's order does
        timestamp_ms = 1_700_000_000_000 + rank
        order = (
            timestamp_ms if kind.order == "_kafka_timestamp" else ORDERS[kind.order][2](rank) if kind.order else None
        )
        return Record(
            kind,
            pick.randrange(PARTITIONS) if kind.order else stable,
            timestamp_ms,
            _json(keyed).encode(),
            text,
            None if deletes else _cells(kind, cells, {name: None if name in kept else value[name] for name in value}),
            kept,
            tuple(cells.values()),
            order,
            bad,
        )

    def _without_some(self, kind: Kind, value: Document) -> frozenset[str]:
        """Take fields out of a record; those that its row keeps then. A field that is not there is null, too, unless updates
        are partial; a placeholder of Debezium's is none in any upsert table."""
        pick, kept = self._pick, set()
        partial = kind.override["write"].get("updates") == "partial"
        for name in list(value):
            if name in CELLS and partial and pick.random() < 0.3:
                del value[name]
                kept.add(name)
            elif name in UNAVAILABLE and not kind.order and pick.random() < 0.1:
                value[name] = UNAVAILABLE[name]
                kept.add(name)
            elif value[name] is None and not partial and pick.random() < 0.5:
                del value[name]
        return frozenset(kept)


def _cells(kind: Kind, cells: Document, value: Document) -> Document:
    """What a reader must see of a row: its key and the columns that say which record it is."""
    row = {kind.prefix + column: each for column, each in cells.items()}
    row |= {name: value.get(name) for name in ("n", "region", "v", "flag")}
    row["amount"] = None if value.get("amount") is None else value["amount"].quantize(Decimal("0.01"))
    row["born"] = None if value.get("born") is None else date.fromisoformat(value["born"])
    row["at"] = None if value.get("at") is None else datetime.fromisoformat(value["at"].replace("Z", "+00:00"))
    row["tags"] = value.get("tags")
    more = value.get("more")
    row["more"] = more and {"a": more.get("a"), "b": list(more["b"].items()) if more.get("b") is not None else None}
    if "late" in value:
        row["late"] = value["late"]
    return row


def _json(document: Document) -> str:
    """JSON with each decimal as its own digits."""

    def plain(each: Any) -> Any:
        if isinstance(each, dict):
            return {key: plain(inner) for key, inner in each.items()}
        if isinstance(each, Decimal):
            return f"\0{each:f}\0"
        return each

    return json.dumps(plain(document), ensure_ascii=False).replace('"\\u0000', "").replace('\\u0000"', "")
