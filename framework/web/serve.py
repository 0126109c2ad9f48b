"""Serves an ASGI application at an address until a signal comes. In: the application. Out: HTTP, without TLS.

Nothing of a request is logged. The address is listened at before anything is said to be served.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

from framework.errors import SetupError

GRACE_S = 1
KEEP_ALIVE_S = 30
MOST_CONNECTIONS = 500


LISTEN_REMEDY = "name another address with --listen, such as `--listen 127.0.0.1:8766`"


def bind(host: str, port: int, remedy: str = LISTEN_REMEDY) -> socket.socket:
    """A socket that listens there.

    Raises:
        SetupError: FLOE-E036, the address is none of this machine, or the port is taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(128)
    except OSError as error:
        bound.close()
        raise SetupError(
            f"the page cannot be served: {error.strerror or error}",
            code="FLOE-E036",
            place=f"{host}:{port}",
            remedy=remedy,
        ) from error
    return bound


def server(app: ASGIApp) -> uvicorn.Server:
    """A server that is not running yet: `run(sockets=[...])`, and `should_exit = True` ends it."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            http="h11",
            ws="none",
            loop="asyncio",
            lifespan="off",
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=GRACE_S,
            limit_concurrency=MOST_CONNECTIONS,
        )
    )


def serve(app: ASGIApp, bound: socket.socket, begun: Callable[[str], None]) -> None:
    """Serve until a signal comes; `begun` gets the address."""
    host, port = bound.getsockname()[:2]
    begun(f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/")
    server(app).run(sockets=[bound])
