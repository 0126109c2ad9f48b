"""What an error that comes out of Spark, or of a thread in the background, says in one line for people."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence

from framework.commit.machine.reporting.batch_remedies import ENDED_REMEDY, KEYS_ENDED
from framework.diagnose.counted import counted
from framework.errors import AccountingError, FloeError, RetriableError, SetupError, TableBlocked
from framework.task.reported_failure import is_outside, reported_failure

log = logging.getLogger(__name__)

LOG_REMEDY = "Spark's log has the details: `logs/spark.log` in the state directory"
NAMED_ERROR = re.compile(r"^(?:error\[|[A-Za-z_.]+(?:Error|Exception|Gone)\b)")


def said(error: BaseException) -> str:
    """What an error from Spark says, in one line: what a task reported, or the last line of its Python traceback, else the
    first line."""
    if (failure := reported_failure(error)) is not None:
        return failure.text
    # Py4J puts a colon before the name of the Java exception, on the second line.
    lines = [line.strip().removeprefix(": ") for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if NAMED_ERROR.match(line)]
    return (named or lines or [type(error).__name__])[0 if not named else -1]


# Errors of tasks that the driver distinguishes from any other failed batch: what they need is an outage, or is refused.
_OF_TASKS: dict[str, type[FloeError]] = {
    "FLOE-R108": AccountingError,
    "FLOE-R141": RetriableError,
    # What is refused today may be granted again while the batch is tried.
    "FLOE-E102": RetriableError,
    "FLOE-E103": RetriableError,
    "FLOE-E115": RetriableError,
    "FLOE-E112": SetupError,
    "FLOE-R146": TableBlocked,
}


def of_task(error: BaseException) -> FloeError | None:
    """The error that a task raised, as it was before it crossed the JVM; None for one that is no matter of its own."""
    failure = reported_failure(error)
    kind = _OF_TASKS.get(failure.code) if failure is not None else None
    if failure is None or kind is None:
        return None
    remedy = failure.remedy if kind is TableBlocked and failure.remedy else LOG_REMEDY
    return kind(failure.message, code=failure.code, place=failure.place, remedy=remedy)


def is_known(error: BaseException) -> bool:
    """Whether a failed batch failed with an error of floe's own, or of a file or a network, which is no matter of a
    record."""
    return isinstance(error, FloeError) or is_outside(error) or reported_failure(error) is not None


# What Python or SQL makes of a record's value may quote it; floe's own errors, files, networks and the JVM's do not.
_QUOTES = re.compile(r"Traceback \(most recent call last\)|\[[A-Z][A-Z_]+(?:\.[A-Z_]+)?\]")


def _may_quote(error: BaseException) -> bool:
    failure = reported_failure(error)
    return (failure is None or failure.code == "FLOE-R324") and _QUOTES.search(str(error)) is not None


def _named(text: str) -> str:
    found = NAMED_ERROR.match(text)
    return found[0] if found is not None and found[0] != "error[" else "the run's own log says why"


def of_batch(error: BaseException) -> FloeError:
    """What ended a batch: the error of a task, where it is distinguished from others, else one that doing the batch again may
    repair."""
    text = said(error)
    reported = f"a batch failed: {_named(text)}" if _may_quote(error) else None
    failure = reported_failure(error)
    if failure is not None and failure.reported != failure.message:
        reported = f"a batch failed: {failure.reported}"
    return of_task(error) or RetriableError(
        f"a batch failed: {text}", code="FLOE-R324", remedy=LOG_REMEDY, reported=reported
    )


# How S3 and Azure's store say that keys are over; certificates expire, too.
_OVER = re.compile(
    r"expired\w*token|token\w*expired|\btoken\b[^.]{0,60}\bexpired|not valid in the specified time frame", re.IGNORECASE
)


def of_ended_keys(error: Exception, ended: Sequence[str], unknown: Sequence[str] = ()) -> FloeError | None:
    """The error of a batch whose tasks could not use the store any more; None for any other, and where no table's keys ended.

    Args:
        ended: tables whose lent keys had ended when the tasks failed.
        unknown: tables whose lent keys say nothing of their end: what the store says of them counts.
    """
    failure = reported_failure(error)
    tables = ended or (unknown if _OVER.search(said(error)) else ())
    if not tables or not (is_outside(error) or (failure is not None and not failure.code)):
        return None
    others = f" and {counted(len(tables) - 1, 'other table')}" if len(tables) > 1 else ""
    return RetriableError(
        f"the keys that the catalog lends for {tables[0]}{others} ended before the batch did: {said(error)}",
        code=KEYS_ENDED,
        place=tables[0],
        remedy=ENDED_REMEDY,
    )


def unforeseen(error: Exception) -> FloeError:
    """What ended a run and no code of floe foresees. Its text may quote a record, and stays in the run's own output."""
    return FloeError(
        f"the run ended with {type(error).__name__}, which floe does not know",
        remedy="its own output has the traceback: please report it",
    )


def in_words(error: Exception) -> str:
    """An error that a thread in the background goes on after."""
    return error.message if isinstance(error, FloeError) else f"{type(error).__name__}: {error}"


def say_safely(say: Callable[[str], None], text: str) -> None:
    """Say it where somebody listens: a terminal that is gone must not end the thread that speaks."""
    try:
        say(text)
    except Exception:  # a closed pipe, or whatever the listener raises
        log.warning("%s", text)
