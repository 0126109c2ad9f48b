"""Visitors of what floe listens at: connections that say nothing, slow ones, and browsers that another's domain led here.

Each listener of the source is started and flooded as it is; the next one that listens is found by a test.
"""

from __future__ import annotations

import ast
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

import framework
from framework.adapters.host.listener import MOST_CONNECTIONS
from framework.adapters.telemetry import metrics_server
from framework.adapters.telemetry.metrics_server import MetricsServer
from framework.web import app, serve
from framework.web.beside import PageBeside
from tests.unit.web.backend import PlainDesk

SOURCES = Path(framework.__file__).parent
FLOOD = 1_200


def metrics() -> tuple[str, Callable[[], None]]:
    server = MetricsServer("127.0.0.1", 0, "", CollectorRegistry(), dict)
    return server.address, server.close


def page() -> tuple[str, Callable[[], None]]:
    server = PageBeside("127.0.0.1", 0, "")
    server.serve(PlainDesk)
    return server.address, server.close


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
    if path == "/healthz":
        pytest.skip("each piece has its time there; the oldest connection goes when there are many")
    monkeypatch.setattr(serve, "HEAD_S", 0.5)
    with closing(socket.create_connection((host, port), timeout=5)) as made:
        made.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert made.recv(12) == b"HTTP/1.1 200"
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


def test_who_times_out_is_not_printed(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """No traceback for a client that says nothing, or leaves in the middle."""
    monkeypatch.setattr(metrics_server._Quiet, "timeout", 0.2)
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
    for ours in ("localhost", f"localhost:{port}", "127.0.0.1", "[::1]", socket.gethostname()):
        assert ask(host, port, path, ours) == 200


# ---- every listener -------------------------------------------------------------------------------------------------

# Where a socket is bound or a server is made, and what it is.
PLACES = {
    ("adapters/telemetry/metrics_server.py", "_listen"): "a Listener",
    ("web/serve.py", "bind"): "a Listener",
    ("web/serve.py", "server"): "serves what bind made",
    ("web/beside.py", "_bind"): "asks bind",
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
