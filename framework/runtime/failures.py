"""What an error that comes out of Spark says, in one line for people."""

from __future__ import annotations

import re

LOG_REMEDY = "the whole story is in Spark's log, `logs/spark.log` in the state directory"
NAMED_ERROR = re.compile(r"^(?:error\[|[A-Za-z_.]+(?:Error|Exception|Gone)\b)")


def said(error: BaseException) -> str:
    """What an error from Spark says, in one line: the last line of a task's Python traceback, else the first line."""
    # Py4J puts a colon before the name of the Java exception, on the second line.
    lines = [line.strip().removeprefix(": ") for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if NAMED_ERROR.match(line)]
    return (named or lines or [type(error).__name__])[0 if not named else -1]
