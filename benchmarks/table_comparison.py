"""How long `floe compare` takes for two equal tables, and how much memory, beside a full outer join in Spark.

In: how many rows. Out: seconds and peak memory of `floe compare` by whole rows and by key, seconds of the join on the same
cores, and exit code 1 where the verb is slower, takes more than `--most-mb`, or calls equal tables unequal. Both tables
have the same rows in files of another order, written by plain PyIceberg; a third one has one value changed, one row less
and one row twice, and each must be found.

    python -m benchmarks.table_comparison --rows 50000000
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import BooleanType, DoubleType, LongType, NestedField, StringType, TimestamptzType

from testbed.servers.spark_reader import java_settings

IN_A_FILE = 2_000_000
SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "customer", LongType()),
    NestedField(3, "name", StringType()),
    NestedField(4, "price", DoubleType()),
    NestedField(5, "at", TimestamptzType()),
    NestedField(6, "paid", BooleanType()),
)
NAMES = pa.array([f"name {number}" for number in range(1000)])
TARGET = """apiVersion: floe/v1
kind: Target
metadata: {{name: bench}}
connections:
  kafka: {{main: {{bootstrap.servers: "127.0.0.1:1"}}}}
  catalog: {{default: {{type: sql, uri: "{uri}", warehouse: "{warehouse}"}}}}
"""
SPARK = """
import json, sys, time
from pyspark.sql import SparkSession
catalog, packages, join = json.loads(sys.argv[1])
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.memory", "4g")
builder = builder.config("spark.jars.packages", ",".join(packages)).config("spark.ui.showConsoleProgress", "false")
builder = builder.config("spark.sql.catalog.default", "org.apache.iceberg.spark.SparkCatalog")
for key, value in catalog.items():
    builder = builder.config("spark.sql.catalog.default." + key, value)
spark = builder.getOrCreate()
spark.sql("SELECT count(*) FROM `default`.shop.a").collect()
began = time.monotonic()
differing = spark.sql(join).collect()[0][0]
print("RESULT", json.dumps([time.monotonic() - began, differing]))
"""
JOIN = """SELECT count(*) FROM `default`.shop.a a FULL OUTER JOIN `default`.shop.b b ON a.id = b.id
WHERE a.id IS NULL OR b.id IS NULL OR NOT (a.customer <=> b.customer AND a.name <=> b.name AND a.price <=> b.price
AND a.at <=> b.at AND a.paid <=> b.paid)"""


def rows_of(ids: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Table:
    moments = pa.array(ids * 1000 + 1_700_000_000_000_000, pa.timestamp("us", "UTC"))
    columns = [ids, ids * 7919 % 1_000_003, NAMES.take(pa.array(ids % 1000)), ids % 10_007 / 4, moments, ids % 5 == 0]
    return pa.Table.from_arrays([pa.array(each) for each in columns], schema=SCHEMA.as_arrow())


def fill(catalog: SqlCatalog, count: int) -> None:
    """`a` and `b` with the same rows, and `c` with three that differ."""
    catalog.create_namespace("shop")
    tables = {name: catalog.create_table(f"shop.{name}", SCHEMA) for name in "abc"}
    starts = range(0, count, IN_A_FILE)
    chance = np.random.default_rng(1)
    for start in starts:
        tables["a"].append(rows_of(np.arange(start, min(start + IN_A_FILE, count))))
    for start in reversed(starts):
        ids = chance.permutation(np.arange(start, min(start + IN_A_FILE, count)))
        tables["b"].append(rows_of(ids))
        if start == 0:
            at = {int(number): place for place, number in enumerate(ids) if number in (17, 4711)}
            ids = np.append(np.delete(ids, at[17]), 99)
        rows = rows_of(ids)
        if start == 0:
            price = np.where(ids == 4711, -1.0, ids % 10_007 / 4)
            rows = rows.set_column(3, SCHEMA.as_arrow().field(3), pa.array(price))
        tables["c"].append(rows)


def compare(folder: Path, *arguments: str) -> tuple[float, float, dict[str, Any]]:
    """Seconds, peak megabytes, and what it said."""
    began = time.monotonic()
    command = [sys.executable, "-m", "framework.cli.main", "compare", *arguments, "-t", "bench", "--json"]
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": os.getcwd()}
    )
    assert process.stdout is not None
    said = process.stdout.read()
    _, _, used = os.wait4(process.pid, 0)
    return time.monotonic() - began, used.ru_maxrss / 1024, json.loads(said.splitlines()[-1])


def join(settings: dict[str, str]) -> tuple[float, int]:
    """Seconds of the join, and how many rows differ by it."""
    given = json.dumps([*java_settings(settings), JOIN])
    done = subprocess.run([sys.executable, "-c", SPARK, given], capture_output=True, text=True, check=False)
    line = next((line for line in done.stdout.splitlines() if line.startswith("RESULT ")), None)
    if line is None:
        raise SystemExit(f"Spark ended with {done.returncode}: {done.stderr[-3000:]}")
    seconds, differing = json.loads(line.removeprefix("RESULT "))
    return float(seconds), int(differing)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--most-mb", type=int, default=1_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/w"}
        fill(SqlCatalog("default", **settings), given.rows)
        (folder / "targets").mkdir()
        (folder / "targets" / "bench.yaml").write_text(TARGET.format(**settings))
        whole_s, whole_mb, whole = compare(folder, "shop.a", "shop.b")
        keyed_s, keyed_mb, keyed = compare(folder, "shop.a", "shop.b", "--key", "id")
        _, found_mb, found = compare(folder, "shop.a", "shop.c", "--key", "id")
        spark_s, differing = join(settings)
    print(f"rows in each table: {given.rows:,}")
    print(f"whole rows: {whole_s:.1f} s, {whole_mb:,.0f} MB; by key: {keyed_s:.1f} s, {keyed_mb:,.0f} MB")
    print(f"full outer join in Spark: {spark_s:.1f} s, {differing} rows differ; ratio {spark_s / keyed_s:.1f}")
    print(f"three rows that differ: {found['counts']}, {found_mb:,.0f} MB")
    is_right = whole["equal"] and keyed["equal"] and not differing and found["complete"]
    is_found = found["counts"] == {"missing": 1, "extra": 1, "changed": 1}
    is_small = max(whole_mb, keyed_mb, found_mb) <= given.most_mb
    return 0 if is_right and is_found and is_small and keyed_s < spark_s else 1


if __name__ == "__main__":
    sys.exit(main())
