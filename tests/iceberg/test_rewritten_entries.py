"""Entries of manifests that floe writes again: what stood in them stands in them, read by fastavro and by Spark.

Manifests are changed by fastavro to hold all that the specification knows of a file, values at the ends of their types,
and fields that no version has yet. Nothing of floe's or PyIceberg's reads them in the test.
"""

from __future__ import annotations

import json
import math
import struct
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from fastavro.schema import SchemaParseException
from pyiceberg.avro.decoder import new_decoder
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, DoubleType, LongType, NestedField, StructType, UUIDType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from framework.adapters.iceberg.commits.replace import manifests_of
from framework.adapters.iceberg.private.avro.blocks import ExactDoubleReader
from framework.adapters.iceberg.private.avro.damaged_doubles import damaged_manifests
from framework.adapters.iceberg.private.avro.names import defined_everywhere, defined_once
from framework.adapters.maintenance.tables import TableCare
from framework.commit.events.event_types import DataFile
from framework.config.spec import PartitionFieldSpec
from framework.config.values.maintenance import ManifestsPolicy
from framework.ops.doctor.catalog import unreadable_tables
from framework.ops.doctor.model import CheckState
from testbed.servers.spark_reader import java_read
from tests.iceberg.conftest import Lake
from tests.iceberg.lineage import avro, local, some_files
from tests.iceberg.spark_server import IcebergSpark
from tests.iceberg.test_manifests import PARTITIONS, TYPES, ok

pytestmark = pytest.mark.iceberg

MIN_COUNT = "commit.manifest.min-count-to-merge"
MERGE = {MIN_COUNT: "2"}
NO_MERGE = {"commit.manifest-merge.enabled": "false"}
# Per Avro type of a partition value: what makes a reader stumble that is not exact.
EXTREMES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "int": [2**31 - 1, -(2**31)],
    "long": [2**63 - 1, -(2**63), 2**53 + 1],
    "float": [3.4028234663852886e38, 1.401298464324817e-45, -0.0, math.inf],
    "double": [19.99, 1e300, -5e-324, 0.1, -0.0, math.inf, 2.0**53 + 2],
    "string": ["", "é😀", "a=b/c", "\0"],
    "bytes": [b"", b"\xff\x00", b"x" * 300],
    "decimal": [Decimal("99999999999999999.999"), Decimal("-99999999999999999.999"), Decimal("0.001")],
    "date": [date(1, 1, 1), date(9999, 12, 31)],
    "time-micros": [time(23, 59, 59, 999999), time(0)],
    "timestamp-micros": [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)],
    "uuid": [b"\xff" * 16, bytes(16)],
}
# What a file's entry may hold beside its partition, by field.
DETAILS: dict[str, Any] = {
    "column_sizes": [{"key": 1, "value": 2**62}, {"key": 14, "value": 0}],
    "value_counts": [{"key": 1, "value": 1}],
    "null_value_counts": [{"key": 2, "value": 3}],
    "nan_value_counts": [{"key": 5, "value": 9}],
    "lower_bounds": [{"key": 11, "value": b"\x00\xff"}, {"key": 1, "value": b"\x00" * 8}],
    "upper_bounds": [{"key": 11, "value": b""}],
    "key_metadata": b"\x01key",
    "split_offsets": [4, 2**40],
    "sort_order_id": 0,
}


def change(
    location: str, changed: Callable[[dict[str, Any]], None], schema: Callable[[Any], None] = lambda _: None
) -> None:
    """Writes an Avro file anew, each of its records changed."""
    with local(location).open("rb") as stream:
        reader = fastavro.reader(stream)
        metadata, records = dict(reader.metadata), list(reader)
    shape = json.loads(metadata.pop("avro.schema"))
    codec = metadata.pop("avro.codec", "null")
    schema(shape)
    for each in records:
        changed(each)  # type: ignore[arg-type]
    with local(location).open("wb") as out:
        fastavro.writer(out, shape, records, codec=codec, metadata=metadata)


def manifests(lake: Lake, name: str) -> list[str]:
    snapshot = lake.plain(name).current_snapshot()
    assert snapshot is not None
    return [each["manifest_path"] for each in avro(snapshot.manifest_list)]


def live(lake: Lake, name: str) -> dict[str, dict[str, Any]]:
    """The live entries by their files' paths, but for what a rewriting sets anew."""
    found = {}
    for path in manifests(lake, name):
        for entry in avro(path):
            if entry.pop("status") != 2:
                found[entry["data_file"]["file_path"]] = entry
    return found


def avro_type(location: str) -> str | None:
    """The type of the one partition value, by its logical type where it has one; None for one that is always null."""
    with local(location).open("rb") as stream:
        shape: Any = fastavro.reader(stream).writer_schema
    file = next(field["type"] for field in shape["fields"] if field["name"] == "data_file")
    partition = next(field["type"] for field in file["fields"] if field["name"] == "partition")
    kind = next(each for each in partition["fields"][0]["type"] if each != "null")
    found = kind if isinstance(kind, str) else kind.get("logicalType", kind["type"])
    return None if found == "fixed" else str(found)


@pytest.mark.parametrize("version", ["1", "2", "3"])
@pytest.mark.parametrize(
    "partition", [*PARTITIONS, PartitionFieldSpec("u")], ids=lambda each: f"{each.transform}-{each.column}"
)
def test_a_merge_changes_nothing_of_an_entry(lake: Lake, partition: PartitionFieldSpec, version: str) -> None:
    """For every transform and type, and all that an entry may hold, a merged manifest has what its manifests had."""
    name = lake.create("t.merged", TYPES, [partition], format_version=version, **{MIN_COUNT: "3"})
    for number in range(1, 4):
        by_uuid = partition == PartitionFieldSpec("u")  # of which PyIceberg makes no files
        made = (of_a_uuid(number),) if by_uuid else lake.files(name, [{"id": number}])
        ok(lake.tables.commit(lake.effect(name, made, number)))
    for at, path in enumerate(manifests(lake, name)):
        values = EXTREMES.get(avro_type(path) or "", [None])

        def filled(entry: dict[str, Any], at: int = at, values: list[Any] = values) -> None:
            file = entry["data_file"]
            (column,) = file["partition"]
            file["partition"] = {column: values[at % len(values)] if at else values[0]}
            file.update({key: value for key, value in DETAILS.items() if key in file})

        change(path, filled)
    before = live(lake, name)
    ok(lake.tables.commit(lake.effect(name, (), 4)))
    assert len(manifests(lake, name)) == (2 if by_uuid else 1)  # readers order these UUIDs in two ways
    after = live(lake, name)
    for path, entry in before.items():
        # Inherited until now: the same values, written out.
        inherited = {key: value for key, value in after[path].items() if entry.get(key, 0) is None}
        own = {key: value for key, value in after[path]["data_file"].items() if key != "first_row_id"}
        assert repr(own) == repr({key: value for key, value in entry["data_file"].items() if key != "first_row_id"})
        assert {key: value for key, value in after[path].items() if key not in inherited and key != "data_file"} == {
            key: value for key, value in entry.items() if key not in inherited and key != "data_file"
        }


def of_a_uuid(rows: int) -> DataFile:
    return replace(some_files([rows])[0], partition=(str(uuid.UUID(int=1)),))


def with_field_of_a_later_version(shape: Any) -> None:
    file = next(field["type"] for field in shape["fields"] if field["name"] == "data_file")
    file["fields"].append({"name": "of_version_9", "type": ["null", "long"], "default": None, "field-id": 999})


@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.parametrize("value", [7, None])
def test_what_floe_does_not_know_is_not_lost(lake: Lake, version: str, value: int | None) -> None:
    """A manifest whose entries hold a value of a later version stays as it is when others are merged; the mere field,
    without a value, keeps nobody from merging."""
    name = lake.create(format_version=version, **MERGE)
    ok(lake.tables.commit(lake.effect(name, lake.files(name, [{"id": 1}]), 1)))
    [strange] = manifests(lake, name)

    def filled(entry: dict[str, Any]) -> None:
        entry["data_file"]["of_version_9"] = value

    change(strange, filled, with_field_of_a_later_version)
    for number in range(2, 8):
        ok(lake.tables.commit(lake.effect(name, lake.files(name, [{"id": number}]), number)))
    assert (strange in manifests(lake, name)) == (value is not None)
    assert lake.rows(name) == list(range(1, 8))


DOUBLES = [19.99, 1e300, 0.1, -5e-324, 1.5, math.inf, -math.inf, None]
BY_VALUE = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "v", DoubleType(), required=False))


def by_value(lake: Lake, **properties: str) -> str:
    name = lake.create("t.doubles", BY_VALUE, [PartitionFieldSpec("v")], **properties)
    for number, value in enumerate(DOUBLES, 1):
        ok(lake.tables.commit(lake.effect(name, lake.files(name, [{"id": number, "v": value}]), number)))
    return name


def found_by_value(lake: Lake, name: str, spark: IcebergSpark) -> None:
    finite = [(at, value) for at, value in enumerate(DOUBLES, 1) if value is not None and math.isfinite(value)]
    queries = [f"SELECT id FROM `default`.{name} WHERE v = {value!r}D" for _, value in finite]
    answers = spark.ask(lake.settings, [*queries, f"SELECT id, v FROM `default`.{name} ORDER BY id"])
    assert [answer.to_pylist() for answer in answers[:-1]] == [[{"id": at}] for at, _ in finite]
    assert [row["v"] for row in answers[-1].to_pylist()] == DOUBLES


def test_a_row_is_found_by_the_double_that_partitions_it(lake: Lake, iceberg_spark: IcebergSpark) -> None:
    """After merges, Spark finds each row by its value, to the last bit."""
    name = by_value(lake, **MERGE)
    assert len(manifests(lake, name)) < len(DOUBLES)
    found_by_value(lake, name, iceberg_spark)


@pytest.mark.parametrize("min_count", [2, 100])
def test_damaged_doubles_are_repaired_by_maintenance(lake: Lake, iceberg_spark: IcebergSpark, min_count: int) -> None:
    """Partition values that an older floe wrote in single precision are what the file's bounds say once the table's
    manifests were maintained, however few they are."""
    name = by_value(lake, **NO_MERGE)
    for path in manifests(lake, name):
        change(path, in_single_precision)
    ok(lake.tables.commit(lake.effect(name, (), 9)))
    assert damaged(lake, name)
    [found] = [each for each in unreadable_tables(lake.tables, "default", "prod") if each.state is CheckState.ERROR]
    assert (found.check, found.remedy) == (f"table {name}", f"floe maintain {name} -t prod")
    TableCare(lake.tables).merge_manifests(name, ManifestsPolicy(enabled=True, min_count=min_count), dry_run=False)
    assert not damaged(lake, name)
    found_by_value(lake, name, iceberg_spark)


def damaged(lake: Lake, name: str) -> list[str]:
    table = lake.plain(name)
    return damaged_manifests(table.metadata, table.io, manifests_of(table))


def in_single_precision(entry: dict[str, Any]) -> None:
    partition = entry["data_file"]["partition"]
    if partition["v"] is not None:
        try:
            (partition["v"],) = struct.unpack("f", struct.pack("f", partition["v"]))
        except OverflowError:
            partition["v"] = math.copysign(math.inf, partition["v"])


def test_pyiceberg_reads_doubles_in_single_precision() -> None:
    """What makes `ExactDoubleReader` necessary; it goes once this fails, and PyIceberg's decoder is right."""
    kept = struct.pack("<d", 19.99)
    assert new_decoder(kept).read_double() != 19.99
    assert ExactDoubleReader().read(new_decoder(kept)) == 19.99


TWO_OF_A_KIND = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "price", DecimalType(9, 2), required=False),
    NestedField(3, "tax", DecimalType(9, 2), required=False),
    NestedField(4, "buyer", UUIDType(), required=False),
    NestedField(5, "seller", UUIDType(), required=False),
)


@pytest.mark.parametrize("version", ["2", "3"])
def test_two_partition_columns_of_one_fixed_type_beside_spark(
    lake: Lake, iceberg_spark: IcebergSpark, version: str
) -> None:
    """Two decimals of one precision and two uuids partition a table, and each pair has one name in Avro. floe writes,
    Spark writes, floe merges manifests of both: each row is found by each of its four values."""
    by = [PartitionFieldSpec(field.name) for field in TWO_OF_A_KIND.fields[1:]]
    name = lake.create("t.pairs", TWO_OF_A_KIND, by, format_version=version, **NO_MERGE)
    apart = lake.create("t.apart", TWO_OF_A_KIND, format_version=version)
    rows = [
        {
            "id": at,
            "price": Decimal(f"{at}.99"),
            "tax": Decimal(f"-0.0{at}"),
            "buyer": uuid.UUID(int=at),
            "seller": uuid.UUID(int=2**128 - at),
        }
        for at in range(1, 5)
    ]

    def write(row: dict[str, Any], number: int) -> None:
        (file,) = lake.files(apart, [{**row, "buyer": row["buyer"].bytes, "seller": row["seller"].bytes}])
        ok(
            lake.tables.commit(
                lake.effect(name, [replace(file, partition=tuple(map(str, list(row.values())[1:])))], number)
            )
        )

    def values(row: dict[str, Any]) -> str:
        return f"{row['id']}, {row['price']}BD, {row['tax']}BD, '{row['buyer']}', '{row['seller']}'"

    write(rows[0], 1)
    write(rows[1], 2)
    assert [len(avro(path)) for path in manifests(lake, name)] == [1, 1], "fastavro takes no name that is defined twice"
    iceberg_spark.ask(lake.settings, [f"INSERT INTO `default`.{name} VALUES ({values(rows[2])})"])
    write(rows[3], 3)
    before = len(manifests(lake, name))
    TableCare(lake.tables).merge_manifests(name, ManifestsPolicy(enabled=True, min_count=2), dry_run=False)
    assert len(manifests(lake, name)) < before
    queries = [
        f"SELECT id FROM `default`.{name} WHERE {column} = {wanted}"
        for row in rows
        for column, wanted in zip(list(row)[1:], values(row).split(", ")[1:], strict=True)
    ]
    answers = iceberg_spark.ask(lake.settings, queries)
    assert [each["id"].to_pylist() for each in answers] == [[row["id"]] for row in rows for _ in range(4)]
    assert java_read(lake.settings, [], [name]).counts == {name: 4}


def test_pyiceberg_does_not_know_names_of_avro() -> None:
    """Why `avro_names.py` is there: PyIceberg 0.12 defines a name twice, and refuses one that is defined before it."""
    partition = StructType(*TWO_OF_A_KIND.fields[1:])
    written = AvroSchemaConversion().iceberg_to_avro(Schema(*partition.fields), schema_name="twice")
    assert json.dumps(written).count('"name": "decimal_9_2"') == 2
    with pytest.raises(SchemaParseException, match="redefined"):
        fastavro.parse_schema(written)
    once = defined_once(written)
    assert json.dumps(once).count('"name": "decimal_9_2"') == 1
    fastavro.parse_schema(once)
    with pytest.raises(TypeError, match="decimal_9_2"):
        AvroSchemaConversion().avro_to_iceberg(once)
    assert AvroSchemaConversion().avro_to_iceberg(defined_everywhere(once)).fields == partition.fields


def test_names_in_a_hostile_manifest_grow_no_schema() -> None:
    """Records whose fields are each other's names, forty deep, and a fixed type that is called as one of Avro's own: the
    first is refused at once, and the second changes no other field."""
    inner: Any = {"type": "fixed", "name": "f", "size": 1}
    for depth in range(40):
        fields = [{"name": "a", "field-id": 1, "type": inner}, {"name": "b", "field-id": 2, "type": f"r{depth - 1}"}]
        inner = {"type": "record", "name": f"r{depth}", "fields": fields}
    with pytest.raises(TypeError, match="not recognized"):
        AvroSchemaConversion().avro_to_iceberg(defined_everywhere(inner))
    own = {"type": "fixed", "name": "string", "size": 4}
    fields = [{"name": "a", "field-id": 1, "type": own}, {"name": "b", "field-id": 2, "type": "string"}]
    found = AvroSchemaConversion().avro_to_iceberg(
        defined_everywhere({"type": "record", "name": "r", "fields": fields})
    )
    assert [str(field.field_type) for field in found.fields] == ["fixed[4]", "string"]
