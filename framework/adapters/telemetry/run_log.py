"""The log of a driver or a coordinator on standard error: one line of text or JSON for all that is said.

In: sentences of floe, and Python's log records. Out: lines with the time, the level and what they are about, secrets and
control characters removed. The format comes with `--log-format`, or from `FLOE_LOG_FORMAT` where nobody gives options.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from framework.adapters.secrets import first_line
from framework.adapters.telemetry.safe_output import OneLine, error_text, log_line
from framework.diagnose.log_lines import Level, LogFormat, LogLine, rendered
from framework.errors import FloeError

ENVIRONMENT = "FLOE_LOG_FORMAT"
_LEVELS = {"DEBUG": Level.INFO, "INFO": Level.INFO, "WARNING": Level.WARNING}


def harmless(text: str) -> LogLine:
    """The sentence as it may be shown, about what it was about."""
    line = text if isinstance(text, LogLine) else LogLine(text)
    return LogLine(
        log_line(str(line)),
        line.level,
        pipeline=log_line(line.pipeline),
        batch=line.batch,
        table=log_line(line.table),
        commit=log_line(line.commit),
    )


def from_environment() -> LogFormat:
    """What `FLOE_LOG_FORMAT` says; text where it says nothing that is known."""
    return LogFormat.JSON if os.environ.get(ENVIRONMENT, "").lower() == LogFormat.JSON.value else LogFormat.TEXT


class RunLog:
    """Says lines. Python's own log records come in the same form once it is made."""

    def __init__(
        self, log_format: LogFormat, quiet: bool = False, write: Callable[[str], object] | None = None
    ) -> None:
        self._format = log_format
        self._quiet = quiet
        self._write = write or _to_standard_error
        if logging.lastResort is not None:
            logging.lastResort.setFormatter(_Records(log_format))

    def __call__(self, text: str) -> None:
        if not self._quiet:
            self._write(rendered(harmless(text), time.time(), self._format) + "\n")

    def answer(self, text: str) -> None:
        """What a person would read on standard output, as a line of the log on standard output: whoever collects both has
        no line of another form."""
        sys.stdout.write(rendered(harmless(text.strip()), time.time(), self._format) + "\n")

    def error(self, error: FloeError) -> None:
        """What ends the process: for people as everywhere, for programs as one line."""
        if self._format is LogFormat.TEXT:
            self._write(error_text(error) + "\n")
        else:
            self._write(error_line(error) + "\n")


def error_line(error: FloeError) -> str:
    """An error as one line of JSON."""
    reported = {"code": error.code, "place": log_line(error.place), "remedy": log_line(error.remedy)}
    return rendered(harmless(LogLine(error.message, Level.ERROR)), time.time(), LogFormat.JSON, **reported)


def _to_standard_error(text: str) -> None:
    sys.stderr.write(text)  # in one call, so that the lines of threads do not mix
    sys.stderr.flush()


class _Records(OneLine):
    """Python's log records, in the form of the other lines. In text a library's exception is one line: what follows from it
    floe says itself. One that floe did not foresee has all its lines, for who reports it."""

    def __init__(self, log_format: LogFormat) -> None:
        super().__init__()
        self._format = log_format

    def format(self, record: logging.LogRecord) -> str:
        text, level = f"{record.name}: {record.getMessage()}", _LEVELS.get(record.levelname, Level.ERROR)
        trace: Any = self.formatException(record.exc_info) if record.exc_info else ""
        if self._format is LogFormat.JSON:
            line = LogLine(log_line(text), level)
            return rendered(line, record.created, self._format, **({"exception": trace} if trace else {}))
        is_own = record.name.split(".")[0] == "framework"
        raised = record.exc_info[1] if record.exc_info else None
        if isinstance(raised, Exception) and not is_own:
            text += f" ({type(raised).__name__}: {first_line(raised)})"
        return rendered(LogLine(log_line(text), level), record.created, self._format) + (
            f"\n{trace}" if trace and is_own else ""
        )
