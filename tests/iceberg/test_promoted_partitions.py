"""A column that partitions are made of gets a wider type: files of before and of after are found by every engine, whoever
has put their manifests or the files together since.

In: tables by each transform over each type that can be widened, filled before and after. Out: what Spark finds with Iceberg's
own Java classes, rows by their values and what its metadata tables say.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, DoubleType, FloatType, IntegerType, LongType, NestedField, PrimitiveType

from framework.adapters.maintenance.tables import TableCare
from framework.config.spec import EvolveMode, PartitionFieldSpec
from framework.config.values.maintenance import CompactionPolicy, ManifestsPolicy
from testbed.record_samples import policy
from tests.iceberg.conftest import Lake
from tests.iceberg.landing import Landing
from tests.iceberg.spark_server import IcebergSpark

pytestmark = [pytest.mark.iceberg, pytest.mark.spark, pytest.mark.slow]

STRICT = policy(columns=EvolveMode.FREEZE, data_type=EvolveMode.FREEZE)
WIDER: dict[str, tuple[PrimitiveType, PrimitiveType, tuple[Any, Any, Any], tuple[tuple[str, int | None], ...]]] = {
    "int": (IntegerType(), LongType(), (-7, 3, 5_000_000_000), (("identity", None), ("bucket", 4), ("truncate", 10))),
    "float": (FloatType(), DoubleType(), (-0.5, 2.25, 0.1), (("identity", None),)),
    "decimal": (
        DecimalType(9, 2), DecimalType(18, 2), (Decimal("-7.25"), Decimal("3.00"), Decimal("5000000000.50")),
        (("identity", None), ("bucket", 4), ("truncate", 50)),
    ),
}  # fmt: skip
CASES = [(kind, transform, version) for kind, each in WIDER.items() for transform in each[3] for version in ("2", "3")]


@pytest.mark.parametrize(("kind", "transform", "version"), CASES)
def test_files_of_before_and_after_are_found(
    lake: Lake, iceberg_spark: IcebergSpark, kind: str, transform: tuple[str, int | None], version: str
) -> None:
    """After the change, after manifests were merged, and after small files were put together."""
    before, after, (first, second, third), _ = WIDER[kind]
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "w", before))
    name = lake.create("ns.t", schema, [PartitionFieldSpec("w", *transform)], format_version=version)
    landing = Landing(lake, name, STRICT)
    landing.take({"id": 1, "w": as_json(first)}, {"id": 2, "w": as_json(second)}, {"id": 3, "w": None})
    iceberg_spark.ask(lake.settings, [f"ALTER TABLE `default`.ns.t ALTER COLUMN w TYPE {in_sql(after)}"])
    landing.take({"id": 4, "w": as_json(first)}, {"id": 5, "w": as_json(second)}, {"id": 6, "w": as_json(third)})
    assert not landing.letters
    wanted = {1: first, 2: second, 3: None, 4: first, 5: second, 6: third}
    care = TableCare(lake.tables)

    def found(when: str) -> None:
        whole, *parts, files, partitions = iceberg_spark.ask(
            lake.settings,
            [
                "SELECT id, w FROM `default`.ns.t ORDER BY id",
                *(
                    f"SELECT id FROM `default`.ns.t WHERE w = CAST('{value}' AS {in_sql(after)}) ORDER BY id"
                    for value in (first, second, third)
                ),
                "SELECT partition, record_count FROM `default`.ns.t.files",
                "SELECT partition, record_count FROM `default`.ns.t.partitions",
            ],
        )
        assert dict(zip(whole["id"].to_pylist(), whole["w"].to_pylist(), strict=True)) == wanted, when
        for value, part in zip((first, second, third), parts, strict=True):
            assert part["id"].to_pylist() == [key for key, each in wanted.items() if each == value], (when, value)
        for counted in (files, partitions):
            assert sum(counted["record_count"].to_pylist()) == 6, when
        assert sorted(lake.plain(name).scan().to_arrow()["id"].to_pylist()) == [1, 2, 3, 4, 5, 6], when

    found("after the change")
    care.merge_manifests(name, ManifestsPolicy(enabled=True, min_count=2), dry_run=False)
    found("with merged manifests")
    care.compact(name, CompactionPolicy(min_input_files=2), dry_run=False)
    found("with files put together")


def as_json(value: Any) -> Any:
    return str(value) if isinstance(value, Decimal) else value


def in_sql(kind: PrimitiveType) -> str:
    return "bigint" if isinstance(kind, LongType) else str(kind)
