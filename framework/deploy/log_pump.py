"""Copies a driver's raw output, made harmless: what the JVM, librdkafka and Python print, with whatever a record holds.

In: two file descriptors to read from, as arguments. Out: the same lines on standard output and error, control
characters escaped; or, where a file is named, both in it, and in older files of bounded number and size. A process of
its own, so that it outlives whoever started the driver and no driver ever writes into a closed pipe; it ends when the
last writer has. It imports nothing but Python's own library: it starts in 20 ms, and each driver has one.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import sys
import unicodedata

_CHUNK = 65_536
MAX_BYTES = 50 * 1024 * 1024
KEPT = 4
"""Older files: `driver.log.1` is the newest of them."""
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def harmless(line: bytes) -> bytes:
    """One line without its end: what is unseen is escaped; bytes that are no UTF-8, too."""
    if all(0x20 <= byte < 0x7F or byte == 0x09 for byte in line):
        return line
    text = line.removesuffix(b"\r").decode("utf-8", "backslashreplace")
    return "".join(repr(c)[1:-1] if c != "\t" and unicodedata.category(c) in _UNSEEN else c for c in text).encode(
        "utf-8", "backslashreplace"
    )


def append(path: str, data: bytes, max_bytes: int = MAX_BYTES) -> None:
    """Writes whole lines at the end of the file; one that is full becomes the newest of the older ones before. Everybody
    who writes into it does so with this, and keeps it open for no longer."""
    with contextlib.suppress(FileNotFoundError):
        if os.stat(path).st_size + len(data) > max_bytes:
            shift(path)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        _write(handle, data)
    finally:
        os.close(handle)


def shift(path: str) -> None:
    """The file becomes the newest of the older ones, the oldest goes."""
    for number in range(KEPT, 0, -1):
        with contextlib.suppress(FileNotFoundError):
            os.replace(f"{path}.{number - 1}" if number > 1 else path, f"{path}.{number}")


def pump(sources: dict[int, int], path: str = "") -> None:
    """Copies line by line until every source has ended. A line that is longer than a chunk is written in pieces.

    Args:
        path: the file for all of it; "" where each source has a descriptor of its own to be written to.
    """
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
            text = b"".join(harmless(line) + b"\n" for line in lines)
            with contextlib.suppress(
                OSError
            ):  # the terminal is gone, or the disk full: the driver goes on, and is read
                if path and text:
                    append(path, text)
                else:
                    _write(sources[source], text)


def _write(target: int, data: bytes) -> None:
    while data:
        data = data[os.write(target, data) :]


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    pump({int(sys.argv[1]): 1, int(sys.argv[2]): 2}, sys.argv[3] if len(sys.argv) > 3 else "")
