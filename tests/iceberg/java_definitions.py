"""What Iceberg's Java library says of tables' definitions, without a catalog: one JVM for all of them.

In: lines on standard input, each a table's metadata as JSON, or nothing, which asks for the names that the library keeps
for itself. Out: for each line those names, or "", or what the library, or Spark's part
of it, has against the table. Nothing of floe and nothing of PyIceberg is in it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from testbed.servers.spark_reader import RUNTIME

MARK = "RESULT "
PACKAGE = "org.apache.iceberg"


class JavaDefinitions:
    """The process, seen from a test."""

    def __init__(self, folder: Path) -> None:
        self._log = (folder / "java.log").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.iceberg.java_definitions"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "TZ": "UTC"},
        )

    def metadata_columns(self) -> list[str]:
        """The names of the library's metadata columns, and of others that it keeps for tables of its own."""
        return self.ask("").split()

    def ask(self, metadata: str) -> str:
        """Why the table cannot be read or written; "" where it can."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(metadata), file=self._process.stdin, flush=True)
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
    iceberg = spark._jvm.org.apache.iceberg  # type: ignore[union-attr]

    def kept() -> str:
        constants = iceberg.MetadataColumns.ROW_ID.getClass().getClassLoader().loadClass(f"{PACKAGE}.MetadataColumns")
        fields = [field for field in constants.getFields() if field.getType().getSimpleName() == "NestedField"]
        return " ".join([iceberg.MetadataColumns.PARTITION_COLUMN_NAME, *(field.get(None).name() for field in fields)])

    def judge(metadata: str) -> str:
        if not metadata:
            return kept()
        parsed = iceberg.TableMetadataParser.fromJson(metadata)
        schema = parsed.schema()
        iceberg.Schema.checkCompatibility(schema, parsed.formatVersion())
        iceberg.avro.AvroSchemaUtil.convert(schema.asStruct(), "table")
        iceberg.parquet.ParquetSchemaUtil.convert(schema, "table")
        for spec in parsed.specs():
            iceberg.avro.AvroSchemaUtil.convert(spec.partitionType(), "partition")
        for column in schema.columns():
            if iceberg.MetadataColumns.isMetadataColumn(column.name()):
                return f"{column.name()} is the name of a metadata column"
        iceberg.spark.SparkSchemaUtil.convert(schema)
        return ""

    for line in sys.stdin:
        try:
            said = judge(json.loads(line))
        except (PySparkException, Py4JJavaError) as error:
            said = str(error).strip() or type(error).__name__
        print(MARK + json.dumps(said), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
