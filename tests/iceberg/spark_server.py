"""Spark SQL with Iceberg's own Java runtime for tests that compare cells: one process for all of them, exact Arrow
values.

In: lines on standard input, each a catalog's settings and queries. Out: for each line one with the names of Arrow
files, a result a query, or with the error. Each line has a session of its own, since Java's JDBC catalog files its tables
under its own name, as PyIceberg's does: all are called `default` unless the settings name another one. `STREAM table` is
no SQL: it reads the table as a stream, from where the last reader of that name in that folder stopped, and its result is
every row that such readers have had.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from testbed.servers.spark_reader import JDBC_DRIVERS, RUNTIME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PACKAGES = f"{RUNTIME},{JDBC_DRIVERS['sqlite']}"
MARK = "RESULT "
STREAM = "STREAM "


class IcebergSpark:
    """The process, seen from a test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = (folder / "spark.log").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.iceberg.spark_server", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "TZ": "UTC"},
        )

    def ask(self, settings: Mapping[str, str], queries: Sequence[str]) -> list[pa.Table]:
        """The results of the queries, in order, each in the state that the one before left."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        uri = "jdbc:" + settings["uri"].replace("sqlite:///", "sqlite:")
        name, version = settings.get("catalog-name", "default"), settings.get("jdbc.schema-version", "V1")
        line = [name, version, uri, settings["warehouse"], list(queries)]
        print(json.dumps(line), file=self._process.stdin, flush=True)
        for line in self._process.stdout:
            if line.startswith(MARK):
                answer = json.loads(line.removeprefix(MARK))
                assert isinstance(answer, list), answer
                return [pa.ipc.open_file(name).read_all() for name in answer]
        self._log.seek(0)
        raise AssertionError(f"Spark has ended: {self._log.read()[-3000:]}")

    def stop(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(30)
        self._log.close()


def streamed(session: SparkSession, table: str, folder: Path) -> DataFrame:
    """What streaming readers of the table have had, after one of them has read to the end. It stops then."""
    kept = folder / f"stream of {table}"
    reader = session.readStream.format("iceberg").load(table).writeStream.format("parquet")
    query = reader.option("checkpointLocation", str(kept / "checkpoint")).start(str(kept / "rows"))
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    return session.read.parquet(str(kept / "rows"))


def main(folder: Path) -> None:
    from pyspark.sql import SparkSession

    root = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.jars.packages", PACKAGES)
        .getOrCreate()
    )
    answered = 0
    for line in sys.stdin:
        catalog, version, uri, warehouse, queries = json.loads(line)
        session = root.newSession()
        for key, value in {
            "": "org.apache.iceberg.spark.SparkCatalog",
            ".type": "jdbc",
            ".uri": uri,
            ".warehouse": warehouse,
            ".jdbc.schema-version": version,
        }.items():
            session.conf.set(f"spark.sql.catalog.{catalog}{key}", value)
        names: list[str] | str = []
        try:
            for query in queries:
                answered += 1
                names = [*names, str(folder / f"{answered}.arrow")]
                is_stream = query.startswith(STREAM)
                result = (
                    streamed(session, query[len(STREAM) :], folder) if is_stream else session.sql(query)
                ).toArrow()
                with pa.ipc.new_file(names[-1], result.schema) as file:
                    file.write_table(result)
        except Exception as error:  # of one request; those that follow are answered
            names = f"{type(error).__name__}: {error}"
        print(MARK + json.dumps(names), flush=True)
    root.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
