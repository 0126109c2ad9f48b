"""A batch whose tasks end for no known reason is done with care the second time: the records that end them become dead
letters.

In: a batch, and what does it. Out: its reports. A worker process that dies (a crash in native code, the kernel that is
out of memory) or an error that nobody foresaw fails the batch; when the next attempt from the same offsets ends so,
too, records are tried apart from each other (framework.task.probe). What is none of theirs goes on as the error that it
was. What was found is known to this run until the batch is announced; another run finds it again, after two deaths.
Where expressions of `transform.sql` fail, all further batches of this run evaluate them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from framework.commit.offsets import PartitionKey
from framework.diagnose.log_lines import Level, LogLine
from framework.errors import FloeError
from framework.record.blocks.poison_records import NO_ISOLATION, Isolation
from framework.runtime.batches.batch import BatchScope
from framework.task.failures import is_known

T = TypeVar("T")
_SQL_APART = Isolation(is_sql_apart=True)


class PoisonIsolation:
    """Of one pipeline; `say` is called with what was found."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._failed_at: Mapping[PartitionKey, int] | None = None
        self._care = NO_ISOLATION
        # Where an expression of `transform.sql` failed once, it fails again in the batches to come.
        self._usual = NO_ISOLATION

    def do(self, scope: BatchScope, write: Callable[[Isolation], T], look: Callable[[Isolation], Isolation | str]) -> T:
        """What `write` gives for the batch.

        Args:
            look: finds the records that end a task, or says why it is none of them; given is how the batch was done.

        Raises:
            Exception: as `write` does, where it is no record that makes it fail.
        """
        starts = dict(scope.starts)
        if self._failed_at != starts:
            self._failed_at, self._care = None, self._usual
        try:
            return write(self._care)
        except FloeError:
            raise
        except Exception as error:
            if is_known(error):
                raise
            if self._failed_at is None:
                self._failed_at = starts
                raise
            text = (
                f"batch {scope.batch}: its tasks ended twice; looking for records that end them, which may take minutes"
            )
            self._say(LogLine(text, Level.WARNING, batch=scope.batch))
            found = look(self._care)
            if isinstance(found, str):
                text = f"batch {scope.batch}: found no record that ends its tasks: {found}"
                self._say(LogLine(text, Level.WARNING, batch=scope.batch))
                raise
            self._care = found
            if found == _SQL_APART:
                self._usual = found
            self._report(scope, found)
        return write(self._care)

    def _report(self, scope: BatchScope, found: Isolation) -> None:
        for record in found.poison:
            place = f"{record.topic}-{record.partition} offset {record.offset}"
            text = f"batch {scope.batch}: the record {place} is a dead letter: {record.reason}"
            self._say(LogLine(text, Level.WARNING, batch=scope.batch))
        if found == _SQL_APART:
            text = (
                f"batch {scope.batch}: transform.sql fails for some of its records, which are dead letters; from here on "
                "its expressions are evaluated apart from each other"
            )
            self._say(LogLine(text, Level.WARNING, batch=scope.batch))
        elif not found.poison:
            text = f"batch {scope.batch}: its tasks ended twice; it is tried again in small blocks without compiled modules"
            self._say(LogLine(text, Level.WARNING, batch=scope.batch))
