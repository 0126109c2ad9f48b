"""A table with a history: each change of it is a row of the history too, once, whichever way a record takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.config.spec import (
    EvolveMode,
    FieldHint,
    FormatSpec,
    HistoryTable,
    KeySpec,
    PartitionFieldSpec,
    RouteMode,
    RouteRule,
)
from framework.plan.model import Plan
from framework.record.blocks.bisect_failures import part_of
from framework.record.model import BlockResult, TableTarget
from framework.table.schema.arrow import parse_schema
from framework.testing.tables import MemoryTables
from testbed.record_samples import block, plan, policy, target
from tests.unit.record.test_keyed_rows import BY_TOMBSTONE, COLUMNS, JSON_WAYS, TYPES, Way, _typed, keyed

OWN = ("_op", "_kafka_topic", "_kafka_partition", "_kafka_offset", "_kafka_timestamp")
WAYS: Mapping[str, Way] = {**JSON_WAYS, "typed": _typed({**TYPES, "late": pa.int64()})}
HINTS = (FieldHint("id", "long"), FieldHint("key_id", "long"), FieldHint("name", "string", required=True))


def with_history(made: Plan, table: str = "ns.t", history: str = "ns.h") -> Plan:
    write = made.write
    return replace(made, write=replace(write, tables=replace(write.tables, histories=(HistoryTable(history, table),))))


def kept(**words: Any) -> Plan:
    return with_history(plan(defaults=keyed(columns=EvolveMode.EVOLVE, **words), hints=(HINTS[0], HINTS[2])))


def landed(values: Sequence[object], made: Plan, way: Way, given: Mapping[str, TableTarget] = {}) -> BlockResult:
    """What becomes of the records once the tables are as they ask; `given` has them then."""
    tables = MemoryTables(made, ())
    tables.targets.update(given)
    for _ in range(6):
        routing = replace(made, route=replace(made.route, refused_tables=tables.refused))
        result = way(block(values), routing, tables.targets)
        if not result.needs:
            break
        assert all("\0" not in name and "\0" not in need.table for name, need in result.needs.items())
        for need in result.needs.values():
            tables.satisfy(need)
    assert not result.needs
    assert all("\0" not in letter.message for letter in result.dead_letters)
    if isinstance(given, dict):
        given.update(tables.targets)
    return result


def rows_of(result: BlockResult, *columns: str, history: str = "ns.h") -> list[tuple[Any, ...]]:
    """Rows of the history, in the order in which they came."""
    if history not in result.rows:
        return []
    return [tuple(row.get(name) for name in columns) for row in result.rows[history].to_pylist()]


def changes(result: BlockResult, table: str = "ns.t") -> tuple[list[int], list[int]]:
    found = result.keyed[table]
    return found.upsert_offsets.tolist(), found.delete_offsets.tolist()


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_each_change_is_a_row_of_the_history(way: Way) -> None:
    """Changes that others of their key follow are there too, in their order, with what the record had, what it did and
    where it stood; a delete that says no more than its key has no more."""
    values = [
        {"id": 1, "name": "a"},
        {"id": 1, "name": "b", "op": "u"},
        {"id": 2, "name": "gone", "op": "d"},
        {"id": 1, "op": "d", "late": 5},
        {"id": 1, "name": "c"},
    ]
    tables: dict[str, TableTarget] = {}
    result = landed(values, kept(), way, tables)
    assert rows_of(result, "id", "name", "late", "_op", "_kafka_topic", "_kafka_partition", "_kafka_offset") == [
        (1, "a", None, "upsert", "events", 0, 0),
        (1, "b", None, "upsert", "events", 0, 1),
        (2, "gone", None, "delete", "events", 0, 2),
        (1, None, 5, "delete", "events", 0, 3),
        (1, "c", None, "upsert", "events", 0, 4),
    ]
    stamps = [each[0].timestamp() for each in rows_of(result, "_kafka_timestamp")]
    assert stamps == [1_700_000_000 + i / 1000 for i in range(5)]
    assert changes(result) == ([0, 1, 4], [2, 3])
    assert (result.written, result.dropped, result.dead_letters) == (5, 0, [])
    fields = parse_schema(tables["ns.h"].schema_json).fields
    assert [f.name for f in fields if f.required] == []
    assert {f.name for f in fields} == {"id", "name", "op", "late", *OWN}
    assert {f.name for f in parse_schema(tables["ns.t"].schema_json).fields} <= {"id", "name", "op", "late"}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_record_is_in_both_or_in_none(way: Way) -> None:
    """A record that either of the two refuses is one dead letter, and a row of neither."""
    chosen = keyed(data_type=EvolveMode.FREEZE)
    made = with_history(plan(defaults=chosen, overrides=[("ns.h", policy(data_type=EvolveMode.FREEZE))]))
    narrow = target("ns.h", {"id": "int", "name": "string", **dict.fromkeys(OWN[:2], "string")})
    given = {
        "ns.t": target(columns=COLUMNS, table_policy=chosen),
        "ns.h": replace(narrow, policy=made.write.tables.policy_for("ns.h")),
    }
    values = [{"id": 1, "name": "a"}, {"id": 2**40, "name": "b"}, {"name": "no key"}, {"id": 2, "op": "d"}]
    result = landed(values, made, way, given)
    assert rows_of(result, "id", "_op") == [(1, "upsert"), (2, "delete")]
    assert changes(result) == ([0], [3])
    assert [d.offset for d in result.dead_letters] == [1, 2]
    assert result.dead_letters[1].code == "FLOE-D311"
    assert result.written == 2


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_history_of_ordered_records_has_those_that_are_too_old(way: Way) -> None:
    """Whatever wins in the table, each record that has what orders it is in the history, as it came; one that has not
    is in neither."""
    chosen = keyed(columns=EvolveMode.EVOLVE)
    chosen = replace(chosen, write=replace(chosen.write, order_field="name"))
    made = with_history(plan(defaults=chosen, hints=(HINTS[0], FieldHint("name", "string"))))
    values = [{"id": 1, "name": "b"}, {"id": 1, "name": "a"}, {"id": 1, "name": "0", "op": "d"}, {"id": 1, "op": "d"}]
    given = {"ns.t": target(columns=COLUMNS, table_policy=chosen)}
    result = landed(values, made, way, given)
    assert rows_of(result, "name", "_op") == [("b", "upsert"), ("a", "upsert"), ("0", "delete")]
    assert changes(result) == ([0, 1], [2])
    assert [(d.offset, d.code) for d in result.dead_letters] == [(3, "FLOE-D312")]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_the_history_has_the_columns_of_the_table(way: Way) -> None:
    """A history that is made later has the columns and types that the table has, however it came by them; columns of
    its own names are its own."""
    columns: dict[str, str | object] = {"id": "long", "n": "decimal(20, 4)", "old": "date", "_op": "string"}
    made = with_history(plan(defaults=keyed(columns=EvolveMode.EVOLVE)))
    given = {"ns.t": target(columns=columns, table_policy=made.write.tables.defaults)}
    result = landed([{"id": 1, "name": "x", "_op": "mine"}], made, way, given)
    found = {f.name: str(f.field_type) for f in parse_schema(given["ns.h"].schema_json).fields}
    assert found == {
        "id": "long",
        "n": "decimal(20, 4)",
        "old": "date",
        "name": "string",
        "_op": "string",
        "_kafka_topic": "string",
        "_kafka_partition": "int",
        "_kafka_offset": "long",
        "_kafka_timestamp": "timestamptz",
    }
    assert rows_of(result, "_op", "id") == [("upsert", 1)]
    # What the table gains later, the history gains with the table's type.
    wider = target(columns={**columns, "name": "string", "m": "float"}, table_policy=made.write.tables.defaults)
    given["ns.t"] = wider
    if way is not WAYS["typed"]:
        landed([{"id": 1, "m": 1.5}], made, way, given)
        fields = {f.name: str(f.field_type) for f in parse_schema(given["ns.h"].schema_json).fields}
        assert fields["m"] == "float"


@pytest.mark.parametrize("way", [way for name, way in WAYS.items() if name != "typed"])
def test_a_tombstone_is_a_row_with_its_key(way: Way) -> None:
    """A record without a value has its key in the history, and nothing else but where it stood."""
    made = plan(defaults=keyed("key_id", delete_when=BY_TOMBSTONE, columns=EvolveMode.EVOLVE), hints=HINTS[1:])
    made = with_history(replace(made, decode=replace(made.decode, key=KeySpec(FormatSpec(), "key_"))))
    keys = [b'{"id": 1}', b'{"id": 1}', None]
    tables: dict[str, TableTarget] = {}

    def keyed_way(records: Any, chosen: Plan, known: dict[str, TableTarget]) -> BlockResult:
        return way(replace(records, keys=keys), chosen, known)

    result = landed([{"id": 5, "name": "a"}, None, None], made, keyed_way, tables)
    assert rows_of(result, "key_id", "name", "_op", "_kafka_offset") == [
        (1, "a", "upsert", 0),
        (1, None, "delete", 1),
    ]
    assert [d.code for d in result.dead_letters] == ["FLOE-D311"]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_history_that_cannot_be_written_takes_no_change_alone(way: Way) -> None:
    """While the history is refused, its table takes nothing either: a change that the history lacks could not be made
    up for."""
    made = kept()
    made = replace(made, route=replace(made.route, refused_tables=(("ns.h", "it is broken"),)))
    given = {"ns.t": target(columns=COLUMNS, table_policy=made.write.tables.defaults)}
    result = way(block([{"id": 1, "name": "a"}, {"id": 1, "op": "d"}]), made, given)
    assert (result.needs, result.keyed, result.rows, result.written) == ({}, {}, {}, 0)
    assert [(d.code, "ns.h" in d.message) for d in result.dead_letters] == [("FLOE-D205", True)] * 2


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("only", ["ns.h", "ns.t"])
def test_one_of_the_two_can_be_asked_for_alone(way: Way, only: str) -> None:
    """What goes to the other is dropped, as it has it."""
    made = kept()
    made = replace(made, route=replace(made.route, only_tables=(only,)))
    values = [{"id": 1, "name": "a"}, {"id": 1, "op": "d"}]
    result = landed(values, made, way, {"ns.t": target(columns=COLUMNS, table_policy=made.write.tables.defaults)})
    assert (list(result.rows), list(result.keyed)) == ((["ns.h"], []) if only == "ns.h" else ([], ["ns.t"]))
    assert (result.written, result.dropped) == (2, 0)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_record_may_go_elsewhere_as_well(way: Way) -> None:
    """With all_match a table beside the two has its row, and only the table's changes are in the history."""
    made = plan(
        [RouteRule("ns.t"), RouteRule("ns.log")],
        mode=RouteMode.ALL_MATCH,
        defaults=policy(),
        overrides=[("ns.t", keyed(columns=EvolveMode.EVOLVE))],
        hints=HINTS[:1],
    )
    values = [{"id": 1, "name": "a"}, {"name": "b"}, {"id": 1, "op": "d"}]
    result = landed(values, with_history(made), way)
    assert rows_of(result, "_kafka_offset", "_op") == [(0, "upsert"), (2, "delete")]
    assert len(result.rows["ns.log"]) == 2
    assert "_op" not in result.rows["ns.log"].column_names
    assert (result.written, [d.offset for d in result.dead_letters]) == (2, [1])


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_records_without_a_key_make_no_history(way: Way) -> None:
    """Where no record has a key, neither of the two tables is made."""
    tables: dict[str, TableTarget] = {}
    made = with_history(plan(defaults=keyed("name", columns=EvolveMode.EVOLVE)))
    landed([{"id": 1}, {"op": "d"}, {"name": None}], made, way, tables)
    assert tables == {}


def test_an_override_of_the_history_says_else() -> None:
    """Its own override is its policy; without one it has its table's, but for what is of keys."""
    tables = kept().write.tables
    mine = tables.policy_for("ns.h")
    assert not mine.write.is_upsert
    assert (mine.create.identifier_fields, mine.evolve.columns) == ((), EvolveMode.EVOLVE)
    own = replace(tables, overrides=(("ns.h", policy(EvolveMode.FREEZE)),))
    assert own.policy_for("NS.H").evolve.columns is EvolveMode.FREEZE
    assert own.policy_for("ns.t").write.is_upsert
    assert (own.history_of("ns.t"), own.whose_history("ns.h"), own.history_of("ns.h")) == ("ns.h", "ns.t", None)


_DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from([1, 2, 3, None]),
        "op": st.sampled_from(["c", "u", "d", None]),
        "name": st.one_of(st.none(), st.sampled_from(["a", "b", "ä"])),
        "late": st.integers(0, 3),
    },
)


@settings(deadline=None, max_examples=30)
@given(values=st.lists(_DOCUMENTS, min_size=1, max_size=25), cuts=st.lists(st.integers(0, 25), max_size=3))
def test_the_history_is_the_list_of_changes(values: list[dict[str, Any]], cuts: list[int]) -> None:
    """Whichever way records take and wherever a block is cut, the history has each record with a key, once and in
    order."""
    expected = [
        (at, each["id"], each.get("name"), each.get("late"), "delete" if each.get("op") == "d" else "upsert")
        for at, each in enumerate(values)
        if each.get("id") is not None
    ]
    made = kept()
    bounds = sorted({0, len(values), *(min(cut, len(values)) for cut in cuts)})
    for way in WAYS.values():
        given: dict[str, TableTarget] = {}
        if not expected:
            continue
        landed(values, made, way, given)
        parts = [way(part_of(block(values), a, b), made, given) for a, b in pairwise(bounds)]
        columns = ("_kafka_offset", "id", "name", "late", "_op")
        assert [row for part in parts for row in rows_of(part, *columns)] == expected
        assert sum(part.written + len(part.dead_letters) + part.dropped for part in parts) == len(values)


@pytest.mark.parametrize("own", [False, True], ids=["partitioned alike", "of its own policy"])
@pytest.mark.parametrize("way", JSON_WAYS.values(), ids=JSON_WAYS)
def test_a_field_with_the_name_of_a_partition_field_keeps_its_value(way: Way, own: bool) -> None:
    """The table renames the column (`id_bucket` partitions it), and its history does, too, if it is partitioned alike;
    the value of updates and of deletes is in the history under the name that its column has there."""
    chosen = keyed(columns=EvolveMode.EVOLVE)
    chosen = replace(chosen, create=replace(chosen.create, partition_by=(PartitionFieldSpec("id", "bucket", 4),)))
    overrides = [("ns.h", policy(columns=EvolveMode.EVOLVE))] if own else ()
    made = with_history(plan(defaults=chosen, overrides=overrides, hints=(HINTS[0],)))
    tables: dict[str, TableTarget] = {}
    landed([{"id": 1, "name": "a"}], made, way, tables)
    values = [{"id": 1, "name": "a", "id_bucket": "x"}, {"id": 1, "op": "d", "id_bucket": "y"}]
    result = landed(values, made, way, tables)
    column = "id_bucket" if own else "id_bucket_"
    assert rows_of(result, "id", column, "_op") == [(1, "x", "upsert"), (1, "y", "delete")]
    assert "id_bucket_" in {field.name for field in parse_schema(tables["ns.t"].schema_json).fields}
