"""What Iceberg's Java library makes of table metadata: the metadata without some snapshots, or with a branch elsewhere.

In: lines on standard input, each metadata as JSON with what to do to it. Out: for each line the new metadata, or what
the library has against it. A REST server in Java answers with the same builder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from testbed.servers.spark_reader import RUNTIME

MARK = "RESULT "


class JavaMetadata:
    """The process, seen from a test."""

    def __init__(self, folder: Path) -> None:
        self._log = (folder / "java.log").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.simulator.java_metadata"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "TZ": "UTC"},
        )

    def removed(self, metadata: str, snapshot_ids: list[int]) -> str:
        """The metadata without these snapshots."""
        return self._ask({"metadata": metadata, "remove": snapshot_ids})

    def branched(self, metadata: str, snapshot_id: int) -> str:
        """The metadata with main at a snapshot, or why that cannot be."""
        return self._ask({"metadata": metadata, "main": snapshot_id})

    def _ask(self, what: dict[str, object]) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(what), file=self._process.stdin, flush=True)
        for line in self._process.stdout:
            if line.startswith(MARK):
                return str(json.loads(line.removeprefix(MARK)))
        self._log.seek(0)
        raise AssertionError(f"Java has ended: {self._log.read()[-3000:]}")

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(30)
        self._log.close()


def main() -> None:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.jars.packages", RUNTIME)
        .getOrCreate()
    )
    jvm = spark._jvm
    assert jvm is not None
    iceberg = jvm.org.apache.iceberg

    def changed(what: dict[str, object]) -> str:
        base = iceberg.TableMetadataParser.fromJson(what["metadata"])
        builder = iceberg.TableMetadata.buildFrom(base)
        if "remove" in what:
            ids = jvm.java.util.HashSet()
            for each in what["remove"]:  # type: ignore[attr-defined]
                ids.add(jvm.java.lang.Long.valueOf(str(each)))
            builder.removeSnapshots(ids)
        else:
            ref = iceberg.SnapshotRef.branchBuilder(jvm.java.lang.Long.parseLong(str(what["main"]))).build()
            builder.setRef("main", ref)
        return str(iceberg.TableMetadataParser.toJson(builder.build()))

    for line in sys.stdin:
        try:
            said = changed(json.loads(line))
        except (Py4JJavaError, PySparkException) as error:
            said = str(error)
        print(MARK + json.dumps(said), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
