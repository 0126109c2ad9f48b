"""Makes every line on standard error JSON: what libraries, Spark, librdkafka and a dying interpreter print there, too.

In: the lines of a process and of all that it starts, through a pipe. Out: lines of JSON. Those that are JSON objects already
stay; others become `{"time", "level", "message", "from"}`, and one that is said again within a minute, but for its numbers, is
counted and not repeated. A process of its own, so that what a crash leaves is still written; it ends when the last writer
has. As a program it imports nothing but Python's own library and starts in 20 ms.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone

_CHUNK = 65_536
AGAIN_S = 60.0
_MOST_KEPT = 1_000
_LAST_LINES_S = 2.0
_RDKAFKA = re.compile(r"%([0-7])\|[0-9.]+\|")
_SPARK = re.compile(r"[0-9]{2,4}[-/][0-9]{2}[-/][0-9]{2}[ T][0-9:.,]+ (TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\b")
_NUMBERS = re.compile(r"[0-9]+")
_LEVELS = {"WARN": "WARNING", "ERROR": "ERROR", "FATAL": "ERROR"}
_TROUBLE = re.compile(r"[A-Za-z_.]*(?:Error|Exception)\b|Traceback |Fatal ")


class JsonLines:
    """Turns lines into lines of JSON, one after the other."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._said: dict[str, tuple[float, int, str, str]] = {}  # by text without numbers: when first, how often since

    def line(self, text: str, now_s: float) -> None:
        """Says a line, or counts it."""
        self.settle(now_s)
        if not text.strip():
            return
        if _is_object(text):
            self._write(text)
            return
        level, source = _level_of(text)
        key = _NUMBERS.sub("#", text)
        if key in self._said:
            first, times, _, _ = self._said[key]
            self._said[key] = (first, times + 1, text, level)
            return
        if len(self._said) < _MOST_KEPT:
            self._said[key] = (now_s, 0, text, level)
        self._write(_document(now_s, level, text, source))

    def settle(self, now_s: float, end: bool = False) -> None:
        """Says how often lines came again whose minute is over."""
        for key, (first, times, text, level) in list(self._said.items()):
            if end or now_s - first >= AGAIN_S:
                del self._said[key]
                if times:
                    self._write(_document(now_s, level, text, _level_of(text)[1], times))


def _is_object(text: str) -> bool:
    if not text.startswith("{"):
        return False
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _level_of(text: str) -> tuple[str, str]:
    """How bad a line of somebody else is, and who says it."""
    if found := _RDKAFKA.match(text):
        return "ERROR" if found[1] < "4" else "WARNING" if found[1] == "4" else "INFO", "librdkafka"
    if found := _SPARK.match(text):
        return _LEVELS.get(found[1], "INFO"), "spark"
    return "ERROR" if _TROUBLE.match(text) else "INFO", "stderr"


def _document(now_s: float, level: str, text: str, source: str, times: int = 0) -> str:
    whole = datetime.fromtimestamp(now_s, timezone.utc)
    said = {"time": whole.strftime("%Y-%m-%dT%H:%M:%S.") + f"{whole.microsecond // 1000:03}Z", "level": level}
    again = {"times": times} if times else {}
    return json.dumps({**said, "message": text, "from": source, **again})


def pump(source: int, target: int) -> None:
    """Copies until every writer has ended. A line that is longer than a chunk is written in pieces."""

    def write(line: str) -> None:
        data = f"{line}\n".encode("utf-8", "backslashreplace")
        with contextlib.suppress(OSError):  # the terminal is gone, or the disk full: the writers go on, and are read
            while data:
                data = data[os.write(target, data) :]

    lines, held = JsonLines(write), b""
    while True:
        if not select.select([source], [], [], 1.0)[0]:
            lines.settle(time.time())
            continue
        data = os.read(source, _CHUNK)
        *whole, held = (held + data).split(b"\n")
        if not data or (len(held) > _CHUNK and not held.startswith(b"{")):
            whole, held = [*whole, held], b""
        for each in whole:
            lines.line(each.decode("utf-8", "backslashreplace").rstrip("\r"), time.time())
        if not data:
            lines.settle(time.time(), end=True)
            return


@contextmanager
def only_json() -> Iterator[None]:
    """While this lasts, all that this process and those that it starts print on standard error is lines of JSON."""
    sys.stderr.flush()
    kept = os.dup(2)
    os.set_inheritable(kept, False)
    read, write = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, str(read)],
        stdin=subprocess.DEVNULL,
        stdout=kept,
        stderr=kept,
        pass_fds=(read,),
        start_new_session=True,  # Ctrl-C in this terminal ends the driver, and what it says then is still read
    )
    os.close(read)
    os.dup2(write, 2)
    os.close(write)
    hook, threading.excepthook = threading.excepthook, lambda died: _say_exception(died.exc_value, died.thread)
    try:
        yield
    except Exception as error:
        _say_exception(error)
        raise SystemExit(1) from None  # as Python ends with what nobody caught
    finally:
        threading.excepthook = hook
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
        with contextlib.suppress(subprocess.TimeoutExpired):  # a JVM may end after us; it is read to its end
            process.wait(_LAST_LINES_S)


def _say_exception(error: BaseException | None, thread: threading.Thread | None = None) -> None:
    """What nobody caught as one line, its traceback a field of it."""
    if error is None or isinstance(error, SystemExit):
        return
    where = f"thread {thread.name}: " if thread else ""
    document = json.loads(_document(time.time(), "ERROR", f"{where}{type(error).__name__}: {error}", "python"))
    document["exception"] = "".join(traceback.format_exception(error))
    sys.stderr.write(f"{json.dumps(document)}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    pump(int(sys.argv[1]), 1)
