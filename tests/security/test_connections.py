"""floe reports nothing of itself: every address that its processes connect or send to is one that the target names, or a
process of the run itself.

A library that is loaded before all others notes each call of C's `connect`, `sendto`, `sendmsg` and `listen`: those of
Python, of librdkafka and of Java alike.
"""

from __future__ import annotations

import ipaddress
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from testbed.servers.rest_catalog import RestCatalog
from tests.conftest import Broker
from tests.project import FLOE, Project

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler, so nothing can note the calls")
SOURCE = Path(__file__).with_name("connections.c")
PIPELINE = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      format: {{type: json}}
    routes: {{rules: [{{table: shop.orders}}], allow_tables: ["shop.*"], unrouted: fail}}
    errors: {{policy: fail}}
    tests:
      - name: one
        input: [{{topic: {topic}, value: {{id: 1}}}}]
        expect: {{tables: {{shop.orders: {{rows: [{{id: 1}}]}}}}}}
"""


@dataclass(frozen=True)
class Call:
    """`name` is connect, send or listen."""

    name: str
    address: str
    port: int


@dataclass(frozen=True)
class Notes:
    """`environment` makes the processes of a command write down their calls."""

    file: Path
    library: Path

    @property
    def environment(self) -> Mapping[str, str]:
        return {"LD_PRELOAD": str(self.library), "CONNECTIONS": str(self.file)}

    def calls(self, *names: str) -> set[Call]:
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        found = (Call(name, address, int(port)) for name, address, port in map(str.split, lines))
        return {call for call in found if call.name in names}


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    library = tmp_path / "connections.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"], check=True)
    return Notes(tmp_path / "calls", library)


def test_a_connection_is_noted(notes: Notes) -> None:
    """What follows counts on it: a connection and a datagram of a process, and of one that it starts, are noted."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        script = f"""
import socket, subprocess, sys
socket.create_connection(("127.0.0.1", {port}))
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.2", {port}))
subprocess.run([sys.executable, "-c", "import socket; socket.create_connection(('127.0.0.3', {port}))"])
"""
        subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, **notes.environment}, check=True, capture_output=True
        )
    assert notes.calls("connect", "send") == {
        Call("connect", "127.0.0.1", port),
        Call("send", "127.0.0.2", port),
        Call("connect", "127.0.0.3", port),
    }


@pytest.mark.parametrize(
    "words",
    [("--version",), ("validate", "FILE"), ("test", "FILE"), ("plan", "FILE", "--offline"), ("explain", "FLOE-E101")],
    ids=lambda words: words[0],
)
def test_verbs_about_files_connect_to_nothing(tmp_path: Path, notes: Notes, words: tuple[str, ...]) -> None:
    """Checking files asks no server, neither those of the target nor any other."""
    root = tmp_path / "project"
    root.mkdir()
    file = Project(root, "127.0.0.1:1").pipeline("orders", PIPELINE.format(topic="orders"))
    command = [*FLOE, *(str(file) if word == "FILE" else word for word in words)]
    if "FILE" in words:
        command += ["--target", "it"]
    done = subprocess.run(
        command, cwd=root, env={**os.environ, **notes.environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert notes.calls("connect", "send", "listen") == set()


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.iceberg
def test_a_run_connects_to_what_its_target_names(tmp_path: Path, broker: Broker, notes: Notes) -> None:
    """A whole run, coordinator and Spark included, connects to its broker, its catalog and to its own processes, and to no
    other address; it asks no server of names."""
    catalog = RestCatalog(tmp_path / "rest").start()
    try:
        root = tmp_path / "project"
        root.mkdir()
        project = Project(root, broker.bootstrap_servers)
        project.catalog_settings = catalog.settings()
        project.write_target(catalog=catalog.settings())
        topic = broker.new_topic("connections")
        broker.produce(topic, [{"id": n} for n in range(100)])
        project.run(
            "run", project.pipeline("orders", PIPELINE.format(topic=topic)), "--until-caught-up", env=notes.environment
        )
        assert project.table("shop.orders").num_rows == 100
    finally:
        catalog.stop()

    reached = notes.calls("connect", "send")
    assert [
        call for call in reached if not ipaddress.ip_address(call.address.removeprefix("::ffff:")).is_loopback
    ] == []
    servers = {int(broker.bootstrap_servers.rpartition(":")[2]), catalog.port}
    own = {call.port for call in notes.calls("listen")}
    assert servers <= {call.port for call in reached}
    assert {call.port for call in reached} - servers - own == set()
