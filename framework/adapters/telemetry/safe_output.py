"""Where text leaves floe, as terminal output or log lines: secrets and control characters are removed here.

In: text of any origin. Out: the same text, safe to show. A log line stays one line, whatever it contains. A stream lets
floe's own line breaks and colours through and escapes everything else, so that it also catches what a verb forgot.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from framework.adapters.secrets import hidden
from framework.diagnose.shown import shown, shown_lines
from framework.errors import FloeError


def log_line(text: str) -> str:
    """A line of a log or of progress."""
    return shown(hidden(text))


def error_text(error: FloeError) -> str:
    """An error as `FloeError.__str__` has it, each part in one line."""
    known = FloeError(
        log_line(error.message),
        code=error.code,
        place=log_line(error.place),
        remedy=shown_lines(hidden(error.remedy)),
        quoted=tuple(map(log_line, error.quoted)),
    )
    return str(known)


class GuardedStream:
    """A text stream that shows nothing unseen. All but `write` is the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        self.unguarded = stream

    def write(self, text: str) -> int:
        self.unguarded.write(shown_lines(text, styled=True))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unguarded, name)


def unguarded(stream: TextIO) -> TextIO:
    """The terminal itself, for what draws on it and shows nothing but floe's own words."""
    return stream.unguarded if isinstance(stream, GuardedStream) else stream


@contextmanager
def guarded_streams() -> Iterator[None]:
    """Standard output and error show nothing unseen meanwhile, nor do Python's log lines."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (GuardedStream(unguarded(stream)) for stream in before)
    guard_logging()
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


class OneLine(logging.Formatter):
    """A record in one line; an exception's lines follow, each as it may be shown."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # logging's name
        return log_line(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # logging's name
        return shown_lines(hidden(super().formatException(ei)))


def guard_logging() -> None:
    """What no handler takes goes to standard error, in one line each; floe installs no handlers of its own."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(OneLine())
