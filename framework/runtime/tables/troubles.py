"""The tables of a pipeline that are in trouble by themselves: refused whole, written as they were known, or not
changed.

In: what failed when tables were loaded or changed, and what the catalog answers to a probe. Out: tables that records
may not name for a minute, targets that may not change, and for people the reason of each. `framework.table.trouble`
decides. Keeps invariant 10; only for the dead-letter table, without which nothing can be refused, and for a table that
is replayed alone, whose records must not be taken for done with, the pipeline stops.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping

from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.iceberg.upsert.target import blocked
from framework.config.names.table_names import catalog_of
from framework.diagnose.log_lines import Level, LogLine
from framework.errors import FloeError, TableBlocked
from framework.plan.model import Plan
from framework.record.model import TableTarget
from framework.runtime.retry_policy import is_outage
from framework.runtime.tables.owner import claim_of
from framework.table.owner import OWNED
from framework.table.trouble import Failed, FailureVerdict, frozen, judge, needs_probes

REFUSED_FOR_S = 60.0
# Of the tables that are known, so many are loaded to see whether the store can be read.
PROBES = 2
# What a catalog says of one table: that it cannot be loaded, or that it may not be made or changed so.
_OF_ONE_TABLE = frozenset({"FLOE-R135", "FLOE-R140"})


class TableTroubles:
    """Of one pipeline. Safe for threads."""

    def __init__(self, plan: Plan, catalog: IcebergTables, say: Callable[[str], None]) -> None:
        self._plan = plan
        self._catalog = catalog
        self._say = say
        self._lock = threading.Lock()
        self._refused: dict[str, tuple[float, str]] = {}
        self._foreign: set[str] = set()  # of those refused: tables of other pipelines
        self._frozen: dict[str, tuple[float, str]] = {}
        self._as_known: dict[str, str] = {}
        self._failing: dict[tuple[str, bool], float] = {}  # since when each load, or each change, of a table fails
        self._said: dict[str, str] = {}
        self.is_undecided = False
        """Whether what `judge` raised last may be the trouble of a table alone."""

    @property
    def refused(self) -> tuple[tuple[str, str], ...]:
        """Tables that no record may be written to now, and why."""
        with self._lock:
            return tuple((name, reason) for name, (_, reason) in sorted(self._refused.items()))

    @property
    def owned_by_others(self) -> tuple[tuple[str, str], ...]:
        """Of the refused tables those of other pipelines."""
        with self._lock:
            return tuple((name, why) for name, (_, why) in sorted(self._refused.items()) if name in self._foreign)

    @property
    def reasons(self) -> dict[str, str]:
        """Each table in trouble, and what is done about it."""
        with self._lock:
            return {
                **{
                    name: f"{why}; it is written as this run knew it, and what is announced waits"
                    for name, why in self._as_known.items()
                },
                **{name: f"{why}; it is not changed" for name, (_, why) in self._frozen.items()},
                **{name: f"{why}; no record is written to it" for name, (_, why) in self._refused.items()},
            }

    def targets(self, known: Mapping[str, TableTarget]) -> dict[str, TableTarget]:
        """The tables as tasks may write them."""
        with self._lock:
            held = {name: why for name, (_, why) in self._frozen.items() if name in known}
        return {**known, **{name: frozen(known[name], why) for name, why in held.items()}}

    def forget_old(self) -> None:
        """What was refused a minute ago has another try."""
        since = time.monotonic() - REFUSED_FOR_S
        with self._lock:
            self._refused = {name: each for name, each in self._refused.items() if each[0] > since}
            self._frozen = {name: each for name, each in self._frozen.items() if each[0] > since}

    def refuse(
        self, table: str, reason: str, done: str = "no record is written to", *, is_foreign: bool = False
    ) -> None:
        """Records for the table are dead letters, or what the policy says, for a while.

        Args:
            is_foreign: it is a table of another pipeline.

        Raises:
            TableBlocked: it is the dead-letter table, or replayed alone.
        """
        self._check_dispensable(table, reason)
        with self._lock:
            self._refused[table] = (time.monotonic(), reason)
            (self._foreign.add if is_foreign else self._foreign.discard)(table)
        self._report(table, f"{done} {table}: {reason}")

    def freeze(self, table: str, reason: str) -> None:
        """Records that ask for a change of the table are dead letters, or what the policy says, for a while.

        Raises:
            TableBlocked: it is the dead-letter table, or replayed alone.
        """
        self._check_dispensable(table, reason)
        with self._lock:
            self._frozen[table] = (time.monotonic(), reason)
        self._report(table, f"{table} is not changed: {reason}")

    def is_frozen(self, table: str) -> bool:
        with self._lock:
            return table in self._frozen

    def sound(self, table: str, change: bool) -> None:
        """The table was loaded or, with `change`, is as records need it."""
        with self._lock:
            self._failing.pop((table, change), None)
            self._as_known.pop(table, None)
            if table not in self._refused and table not in self._frozen:
                self._said.pop(table, None)

    def judge(
        self,
        failed: Mapping[str, FloeError],
        loaded: Collection[str],
        known: Mapping[str, TableTarget],
        change: bool,
    ) -> None:
        """Take in what failed in one round: each table is refused, kept as it was known, or not changed.

        Args:
            loaded: the tables that were there and could be loaded in this round.
            known: those that this run knows.
            change: whether the failed ones were to be made or changed, not only looked at.

        Raises:
            FloeError: an outage of a catalog or its store, or what is no matter of a table at all.
            TableBlocked: FLOE-R144, it is the trouble of an upsert table: the pipeline holds.
        """
        self.is_undecided = False
        for catalog in sorted({catalog_of(name) for name in failed}):
            own = {name: error for name, error in failed.items() if catalog_of(name) == catalog}
            for error in own.values():
                if not isinstance(error, TableBlocked) and error.code not in _OF_ONE_TABLE:
                    raise error
            self._judge(catalog, own, loaded, known, change)

    def _judge(
        self,
        catalog: str,
        own: Mapping[str, FloeError],
        loaded: Collection[str],
        known: Mapping[str, TableTarget],
        change: bool,
    ) -> None:
        now = time.monotonic()
        with self._lock:
            since = {name: self._failing.setdefault((name, change), now) for name in own}
        may_wait = known.keys() - {self._plan.write.dead_letter_table, *self._plan.route.only_tables}
        failed = [
            Failed(name, isinstance(error, TableBlocked), name in may_wait and not change, now - since[name])
            for name, error in own.items()
        ]
        sound = needs_probes(failed) and self._answers(catalog, own, loaded, known)
        outage: FloeError | None = None
        holding: FloeError | None = None
        self.is_undecided = sound
        for name, verdict in judge(failed, sound, sound).items():
            error = own[name]
            if verdict in (FailureVerdict.OUTAGE, FailureVerdict.WAIT):
                outage = outage or error
            elif verdict is FailureVerdict.AS_KNOWN:
                with self._lock:
                    self._as_known[name] = error.message
                self._report(name, f"{name} is written as this run knew it: {error.message}")
            elif error.code == OWNED and not self._holds_claim(name):
                self.refuse(name, error.message, is_foreign=True)
            elif self._plan.write.tables.holds_pipeline(name):
                # A change that became a dead letter could not be made up for: others of its key go on.
                holding = holding or blocked(name, error.message, error.remedy)
            elif name in known:
                self.freeze(name, error.message)
            else:
                self.refuse(name, error.message)
        if (error_of_all := outage or holding) is not None:
            raise error_of_all

    def _holds_claim(self, name: str) -> bool:
        """Whether the file itself asks for the other pipeline's table, and every change of it would be lost. Where a
        record names the table, the pipeline goes on without that record."""
        return self._plan.write.tables.holds_pipeline(name) and claim_of(self._plan, name).is_named

    def _answers(
        self, catalog: str, failed: Collection[str], loaded: Collection[str], known: Mapping[str, TableTarget]
    ) -> bool:
        """Whether the catalog answers a probe, and its store holds another table that can be loaded now."""
        try:
            self._catalog.check([catalog])
        except FloeError as error:
            if not is_outage(error):
                raise
            return False
        if any(catalog_of(name) == catalog for name in loaded):
            return True
        others = [name for name in known if catalog_of(name) == catalog and name not in failed]
        return any(self._loads(name) for name in others[:PROBES])

    def _loads(self, name: str) -> bool:
        try:
            return self._catalog.load_target(name, self._plan.write.tables.policy_for(name)) is not None
        except TableBlocked:
            return True  # its metadata was read
        except FloeError:
            return False

    def _check_dispensable(self, table: str, reason: str) -> None:
        if table in self._plan.route.only_tables:
            # Without this the replay would drop the records, and note that the table has them.
            raise TableBlocked(
                f"table {table} cannot be filled: {reason}",
                place=table,
                remedy="fix the table, then run the command again: it goes on where it was",
            )
        if table == self._plan.write.dead_letter_table:
            raise TableBlocked(
                f"the dead-letter table {table} cannot be written: {reason}",
                place=table,
                remedy="fix the table, or name another one in errors.dead_letter_table; nothing of the batch was announced",
            )

    def _report(self, table: str, text: str) -> None:
        with self._lock:
            if self._said.get(table) == text:
                return
            self._said[table] = text
        self._say(LogLine(text, Level.WARNING, table=table))
