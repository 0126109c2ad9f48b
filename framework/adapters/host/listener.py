"""What every listener of floe shares: which `Host` it answers, and how many connections it holds at once.

In: a header; a host and a port. Out: whether it names this server; a socket that listens. Invariant: strangers who
connect take a bounded number of descriptors, and the newest is heard: where there are too many, the oldest is ended. A
browser that a name of somebody else's domain led here reads nothing.
"""

from __future__ import annotations

import ipaddress
import logging
import re
import resource
import socket
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

log = logging.getLogger(__name__)

MOST_CONNECTIONS = 64
# Of the descriptors that a process may have: what else it does needs them more.
SHARE = 8
BACKLOG = 128


def is_ours(host: str, names: Iterable[str]) -> bool:
    """Whether a `Host` header names this server by an address, by `localhost` or by one of its names. A browser that
    was led here by a name of somebody else's domain says that name."""
    name = _without_port(host)
    if name is None:
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        name = name.lower().rstrip(".")
        return name == "localhost" or name.endswith(".localhost") or name in {each.lower() for each in names}
    return True


def _without_port(host: str) -> str | None:
    match = re.match(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::[0-9]{1,5})?\Z", host)
    return (match[1] or match[2]) if match else None


class Listener(socket.socket):
    """A TCP socket that ends the oldest connection when one too many comes; said once."""

    def __init__(self, host: str, most: int = 0, fileno: int | None = None) -> None:
        """`most`: connections at once; 0: as many as fit beside the rest of the process. `fileno`: of a socket that another
        process has bound."""
        super().__init__(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, fileno=fileno)
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        fitting = MOST_CONNECTIONS if descriptors < 0 else min(MOST_CONNECTIONS, max(4, descriptors // SHARE))
        self._most = most or fitting
        self._open: deque[socket.socket] = deque()
        self._is_reported = False

    def accept(self) -> tuple[socket.socket, Any]:
        """The newest connection.

        Raises:
            ConnectionAbortedError: it was ended at once, as those that were asked to end have not gone yet. Servers take
                this for a client that has left.
        """
        made, address = super().accept()
        self._open = deque(each for each in self._open if each.fileno() != -1)
        if len(self._open) >= self._most:
            if not self._is_reported:
                self._is_reported = True
                log.warning("more than %s connections at a time: the oldest are ended", self._most)
            with suppress(OSError):
                self._open[len(self._open) - self._most].shutdown(socket.SHUT_RDWR)
        if len(self._open) >= 2 * self._most:
            made.close()
            raise ConnectionAbortedError("too many connections")
        self._open.append(made)
        return made, address
