"""Copies a driver's raw output, made harmless: what the JVM, librdkafka and Python print, with whatever a record holds.

In: two file descriptors to read from, as arguments. Out: the same lines on standard output and error, control
characters escaped. A process of its own, so that it outlives whoever started the driver and no driver ever writes into
a closed pipe; it ends when the last writer has. It imports nothing but Python's own library: it starts in 20 ms, and
each driver has one.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import sys
import unicodedata

_CHUNK = 65_536
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def harmless(line: bytes) -> bytes:
    """One line without its end: what is unseen is escaped; bytes that are no UTF-8, too."""
    if all(0x20 <= byte < 0x7F or byte == 0x09 for byte in line):
        return line
    text = line.removesuffix(b"\r").decode("utf-8", "backslashreplace")
    return "".join(repr(c)[1:-1] if c != "\t" and unicodedata.category(c) in _UNSEEN else c for c in text).encode(
        "utf-8", "backslashreplace"
    )


def pump(sources: dict[int, int]) -> None:
    """Copies line by line until every source has ended. A line that is longer than a chunk is written in pieces."""
    held = dict.fromkeys(sources, b"")
    selector = selectors.DefaultSelector()
    for source in sources:
        selector.register(source, selectors.EVENT_READ)
    while selector.get_map():
        for key, _ in selector.select():
            source = key.fd
            data = os.read(source, _CHUNK)
            *lines, rest = (held[source] + data).split(b"\n")
            if not data or len(rest) > _CHUNK:
                lines, rest = [*lines, rest], b""
            held[source] = rest
            if not data:
                selector.unregister(source)
                lines = [line for line in lines if line]
            with contextlib.suppress(OSError):  # the terminal is gone: the driver goes on, and is read on
                _write(sources[source], b"".join(harmless(line) + b"\n" for line in lines))


def _write(target: int, data: bytes) -> None:
    while data:
        data = data[os.write(target, data) :]


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    pump({int(sys.argv[1]): 1, int(sys.argv[2]): 2})
