"""Flink on one machine: statements of SQL in a process of its own, with Iceberg's sink.

In: statements, and a folder for logs. Out: the process. They are handed over with py4j, as PyFlink does: the SQL client
needs a library of Flink's that not all mirrors of Maven Central have. Flink comes from the package of its libraries on
PyPI, pinned by its hash, its connectors from Maven Central; Hadoop's classes, which Iceberg's catalogs in Flink ask for,
are those that PySpark ships. Nothing of floe is in that process.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from py4j.java_gateway import GatewayParameters, JavaGateway

from framework.adapters.host.java import find_java
from framework.adapters.host.process import exclusive
from framework.adapters.project.files import cache_dir
from testbed.servers.maven import JARS_OF_PYSPARK, dependency, jars

FLINK = "2.0.1"
SHA256 = "23e20e76083b4501a530b3678bdfaee9f2615ae4e4f7aedfe79bb5e36ffd990b"
KAFKA = "4.0.1-2.0"
ICEBERG = "1.11.0"
MEMORY = "-Xmx3g"
_GATEWAY = ("py4j.GatewayServer", "--die-on-broken-pipe", "0")
_LOGS = """\
rootLogger.level = WARN
rootLogger.appenderRef.console.ref = console
appender.console.name = console
appender.console.type = CONSOLE
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c %m%n
"""
# What `bin/config.sh` of Flink's distribution gives to every JVM of version 17.
_OPENED = ("java.lang", "java.lang.reflect", "java.net", "java.nio", "java.text", "java.time", "java.util",
           "java.util.concurrent", "java.util.concurrent.atomic", "java.util.concurrent.locks", "sun.nio.ch")  # fmt: skip


def libraries() -> Path:
    """The folder of Flink's jars, fetched if it is not there (300 MB, once for a machine)."""
    home = cache_dir() / f"flink-{FLINK}"
    with exclusive(home.with_name(f"{home.name}.lock")):
        if not home.exists():
            with tempfile.TemporaryDirectory(dir=cache_dir(), prefix="fetch-") as scratch:
                wanted = Path(scratch) / "wanted.txt"
                wanted.write_text(f"apache-flink-libraries=={FLINK} --hash=sha256:{SHA256}\n", encoding="utf-8")
                fetch = ["pip", "download", "--no-deps", "--no-binary", ":all:", "-d", scratch, "-r", str(wanted)]
                subprocess.run([sys.executable, "-m", *fetch], check=True, stdout=subprocess.DEVNULL)
                [packed] = Path(scratch).glob("*.tar.gz")
                shutil.unpack_archive(packed, scratch, filter="data")
                shutil.move(next(Path(scratch).glob("*/deps")), home)
    return home


def start(statements: Sequence[str], folder: Path, settings: Mapping[str, object]) -> subprocess.Popen[bytes]:
    """Run statements one after the other; the last one's job goes on in the process. Its log is `flink.log` in the
    folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(f"io.tmp.dirs: {folder}\n", encoding="utf-8")
    (folder / "log4j2.properties").write_text(_LOGS, encoding="utf-8")
    home, reported = libraries(), folder / "flink.log"
    kafka = dependency("org.apache.flink", "flink-sql-connector-kafka", KAFKA)
    iceberg = dependency("org.apache.iceberg", "iceberg-flink-runtime-2.0", ICEBERG)
    path = [
        *(home / "lib").glob("*.jar"),
        *jars(f"bench-flink-kafka-{KAFKA}", [kafka]).glob("*.jar"),
        *jars(f"bench-flink-iceberg-{ICEBERG}", [iceberg]).glob("*.jar"),
        *JARS_OF_PYSPARK.glob("hadoop-client-*.jar"),
        *JARS_OF_PYSPARK.glob("commons-logging-*.jar"),
        *JARS_OF_PYSPARK.glob("py4j-*.jar"),
    ]
    opened = [word for name in _OPENED for word in ("--add-opens", f"java.base/{name}=ALL-UNNAMED")]
    command = [
        find_java(),
        MEMORY,
        f"-Dlog4j2.configurationFile={folder}/log4j2.properties",
        *opened,
        "-cp",
        ":".join(map(str, path)),
        *_GATEWAY,
    ]
    env = {**os.environ, "FLINK_CONF_DIR": str(folder), "TZ": "UTC"}
    with reported.open("wb") as log:
        # It ends with its standard input.
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, env=env, start_new_session=True
        )
    try:
        _run(statements, settings, process, reported)
    except BaseException:
        process.kill()
        raise
    return process


def _run(
    statements: Sequence[str], settings: Mapping[str, object], process: subprocess.Popen[bytes], reported: Path
) -> None:
    while not (found := re.match(r"([0-9]+)\n", reported.read_text())):
        if process.poll() is not None:
            raise RuntimeError(f"Flink ended with {process.returncode}: {reported}")
        time.sleep(0.2)
    flink = JavaGateway(gateway_parameters=GatewayParameters(port=int(found[1]))).jvm.org.apache.flink.table.api
    tables = flink.TableEnvironment.create(flink.EnvironmentSettings.inStreamingMode())
    for name, value in settings.items():
        tables.getConfig().set(name, str(value))
    for statement in statements:
        tables.executeSql(statement)
