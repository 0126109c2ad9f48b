"""Visitors of what floe listens at: connections that say nothing, slow ones, and browsers that another's domain led here.

Each listener of the source is started and flooded as it is; the next one that listens is found by a test.
"""

from __future__ import annotations

import ast
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, cast

import pytest
import requests
from prometheus_client import CollectorRegistry

import framework
from framework.adapters.host.listener import MOST_CONNECTIONS
from framework.adapters.telemetry import metrics_server
from framework.adapters.telemetry.metrics_server import MetricsServer
from framework.ops.backend import BrokerBackend
from framework.web import app, serve
from framework.web.access.access import Access, Role, token_of
from framework.web.answers import MOST_BODY
from framework.web.app import create_app
from framework.web.backend import Backend, SettingFinding
from framework.web.connect import MOST_FINDINGS
from framework.web.serve import bind, server
from tests.unit.web.backend import ACTOR, PlainDesk, served

SOURCES = Path(framework.__file__).parent
FLOOD = 1_200


NAME = "floe-metrics.data.svc"


def metrics() -> tuple[str, Callable[[], None]]:
    server = MetricsServer("127.0.0.1", 0, "", CollectorRegistry(), dict, (NAME,))
    return server.address, server.close


def page() -> tuple[str, Callable[[], None]]:
    return shown(PlainDesk(), Access(None, ("127.0.0.1", socket.gethostname(), NAME)))


def shown(backend: Backend, access: Access) -> tuple[str, Callable[[], None]]:
    """The page's application at an address, in a thread of this process."""
    bound = bind("127.0.0.1", 0)
    running = server(create_app(backend, access))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()

    def close() -> None:
        running.should_exit = True
        thread.join(10)
        bound.close()

    return f"127.0.0.1:{bound.getsockname()[1]}", close


LISTENERS = {"metrics": (metrics, "/healthz"), "page": (page, "/v1/openapi.json")}


@pytest.fixture(params=LISTENERS)
def listener(request: pytest.FixtureRequest) -> Iterator[tuple[str, int, str]]:
    begin, path = LISTENERS[request.param]
    address, close = begin()
    host, _, port = address.rpartition(":")
    try:
        yield host, int(port), path
    finally:
        close()


def ask(host: str, port: int, path: str, name: str | None = None, patience_s: float = 20.0) -> int:
    """The status of an answer; asked again where the connection is ended before one comes."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            with closing(socket.create_connection((host, port), timeout=patience_s)) as made:
                head = f"GET {path} HTTP/1.1\r\nHost: {name or host}\r\nConnection: close\r\n\r\n"
                made.sendall(head.encode())
                if (said := made.recv(100)).startswith(b"HTTP/1."):
                    return int(said.split()[1])
        except OSError:
            pass
        assert time.monotonic() < deadline, "nobody answers"
        time.sleep(0.05)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_connections_that_say_nothing_keep_nobody_out(
    listener: tuple[str, int, str], caplog: pytest.LogCaptureFixture
) -> None:
    """1,200 at once: the listener holds a bounded number, says so once, and answers the next who asks."""
    host, port, path = listener
    assert ask(host, port, path) == 200
    before = descriptors()
    with ExitStack() as stack, caplog.at_level(logging.WARNING):
        most = 0
        for number in range(FLOOD):
            made = stack.enter_context(socket.socket())
            made.settimeout(5)
            made.connect((host, port))
            if number % 100 == 99:
                time.sleep(0.1)
                most = max(most, descriptors() - before - number - 1)
        assert most <= 2 * MOST_CONNECTIONS + 8
        assert ask(host, port, path) == 200
    assert sum("connections at a time" in each.message for each in caplog.records) == 1
    assert not [each for each in caplog.records if each.exc_info]


def test_a_request_that_trickles_ends(listener: tuple[str, int, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A head that comes byte by byte, and the head of a second request: the connection is ended in time, and nothing is
    printed."""
    host, port, path = listener
    monkeypatch.setattr(serve, "HEAD_S", 0.5)
    monkeypatch.setattr(metrics_server, "HEAD_S", 0.5)
    with closing(socket.create_connection((host, port), timeout=5)) as made:
        made.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert made.recv(12).startswith(b"HTTP/1.")
        ended = trickle(made)
    assert ended
    with closing(socket.create_connection((host, port), timeout=5)) as made:
        assert trickle(made)


def trickle(made: socket.socket) -> bool:
    deadline = time.monotonic() + 8
    made.settimeout(0.1)
    while time.monotonic() < deadline:
        try:
            made.sendall(b"X")
            if made.recv(1_000_000) == b"":
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


def test_a_body_that_does_not_come_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """408 for a body that is promised and not sent."""
    monkeypatch.setattr(app, "BODY_S", 0.3)
    address, close = page()
    host, _, port = address.rpartition(":")
    try:
        assert ask(host, int(port), "/v1/openapi.json") == 200
        with closing(socket.create_connection((host, int(port)), timeout=10)) as made:
            head = "PUT /connector-plugins/floe/config/validate HTTP/1.1\r\nHost: localhost\r\n"
            made.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 10\r\n\r\n{{".encode())
            assert made.recv(12) == b"HTTP/1.1 408"
    finally:
        close()


@pytest.mark.parametrize(
    "body", ['{"file": "\\ud800"}', '{"\\udfff": "x"}', '{"name": "a\\ud83d"}', '{"file": "\\udc00\\ud800"}']
)
@pytest.mark.parametrize("plugin", ["floe", "iceberg"])
def test_half_a_character_is_no_bug(body: str, plugin: str) -> None:
    """400 for texts that JSON can say and UTF-8 cannot, and none of 500."""
    address, close = page()
    host, _, port = address.rpartition(":")
    try:
        assert ask(host, int(port), "/v1/openapi.json") == 200
        with closing(socket.create_connection((host, int(port)), timeout=10)) as made:
            head = (
                f"PUT /connector-plugins/{plugin}/config/validate HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            )
            made.sendall(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
            assert made.recv(12) == b"HTTP/1.1 400"
    finally:
        close()


class SlowDesk(PlainDesk):
    """Checks a configuration until it is let go."""

    def __init__(self) -> None:
        super().__init__(findings=tuple(SettingFinding("file", f"finding {number}") for number in range(5_000)))
        self.go_on = threading.Event()
        self.checking = 0

    def check(self, plugin: str, settings: Mapping[str, str]) -> tuple[SettingFinding, ...]:
        self.checking += 1
        self.go_on.wait(20)
        return self.findings


def test_acts_wait_behind_no_check() -> None:
    """Sixty configurations are being checked, or wait for it: two at a time take a thread, and who pauses, resumes or
    looks has an answer at once. Of many findings the first are told, and that there are more."""
    backend = SlowDesk()
    authorization = {"Authorization": f"Bearer {ACTOR}"}
    with served(backend) as url, ThreadPoolExecutor(60) as pool:
        path = f"{url}/connector-plugins/floe/config/validate"
        checks = [
            pool.submit(requests.put, path, json={"file": "x"}, headers=authorization, timeout=30) for _ in range(60)
        ]
        deadline = time.monotonic() + 10
        while backend.checking < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        for method, what in (("PUT", "pause"), ("PUT", "resume"), ("GET", "status")):
            answer = requests.request(method, f"{url}/connectors/orders/{what}", headers=authorization, timeout=3)
            assert answer.status_code < 300
        assert [act[1] for act in backend.acts] == [True, False]
        assert backend.checking == app.CHECKS_AT_ONCE
        backend.go_on.set()
        reported = [check.result().json() for check in checks]
    errors = [error for config in reported[0]["configs"] for error in config["value"]["errors"]]
    assert len(errors) == MOST_FINDINGS + 1
    assert errors[-1] == "4,800 more findings are not shown"


def test_checking_what_may_be_sent_takes_a_bounded_time() -> None:
    """The largest bodies of each kind of mistake: none holds a processor for long, which is 8 s where adding up five million
    squares takes 0.45 s; and eight times the text takes no more than about eight times as long."""
    head = (
        "apiVersion: floe/v1\nkind: Pipeline\nmetadata: {name: x}\nsource: {kafka: {topics: [t]}}\nroutes:\n  rules:\n"
    )
    rules = "".join(f"    - {{tabel: a.b{number}}}\n" for number in range(MOST_BODY // 25))
    keys = "".join(f"k{number}: 1\n" for number in range(MOST_BODY // 9))

    def spent_s(text: str, length: int) -> float:
        began = time.process_time()
        assert BrokerBackend.check(cast("Any", None), "floe", {"file": text[: length - 20]})
        return time.process_time() - began

    began = time.process_time()
    assert sum(number * number for number in range(5_000_000)) > 0
    unit_s = time.process_time() - began
    for text in (head + rules, head + "    - {table: a.b}\n" + keys, "[" * MOST_BODY, "{" * MOST_BODY):
        spent_s(text, 1 << 12)  # what is imported and compiled once
        eighth_s = min(spent_s(text, MOST_BODY // 8) for _ in range(3))
        whole_s = spent_s(text, MOST_BODY)
        assert whole_s < 20 * max(eighth_s, 0.05)
        assert whole_s < 8.0 / 0.45 * unit_s


def test_who_times_out_is_not_printed(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """No traceback for a client that says nothing, or leaves in the middle."""
    monkeypatch.setattr(metrics_server, "HEAD_S", 0.2)
    address, close = metrics()
    host, _, port = address.rpartition(":")
    for sent in (b"", b"GET /met", b"GET /metrics HTTP/1.1\r\n"):
        with closing(socket.create_connection((host, int(port)), timeout=5)) as made:
            made.sendall(sent)
            time.sleep(0.5)
    close()
    assert "Traceback" not in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    "name", ["evil.example", "evil.example:9464", "localhost.evil.example", "", "127.0.0.1.evil.example"]
)
def test_a_name_of_somebody_elses_reads_nothing(listener: tuple[str, int, str], name: str) -> None:
    """DNS rebinding: a domain that resolves to this machine; every listener without tokens answers 421."""
    host, port, path = listener
    assert ask(host, port, path, name or " ") in ((421, 400) if not name else (421,))
    for ours in ("localhost", f"localhost:{port}", "127.0.0.1", "[::1]", socket.gethostname(), NAME):
        assert ask(host, port, path, ours) == 200


def test_a_token_is_no_leave_for_any_name() -> None:
    """Also where there is a token, a name of somebody else's is 421, before anything is compared."""
    metered = MetricsServer("127.0.0.1", 0, "a-token-of-this-test", CollectorRegistry(), dict)
    tokens = (token_of("monitoring", Role.READ, "a-token-of-this-test"),)
    served_page = shown(PlainDesk(), Access(lambda: tokens, ("127.0.0.1",)))
    for (at, close), path in (((metered.address, metered.close), "/metrics"), (served_page, "/v1/overview")):
        host, _, port = at.rpartition(":")
        assert ask(host, int(port), path, "evil.example") == 421
        assert ask(host, int(port), path, "localhost") == 401
        close()


def test_a_head_without_end_ends() -> None:
    """So many bytes of a head are taken, and no more, however fast they come."""
    address, close = metrics()
    host, _, port = address.rpartition(":")
    with closing(socket.create_connection((host, int(port)), timeout=10)) as made:
        sent = 0
        try:
            made.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
            while sent < 32 << 20:
                sent += made.send(b"X: " + b"a" * 60_000 + b"\r\n")
        except OSError:
            pass
    close()
    assert sent < 16 << 20


# ---- every listener -------------------------------------------------------------------------------------------------

# Where a socket is bound or a server is made, and what it is.
PLACES = {
    ("adapters/telemetry/metrics_server.py", "_listen"): "a Listener",
    ("web/serve.py", "bind"): "a Listener",
    ("web/serve.py", "server"): "serves what bind made",
    ("runtime/monitoring/page.py", "_bind"): "asks bind",
    ("cli/watch/ops.py", "ops"): "asks bind",
    ("local/broker.py", "free_port"): "looks for a port and closes it",
    ("local/broker.py", "port_is_free"): "looks for a port and closes it",
}
NAMES = {
    "bind",
    "listen",
    "make_server",
    "create_server",
    "start_server",
    "HTTPServer",
    "ThreadingHTTPServer",
    "Server",
}


def test_every_listener_was_judged() -> None:
    """A new one listens with `Listener` and asks `is_ours`, or says here what it is."""
    found = set()
    for path in sorted(SOURCES.rglob("*.py")):
        file = str(path.relative_to(SOURCES))
        text = path.read_text(encoding="utf-8")
        if not any(word in text for word in ("socket", "uvicorn", "serve")):
            continue
        for function in ast.walk(ast.parse(text)):
            if isinstance(function, ast.FunctionDef):
                for node in ast.walk(function):
                    if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in NAMES:
                        found.add((file, function.name))
    assert {each for each in found if each[0] not in ("editor/server.py", "cli/write/lsp.py")} == set(PLACES)
    for file in ("adapters/telemetry/metrics_server.py", "web/app.py"):
        assert "is_ours(" in (SOURCES / file).read_text(encoding="utf-8")
