"""The page beside something else: served by a thread of a process whose work is another, to be read alone.

In: a `Backend`, an address, perhaps a token. Out: a server in a thread of its own. Invariant: nobody acts through it, and
off loopback nobody reads without the token.
"""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable

from framework.errors import SetupError
from framework.web.access.access import Access, Role, Token, needs_tokens, refused, token_of
from framework.web.app import create_app
from framework.web.backend import Backend
from framework.web.serve import bind, server

PORTS_TRIED = 100
CLOSE_S = 3.0
READER = "monitoring"


class PageBeside:
    """Listens from the beginning; answers from `serve` on, until `close`."""

    def __init__(self, host: str, port: int, token: str, names: tuple[str, ...] = ()) -> None:
        """Listens at the port, or at the next free one. `names`: those that clients may use beside the machine's own.

        Raises:
            SetupError: FLOE-E036, the address cannot be listened at. FLOE-E037, others reach it and there is no token.
        """
        if not token and needs_tokens(host):
            raise refused(
                f"others can reach {host}:{port}, and there is no token", f"{host}:{port}", "set `monitoring.token`"
            )
        known: tuple[Token, ...] = (token_of(READER, Role.READ, token),)
        self._access = Access((lambda: known) if token else None, (host, socket.gethostname(), *names))
        self._bound = _bind(host, port)
        host, port = self._bound.getsockname()[:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._closing = threading.Event()
        self._stop: Callable[[], None] = lambda: None
        self._thread: threading.Thread | None = None

    def serve(self, begin: Callable[[], Backend | None]) -> None:
        """In a thread: `begin` gives the backend, or None where it was closed before there was one."""
        self._thread = threading.Thread(target=self._serve, args=(begin,), name="page", daemon=True)
        self._thread.start()

    @property
    def closing(self) -> threading.Event:
        return self._closing

    def close(self) -> None:
        self._closing.set()
        self._stop()
        if self._thread is not None:
            self._thread.join(CLOSE_S)
        self._bound.close()

    def _serve(self, begin: Callable[[], Backend | None]) -> None:
        backend = begin()
        if backend is None or self._closing.is_set():
            return
        running = server(create_app(backend, self._access))

        def stop() -> None:
            running.should_exit = True

        self._stop = stop
        if not self._closing.is_set():
            running.run(sockets=[self._bound])


def _bind(host: str, port: int) -> socket.socket:
    """Two processes of one target do not share a port: each shows itself."""
    for number in range(port, min(port + PORTS_TRIED, 65_536) if port else 1):
        try:
            return bind(host, number, "correct `monitoring.page` of the target")
        except SetupError as error:
            last = error
            cause = error.__context__
            if not isinstance(cause, OSError) or cause.errno != errno.EADDRINUSE:
                break
    raise last
