"""Records that lack values of their row: Debezium's placeholder in all its forms, and updates of the changed columns alone."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.types import (
    BinaryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
    UUIDType,
)

from framework.config.names.metadata import kept_column
from framework.config.spec import (
    DeleteWhen,
    Envelope,
    EvolveMode,
    FormatSpec,
    TablePolicy,
    UnavailableValues,
    Updates,
    WriteMode,
    WritePolicy,
)
from framework.config.values.envelopes import ENVELOPES
from framework.plan.model import Plan
from framework.record.model import BlockResult, TableTarget
from framework.record.process import process_block
from testbed.record_samples import block, plan, policy, target
from tests.unit.record.test_keyed_rows import JSON_WAYS

PLACEHOLDER = "__debezium_unavailable_value"
BYTES = PLACEHOLDER.encode()
JAVA_UUID = str(UUID(bytes=hashlib.md5(BYTES).digest(), version=3))
FORMS: dict[str, tuple[Any, str]] = {
    "text": (PLACEHOLDER, "string"),
    "base64": (base64.b64encode(BYTES).decode(), "binary"),
    "hex": (BYTES.hex(), "string"),
    "texts": ([PLACEHOLDER], "list<string>"),
    "numbers": (list(BYTES), "list<long>"),
    "uuids": ([JAVA_UUID], "list<uuid>"),
    "map": ({PLACEHOLDER: PLACEHOLDER}, "map<string, string>"),
    "map as text": (json.dumps({PLACEHOLDER: PLACEHOLDER}), "string"),
    "compact map as text": (json.dumps({PLACEHOLDER: PLACEHOLDER}, separators=(",", ":")), "string"),
    "where a struct is": (PLACEHOLDER, "struct<a: long>"),
    "where a number is": (PLACEHOLDER, "long"),
    "where a time is": (PLACEHOLDER, "timestamptz"),
}

TYPES: dict[str, IcebergType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "long": LongType(),
    "timestamptz": TimestamptzType(),
    "list<string>": ListType(10, StringType(), element_required=False),
    "list<long>": ListType(10, LongType(), element_required=False),
    "list<int>": ListType(10, IntegerType(), element_required=False),
    "list<uuid>": ListType(10, UUIDType(), element_required=False),
    "map<string, string>": MapType(11, StringType(), 12, StringType(), value_required=False),
    "struct<a: long>": StructType(NestedField(13, "a", LongType(), required=False)),
}


def upserted(**words: Any) -> TablePolicy:
    write = WritePolicy(WriteMode.UPSERT, ("id",), delete_when=words.pop("delete_when", DeleteWhen("op", "d")), **words)
    return replace(policy(EvolveMode.DISCARD_VALUE), write=write)


def made(table_policy: TablePolicy, envelope: Envelope = Envelope.NONE) -> Plan:
    found = plan(defaults=table_policy)
    return replace(found, decode=replace(found.decode, format=FormatSpec(envelope=envelope)))


def kept(result: BlockResult, table: str = "ns.t") -> dict[int, tuple[dict[str, Any], str]]:
    """By offset the partial rows and the ids of what they keep; whole rows keep nothing."""
    assert not result.needs
    changes = result.keyed[table]
    found = {
        at: (row, "") for at, row in zip(changes.upsert_offsets.tolist(), changes.upserts.to_pylist(), strict=True)
    }
    if changes.partial is not None:
        rows = zip(changes.partial.rows.to_pylist(), changes.partial.kept.to_pylist(), strict=True)
        found |= dict(zip(changes.partial.offsets.tolist(), rows, strict=True))
    return found


@pytest.mark.parametrize("way", JSON_WAYS)
@pytest.mark.parametrize("form", FORMS)
def test_a_placeholder_is_known_in_all_its_forms(way: str, form: str) -> None:
    """Whatever the column's type makes of the placeholder, the row keeps its value; what looks like it and is longer is a
    value as any other."""
    value, kind = FORMS[form]
    tables = {"ns.t": target(columns={"id": "long", "v": TYPES[kind], "n": "long"}, table_policy=upserted())}
    found = kept(JSON_WAYS[way](block([{"id": 1, "v": value, "n": 2}, {"id": 2, "n": 3}]), made(upserted()), tables))
    assert found == {0: ({"id": 1, "v": None, "n": 2}, "2"), 1: ({"id": 2, "v": None, "n": 3}, "")}


@pytest.mark.parametrize("way", JSON_WAYS)
def test_what_is_no_placeholder_is_a_value(way: str) -> None:
    tables = {"ns.t": target(columns={"id": "long", "v": "string"}, table_policy=upserted())}
    texts = [PLACEHOLDER + " ", " " + PLACEHOLDER, PLACEHOLDER.upper(), f"see {PLACEHOLDER}", json.dumps([PLACEHOLDER])]
    records = block([{"id": n, "v": text} for n, text in enumerate(texts)])
    found = kept(JSON_WAYS[way](records, made(upserted()), tables))
    assert found == {n: ({"id": n, "v": text}, "") for n, text in enumerate(texts)}


@pytest.mark.parametrize("way", JSON_WAYS)
def test_the_policy_says_what_a_placeholder_becomes(way: str) -> None:
    """`null` writes null, `dead_letter` refuses the record by name, with its bytes; the key and deletes are as ever."""
    columns: dict[str, Any] = {"id": "long", "v": "string"}
    records = block(
        [{"id": 1, "v": PLACEHOLDER}, {"id": 1, "v": PLACEHOLDER, "op": "d"}, {"id": PLACEHOLDER, "v": "x"}]
    )

    null = upserted(unavailable=UnavailableValues.NULL)
    result = JSON_WAYS[way](records, made(null), {"ns.t": target(columns=columns, table_policy=null)})
    assert kept(result) == {0: ({"id": 1, "v": None}, "")}
    assert [(d.offset, d.code) for d in result.dead_letters] == [(2, "FLOE-D311")]

    refuses = upserted(unavailable=UnavailableValues.DEAD_LETTER)
    result = JSON_WAYS[way](records, made(refuses), {"ns.t": target(columns=columns, table_policy=refuses)})
    assert [(d.offset, d.code, d.field_path) for d in result.dead_letters] == [
        (0, "FLOE-D314", "v"),
        (2, "FLOE-D314", "id"),
    ]
    assert result.dead_letters[0].value == records.values[0]
    assert result.keyed["ns.t"].delete_offsets.tolist() == [1]


@pytest.mark.parametrize("way", JSON_WAYS)
def test_a_required_column_is_not_relaxed_for_what_the_row_keeps(way: str) -> None:
    """Whether a row has the value is known to whoever writes it."""
    tables = {"ns.t": target(columns={"id": "long", "v": "string"}, required=["id", "v"], table_policy=upserted())}
    found = kept(JSON_WAYS[way](block([{"id": 1, "v": PLACEHOLDER}]), made(upserted()), tables))
    assert found == {0: ({"id": 1, "v": None}, "2")}


@pytest.mark.parametrize("way", JSON_WAYS)
def test_a_partial_update_keeps_what_it_does_not_name(way: str) -> None:
    """A field that is not there keeps its value, one that is null does not; under the table's case policy, and by whatever
    name the field had."""
    partial = upserted(updates=Updates.PARTIAL)
    tables = {"ns.t": target(columns={"id": "long", "Name": "string", "n": "long"}, table_policy=partial)}
    records = block(
        [{"id": 1, "NAME": "x"}, {"id": 1, "n": None}, {"id": 1, "name": None, "N": 1}, {"id": 1, "op": "d"}]
    )
    result = JSON_WAYS[way](records, made(partial), tables)
    assert {at: found[1] for at, found in kept(result).items()} == {0: "3", 1: "2", 2: ""}
    assert result.keyed["ns.t"].delete_offsets.tolist() == [3]


@pytest.mark.parametrize("way", JSON_WAYS)
def test_of_debezium_updates_alone_are_partial(way: str) -> None:
    """An insert and a snapshot have the whole row; columns that tell of the change are never kept."""
    partial = upserted(updates=Updates.PARTIAL, delete_when=None)
    columns: dict[str, Any] = {"id": "long", "v": "string", "__op": "string", "__source_lsn": "long"}
    tables = {"ns.t": target(columns=columns, table_policy=partial)}
    records = block([{"op": op, "after": {"id": 1}, "source": {}} for op in "cru"] + [{"op": "d", "before": {"id": 1}}])
    result = JSON_WAYS[way](records, made(partial, Envelope.DEBEZIUM), tables)
    assert {at: found[1] for at, found in kept(result).items()} == {0: "", 1: "", 2: "2"}
    assert result.keyed["ns.t"].delete_offsets.tolist() == [3]


@pytest.mark.parametrize("way", JSON_WAYS)
@pytest.mark.parametrize("name", [*ENVELOPES, "debezium"])
def test_what_is_kept_of_an_envelope_is_of_this_change(way: str, name: str) -> None:
    """An update without a transaction is in none: it does not take that of the change before."""
    partial = upserted(updates=Updates.PARTIAL, delete_when=None)
    if name == "debezium":
        form = FormatSpec(
            envelope=Envelope.DEBEZIUM, envelope_fields=("transaction", "ts_us", "source.version", "note")
        )
        record: dict[str, Any] = {"op": "u", "after": {"id": 1}}
        columns = ["__op", "__transaction", "__ts_us", "__source_version", "__note"]
    else:
        paths = ENVELOPES[name]
        form = FormatSpec(envelope=Envelope.FIELDS, envelope_paths=paths)
        record = {"type": "update", "metadata": {"operation": "update"}, "data": {"id": 1}}
        columns = ["__op", *map(kept_column, paths.fields)]
    found = plan(defaults=partial)
    found = replace(found, decode=replace(found.decode, format=form))
    types: dict[str, Any] = {"id": "long", "v": "string", **dict.fromkeys(columns, "string")}
    result = JSON_WAYS[way](block([record]), found, {"ns.t": target(columns=types, table_policy=partial)})
    assert kept(result)[0][1] == "2"


@pytest.mark.parametrize("way", JSON_WAYS)
def test_yugabytes_cells_are_values(way: str) -> None:
    """A column of YugabyteDB's connector is `{"value": ..., "set": true}`, and null where it did not change; a null of the
    row is a cell whose value is null."""
    partial = upserted(updates=Updates.PARTIAL, delete_when=None)
    tables = {"ns.t": target(columns={"id": "long", "v": "string", "n": "long"}, table_policy=partial)}

    def cell(value: object) -> dict[str, object]:
        return {"value": value, "set": True}

    records = block(
        [
            {"op": "c", "after": {"id": cell(1), "v": cell("x"), "n": cell(2)}},
            {"op": "u", "after": {"id": cell(1), "v": None, "n": cell(None)}},
            {"op": "d", "before": {"id": cell(1), "v": None, "n": None}},
        ]
    )
    result = JSON_WAYS[way](records, made(partial, Envelope.DEBEZIUM), tables)
    assert kept(result) == {0: ({"id": 1, "v": "x", "n": 2}, ""), 1: ({"id": 1, "v": None, "n": None}, "2")}
    assert result.keyed["ns.t"].deletes.to_pylist() == [{"id": 1}]


def test_typed_records_have_placeholders_as_well() -> None:
    """Kafka Connect's JSON with schemas, whose columns are typed: text, bytes, lists and maps."""
    kinds: dict[str, tuple[dict[str, Any], Any, str]] = {
        "t": ({"type": "string", "optional": True}, PLACEHOLDER, "string"),
        "b": ({"type": "bytes", "optional": True}, base64.b64encode(BYTES).decode(), "binary"),
        "l": ({"type": "array", "items": {"type": "int32"}, "optional": True}, list(BYTES), "list<int>"),
        "m": (
            {"type": "map", "keys": {"type": "string"}, "values": {"type": "string"}, "optional": True},
            {PLACEHOLDER: PLACEHOLDER},
            "map<string, string>",
        ),
    }
    fields = [{"field": "id", "type": "int64"}, *({"field": name, **kind} for name, (kind, _, _) in kinds.items())]
    row = {"type": "struct", "optional": True, "fields": fields}
    schema = {"type": "struct", "fields": [{"field": "op", "type": "string"}, {"field": "after", **row}]}
    values = [{name: value for name, (_, value, _) in kinds.items()}, dict.fromkeys(kinds)]
    records = block([{"schema": schema, "payload": {"op": "u", "after": {"id": n, **v}}} for n, v in enumerate(values)])
    write = upserted(delete_when=None)
    columns: dict[str, Any] = {"id": "long"} | {name: TYPES[kind] for name, (_, _, kind) in kinds.items()}
    found = kept(
        process_block(records, made(write, Envelope.DEBEZIUM), {"ns.t": target(columns=columns, table_policy=write)})
    )
    nothing = dict.fromkeys(kinds)
    assert found == {0: ({"id": 0, **nothing}, "2,3,4,5"), 1: ({"id": 1, **nothing}, "")}


def test_a_history_has_what_the_record_has() -> None:
    """A value that the database did not log is null there: no table is asked what it was."""
    write = upserted()
    write = replace(write, write=replace(write.write, history="ns.h"))
    found = made(write)
    from framework.config.spec import HistoryTable

    tables = replace(found.write.tables, histories=(HistoryTable("ns.h", "ns.t"),))
    found = replace(found, write=replace(found.write, tables=tables))
    history = {"id": "long", "v": "string", "_op": "string"}
    known = {
        "ns.t": target(columns={"id": "long", "v": "string"}, table_policy=write),
        "ns.h": target("ns.h", columns=history, table_policy=tables.policy_for("ns.h")),
    }
    result = process_block(block([{"id": 1, "v": PLACEHOLDER}, {"id": 1, "v": "x"}]), found, known)
    assert kept(result)[0] == ({"id": 1, "v": None}, "2")
    rows = result.rows["ns.h"].select(["id", "v", "_op"]).to_pylist()
    assert rows == [{"id": 1, "v": None, "_op": "upsert"}, {"id": 1, "v": "x", "_op": "upsert"}]


scalars = st.none() | st.integers(-5, 5) | st.text(max_size=5) | st.just(PLACEHOLDER)
documents = st.lists(
    st.fixed_dictionaries(
        {"id": st.integers(0, 2)}, optional={"v": scalars, "w": scalars, "deep": st.just({"a": PLACEHOLDER})}
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=150, deadline=None)
@given(documents, st.sampled_from(list(UnavailableValues)), st.sampled_from(list(Updates)))
def test_all_ways_agree(records: list[dict[str, Any]], unavailable: UnavailableValues, updates: Updates) -> None:
    """Each way of a record finds the same rows, kept columns and refusals."""
    write = upserted(unavailable=unavailable, updates=updates)
    columns: dict[str, Any] = {"id": "long", "v": "string", "w": "long"}

    def found(way: str) -> Any:
        tables: dict[str, TableTarget] = {"ns.t": target(columns=columns, table_policy=write)}
        result = JSON_WAYS[way](block(records), made(write), tables)
        rows = kept(result) if "ns.t" in result.keyed else {}
        return rows, [(d.offset, d.code, d.field_path) for d in result.dead_letters], result.written

    first, *others = [found(way) for way in JSON_WAYS]
    assert all(other == first for other in others)
