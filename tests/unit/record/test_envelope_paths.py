"""Envelopes that a file describes: the row of each change, and what happened in Debezium's letters."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.config.spec import Envelope, EnvelopePaths, EvolveMode, FormatSpec, TablePolicy, WriteMode, WritePolicy
from framework.config.values.envelopes import ENVELOPES
from framework.plan.model import Plan
from framework.record.model import BlockResult
from framework.record.process import process_block
from testbed.record_samples import block, plan, policy, target
from tests.unit.record.test_keyed_rows import JSON_WAYS

OWN = EnvelopePaths("op", "after", "before")
COLUMNS = {"id": "long", "name": "string", "__op": "string"}


def described(paths: EnvelopePaths, table_policy: TablePolicy | None = None, explode: str | None = None) -> Plan:
    found = plan(defaults=table_policy or policy(EvolveMode.DISCARD_VALUE))
    form = FormatSpec(envelope=Envelope.FIELDS, envelope_paths=paths, explode=explode)
    return replace(found, decode=replace(found.decode, format=form))


def rows(result: BlockResult) -> list[tuple[Any, ...]]:
    assert not result.needs
    return [tuple(row.values()) for row in result.rows["ns.t"].to_pylist()] if "ns.t" in result.rows else []


def letters(result: BlockResult) -> list[tuple[int, str, str | None]]:
    return [(letter.offset, letter.code, letter.field_path) for letter in result.dead_letters]


def test_a_change_of_maxwell() -> None:
    values = [
        {"database": "shop", "table": "t", "type": "insert", "ts": 1, "data": {"id": 1, "name": "a"}},
        {"database": "shop", "table": "t", "type": "update", "data": {"id": 1, "name": "b"}, "old": {"name": "a"}},
        {"database": "shop", "table": "t", "type": "delete", "data": {"id": 1, "name": "b"}},
        {"database": "shop", "table": "t", "type": "bootstrap-start", "data": {}},
        {"database": "shop", "table": "t", "type": "table-create", "def": {}},
        {"database": "shop", "table": "t", "type": "bootstrap-insert", "data": {"id": 2}},
    ]
    known = {"ns.t": target(columns={**COLUMNS, "__table": "string"}, table_policy=policy(EvolveMode.DISCARD_VALUE))}
    for way in JSON_WAYS.values():
        result = way(block(values), described(ENVELOPES["maxwell"]), known)
        assert rows(result) == [(1, "a", "c", "t"), (1, "b", "u", "t"), (1, "b", "d", "t"), (2, None, "r", "t")]
        assert (result.written, result.dropped) == (4, 2)


def test_canal_has_several_rows_in_one_event() -> None:
    """With `explode: data` each row is a change; events without rows are dropped."""
    values = [
        {"type": "INSERT", "table": "t", "data": [{"id": "1", "name": "a"}, {"id": "2", "name": "b"}], "old": None},
        {"type": "ALTER", "table": "t", "data": None, "isDdl": True},
        {"type": "DELETE", "table": "t", "data": [{"id": "1", "name": "a"}]},
        *({"type": word, "table": "t", "data": None} for word in ("XACOMMIT", "XAROLLBACK", "GTID", "MHEARTBEAT")),
    ]
    known = {"ns.t": target(columns=COLUMNS, table_policy=policy(EvolveMode.DISCARD_VALUE))}
    result = process_block(block(values), described(ENVELOPES["canal"], explode="data"), known)
    assert rows(result) == [(1, "a", "c"), (2, "b", "c"), (1, "a", "d")]
    assert (result.written, result.dropped) == (2, 5)
    # Without `explode` as well, where a transaction's end has no rows.
    ends = [{"type": word, "data": None} for word in ("XACOMMIT", "XAROLLBACK", "GTID", "MHEARTBEAT")]
    assert process_block(block(ends), described(ENVELOPES["canal"]), known).dropped == len(ends)


def test_a_change_of_dms() -> None:
    at = {"timestamp": "2026-01-04T12:00:00Z", "table-name": "t"}
    values = [
        {"data": {"id": 1}, "metadata": {**at, "operation": "load"}},
        {"metadata": {**at, "operation": "create-table"}},
        {"data": {"id": 1}, "metadata": {**at, "operation": "delete"}},
    ]
    columns = {"id": "long", "__op": "string", "__metadata_table_name": "string"}
    known = {"ns.t": target(columns=columns, table_policy=policy(EvolveMode.DISCARD_VALUE))}
    result = process_block(block(values), described(ENVELOPES["dms"]), known)
    assert rows(result) == [(1, "r", "t"), (1, "d", "t")]
    assert result.dropped == 1


@pytest.mark.parametrize(
    ("value", "code", "field"),
    [
        ({"after": {"id": 1}}, "FLOE-D121", "op"),
        ({"op": 5, "after": {"id": 1}}, "FLOE-D121", "op"),
        ({"op": "purge", "after": {"id": 1}}, "FLOE-D121", "op"),
        ({"op": "insert"}, "FLOE-D122", "after"),
        ({"op": "insert", "after": None, "before": {"id": 1}}, "FLOE-D122", "after"),
        ({"op": "delete", "after": {"id": 1}}, "FLOE-D122", "before"),
        ({"op": "insert", "after": [{"id": 1}]}, "FLOE-D122", "after"),
        ({"op": "insert", "after": "no row"}, "FLOE-D122", "after"),
        (b"{", "FLOE-D101", None),
        (b"[]", "FLOE-D102", None),
        (b'{"op": "c", "op": "u", "after": {}}', "FLOE-D103", "op"),
        (b'{"op": "\xff"}', "FLOE-D104", None),
    ],
)
def test_what_is_no_change_of_a_row_is_a_dead_letter(value: Any, code: str, field: str | None) -> None:
    known = {"ns.t": target(columns=COLUMNS, table_policy=policy(EvolveMode.DISCARD_VALUE))}
    result = process_block(block([value, {"op": "I", "after": {"id": 2}}]), described(OWN), known)
    assert letters(result) == [(0, code, field)]
    assert rows(result) == [(2, None, "c")]


def test_the_row_may_stand_in_a_text() -> None:
    """As MongoDB's connectors write it, also in Debezium's own envelope."""
    values = [{"op": "c", "after": json.dumps({"id": 1, "name": "é"})}, {"op": "c", "after": ' {"id": 2} '}]
    known = {"ns.t": target(columns=COLUMNS, table_policy=policy(EvolveMode.DISCARD_VALUE))}
    for form in (described(OWN), debezium()):
        assert rows(process_block(block(values), form, known)) == [(1, "é", "c"), (2, None, "c")]


def test_a_row_without_fields_is_a_row() -> None:
    """As in plain JSON, where `{}` is a row of nulls; also inside of a text."""
    values: list[Any] = [{"op": "c", "after": {}}, {"op": "c", "after": " { } "}]
    known = {"ns.t": target(columns=COLUMNS, table_policy=policy(EvolveMode.DISCARD_VALUE))}
    for form in (described(OWN), debezium()):
        for way in JSON_WAYS.values():
            assert rows(way(block(values), form, known)) == [(None, None, "c")] * 2


def debezium(table_policy: TablePolicy | None = None) -> Plan:
    found = plan(defaults=table_policy or policy(EvolveMode.DISCARD_VALUE))
    return replace(found, decode=replace(found.decode, format=FormatSpec(envelope=Envelope.DEBEZIUM)))


_row = st.none() | st.fixed_dictionaries({"id": st.integers(1, 5)}, optional={"name": st.text(max_size=3)})
_events = st.lists(
    st.none()
    | st.fixed_dictionaries(
        {}, optional={"op": st.sampled_from(["c", "u", "d", "r", "t", ""]), "before": _row, "after": _row, "x": _row}
    ),
    max_size=12,
)


@settings(max_examples=80, deadline=None)
@given(_events, st.booleans())
def test_debezium_s_envelope_by_its_paths_is_debezium_s(events: list[Any], is_upserted: bool) -> None:
    """Described by its paths, Debezium's envelope gives the same rows and deletes, and the same records are no changes."""
    chosen = policy(EvolveMode.DISCARD_VALUE)
    if is_upserted:
        chosen = replace(chosen, write=WritePolicy(WriteMode.UPSERT, ("id",)))
    known = {"ns.t": target(columns=COLUMNS, table_policy=chosen)}
    paths = EnvelopePaths("op", "after", "before", operations=tuple((letter, (letter,)) for letter in "cudr"))
    found = []
    for of in (described(paths, chosen), debezium(chosen)):
        for way in JSON_WAYS.values():
            result = way(block(events), of, known)
            changes = result.keyed.get("ns.t")
            keyed = [] if changes is None else [
                (changes.upserts.to_pylist(), changes.upsert_offsets.tolist()),
                (changes.deletes.to_pylist(), changes.delete_offsets.tolist()),
            ]  # fmt: skip
            found.append((rows(result), keyed, [each[0] for each in letters(result)], result.written, result.dropped))
    assert all(each == found[0] for each in found)
