"""Batches of changes by key, from the rows of blocks to the commit: whoever reads a change and in whatever pieces it
travels, the table is what a dictionary would hold, and rows keep their ids."""

from __future__ import annotations

import datetime
import decimal
import json
import os
import pickle
import subprocess
import sys
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import BooleanType, DateType, DecimalType, LongType, NestedField, StringType, UUIDType

from framework.adapters import waiting_pieces
from framework.adapters.iceberg.private.live_files import live_files
from framework.adapters.iceberg.private.row_lineage import read_manifests
from framework.adapters.iceberg.project_by_id import table_columns
from framework.adapters.iceberg.upsert import duplicate_keys as double_keys
from framework.adapters.iceberg.upsert.index_file import write_index
from framework.adapters.iceberg.upsert.index_runs import entries_of, write_run
from framework.adapters.iceberg.upsert.keys_file import read_found, read_keys, write_keys
from framework.adapters.iceberg.upsert.search import Hits, search
from framework.adapters.iceberg.upsert.target import UpsertTarget
from framework.adapters.maintenance.tables import TableCare
from framework.adapters.parquet.files import TableWriter
from framework.adapters.parquet.key_places import key_places
from framework.adapters.parquet.partition import partitions
from framework.adapters.waiting_pieces import WaitingPieces
from framework.commit.events.event_types import Accounting, UpsertChanges
from framework.commit.machine.effects import Committed
from framework.config.spec import Deletes, KeyIndexUse, TablePolicy
from framework.config.values.maintenance import CompactionPolicy
from framework.errors import AccountingError, FloeError, TableBlocked
from framework.plan.compile import BUFFER_BYTES
from framework.record.model import BlockResult, UpsertRows
from framework.runtime.batches.batch import summarise
from framework.table.schema.arrow import arrow_schema, parse_schema
from framework.table.upsert import key_index
from framework.task.exchange import Outbox, try_received
from framework.task.output import remove_files
from framework.task.task_run import TaskRun
from framework.task.upsert import writer as keyed_writer
from tests.iceberg.conftest import POLICY, Lake
from tests.iceberg.keyed_pipeline import SCHEMA, SPECS, UPSERT, Change, Key, Pipeline, keyed_rows, made
from tests.iceberg.lineage import change
from tests.iceberg.test_ordered_tables import Change as OrderedChange
from tests.iceberg.test_ordered_tables import Ordered

pytestmark = pytest.mark.iceberg

keys = st.tuples(st.integers(1, 3), st.sampled_from(["a", "b", "ab"]))
rows = st.tuples(st.integers(1, 2), st.sampled_from(["x", "y", ""]))
batches = st.lists(
    st.lists(st.tuples(st.integers(0, 1), keys, st.none() | rows), min_size=1, max_size=12), min_size=1, max_size=4
)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.timeout(600)
def test_batches_of_changes_are_a_fold(lake: Lake, version: str, spec: str) -> None:
    """After each batch the table holds what a fold of its changes holds, however rows go, and the announcement counts
    what happened."""

    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
    @given(batches, st.sampled_from([Deletes.AUTO, Deletes.COPY_ON_WRITE]))
    def holds(found: list[list[Change]], deletes: Deletes) -> None:
        pipeline = made(lake, version, spec, deletes=deletes)
        for changes in found:
            pipeline.do(changes)

    holds()


@pytest.mark.parametrize("deletes", [Deletes.AUTO, Deletes.COPY_ON_WRITE])
@pytest.mark.parametrize("spec", SPECS)
def test_a_row_keeps_its_id_for_as_long_as_its_key_lives(lake: Lake, spec: str, deletes: Deletes) -> None:
    """Format version 3: an update keeps the row's id, also in another partition and where its neighbours' file is
    copied; a key that comes back has a new one."""
    pipeline = made(lake, "3", spec, deletes=deletes)
    pipeline.do([(0, (1, "a"), (1, "x")), (0, (2, "b"), (1, "x")), (1, (3, "c"), (1, "x"))])
    first = pipeline.ids()
    pipeline.do([(0, (1, "a"), (2, "y")), (1, (4, "d"), (1, "x")), (1, (3, "c"), None)])
    second = pipeline.ids()
    pipeline.do([(0, (1, "a"), (1, "z")), (1, (3, "c"), (1, "again"))])
    third = pipeline.ids()

    assert len({*first.values(), second[4, "d"], third[3, "c"]}) == 5
    assert {key: third[key] for key in ((1, "a"), (2, "b"))} == {key: first[key] for key in ((1, "a"), (2, "b"))}
    assert second[1, "a"] == first[1, "a"]


def test_a_batch_may_only_delete(lake: Lake) -> None:
    """Such a batch has no data file; keys without a live row stand in its file of keys, but in no count."""
    pipeline = made(lake, "2", "unpartitioned")
    pipeline.do([(0, (1, "a"), (1, "x")), (0, (2, "b"), (1, "x"))])
    written = pipeline.do([(0, (1, "a"), None), (1, (9, "z"), None)])

    assert written.files == ()
    assert written.keyed is not None
    assert written.keyed.deleted == 1
    assert sum(file.record_count for file in written.keyed.keys) == 2
    nothing = pipeline.do([(0, (9, "z"), None)])
    assert nothing.keyed is not None
    assert nothing.keyed.deleted == 0


@pytest.mark.slow
def test_many_keys_that_come_and_go_in_one_batch(lake: Lake) -> None:
    """120,000 keys, of which each third is deleted and each fifth changed again in their own batch: a fold of it."""
    pipeline = made(lake, "2", "unpartitioned")
    changes: list[Change] = [(0, (at, "a"), (1, "x")) for at in range(120_000)]
    changes += [(0, (at, "a"), None) for at in range(0, 120_000, 3)]
    changes += [(0, (at, "a"), (2, "y")) for at in range(0, 120_000, 5)]
    pipeline.do(changes)
    table = lake.plain(pipeline.name).scan().to_arrow()
    assert table.num_rows == sum(at % 3 != 0 or at % 5 == 0 for at in range(120_000))


def test_keys_of_one_partition_are_looked_for_in_its_files_alone(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the partition follows from the key, a task opens no file of another partition."""
    pipeline = made(lake, "2", "by the key")
    pipeline.do([(0, (shop, code), (1, "x")) for shop in (1, 2, 3) for code in ("a", "b")])
    context = pipeline.context()
    base, target = context.keyed[pipeline.name], context.tables[pipeline.name]
    some = pa.Table.from_pylist(
        [{"code": "a", "shop": 2}], schema=pa.schema([("code", pa.string()), ("shop", pa.int64())])
    )

    assert {file.partition[1] for file in keyed_writer.files_to_search(base, target, some)} == {2}
    # What another spec partitions is looked at, wherever the key would lie by this one.
    other = json.dumps({**json.loads(target.spec_json), "spec-id": 7})
    assert (
        len(keyed_writer.files_to_search(base, replace(target, spec_json=other), some)) == len(base.files.by_path) == 6
    )


def test_work_that_was_in_vain_leaves_no_file(lake: Lake) -> None:
    """Files of rows and of keys that will not be announced are removed."""
    pipeline = made(lake, "2", "unpartitioned")
    context = pipeline.context()
    _, reports = pipeline.reports(context, [(0, (1, "a"), (1, "x")), (0, (2, "b"), None)])
    folder = Path(context.tables[pipeline.name].location.removeprefix("file://"))
    assert list(folder.rglob("*.parquet"))

    remove_files(context, reports)

    assert not list(folder.rglob("*.parquet"))


def test_a_change_that_reached_no_writer_stops_the_batch(lake: Lake) -> None:
    """What senders counted must have arrived, and be in the files, or nothing is announced."""
    pipeline = made(lake, "2", "unpartitioned")
    scope, reports = pipeline.reports(pipeline.context(), [(0, (1, "a"), (1, "x")), (0, (1, "a"), (1, "y"))])
    (writer,) = (each for each in reports if each.keyed)
    part = writer.keyed[pipeline.name]
    for wrong, words in (
        (replace(part, superseded=0), "got 1 change fewer"),
        (replace(part, superseded=0, inserted=2), "hold 1 row fewer"),
        (replace(part, inserted=0, ignored=1), "hold 1 row more"),
    ):
        changed = [replace(each, keyed={pipeline.name: wrong}) if each is writer else each for each in reports]
        with pytest.raises(AccountingError, match=words):
            summarise(pipeline.plan, scope, changed, Accounting())
    elsewhere = replace(
        writer, keyed={pipeline.name: replace(part, base_snapshot_id=7, superseded=0, inserted=0)}, files={}
    )
    with pytest.raises(AccountingError, match="1 state of it more"):
        summarise(pipeline.plan, scope, [*reports, elsewhere], Accounting())


def test_without_the_exchange_nothing_is_written_by_key(lake: Lake) -> None:
    """Dead letters that come back are no batch: their changes are refused, not written and not forgotten."""
    pipeline = made(lake, "2", "unpartitioned")
    context = pipeline.context()
    schema = arrow_schema(parse_schema(context.tables[pipeline.name].schema_json))
    result = BlockResult(keyed={pipeline.name: keyed_rows([((1, "a"), (1, "x"))], 0, schema)})

    with pytest.raises(FloeError, match="is an upsert table") as caught:
        TaskRun(context).add(result, "events", 0)
    assert caught.value.code == "FLOE-R145"
    TaskRun(replace(context, is_trial=True)).add(result, "events", 0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"key": ("nothing",)}, "no column nothing"),
        ({"key": ("code",)}, "uuid"),
    ],
)
def test_a_table_whose_rows_cannot_be_replaced_is_refused_by_name(
    lake: Lake, change: dict[str, tuple[str, ...]], words: str
) -> None:
    """A missing key column, and a table that is another one now, are said with what to do."""
    pipeline = made(lake, "2", "unpartitioned")
    target = lake.tables.load_target(pipeline.name, replace(UPSERT, write=replace(UPSERT.write, **change)))
    assert target is not None
    target = replace(target, table_uuid=str(uuid.uuid4())) if words == "uuid" else target
    with pytest.raises(TableBlocked, match=words) as caught:
        pipeline.tables.load({pipeline.name: target})
    assert caught.value.code == "FLOE-R144"
    assert caught.value.remedy


def test_a_table_of_version_1_is_refused_by_name(lake: Lake) -> None:
    """Format version 1 cannot delete rows."""
    name = f"shop.t{uuid.uuid4().hex[:8]}"
    lake.catalog.create_namespace_if_not_exists("shop")
    lake.catalog.create_table(name, SCHEMA, properties={"format-version": "1"})
    with pytest.raises(TableBlocked, match="format version is 1"):
        Pipeline(lake, name).context()


def test_one_table_under_two_names_is_refused(lake: Lake) -> None:
    """A key would have a newest change under each of the names."""
    pipeline = made(lake, "2", "unpartitioned")
    target = pipeline.context().tables[pipeline.name]
    with pytest.raises(TableBlocked, match="another name"):
        pipeline.tables.load({pipeline.name: target, "shop.other": replace(target, name="shop.other")})


def test_a_head_that_did_not_move_is_not_read_again(lake: Lake) -> None:
    """Its manifests are read once; a new snapshot is read anew."""
    pipeline = made(lake, "2", "unpartitioned")
    pipeline.do([(0, (1, "a"), (1, "x"))])
    first, again = (pipeline.context().keyed[pipeline.name] for _ in range(2))
    assert first is again
    pipeline.do([(0, (1, "a"), (1, "y"))])
    moved: UpsertTarget = pipeline.context().keyed[pipeline.name]
    assert moved.snapshot_id != first.snapshot_id


def test_equal_keys_go_to_one_place_whatever_their_type_and_encoding() -> None:
    """Any type that a key may have; text as it is or as places in a dictionary."""
    schema = Schema(
        NestedField(1, "flag", BooleanType(), required=True),
        NestedField(2, "on", DateType(), required=True),
        NestedField(3, "price", DecimalType(9, 2), required=True),
        NestedField(4, "id", UUIDType(), required=True),
        NestedField(5, "text", StringType(), required=True),
    )
    values = [
        {
            "flag": bool(i % 2),
            "on": datetime.date(2026, 1, 1 + i % 5),
            "price": decimal.Decimal(i % 3),
            "id": uuid.UUID(int=i % 4).bytes,
            "text": f"t{i % 7}",
        }
        for i in range(840)
    ]
    table = pa.Table.from_pylist(values, schema=arrow_schema(schema))
    encoded = table.set_column(4, "text", table.column("text").dictionary_encode())
    for field_ids in ([1], [2], [3], [4], [5], [5, 1, 4]):
        places = key_places(table, schema, UNPARTITIONED_PARTITION_SPEC, field_ids, 8)
        assert places.tolist() == key_places(encoded, schema, UNPARTITIONED_PARTITION_SPEC, field_ids, 8).tolist()
        by_key: dict[object, set[int]] = {}
        for value, place in zip(values, places.tolist(), strict=True):
            key = tuple(value[schema.find_field(field_id).name] for field_id in field_ids)
            by_key.setdefault(key, set()).add(place)
        assert all(len(found) == 1 for found in by_key.values())
        assert len(set.union(*by_key.values())) > 1 or len(by_key) < 3


def test_whole_partitions_go_to_one_place_where_the_key_decides_them(lake: Lake) -> None:
    """So a file's rows are looked for by one task."""
    pipeline = made(lake, "2", "by the key")
    target = pipeline.context().tables[pipeline.name]
    spec, schema = PartitionSpec.model_validate_json(target.spec_json), parse_schema(target.schema_json)
    table = pa.Table.from_pylist([{"shop": i % 5, "code": f"c{i}"} for i in range(400)])
    for partition in partitions(table, spec, schema):
        assert len(set(key_places(partition.rows, schema, spec, (2, 1), 8).tolist())) == 1


@pytest.mark.parametrize("rows_at_once", [2, 1_000])
def test_a_table_in_which_a_key_has_several_rows_is_refused_once(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, rows_at_once: int
) -> None:
    """At the switch from appending, in one pass or in several; deleted rows do not count, and a table whose keys were
    unique is not read again."""
    monkeypatch.setattr(double_keys, "ROWS_AT_ONCE", rows_at_once)
    pipeline = made(lake, "2", "unpartitioned")
    schema = pipeline.lake.plain(pipeline.name).schema().as_arrow()
    for name in ("x", "y"):
        rows = [{"shop": shop, "code": code, "day": 1, "name": name} for shop in (1, 2) for code in ("a", "b", name)]
        pipeline.lake.plain(pipeline.name).append(pa.Table.from_pylist(rows, schema))

    with pytest.raises(TableBlocked, match="4 keys of code, shop have several rows") as caught:
        pipeline.context()
    assert caught.value.code == "FLOE-R144"
    assert "GROUP BY code, shop" in (caught.value.remedy or "")

    pipeline.lake.plain(pipeline.name).delete("name = 'y' and (code = 'a' or code = 'b')")
    pipeline.context()
    pipeline.lake.plain(pipeline.name).append(pa.Table.from_pylist(rows, schema))
    pipeline.context()


@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.parametrize("between", ["append", "another key", "made anew", "rolled back", "maintained"])
def test_keys_are_looked_at_again_after_rows_were_added(lake: Lake, between: str, version: str) -> None:
    """upsert, append, upsert: what was added meanwhile may have any key twice, and one update would take all its rows.
    A table that is another one now, or that somebody moved back to where rows were added, is looked at as well; one that
    floe only maintained is not read again."""
    name = lake.create(f"shop.t{uuid.uuid4().hex[:8]}", SCHEMA, format_version=version)
    pipeline = Pipeline(lake, name)

    def appended(number: int) -> None:
        rows = [{"shop": 1, "code": "a", "day": 1, "name": f"{number}"}]
        target = lake.tables.load_target(name, POLICY)
        assert target is not None
        writer = TableWriter(lake.tables.io_properties(), "p", f"run{number}", 1, 1 << 28, 1 << 28)
        writer.add(target, pa.Table.from_pylist(rows, arrow_schema(parse_schema(target.schema_json))))
        pipeline.batch += 1
        answer = lake.tables.commit(lake.effect(name, writer.finish()[name], pipeline.batch))
        assert isinstance(answer, Committed), answer

    if between == "rolled back":
        for number in (1, 2):
            appended(number)
        doubled = lake.plain(name).current_snapshot()
        lake.tables.commit(replace(lake.effect(name, (), 3), keyed=(_all_gone(lake, name),)))
        pipeline.batch = 3
    pipeline.do([(0, (1, "a"), (1, "x")), (1, (2, "b"), (1, "x"))])
    pipeline.do([(0, (1, "a"), (1, "y"))])
    assert pipeline.context().keyed[name].is_unique
    if between == "append":
        appended(5)
    elif between == "another key":
        pipeline.policy = replace(UPSERT, write=replace(UPSERT.write, key=("day",)))
    elif between == "made anew":
        lake.catalog.drop_table(name)
        lake.create(name, SCHEMA, format_version=version)
        for number in (1, 2):
            appended(number)
    elif between == "rolled back":
        assert doubled is not None
        _back_to(lake, name, doubled.snapshot_id)
    else:
        assert TableCare(lake.tables).compact(name, CompactionPolicy(min_input_files=2), dry_run=False)
    pipeline.restart()
    if between == "maintained":
        assert pipeline.context().keyed[name].is_unique
        return
    with pytest.raises(TableBlocked, match="several rows"):
        pipeline.context()


def _all_gone(lake: Lake, name: str) -> UpsertChanges:
    """A batch that deletes the key that was appended twice."""
    table = lake.plain(name)
    head = table.current_snapshot()
    assert head is not None
    manifests = read_manifests(table.io, head.manifest_list)
    live = list(live_files(table.io, manifests, table.format_version).by_path.values())
    keys_ = pa.Table.from_pylist([{"code": "a", "shop": 1}])
    hits = search(table.io, live, table_columns(table.metadata).of((2, 1)), keys_)
    file = write_keys(table.io, f"{table.location()}/data/gone-keys.parquet", keys_, hits, [each.path for each in live])
    return UpsertChanges(head.snapshot_id, (2, 1), (file,), 1)


def _back_to(lake: Lake, name: str, snapshot_id: int) -> None:
    """As `rollback_to_snapshot` does."""

    def changed(metadata: dict[str, Any]) -> None:
        metadata["current-snapshot-id"] = snapshot_id
        metadata["refs"]["main"]["snapshot-id"] = snapshot_id

    change(lake, name, changed)


OURS = (
    "topic",
    "partition",
    "offset",
    "winner",
    "winner_",
    "__floe_topic",
    "__floe_offset",
    "__floe_file",
    "__floe_pos",
)


class Named(Pipeline):
    """Each row has its name in a column of every name that is floe's own somewhere."""

    def keyed_rows(self, changes: Sequence[tuple[Key, Any]], first: int, schema: pa.Schema) -> UpsertRows:
        found = super().keyed_rows(changes, first, schema)
        names = found.upserts.column("name")
        rows = found.upserts
        for name in OURS:
            rows = rows.set_column(rows.column_names.index(name), rows.schema.field(name), names)
        return replace(found, upserts=rows)


@pytest.mark.parametrize("version", ["2", "3"])
def test_columns_may_be_called_as_floe_calls_its_own(lake: Lake, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What floe adds to rows on their way is found by its place: a table that others made may have columns of any name."""
    monkeypatch.setattr(key_index, "LEAST_RUN_ROWS", 1)
    more = (NestedField(10 + n, name, StringType(), required=False) for n, name in enumerate(OURS))
    schema = Schema(*SCHEMA.fields, *more, identifier_field_ids=[1, 2])
    name = lake.made_by_others(f"shop.t{uuid.uuid4().hex[:8]}", schema, (), version)
    pipeline = Named(lake, name, KeyIndexUse.ALWAYS)
    pipeline.do([(0, (1, "a"), (1, "x")), (1, (2, "b"), (1, "y"))])
    pipeline.do([(0, (1, "a"), (2, "z")), (1, (2, "b"), None), (1, (3, "c"), (1, "new"))])
    found = lake.plain(name).scan().to_arrow().to_pylist()
    assert sorted({row[each] for each in OURS} == {row["name"]} for row in found) == [True, True]


def test_key_columns_may_be_called_as_those_of_their_file(lake: Lake) -> None:
    """The coordinator reads the keys of columns that are called as what stands beside them."""
    schema = pa.schema([("__floe_pos", pa.int64()), ("__floe_file", pa.string())])
    keys_ = pa.Table.from_pylist([{"__floe_pos": 1, "__floe_file": "a"}, {"__floe_pos": 2, "__floe_file": "b"}], schema)
    pipeline = made(lake, "2", "unpartitioned")
    table = lake.plain(pipeline.name)
    hits = Hits(*(np.array(each, np.int64) for each in ([1], [0], [5], [-1])))
    path = f"{table.location()}/data/keys.parquet"
    assert write_keys(table.io, path, keys_, hits, ["one"]).record_count == 2
    found = read_found(table.io, path)
    assert (found.paths.to_pylist(), found.positions.tolist()) == (["one"], [5])
    assert sorted(tuple(row.values()) for row in read_keys(table.io, path).to_pylist()) == [(1, "a"), (2, "b")]


def test_a_trial_behind_the_exchange_finds_the_row_and_leaves_no_file(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What looks for records that end a task tries the writers behind the exchange, too."""
    ordered = Ordered(lake)
    pipeline = ordered.pipeline
    ordered.commit(ordered.announce(OrderedChange(0, (1, "a"), 5), OrderedChange(1, (2, "b"), 5)))
    context = replace(pipeline.context(), is_trial=True)
    schema = arrow_schema(parse_schema(context.tables[pipeline.name].schema_json))
    changes = [((1, "a"), OrderedChange(0, (1, "a"), 6, name="good")), ((2, "b"), OrderedChange(0, (2, "b"), 6, True))]
    folder = Path(context.tables[pipeline.name].location.removeprefix("file://"))
    before = sorted(folder.rglob("*"))

    def outbox() -> Outbox:
        made_ = Outbox(pipeline.plan)
        made_.add_upsert(context.tables[pipeline.name], pipeline.keyed_rows(changes, 0, schema), (0, 0))
        return made_

    try_received(outbox(), context)
    assert [path for path in sorted(folder.rglob("*")) if path not in before and path.is_file()] == []
    monkeypatch.setenv("FLOE_FAULT", "row~good=break")
    with pytest.raises(ValueError, match="nobody foresaw"):
        try_received(outbox(), context)


def date_key(lake: Lake, keys: Sequence[datetime.date], order: bool = False) -> tuple[str, TablePolicy]:
    """A table whose key `on` is a date, with a row for each of them in a file of its own."""
    fields = (NestedField(1, "on", DateType(), required=False), NestedField(2, "name", StringType(), required=False))
    more = (NestedField(3, "day", LongType(), required=False),)
    name = lake.create(f"shop.t{uuid.uuid4().hex[:8]}", Schema(*fields, *more), format_version="2")
    for key in keys:
        table = lake.plain(name)
        table.append(pa.Table.from_pylist([{"on": key, "name": "old", "day": 1}], table.schema().as_arrow()))
    write = replace(UPSERT.write, key=("on",), key_index=KeyIndexUse.ALWAYS, order_field="day" if order else None)
    return name, replace(UPSERT, write=write)


def _promoted(lake: Lake, name: str) -> None:
    def changed(metadata: dict[str, Any]) -> None:
        (schema,) = metadata["schemas"]
        fields = [{**f, "type": "timestamp"} if f["name"] == "on" else f for f in schema["fields"]]
        metadata["schemas"].append({**schema, "schema-id": 1, "fields": fields})
        metadata["current-schema-id"] = 1

    change(lake, name, changed)


DAYS = [datetime.date(1969, 12, 30), datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)]


def test_a_key_that_was_a_date_is_found_as_a_moment(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds of such files are days, and hashes of an index from before are those of dates: each key is found, with an
    index that was made before the promotion, with a new one, and without."""
    monkeypatch.setattr(key_index, "LEAST_RUN_ROWS", 1)
    name, policy = date_key(lake, DAYS)
    pipeline = Pipeline(lake, name, KeyIndexUse.ALWAYS)
    pipeline.policy = policy
    (known,) = (pipeline.context().keyed[name],)
    assert known.index is not None
    files = known.files.by_path
    table = lake.plain(name)
    kinds = (pa.date32(),)
    io, key = table.io, known.columns.of(known.key_ids)
    before = write_run(
        io, known.index.root, entries_of(io, list(files.values()), key, kinds), list(files), [1] * len(files)
    )
    write_index(io, known.index.root, key.meaning, [before])
    _promoted(lake, name)
    pipeline.restart()
    after = pipeline.context().keyed[name]
    assert after.index is not None
    assert before not in after.index.runs
    moments = pa.table({"on": pa.array([datetime.datetime(d.year, d.month, d.day) for d in DAYS], pa.timestamp("us"))})
    for wanted in ([0], [1], [2], [0, 1, 2]):
        asked = moments.take(wanted)
        hits = search(io, list(after.files.by_path.values()), after.columns.of(after.key_ids), asked)
        assert sorted(hits.keys.tolist()) == list(range(len(wanted)))
    noon = moments.take([0]).set_column(0, "on", pa.array([datetime.datetime(1969, 12, 30, 12)], pa.timestamp("us")))
    assert not len(search(io, list(after.files.by_path.values()), after.columns.of(after.key_ids), noon))
    # A batch that was announced with dates, and is searched for again.
    dates = pa.table({"key0": pa.array(DAYS[:2], pa.date32())})
    columns = after.columns.of(after.key_ids)
    assert len(search(io, list(after.files.by_path.values()), columns, columns.as_now(dates))) == 2


def test_deleted_keys_that_were_dates_hold_the_pipeline(lake: Lake) -> None:
    """What a table remembers of deleted keys goes by hashes, and those of dates are others."""
    name, policy = date_key(lake, DAYS, order=True)
    pipeline = Pipeline(lake, name)
    pipeline.policy = policy
    pipeline.context()
    _promoted(lake, name)
    with pytest.raises(TableBlocked, match="its key column on was a date once"):
        pipeline.context()


# ---- memory -------------------------------------------------------------------------------------------------------------

MIB = 1024 * 1024
CHANGES = int(os.environ.get("FLOE_CHANGES", "2000000"))


def memory_of(lake: Lake, folder: Path, count: int, most_bytes: int, buffer_bytes: int) -> dict[str, int]:
    """By side of the exchange the most bytes of memory that a process of its own had."""
    pipeline = made(lake, "2", "unpartitioned")
    write = replace(pipeline.plan.write, buffer_bytes=buffer_bytes)
    pipeline.plan = replace(pipeline.plan, read=replace(pipeline.plan.read, slices=2), write=write)
    given = {
        "context": pipeline.context(),
        "name": pipeline.name,
        "count": count,
        "bytes_each": 4_096,
        "file": folder / "sent.arrow",
        "most_bytes": most_bytes,
    }
    found = {}
    for side in ("send", "receive"):
        ended = subprocess.run(
            [sys.executable, "-m", "tests.iceberg.upsert_memory"],
            input=pickle.dumps({**given, "side": side}),
            stdout=subprocess.PIPE,
            check=True,
            env={**os.environ, "PYTHONPATH": ".", "TMPDIR": str(folder)},
        )
        reported = json.loads(ended.stdout)
        found[side] = reported["most"]
        print(f"\n{side}: {reported['changes']:,} changes, {reported['most'] / MIB:,.0f} MiB")
        assert reported["changes"] > count * 0.4
    return found


def test_changes_wait_within_a_bound_of_memory(lake: Lake, tmp_path: Path) -> None:
    """60,000 changes of 4 KB, which are 240 MB: on both sides of the exchange what a worker holds does not grow with
    them; and where nothing goes to disk it does, which is the mutation."""
    found = memory_of(lake, tmp_path, 60_000, 16 * MIB, 16 * MIB)
    assert all(most < 320 * MIB for most in found.values())  # of which half is the libraries
    unbound = memory_of(lake, tmp_path, 60_000, 2**40, 16 * MIB)
    assert all(unbound[side] > most + 40 * MIB for side, most in found.items())


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_two_million_changes_of_4_kb_take_two_gigabytes_at_most(lake: Lake, tmp_path: Path) -> None:
    """8 GB in one batch of two tasks, with the package's own bounds."""
    found = memory_of(lake, tmp_path, CHANGES, waiting_pieces.MOST_BYTES, BUFFER_BYTES)
    assert all(most < 2048 * MIB for most in found.values())


def test_pieces_that_wait_on_disk_are_what_they_were(monkeypatch: pytest.MonkeyPatch, lake: Lake) -> None:
    """The fold with every piece in the file, and pieces taken in any order."""
    monkeypatch.setattr(waiting_pieces, "MOST_BYTES", 0)
    pipeline = made(lake, "3", "by a column that moves")
    pipeline.do([(n % 2, (n % 3 + 1, "a"), (1, f"{n}")) for n in range(20)])
    pipeline.do([(n % 2, (n % 3 + 1, "a"), None if n == 19 else (2, f"{n}")) for n in range(20)])
    waiting = WaitingPieces()
    pieces = [waiting.put(pa.py_buffer(bytes([n]) * n)) for n in range(50)]
    assert [waiting.take(piece).to_pybytes() for piece in reversed(pieces)] == [
        bytes([n]) * n for n in range(49, -1, -1)
    ]
    waiting.close()
