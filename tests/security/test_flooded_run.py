"""A live run whose pages are flooded: idle and slow connections and requests that mean harm. The run's batches go on."""

from __future__ import annotations

import json
import random
import resource
import socket
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from framework.local.broker import free_port
from tests.chaos.harness import Running, wait_for
from tests.conftest import Broker
from tests.project import Project, kill_group
from tests.spark.test_monitoring import Page, address, get, monitored, own_page

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg]

PIPELINE = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      schema: {{id: {{type: long}}}}
    routes: {{rules: [{{table: shop.orders}}], allow_tables: ["shop.*"]}}
    tables: {{defaults: {{commit: {{interval: 1s}}}}}}
    errors: {{policy: dead_letter, dead_letter_table: lost.letters}}
"""
METHODS = ("GET", "PUT", "POST", "DELETE", "OPTIONS", "CONNECT", "get", "G" * 9_000, "\0", "PRI * HTTP/2.0")
PATHS = (
    "/metrics", "/readyz", "/healthz", "/", "/v1/overview", "/v1/events", "/v1/tables/..%2f..%2fetc", "/../../etc/passwd",
    "/static/%2e%2e/%2e%2e/secrets", "//evil.example/", "http://evil.example/", "*", "/" + "a" * 70_000, "/%00", "/%ff%fe",
    "/connectors/x/pause?why=" + "%0d%0aSet-Cookie:x" * 3, "/connector-plugins/floe/config/validate", "/v1/openapi.json",
)  # fmt: skip
HEADERS = (
    "Host: localhost", "Host: evil.example", "Host: localhost\r\nHost: localhost", "Host:", "Content-Length: -1",
    "Content-Length: 99999999999", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 5",
    "Authorization: Bearer " + "x" * 5_000, "X: " + "y" * 70_000, "Expect: 100-continue", "Upgrade: websocket",
    "Range: bytes=0-", "Accept-Encoding: gzip;q=9", "Cookie: " + "a=b;" * 3_000, "\x01: \x02", "Last-Event-ID: -1",
)  # fmt: skip
BODIES = (b"", b"{", b"[" * 60_000, b'{"file": "\\ud800"}', b"\xff" * 1_000, b"FFFFFFFFFFFFFFFF\r\n", b"0\r\n\r\n")
GREETINGS = (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"SSH-2.0-x\r\n", b"\0" * 500, b"\r\n" * 500)
BEGINNINGS = (
    b"",
    b"G",
    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n",
    b"PUT / HTTP/1.1\r\nContent-Length: 9\r\n\r\n{",
)


def request(chance: random.Random) -> bytes:
    """One that means harm, or is merely odd."""
    if chance.random() < 0.1:
        return chance.choice(GREETINGS)
    headers = chance.sample(HEADERS, chance.randint(0, 4)) + ["Host: localhost"] * (chance.random() < 0.5)
    version = chance.choice(("HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/9.9", ""))
    lines = [f"{chance.choice(METHODS)} {chance.choice(PATHS)} {version}", *headers]
    return "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + chance.choice(BODIES)


class Flood:
    """Of some addresses, from threads of this process, until it has sent what it should."""

    def __init__(self, addresses: list[tuple[str, int]], requests: int, connections: int, seed: int) -> None:
        self.statuses: Counter[str] = Counter()
        self._addresses = addresses
        self._stop = threading.Event()
        self._idle: list[socket.socket] = []
        share = requests // 4
        self._threads = [threading.Thread(target=self._ask, args=(share, seed + n), daemon=True) for n in range(4)]
        self._threads.append(threading.Thread(target=self._connect, args=(connections, seed), daemon=True))

    def __enter__(self) -> Flood:
        for thread in self._threads:
            thread.start()
        return self

    def wait(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.1, deadline - time.monotonic()))
            assert not thread.is_alive(), "the flood itself stands still"

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for made in self._idle:
            made.close()

    def _ask(self, count: int, seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(count):
            if self._stop.is_set():
                return
            with socket.socket() as made, suppress(OSError):
                made.settimeout(1)
                made.connect(chance.choice(self._addresses))
                made.sendall(request(chance))
                said = made.recv(100)
                self.statuses[said.split(b" ", 2)[1].decode("ascii", "replace") if said[:5] == b"HTTP/" else ""] += 1

    def _connect(self, count: int, seed: int) -> None:
        chance = random.Random(seed)
        for number in range(count):
            if self._stop.is_set():
                return
            made = socket.socket()
            made.settimeout(1)
            with suppress(OSError):
                made.connect(self._addresses[number % len(self._addresses)])
                made.sendall(chance.choice(BEGINNINGS))
            self._idle.append(made)
            if len(self._idle) > 300:  # of this process's own descriptors
                self._idle.pop(0).close()
            for slow in chance.sample(self._idle, min(5, len(self._idle))):
                with suppress(OSError):
                    slow.sendall(b"x")


def mean_batch_s(url: str, since: tuple[float, float]) -> tuple[float, tuple[float, float]]:
    page = Page(get(f"{url}/metrics")[1])
    now = page.value("floe_batch_duration_seconds_sum"), page.value("floe_batch_duration_seconds_count")
    return (now[0] - since[0]) / max(1.0, now[1] - since[1]), now


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("requests", "connections"),
    [(300, 150), pytest.param(5_000, 2_000, marks=pytest.mark.slow)],
    ids=["short", "whole"],
)
def test_a_run_that_is_flooded_goes_on(tmp_path: Path, broker: Broker, requests: int, connections: int) -> None:
    """5,000 requests that mean harm and 2,000 idle or slow connections against metrics and page of a live run that may
    have 512 descriptors: its batches go on, it is ready, each record is a row once, and it drains."""
    project = Project(tmp_path, broker.bootstrap_servers)
    topic = broker.new_topic("flooded")
    monitored(project, listen=f"127.0.0.1:{free_port()}", page=f"127.0.0.1:{free_port()}")
    file = project.pipeline("flooded", PIPELINE.format(topic=topic))
    driver = Running(project, "run", file)
    try:
        url, page = address(driver), own_page(driver)
        hard = resource.prlimit(driver.pid, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(driver.pid, resource.RLIMIT_NOFILE, (512, hard))
        made = 0

        def more(seconds: float) -> None:
            nonlocal made
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                broker.produce(topic, [{"id": made}])
                made += 1
                time.sleep(0.25)

        broker.produce(topic, [{"id": -1}])
        wait_for(lambda: get(f"{url}/readyz")[0] == 200 and landed(project) >= 1, "the first batch")
        _, begin = mean_batch_s(url, (0.0, 0.0))
        more(8)
        usual, begin = mean_batch_s(url, begin)
        hosts = [each.removeprefix("http://").rpartition(":") for each in (url, page)]
        with Flood([(host, int(port)) for host, _, port in hosts], requests, connections, 1) as flood:
            more(8)
            flood.wait(400)
        assert driver.running
        flooded, then = mean_batch_s(url, begin)
        assert then[1] > begin[1], "no batch was done meanwhile"
        assert flooded < usual * 3 + 1.0, f"a batch took {usual:.2f} s, and {flooded:.2f} s under the flood"
        wait_for(lambda: landed(project) == made + 1, "all rows")
        assert get(f"{url}/readyz")[0] == 200, json.loads(get(f"{url}/readyz")[1])
        assert not {status for status in flood.statuses if status.startswith("5") and status != "501"}, flood.statuses
        assert flood.statuses["200"] > 0
        assert driver.terminate() == 0
        assert "Traceback" not in driver.output
        ids = project.table("shop.orders").column("id").to_pylist()
        assert sorted(ids) == [-1, *range(made)]
    finally:
        kill_group(driver.process)


def landed(project: Project) -> int:
    with suppress(Exception):  # it is not there yet
        return project.table("shop.orders").num_rows
    return 0
