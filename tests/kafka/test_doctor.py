"""`floe doctor` beside servers that do not answer."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from framework.cli.main import run_main
from tests.conftest import Broker
from tests.project import Project

pytestmark = pytest.mark.kafka
GIVES_UP_MS = 6_000


@contextmanager
def silent() -> Iterator[tuple[int, list[socket.socket]]]:
    """A port that takes every connection and never answers, and who came."""
    listener, came = socket.create_server(("127.0.0.1", 0)), list[socket.socket]()

    def accept() -> None:
        with suppress(OSError):
            while True:
                came.append(listener.accept()[0])

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1], came
    finally:
        for each in (listener, *came):
            each.close()


def test_catalogs_that_hang_cost_the_time_of_one(
    tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is asked once, all beside each other; meanwhile is said what is waited for, and the rest is shown."""
    project = Project(tmp_path, broker.bootstrap_servers)
    with silent() as (port, came):
        hangs = {"type": "rest", "uri": f"http://127.0.0.1:{port}", "rest.client.socket-timeout-ms": str(GIVES_UP_MS)}
        project.further_catalogs = dict.fromkeys(("cold", "colder", "coldest"), hangs)
        project.write_target()
        monkeypatch.chdir(tmp_path)
        begun_s = time.monotonic()
        code = run_main(["doctor", "-t", "it", "--no-spark"])
        took_s = time.monotonic() - begun_s
    printed = capsys.readouterr()
    assert code == 3
    assert took_s < 2 * GIVES_UP_MS / 1000, printed
    assert len(came) == 3
    assert "ok       catalog default warehouse" in printed.out
    assert [printed.out.count(f"error    catalog {name}: ") for name in ("cold", "colder", "coldest")] == [1, 1, 1]
    assert re.search("waiting for `catalog cold`, `catalog colder` and `catalog coldest` for [56] s", printed.err)
