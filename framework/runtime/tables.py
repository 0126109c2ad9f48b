"""The driver's view of the tables a pipeline writes to, and the one party that changes them.

In: what tasks found missing (TableNeed). Out: tables created or altered through the catalog, as the pure functions of
`framework.table` decided. Keeps invariant 4 (a change is made only to the schema it was decided from) and invariant 10: what
is wrong with one table is told to `runtime.table_troubles`, and stops no other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fnmatch import fnmatchcase

from framework.adapters.faults import reach
from framework.adapters.iceberg.tables import IcebergTables
from framework.commit.machine.progress import CREATED_PROPERTY
from framework.config.table_names import catalog_of, identifier_of
from framework.errors import FloeError, TableBlocked
from framework.plan.catalogs import used_catalogs
from framework.plan.explain import template_glob
from framework.plan.model import Plan
from framework.record.failure import shown
from framework.record.letters.dead_letter import plan_dead_letter_table
from framework.record.model import TableNeed, TableTarget
from framework.runtime.patience import is_outage
from framework.runtime.table_troubles import TableTroubles
from framework.table.changes import CreateTable, Refusal
from framework.table.create import plan_create
from framework.table.evolve import plan_evolution
from framework.table.refresh import REFRESH_AFTER_S, plan_refresh

ATTEMPTS = 10
LOADERS = 4
HOUR_S = 3600.0
PRELOAD_AGAIN_S = 2.0


class TableRegistry:
    """Targets of one pipeline's tables, cached; `say` is told of every change that was made."""

    def __init__(self, plan: Plan, catalog: IcebergTables, say: Callable[[str], None]) -> None:
        self._plan = plan
        self._catalog = catalog
        self._say = say
        self._targets: dict[str, TableTarget] = {}
        self._loaded_at: dict[str, float] = {}
        self._begun_at = time.monotonic()
        self._created_at: list[float] = []
        self._troubles = TableTroubles(plan, catalog, say)
        self._outages: dict[str, tuple[float, FloeError]] = {}  # by catalog: when it was asked and did not answer
        self._meanwhile: list[str] = []  # tables whose turn comes while the batch runs
        self._failure: Exception | None = None  # what happened meanwhile, for the next batch
        self._written_as_known: set[str] = set()  # catalogs whose tables a batch did not wait for
        self._lock = threading.Lock()

    @property
    def targets(self) -> dict[str, TableTarget]:
        """What tasks are given: every table known by now."""
        return self._troubles.targets(dict(self._targets))

    @property
    def refused(self) -> tuple[tuple[str, str], ...]:
        """Tables that cannot be written now, with the reason; records for them are dead letters, or what the policy says."""
        return self._troubles.refused

    @property
    def troubles(self) -> dict[str, str]:
        """Each table that is in trouble by itself, with the reason."""
        return self._troubles.reasons

    def begin_batch(self, names: Iterable[str]) -> None:
        """Load again what others may have changed and the batch waits for, and give refused tables another try.

        The rest of `names` has its turn in `refresh_meanwhile`.

        Raises:
            FloeError: no catalog of these tables answers, or the dead-letter table can no longer be written.
        """
        now = time.monotonic()
        self._troubles.forget_old()
        since_batch_s, self._begun_at = now - self._begun_at, now
        failure, self._failure, self._meanwhile = self._failure, None, []
        if failure is not None:
            raise failure
        by_catalog: dict[str, list[str]] = {}
        for name in sorted(names, key=lambda name: self._loaded_at.get(name, 0.0)):
            by_catalog.setdefault(catalog_of(name), []).append(name)
        silent = [catalog for catalog in by_catalog if self._asked_lately(catalog, now)]
        outages = {
            catalog: outage
            for catalog, own in by_catalog.items()
            if (outage := self._refresh(catalog, own, now, since_batch_s, ask_again=len(silent) == len(by_catalog)))
            is not None
        }
        # Invariant 10: where one of several does not answer, its tables are written as they were known. Their commits are
        # conditional on it and wait, and the others go on.
        if outages and len(outages) == len(by_catalog):
            raise next(iter(outages.values()))
        for catalog in sorted(set(outages) - self._written_as_known):
            self._say(f"{outages[catalog].message}; tables of catalog {catalog} are written as this run knew them")
        self._written_as_known = set(outages)

    def _asked_lately(self, catalog: str, now: float) -> bool:
        return catalog in self._outages and self._outages[catalog][0] > now - REFRESH_AFTER_S

    def _refresh(
        self, catalog: str, oldest: list[str], now: float, since_batch_s: float, ask_again: bool
    ) -> FloeError | None:
        """Load tables of one catalog; the outage in which those that are due could not be loaded, if there is one."""
        ages_s = [now - self._loaded_at.get(name, -REFRESH_AFTER_S) for name in oldest]
        turn = plan_refresh(ages_s, since_batch_s)
        first = oldest[turn.first.start : turn.first.stop]
        due = [name for name, age_s in zip(first, ages_s, strict=False) if age_s >= REFRESH_AFTER_S]
        lately = self._asked_lately(catalog, now)
        if due and lately and not ask_again:
            return self._outages[catalog][1]
        try:
            self._load(due)
            if due:
                self._outages.pop(catalog, None)
        except FloeError as error:
            if not is_outage(error):
                raise
            self._outages[catalog] = (now, error)
            return error
        if not lately:
            try:
                self._load(first[len(due) :])
            except FloeError as error:
                if not is_outage(error):
                    raise
                # What is known is young, and a commit is conditional on it: the batch need not wait for the catalog.
                self._outages[catalog] = (now, error)
                return None
            self._meanwhile += oldest[turn.meanwhile.start : turn.meanwhile.stop]
        return None

    def refresh_meanwhile(self, is_done: Callable[[], bool]) -> None:
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
                with self._lock:  # a change that this batch asks for must not be followed by what was loaded before it
                    self._load([name])
            except Exception as error:  # handed to the next batch
                if isinstance(error, FloeError) and is_outage(error):
                    self._outages[catalog_of(name)] = (now, error)
                else:
                    self._failure = error

    def preload(self) -> None:
        """Load the tables that exist already and that the routes may reach, so that a restart repeats no batch."""
        names = reachable_tables(self._plan, self._catalog)
        while True:
            try:
                self._load(names)
                self._created_at = list(self._made_lately())
                return
            except FloeError as error:
                if isinstance(error, TableBlocked) or not self._troubles.is_undecided:
                    raise
            time.sleep(PRELOAD_AGAIN_S)

    def _made_lately(self) -> Iterator[float]:
        """When tables were made by this pipeline within the last hour, as they say themselves: so that the bound holds
        across restarts, too."""
        now_ms, now = time.time() * 1000, time.monotonic()
        for target in self._targets.values():
            pipeline, _, at_ms = target.properties.get(CREATED_PROPERTY, "").rpartition(" ")
            if pipeline == self._plan.pipeline and at_ms.isdecimal() and now_ms - int(at_ms) < HOUR_S * 1000:
                yield now - max(0.0, (now_ms - int(at_ms)) / 1000)

    def load(self, name: str) -> None:
        """Load a table that no rule names."""
        self._load([name])

    def _load(self, names: Iterable[str]) -> None:
        """A table that was dropped, or replaced by another of its name, stays known as it was: what is announced for it
        waits and its state says so, while rows written to a new one, behind the back of whoever did it, would part its
        rows in two. The next run begins with what it finds."""
        names = list(names)
        found = self._try_each(names)
        for name, target in found.items():
            known = self._targets.get(name)
            if isinstance(target, TableTarget) and (known is None or known.table_uuid == target.table_uuid):
                self._targets[name] = target
        for name in names:
            if name in self._targets:
                self._loaded_at[name] = time.monotonic()
        self._judge(found, change=False)

    def _try_each(self, names: Iterable[str]) -> dict[str, TableTarget | FloeError | None]:
        """Each table as it is now, or what it fails with."""
        names = list(names)
        with ThreadPoolExecutor(LOADERS) as pool:
            return dict(zip(names, pool.map(self._try_one, names), strict=True))

    def _try_one(self, name: str) -> TableTarget | FloeError | None:
        try:
            return self._load_one(name)
        except FloeError as error:
            return error

    def _judge(self, found: Mapping[str, TableTarget | FloeError | None], change: bool) -> None:
        """Tell what failed from what is sound.

        Raises:
            FloeError: an outage; TableBlocked: the dead-letter table cannot be written.
        """
        loaded = [name for name, target in found.items() if isinstance(target, TableTarget)]
        for name in loaded:
            self._troubles.sound(name, change=False)
        failed = {name: error for name, error in found.items() if isinstance(error, FloeError)}
        if failed:
            self._troubles.judge(failed, loaded, self._targets, change)

    def _load_one(self, name: str) -> TableTarget | None:
        return self._catalog.load_target(name, self._plan.write.tables.policy_for(name))

    def satisfy(self, needs: Iterable[TableNeed]) -> None:
        """Make every table able to hold what was seen; several at once, since each is a few requests to its catalog.

        A table that cannot be made is refused for a while, and one that cannot be changed, or is not the one that this run
        knows, is not changed for a while: `refused` and `targets` say so, and the records that ask for it are dead letters
        or what the policy says (invariant 10).

        Raises:
            FloeError: an outage.
            TableBlocked: it is the dead-letter table, or replayed alone.
        """
        by_name = {need.table: need for need in needs}
        with self._lock:
            found = self._try_each(by_name)
            # Which tables may be made is decided in order, so that the same batch done again makes the same ones.
            wanted = [
                (by_name[name], target)
                for name, target in found.items()
                if not isinstance(target, FloeError)
                and self._is_the_known_one(name, target)
                and (target is not None or self._admit(by_name[name]))
            ]
            with ThreadPoolExecutor(LOADERS) as pool:
                done = dict(
                    zip((need.table for need, _ in wanted), pool.map(self._try_to_satisfy, wanted), strict=True)
                )
            self._judge({**found, **{name: error for name, error in done.items() if error is not None}}, change=True)

    def _is_the_known_one(self, name: str, found: TableTarget | None) -> bool:
        """As `_load` keeps to the table that is known, a change is made to no other one, nor is it made anew."""
        known = self._targets.get(name)
        if known is None or (found is not None and found.table_uuid == known.table_uuid):
            return True
        what = "dropped" if found is None else f"replaced (its uuid is {found.table_uuid})"
        self._troubles.freeze(
            name,
            f"{name} was {what} under this run, which knows the table {known.table_uuid}; bring it back, or restart the "
            "pipeline: a new run begins with what it finds",
        )
        return False

    def _try_to_satisfy(self, wanted: tuple[TableNeed, TableTarget | None]) -> FloeError | None:
        """What it fails with; None when the table is as it is needed, or was frozen or refused meanwhile."""
        try:
            self._satisfy(*wanted)
        except FloeError as error:
            return error
        except (MemoryError, OSError):
            raise
        except Exception as error:  # whatever a library makes of a column that nobody imagined
            return self._unforeseen(wanted[0].table, error)
        return None

    def _unforeseen(self, table: str, error: Exception) -> FloeError | None:
        """What records ask of the table cannot be done and nobody knows why: they are dead letters, and it is let alone."""
        known = table in self._targets and not self._troubles.is_frozen(table)
        reason = _nobody_foresaw(error)
        try:
            (self._troubles.freeze if known else self._troubles.refuse)(table, reason)
        except FloeError as blocked:
            return blocked
        return None

    def _satisfy(self, need: TableNeed, target: TableTarget | None) -> None:
        """`target` is the table as it was found; a table that was not there has been admitted."""
        admitted = target is None
        for _ in range(ATTEMPTS):
            if target is None and admitted:
                self._make(need)
                admitted = False
            target = target or self._load_one(need.table)
            if not self._is_the_known_one(need.table, target):
                return
            if target is None:
                if not self._admit(need):  # somebody dropped it meanwhile
                    return
                admitted = True
                continue
            known = self._targets.setdefault(need.table, target)
            change = None if need.table == self._plan.write.dead_letter_table else plan_evolution(target, need)
            if isinstance(change, Refusal):
                self._targets[need.table] = target
                if known.schema_json != target.schema_json:
                    return  # somebody else changed it: the records are looked at again, with the table as it is now
                # What is asked for although nothing may change is asked for by every record.
                hold = self._troubles.refuse if self._troubles.is_frozen(need.table) else self._troubles.freeze
                hold(need.table, _said(change))
                return
            if change is None:
                self._targets[need.table] = target
                self._loaded_at[need.table] = time.monotonic()
                self._troubles.sound(need.table, change=True)
                return
            if self._catalog.alter_table(change):
                words = ", ".join(f"{type(c).__name__} {'.'.join(c.path)}" for c in change.changes)
                self._say(f"altered {need.table}: {words}")
            target = None
        raise TableBlocked(
            f"the definition of {need.table} changed {ATTEMPTS} times in a row during the change",
            place=need.table,
            remedy="find out who else alters this table, then restart the pipeline",
        )

    def _admit(self, need: TableNeed) -> bool:
        """Whether a table that is not there may be made; why not is said and remembered."""
        try:
            refusal = self._refusal(need)
        except (FloeError, MemoryError, OSError):
            raise
        except Exception as error:
            refusal = _nobody_foresaw(error)
        if refusal:
            self._troubles.refuse(need.table, refusal, done="not created")
            return False
        self._created_at.append(time.monotonic())
        return True

    def _refusal(self, need: TableNeed) -> str:
        plan = self._plan
        if need.table != plan.write.dead_letter_table and self._too_many():
            limit = plan.route.max_new_tables_per_hour
            return f"routes.max_new_tables_per_hour is {limit}, and that many were created within the last hour"
        change = plan_creation(plan, need)
        if not isinstance(change, Refusal):
            return ""
        return f"{'.'.join(change.path)}: {change.reason}" if change.path else change.reason

    def _make(self, need: TableNeed) -> None:
        change = plan_creation(self._plan, need)
        assert not isinstance(change, Refusal)  # `_admit` has asked
        made = (CREATED_PROPERTY, f"{self._plan.pipeline} {int(time.time() * 1000)}")
        self._catalog.create_table(replace(change, properties=(*change.properties, made)))
        reach("table-created")
        self._say(f"created {need.table}")

    def _too_many(self) -> bool:
        recent = [at for at in self._created_at if at > time.monotonic() - HOUR_S]
        return len(recent) >= self._plan.route.max_new_tables_per_hour


def reachable_tables(plan: Plan, catalog: IcebergTables) -> tuple[str, ...]:
    """The tables that the plan's rules name, dead letters included, and those of the catalog that a rule with a field of
    the record in its name may reach. The first need not exist."""
    tables = plan.write.tables
    names = [tables.full_name(rule.table) for rule in plan.route.rules if "{" not in rule.table]
    if plan.write.dead_letter_table:
        names.append(plan.write.dead_letter_table)
    patterns = [template_glob(rule.table) for rule in plan.route.rules if "{" in rule.table]
    namespaces = {pattern.rsplit(".", 1)[0] for pattern in patterns}
    everywhere = any("*" in namespace for namespace in namespaces)
    for namespace in (None,) if everywhere else sorted(namespaces):
        for name in catalog.list_tables(namespace, used_catalogs(plan)):
            bare = identifier_of(name)
            # A table of this name in another catalog is not the one that the rule leads to.
            if tables.full_name(bare) == name and any(fnmatchcase(bare, pattern) for pattern in patterns):
                names.append(name)
    return tuple(dict.fromkeys(names))


def plan_creation(plan: Plan, need: TableNeed) -> CreateTable | Refusal:
    """The table that a pipeline makes for a need, or why it must not; `floe plan` asks the same before any record came."""
    if need.table == plan.write.dead_letter_table:
        return plan_dead_letter_table(need.table)
    policy = plan.write.tables.policy_for(need.table)
    return plan_create(need, policy, plan.hints_of_tables, plan.decode.metadata_columns)


def _nobody_foresaw(error: Exception) -> str:
    return f"unexpected error with what its records need ({type(error).__name__}: {shown(str(error), 200)})"


def _said(refusal: Refusal) -> str:
    return f"column {'.'.join(refusal.path)}: {refusal.reason}" if refusal.path else refusal.reason
