"""Tables that others may have changed are loaded again, before a batch or while it runs; owned by the thread that paces
the run.

In: the tables that the run writes to. Out: the registry knows them as they are now, or there is an error for the batch
that needs them. Keeps invariant 10: a catalog that does not answer holds up its own tables alone, and a batch for
others goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from framework.config.names.table_names import catalog_of
from framework.diagnose.log_lines import Level, LogLine
from framework.errors import FloeError
from framework.runtime.retry_policy import is_outage
from framework.runtime.tables.registry import TableRegistry
from framework.table.refresh import REFRESH_AFTER_S, plan_refresh


class TableRefresh:
    """Of one run. `say` is called when tables are written as they were known."""

    def __init__(self, tables: TableRegistry, say: Callable[[str], None]) -> None:
        self._tables = tables
        self._say = say
        self._begun_at = time.monotonic()
        self._outages: dict[str, tuple[float, FloeError]] = {}  # by catalog: when it was asked and did not answer
        self._meanwhile: list[str] = []  # tables whose turn comes while the batch runs
        self._failure: Exception | None = None  # what happened meanwhile, for the next batch
        self._written_as_known: set[str] = set()  # catalogs whose tables a batch did not wait for

    def begin_batch(self, names: Iterable[str]) -> None:
        """Load again what others may have changed and the batch waits for, and give refused tables another try.

        The rest of `names` has its turn in `during_batch`.

        Raises:
            FloeError: no catalog of these tables answers, or the dead-letter table can no longer be written.
        """
        now = time.monotonic()
        self._tables.retry_refused()
        since_batch_s, self._begun_at = now - self._begun_at, now
        failure, self._failure, self._meanwhile = self._failure, None, []
        if failure is not None:
            raise failure
        by_catalog: dict[str, list[str]] = {}
        for name in sorted(names, key=lambda name: self._tables.loaded_at(name) or 0.0):
            by_catalog.setdefault(catalog_of(name), []).append(name)
        silent = [catalog for catalog in by_catalog if self._asked_lately(catalog, now)]
        outages = {
            catalog: outage
            for catalog, own in by_catalog.items()
            if (outage := self._refresh(catalog, own, now, since_batch_s, ask_again=len(silent) == len(by_catalog)))
            is not None
        }
        # Invariant 10: where one of several does not answer, its tables are written as they were known. Their commits
        # are conditional on it and wait, and the others go on.
        if outages and len(outages) == len(by_catalog):
            raise next(iter(outages.values()))
        for catalog in sorted(set(outages) - self._written_as_known):
            text = f"{outages[catalog].message}; tables of catalog {catalog} are written as this run knew them"
            self._say(LogLine(text, Level.WARNING))
        self._written_as_known = set(outages)

    def during_batch(self, is_done: Callable[[], bool]) -> None:
        """While a batch runs, until it `is_done`: load the tables whose turn it is and that it did not wait for.

        One after the other, since whoever reads and writes needs the cores. What cannot be loaded is known as it was.
        """
        meanwhile, self._meanwhile = self._meanwhile, []
        for name in meanwhile:
            now = time.monotonic()
            if is_done() or self._failure is not None:
                return
            if self._asked_lately(catalog_of(name), now):
                continue
            try:
                self._tables.load(name)
            except Exception as error:  # handed to the next batch
                if isinstance(error, FloeError) and is_outage(error):
                    self._outages[catalog_of(name)] = (now, error)
                else:
                    self._failure = error

    def _asked_lately(self, catalog: str, now: float) -> bool:
        return catalog in self._outages and self._outages[catalog][0] > now - REFRESH_AFTER_S

    def _refresh(
        self, catalog: str, oldest: list[str], now: float, since_batch_s: float, ask_again: bool
    ) -> FloeError | None:
        """Load tables of one catalog; the outage in which those that are due could not be loaded, if there is one."""
        never = -REFRESH_AFTER_S
        ages_s = [now - (never if (at := self._tables.loaded_at(name)) is None else at) for name in oldest]
        turn = plan_refresh(ages_s, since_batch_s)
        first = oldest[turn.first.start : turn.first.stop]
        due = [name for name, age_s in zip(first, ages_s, strict=False) if age_s >= REFRESH_AFTER_S]
        lately = self._asked_lately(catalog, now)
        if due and lately and not ask_again:
            return self._outages[catalog][1]
        try:
            self._tables.load(*due)
            if due:
                self._outages.pop(catalog, None)
        except FloeError as error:
            if not is_outage(error):
                raise
            self._outages[catalog] = (now, error)
            return error
        if not lately:
            try:
                self._tables.load(*first[len(due) :])
            except FloeError as error:
                if not is_outage(error):
                    raise
                # What is known is young, and a commit is conditional on it: the batch need not wait for the catalog.
                self._outages[catalog] = (now, error)
                return None
            self._meanwhile += oldest[turn.meanwhile.start : turn.meanwhile.stop]
        return None
