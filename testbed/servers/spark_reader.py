"""Reads tables as the Java world does: Spark SQL with Iceberg's own runtime, and Iceberg's Java library without Spark.

In: a catalog's settings as PyIceberg takes them, SQL, names of tables. Out: rows as dictionaries, and the number of
records that the plain Java reader finds in each table. Spark runs in a process of its own, with jars from Maven
Central; nothing of floe and nothing of PyIceberg is in it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import pyspark

from testbed.servers.rest_catalog import java_store

SPARK = ".".join(pyspark.__version__.split(".")[:2])
ICEBERG = "1.11.0" if SPARK == "4.0" else "1.12.0"  # 1.12 has no runtime for Spark 4.0
RUNTIME = f"org.apache.iceberg:iceberg-spark-runtime-{SPARK}_2.13:{ICEBERG}"
AWS_BUNDLE = f"org.apache.iceberg:iceberg-aws-bundle:{ICEBERG}"  # 60 MB; of the runtime's own version
JDBC_DRIVERS = {"sqlite": "org.xerial:sqlite-jdbc:3.50.3.0", "postgresql": "org.postgresql:postgresql:42.7.7"}
# Java's JDBC catalog files its tables under its own name, as PyIceberg's does: both are called `default`.
_SCRIPT = """
import json, os, sys
from pyspark.sql import SparkSession
catalog, conf, queries, tables, wanted = json.loads(os.environ.pop("FLOE_TEST_READ"))
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", "2")
builder = builder.config("spark.sql.catalog.default", "org.apache.iceberg.spark.SparkCatalog")
for key, value in catalog.items():
    builder = builder.config("spark.sql.catalog.default." + key, value)
for key, value in conf.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
rows = [[row.asDict(True) for row in spark.sql(query).collect()] for query in queries]
counts, records = {}, {}
if tables:
    iceberg = spark._jvm.org.apache.iceberg
    hadoop = spark._jsc.hadoopConfiguration()
    lake = iceberg.CatalogUtil.buildIcebergCatalog("default", catalog, hadoop)
    size = iceberg.relocated.com.google.common.collect.Iterables.size
    for name in tables:
        table = lake.loadTable(iceberg.catalog.TableIdentifier.parse(name))
        counts[name] = size(iceberg.data.IcebergGenerics.read(table).build())
        if wanted:
            found = iceberg.data.IcebergGenerics.read(table).build().iterator()
            while found.hasNext():
                records.setdefault(name, []).append(found.next().toString())
print("RESULT " + json.dumps([rows, counts, records], default=str))
"""


@dataclass(frozen=True)
class JavaRead:
    """`rows` of each query, in their order; `counts`: records by table, as the plain Java reader found them, and
    `records` themselves in Java's words, where they were asked for."""

    rows: list[list[dict[str, object]]]
    counts: dict[str, int]
    records: dict[str, list[str]]


def java_read(
    settings: Mapping[str, str],
    queries: Sequence[str],
    tables: Sequence[str] = (),
    timeout_s: float = 600,
    records: bool = False,
) -> JavaRead:
    """Run queries on catalog `default` (in SQL: `` `default`.namespace.table ``), and read `tables` without Spark."""
    catalog, packages = java_settings(settings)
    packages += [AWS_BUNDLE] if "s3.endpoint" in settings else []
    conf = {"spark.jars.packages": ",".join(packages)}
    request = json.dumps([catalog, conf, list(queries), list(tables), records])
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "TZ": "UTC", "FLOE_TEST_READ": request},
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, done.stderr[-3000:]
    return JavaRead(*json.loads(lines[0].removeprefix("RESULT ")))


def java_settings(settings: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """PyIceberg's settings in the words of Iceberg's Java catalogs, and the packages that they need."""
    store = java_store(settings)
    if settings["type"] == "rest":
        return {"type": "rest", "uri": settings["uri"], **store}, [RUNTIME]
    given = urlsplit(settings["uri"])
    kind = given.scheme.partition("+")[0]
    catalog = {"type": "jdbc", "warehouse": settings["warehouse"], "jdbc.schema-version": "V1", **store}
    if kind == "sqlite":
        catalog["uri"] = f"jdbc:sqlite:/{given.path.lstrip('/')}"
    else:
        catalog["uri"] = f"jdbc:{kind}://{given.hostname}:{given.port}{given.path}"
        catalog |= {"jdbc.user": given.username or "", "jdbc.password": given.password or ""}
    return catalog, [RUNTIME, JDBC_DRIVERS[kind]]
