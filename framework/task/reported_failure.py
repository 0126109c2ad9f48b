"""Errors of tasks that the driver must tell from those of records, as text that no record can write.

In: the function of a task. Out: the same function, whose errors of floe's own and of files and networks reach the
driver as values. Errors cross Java as text, and Spark quotes values in it: a record that reads like an outage would be
waited for without end. So what a task reports stands behind a word that only this driver and its tasks know.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from framework.errors import FloeError

Task = Callable[[Any], Iterator[Any]]
# Of the driver's process; tasks get it with their function.
_WORD = secrets.token_hex(16)
_REPORTED = re.compile(rf"{_WORD} (\{{.*\}})\s*$", re.MULTILINE)
# Libraries that are no part of Python name their errors of networks after Python's.
_OF_NETWORKS = ("ConnectionError", "Timeout", "TimeoutError")


class TaskFailure(Exception):
    """What a task raises instead of an error that is reported; that one is its cause, for Spark's log."""


@dataclass(frozen=True)
class ReportedFailure:
    """`code`, `place`, `remedy` and `reported` are those of an error of floe's own. `text` is all of it in one line."""

    text: str
    message: str
    reported: str
    code: str = ""
    place: str = ""
    remedy: str = ""


def reporting(task: Task) -> Task:
    """The task, which distinguishes errors that are no matter of a record. Call it in the driver."""
    word = _WORD

    def reported(batches: Any) -> Iterator[Any]:
        try:
            yield from task(batches)
        except Exception as error:
            failure = _of(error)
            if failure is None:
                raise
            raise TaskFailure(f"{word} {json.dumps(asdict(failure), default=str)}") from error

    return reported


def reported_failure(error: BaseException) -> ReportedFailure | None:
    """What a task of this driver reported, in the text of an error out of Java; None for any other error."""
    found = _REPORTED.search(str(error))
    if found is None:
        return None
    # A name of a file may hold what is no Unicode; what is reported goes on to the control log, which is UTF-8.
    values: dict[str, str] = json.loads(found[1])
    return ReportedFailure(**{name: text.encode(errors="replace").decode() for name, text in values.items()})


def is_outside(error: BaseException) -> bool:
    """Whether it is an error of files or a network, whatever library raises it."""
    return isinstance(error, OSError) or any(kind.__name__.endswith(_OF_NETWORKS) for kind in type(error).__mro__)


def _of(error: Exception) -> ReportedFailure | None:
    if isinstance(error, FloeError):
        text = str(error).splitlines()[0]
        return ReportedFailure(text, error.message, error.reported, error.code, error.place, error.remedy)
    if is_outside(error):
        text = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return ReportedFailure(text, text, text)
    return None
