"""Serves an ASGI application at an address until a signal comes. In: the application. Out: HTTP, without TLS.

Nothing of a request is logged. The address is listened at before anything is said to be served.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from framework.adapters.host.listener import BACKLOG, Listener
from framework.errors import SetupError

GRACE_S = 1
KEEP_ALIVE_S = 10
# A request's whole head, from the connection's beginning or from the answer before, however slowly it is sent.
HEAD_S = 10.0


LISTEN_REMEDY = "name another address with --listen, such as `--listen 127.0.0.1:8766`"


def bind(host: str, port: int, remedy: str = LISTEN_REMEDY) -> socket.socket:
    """A socket that listens there.

    Raises:
        SetupError: FLOE-E036, the address is none of this machine, or the port is taken.
    """
    bound = Listener(host)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        raise SetupError(
            f"the page cannot be served: {error.strerror or error}",
            code="FLOE-E036",
            place=f"{host}:{port}",
            remedy=remedy,
        ) from error
    return bound


# What strangers send is none of a log's business.
_SILENT = logging.getLogger(f"{__name__}.requests")
_SILENT.setLevel(logging.CRITICAL)


class LimitedProtocol(H11Protocol):
    """A connection that ends if the head of its next request is not there in time; uvicorn waits for ever."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.logger = _SILENT
        super().connection_made(transport)
        self._late = self.loop.call_later(HEAD_S, self._end_if_no_head)

    def on_response_complete(self) -> None:
        self._late.cancel()
        self._late = self.loop.call_later(HEAD_S, self._end_if_no_head)
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._late.cancel()
        super().connection_lost(exc)

    def _end_if_no_head(self) -> None:
        if self.conn.their_state is h11.IDLE:
            self.transport.abort()


def server(app: ASGIApp) -> uvicorn.Server:
    """A server that is not running yet: `run(sockets=[...])`, and `should_exit = True` ends it."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            http=LimitedProtocol,
            ws="none",
            loop="asyncio",
            lifespan="off",
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=GRACE_S,
        )
    )


def serve(app: ASGIApp, bound: socket.socket, begun: Callable[[str], None]) -> None:
    """Serve until a signal comes; `begun` gets the address."""
    host, port = bound.getsockname()[:2]
    begun(f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/")
    server(app).run(sockets=[bound])
