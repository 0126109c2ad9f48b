"""`floe doctor` beside servers that do not answer."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pytest

from framework.cli.main import run_main
from framework.ops.doctor.scratch import ScratchPrefix
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


PIPELINE = """
    source: {kafka: {connection: main, topics: [orders]}}
    routes: {rules: [{table: shop.refunds, when: {field: kind, equals: refund}}, {table: shop.orders}], unrouted: fail}
    tables: {defaults: {commit: {interval: INTERVAL}}}
    errors: {policy: fail}
"""


@pytest.mark.parametrize(("interval", "mark"), [("1h", "ok     "), ("1ms", "warning")])
def test_commits_are_timed_for_the_tables_of_files(
    tmp_path: Path,
    broker: Broker,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    interval: str,
    mark: str,
) -> None:
    """Twenty commits to a scratch table say how many tables the interval allows, and warn of more; nothing is left."""
    project = Project(tmp_path, broker.bootstrap_servers)
    file = project.pipeline("shop", PIPELINE.replace("INTERVAL", interval))
    monkeypatch.chdir(tmp_path)
    run_main(["doctor", str(file), "-t", "it", "--no-spark"])
    printed = capsys.readouterr().out
    [line] = re.findall("(.*)  catalog default commits: (.*)", printed)
    assert line[0] == mark, printed
    assert re.match(r"20 commits took [\d,]+ ms each \(p50\), [\d,]+ ms \(p95\); a commit interval of ", line[1])
    assert "these pipelines have 2" in line[1]
    assert ("remedy: set `commit: {interval: 1m}` under `tables.defaults`" in printed) == (mark == "warning")
    assert project.catalog().list_namespaces() == []
    assert not list((tmp_path / "warehouse").rglob("*.json"))


def test_what_a_killed_doctor_left_is_removed(tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scratch tables that are older than an hour go with the next question, with their files; younger ones are in use, those of
    drills have files that only a drill finds, and other names are somebody's."""
    project = Project(tmp_path, broker.bootstrap_servers)
    project.write_target()
    catalog, now_s = project.catalog(), int(time.time())
    names = [
        f"{prefix.value}{now_s - age_s:08x}_0badcafe" for prefix in ScratchPrefix for age_s in (0, 3_000, 3_700, 90_000)
    ]
    for name in (*names, "floe_doctor_mine", "shop"):
        catalog.create_namespace(name)
        catalog.create_table(f"{name}.rows", pa.schema([("id", pa.int64())])).append(pa.table({"id": [1]}))
    monkeypatch.chdir(tmp_path)
    run_main(["doctor", "-t", "it", "--no-spark"])
    kept = {name for (name,) in catalog.list_namespaces()}
    of_drills = {name for name in names if name.startswith(ScratchPrefix.DRILL.value)}
    assert kept == of_drills | {name for name in names if int(name.split("_")[2], 16) >= now_s - 3_000} | {
        "floe_doctor_mine",
        "shop",
    }
    with_files = {
        path.relative_to(tmp_path / "warehouse").parts[0] for path in (tmp_path / "warehouse").rglob("*.parquet")
    }
    assert {name.removesuffix(".db") for name in with_files} == kept, with_files
