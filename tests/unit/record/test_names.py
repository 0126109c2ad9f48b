"""A field whose name no column can have: each word of `evolve.names`, by every way that a record can take."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, StructType, TimestamptzType

import framework
from framework.config.names.column_names import RESERVED_BY_FLOE
from framework.config.spec import EvolveMode, FieldHint, FormatSpec, FormatType, TablePolicy
from framework.record.fit import table_shape
from framework.record.model import BlockResult, TableTarget
from framework.table import evolve
from framework.table.schema.arrow import parse_schema
from framework.testing.tables import MemoryTables
from testbed.format_samples import Landed, avro_bytes, avro_schema, framed, land, record_of, records
from testbed.record_samples import alone, block, plan, policy, processed, target

WORDS = {
    EvolveMode.RENAME: "renamed",
    EvolveMode.DISCARD_VALUE: "left out",
    EvolveMode.FREEZE: "refused",
    EvolveMode.DEAD_LETTER: "refused",
    EvolveMode.FAIL: "refused",
}
# The record that is odd, and the path of the column that it gets where fields are renamed.
ODD: dict[str, tuple[dict[str, object], str]] = {
    "Iceberg's": ({"id": 2, "_file": "x"}, "_file_"),
    "in another case": ({"id": 2, "_POS": "x"}, "_POS_"),
    "floe's": ({"id": 2, "__floe_offset": "x"}, "__floe_offset_"),
    "empty": ({"id": 2, "": "x"}, "_"),
    "empty inside": ({"id": 2, "s": {"": "x"}}, "s._"),
    "empty in a list": ({"id": 2, "l": [{"": "x"}]}, "l.element._"),
    "a twin": ({"id": 2, "_1": "x"}, "_1_"),
    "a twin inside": ({"id": 2, "s": {"a_x2Eb": "x"}}, "s.a_x2Eb_"),
    "a partition's": ({"id": 2, "ts_day": "x"}, "ts_day_"),
    "an old partition's": ({"id": 2, "s.old": "x"}, "s.old_"),
    "an old partition's inside": ({"id": 2, "s": {"old": "x"}}, "s.old_"),
}
SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "ts", TimestamptzType()),
    NestedField(3, "1", LongType()),
    NestedField(4, "s", StructType(NestedField(5, "a.b", LongType()), NestedField(6, "c", LongType()))),
)


def made_for(word: EvolveMode) -> tuple[TablePolicy, TableTarget]:
    chosen = policy(names=word)
    now = PartitionSpec(PartitionField(2, 1000, DayTransform(), "ts_day"), spec_id=1)
    before = PartitionSpec(PartitionField(2, 1001, DayTransform(), "s.old"), spec_id=0)
    table = replace(
        target(schema=SCHEMA, table_policy=chosen),
        spec_json=now.model_dump_json(),
        spec_id=1,
        other_specs_json=(before.model_dump_json(),),
    )
    return chosen, table


def landed(
    way: object, values: list[object], chosen: TablePolicy, *found: TableTarget
) -> tuple[BlockResult, list[str]]:
    """What becomes of one batch, and the full names of the table's columns in the end."""
    made = plan(defaults=chosen)
    tables = MemoryTables(made, (), found)
    for _ in range(6):
        result = way(block(values), made, tables.targets)  # type: ignore[operator]
        if not result.needs:
            names = list(parse_schema(tables.targets["ns.t"].schema_json).column_names) if tables.targets else []
            return result, names
        for need in result.needs.values():
            tables.satisfy(need)
    raise AssertionError(f"a table that must change again and again: {result.needs}")


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("way", [processed, alone], ids=["in columns", "alone"])
def test_what_each_word_makes_of_it(way: object, word: EvolveMode, odd: str) -> None:
    """Its neighbours land with a new column of their own, and the odd record as the word says; one record is one dead
    letter."""
    record, renamed = ODD[odd]
    chosen, table = made_for(word)
    values: list[object] = [{"id": 1, "new": 1}, record, {"id": 3, "new": 3}]
    result, names = landed(way, values, chosen, table)
    rows = result.rows["ns.t"].to_pylist()
    assert "new" in names
    if WORDS[word] == "refused":
        assert [(letter.offset, letter.code) for letter in result.dead_letters] == [(1, "FLOE-D313")]
        assert (result.failure is not None) == (word is EvolveMode.FAIL)
        assert [row["id"] for row in rows] == [1, 3]
        assert renamed not in names
    else:
        assert not result.dead_letters
        assert [row["id"] for row in rows] == [1, 2, 3]
        assert (renamed in names) == (WORDS[word] == "renamed")
        assert ("'x'" in str(rows[1])) == (WORDS[word] == "renamed")


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("way", [processed, alone], ids=["in columns", "alone"])
def test_a_table_that_is_not_there_yet(way: object, word: EvolveMode) -> None:
    """It is made without the odd column, whichever record comes first, and each odd record is what the word says."""
    values: list[object] = [{"id": 1, "": 1}, {"id": 2}, {"id": 3, "_row_id": 3}, {"id": 4, "s": {"a": 4, "": 4}}]
    result, names = landed(way, values, policy(names=word))
    rows = result.rows["ns.t"].to_pylist()
    if WORDS[word] == "renamed":
        assert {"id", "_", "_row_id_", "s.a", "s._"} <= set(names)
        assert [row["_"] for row in rows] == [1.0, None, None, None]
    else:
        assert not {"", "_", "_row_id", "_row_id_", "s.", "s._"} & set(names)
    kept = [1, 2, 3, 4] if WORDS[word] != "refused" else [2]
    assert [row["id"] for row in rows] == kept
    assert len(result.dead_letters) == 4 - len(kept)


@pytest.mark.parametrize("way", [processed, alone], ids=["in columns", "alone"])
def test_two_fields_for_one_column_are_one_dead_letter(way: object) -> None:
    """No value is silently lost: `_file` and `_file_` with values are an error, null in one of them is none."""
    both: list[object] = [{"_file": 1, "_file_": 2}, {"_file": 3}, {"_file_": 4}, {"_file": None, "_file_": 5}]
    result, names = landed(way, both, policy())
    assert [(letter.offset, letter.code) for letter in result.dead_letters] == [(0, "FLOE-D306")]
    assert names == ["_file_"]
    assert [row["_file_"] for row in result.rows["ns.t"].to_pylist()] == [3.0, 4.0, 5.0]


@pytest.mark.parametrize("way", [processed, alone], ids=["in columns", "alone"])
def test_declared_types_are_those_of_the_field(way: object) -> None:
    """A type that is declared by the record's name is that of the column under its other name, and how it is read."""
    chosen = policy()
    made = plan(defaults=chosen, hints=[FieldHint("_file", "timestamptz", unit="ms"), FieldHint("s._x", "date")])
    tables = MemoryTables(made, ())
    values = [{"_file": 1704362400000, "s": {"_x": "2024-01-04", "": {"a": 1}}}]
    for _ in range(4):
        result = way(block(values), made, tables.targets)  # type: ignore[operator]
        for need in result.needs.values():
            tables.satisfy(need)
    (row,) = result.rows["ns.t"].to_pylist()
    assert row["_file_"].isoformat() == "2024-01-04T10:00:00+00:00"
    assert row["s"]["_"] == {"a": 1.0}
    assert str(parse_schema(tables.targets["ns.t"].schema_json).find_type("_file_")) == "timestamptz"


@pytest.mark.parametrize("way", [processed, alone], ids=["in columns", "alone"])
def test_a_value_that_stands_beside_its_column(way: object) -> None:
    """The column that `new_column` makes for a value is named otherwise, too, where a partition field has its name."""
    chosen = policy(data_type=EvolveMode.NEW_COLUMN)
    spec = PartitionSpec(PartitionField(1, 1000, DayTransform(), "n_string"))
    schema = Schema(NestedField(1, "at", TimestamptzType()), NestedField(2, "n", LongType()))
    table = replace(target(schema=schema, table_policy=chosen), spec_json=spec.model_dump_json())
    result, names = landed(way, [{"n": 1}, {"n": "one"}], chosen, table)
    assert names == ["at", "n", "n_string_"]
    assert [row["n_string_"] for row in result.rows["ns.t"].to_pylist()] == [None, "one"]


@pytest.mark.parametrize("way", [processed, alone], ids=["in columns", "alone"])
def test_what_the_policy_excludes_is_excluded_by_its_own_name(way: object) -> None:
    """`exclude: [_file]` leaves it out, and `include: [_file]` lets it in under its other name."""
    for words, wanted in (({"exclude": ("_file",)}, ["id"]), ({"include": ("id", "_file")}, ["id", "_file_"])):
        result, names = landed(way, [{"id": 1}, {"id": 2, "_file": 3}], policy(**words))
        assert (names, len(result.dead_letters)) == (wanted, 0)


def test_what_naming_lets_through_is_one_dead_letter_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The definition is looked at as a whole before a record counts as good: without the rule of names for partition fields
    the record is refused, its neighbours land, and the table stays readable."""
    for module in (evolve, table_shape):
        monkeypatch.setattr(module, "partition_fields", lambda target: frozenset())
    chosen, table = made_for(EvolveMode.RENAME)
    result, names = landed(processed, [{"id": 1, "new": 1}, {"id": 2, "ts_day": 5}, {"id": 3}], chosen, table)
    assert [(letter.offset, letter.code) for letter in result.dead_letters] == [(1, "FLOE-D313")]
    assert [row["id"] for row in result.rows["ns.t"].to_pylist()] == [1, 3]
    assert "ts_day" not in names


# ---- columns that bring their types -----------------------------------------------------------------------------------

INNER = {
    "type": "record",
    "name": "Inner",
    "fields": [{"name": "_1", "type": "long"}, {"name": "_file", "type": "long"}],
}
AVRO = record_of(
    {"name": "id", "type": "long"},
    {"name": "_file", "type": ["null", "string"]},
    {"name": "ts_day", "type": ["null", "long"]},
    {"name": "s", "type": ["null", INNER]},
)


def avro(
    values: list[dict[str, object]], chosen: TablePolicy, schema: object = AVRO, found: TableTarget | None = None
) -> Landed:
    data = [framed(1, avro_bytes(schema, value)) for value in values]
    spec = FormatSpec(FormatType.AVRO, registry="main")
    known = {} if found is None else {"ns.t": found}
    return land(records(data), spec, {1: avro_schema(schema)}, table_policy=chosen, known=known)


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("is_there", [True, False])
def test_columns_that_bring_their_types(word: EvolveMode, is_there: bool) -> None:
    """Of a schema's fields, too, each is what the word says; a record without a value for an odd one lands."""
    now = PartitionSpec(PartitionField(2, 1000, DayTransform(), "ts_day"))
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "ts", TimestamptzType()),
        *((NestedField(3, "s", StructType(NestedField(4, "1", LongType()))),)),
    )
    chosen = policy(names=word)
    table = replace(target(schema=schema, table_policy=chosen), spec_json=now.model_dump_json())
    values: list[dict[str, object]] = [
        {"id": 1, "_file": "x", "ts_day": 5, "s": {"_1": 6, "_file": 7}},
        {"id": 2, "_file": None, "ts_day": None, "s": None},
        {"id": 3, "_file": None, "ts_day": 8, "s": None},
    ]
    landed = avro(values, chosen, found=table if is_there else None)
    names = set(landed.schema.column_names)
    if WORDS[word] == "renamed":
        assert not landed.codes
        assert ("ts_day_" in names) == is_there
        assert landed.rows[0]["_file_"] == "x"
        assert landed.rows[0]["ts_day_" if is_there else "ts_day"] == 5
        assert landed.rows[0]["s"]["_1_" if is_there else "_1"] == 6
        assert landed.rows[0]["s"]["_file"] == 7
        return
    bad = [0, 2] if is_there else [0]
    refused = WORDS[word] == "refused"
    assert landed.codes == ([(offset, "FLOE-D313") for offset in bad] if refused else [])
    assert [row["id"] for row in landed.rows] == [n for n in (1, 2, 3) if not refused or n - 1 not in bad]
    assert not {"_file", "_file_", "ts_day_", "s._1_"} & names


def test_two_typed_fields_of_one_column() -> None:
    """Whichever of them has the value lands; both are one dead letter, also where their types differ."""
    for other in ("string", "long"):
        schema = record_of({"name": "_file", "type": ["null", "string"]}, {"name": "_file_", "type": ["null", other]})
        second: object = "b" if other == "string" else 2
        values = [{"_file": "a", "_file_": None}, {"_file": None, "_file_": second}, {"_file": "a", "_file_": second}]
        landed = avro(values, policy(), schema)
        found = dict(landed.codes)
        assert found[2] == "FLOE-D306"
        assert landed.rows[0]["_file_"] == "a"
        assert len(landed.rows) + len(found) == 3
        if other == "string":
            assert [row["_file_"] for row in landed.rows] == ["a", "b"]


def test_each_name_that_code_uses_is_kept() -> None:
    """Names beside the columns of a table, wherever in the program, are those on the list."""
    root = Path(framework.__file__).parent
    used = {
        name
        for path in root.rglob("*.py")
        for name in re.findall(r'"(__floe[a-z_]*)"', path.read_text(encoding="utf-8"))
    }
    assert used == set(RESERVED_BY_FLOE)
    places = [path for path in root.rglob("*.py") if '"_commit_snapshot_id"' in path.read_text(encoding="utf-8")]
    assert [path.name for path in places] == ["column_names.py"]


@pytest.mark.parametrize("name", ["_file", "_POS", "", "_1"])
def test_a_table_that_a_renamed_column_partitions_has_one_column_for_the_field(name: str) -> None:
    """The partition field is called as the column is; records find the column all the same."""
    column = f"{name}_"
    schema = Schema(NestedField(1, "1", LongType()), NestedField(2, column, LongType()))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), column))
    table = replace(target(schema=schema, table_policy=policy()), spec_json=spec.model_dump_json())
    for way in (processed, alone):
        result = way(block([{name: 7}, {name.lower(): 8}]), plan(), {"ns.t": table})
        assert not result.needs
        assert result.rows["ns.t"].column(column).to_pylist() == [7, 8]
