"""Records beside the columns of their table: new fields, values of other types, missing ones, under each word of
`evolve`.

In: a seed. Out: a Report: rows, dead letters and the table's columns in the end are those of a model that takes one
record after the other, written from docs/concepts.md alone, wherever the batches end. Values are plain, so that a
record fits what it asks for.
"""

from __future__ import annotations

import json
import random
import traceback
from copy import deepcopy
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IcebergType

from framework.config.spec import (
    CreatePolicy,
    EmptyValues,
    EvolveMode,
    EvolvePolicy,
    NameCase,
    TablePolicy,
    TextAsNumber,
    ValuesPolicy,
    WholeNumbers,
)
from framework.record.model import TableTarget
from framework.table.partitions import specs
from framework.table.readable import TableDefinition, faults
from framework.table.schema.arrow import parse_schema
from framework.testing.tables import MemoryTables
from testbed.record_samples import alone, block, plan, processed, target
from tests.fuzz.documents import CODES, SIZES, WHOLES
from tests.fuzz.kinds import Kind, Shape
from tests.fuzz.oracle import as_json, exact, nearest_double, renamed, same, value_of
from tests.fuzz.report import Landed, Report, plain_values
from tests.fuzz.strict import Number, Refused, read

COLUMNS = ("boolean", "int", "long", "float", "double", "decimal(5, 2)", "decimal(30, 0)", "string")
NUMERIC = ("boolean", "int", "long", "float", "double", "decimal")
NUMBERS = ("0", "-0", "1", "7", "-12", "1.5", "-0.25", "12.50", "2147483648", "-2147483649", "9223372036854775807", "1e3", "1E2",
           "99999.99", "123456.78", "1e39", "3.5e38", "12345678901234567890123456789012", "0.125", "1e300", "NaN")  # fmt: skip
OTHERS = ('"x"', '""', '"2024-01-04"', "true", "false", *CODES)
HELD = ("[1]", '{"a":1}', '["x",null]', '[{"b":2.50}]')
NOTHING = ("[]", "{}", "[null]", '{"a":null}')
# Each with what its column would be called, or with what is the same in files.
NO_NAMES = ("", "_", "_file", "_file_", "_POS", "__floe_offset", "1", "_1", "x.y", "x_x2Ey", "x y", "x_x20y", "x_x20y_")
PARTS = ("ts_day", "n", "a_string", "b_double", "id_bucket", "x.y", "_1", "m")
_LADDER = {"int": "long", "float": "double"}


@dataclass
class Table:
    """The model's table."""

    columns: dict[str, Kind]
    needed: set[str] = field(default_factory=set)


class Change(Exception):
    """The table must change before the record can be read."""


@dataclass
class Model:
    """What one record after the other makes of a table."""

    policy: TablePolicy
    table: Table
    parts: tuple[str, ...] = ()

    def take(self, data: bytes) -> Any:
        """The record's row, or Refused; a refused record changes nothing."""
        before = deepcopy(self.table)
        try:
            while True:
                try:
                    return self._row(read(data))
                except Change:
                    continue
        except Refused as refused:
            self.table = before
            return refused

    def _row(self, record: dict[str, Any]) -> dict[str, Any]:
        evolve, table = self.policy.evolve, self.table
        record = self._by_columns(record)
        new = {n: kind for n, v in record.items() if n not in table.columns and (kind := self.observed(v))}
        if new and evolve.columns not in (EvolveMode.EVOLVE, EvolveMode.DISCARD_VALUE):
            raise Refused("no such column")
        if new and evolve.columns is EvolveMode.EVOLVE:
            table.columns |= new
            raise Change
        row: dict[str, Any] = {}
        left_out: set[str] = set()
        todo = [(n, v, False) for n, v in record.items() if n in table.columns and v is not None]
        changed = False
        while todo:
            name, value, is_moved = todo.pop()
            try:
                row[name] = self._value(value, table.columns[name])
                continue
            except Refused:
                pass
            changed |= self._unfit(name, value, is_moved, row, left_out, todo, record)
        for name in table.columns:
            if row.get(name) is None and name in table.needed and not changed:
                if name in left_out or evolve.nullability is not EvolveMode.RELAX:
                    raise Refused("a required value is missing")
                table.needed.discard(name)
                changed = True
        if changed:
            raise Change
        return {name: row.get(name) for name in table.columns}

    def _by_columns(self, record: dict[str, Any]) -> dict[str, Any]:
        """The values by the names of columns that there are or would be; without those that no column can have."""
        found: dict[str, Any] = {}
        known = list(self.table.columns)
        for name, value in record.items():
            if value is None:
                continue
            column = self._column(name, known)
            if column is None:
                if self.policy.evolve.names is not EvolveMode.DISCARD_VALUE and self._asks(value):
                    raise Refused("no column can have this name")
                continue
            if column not in self.table.columns and self.policy.evolve.columns is EvolveMode.DISCARD_VALUE:
                continue
            if column in found:
                raise Refused("two fields for one column")
            found[column] = value
            if self.observed(value):
                known.append(column)
        return found

    def _asks(self, value: Any) -> bool:
        return self.policy.evolve.columns is not EvolveMode.DISCARD_VALUE and self.observed(value) is not None

    def _column(self, name: str, known: list[str]) -> str | None:
        """What the column of a field is called; None where it has none."""
        if name in known:
            return name
        column = renamed(name, known, True, self.parts)
        return column if column == name or self.policy.evolve.names is EvolveMode.RENAME else None

    def _unfit(
        self,
        name: str,
        value: Any,
        is_moved: bool,
        row: dict[str, Any],
        left_out: set[str],
        todo: list[Any],
        record: Any,
    ) -> bool:
        """What the policy makes of a value that does not fit; whether the table changed."""
        evolve, table = self.policy.evolve, self.table
        word = evolve.data_type
        lenient = word in (EvolveMode.WIDEN, EvolveMode.NEW_COLUMN, EvolveMode.DISCARD_VALUE)
        if lenient and self.policy.values.empty is EmptyValues.DISCARD and _nothing(value):
            left_out.add(name)
            return False
        if word in (EvolveMode.WIDEN, EvolveMode.NEW_COLUMN):
            if wider := self._wider(value, table.columns[name]):
                table.columns[name] = wider
                return True
            if word is EvolveMode.NEW_COLUMN and not is_moved and evolve.columns is EvolveMode.EVOLVE:
                beside, kind, moved = self._beside(name, value)
                column = self._column(beside, list(table.columns))
                if column is not None and record.get(column) is None:
                    beside = column
                    # Its own column has no value any more.
                    if beside not in table.columns:
                        table.columns[beside] = kind
                        return True
                    todo.append((beside, moved, True))
                    return False
            word = evolve.otherwise
        if word is EvolveMode.DISCARD_VALUE:
            left_out.add(name)
            return False
        raise Refused("does not fit")

    def _value(self, value: Any, kind: Kind) -> Any:
        is_text = isinstance(value, str) and not isinstance(value, Number)
        if is_text and kind.family in NUMERIC and self.policy.values.text_as_number is TextAsNumber.REFUSE:
            raise Refused("text in a column of numbers")
        return value_of(value, kind)

    def _wider(self, value: Any, kind: Kind) -> Kind | None:
        """The type that Iceberg promotes the column to, for the value's sake."""
        try:
            if kind.family in _LADDER:
                self._value(value, Kind(_LADDER[kind.family], declared=True))
                return Kind(_LADDER[kind.family])
            if kind.family == "decimal":
                self._value(value, Kind("double", declared=True))  # a number
                number = exact(str(value))
                if number is None:
                    return None
                if not isinstance(value, Number):
                    self._value(value, Kind("decimal(38, 0)" if number.denominator == 1 else "decimal(38, 19)"))
                digits = len(str(abs(int(number)))) + kind.size()[1]
                if kind.size()[0] < digits <= 38:
                    return Kind(f"decimal({digits}, {kind.size()[1]})")
        except Refused:
            pass
        return None

    def _beside(self, name: str, value: Any) -> tuple[str, Kind, Any]:
        if isinstance(value, (list, dict)):
            return f"{name}_json", Kind("string"), as_json(value)
        kind = self.observed(value)
        assert kind is not None
        return f"{name}_{kind.family}", kind, value

    def observed(self, value: Any) -> Kind | None:
        """What a value asks for; None for nothing."""
        if value is None or isinstance(value, (list, dict)):
            return None
        if isinstance(value, bool):
            return Kind("boolean")
        if not isinstance(value, Number):
            return Kind("string")
        if not value.lstrip("-").isdigit() or len(value.lstrip("-")) > 38:
            return Kind("double")
        number = Fraction(int(value))
        double = nearest_double(number)
        kept = number in (Fraction(double), exact(repr(double)))
        exactly = Kind("long" if -(1 << 63) <= number < 1 << 63 else "decimal(38, 0)")
        return Kind("double") if kept and self.policy.values.whole_numbers is WholeNumbers.DOUBLE else exactly


def _nothing(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_nothing, value.values()))
    return all(map(_nothing, value)) if isinstance(value, list) else value is None


def _policy(chance: random.Random) -> TablePolicy:
    word = EvolveMode
    return TablePolicy(
        create=CreatePolicy(),
        evolve=EvolvePolicy(
            columns=chance.choice((word.EVOLVE, word.EVOLVE, word.DISCARD_VALUE, word.FREEZE, word.DEAD_LETTER)),
            data_type=chance.choice(
                (word.WIDEN, word.WIDEN, word.NEW_COLUMN, word.NEW_COLUMN, word.DISCARD_VALUE, word.FREEZE)
            ),
            nullability=chance.choice((word.RELAX, word.RELAX, word.DISCARD_VALUE, word.FREEZE)),
            otherwise=chance.choice((word.FREEZE, word.DISCARD_VALUE, word.DEAD_LETTER)),
            names=chance.choice((word.RENAME, word.RENAME, word.DISCARD_VALUE, word.FREEZE, word.DEAD_LETTER)),
        ),
        case=NameCase.SENSITIVE,
        values=ValuesPolicy(
            chance.choice(list(WholeNumbers)), chance.choice(list(TextAsNumber)), chance.choice(list(EmptyValues))
        ),
    )


def _record(chance: random.Random, names: list[str], given: dict[str, Kind], odd: float) -> bytes:
    fields = []
    for name in names:
        if chance.random() < 0.3:
            continue
        if name in given and chance.random() >= odd:
            text = {"boolean": "true", "string": '"plain"', "int": "7", "long": "12345678901"}.get(
                given[name].name, "1.25"
            )
            text = "12" if given[name].name == "decimal(30, 0)" else text
        else:
            pool = chance.choice((NUMBERS, NUMBERS, WHOLES, OTHERS, (*HELD, *NOTHING) if name in given else OTHERS))
            text = chance.choice(pool) if chance.random() < 0.9 else "null"
        fields.append(f"{json.dumps(name)}:{text}")
    return ("{" + ",".join(fields) + "}").encode()


@dataclass(frozen=True)
class Drawn:
    """Records in batches, for a table of these columns and partition fields."""

    policy: TablePolicy
    given: dict[str, Kind]
    needed: frozenset[str]
    parts: tuple[str, ...]
    values: list[bytes]
    cuts: list[int]
    singly: bool


def _drawn(seed: int, most: int) -> Drawn:
    chance = random.Random(seed)
    policy = _policy(chance)
    given = {name: Kind(chance.choice(COLUMNS)) for name in ("id", "a", "b", "c")[: chance.choice((1, 2, 4))]}
    needed = frozenset(name for name in given if chance.random() < 0.15)
    names = [*given, *("n", "m", "a_string", "b_double")[: chance.choice((0, 1, 2, 4))]]
    # Fields whose names no column can have, some of them for a partition field's sake.
    parts = tuple(chance.sample(PARTS, chance.choice((0, 0, 1, 2))))
    names += chance.sample(NO_NAMES, chance.choice((0, 0, 1, 2, 4)))
    names += [part for part in parts if part not in names]
    odd = chance.choice((0.01, 0.1, 0.5))
    # A record that lacks a value which must be there lands where another one of its batch relaxes the column, and one
    # with a value of many digits is read as the double that another one made of a float: only there does a batch's end
    # decide (0076).
    relaxes = bool(needed) and policy.evolve.nullability is EvolveMode.RELAX
    # So does a record with three fields for two columns: it lands where the table has columns for two of them already.
    decides = relaxes or Kind("float") in given.values() or {"x y", "x_x20y", "x_x20y_"} <= set(names)
    count = min(most, chance.choice(SIZES), 30 if decides else 200)
    values = [_record(chance, names, given, odd) for _ in range(count)]
    cuts = sorted({0, count, *(chance.randint(0, count) for _ in range(chance.choice((0, 0, 1, 3))))})
    cuts = list(range(count + 1)) if decides else cuts
    return Drawn(policy, given, needed, parts, values, cuts, chance.random() < 0.3)


def evolved_table(seed: int, most: int = 60) -> TableTarget:
    """What records make of a table."""
    return _landed(_drawn(seed, most))[1]


def check_evolve(seed: int, most: int = 1000) -> Report:
    """What became of some batches of records, and of their table."""
    drawn = _drawn(seed, most)
    policy, given, values, cuts = drawn.policy, drawn.given, drawn.values, drawn.cuts
    count = len(values)
    model = Model(policy, Table(dict(given), set(drawn.needed)), drawn.parts)
    wanted = [model.take(data) for data in values]
    report = Report(documents=count)
    way = "evolve"
    try:
        reported, table, report.landed = _landed(drawn)
    except Exception:
        report.uncaught += 1
        report.faults.append(("uncaught evolve", seed, traceback.format_exc()))
        return report
    schema = parse_schema(table.schema_json)
    if wrong := faults(TableDefinition(schema, specs(table))):
        report.wrong += 1
        report.faults.append(
            ("unreadable evolve", seed, f"{[str(each) for each in wrong]}\n {policy}\n {values[:6]} {cuts}")
        )
        return report
    kinds = {each.name: str(each.field_type) for each in schema.fields}
    if kinds != {name: kind.name for name, kind in model.table.columns.items()}:
        report.wrong += 1
        report.faults.append(
            ("wrong evolve", seed, f"columns {kinds}\n must be {model.table}\n {policy}\n {values[:6]} {cuts}")
        )
        return report
    for at, (must, found) in enumerate(zip(wanted, reported, strict=True)):
        if isinstance(found, str) or isinstance(must, Refused):
            report.refused[way] += 1
            good = isinstance(found, str) and isinstance(must, Refused)
        else:
            report.rows[way] += 1
            good = all(_same(must.get(name), found.get(name)) for name in kinds)
            for name, value in found.items():
                if value is not None:
                    report.values[way, kinds[name].partition("(")[0]] += 1
        if not good:
            report.wrong += 1
            text = f"{at}: {values[at]!r}\n  must be {must!r}\n  is {found!r}\n  {kinds} {policy.evolve} {policy.values} {cuts}"
            report.faults.append(("wrong evolve", seed, text))
    return report


def _same(wanted: Any, found: Any) -> bool:
    # What came before its column was widened is read as the wider type.
    if isinstance(wanted, int) and not isinstance(wanted, bool) and isinstance(found, int):
        return wanted == found
    return same(wanted, found)


def _landed(drawn: Drawn) -> tuple[list[Any], TableTarget, list[Landed]]:
    """For each record its row or code, the table in the end, and the rows of the last batch; batch after batch, as the driver
    does."""
    policy, values = drawn.policy, drawn.values
    made = plan(defaults=policy)
    tables = MemoryTables(made, ())
    # The first partition field is of the spec that is, the others of specs that were.
    fields = [PartitionField(1, 1000 + at, IdentityTransform(), part) for at, part in enumerate(drawn.parts)]
    now, *before = [PartitionSpec(each, spec_id=at) for at, each in enumerate(fields)] or [PartitionSpec()]
    tables.targets["ns.t"] = replace(
        target(schema=Shape(drawn.given, drawn.needed).schema(), table_policy=policy),
        spec_json=now.model_dump_json(),
        other_specs_json=tuple(each.model_dump_json() for each in before),
    )
    reported: list[Any] = []
    rows: pa.Table | None = None
    for begin, end in pairwise(drawn.cuts):
        records = block(values[begin:end], first_offset=begin)
        for _ in range(12):
            routing = replace(made, route=replace(made.route, refused_tables=tables.refused))
            result = (alone if drawn.singly else processed)(records, routing, tables.targets)
            if not result.needs:
                break
            for need in result.needs.values():
                tables.satisfy(need)
        assert not result.needs, "a table that must change again and again"
        letters = {letter.offset: letter.code for letter in result.dead_letters}
        assert "FLOE-D119" not in letters.values()
        rows = result.rows.get("ns.t")
        schema = parse_schema(tables.targets["ns.t"].schema_json)
        columns = (
            {}
            if rows is None
            else {n: plain_values(rows.column(n), _kind(schema.find_type(n))) for n in rows.column_names}
        )
        left = iter(range(0 if rows is None else rows.num_rows))
        for offset in range(begin, end):
            at = None if offset in letters else next(left)
            reported.append(letters[offset] if at is None else {name: column[at] for name, column in columns.items()})
        assert next(left, None) is None
    found = tables.targets["ns.t"]
    return reported, found, [] if rows is None else [Landed("evolve", "ns.t", found.schema_json, rows)]


def _kind(kind: IcebergType) -> Kind:
    return Kind(str(kind))
