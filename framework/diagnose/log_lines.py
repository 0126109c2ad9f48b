"""The lines of drivers and coordinators: what is said, how grave it is, and what it is about.

In: a sentence with its level, pipeline, batch, table and commit id, as far as it is about them. Out: one line of text or
of JSON. A `LogLine` is text, so that whoever only passes sentences on need not know of it. Pure: the time is an argument.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from enum import Enum


class Level(str, Enum):
    """How grave: for information; something waits or is tried again; somebody must look."""

    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


class LogFormat(str, Enum):
    TEXT = "text"
    JSON = "json"


class LogLine(str):
    """A sentence that knows what it is about; "" and None: nothing of the kind."""

    level: Level
    pipeline: str
    batch: int | None
    table: str
    commit: str

    def __new__(
        cls,
        text: str,
        level: Level = Level.INFO,
        *,
        pipeline: str = "",
        batch: int | None = None,
        table: str = "",
        commit: str = "",
    ) -> LogLine:
        line = super().__new__(cls, text)
        line.level, line.pipeline, line.batch, line.table, line.commit = level, pipeline, batch, table, commit
        return line

    def fields(self) -> dict[str, str | int]:
        """What it is about, in a fixed order; only what there is."""
        found = {"pipeline": self.pipeline, "batch": self.batch, "table": self.table, "commit": self.commit}
        return {key: value for key, value in found.items() if value not in ("", None)}


def under(name: str, text: str, pipeline: str = "") -> LogLine:
    """The sentence behind a name, about what it was about, and about a pipeline."""
    line = text if isinstance(text, LogLine) else LogLine(text)
    return LogLine(
        f"{name}: {text}",
        line.level,
        pipeline=pipeline or line.pipeline,
        batch=line.batch,
        table=line.table,
        commit=line.commit,
    )


def rendered(text: str, now_s: float, log_format: LogFormat, **further: str) -> str:
    """One line, without its end. `further` are fields of JSON alone, such as a traceback.

    The text must be harmless to show already: nothing is escaped for a terminal here.
    """
    line = text if isinstance(text, LogLine) else LogLine(text)
    time = moment(now_s)
    if log_format is LogFormat.JSON:
        document = {"time": time, "level": line.level.value, **line.fields(), "message": str(line), **further}
        return json.dumps(document, ensure_ascii=False)
    about = " ".join(f"{key}={value}" for key, value in line.fields().items())
    return f"{time} {line.level.value:<7} {line}{f' [{about}]' if about else ''}"


def moment(now_s: float) -> str:
    """ISO 8601 in UTC, to the millisecond."""
    whole = datetime.fromtimestamp(now_s, timezone.utc)
    return whole.strftime("%Y-%m-%dT%H:%M:%S.") + f"{whole.microsecond // 1000:03}Z"
