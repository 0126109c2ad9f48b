"""Floods addresses from a process of its own, as visitors from other machines do: idle and slow connections and requests
that mean harm. With `--nobody` it serves two addresses of nobody's instead: what a flood costs the machine by itself.

    python -m tests.security.flood --requests 5000 --connections 2000 --seed 1 127.0.0.1:8765 127.0.0.1:9090
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import socket
import threading
import time
from collections import Counter
from contextlib import suppress

NICE = 19
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n"
METHODS = ("GET", "PUT", "POST", "DELETE", "OPTIONS", "CONNECT", "get", "G" * 9_000, "\0", "PRI * HTTP/2.0")
PATHS = (
    "/metrics", "/readyz", "/healthz", "/", "/v1/overview", "/v1/events", "/v1/tables/..%2f..%2fetc", "/../../etc/passwd",
    "/static/%2e%2e/%2e%2e/secrets", "//evil.example/", "http://evil.example/", "*", "/" + "a" * 70_000, "/%00", "/%ff%fe",
    "/connectors/x/pause?why=" + "%0d%0aSet-Cookie:x" * 3, "/connector-plugins/floe/config/validate", "/v1/openapi.json",
)  # fmt: skip
HEADERS = (
    "Host: localhost", "Host: evil.example", "Host: localhost\r\nHost: localhost", "Host:", "Content-Length: -1",
    "Content-Length: 99999999999", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 5",
    "Authorization: Bearer " + "x" * 5_000, "X: " + "y" * 70_000, "Expect: 100-continue", "Upgrade: websocket",
    "Range: bytes=0-", "Accept-Encoding: gzip;q=9", "Cookie: " + "a=b;" * 3_000, "\x01: \x02", "Last-Event-ID: -1",
)  # fmt: skip
BODIES = (b"", b"{", b"[" * 60_000, b'{"file": "\\ud800"}', b"\xff" * 1_000, b"FFFFFFFFFFFFFFFF\r\n", b"0\r\n\r\n")
GREETINGS = (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"SSH-2.0-x\r\n", b"\0" * 500, b"\r\n" * 500)
BEGINNINGS = (
    b"",
    b"G",
    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n",
    b"PUT / HTTP/1.1\r\nContent-Length: 9\r\n\r\n{",
)


def request(chance: random.Random) -> bytes:
    """One that means harm, or is merely odd."""
    if chance.random() < 0.1:
        return chance.choice(GREETINGS)
    headers = chance.sample(HEADERS, chance.randint(0, 4)) + ["Host: localhost"] * (chance.random() < 0.5)
    version = chance.choice(("HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/9.9", ""))
    lines = [f"{chance.choice(METHODS)} {chance.choice(PATHS)} {version}", *headers]
    return "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + chance.choice(BODIES)


class Flood:
    """Of some addresses, from threads of this process, until it has sent what it should."""

    def __init__(self, addresses: list[tuple[str, int]], requests: int, connections: int, seed: int) -> None:
        self.statuses: Counter[str] = Counter()
        self._addresses = addresses
        self._stop = threading.Event()
        self._idle: list[socket.socket] = []
        share = requests // 4
        self._threads = [threading.Thread(target=self._ask, args=(share, seed + n), daemon=True) for n in range(4)]
        self._threads.append(threading.Thread(target=self._connect, args=(connections, seed), daemon=True))

    def __enter__(self) -> Flood:
        for thread in self._threads:
            thread.start()
        return self

    def wait(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.1, deadline - time.monotonic()))
            assert not thread.is_alive(), "the flood itself stands still"

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for made in self._idle:
            made.close()

    def _ask(self, count: int, seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(count):
            if self._stop.is_set():
                return
            with socket.socket() as made, suppress(OSError):
                made.settimeout(1)
                made.connect(chance.choice(self._addresses))
                made.sendall(request(chance))
                said = made.recv(100)
                self.statuses[said.split(b" ", 2)[1].decode("ascii", "replace") if said[:5] == b"HTTP/" else ""] += 1

    def _connect(self, count: int, seed: int) -> None:
        chance = random.Random(seed)
        for number in range(count):
            if self._stop.is_set():
                return
            made = socket.socket()
            made.settimeout(1)
            with suppress(OSError):
                made.connect(self._addresses[number % len(self._addresses)])
                made.sendall(chance.choice(BEGINNINGS))
            self._idle.append(made)
            if len(self._idle) > 300:  # of this process's own descriptors
                self._idle.pop(0).close()
            for slow in chance.sample(self._idle, min(5, len(self._idle))):
                with suppress(OSError):
                    slow.sendall(b"x")


async def serve_nobody() -> None:
    """Two addresses, printed as JSON, at which each head gets the same answer."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.TimeoutError):
            if await asyncio.wait_for(reader.read(65_536), 10):
                writer.write(ANSWER)
                await writer.drain()
        writer.close()

    servers = [await asyncio.start_server(answer, "127.0.0.1", 0) for _ in range(2)]
    print(json.dumps([f"127.0.0.1:{each.sockets[0].getsockname()[1]}" for each in servers]), flush=True)
    await asyncio.gather(*(each.serve_forever() for each in servers))


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("addresses", nargs="*")
    options.add_argument("--requests", type=int, default=0)
    options.add_argument("--connections", type=int, default=0)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--nobody", action="store_true")
    given = options.parse_args()
    os.nice(NICE)
    if given.nobody:
        asyncio.run(serve_nobody())
        return
    pairs = [each.rpartition(":") for each in given.addresses]
    with Flood([(host, int(port)) for host, _, port in pairs], given.requests, given.connections, given.seed) as flood:
        flood.wait(600)
    print(json.dumps(flood.statuses))


if __name__ == "__main__":
    main()
