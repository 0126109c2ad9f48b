"""The coordinator's maintenance: rounds over tables in the gaps of ingestion, on threads of their own.

In: what the coordinator commits, the plans that runs publish, and whether there is a gap now. Out: tables that stay
healthy, a line for each round, and how healthy each table then is. A round begins only while this process owns the
control topic and has nothing in flight; it ends early when that is over. Commits never wait for it: they are
conditional on the head as ever (invariant 4), and what is rewritten meanwhile is tried again.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from framework.adapters.iceberg.tables import IcebergTables, TablePlace
from framework.adapters.maintenance.tables import TableCare
from framework.commit.events.event_types import Deployed, Holds, TableMeasured
from framework.commit.machine.pauses import Pauses, holding
from framework.commit.maintenance.rounds import Rounds, are_orphans_due, rest_s
from framework.config.spec import TablesSpec
from framework.config.values.maintenance import (
    HOUR_MS,
    NOTHING_IS_DONE,
    MaintenanceLimits,
    MaintenanceMode,
    MaintenancePolicy,
)
from framework.diagnose.counted import counted
from framework.diagnose.log_lines import Level, LogLine
from framework.errors import FloeError
from framework.plan.deployed_policies import branch_of, policy_of, published_tables
from framework.runtime.maintenance.orphans import Announced, look, why_not
from framework.runtime.maintenance.tables import describe_maintainer, expire_once, why_left_alone

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5
# Expired snapshots leave in commits of some hundred; a round makes few, and the next one goes on.
MOST_EXPIRIES = 4
STOP_WITHIN_S = 20.0
# The manifests of a table with more files are not read only to see how it is.
MOST_FILES_TO_LOOK_AT = 100_000
NO_PAUSES: Pauses = {}


@dataclass(frozen=True)
class _OrphanView:
    """What orphans are distinguished from: the announced files, and where all tables lie. One is shared by the tables of an
    hour, since the whole control topic is read for it."""

    announced: Announced
    places: Mapping[str, TablePlace]
    since_ms: int


class TableKeeper:
    """Of one coordinator. `note`, `committed` and `gap` are for its thread; rounds run on the keeper's own.

    Args:
        announced: reads what the control topic names, for orphans.
        name: the coordinator's, as others see it.
        archive: the table that keeps the control log, "" for none: no plan names it, and it is maintained as any other.
    """

    def __init__(
        self,
        catalog: IcebergTables,
        limits: MaintenanceLimits,
        announced: Callable[[], Announced],
        say: Callable[[str], None],
        name: str = "",
        archive: str = "",
    ) -> None:
        self._name = name
        self._archive = archive
        self._care = TableCare(catalog)
        self._works = limits.enabled
        # Where it does not work, it looks.
        self._limits = limits if limits.enabled else MaintenanceLimits()
        self._announced = announced
        self._say = say
        self._reported: dict[str, TablesSpec] = {}
        self._rounds = Rounds(_now_ms())
        self._orphans_at: dict[str, int] = {}
        self._left: set[str] = set()  # tables whose other maintainer this process has published of
        self._started_ms = _now_ms()
        self._is_owner = False
        self._pauses: Pauses = NO_PAUSES
        self._lock = threading.Lock()
        self._orphans_lock = threading.Lock()
        self._view: _OrphanView | None = None
        self._known: tuple[int, Mapping[str, TablePlace]] | None = None
        self._gap = threading.Event()
        self._stopping = threading.Event()
        self._news: queue.SimpleQueue[TableMeasured] = queue.SimpleQueue()
        self._looked_at: dict[str, int] = {}  # tables that are looked at only, and when
        self.measured: Mapping[str, TableMeasured] = {}  # never changed in place: others look at it
        self._threads = [
            threading.Thread(target=self._run, name=f"maintenance-{number}", daemon=True)
            for number in range(self._limits.max_tables)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End after what is under way, which takes as long as one group of files; a store that hangs is not waited for."""
        self._stopping.set()
        limit = time.monotonic() + STOP_WITHIN_S
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, limit - time.monotonic()))
        if self._orphans_lock.acquire(blocking=False):
            self._forget_view()
            self._orphans_lock.release()

    # ---- for the coordinator's thread -------------------------------------------------------------------------------

    def note(self, event: Deployed | TableMeasured) -> None:
        if isinstance(event, TableMeasured):
            self._keep(event)
            return
        reported = published_tables(event.plan)
        if reported is not None:
            self._reported = {**self._reported, event.pipeline: reported}

    def committed(self, table: str) -> None:
        with self._lock:
            self._rounds = self._rounds.committed(table, _now_ms())

    def gap(self, is_owner: bool, is_gap: bool, pauses: Pauses = NO_PAUSES) -> None:
        """Whether this process coordinates, whether it may begin a round now, and which tables people hold."""
        self._is_owner, self._pauses = is_owner, pauses
        if is_gap:
            self._gap.set()
        else:
            self._gap.clear()

    def news(self) -> Iterator[TableMeasured]:
        """What was measured since the last question, to be reported."""
        while not self._news.empty():
            yield self._news.get()

    # ---- rounds -----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_EVERY_S):
            if self._gap.is_set():
                self.turn()

    def turn(self) -> None:
        """One round, if one is due."""
        self._learn()
        with self._lock:
            table = self._rounds.next_table(self._limits, _now_ms())
            if table is None:
                return
            self._rounds = self._rounds.began(table)
            allowance = self._rounds.allowance_bytes(self._limits, _now_ms())
        read, failed = 0, False
        try:
            read = self._round(table, allowance) if self._works else 0
        except FloeError as error:
            failed = True
            self._say(LogLine(error.message, Level.WARNING, table=table))
        except Exception as error:  # whatever it is, commits go on, and the table has another round later
            failed = True
            text = f"maintenance of table {table} stopped: {type(error).__name__}: {error}"
            self._say(LogLine(text, Level.WARNING, table=table))
        try:
            self._measure(table)
        except Exception as error:  # nothing depends on it, and the next round looks again
            log.info("how healthy %s is could not be seen: %s", table, error)
        with self._lock:
            self._rounds = self._rounds.ended(table, read, failed, _now_ms())

    def _learn(self) -> None:
        """What a table says of the rounds before this process: a coordinator that never lives for long has them, too."""
        with self._lock:
            name = self._rounds.unknown_table()
        if name is None:
            return
        table = None
        with contextlib.suppress(Exception):  # whatever it is, the table's first round reports it, and others go on
            table = self._care.look(name)
        with self._lock:
            if table is None:
                self._rounds = self._rounds.learned(name, 0, None)
            else:
                self._rounds = self._rounds.learned(name, table.commits_since, table.since_ms)

    def _round(self, name: str, allowance_bytes: int) -> int:
        """One table; gives the bytes that were read of its data files."""
        table = self._care.look(name)
        if table is None:
            return 0
        policy = self._policy(name, table.pipelines)
        if policy is None or not policy.covers(table.created_by_floe) or self._is_held(name):
            return 0
        branch = branch_of(name, table.pipelines, self._reported)
        if reason := why_left_alone(table, name, self._places(), branch):
            if name not in self._left:
                self._left.add(name)
                self._say(LogLine(f"{name} is not maintained: {reason}", table=name))
            return 0
        rewrites = policy.rewrites(table.other is not None)
        if table.other is not None and not rewrites and name not in self._left:
            self._left.add(name)
            self._say(LogLine(f"the files of {name} are left to {describe_maintainer(table.other)}", table=name))
        done = (
            self._care.compact(name, policy.compaction, False, allowance_bytes, self._paced(), branch)
            if allowance_bytes and rewrites
            else None
        )
        if done is not None and done.files_before:
            text = f"compacted {name}: {counted(done.files_before, 'file')} to {done.files_after:,}"
            self._say(LogLine(text, table=name))
        if rewrites and self._goes_on():
            self._care.merge_manifests(name, policy.manifests, False, branch)
        expired = removed = 0
        for _ in range(MOST_EXPIRIES):
            if not self._goes_on() or self._is_held(name):
                break
            went = expire_once(name, self._care, policy, self._places(), False)
            if went is None or not went.expiry.expired:
                break
            expired += len(went.expiry.expired)
            removed += self._care.remove(name, went.paths)
            if went.is_last:
                break
        if expired:
            text = f"expired {counted(expired, 'snapshot')} of {name}: {counted(removed, 'file')} removed"
            self._say(LogLine(text, table=name))
        if (
            policy.orphans.enabled
            and self._goes_on()
            and are_orphans_due(name, self._limits, self._orphans_at.get(name, self._started_ms), _now_ms())
        ):
            self._orphans_at[name] = _now_ms()
            self._remove_orphans(name, policy)
        return done.read_bytes if done is not None else 0

    def _policy(self, name: str, pipelines: Iterable[str]) -> MaintenancePolicy | None:
        return MaintenancePolicy() if name == self._archive else policy_of(name, pipelines, self._reported)

    def _measure(self, name: str) -> None:
        """How healthy a table is now, for whoever watches: after each round, and of a table that has none once an hour."""
        table = self._care.look(name) if self._goes_on() else None
        if table is None:
            return
        branch = branch_of(name, table.pipelines, self._reported)
        if branch in table.behind:
            return
        policy = self._policy(name, table.pipelines)
        is_kept = self._works and policy is not None and policy.covers(table.created_by_floe)
        if not is_kept and _now_ms() - self._looked_at.get(name, 0) < HOUR_MS:
            return
        self._looked_at[name] = _now_ms()
        policy = policy or MaintenancePolicy()
        policy = NOTHING_IS_DONE if policy.mode is MaintenanceMode.NEVER else policy
        health = self._care.health(name, policy, MOST_FILES_TO_LOOK_AT, branch)
        if health is None:
            return
        if policy.mode is MaintenanceMode.ALWAYS:
            health = replace(health, other=None)  # the file says that floe does it beside others
        event = TableMeasured(name, health, _now_ms(), self._name)
        self._keep(event)
        self._news.put(event)

    def _keep(self, event: TableMeasured) -> None:
        with self._lock:
            known = self.measured.get(event.table)
            if known is None or known.timestamp_ms <= event.timestamp_ms:
                self.measured = {**self.measured, event.table: event}

    def _remove_orphans(self, name: str, policy: MaintenancePolicy) -> None:
        catalog, older_than_ms = self._care.tables, policy.orphans.older_than_ms
        with self._orphans_lock:
            view = self._orphan_view()
            if name not in view.places or why_not(name, view.places, view.announced.control_topic_ids):
                return
            found = look(name, catalog, view.places[name], view.announced, older_than_ms, True, lambda text: None)
        if found.removed:
            self._say(LogLine(f"removed {counted(found.removed, 'orphan')} of {name}", table=name))

    def _places(self) -> Mapping[str, TablePlace]:
        """Where all tables lie, as of an hour ago at most."""
        if self._known is None or _now_ms() - self._known[0] > HOUR_MS:
            before = {} if self._known is None else self._known[1]
            found, silent = self._care.tables.places()
            # Where a table that does not answer lay an hour ago is where its files still lie.
            self._known = _now_ms(), {**{name: before[name] for name in before.keys() & silent.keys()}, **found}
        return self._known[1]

    def _orphan_view(self) -> _OrphanView:
        if self._view is not None and _now_ms() - self._view.since_ms > HOUR_MS:
            self._forget_view()
        if self._view is None:
            self._known = None
            self._view = _OrphanView(self._announced(), self._places(), _now_ms())
        return self._view

    def _forget_view(self) -> None:
        if self._view is not None:
            self._view.announced.close()
            self._view = None

    def _paced(self) -> Callable[[], bool]:
        """`_goes_on`, after the rest that the work since the last question asks for."""
        since_s = time.thread_time()

        def goes_on() -> bool:
            nonlocal since_s
            worked_s = time.thread_time() - since_s
            self._stopping.wait(rest_s(worked_s, self._limits))
            since_s = time.thread_time()
            return self._goes_on()

        return goes_on

    def _is_held(self, name: str) -> bool:
        """Whether a person has paused the table's commits: maintenance commits, too."""
        return holding(self._pauses, Holds.COMMITS, name) is not None

    def _goes_on(self) -> bool:
        """A gap that is over for a moment does not end a round: another owner, or the end of this process, does."""
        return self._is_owner and not self._stopping.is_set()


def _now_ms() -> int:
    return int(time.time() * 1000)
