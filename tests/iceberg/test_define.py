"""Creating and altering tables in a real catalog, alone and in a crowd."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, ServerError
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, ListType, LongType, NestedField, StringType, StructType, TimestamptzType

from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.parquet.files import TableWriter
from framework.commit.machine.effects import Committed
from framework.config.spec import CreatePolicy, FieldHint, PartitionFieldSpec, RouteRule, SortFieldSpec, TablePolicy
from framework.errors import FloeError, TableBlocked
from framework.record.model import TableTarget
from framework.record.process import process_block
from framework.runtime.tables.refresh import TableRefresh
from framework.runtime.tables.registry import TableRegistry
from framework.table.changes import AlterTable, CreateTable
from framework.table.create import plan_create
from framework.table.model import TableNeed
from framework.table.schema.arrow import arrow_schema
from testbed.record_samples import block, plan
from tests.iceberg.conftest import POLICY, SCHEMA, Lake

pytestmark = pytest.mark.iceberg

NESTED = Schema(
    NestedField(10, "id", LongType(), required=False),
    NestedField(
        20,
        "customer",
        StructType(
            NestedField(21, "name", StringType(), required=False), NestedField(22, "age", LongType(), required=False)
        ),
        required=False,
    ),
    NestedField(30, "tags", ListType(31, StringType(), element_required=False), required=False),
    NestedField(40, "at", TimestamptzType(), required=False),
)


def target(lake: Lake, name: str) -> TableTarget:
    found = lake.tables.load_target(name, POLICY)
    assert found is not None
    return found


def test_a_target_says_what_the_table_says(lake: Lake) -> None:
    """Whatever ids were asked for, the target carries those that the table really has, also inside partition fields."""
    name = lake.create(
        "shop.nested", NESTED, [PartitionFieldSpec("customer.age", "bucket", 4), PartitionFieldSpec("at", "day")]
    )
    table, found = lake.plain(name), target(lake, name)
    assert Schema.model_validate_json(found.schema_json) == table.schema()
    assert json.loads(found.spec_json) == json.loads(table.spec().model_dump_json())
    assert found.table_uuid == str(table.metadata.table_uuid)
    assert (found.schema_id, found.spec_id, found.sort_order_id) == (0, 0, 0)
    assert found.last_column_id == table.metadata.last_column_id == 7
    assert found.location == table.location()
    assert found.properties == table.properties
    assert found.policy is POLICY
    names = {field.name: table.schema().find_column_name(field.source_id) for field in table.spec().fields}
    assert names == {"customer.age_bucket": "customer.age", "at_day": "at"}


def test_partition_fields_have_icebergs_standard_names(lake: Lake) -> None:
    """`day(at)` is `at_day`, `bucket(id)` is `id_bucket`, `truncate(name)` is `name_trunc`, an identity is the
    column."""
    schema = Schema(*SCHEMA.fields, NestedField(3, "at", TimestamptzType(), required=False))
    partition = [
        PartitionFieldSpec("at", "day"),
        PartitionFieldSpec("id", "bucket", 16),
        PartitionFieldSpec("name", "truncate", 2),
        PartitionFieldSpec("name"),
    ]
    name = lake.create("shop.orders", schema, partition)
    spec = lake.plain(name).spec()
    assert [field.name for field in spec.fields] == ["at_day", "id_bucket", "name_trunc", "name"]
    assert [str(field.transform) for field in spec.fields] == ["day", "bucket[16]", "truncate[2]", "identity"]


def test_a_partition_name_that_is_a_column_gets_a_number(lake: Lake) -> None:
    """A column `at_day` in the data does not stop the partition field of `day(at)`."""
    schema = Schema(NestedField(1, "at", TimestamptzType()), NestedField(2, "at_day", StringType()))
    name = lake.create("shop.orders", schema, [PartitionFieldSpec("at", "day")])
    assert [field.name for field in lake.plain(name).spec().fields] == ["at_day_2"]


def test_new_tables_remove_their_old_metadata_files_unless_asked_otherwise(lake: Lake) -> None:
    """Tables that floe creates clean up behind themselves; the pipeline file's own properties win."""
    kept = lake.plain(lake.create("a.one")).properties
    assert kept["write.metadata.delete-after-commit.enabled"] == "true"
    assert kept["write.metadata.previous-versions-max"] == "20"
    own = lake.plain(lake.create("a.two", **{"write.metadata.previous-versions-max": "7", "owner": "me"})).properties
    assert (own["write.metadata.previous-versions-max"], own["owner"]) == ("7", "me")
    assert "format-version" not in own


def test_namespaces_of_any_depth_are_made(lake: Lake) -> None:
    """A table in a nested namespace that does not exist is created with the namespaces above it."""
    lake.create("lake.raw.orders")
    assert lake.tables.list_tables("lake.raw") == ["lake.raw.orders"]
    lake.create("flat.orders")
    assert lake.tables.list_tables() == ["flat.orders", "lake.raw.orders"]
    assert lake.tables.list_tables("nowhere") == []


@pytest.mark.parametrize("answer", [NamespaceAlreadyExistsError("it is there"), ServerError("500")])
def test_a_namespace_that_others_make_meanwhile_serves_as_well(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, answer: Exception
) -> None:
    """Two runs need the same new namespace at once: the one that is slower is in no trouble, whatever its catalog answers
    (apache/paimon#8470)."""
    real = SqlCatalog.create_namespace

    def slower(catalog: SqlCatalog, namespace: Any, *others: Any) -> None:
        real(catalog, namespace, *others)
        raise answer

    monkeypatch.setattr(SqlCatalog, "create_namespace", slower)
    assert lake.rows(lake.create("new.orders")) == []


def test_a_table_that_is_there_is_left_as_it_is(lake: Lake) -> None:
    """'Already exists' is success, and nothing of the existing table changes."""
    name = lake.create()
    before = lake.plain(name).metadata
    lake.create(name, NESTED)
    assert lake.plain(name).metadata == before


def test_a_table_is_made_as_the_file_says(lake: Lake, tmp_path: Path) -> None:
    """Identifier fields, sort order, comments, properties and location are in the table, under the ids it really has,
    and its files follow them; PyIceberg finds the rows by the identifier."""
    policy = TablePolicy(
        create=CreatePolicy(
            partition_by=(PartitionFieldSpec("at", "day"),),
            properties=(
                ("write.data.path", f"file://{tmp_path}/warehouse/lake/shop/orders/elsewhere"),
                ("write.parquet.compression-codec", "gzip"),
            ),
            sort_by=(SortFieldSpec(PartitionFieldSpec("ID"), descending=True, nulls_first=False),),
            identifier_fields=("id",),
            comment="all orders",
            location=f"file://{tmp_path}/warehouse/lake/{{namespace}}/{{table}}",
        )
    )
    hints = (FieldHint("at", "timestamptz", zone="UTC", comment="when it was ordered"),)
    need = TableNeed("shop.orders", (("note", "string"), ("id", "long")))
    change = plan_create(need, policy, hints, ())
    assert isinstance(change, CreateTable)
    lake.tables.create_table(change)
    table = lake.plain("shop.orders")
    assert table.location() == f"file://{tmp_path}/warehouse/lake/shop/orders"
    assert table.schema().identifier_field_names() == {"id"}
    assert table.schema().find_field("id").required
    assert table.schema().find_field("at").doc == "when it was ordered"
    assert table.properties["comment"] == "all orders"
    (field,) = table.sort_order().fields
    assert table.schema().find_column_name(field.source_id) == "id"
    assert (field.direction.value, field.null_order.value) == ("desc", "nulls-last")

    found = lake.tables.load_target("shop.orders", policy)
    assert found is not None
    schema = arrow_schema(table.schema())
    rows = [{"note": "n", "id": number, "at": 1_704_369_600_000_000} for number in (3, 9, 5)]
    writer = TableWriter({"default": {}}, "p", "r", 1, 1 << 20, 1 << 20)
    writer.add(found, pa.Table.from_pylist(rows, schema=schema))
    (file,) = writer.finish()["shop.orders"]
    assert file.path.startswith(f"file://{tmp_path}/warehouse/lake/shop/orders/elsewhere/at_day=2024-01-04/")
    answer = lake.tables.commit(lake.effect("shop.orders", (file,), 1))
    assert isinstance(answer, Committed)
    table = lake.plain("shop.orders")
    assert table.scan().to_arrow()["id"].to_pylist() == [9, 5, 3]
    assert table.inspect.files()["sort_order_id"].to_pylist() == [1]


def test_a_sort_order_that_others_change_is_followed(lake: Lake) -> None:
    """Files of an order that is no longer the table's keep its id when they are committed; the next files have the new
    one."""
    name = lake.create()
    before = target(lake, name)
    with lake.plain(name).update_sort_order() as update:
        update.desc("id", IdentityTransform(), NullOrder.NULLS_LAST)
    after = target(lake, name)
    assert (before.sort_order_id, after.sort_order_id) == (0, 1)
    schema = arrow_schema(lake.plain(name).schema())
    files = []
    for found in (before, after):
        writer = TableWriter({"default": {}}, "p", "r", 1, 1 << 20, 1 << 20)
        writer.add(found, pa.Table.from_pylist([{"id": 1}, {"id": 2}], schema=schema))
        files += writer.finish()[name]
    with lake.plain(name).update_sort_order() as update:
        update.asc("name", IdentityTransform(), NullOrder.NULLS_FIRST)
    answer = lake.tables.commit(lake.effect(name, files, 1))
    assert isinstance(answer, Committed)
    found_files = lake.plain(name).inspect.files().sort_by("sort_order_id")
    assert found_files["sort_order_id"].to_pylist() == [0, 1]
    assert [pq.read_table(file.path.removeprefix("file://"))["id"].to_pylist() for file in files] == [[1, 2], [2, 1]]


def test_a_format_version_that_is_not_known_is_refused_by_name(lake: Lake) -> None:
    """A table of a version that floe does not write is not made."""
    with pytest.raises(TableBlocked, match="format version 4") as caught:
        lake.create("shop.four", format_version="4")
    assert caught.value.code == "FLOE-R131"
    assert lake.tables.list_tables() == []


@pytest.mark.parametrize(
    "partition",
    [PartitionFieldSpec("nothing", "day"), PartitionFieldSpec("name", "day"), PartitionFieldSpec("id", "hour")],
)
def test_a_partition_that_does_not_fit_is_refused(lake: Lake, partition: PartitionFieldSpec) -> None:
    """A column that is not there, or a transform that does not take its type, is refused with the table's name."""
    with pytest.raises(TableBlocked, match=r"shop.orders cannot be partitioned by") as caught:
        lake.create("shop.orders", SCHEMA, [partition])
    assert caught.value.place == "shop.orders"
    assert lake.tables.list_tables() == []


def test_a_creation_that_fails_names_table_and_reason(lake: Lake) -> None:
    """A warehouse that cannot be written to is an error with the table, the reason and a remedy."""
    tables = IcebergTables({**lake.settings, "warehouse": "file:///proc/nowhere"})
    with pytest.raises(FloeError, match=r"shop.orders could not be created") as caught:
        tables.create_table(CreateTable("shop.orders", SCHEMA.model_dump_json(), (), ()))
    assert caught.value.place == "shop.orders"
    assert caught.value.remedy


# ---- changing --------------------------------------------------------------------------------------------------------


def adding(found: TableTarget, *fields: NestedField) -> AlterTable:
    schema = Schema.model_validate_json(found.schema_json)
    return AlterTable(
        found.name,
        found.table_uuid,
        found.schema_id,
        found.last_column_id,
        Schema(*schema.fields, *fields).model_dump_json(),
        (),
    )


def test_a_column_is_added_and_old_rows_read_null(lake: Lake) -> None:
    """A new column is there at once, keeps all other ids, and rows written before read null in it."""
    name = lake.create()
    files = lake.files(name, [{"id": 1, "name": "a"}])
    assert lake.tables.alter_table(adding(target(lake, name), NestedField(3, "more", LongType(), required=False)))
    lake.tables.commit(lake.effect(name, files, 1))
    assert lake.plain(name).scan().to_arrow().to_pylist() == [{"id": 1, "name": "a", "more": None}]
    found = target(lake, name)
    assert (found.schema_id, found.last_column_id) == (1, 3)


def test_a_type_is_widened(lake: Lake) -> None:
    """A promotion keeps the column's id, and files of both types read as one column."""
    schema = Schema(NestedField(1, "id", IntegerType(), required=False))
    name = lake.create("shop.small", schema)
    files = lake.files(name, [{"id": 1}])
    found = target(lake, name)
    wide = Schema(NestedField(1, "id", LongType(), required=False))
    change = AlterTable(name, found.table_uuid, found.schema_id, found.last_column_id, wide.model_dump_json(), ())
    assert lake.tables.alter_table(change)
    assert lake.view(name).unusable_schema_ids == frozenset()
    lake.tables.commit(lake.effect(name, (*files, *lake.files(name, [{"id": 2**40}])), 1))
    assert lake.rows(name) == [1, 2**40]


def test_a_change_planned_from_an_older_schema_is_not_made(lake: Lake) -> None:
    """When the schema has changed meanwhile, or the table is another one, the answer is 'plan again'."""
    name = lake.create()
    stale = target(lake, name)
    assert lake.tables.alter_table(adding(stale, NestedField(3, "one", LongType(), required=False)))
    assert not lake.tables.alter_table(adding(stale, NestedField(3, "two", LongType(), required=False)))
    assert lake.plain(name).schema().column_names == ["id", "name", "one"]
    change = adding(target(lake, name), NestedField(4, "three", LongType(), required=False))
    lake.catalog.drop_table(name)
    assert not lake.tables.alter_table(change)
    lake.create(name)
    assert not lake.tables.alter_table(change)
    assert lake.plain(name).schema().column_names == ["id", "name"]


def test_a_change_that_is_made_already_is_success(lake: Lake) -> None:
    """The same change asked for twice is made once."""
    name = lake.create()
    change = adding(target(lake, name), NestedField(3, "more", LongType(), required=False))
    assert lake.tables.alter_table(change)
    assert lake.tables.alter_table(change)
    assert len(lake.plain(name).metadata.schemas) == 2


def test_a_schema_from_before_comes_back_under_its_own_id(lake: Lake) -> None:
    """Going back to a schema that the table had before makes no second copy of it."""
    name = lake.create()
    assert lake.tables.alter_table(adding(target(lake, name), NestedField(3, "more", LongType(), required=False)))
    found = target(lake, name)
    back = AlterTable(name, found.table_uuid, found.schema_id, found.last_column_id, SCHEMA.model_dump_json(), ())
    assert lake.tables.alter_table(back)
    assert target(lake, name).schema_id == 0
    assert len(lake.plain(name).metadata.schemas) == 2


def grow(settings: dict[str, str], name: str, column: str) -> None:
    """A driver that meets a table that is not there, then a new field, a wider number and a missing value of it."""
    registry = TableRegistry(plan(defaults=TablePolicy()), IcebergTables(settings), lambda _: None)
    registry.satisfy([TableNeed(name, (("id", "int"), ("name", "string")))])
    registry.satisfy([TableNeed(name, ((column, "long"), ("id", "long"), ("where", ["struct", [["x", "double"]]])))])
    assert column in Schema.model_validate_json(registry.targets[name].schema_json).column_names


def test_fifty_drivers_that_see_one_new_field_make_one_change(lake: Lake) -> None:
    """Fifty drivers, in threads of two processes, that create one table and ask for the same columns and types make one
    table and one change."""
    script = (
        "import json, sys; from concurrent.futures import ThreadPoolExecutor; from tests.iceberg.test_define import grow; "
        "settings = json.loads(sys.argv[1]); pool = ThreadPoolExecutor(25); "
        "list(pool.map(lambda _: grow(settings, 'shop.crowd', 'more'), range(25)))"
    )
    settings = {**lake.settings, "uri": lake.settings["uri"] + "?timeout=60"}
    command = [sys.executable, "-c", script, json.dumps(settings)]
    other = subprocess.Popen(command, cwd=Path(__file__).parents[2])
    with ThreadPoolExecutor(25) as pool:
        list(pool.map(lambda _: grow(settings, "shop.crowd", "more"), range(25)))
    assert other.wait(timeout=120) == 0
    metadata = lake.plain("shop.crowd").metadata
    assert [schema.schema_id for schema in metadata.schemas] == [0, 1]
    assert sorted(metadata.schema().column_names) == ["id", "more", "name", "where", "where.x"]
    assert str(metadata.schema().find_type("id")) == "long"
    assert metadata.last_column_id == 5
    assert lake.tables.list_tables() == ["shop.crowd"]


def test_the_next_batch_follows_what_others_changed(lake: Lake) -> None:
    """Partition spec, sort order, columns and properties that another engine changes hold from the next batch, for a
    pipeline of a few tables; of many, each has its turn within a few batches. A catalog that does not answer holds up
    neither."""
    names = [lake.create(f"ns.t{i}") for i in range(22)]
    catalog = IcebergTables(lake.settings)
    registry = TableRegistry(plan(defaults=TablePolicy()), catalog, lambda _: None)
    refresh = TableRefresh(registry, lambda _: None)
    for name in names:
        registry.load(name)
    refresh.begin_batch(names[:2])
    with lake.plain(names[0]).update_spec() as update:
        update.add_identity("name")
    with lake.plain(names[0]).update_sort_order() as order:
        order.desc("id", IdentityTransform(), NullOrder.NULLS_LAST)
    with lake.plain(names[0]).update_schema() as columns:
        columns.add_column("more", LongType())
    with lake.plain(names[0]).transaction() as transaction:
        transaction.set_properties(owner="somebody")
    refresh.begin_batch(names[:2])
    found = registry.targets[names[0]]
    assert (found.spec_id, found.sort_order_id, found.schema_id) == (1, 1, 1)
    assert found.properties["owner"] == "somebody"
    with lake.plain(names[1]).update_spec() as update:
        update.add_identity("name")
    for _ in names:
        refresh.begin_batch(names)
        refresh.during_batch(lambda: False)
    assert registry.targets[names[1]].spec_id == 1
    Path(lake.settings["uri"].removeprefix("sqlite:///")).write_bytes(b"no database" * 1000)
    with pytest.raises(FloeError):
        registry.load(names[0])
    refresh.begin_batch(names[:2])
    refresh.begin_batch(names)
    refresh.during_batch(lambda: False)
    refresh.begin_batch(names)
    assert registry.targets[names[0]] == found


def test_a_table_among_many_that_can_no_longer_be_written_is_written_as_it_was(lake: Lake) -> None:
    """What is found out about a table while a batch runs is said, and stops neither that batch nor the next; tables are
    not looked at once the batch is done."""
    names = [lake.create(f"ns.t{i}") for i in range(21)]
    said: list[str] = []
    registry = TableRegistry(plan(defaults=TablePolicy()), lake.tables, said.append)
    refresh = TableRefresh(registry, said.append)
    for name in names:
        registry.load(name)
    with lake.plain(names[0]).transaction() as transaction:
        transaction.set_properties({"encryption.key-id": "k"})
    refresh.begin_batch(names)
    refresh.during_batch(lambda: True)
    refresh.begin_batch(names)
    assert said == []
    refresh.during_batch(lambda: False)
    refresh.begin_batch(names)
    assert len(said) == 1
    assert names[0] in said[0]
    assert "encrypted" in registry.troubles[names[0]]
    assert registry.refused == ()
    with lake.plain(names[0]).transaction() as transaction:
        transaction.remove_properties("encryption.key-id")
    registry.load(names[0])
    assert registry.troubles == {}


def test_what_a_batch_asks_for_is_decided_once_by_the_driver(lake: Lake) -> None:
    """The driver alone decides about new tables: beyond the cap a table is refused for a while with the reason,
    whatever tasks ask again, and the tables that are there still gain their columns."""
    said: list[str] = []
    made = plan(defaults=TablePolicy())
    capped = replace(made, route=replace(made.route, max_new_tables_per_hour=1))
    registry = TableRegistry(capped, lake.tables, said.append)
    refresh = TableRefresh(registry, said.append)
    registry.satisfy([TableNeed("ns.one", (("id", "long"),)), TableNeed("ns.two", (("id", "long"),))])
    refresh.begin_batch(["ns.one"])
    registry.satisfy([TableNeed("ns.two", (("id", "long"),)), TableNeed("ns.one", (("x", "string"), ("y", "long")))])
    assert lake.tables.list_tables() == ["ns.one"]
    assert registry.refused == (
        ("ns.two", "routes.max_new_tables_per_hour is 1, and that many were created within the last hour"),
    )
    assert [line for line in said if line.startswith(("created", "altered"))] == [
        "created ns.one",
        "altered ns.one: add column x string, add column y long",
    ]
    assert len(lake.plain("ns.one").metadata.schemas) == 2


def test_how_many_tables_are_made_in_an_hour_is_bounded_across_restarts(lake: Lake) -> None:
    """A run that is started again knows the tables that the one before it made; those of another pipeline do not
    count."""
    made = plan([RouteRule("ns.{kind}")], defaults=TablePolicy())
    capped = replace(made, route=replace(made.route, max_new_tables_per_hour=2))
    other = TableRegistry(replace(capped, pipeline="another"), lake.tables, lambda _: None)
    other.satisfy([TableNeed("ns.other", (("id", "long"),))])
    refused: list[tuple[str, ...]] = []
    for run in range(2):
        registry = TableRegistry(capped, lake.tables, lambda _: None)
        registry.preload()
        registry.satisfy([TableNeed(f"ns.t{run}{n}", (("id", "long"),)) for n in range(2 - run)])
        refused.append(tuple(name for name, _ in registry.refused))
    assert refused == [(), ("ns.t10",)]
    assert lake.tables.list_tables() == ["ns.other", "ns.t00", "ns.t01"]


@pytest.mark.parametrize("again", [False, True], ids=["dropped", "replaced"])
def test_a_table_that_was_taken_away_is_not_changed_nor_made_anew(lake: Lake, again: bool) -> None:
    """A new column for a table that was dropped or replaced under the run changes nothing: records that ask for it fail
    with the reason, the others are written as the table was known. Another run begins with what is there."""
    registry = TableRegistry(plan(defaults=TablePolicy()), lake.tables, lambda _: None)
    registry.satisfy([TableNeed("ns.one", (("id", "long"),))])
    known = registry.targets["ns.one"]
    lake.plain("ns.one").catalog.drop_table("ns.one")
    if again:
        lake.create("ns.one")
    need = TableNeed("ns.one", (("more", "string"),))
    registry.satisfy([need])
    assert ("replaced" if again else "dropped") in registry.targets["ns.one"].frozen
    records = block([{"id": 1}, {"id": 2, "more": "x"}])
    result = process_block(records, plan([RouteRule("ns.one")], defaults=TablePolicy()), registry.targets)
    assert result.rows["ns.one"].to_pydict() == {"id": [1]}
    assert [(letter.offset, letter.code) for letter in result.dead_letters] == [(1, "FLOE-D307")]
    assert registry.targets["ns.one"].frozen in result.dead_letters[0].message
    assert lake.tables.list_tables() == (["ns.one"] if again else [])
    assert registry.targets["ns.one"].table_uuid == known.table_uuid
    if again:
        assert "more" not in lake.plain("ns.one").schema().column_names
    TableRegistry(plan(defaults=TablePolicy()), lake.tables, lambda _: None).satisfy([need])
    assert "more" in lake.plain("ns.one").schema().column_names
