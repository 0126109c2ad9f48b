"""floe's upserts beside Spark's `MERGE INTO` in `foreachBatch`, Flink's sink, and floe's own append of the same records.

In: how large the table is and how many changed keys there are. Out: for each contender its rows per second and the CPU
of its processes, and what they are to each other; with `--json FILE` the same for machines. All use one broker, one
REST catalog and two cores, one after the other. Nine changes in ten hit a random row of the table, the tenth inserts.
Spark with Iceberg's own runtime makes the tables, so that each contender starts from the same files. Times are those of
the tables' snapshots. At the end every table is read back with PyIceberg (not Flink's, which has equality deletes) and
compared with what the changes fold to; Spark counts rows, keys and changed rows of each.

    python -m benchmarks.upsert --rows 10000000 --changes 3000000
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Summary

from benchmarks import flink
from benchmarks.contenders import CORES, Floe, Job
from benchmarks.processes import Costs
from benchmarks.servers import Servers
from testbed.servers.maven import dependency, jars
from testbed.servers.spark_reader import ICEBERG, SPARK, java_read

PATIENCE_S = 1800.0
CONTENDERS = ("floe", "merge", "append", "flink")
USUAL = CONTENDERS[:3]  # Flink is a download of 300 MB
_COLUMNS = "order_id string not null, customer bigint, amount double, status string, updated bigint"
_SCHEMA = "{order_id: {type: string, required: true}, customer: long, amount: double, status: string, updated: long}"
_FILES = 64
SPARK_KAFKA = "4.1.1"  # the newest of 4.1 that is whole on Maven Central


def key(number: int) -> str:
    """The key of a row, 36 characters like a UUID; Spark's `md5` makes the same."""
    text = hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


@dataclass(frozen=True)
class Load:
    """`rows` that the table has before, `changes` that come, `batch` of them in one `MERGE`."""

    rows: int
    changes: int
    batch: int
    version: int
    partition_by: str
    interval_ms: int

    def numbers(self) -> list[int]:
        """The row that each change is about; none twice, so each change is one row of one commit."""
        chance = random.Random(7)
        known = iter(chance.sample(range(self.rows), self.changes))
        return [self.rows + place if place % 10 == 9 else next(known) for place in range(self.changes)]


_MAKE = """
import json, os
from pyspark.sql import SparkSession
given = json.loads(os.environ.pop("FLOE_BENCH"))
builder = SparkSession.builder.master(f"local[{given['cores']}]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.memory", "4g")
builder = builder.config("spark.driver.extraClassPath", given["jars"])
builder = builder.config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
builder = builder.config("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
for name, value in given["catalog"].items():
    builder = builder.config("spark.sql.catalog.lake." + name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
"""
_FILL = (
    _MAKE
    + """
partition = f"PARTITIONED BY ({given['partition_by']})" if given["partition_by"] else ""
modes = ", ".join(f"'write.{word}.mode' = 'merge-on-read'" for word in ("merge", "update", "delete"))
spark.sql(f"CREATE TABLE lake.{given['table']} ({given['columns']}) USING iceberg {partition} "
          f"TBLPROPERTIES ('format-version' = '{given['version']}', {modes})")
spark.sql(f"ALTER TABLE lake.{given['table']} SET IDENTIFIER FIELDS order_id")
frame = spark.sql(f"SELECT md5(cast(id AS string)) AS h, id FROM range(0, {given['rows']}, 1, {given['files']})")
frame.selectExpr(
    "concat_ws('-', substr(h, 1, 8), substr(h, 9, 4), substr(h, 13, 4), substr(h, 17, 4), substr(h, 21)) AS order_id",
    "id % 100000 AS customer", "cast(id % 1000 AS double) AS amount", "'new' AS status", "cast(-1 AS bigint) AS updated",
).writeTo(f"lake.{given['table']}").append()
"""
)
# What a user would write by hand, by the examples of Iceberg's and Databricks' documentation.
_MERGE = (
    _MAKE
    + """
stream = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", given["broker"]).option("subscribe", given["topic"])
    .option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", given["batch"]).load()
    .selectExpr("from_json(cast(value AS string), 'order_id string, customer bigint, amount double, status string, "
                "updated bigint') AS r", "partition", "offset").selectExpr("r.*", "partition", "offset")
)
def merge(batch, number):
    batch.createOrReplaceTempView("changes")
    batch.sparkSession.sql(f'''
        MERGE INTO lake.{given["table"]} t USING (
            SELECT order_id, max_by(struct(customer, amount, status, updated), struct(partition, offset)) AS r
            FROM changes GROUP BY order_id
        ) s ON t.order_id = s.order_id
        WHEN MATCHED THEN UPDATE SET t.customer = s.r.customer, t.amount = s.r.amount, t.status = s.r.status,
                                     t.updated = s.r.updated
        WHEN NOT MATCHED THEN INSERT (order_id, customer, amount, status, updated)
            VALUES (s.order_id, s.r.customer, s.r.amount, s.r.status, s.r.updated)''')
    print("BATCH", number, flush=True)
stream.writeStream.foreachBatch(merge).option("checkpointLocation", given["checkpoint"]).start().awaitTermination()
"""
)


def spark_jars() -> str:
    """Iceberg's runtime for Spark and Spark's Kafka source."""
    runtime = jars(
        f"bench-iceberg-spark-{ICEBERG}",
        [dependency("org.apache.iceberg", f"iceberg-spark-runtime-{SPARK}_2.13", ICEBERG)],
    )
    kafka = jars(
        f"bench-spark-kafka-{SPARK_KAFKA}", [dependency("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK_KAFKA)]
    )
    # What Spark brings itself must not be there twice, in other versions.
    wanted = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
    needed = [each for each in kafka.glob("*.jar") if each.name.startswith(wanted)]
    return ":".join(map(str, [*runtime.glob("*.jar"), *needed]))


# What Iceberg's documentation of its sink for Flink says of upserts.
_FLINK = (
    "CREATE CATALOG lake WITH ('type' = 'iceberg', 'catalog-type' = 'rest', 'uri' = '{uri}')",
    "CREATE TEMPORARY TABLE changes (order_id STRING NOT NULL, customer BIGINT, amount DOUBLE, status STRING, "
    "updated BIGINT) WITH ('connector' = 'kafka', 'topic' = '{topic}', 'format' = 'json', "
    "'properties.bootstrap.servers' = '{broker}', 'properties.group.id' = 'flink', "
    "'scan.startup.mode' = 'earliest-offset')",
    "INSERT INTO lake.{table} /*+ OPTIONS('upsert-enabled' = 'true') */ SELECT * FROM changes",
)


class Bench:
    def __init__(self, servers: Servers, folder: Path, load: Load) -> None:
        self._servers, self._folder, self._load = servers, folder, load
        self._topic = "changes"

    def _python(self, code: str, table: str, **more: object) -> subprocess.Popen[bytes]:
        load = self._load
        catalog = {"type": "rest", "uri": self._servers.rest.uri}
        given = {
            "cores": CORES, "jars": spark_jars(), "catalog": catalog, "table": table, "columns": _COLUMNS,
            "rows": load.rows, "files": _FILES, "version": load.version, "partition_by": load.partition_by,
            "broker": self._servers.broker.address, "topic": self._topic, "batch": load.batch, **more,
        }  # fmt: skip
        log = (self._folder / f"{table}.log").open("ab")
        env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "TZ": "UTC", "FLOE_BENCH": json.dumps(given)}
        command = [sys.executable, "-c", code]
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=env, start_new_session=True)

    def fill(self, table: str) -> None:
        if (code := self._python(_FILL, table).wait(PATIENCE_S)) != 0:
            raise RuntimeError(f"the table was not made ({code}): {self._folder}/{table}.log")

    def produce(self) -> None:
        self._servers.load(self._topic, map(_change, enumerate(self._load.numbers())))

    def run(self, contender: str) -> dict[str, Any]:
        """Start it on the full topic; its figures when the last change is visible."""
        name = f"bench.orders_{contender}"
        self._servers.make_namespace("bench")
        if contender != "append":
            self.fill(name)
        started = time.time()
        process: subprocess.Popen[bytes] | None = None
        floe = Floe(self._servers, self._folder / "floe", conf={"spark.driver.memory": "2g"})
        if contender == "merge":
            process = self._python(_MERGE, name, checkpoint=str(self._folder / "checkpoint"))
        elif contender == "flink":
            process = self._start_flink(name)
        else:
            write = "{mode: upsert, key: [order_id]}" if contender == "floe" else ""
            table = name.removeprefix("bench.")
            floe.start(Job(self._topic, "bench", table, self._load.interval_ms, "", _SCHEMA, write, contender))
        costs = Costs(process.pid if process else floe.pid).start()
        try:
            commits = self._wait(name, started, process, floe)
            costs.stop()
        finally:
            if process is not None:
                with contextlib.suppress(ProcessLookupError):  # it has ended, which is told already
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            else:
                floe.stop()
        figures = _figures(contender, commits, costs, started)
        if contender != "flink":  # PyIceberg reads no equality deletes
            figures |= self._read_back(name, contender)
        return figures if contender == "append" else figures | self._read_by_spark(name)

    def _start_flink(self, table: str) -> subprocess.Popen[bytes]:
        servers, load = self._servers, self._load
        given = {"uri": servers.rest.uri, "table": table, "topic": self._topic, "broker": servers.broker.address}
        settings = {"parallelism.default": CORES, "execution.checkpointing.interval": f"{load.interval_ms} ms"}
        return flink.start([each.format(**given) for each in _FLINK], self._folder / "flink", settings)

    def _wait(
        self, name: str, started: float, process: subprocess.Popen[bytes] | None, floe: Floe
    ) -> list[tuple[float, int]]:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            if process is None:
                floe.check()
            elif process.poll() is not None:
                raise RuntimeError(f"the process of {name} ended with {process.returncode}; logs: {self._folder}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"{name} was not done within {PATIENCE_S:.0f} s")
            commits = self._commits(name, started)
            if sum(rows for _, rows in commits) >= self._load.changes:
                return commits
            time.sleep(1)

    def _commits(self, name: str, started: float) -> list[tuple[float, int]]:
        """When a snapshot was made since then, in seconds, and how many rows it added."""
        table = self._table(name)
        snapshots = table.snapshots() if table else []
        added = [(each.timestamp_ms / 1000, _added(each.summary)) for each in snapshots]
        return sorted((at, rows) for at, rows in added if at > started and rows)

    def _table(self, name: str) -> Table | None:
        try:
            return self._servers.catalog().load_table(name)
        except NoSuchTableError:
            return None

    def _read_back(self, name: str, contender: str) -> dict[str, Any]:
        """Every key once, and of each change its row; an append has the changes alone."""
        table = self._table(name)
        assert table is not None
        found = table.scan(selected_fields=("order_id", "updated")).to_arrow()
        rows = (0 if contender == "append" else self._load.rows) + self._load.changes // (
            1 if contender == "append" else 10
        )
        assert len(found) == rows, f"{name} has {len(found):,} rows and not {rows:,}"
        hashes = np.concatenate([_hashes(chunk) for chunk in found["order_id"].chunks])
        assert len(np.unique(hashes)) == rows, f"{name} has a key twice"
        changed = found.filter(pc.greater_equal(found["updated"], 0))
        numbers = np.asarray(self._load.numbers())[np.asarray(changed["updated"])]
        sample = random.Random(1).sample(range(len(changed)), min(10_000, len(changed)))
        assert len(changed) == self._load.changes
        assert all(changed["order_id"][place].as_py() == key(int(numbers[place])) for place in sample)
        return {"rows_read_back": len(found)}

    def _read_by_spark(self, name: str) -> dict[str, Any]:
        """Every key once, and so many changed; how long a new session takes to find that out."""
        query = f"SELECT count(*) n, count(DISTINCT order_id) d, count_if(updated >= 0) u FROM `default`.{name}"
        began = time.monotonic()
        [[found]] = java_read({"type": "rest", "uri": self._servers.rest.uri}, [query]).rows
        rows = self._load.rows + self._load.changes // 10
        assert found == {"n": rows, "d": rows, "u": self._load.changes}, f"{name}: {found}"
        return {"rows_read_back": rows, "spark_read_s": round(time.monotonic() - began, 1)}


def _hashes(keys: pa.Array) -> npt.NDArray[np.uint64]:
    """The first 64 bits of each key, which is a hash and written in hexadecimal digits."""
    digits = pc.replace_substring(pc.utf8_slice_codeunits(keys, 0, 18), "-", "").to_pylist()
    return np.fromiter((int(text, 16) for text in digits), np.uint64, len(digits))


def _added(summary: Summary | None) -> int:
    return int(summary["added-records"] or 0) if summary is not None else 0


def _change(numbered: tuple[int, int]) -> bytes:
    place, number = numbered
    record = {"order_id": key(number), "customer": number % 100_000, "amount": float(place % 1000)}
    return json.dumps({**record, "status": "paid", "updated": place}, separators=(",", ":")).encode()


def _figures(contender: str, commits: list[tuple[float, int]], costs: Costs, started: float) -> dict[str, Any]:
    """Steady is what comes after the commit by which 15 % are done: neither start-up nor the first build of an index is
    in it."""
    totals = list(itertools.accumulate(rows for _, rows in commits))
    total = totals[-1]
    first = next(number for number, done in enumerate(totals) if done >= 0.15 * total)
    begin, last = commits[first], commits[-1]
    figures: dict[str, Any] = {
        "contender": contender,
        "commits": len(commits),
        "end_to_end_s": round(last[0] - started, 1),
        "cpu_s_per_million": round(costs.cpu_at(last[0]) / total * 1e6, 2),
        "peak_memory_mb": round(costs.peak_bytes / 1e6),
    }
    if begin is not last:
        between = total - totals[first]
        spent = costs.cpu_at(last[0]) - costs.cpu_at(begin[0])
        figures["steady_rows_s"] = round(between / (last[0] - begin[0]))
        figures["steady_cpu_s_per_million"] = round(spent / between * 1e6, 2)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the table before")
    parser.add_argument("--changes", type=int, default=6_000_000, help="keys that change, nine in ten of them there")
    parser.add_argument("--batch", type=int, default=1_000_000, help="changes in one MERGE")
    parser.add_argument("--interval-ms", type=int, default=10_000, help="floe's commit interval")
    parser.add_argument("--format-version", type=int, default=2, choices=(2, 3))
    parser.add_argument("--partition-by", default="bucket(16, order_id)", help="empty for none")
    parser.add_argument("--contender", action="append", choices=CONTENDERS, help="which (default: all but Flink)")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    load = Load(
        options.rows, options.changes, options.batch, options.format_version, options.partition_by, options.interval_ms
    )
    results = []
    folder = Path(tempfile.mkdtemp(prefix="floe-upsert-"))
    for number in range(options.rounds):
        at = folder / str(number)
        servers = Servers(at / "servers").start()
        try:
            bench = Bench(servers, at, load)
            bench.produce()
            for contender in options.contender or USUAL:
                results.append(bench.run(contender))
                print(json.dumps(results[-1]), flush=True)
        finally:
            servers.stop()
            shutil.rmtree(at / "servers", ignore_errors=True)
    print(f"logs: {folder}")
    if options.json:
        options.json.write_text(json.dumps({"load": asdict(load), "results": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
