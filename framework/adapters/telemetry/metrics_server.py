"""The HTTP side of metrics and health: three pages, read only.

In: an address, perhaps a token, and functions that give the metrics and the checks of this moment. Out: a server in
threads of its own. Where there is a token every request must bring it; it is compared in constant time. Nothing of a
request is logged or answered.
"""

from __future__ import annotations

import errno
import hmac
import json
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from socketserver import TCPServer
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from framework.adapters.host.listener import BACKLOG, Listener, is_ours
from framework.errors import SetupError

PORTS_TRIED = 100
REQUEST_TIMEOUT_S = 10
CLOSE_POLL_S = 0.1
Answer = Callable[..., Iterable[bytes]]


class _Quiet(WSGIRequestHandler):
    timeout = REQUEST_TIMEOUT_S  # a client that sends nothing holds a thread no longer

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: what strangers ask for is none of a log's business."""


class MetricsServer:
    """`checks` says by name what must be true for the process to be ready. Begins at once; `close` ends it."""

    def __init__(
        self, host: str, port: int, token: str, registry: CollectorRegistry, checks: Callable[[], Mapping[str, bool]]
    ) -> None:
        """Listens at the port, or at the next free one.

        Raises:
            SetupError: FLOE-E034, the address cannot be listened at.
        """
        self._token = token
        self._names = (host, socket.gethostname())
        self._metrics = make_wsgi_app(registry)
        self._checks = checks
        self._server = self._listen(host, port)
        bound = self._server.server_address
        self.address = f"[{bound[0]!s}]:{bound[1]}" if ":" in str(bound[0]) else f"{bound[0]!s}:{bound[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(CLOSE_POLL_S,), name="metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _listen(self, host: str, port: int) -> ThreadingWSGIServer:
        class Server(ThreadingWSGIServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
            # Two processes must not share a port: each is scraped by its own.
            allow_reuse_port = False
            allow_reuse_address = True
            request_queue_size = BACKLOG

            def server_bind(self) -> None:
                """Without asking a name server who this is, which may take long."""
                self.socket.close()
                self.socket = Listener(host)
                TCPServer.server_bind(self)
                self.server_name, self.server_port = host, int(self.server_address[1])
                self.setup_environ()

            def handle_error(self, request: Any, client_address: Any) -> None:
                """Nothing: a client that leaves or says nothing is none of a log's business."""

        last: OSError | None = None
        for number in range(port, min(port + PORTS_TRIED, 65_536) if port else 1):
            try:
                return make_server(host, number, self._answer, Server, _Quiet)
            except OSError as error:
                last = error
                if error.errno != errno.EADDRINUSE:
                    break
        raise SetupError(
            f"metrics cannot be served: {last.strerror if last else 'no port is free'}",
            code="FLOE-E034",
            place=f"{host}:{port}",
            remedy="correct `monitoring.listen` of the target",
        ) from last

    def _answer(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        # Where there is a token, a browser that was led here by another's name does not have it; scrapers use any name.
        if not self._token and not is_ours(str(environ.get("HTTP_HOST", "")), self._names):
            return _text(start_response, "421 Misdirected Request", "the Host header does not name this server\n")
        if self._token and not self._may(str(environ.get("HTTP_AUTHORIZATION", ""))):
            head = [("WWW-Authenticate", 'Bearer realm="floe"'), ("Content-Type", "text/plain; charset=utf-8")]
            start_response("401 Unauthorized", head)
            return [b"a token is needed\n"]
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return _text(start_response, "405 Method Not Allowed", "only GET\n")
        path = environ.get("PATH_INFO", "")
        if path == "/metrics":
            return self._metrics(environ, start_response)  # type: ignore[no-any-return]
        if path == "/healthz":
            return _text(start_response, "200 OK", "alive\n")
        if path == "/readyz":
            checks = self._checks()
            ready = all(checks.values())
            body = json.dumps({"ready": ready, "checks": dict(checks)}, sort_keys=True) + "\n"
            status = "200 OK" if ready else "503 Service Unavailable"
            return _text(start_response, status, body, "application/json")
        return _text(start_response, "404 Not Found", "/metrics, /healthz and /readyz are here\n")

    def _may(self, authorization: str) -> bool:
        kind, _, given = authorization.partition(" ")
        same = hmac.compare_digest(given.strip().encode("utf-8", "replace"), self._token.encode())
        return same and kind.lower() == "bearer"


def _text(start_response: Callable[..., Any], status: str, body: str, kind: str = "text/plain") -> list[bytes]:
    start_response(status, [("Content-Type", f"{kind}; charset=utf-8"), ("Cache-Control", "no-store")])
    return [body.encode()]
