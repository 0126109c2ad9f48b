"""A real schema registry for tests: Apicurio Registry from Maven Central, on loopback, by its Confluent-compatible
interface.

In: a folder. Out: an address that floe's registry connections take, and doors to register, to stop as a crash does and
to start again on the same port with the same schemas, which lie in an H2 file in the folder. It needs Java 17.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

from framework.adapters.host.java import find_java
from framework.local.broker import HOST, free_port
from testbed.servers.maven import archive
from testbed.servers.registry import CONTENT_TYPE

VERSION = "3.0.9"  # later ones need Java 21
SHA256 = "2b28181501a20cbf6efcd77f9b7153908fc01f3d3a7c32024c0bd9e1b04c8a43"
PATIENCE_S = 90.0


def home() -> Path:
    """The folder of the server, fetched if it is not there."""
    return archive("apicurio-registry-app", "io.apicurio", VERSION, "all", SHA256)


class ApicurioRegistry:
    """One server; `url` is the root of its Confluent-compatible interface."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        root.mkdir(parents=True, exist_ok=True)
        self.start()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._port}/apis/ccompat/v7"

    def start(self) -> None:
        """Start, and wait until it answers."""
        folder = home()
        settings = {
            "quarkus.http.host": HOST,
            "quarkus.http.port": str(self._port),
            "apicurio.datasource.url": f"jdbc:h2:file:{self.root}/registry;WRITE_DELAY=0",
            "apicurio.datasource.jdbc.initial-size": "1",
            "apicurio.datasource.jdbc.min-size": "1",
            "apicurio.storage.snapshot.location": str(self.root),
        }
        command = [find_java(), "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        command += [f"-D{key}={value}" for key, value in settings.items()]
        with (self.root / "registry.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "-jar", str(folder / f"apicurio-registry-app-{VERSION}-runner.jar")],
                cwd=folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the server as a crash does."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(30)
            self._process = None

    def register(
        self, subject: str, schema: str, kind: str = "AVRO", references: Any = (), compiled: str = ""
    ) -> tuple[int, str]:
        """The id of a schema; this registry gives no GUIDs. Protobuf is given as its source; it compiles it itself."""
        body = {"schema": schema, "schemaType": kind, "references": list(references)}
        request = urllib.request.Request(
            f"{self.url}/subjects/{quote(subject, safe='')}/versions",
            json.dumps(body).encode(),
            {"Content-Type": CONTENT_TYPE},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(json.loads(answer.read())["id"]), ""

    def delete(self, subject: str) -> None:
        """Delete a subject; its schemas stay under their ids."""
        request = urllib.request.Request(f"{self.url}/subjects/{quote(subject, safe='')}", method="DELETE")
        urllib.request.urlopen(request, timeout=30).close()

    def _wait(self) -> None:
        limit = time.monotonic() + PATIENCE_S
        while True:
            try:
                urllib.request.urlopen(f"{self.url}/subjects", timeout=5).close()
                return
            except (OSError, urllib.error.URLError):
                assert self._process is not None
                assert self._process.poll() is None, self._log()
                assert time.monotonic() < limit, self._log()
                time.sleep(0.2)

    def _log(self) -> str:
        return (self.root / "registry.log").read_text()[-3000:]
