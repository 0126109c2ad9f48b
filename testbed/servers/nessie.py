"""A Nessie server on loopback, which is an Iceberg REST catalog over an S3 store.

In: a folder and the store's settings. Out: an address that PyIceberg's `rest` catalog takes. The server is one jar from
Maven Central (245 MB), keeps its catalog in memory and needs Java 21 or newer.
"""

from __future__ import annotations

import subprocess
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from framework.local.broker import HOST, free_port
from testbed.servers.maven import jars, lone_jar
from testbed.servers.trino import java_25

VERSION = "0.99.0"
_WAREHOUSE = "nessie"
_S3 = "nessie.catalog.service.s3.default-options"


class Nessie:
    """Serves until `stop`. It shows of a table's snapshots the newest alone; it takes a first commit though another one
    was first; and it answers 500 where a schema is added without `last-column-id`, which PyIceberg no longer sends."""

    lacks = frozenset({"older snapshots", "a comparison at the first commit", "schemas that are added"})

    def __init__(self, root: Path, store: Mapping[str, str]) -> None:
        root.mkdir()
        [jar] = _jar().glob("*.jar")
        self._port = free_port()
        settings = {
            "quarkus.http.host": HOST,
            "quarkus.http.port": self._port,
            "quarkus.management.host": HOST,
            "quarkus.management.port": free_port(),
            "quarkus.otel.sdk.disabled": "true",
            "nessie.version.store.type": "IN_MEMORY",
            "nessie.catalog.default-warehouse": _WAREHOUSE,
            f"nessie.catalog.warehouses.{_WAREHOUSE}.location": f"{store['warehouse']}/{_WAREHOUSE}",
            f"{_S3}.region": store["s3.region"],
            f"{_S3}.endpoint": store["s3.endpoint"],
            f"{_S3}.path-style-access": "true",
            f"{_S3}.request-signing-enabled": "false",
            f"{_S3}.access-key": "urn:nessie-secret:quarkus:store-keys",
            "store-keys.name": store["s3.access-key-id"],
            "store-keys.secret": store["s3.secret-access-key"],
        }
        (root / "application.properties").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        words = [java_25(), "-Xmx512m", "-XX:TieredStopAtLevel=1", "-jar", str(jar)]
        env = {"QUARKUS_CONFIG_LOCATIONS": f"file:{root}/application.properties"}
        with (root / "nessie.log").open("wb") as log:
            self._process = subprocess.Popen(
                words, cwd=root, env=env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        self._wait(root / "nessie.log")

    def settings(self) -> dict[str, str]:
        """Settings of a PyIceberg catalog, without those of the store."""
        return {"type": "rest", "uri": f"http://{HOST}:{self._port}/iceberg", "warehouse": _WAREHOUSE}

    def stop(self) -> None:
        self._process.kill()
        self._process.wait(30)

    def _wait(self, log: Path) -> None:
        limit = time.monotonic() + 120
        while time.monotonic() < limit and self._process.poll() is None:
            try:
                urllib.request.urlopen(f"{self.settings()['uri']}/v1/config", timeout=10).read()
                return
            except OSError:
                time.sleep(0.5)
        raise AssertionError(log.read_text(errors="replace")[-3000:])


def _jar() -> Path:
    """The folder with the server's jar."""
    return jars(f"nessie-{VERSION}", [lone_jar("org.projectnessie.nessie", "nessie-quarkus", VERSION, "runner")])
