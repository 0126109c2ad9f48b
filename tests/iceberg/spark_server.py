"""Spark SQL with Iceberg's own Java runtime for tests that compare cells: one process for all of them, exact Arrow
values.

In: lines on standard input, each a catalog's settings and queries. Out: for each line one with the names of Arrow
files, a result a query, or with the error. Each line has a session of its own, since Java's JDBC catalog files its tables
under its own name, as PyIceberg's does: all are called `default` unless the settings name another one.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from testbed.servers.spark_reader import JDBC_DRIVERS, RUNTIME

PACKAGES = f"{RUNTIME},{JDBC_DRIVERS['sqlite']}"
MARK = "RESULT "


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
                result = session.sql(query).toArrow()
                with pa.ipc.new_file(names[-1], result.schema) as file:
                    file.write_table(result)
        except Exception as error:  # of one request; those that follow are answered
            names = f"{type(error).__name__}: {error}"
        print(MARK + json.dumps(names), flush=True)
    root.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
