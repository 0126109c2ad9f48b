"""The HTTP side of metrics and health: three pages, read only.

In: an address, perhaps a token, and functions that give the metrics and the checks of this moment. Out: a server in
threads of its own. Where there is a token every request must bring it; it is compared in constant time. Without it
`/healthz` and `/readyz` are one word, for probes that can hold no secret. Nothing of a request is logged or answered.
"""

from __future__ import annotations

import errno
import hmac
import io
import json
import socket
import threading
import time
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
# A request's whole head, however slowly it is sent.
HEAD_S = 10.0
MOST_HEAD = 1 << 16
CLOSE_POLL_S = 0.1
MISDIRECTED = "the Host header does not name this server; allow a name with `monitoring.names` of the target\n"
Answer = Callable[..., Iterable[bytes]]


class _Head(io.RawIOBase):
    """What a client sends, for so long and so many bytes: then it has sent all, or has timed out."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._until = time.monotonic() + HEAD_S
        self._left = MOST_HEAD

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """As of a stream; raises TimeoutError."""
        self._connection.settimeout(max(0.001, self._until - time.monotonic()))
        found = self._connection.recv_into(buffer, min(len(buffer), self._left)) if self._left else 0
        self._connection.settimeout(REQUEST_TIMEOUT_S)
        self._left -= found
        return found


class _Quiet(WSGIRequestHandler):
    timeout = REQUEST_TIMEOUT_S  # a client that takes nothing of its answer holds a thread no longer

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_Head(self.connection))

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: what strangers ask for is none of a log's business."""


class MetricsServer:
    """`checks` says by name what must be true for the process to be ready. Begins at once; `close` ends it."""

    def __init__(
        self,
        host: str,
        port: int,
        token: str,
        registry: CollectorRegistry,
        checks: Callable[[], Mapping[str, bool]],
        names: tuple[str, ...] = (),
    ) -> None:
        """Listens at the port, or at the next free one. `names`: those that clients may use beside the machine's own.

        Raises:
            SetupError: FLOE-E034, the address cannot be listened at.
        """
        self._token = token
        self._names = (host, socket.gethostname(), *names)
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
        if not is_ours(str(environ.get("HTTP_HOST", "")), self._names):
            return _text(start_response, "421 Misdirected Request", MISDIRECTED)
        path, is_read = environ.get("PATH_INFO", ""), environ["REQUEST_METHOD"] in ("GET", "HEAD")
        may = not self._token or self._may(str(environ.get("HTTP_AUTHORIZATION", "")))
        if not may and not (is_read and path in ("/healthz", "/readyz")):
            head = [("WWW-Authenticate", 'Bearer realm="floe"'), ("Content-Type", "text/plain; charset=utf-8")]
            start_response("401 Unauthorized", head)
            return [b"a token is needed\n"]
        if not is_read:
            return _text(start_response, "405 Method Not Allowed", "only GET\n")
        if path == "/metrics":
            return self._metrics(environ, start_response)  # type: ignore[no-any-return]
        if path == "/healthz":
            return _text(start_response, "200 OK", "alive\n")
        if path == "/readyz":
            return self._readiness(start_response, may)
        return _text(start_response, "404 Not Found", "/metrics, /healthz and /readyz are here\n")

    def _readiness(self, start_response: Callable[..., Any], may: bool) -> list[bytes]:
        """Who may not know the names of services and pipelines gets one word."""
        checks = self._checks()
        ready = all(checks.values())
        status = "200 OK" if ready else "503 Service Unavailable"
        if not may:
            return _text(start_response, status, "ready\n" if ready else "not ready\n")
        body = json.dumps({"ready": ready, "checks": dict(checks)}, sort_keys=True) + "\n"
        return _text(start_response, status, body, "application/json")

    def _may(self, authorization: str) -> bool:
        kind, _, given = authorization.partition(" ")
        same = hmac.compare_digest(given.strip().encode("utf-8", "replace"), self._token.encode())
        return same and kind.lower() == "bearer"


def _text(start_response: Callable[..., Any], status: str, body: str, kind: str = "text/plain") -> list[bytes]:
    start_response(status, [("Content-Type", f"{kind}; charset=utf-8"), ("Cache-Control", "no-store")])
    return [body.encode()]
