"""A TCP proxy that knows Kafka's request frames, so that a test can lose a request or an answer at an exact point.

Requests begin with a 4-byte size, a 2-byte API key and a 2-byte version; nothing else of the protocol is looked at.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

END_TXN = 26


class Fate(Enum):
    PASS = "pass"
    LOSE_REQUEST = "the request never reaches the broker; then nothing passes any more"
    LOSE_ANSWER = "the broker acts on the request, its answer is lost; then nothing passes any more"
    CUT = "the broker acts on the request, then this one connection breaks"


@dataclass
class _Link:
    """One client's connection and the one to the broker that was made for it."""

    client: socket.socket
    broker: socket.socket
    fate: Fate = Fate.PASS

    def close(self) -> None:
        for one in (self.client, self.broker):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads it
            one.close()


class Proxy:
    """Listens on a loopback port of its own and forwards to `target` (set it before the first connection)."""

    def __init__(self) -> None:
        self.decide: Callable[[int], Fate] = lambda _key: Fate.PASS
        self.target: tuple[str, int] = ("127.0.0.1", 0)
        self.down = False
        self.reached = threading.Event()
        """Set when a request met a fate other than PASS."""
        self._links: list[_Link] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def heal(self) -> None:
        """Break what is stuck; from now on everything passes."""
        self.decide = lambda _key: Fate.PASS
        self.down = False
        self.reached.clear()
        self._break_all()

    def close(self) -> None:
        # shutdown wakes the thread in accept; close alone would not.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._break_all()

    def _break_all(self) -> None:
        with self._lock:
            links, self._links = self._links, []
        for link in links:
            link.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                if self.down:
                    client.close()
                    continue
                broker = socket.create_connection(self.target, timeout=5)
                broker.settimeout(None)
            except OSError:
                if self._listener.fileno() < 0:
                    return
                client.close()
                continue
            link = _Link(client, broker)
            with self._lock:
                self._links.append(link)
            threading.Thread(target=self._requests, args=(link,), daemon=True).start()
            threading.Thread(target=self._answers, args=(link,), daemon=True).start()

    def _requests(self, link: _Link) -> None:
        # An OSError on either side means that it is gone; then so is the other.
        with contextlib.suppress(OSError):
            while True:
                size = _read(link.client, 4)
                body = _read(link.client, struct.unpack(">i", size)[0])
                fate = Fate.LOSE_REQUEST if self.down else self.decide(struct.unpack(">h", body[:2])[0])
                link.fate = fate if fate is not Fate.PASS else link.fate
                self.down = self.down or fate in (Fate.LOSE_REQUEST, Fate.LOSE_ANSWER)
                if fate is not Fate.LOSE_REQUEST:
                    link.broker.sendall(size + body)
                if fate is not Fate.PASS:
                    self.reached.set()
        link.close()

    def _answers(self, link: _Link) -> None:
        with contextlib.suppress(OSError):
            while data := link.broker.recv(65536):
                if link.fate is Fate.CUT:
                    break
                if link.fate is Fate.PASS and not self.down:
                    link.client.sendall(data)
        link.close()


def _read(source: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = source.recv(count - len(data))
        if not more:
            raise ConnectionError("closed")
        data += more
    return data
