"""The pages of metrics and health, asked by a real client over a real socket."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.adapters.telemetry.metrics_delivery import push, write_textfile
from framework.adapters.telemetry.metrics_registry import registry_of_samples
from framework.adapters.telemetry.metrics_server import MetricsServer
from framework.errors import SetupError
from framework.metrics.definitions import TAKEOVERS
from framework.metrics.samples import MetricSample

TOKEN = "a-token-of-this-test"
REGISTRY = registry_of_samples(lambda: (MetricSample(TAKEOVERS, ("control",), 3.0),))
CHECKS: dict[str, bool] = {}


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    CHECKS.clear()
    CHECKS.update(broker=True)
    server = MetricsServer("127.0.0.1", 0, TOKEN, REGISTRY, lambda: CHECKS)
    yield server
    server.close()


def ask(address: str, path: str, authorization: str | None = f"Bearer {TOKEN}", method: str = "GET") -> tuple[int, str]:
    headers = {"Authorization": authorization} if authorization is not None else {}
    request = urllib.request.Request(f"http://{address}{path}", headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


WITHOUT = [None, "", "Bearer", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN, "Bearer ü"]


@pytest.mark.parametrize("path", ["/metrics", "/", "/nothing"])
@pytest.mark.parametrize("authorization", WITHOUT)
def test_without_the_token_there_is_no_page(server: MetricsServer, path: str, authorization: str | None) -> None:
    """Whatever is asked for, and however near the token is, the answer is 401 and says nothing else."""
    encoded = authorization.encode().decode("latin-1") if authorization is not None else None
    assert ask(server.address, path, encoded) == (401, "a token is needed\n")


@pytest.mark.parametrize("authorization", WITHOUT)
def test_without_the_token_health_is_one_word(server: MetricsServer, authorization: str | None) -> None:
    """Probes of Kubernetes bring no secret: they learn whether the process lives and works, and no name of anything."""
    encoded = authorization.encode().decode("latin-1") if authorization is not None else None
    assert ask(server.address, "/healthz", encoded) == (200, "alive\n")
    assert ask(server.address, "/readyz", encoded) == (200, "ready\n")
    CHECKS["catalog"] = False
    assert ask(server.address, "/readyz", encoded) == (503, "not ready\n")
    for path in ("/healthz", "/readyz"):
        assert ask(server.address, path, encoded, method="POST")[0] == 401
    for path in ("/healthz/", "/readyz/x", "/READYZ", "/readyz/../metrics"):
        assert ask(server.address, path, encoded)[0] == 401


def test_pages_answer(server: MetricsServer) -> None:
    """Metrics, health and readiness are where they are said to be; other paths and methods are refused."""
    code, text = ask(server.address, "/metrics")
    assert (code, 'floe_coordinator_takeovers_total{control_topic="control"} 3.0' in text) == (200, True)
    assert ask(server.address, "/healthz") == (200, "alive\n")
    assert ask(server.address, "/readyz") == (200, '{"checks": {"broker": true}, "ready": true}\n')
    assert ask(server.address, "/else")[0] == 404
    assert ask(server.address, "/healthz", method="POST")[0] == 405


def test_a_process_that_does_not_work_is_alive_and_not_ready(server: MetricsServer) -> None:
    """One check that fails makes `/readyz` a 503 that names it; `/healthz` stays 200."""
    CHECKS["catalog"] = False
    assert ask(server.address, "/readyz") == (503, '{"checks": {"broker": true, "catalog": false}, "ready": false}\n')
    assert ask(server.address, "/healthz")[0] == 200


def test_a_second_process_takes_the_next_port(server: MetricsServer) -> None:
    """Drivers that share a target are each scraped at an address of their own."""
    port = int(server.address.rpartition(":")[2])
    other = MetricsServer("127.0.0.1", port, "", REGISTRY, dict)
    try:
        assert int(other.address.rpartition(":")[2]) > port
        assert ask(other.address, "/healthz", None) == ask(server.address, "/healthz") == (200, "alive\n")
    finally:
        other.close()


def test_an_address_of_another_machine_is_refused() -> None:
    """What cannot be listened at is an error of the environment, with its code."""
    with pytest.raises(SetupError, match="metrics cannot be served") as refused:
        MetricsServer("192.0.2.1", 9464, TOKEN, REGISTRY, dict)
    assert refused.value.code == "FLOE-E034"


def test_who_says_nothing_holds_nobody_up(server: MetricsServer) -> None:
    """Connections that send no request do not keep the pages from others."""
    host, _, port = server.address.rpartition(":")
    silent = [socket.create_connection((host, int(port))) for _ in range(20)]
    try:
        assert ask(server.address, "/healthz")[0] == 200
    finally:
        for each in silent:
            each.close()


def test_a_textfile_is_replaced_as_a_whole_and_readable_by_the_exporter(tmp_path: Path) -> None:
    """One file an instance, with nothing beside it, which another user may read."""
    for _ in range(2):
        write_textfile(str(tmp_path), "prod-orders", REGISTRY)
    [file] = tmp_path.iterdir()
    assert (file.name, file.stat().st_mode & 0o777) == ("floe-prod-orders.prom", 0o644)
    assert "floe_coordinator_takeovers_total" in file.read_text()


def test_a_gateway_gets_the_metrics_under_the_instance(gateway: tuple[str, list[tuple[str, str, bytes]]]) -> None:
    """A push replaces what the gateway has of this job and instance."""
    url, asked = gateway
    push(url, "prod-orders", REGISTRY)
    [(method, path, body)] = asked
    assert (method, path) == ("PUT", "/metrics/job/floe/instance/prod-orders")
    assert b'floe_coordinator_takeovers_total{control_topic="control"} 3.0' in body


@pytest.fixture
def gateway() -> Iterator[tuple[str, list[tuple[str, str, bytes]]]]:
    """A server that takes what is pushed, as a Pushgateway does."""
    import threading
    from http.server import BaseHTTPRequestHandler, HTTPServer

    asked: list[tuple[str, str, bytes]] = []

    class Gateway(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            asked.append(("PUT", self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Gateway)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()
