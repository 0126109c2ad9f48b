"""Reads Iceberg tables with other engines than floe: PyIceberg, DuckDB, Daft, Polars, Spark, and Iceberg's Java library, Trino.

In: tables by name, each with its metadata file and the columns that are wanted. Out: of each table its rows as JSON values, or
the words with which the engine refuses it. DuckDB, Daft and Polars come once from PyPI, each into a folder of its own,
DuckDB's extension for Iceberg with it, so that nothing of theirs is in the tests' environment. Each engine is a process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyiceberg

from testbed.servers import trino, wheels
from testbed.servers.spark_reader import java_settings
from testbed.servers.trino import Trino

ENGINES = ("pyiceberg", "duckdb", "daft", "polars", "spark", "java", "trino")
_PACKAGES = {
    "duckdb": ("duckdb", "duckdb-ext-iceberg", "duckdb-ext-avro"),
    "daft": ("daft", "packaging", "pyarrow", "tqdm", "typing_extensions"),
    "polars": ("polars", "polars-runtime-32"),
}
_COMMON = """
import decimal, datetime, json, sys, os

def plain(value):
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        if value and all(isinstance(each, tuple) and len(each) == 2 for each in value):
            return {str(key): plain(each) for key, each in value}  # a map, as Arrow gives it
        return [plain(each) for each in value]
    if isinstance(value, datetime.datetime):
        return (value.astimezone(datetime.timezone.utc) if value.tzinfo else value).replace(tzinfo=None).isoformat()
    if isinstance(value, (datetime.date, decimal.Decimal)):
        return str(value)
    return value

def words(error):
    return " ".join(str(error).split())[:300] or type(error).__name__

def answer(tables, read):
    found = {}
    for name, (metadata, columns) in tables.items():
        try:
            found[name] = {"rows": [plain(row) for row in read(name, metadata, columns)]}
        except BaseException as error:
            found[name] = {"refused": type(error).__name__ + ": " + words(error)}
    print("RESULT " + json.dumps(found))

tables, given = json.loads(sys.stdin.read())
"""
_SCRIPTS = {
    "pyiceberg": """
from pyiceberg.table import StaticTable
def read(name, at, columns):
    return StaticTable.from_metadata(at).scan(selected_fields=tuple(columns)).to_arrow().to_pylist()
answer(tables, read)
""",
    "duckdb": """
import duckdb, duckdb_ext
db = duckdb.connect(config={"extension_directory": list(duckdb_ext.__path__)[0] + "/extensions"})
for each in ("avro", "iceberg"):
    db.load_extension(each)
db.execute("SET TimeZone = 'UTC'")
def read(name, at, columns):
    wanted = ", ".join('"' + each + '"' for each in columns)
    return db.execute(f"SELECT {wanted} FROM iceberg_scan('{at}')").fetch_arrow_table().to_pylist()
answer(tables, read)
""",
    "daft": """
import daft
from pyiceberg.table import StaticTable
answer(tables, lambda name, at, columns: daft.read_iceberg(StaticTable.from_metadata(at)).select(*columns).to_pylist())
""",
    "polars": """
import polars
from pyiceberg.table import StaticTable
answer(tables, lambda name, at, columns: polars.scan_iceberg(StaticTable.from_metadata(at), reader_override="native")
       .select(columns).collect().to_arrow().to_pylist())
""",
    "spark": """
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", "2")
for key, value in given.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
def read(name, at, columns):
    wanted = ", ".join("`" + each + "`" for each in columns)
    return [row.asDict(True) for row in spark.sql(f"SELECT {wanted} FROM `default`.{name}").collect()]
answer(tables, read)
""",
    "java": """
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
for key, value in given.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
iceberg, catalog = spark._jvm.org.apache.iceberg, {}
for key, value in given.items():
    if key.startswith("spark.sql.catalog.default."):
        catalog[key.removeprefix("spark.sql.catalog.default.")] = value
lake = iceberg.CatalogUtil.buildIcebergCatalog("default", catalog, spark._jsc.hadoopConfiguration())
def value_of(value, kind):
    if value is None:
        return None
    name = kind.typeId().toString()
    if name == "STRUCT":
        return {field.name(): value_of(value.getField(field.name()), field.type()) for field in kind.fields()}
    if name == "LIST":
        return [value_of(each, kind.elementType()) for each in value]
    if name == "MAP":
        return {str(key): value_of(value[key], kind.valueType()) for key in value}
    if name == "TIMESTAMP":
        if kind.shouldAdjustToUTC():
            value = value.toLocalDateTime()
        return datetime.datetime.fromisoformat(value.toString())
    if name in ("INTEGER", "LONG", "FLOAT", "DOUBLE", "BOOLEAN"):
        return value
    return str(value.toString() if hasattr(value, "toString") else value)
def read(name, at, columns):
    table = lake.loadTable(iceberg.catalog.TableIdentifier.parse(name))
    fields = [(each, table.schema().findField(each).type()) for each in columns]
    found = iceberg.data.IcebergGenerics.read(table).build().iterator()
    rows = []
    while found.hasNext():
        record = found.next()
        rows.append({each: value_of(record.getField(each), kind) for each, kind in fields})
    return rows
answer(tables, read)
""",
}  # fmt: skip


@dataclass(frozen=True)
class Read:
    """What an engine gave for one table: its rows, or the words with which it refused."""

    rows: list[dict[str, object]]
    refused: str = ""


def read_with(
    engine: str, settings: Mapping[str, str], tables: Mapping[str, tuple[str, Sequence[str]]], timeout_s: float = 400
) -> dict[str, Read]:
    """Read tables, each by its metadata file and columns; Spark and Java look them up in the catalog of `settings`."""
    if engine == "trino":
        return _read_with_trino(tables)
    environment, given = {**os.environ, "PYSPARK_PYTHON": sys.executable, "TZ": "UTC"}, {}
    if engine in _PACKAGES:
        environment["PYTHONPATH"] = str(wheels.installed(*_PACKAGES[engine]))
    if engine in ("spark", "java"):
        catalog, packages = java_settings(settings)
        given = {f"spark.sql.catalog.default.{key}": value for key, value in catalog.items()}
        given |= {
            "spark.sql.catalog.default": "org.apache.iceberg.spark.SparkCatalog",
            "spark.jars.packages": ",".join(packages),
        }
    done = subprocess.run(
        [sys.executable, "-c", _COMMON + _SCRIPTS[engine]],
        input=json.dumps([tables, given]),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env=environment,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, done.stderr[-3000:]
    found = json.loads(lines[0].removeprefix("RESULT "))
    return {name: Read(each.get("rows", []), each.get("refused", "")) for name, each in found.items()}


def _read_with_trino(tables: Mapping[str, tuple[str, Sequence[str]]]) -> dict[str, Read]:
    found = {}
    with tempfile.TemporaryDirectory() as root:
        server = Trino(Path(root))
        try:
            for name, (metadata, columns) in tables.items():
                table = name.rpartition(".")[2]
                try:
                    server.register(table, metadata)
                    types = {str(row[0]): str(row[1]) for row in server.rows(f"DESCRIBE lake.shop.{table}")}
                    wanted = ", ".join(_as_text(each, types[each]) for each in columns)
                    rows = server.rows(f"SELECT {wanted} FROM lake.shop.{table}")
                    given = [dict(zip(columns, row, strict=True)) for row in rows]
                    found[name] = Read(
                        [{key: _of_text(value, types[key]) for key, value in row.items()} for row in given]
                    )
                except RuntimeError as error:
                    found[name] = Read([], " ".join(str(error).split())[:300])
        finally:
            server.stop()
    return found


def _is_plain(kind: str) -> bool:
    return kind.startswith(("decimal", "date", "timestamp", "varchar"))


def _as_text(column: str, kind: str) -> str:
    return f'CAST("{column}" AS varchar)' if _is_plain(kind) else f'json_format(CAST("{column}" AS json))'


def _of_text(value: Any, kind: str) -> Any:
    if value is None:
        return None
    if kind.startswith("timestamp"):
        return value.removesuffix(" UTC").replace(" ", "T")
    return value if _is_plain(kind) else json.loads(value)


def version_of(engine: str) -> str:
    """Which version of an engine these tests read with."""
    if engine in _PACKAGES:
        return wheels.version_of(engine)
    if engine == "trino":
        return trino.VERSION
    if engine == "pyiceberg":
        return pyiceberg.__version__
    _, packages = java_settings({"type": "rest", "uri": ""})
    iceberg = packages[0].rpartition(":")[2]
    return f"Iceberg {iceberg}"
