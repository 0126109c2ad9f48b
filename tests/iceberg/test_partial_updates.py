"""Updates that do not have all values of their row: whatever a batch and its table hold, what a record lacks is what the row
had before it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, ListType, LongType, NestedField, StringType, StructType

from framework.adapters.maintenance.tables import TableCare
from framework.config.spec import (
    Deletes,
    DeleteWhen,
    EvolveMode,
    EvolvePolicy,
    KeyIndexUse,
    PartitionFieldSpec,
    TablePolicy,
    Updates,
)
from framework.config.values.maintenance import CompactionPolicy
from framework.record.model import RefusedUpdate, TaskReport, UpsertRows
from framework.record.process import process_block
from framework.table.upsert import key_index
from framework.task.upsert import filled_rows
from testbed.record_samples import block
from tests.iceberg.conftest import Lake
from tests.iceberg.keyed_pipeline import UPSERT, Key, Pipeline, upserting

pytestmark = pytest.mark.iceberg

PLACEHOLDER = "__debezium_unavailable_value"
NUMBERS = list(PLACEHOLDER.encode())
GONE = object()  # the record has no such field
KEPT = object()  # it has the placeholder
SCHEMA = Schema(
    NestedField(1, "shop", LongType(), required=True),
    NestedField(2, "code", StringType(), required=True),
    NestedField(3, "ver", LongType(), required=False),
    NestedField(4, "day", LongType(), required=False),
    NestedField(5, "the-bio", StringType(), required=False),
    NestedField(6, "tags", ListType(60, StringType(), element_required=False), required=False),
    NestedField(7, "nums", ListType(70, IntegerType(), element_required=False), required=False),
    NestedField(8, "doc", StructType(NestedField(80, "a-b", LongType(), required=False)), required=False),
    identifier_field_ids=[1, 2],
)
VALUES = ("day", "the-bio", "tags", "nums", "doc")
PLACEHOLDERS = {"the-bio": PLACEHOLDER, "tags": [PLACEHOLDER], "nums": NUMBERS, "doc": PLACEHOLDER}
SPECS = {
    "unpartitioned": [],
    "by a column that moves": [PartitionFieldSpec("day", "identity")],
    "by the key": [PartitionFieldSpec("code", "bucket", 3)],
}
Row = dict[str, Any]
Fields = Row | None  # None: deleted


class Partial(Pipeline):
    """Records travel as JSON, as tasks read them."""

    def __init__(
        self,
        lake: Lake,
        version: str = "2",
        spec: str = "unpartitioned",
        deletes: Deletes = Deletes.AUTO,
        index: KeyIndexUse = KeyIndexUse.NEVER,
        ordered: bool = False,
        updates: Updates = Updates.PARTIAL,
        schema: Schema = SCHEMA,
        nullability: EvolveMode = EvolveMode.RELAX,
    ) -> None:
        name = lake.create(f"shop.t{uuid.uuid4().hex[:8]}", schema, SPECS[spec], format_version=version)
        super().__init__(lake, name, index, deletes)
        write = replace(
            self.policy.write,
            updates=updates,
            delete_when=DeleteWhen("gone", True),
            order_field="ver" if ordered else None,
        )
        evolve = replace(EvolvePolicy(), columns=EvolveMode.DISCARD_VALUE, nullability=nullability)
        self.policy: TablePolicy = replace(UPSERT, write=write, evolve=evolve)
        self.plan = upserting(name, policy=self.policy)
        self.plan = replace(self.plan, route=replace(self.plan.route, rules=(type(self.plan.route.rules[0])(name),)))
        self.restart()
        self.held: dict[Key, Row] = {}
        self.newest: dict[Key, int] = {}
        self.ordered = ordered
        self.is_partial = updates is Updates.PARTIAL

    def keyed_rows(self, changes: Sequence[tuple[Key, Any]], first: int, schema: pa.Schema) -> UpsertRows:
        target = self.lake.tables.load_target(self.name, self.policy)
        assert target is not None
        texts = [json.dumps({"shop": key[0], "code": key[1], **document(fields)}).encode() for key, fields in changes]
        found = process_block(block(texts, first_offset=first), self.plan, {self.name: target})
        assert not found.needs, found.needs
        assert not found.dead_letters, found.dead_letters
        return found.keyed[self.name]

    def fold(self, changes: Sequence[tuple[int, Key, Fields]]) -> None:
        """In plain words: a record's fields over the row that is there."""
        placed = sorted(enumerate(changes), key=lambda each: (each[1][0], each[0]))
        records = [(key, fields) for _, (_, key, fields) in placed]
        if self.ordered:
            before = dict(self.newest)
            records = [r for r in records if r[0] not in before or before[r[0]] <= version(r[1])]
            records.sort(key=lambda r: version(r[1]))
        for key, fields in records:
            self.newest[key] = version(fields)
            old = self.held.pop(key, dict.fromkeys(VALUES))
            if is_delete(fields):
                continue
            assert fields is not None
            row = {}
            for name in VALUES:
                value = fields.get(name, GONE)
                keeps = value is KEPT or (value is GONE and self.is_partial)
                row[name] = old[name] if keeps else None if value is GONE else value
            self.held[key] = row

    def batch_of(self, changes: Sequence[tuple[int, Key, Fields]]) -> None:
        written = self.announce(changes)
        self.fold(changes)
        self.commit(written)
        self.check()

    def check(self) -> None:
        found = self.lake.plain(self.name).scan().to_arrow().to_pylist()
        held = {(row["shop"], row["code"]): {name: row[name] for name in VALUES} for row in found}
        assert len(held) == len(found), "two rows of one key"
        assert held == self.held


def version(fields: Fields) -> int:
    return 0 if fields is None else int(fields.get("ver", 0))


def is_delete(fields: Fields) -> bool:
    return fields is None or bool(fields.get("gone"))


def document(fields: Fields) -> Row:
    if fields is None:
        return {"gone": True}
    return {name: PLACEHOLDERS[name] if value is KEPT else value for name, value in fields.items() if value is not GONE}


keys = st.tuples(st.integers(1, 2), st.sampled_from(["a", "b"]))
absent = st.sampled_from([GONE, GONE, KEPT])
fields = st.fixed_dictionaries(
    {
        "day": st.just(GONE) | st.none() | st.integers(1, 2),
        "the-bio": absent | st.none() | st.sampled_from(["x", "y", ""]),
        "tags": absent | st.none() | st.sampled_from([["a"], [], [None, "b"]]),
        "nums": absent | st.none() | st.sampled_from([[1], [95, 95], []]),
        "doc": absent | st.none() | st.sampled_from([{"a-b": 1}, {"a-b": None}]),
    }
)
batches = st.lists(
    st.lists(st.tuples(st.integers(0, 1), keys, fields | fields | fields | st.none()), min_size=1, max_size=12),
    min_size=1,
    max_size=4,
)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.timeout(600)
def test_partial_updates_are_a_fold(lake: Lake, version: str, spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After each batch each row holds of each column the newest value that a record of its key had, since the key was last
    deleted: however rows go, with an index or without, and whatever was compacted or is read piece by piece."""

    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        batches,
        st.sampled_from([Deletes.AUTO, Deletes.COPY_ON_WRITE]),
        st.sampled_from(list(KeyIndexUse)),
        st.sampled_from(list(Updates)),
        st.booleans(),
        st.sampled_from([1, 1 << 26]),
    )
    def holds(found: Any, deletes: Deletes, index: KeyIndexUse, updates: Updates, compacts: bool, at_once: int) -> None:
        monkeypatch.setattr(filled_rows, "BYTES_AT_ONCE", at_once)
        monkeypatch.setattr(key_index, "LEAST_RUN_ROWS", 1)
        pipeline = Partial(lake, version, spec, deletes, index, updates=updates)
        for changes in found:
            pipeline.batch_of(changes)
            if compacts:
                policy = CompactionPolicy(min_input_files=2, delete_ratio=0.01)
                TableCare(lake.tables).compact(pipeline.name, policy, False)

    holds()


@pytest.mark.timeout(600)
def test_a_column_orders_partial_updates(lake: Lake) -> None:
    """With `order: {field: ver}` a record's values are those that were before it by that column: a change that the live row,
    or its delete, is newer than gives none."""
    versions = st.integers(1, 9)
    ordered = st.tuples(versions, fields).map(lambda each: {**each[1], "ver": each[0]})
    deletes = versions.map(lambda ver: {"gone": True, "ver": ver})
    some = st.lists(st.tuples(st.integers(0, 1), keys, ordered | ordered | deletes), min_size=1, max_size=10)

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(some, min_size=1, max_size=4))
    def holds(found: Any) -> None:
        pipeline = Partial(lake, ordered=True)
        for changes in found:
            pipeline.batch_of(changes)

    holds()


def required(*names: str) -> Schema:
    columns = [
        NestedField(f.field_id, f.name, f.field_type, required=f.required or f.name in names) for f in SCHEMA.fields
    ]
    return Schema(*columns, identifier_field_ids=[1, 2])


def test_a_required_column_keeps_its_value(lake: Lake) -> None:
    """An update without a value for a required column is no reason to relax it where the row has one."""
    pipeline = Partial(lake, schema=required("the-bio"), nullability=EvolveMode.DEAD_LETTER)
    pipeline.batch_of([(0, (1, "a"), {"the-bio": "x", "day": 1})])
    pipeline.batch_of([(0, (1, "a"), {"the-bio": KEPT, "day": 2}), (0, (1, "a"), {"day": 3})])
    assert lake.plain(pipeline.name).schema().find_field("the-bio").required


def reported(pipeline: Partial, changes: Sequence[tuple[int, Key, Fields]]) -> list[TaskReport]:
    offsets = dict(pipeline.offsets)
    _, reports = pipeline.reports(pipeline.context(), changes)
    pipeline.offsets = offsets
    return reports


def test_updates_without_their_row_relax_the_column_or_are_refused(lake: Lake) -> None:
    """Where no row has a value that the table requires, the column is relaxed, as the policy says; else all updates up to the
    one that fails are refused, whose row there never was."""
    pipeline = Partial(lake, schema=required("the-bio"))
    lost = [(0, (1, "a"), {"day": 1}), (0, (1, "a"), {"the-bio": KEPT}), (1, (1, "b"), {"the-bio": "x"})]
    needs = [need for report in reported(pipeline, lost) for need in report.needs.values()]
    assert [need.optional for need in needs] == [frozenset({("the-bio",)})]

    pipeline = Partial(lake, schema=required("the-bio"), nullability=EvolveMode.DEAD_LETTER)
    pipeline.batch_of([(0, (1, "a"), {"the-bio": "x"})])
    more = [
        (0, (2, "b"), {"the-bio": "x"}),
        (0, (2, "b"), None),
        *lost[:2],
        (0, (1, "a"), None),
        (0, (1, "a"), {"day": 2}),
    ]
    more += [(0, (2, "b"), {"day": 4}), (0, (2, "b"), {"the-bio": GONE}), (0, (1, "b"), {"the-bio": None})]
    refused = sorted((record for r in reported(pipeline, more) for record in r.refused), key=lambda r: r.offset)
    assert refused == [RefusedUpdate("events", 0, 1 + number, pipeline.name, "the-bio") for number in (5, 6, 7, 8)]
