"""Makes the lists of settings in framework/config/settings from the installed clients: `python -m tests.known_settings`.

In: librdkafka's own table, PyIceberg's source, the classes of Spark's jars. Out: JSON files, each with its version.
Everything is read from what is installed, so the lists change with the lock and with nothing else.
"""

from __future__ import annotations

import ast
import ctypes
import json
import re
import struct
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pyiceberg
import pyspark

FOLDER = Path(__file__).parent.parent / "framework" / "config" / "settings"
# Rows of librdkafka's table that a file cannot set: callbacks, pointers, certificates as objects.
_BY_PROGRAM = ("see dedicated API", "pointer")
# What PyIceberg looks up in the properties of tables, namespaces and requests, which are called `properties`, too.
_OF_TABLES = frozenset(
    {
        "DEFAULT_NETLOC", "DEFAULT_SCHEME", "Description", "EXTERNAL", "EXTERNAL_TABLE", "comment", "location",
        "metadata_location", "owner", "previous_metadata_location", "table_type",
    }
)  # fmt: skip
# Objects of Python, not text.
_OBJECTS = frozenset({"auth", "auth.manager", "botocore_session", "ssl"})
# Looked up by a loop over names, as a prefix, or by whoever opens the catalog.
_BY_OTHER_WAYS = frozenset({"audience", "name", "resource", "type"})
_PYICEBERG_FAMILIES = ("header.", "adls.sas-token.")
# Names that end as people like, or that Spark puts together from parts. Others that stand in the classes (`spark.sql.`)
# begin names that are there as a whole.
_SPARK_FAMILIES = (
    "spark.driver.resource.", "spark.executor.resource.", "spark.executorEnv.", "spark.files.io.", "spark.hadoop.",
    "spark.hive.", "spark.kubernetes.authenticate.", "spark.rpc.io.", "spark.scheduler.listenerbus.eventqueue.",
    "spark.shuffle.io.", "spark.worker.resource.",
    "spark.history.fs.", "spark.kubernetes.driver.annotation.", "spark.kubernetes.driver.label.",
    "spark.kubernetes.driver.node.selector.", "spark.kubernetes.driver.secretKeyRef.",
    "spark.kubernetes.driver.secrets.", "spark.kubernetes.driver.service.annotation.",
    "spark.kubernetes.driver.service.label.", "spark.kubernetes.driver.volumes.", "spark.kubernetes.driverEnv.",
    "spark.kubernetes.executor.annotation.", "spark.kubernetes.executor.label.",
    "spark.kubernetes.executor.node.selector.", "spark.kubernetes.executor.secretKeyRef.",
    "spark.kubernetes.executor.secrets.", "spark.kubernetes.executor.volumes.", "spark.kubernetes.node.selector.",
    "spark.metrics.conf.", "spark.plugins.internal.conf.", "spark.shuffle.plugin.__config__.", "spark.sql.catalog.",
    "spark.ssl.", "spark.task.resource.", "spark.yarn.am.resource.", "spark.yarn.appMasterEnv.",
    "spark.yarn.driver.resource.", "spark.yarn.executor.resource.",
)  # fmt: skip
_SPARK_NAME = re.compile(rb"\x01(..)(spark\.[A-Za-z0-9_.\-]+)", re.DOTALL)
_SPARK_VALUES = {"spark.submit.deployMode": "client, cluster"}


def librdkafka() -> ctypes.CDLL:
    """The library that confluent-kafka brings along."""
    folder = Path(confluent_kafka.__file__).parent
    (library,) = (folder.parent / "confluent_kafka.libs").glob("librdkafka-*.so*")
    return ctypes.CDLL(str(library))


def _librdkafka_table() -> str:
    show, libc = librdkafka().rd_kafka_conf_properties_show, ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    libc.fclose.argtypes = show.argtypes = [ctypes.c_void_p]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.md"
        stream = libc.fopen(str(path).encode(), b"w")
        show(stream)
        libc.fclose(stream)
        return path.read_text(encoding="utf-8")


def kafka_settings() -> dict[str, str]:
    """librdkafka's settings, each with its range."""
    found: dict[str, str] = {}
    for line in _librdkafka_table().splitlines():
        cells = [cell.strip() for cell in line.split("|", 5)]
        if len(cells) != 6 or cells[1] not in ("*", "P", "C"):
            continue
        name, _, values, _, _, description = cells
        kind = description.rpartition("<br>*Type: ")[2].rstrip("*")
        if kind in _BY_PROGRAM:
            continue
        supported = re.search(r"Supported: ([^.]*)\.", description) if name.startswith("sasl.mechanism") else None
        values = supported[1] if supported else values
        if kind == "float":
            values = f"number {values}"
        # A setting of topics comes later and may take other values; connections set the client's.
        found.setdefault(name, values if kind in ("integer", "float", "enum value", "boolean") or supported else "")
    return found


def catalog_settings() -> set[str]:
    """What PyIceberg's catalogs and file systems look up in `properties`."""
    folder = Path(pyiceberg.__file__).parent
    paths = [path for part in ("catalog", "io") for path in sorted((folder / part).rglob("*.py"))]
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in paths]
    constants = {name: value for tree in trees for name, value in _constants(tree)}
    found = {name for tree in trees for name in _looked_up(tree, constants)}
    return (found - _OF_TABLES - _OBJECTS) | _BY_OTHER_WAYS


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name) and isinstance(node.value.value, str):
                    yield target.id, node.value.value


def _looked_up(tree: ast.Module, constants: dict[str, str]) -> Iterator[str]:
    for node in ast.walk(tree):
        keys: list[ast.expr] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            keys = node.args[:1] if _is_properties(node.func.value) else []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
            by_name = node.func.id.startswith("property_as_") or node.func.id == "get_first_property_value"
            keys = node.args[1:] if by_name and _is_properties(node.args[0]) else []
        elif isinstance(node, ast.Subscript) and _is_properties(node.value):
            keys = [node.slice]
        elif isinstance(node, ast.Compare) and _is_properties(node.comparators[0]):
            keys = [node.left]
        for key in keys:
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value
            elif isinstance(key, ast.Name) and key.id in constants and not key.id.endswith("_DEFAULT"):
                yield constants[key.id]


def _is_properties(node: ast.expr) -> bool:
    return ast.unparse(node) in ("properties", "self.properties", "self._properties", "catalog_properties")


def spark_settings() -> set[str]:
    """The names in the classes of Spark's own jars that begin with `spark.`."""
    found: set[str] = set()
    for jar in sorted((Path(pyspark.__file__).parent / "jars").glob("spark-*.jar")):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                content = archive.read(name) if name.endswith(".class") else b""
                for match in _SPARK_NAME.finditer(content):
                    (length,) = struct.unpack(">H", match[1])
                    if len(match[2]) >= length:
                        found.add(match[2][:length].decode())
    return {name for name in found if not name.endswith((".", "-", "_")) and name.count(".") > 0}


def lists() -> dict[str, dict[str, Any]]:
    """The content of each file, by its name."""
    spark = dict.fromkeys(sorted(spark_settings()), "") | _SPARK_VALUES
    return {
        "librdkafka": _list("librdkafka", confluent_kafka.libversion()[0], kafka_settings(), ()),
        "pyiceberg": _list(
            "PyIceberg", pyiceberg.__version__, dict.fromkeys(catalog_settings(), ""), _PYICEBERG_FAMILIES
        ),
        "spark": _list("Spark", pyspark.__version__, spark, _SPARK_FAMILIES),
    }


def _list(client: str, version: str, settings: dict[str, str], families: tuple[str, ...]) -> dict[str, Any]:
    return {
        "client": client,
        "version": version,
        "families": list(families),
        "settings": dict(sorted(settings.items())),
    }


def main() -> None:
    for name, content in lists().items():
        (FOLDER / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
