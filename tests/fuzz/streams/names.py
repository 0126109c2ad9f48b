"""Names that need quotes in a pipeline file, as declared, routed, partition, sort and key columns, beside fields that nobody
has declared.

In: a seed. Out: a Report of one pipeline file and its records: the file is loaded, its tables are made as records ask for them,
and columns, partitions, sort order and rows are what docs/concepts.md says.
"""

from __future__ import annotations

import json
import random
import re
import traceback
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from framework.config.load import World, load_pipeline
from framework.plan.model import Plan
from framework.record.process import process_block
from framework.table.partitions import specs
from framework.table.readable import TableDefinition, faults
from framework.table.schema.arrow import parse_schema
from framework.testing.execute import settled
from framework.testing.suite import plan_of
from framework.testing.tables import MemoryTables
from testbed.record_samples import block
from tests.fuzz.kinds import Kind, Shape
from tests.fuzz.oracle import KEPT, as_json, in_files, judge, renamed
from tests.fuzz.report import Report
from tests.fuzz.streams.stream import ROW, UPSERT, Change, Stream, Wanted, check_stream
from tests.fuzz.strict import Refused, read

NAMES = (
    "@timestamp", "1st", "+1", "a b", "/VSO/X", "é", "$", "%", "#1", "a:b", "a,b", "a(b)", "day(x)", "'q'", '"q"', "*", "x desc",
    "x nulls first", "null", "true", "a-b", "a/b", "[0]", "a=b", "\\", "select", "_file", "_POS", "__floe_offset", "_1", "ſ",
    "😀", "٣", "x", "Id", "name ", " name", "a  b", "bucket(4, x)", "-", "~", "Ж", "a|b", "?", "<a>", "!", "_",
)  # fmt: skip
SIZES = (1, 2, 3, 5, 8, 13, 30)
TIME, NUMBER, TEXT = "timestamptz", "long", "string"


@dataclass(frozen=True)
class Drawn:
    """What the file says: its three columns, and by which of them tables are named, partitioned, sorted and keyed."""

    at: str
    n: str
    text: str
    is_routed: bool
    parts: tuple[tuple[str, str, str], ...]  # column, transform as a file has it, the same as Iceberg has it
    sort: str | None
    is_upserted: bool
    extras: tuple[str, ...]

    @property
    def declared(self) -> dict[str, str]:
        return {self.at: TIME, self.n: NUMBER, self.text: TEXT}

    def column(self, name: str) -> str:
        return renamed(name, list(self.declared), True)


def quoted(name: str) -> str:
    return name if re.fullmatch("[A-Za-z_][A-Za-z0-9_-]*", name) else f"`{name}`"


def drawn(chance: random.Random) -> Drawn:
    while True:
        at, n, text = chance.sample(NAMES, 3)
        different = len({name.lower() for name in (at, n, text)}) == 3
        files = [in_files(name) for name in (at, n, text)]
        is_upserted = chance.random() < 0.3 and not {at.lower(), n.lower()} & KEPT
        if different and all(one.isdisjoint(other) for i, one in enumerate(files) for other in files[:i]):
            break
    choices = (
        (at, f"day({quoted(at)})", "day"), (at, f"hour({quoted(at)})", "hour"), (n, f"bucket(4, {quoted(n)})", "bucket[4]"),
        (text, f"truncate(1, {quoted(text)})", "truncate[1]"), (n, quoted(n), "identity"), (text, quoted(text), "identity"),
    )  # fmt: skip
    parts = tuple(chance.sample(choices, chance.choice((0, 1, 1, 2))))
    if len({column for column, _, _ in parts}) < len(parts):
        parts = parts[:1]
    order = chance.choice((None, quoted(n), f"{quoted(n)} desc", f"{quoted(at)} asc nulls last"))
    made = Drawn(at, n, text, chance.random() < 0.5, parts, order, is_upserted, ())
    beside = [
        name
        for name in (*_partition_names(made), "_row_id", "plain")
        if name.lower() not in map(str.lower, made.declared)
    ]
    taken = set().union(*(in_files(made.column(name)) for name in made.declared))
    extras = [name for name in dict.fromkeys(beside) if in_files(name).isdisjoint(taken)]
    return replace(made, extras=tuple(extras))


def _partition_names(of: Drawn) -> tuple[str, ...]:
    """What the partition fields are called."""
    suffixes = {"day": "_day", "hour": "_hour", "bucket[4]": "_bucket", "truncate[1]": "_trunc", "identity": ""}
    return tuple(of.column(column) + suffixes[transform] for column, _, transform in of.parts)


def file_of(of: Drawn) -> str:
    """The pipeline file, as JSON, which is YAML."""
    table = f"ns.t_{{{quoted(of.text)}}}" if of.is_routed else "ns.t"
    create: dict[str, Any] = {"partition_by": [text for _, text, _ in of.parts]}
    if of.sort is not None:
        create["sort_by"] = [of.sort]
    defaults: dict[str, Any] = {"create": create}
    if of.is_upserted:
        defaults["write"] = {"mode": "upsert", "key": [quoted(of.n)], "order": {"field": quoted(of.at)}}
    rule = {"when": {"field": quoted(of.text), "in": list("xyz")}, "table": table}
    return json.dumps(  # YAML has no pairs of surrogates
        {
            "apiVersion": "floe/v1",
            "kind": "Pipeline",
            "metadata": {"name": "p"},
            "source": {
                "kafka": {"connection": "main", "topics": ["events"]},
                "schema": {quoted(name): kind for name, kind in of.declared.items()},
                "metadata_columns": ["offset", "timestamp"],
            },
            "routes": {"rules": [rule], "allow_tables": ["ns.*"]},
            "tables": {"defaults": defaults},
            "errors": {"policy": "dead_letter", "dead_letter_table": "other.dead_letters"},
        },
        ensure_ascii=False,
    )


def loaded(text: str) -> Plan:
    def file(path: Path) -> str:
        if path.name == "p.yaml":
            return text
        raise FileNotFoundError(path)

    found = load_pipeline("p.yaml", None, World({}, {}, file, offline=True))
    assert found.ok, [(each.code, each.message) for each in found.diagnostics]
    assert found.spec is not None
    return plan_of("p.yaml", found.spec)


def _spelled(name: str, chance: random.Random) -> str:
    return name.swapcase() if chance.random() < 0.1 and name.isascii() else name


def _record(chance: random.Random, of: Drawn) -> bytes:
    values = {
        of.at: chance.choice(('"2024-01-04T12:00:00Z"', '"1969-12-31T23:59:59.5+01:00"', '"2024-02-29T00:00:00Z"')),
        of.n: str(chance.choice((0, 1, 2, -7, 2**40))),
        of.text: json.dumps(chance.choice("xyz")),
    }
    for name in of.declared:
        if chance.random() < 0.05:
            values[name] = chance.choice(("null", '"no such value"', "{}", "1.5"))
    values |= {name: json.dumps(chance.choice(("here", "there"))) for name in of.extras if chance.random() < 0.2}
    fields = [(name, text) for name, text in values.items() if chance.random() < 0.97]
    chance.shuffle(fields)
    swapped = [(_spelled(name, chance) if name in of.declared else name, text) for name, text in fields]
    return ("{" + ",".join(f"{json.dumps(name)}:{text}" for name, text in swapped) + "}").encode()


def _row(data: bytes, of: Drawn) -> tuple[str, dict[str, Any], dict[str, str]]:
    """Table, declared columns and what stands beside them. Raises Refused."""
    fields = read(data)
    names = {name.lower(): name for name in fields}
    own = {name: fields[names[name.lower()]] for name in of.declared if name.lower() in names}
    kinds = {name: Kind(kind) for name, kind in of.declared.items()}
    said = own.get(of.text)
    if not isinstance(said, str) or said not in tuple("xyz"):
        raise Refused("no rule takes it")
    row = judge(as_json(own).encode(), Shape(kinds, empty_is_null=True))
    if of.is_upserted and (row[of.n] is None or row[of.at] is None):
        raise Refused("no key, or no order")
    extras = {name: fields[names[name.lower()]] for name in of.extras if name.lower() in names}
    return f"ns.t_{said}" if of.is_routed else "ns.t", {of.column(name): value for name, value in row.items()}, extras


def check_names(seed: int, most: int) -> Report:
    """What became of one file's records, and of its tables."""
    chance = random.Random(seed)
    of = drawn(chance)
    sent = [_record(chance, of) for _ in range(min(most, chance.choice(SIZES)))]
    rows: Rows = []
    for data in sent:
        try:
            rows.append(_row(data, of))
        except Refused as refused:
            rows.append(refused)
    report = Report(documents=len(sent))
    text, columns = file_of(of), dict[str, dict[str, str]]()
    # A table is made as the records of the first block ask for it, and changed as the others do.
    cut = chance.randint(0, len(sent))
    try:
        made = loaded(text)
        tables = MemoryTables(made, ())
        for begin, end in ((0, cut), (cut, len(sent))):
            _take(columns, rows[begin:end], tables, of)
            records = block(sent[begin:end], first_offset=begin)
            done = settled([records], made, tables, lambda some, plan: process_block(some, plan, tables.targets))
            assert done is not None, "tables that must change again and again"
    except Exception:
        report.uncaught += 1
        report.faults.append(("uncaught names", seed, f"{text}\n{traceback.format_exc()}"))
        return report
    for name, known in columns.items():
        if wrong := _wrong(tables, name, known, of):
            report.wrong += 1
            report.faults.append(("wrong names", seed, f"{name}: {wrong}\n{text}\n{sent[:6]}"))
            return report
    wanted: list[Wanted] = [
        each if isinstance(each, Refused) else [_change(each, columns[each[0]], tables, of)] for each in rows
    ]
    kinds = {of.column(name): Kind(kind) for name, kind in of.declared.items()}
    kinds |= {column: Kind("string") for known in columns.values() for column in known.values()}
    # Of a column that is declared a new table has the first record's spelling.
    spelled = {name for target in tables.targets.values() for name in parse_schema(target.schema_json).column_names}
    kinds |= {name: kinds[own] for name in spelled for own in [*kinds] if own.lower() == name.lower()}
    named = Stream("names", Shape(kinds), sent, wanted, made=made, known=tables.targets)
    report = check_stream(named, seed)
    report.landed = [
        replace(each, partition_by=tables.partition_by[each.table], sort_by=tables.sort_by[each.table])
        for each in report.landed
    ]
    return report


Rows = list[tuple[str, dict[str, Any], dict[str, str]] | Refused]


def _take(columns: dict[str, dict[str, str]], rows: Rows, tables: MemoryTables, of: Drawn) -> None:
    """By table the columns of the fields that stand beside the declared ones. A new table's columns come before its partition
    fields."""
    for each in rows:
        if isinstance(each, Refused):
            continue
        known, target = columns.setdefault(each[0], {}), tables.targets.get(each[0])
        parts = [] if target is None else [field.name for spec in specs(target) for field in spec.fields]
        for name in each[2]:
            known.setdefault(name, renamed(name, [*map(of.column, of.declared), *known.values()], True, parts))


def _change(
    row: tuple[str, dict[str, Any], dict[str, str]], known: dict[str, str], tables: MemoryTables, of: Drawn
) -> Change:
    values = row[1] | {column: row[2].get(name) for name, column in known.items()}
    spelled = {name.lower(): name for name in parse_schema(tables.targets[row[0]].schema_json).column_names}
    values = {spelled.get(name.lower(), name): value for name, value in values.items()}
    return Change(UPSERT if of.is_upserted else ROW, values)


def _wrong(tables: MemoryTables, name: str, known: dict[str, str], of: Drawn) -> str:
    """What is wrong with a table; "" where nothing is."""
    target = tables.targets.get(name)
    if target is None:
        return f"it was not made: {tables.refused}"
    schema = parse_schema(target.schema_json)
    found = specs(target)
    if bad := faults(TableDefinition(schema, found)):
        return f"nobody can read it: {list(map(str, bad))}"
    must = {of.column(column): kind for column, kind in of.declared.items()} | dict.fromkeys(known.values(), TEXT)
    must |= {"_kafka_offset": NUMBER, "_kafka_timestamp": TIME}
    are = {each.name.lower(): str(each.field_type) for each in schema.fields}
    must = {column.lower(): kind for column, kind in must.items()}
    if are != must or len(are) < len(schema.fields):
        return f"columns {are}, must be {must}"
    fields = [(str(schema.find_column_name(each.source_id)).lower(), str(each.transform)) for each in found[0].fields]
    must_be = [(of.column(column).lower(), transform) for column, _, transform in of.parts]
    if fields != must_be:
        return f"partitions {fields}, must be {must_be}"
    sorted_by = [each.by.column for each in tables.sort_by.get(name, ())]
    if len(sorted_by) != (of.sort is not None) or any(each.lower() not in are for each in sorted_by):
        return f"sorted by {sorted_by}, must be {of.sort}"
    keys = {str(schema.find_column_name(each)).lower() for each in schema.identifier_field_ids}
    if keys != ({of.column(of.n).lower()} if of.is_upserted else set()):
        return f"key {keys}"
    return ""
