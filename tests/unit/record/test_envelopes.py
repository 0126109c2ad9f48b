"""What wraps records: fields of Debezium's envelope that are asked for, truncates, Connect's JSON with schemas, and keys that
are no objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from framework.config.spec import Envelope, EvolveMode, FormatSpec, KeySpec, TablePolicy, Truncates
from framework.plan.model import Plan
from framework.record.model import BlockResult, RecordBlock
from framework.record.process import process_block
from framework.testing.tables import MemoryTables
from testbed.record_samples import block, plan, policy, target

FIELDS = ("ts_us", "ts_ns", "transaction", "source.version")
SOURCE = {"table": "t", "version": "3.1", "secret": 1}


def made(spec: FormatSpec, key: KeySpec | None = None, defaults: TablePolicy | None = None) -> Plan:
    found = plan(defaults=defaults)
    return replace(found, decode=replace(found.decode, format=spec, key=key))


def landed(records: RecordBlock, pipeline: Plan) -> BlockResult:
    """The block, with the tables that its records ask for."""
    tables = MemoryTables(pipeline, ())
    while (result := process_block(records, pipeline, tables.targets)).needs:
        for need in result.needs.values():
            tables.satisfy(need)
    return result


def with_schema(payload: Mapping[str, Any], fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"schema": {"type": "struct", "fields": fields, "optional": False}, "payload": payload}


AFTER = {"field": "after", "type": "struct", "optional": True, "fields": [{"field": "id", "type": "int64"}]}
ENVELOPE = [
    AFTER,
    {"field": "op", "type": "string"},
    {"field": "ts_us", "type": "int64", "optional": True},
    {"field": "transaction", "type": "struct", "optional": True, "fields": [{"field": "id", "type": "string"}]},
    {
        "field": "source",
        "type": "struct",
        "optional": True,
        "fields": [{"field": "version", "type": "string"}, {"field": "secret", "type": "int64"}],
    },
]


@pytest.mark.parametrize("typed", [False, True])
def test_fields_of_the_envelope_are_columns_when_asked_for(typed: bool) -> None:
    """Of Debezium's JSON with schemas and without: the fields that the file names, and no others."""
    payload = {"op": "c", "after": {"id": 1}, "ts_us": 5, "transaction": {"id": "7"}, "source": SOURCE}
    value = with_schema({**payload, "source": {"version": "3.1", "secret": 1}}, ENVELOPE) if typed else payload
    spec = FormatSpec(envelope=Envelope.DEBEZIUM, envelope_fields=FIELDS)
    (row,) = landed(block([value]), made(spec)).rows["ns.t"].to_pylist()
    assert (row["__ts_us"], row["__transaction"], row["__source_version"]) == (5, {"id": "7"}, "3.1")
    assert not {"__ts_ns", "__source_secret", "__source"} & row.keys()
    plainly = landed(block([value]), made(FormatSpec(envelope=Envelope.DEBEZIUM))).rows["ns.t"]
    assert not {"__ts_us", "__transaction", "__source_version"} & set(plainly.column_names)


@pytest.mark.parametrize("typed", [False, True])
def test_truncates_are_dead_letters_or_ignored(typed: bool) -> None:
    """What is ignored is counted as dropped; no row looks like a truncate."""
    fields = [AFTER, {"field": "op", "type": "string"}]
    values: list[Any] = [
        {"op": "c", "after": {"id": 1}},
        {"op": "t", "after": None},
        {"op": "t"},
        {"op": "m", "after": None},
    ]
    values += [{"op": "c", "after": {"id": 2, "t": "t"}}] if not typed else []
    records = block([with_schema({"after": None, **value}, fields) if typed else value for value in values])
    rows = len(values) - 3
    for on_truncate, letters, dropped in ((Truncates.DEAD_LETTER, 3, 0), (Truncates.IGNORE, 1, 2)):
        result = landed(records, made(FormatSpec(envelope=Envelope.DEBEZIUM, on_truncate=on_truncate)))
        if typed:
            assert {letter.code for letter in result.dead_letters} <= {"FLOE-D121", "FLOE-D122"}
        assert (len(result.dead_letters), result.dropped, result.written) == (letters, dropped, rows)


def test_connects_json_with_schemas_has_the_types_of_its_schema() -> None:
    """Outside of Debezium's envelope: columns are those of the payload; a record without a schema is its payload."""
    fields = [
        {"field": "id", "type": "int32"},
        {"field": "at", "type": "int64", "name": "org.apache.kafka.connect.data.Timestamp", "optional": True},
    ]
    values = [
        with_schema({"id": 1, "at": 0}, fields),
        {"schema": None, "payload": {"id": 2}},
        {"id": 3},
        {"schema": None, "payload": None},
        {"schema": "text", "payload": {"id": 4}},
    ]
    pipeline = made(FormatSpec(envelope=Envelope.CONNECT), defaults=policy(EvolveMode.EVOLVE))
    result = landed(block(values), pipeline)
    rows = sorted(result.rows["ns.t"].select(["id", "at"]).to_pylist(), key=lambda row: (row["id"] is None, row["id"]))
    assert [row["id"] for row in rows] == [1, 2, 3, None]
    assert str(rows[0]["at"]) == "1970-01-01 00:00:00+00:00"
    assert [(letter.offset, letter.code) for letter in result.dead_letters] == [(3, "FLOE-D122")]


@pytest.mark.parametrize(
    ("key", "found"),
    [
        (b"5", {"key": 5}),
        (b'"five"', {"key": "five"}),
        (b'{"id": 5}', {"key_id": 5}),
        (b'{"schema": {"type": "int32"}, "payload": 5}', {"key": 5}),
        (b'{"schema": null, "payload": {"id": 5}}', {"key_id": 5}),
        (b'{"schema": "mine", "payload": 5}', {"key_schema": "mine", "key_payload": 5}),
        (b"null", {}),
        (None, {}),
    ],
)
def test_a_key_is_a_column_or_its_fields_are(key: bytes | None, found: dict[str, object]) -> None:
    """A JSON key that is no object becomes one column, as keys of other formats do; what Connect wraps is unwrapped."""
    columns: dict[str, Any] = {
        "n": "long",
        "key": "string",
        "key_id": "long",
        "key_schema": "string",
        "key_payload": "long",
    }
    columns["key"] = "long" if isinstance(found.get("key"), int) else "string"
    records = replace(block([{"n": 1}]), keys=[key])
    pipeline = made(FormatSpec(), KeySpec(FormatSpec()))
    result = process_block(records, pipeline, {"ns.t": target(columns=columns)})
    assert not result.dead_letters
    (row,) = result.rows["ns.t"].to_pylist()
    assert {name: value for name, value in row.items() if value is not None} == {"n": 1, **found}


@pytest.mark.parametrize("key", [b"five", b"", b'5, "x": 6', b"5}", b'{"a": 1, "a": 2}'])
def test_a_key_that_is_not_one_json_value_is_refused(key: bytes) -> None:
    """Nothing that stands behind a value is taken for a field."""
    pipeline = made(FormatSpec(), KeySpec(FormatSpec()))
    result = process_block(replace(block([{"n": 1}]), keys=[key]), pipeline, {"ns.t": target(columns={"n": "long"})})
    assert [letter.code for letter in result.dead_letters] in (["FLOE-D101"], ["FLOE-D103"])
