"""What a failure of Spark or of a batch means: whether doing it again may help, and how to say it in one line."""

from __future__ import annotations

import re

from framework.errors import AccountingError, FloeError, OutcomeUnknown, RetriableError, SetupError

LOG_REMEDY = "the whole story is in Spark's log, `logs/spark.log` in the state directory"
NAMED_ERROR = re.compile(r"^(?:error\[|[A-Za-z_.]+(?:Error|Exception|Gone)\b)")


# A broker or a catalog that is away is waited for this long; then the job ends with an exit code that is not 0.
OUTAGE_PATIENCE_S = 3600.0
UNREACHABLE = ("FLOE-E101", "FLOE-E201")


def is_outage(error: FloeError) -> bool:
    """Whether the broker or the catalog cannot be reached now: nothing is wrong with the job itself."""
    return isinstance(error, SetupError) and error.code in UNREACHABLE


def is_retriable(error: FloeError) -> bool:
    """Whether doing it again may help: not when a person must decide, and never after being fenced."""
    return is_outage(error) or isinstance(error, RetriableError | OutcomeUnknown | AccountingError)


def said(error: BaseException) -> str:
    """What an error from Spark says, in one line: the last line of a task's Python traceback, else the first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if NAMED_ERROR.match(line)]
    return (named or lines or [type(error).__name__])[0 if not named else -1]
