"""Named points in the life of a batch and of a commit, where tests kill the process. A no-op unless armed.

In: the environment variable FLOE_FAULT: `point=action` or `point@n=action` (the n-th time in this process), several
with commas between; actions are `kill` (SIGKILL to itself), `term` (SIGTERM, the
wish to stop), `stop` (SIGSTOP), `hang` (this thread waits for ever), `raise` and `break` (an error that nobody
foresaw). Out: nothing, or the end of the process; of `hang` a line on stderr, since nothing else shows it.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from framework.errors import RetriableError

if TYPE_CHECKING:
    import pyarrow as pa

START_POINTS = (
    "run-begins",  # the files are read, nobody is asked yet
    "prepared",  # older runs are fenced, the coordinators have begun
    "spark-begun",  # there is a session, and no query
)
POINTS = (
    "before-query",  # the older run is fenced, nothing is read yet
    "table-created",
    "records-written",  # in a task's process: buffers are full of rows, files are not closed
    "files-written",  # all files are closed, nothing is announced
    "in-transaction",  # all events are in the log, the transaction is open
    "announced",
    "before-commit",
    "manifests-written",
    "committed",  # in the table, not yet known to the coordinator
    "progress-published",
    "low-water-stored",
)
RECOVERY_POINTS = (
    "table-recovered",  # a verb of recovery has changed one table, and not yet the next one or the offsets
    "recovery-decided",  # a verb of recovery is about to write to the control log
    "recovery-told",  # it has
)
MAINTENANCE_POINTS = (
    "files-rewritten",  # compaction has written its files, and no snapshot names them
    "files-replaced",  # the snapshot that names them is committed
    "snapshots-expired",  # they have left the metadata, and their files are still there
    "file-removed",  # one of those files is gone
)
ARCHIVE_POINTS = (
    "log-rows-written",  # a file of rows of the control log is closed, and no snapshot names it
    "log-archived",  # the snapshot that names it is committed
)
HANGS = "a thread hangs at fault point"
_reached: Counter[str] = Counter()


def failpoint(point: str) -> None:
    """Say that `point` was reached; dies here if a test has armed it."""
    armed = os.environ.get("FLOE_FAULT")
    if not armed:
        return
    _reached[point] += 1
    for fault in armed.split(","):
        where, _, action = fault.partition("=")
        name, _, nth = where.partition("@")
        if name == point and _reached[point] == int(nth or 1):
            _act(point, action)


def meet(values: Sequence[bytes | None]) -> None:
    """Say that a task is about to process these records: `record~TEXT=action` is for one that holds the text, each
    time."""
    armed = os.environ.get("FLOE_FAULT")
    if not armed or "record~" not in armed:
        return
    for fault in armed.split(","):
        where, _, action = fault.partition("=")
        text = where.removeprefix("record~").encode()
        if where.startswith("record~") and any(value is not None and text in value for value in values):
            _act(where, action)


def meet_rows(rows: pa.Table) -> None:
    """Say that a writer behind the exchange has these rows: `row~TEXT=action` is for one that holds the text, each
    time."""
    armed = os.environ.get("FLOE_FAULT")
    if not armed or "row~" not in armed:
        return
    texts = [str(row) for row in rows.to_pylist()]
    for fault in armed.split(","):
        where, _, action = fault.partition("=")
        if where.startswith("row~") and any(where.removeprefix("row~") in text for text in texts):
            _act(where, action)


def _act(point: str, action: str) -> None:
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == "term":
        os.kill(os.getpid(), signal.SIGTERM)
    elif action == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif action == "hang":
        os.write(2, f"{HANGS} {point}\n".encode())
        threading.Event().wait()
    elif action == "break":
        raise ValueError(f"{point} breaks what nobody foresaw")
    else:
        raise RetriableError(f"fault point {point} was armed", code="FLOE-R324")
