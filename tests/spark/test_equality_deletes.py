"""An upsert table into which another engine writes equality deletes, as Flink's sink does: held by name, mended by the
remedy that the message tells."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.servers.spark_reader import java_settings
from tests.conftest import Broker
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.slow]

PIPELINE = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      schema: {{id: {{type: string, required: true}}, n: long}}
    routes: {{rules: [{{table: shop.orders}}]}}
    tables: {{defaults: {{write: {{mode: upsert, key: [id]}}, commit: {{interval: 1s}}}}}}
    errors: {{policy: dead_letter, dead_letter_table: shop.dead_letters}}
"""
# Iceberg's own classes write the delete; the words after it are SQL.
JAVA = """
import json, os
from pyspark.sql import SparkSession
settings, packages, key, queries = json.loads(os.environ.pop("FLOE_TEST_DELETE"))
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.jars.packages", packages)
builder = builder.config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
builder = builder.config("spark.sql.catalog.default", "org.apache.iceberg.spark.SparkCatalog")
for name, value in settings.items():
    builder = builder.config("spark.sql.catalog.default." + name, value)
spark = builder.getOrCreate()
if key is not None:
    iceberg = spark._jvm.org.apache.iceberg
    lake = iceberg.CatalogUtil.buildIcebergCatalog("default", settings, spark._jsc.hadoopConfiguration())
    table = lake.loadTable(iceberg.catalog.TableIdentifier.parse("shop.orders"))
    of_key = table.schema().select(["id"])
    ids = spark._sc._gateway.new_array(spark._jvm.int, 1)
    ids[0] = of_key.findField("id").fieldId()
    made = iceberg.data.GenericFileWriterFactory.Builder(table).deleteFileFormat(iceberg.FileFormat.PARQUET)
    factory = made.equalityFieldIds(ids).equalityDeleteRowSchema(of_key).build()
    file = iceberg.io.OutputFileFactory.builderFor(table, 1, 1).format(iceberg.FileFormat.PARQUET).build().newOutputFile()
    writer = factory.newEqualityDeleteWriter(file, table.spec(), None)
    row = iceberg.data.GenericRecord.create(of_key)
    row.set(0, key)
    writer.write(row)
    writer.close()
    table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()
for query in queries:
    spark.sql(query).collect()
"""


def in_java(project: Project, key: str | None, *queries: str) -> None:
    settings, packages = java_settings(project.catalog_settings)
    given = json.dumps([settings, ",".join(packages), key, queries])
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "TZ": "UTC", "FLOE_TEST_DELETE": given}
    done = subprocess.run([sys.executable, "-c", JAVA], capture_output=True, text=True, env=env, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]


def test_equality_deletes_of_others_hold_a_table_until_they_are_applied(tmp_path: Path, broker: Broker) -> None:
    """`plan` refuses the table and a run holds, both by name and before anything is written; what the message says to
    do in Spark makes the table one that floe writes again, without the row that was deleted."""
    project = Project(tmp_path, broker.bootstrap_servers)
    topic = broker.new_topic("orders")
    file = project.pipeline("orders", PIPELINE.format(topic=topic))
    broker.produce(topic, [{"id": str(i), "n": i} for i in range(10)], keys=[str(i) for i in range(10)])
    project.run("run", file, "--until-caught-up", timeout_s=300)

    in_java(project, "3")
    before = project.catalog().load_table("shop.orders").metadata
    (shown,) = json.loads(project.run("plan", file, "--json", code=6))["plans"]
    (table,) = (each for each in shown["tables"] if each["table"] == "shop.orders")
    assert (table["action"], table["code"]) == ("refuse", "FLOE-R144")
    assert "has equality deletes" in table["notes"][0]
    broker.produce(topic, [{"id": "4", "n": 40}, {"id": "11", "n": 110}], keys=["4", "11"])
    said = project.run("run", file, "--until-caught-up", timeout_s=300, code=6)
    assert "FLOE-R144" in said
    assert "has equality deletes" in said
    assert project.catalog().load_table("shop.orders").metadata == before

    remedy = re.search(r"CALL system\.rewrite_data_files\(.*?\)\)", said)
    assert remedy is not None, said
    in_java(project, None, remedy[0].replace("system.", "default.system."))
    project.run("run", file, "--until-caught-up", timeout_s=300)
    rows = {row["id"]: row["n"] for row in project.table("shop.orders").to_pylist()}
    assert rows == {str(i): i for i in range(10) if i not in (3, 4)} | {"4": 40, "11": 110}
