"""The driver's view of the tables a pipeline writes to, and the one party that changes them.

In: what tasks found missing (TableNeed). Out: tables created or altered through the catalog, as the pure functions of
`framework.table` decided. Keeps invariant 4 (a change is made only to the schema it was decided from) and invariant 10.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase

from framework.adapters.faults import reach
from framework.adapters.iceberg import IcebergTables
from framework.config.table_names import catalog_of, identifier_of
from framework.errors import FloeError, TableBlocked
from framework.plan.catalogs import used_catalogs
from framework.plan.explain import template_glob
from framework.plan.model import Plan
from framework.record.dead_letter import plan_dead_letter_table
from framework.record.model import TableNeed, TableTarget
from framework.runtime.patience import is_outage
from framework.table.changes import CreateTable, Refusal
from framework.table.create import plan_create
from framework.table.evolve import plan_evolution
from framework.table.refresh import REFRESH_AFTER_S, plan_refresh

ATTEMPTS = 10
LOADERS = 4
HOUR_S = 3600.0
REFUSED_FOR_S = 60.0


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
        self._refused: dict[str, tuple[float, str]] = {}
        self._outages: dict[str, tuple[float, FloeError]] = {}  # by catalog: when it was asked and did not answer
        self._meanwhile: list[str] = []  # tables whose turn comes while the batch runs
        self._failure: Exception | None = None  # what happened meanwhile, for the next batch
        self._written_as_known: set[str] = set()  # catalogs whose tables a batch did not wait for
        self._lock = threading.Lock()

    @property
    def targets(self) -> dict[str, TableTarget]:
        """What tasks are given: every table known by now."""
        return dict(self._targets)

    @property
    def refused(self) -> tuple[tuple[str, str], ...]:
        """Tables that cannot be made now, with the reason; records for them are dead letters, or what the policy says."""
        return tuple((name, reason) for name, (_, reason) in sorted(self._refused.items()))

    def begin_batch(self, names: Iterable[str]) -> None:
        """Load again what others may have changed and the batch waits for, and give refused tables another try.

        The rest of `names` has its turn in `refresh_meanwhile`.

        Raises:
            FloeError: no catalog of these tables answers, or one of them can no longer be written.
        """
        now = time.monotonic()
        self._refused = {name: (at, why) for name, (at, why) in self._refused.items() if at > now - REFUSED_FOR_S}
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
            self._say(f"{outages[catalog].message}; tables of catalog {catalog} are written as they were known")
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

        One after the other, since whoever reads and writes needs the cores. What cannot be loaded is known as it was; a table
        that can no longer be written stops the next batch.
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
        self._load(names)

    def load(self, name: str) -> None:
        """Load a table that no rule names."""
        self._load([name])

    def _load(self, names: Iterable[str]) -> None:
        """A table that was dropped, or replaced by another of its name, stays known as it was: what is announced for it
        waits and its state says so, while rows written to a new one, behind the back of whoever did it, would part its
        rows in two. The next run begins with what it finds."""
        names = list(names)
        with ThreadPoolExecutor(LOADERS) as pool:
            for name, target in zip(names, pool.map(self._load_one, names), strict=True):
                known = self._targets.get(name)
                if target is not None and (known is None or known.table_uuid == target.table_uuid):
                    self._targets[name] = target
                if name in self._targets:
                    self._loaded_at[name] = time.monotonic()

    def _load_one(self, name: str) -> TableTarget | None:
        return self._catalog.load_target(name, self._plan.write.tables.policy_for(name))

    def satisfy(self, needs: Iterable[TableNeed]) -> None:
        """Make every table able to hold what was seen; several at once, since each is a few requests to its catalog.

        Raises:
            TableBlocked: the policy or Iceberg's rules refuse, or the table is not the one that this run knows; the message
                names table, column and reason.
        """
        needs = list(needs)
        with self._lock, ThreadPoolExecutor(LOADERS) as pool:
            targets = list(pool.map(self._load_one, [need.table for need in needs]))
            for need, target in zip(needs, targets, strict=True):
                self._refuse_another(need.table, target)
            # Which tables may be made is decided in order, so that the same batch done again makes the same ones.
            refused = {
                need.table
                for need, target in zip(needs, targets, strict=True)
                if target is None and not self._admit(need)
            }
            wanted = [(n, t) for n, t in zip(needs, targets, strict=True) if n.table not in refused]
            for done in [pool.submit(self._satisfy, need, target) for need, target in wanted]:
                done.result()

    def _refuse_another(self, name: str, found: TableTarget | None) -> None:
        """As `_load` keeps to the table that is known, a change is made to no other one, nor is it made anew."""
        known = self._targets.get(name)
        if known is None or (found is not None and found.table_uuid == known.table_uuid):
            return
        raise TableBlocked(
            f"{name} was {'dropped' if found is None else f'replaced (its uuid is {found.table_uuid})'} under this run, which "
            f"knows the table {known.table_uuid}; records ask for a change of it",
            place=name,
            remedy="bring the table back, or start the pipeline again: a new run begins with what it finds. Nothing of the "
            "batch was announced, its records are still in the topic",
        )

    def _satisfy(self, need: TableNeed, target: TableTarget | None) -> None:
        """`target` is the table as it was found; a table that was not there has been admitted."""
        admitted = target is None
        for _ in range(ATTEMPTS):
            if target is None and admitted:
                self._make(need)
                admitted = False
            target = target or self._load_one(need.table)
            self._refuse_another(need.table, target)
            if target is None:
                if not self._admit(need):  # somebody dropped it meanwhile
                    return
                admitted = True
                continue
            change = None if need.table == self._plan.write.dead_letter_table else plan_evolution(target, need)
            if isinstance(change, Refusal):
                raise _blocked(change)
            if change is None:
                self._targets[need.table] = target
                self._loaded_at[need.table] = time.monotonic()
                return
            if self._catalog.alter_table(change):
                words = ", ".join(f"{type(c).__name__} {'.'.join(c.path)}" for c in change.changes)
                self._say(f"altered {need.table}: {words}")
            target = None
        raise TableBlocked(
            f"the definition of {need.table} changed under us {ATTEMPTS} times in a row",
            place=need.table,
            remedy="find out who else alters this table, then start the pipeline again",
        )

    def _admit(self, need: TableNeed) -> bool:
        """Whether a table that is not there may be made; why not is said and remembered."""
        refusal = self._refusal(need)
        if refusal:
            self._refused[need.table] = (time.monotonic(), refusal)
            self._say(f"not created {need.table}: {refusal}")
            return False
        self._created_at.append(time.monotonic())
        return True

    def _refusal(self, need: TableNeed) -> str:
        plan = self._plan
        if need.table != plan.write.dead_letter_table and self._too_many():
            limit = plan.route.max_new_tables_per_hour
            return f"routes.max_new_tables_per_hour is {limit}, and so many were made within the last hour"
        change = plan_creation(plan, need)
        if not isinstance(change, Refusal):
            return ""
        return f"{'.'.join(change.path)}: {change.reason}" if change.path else change.reason

    def _make(self, need: TableNeed) -> None:
        change = plan_creation(self._plan, need)
        assert not isinstance(change, Refusal)  # `_admit` has asked
        self._catalog.create_table(change)
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
    # With SQL the hints declare what it reads; what it gives was observed with exact types.
    hints = () if plan.transform else plan.decode.hints
    policy = plan.write.tables.policy_for(need.table)
    return plan_create(need, policy, hints, plan.decode.metadata_columns)


def _blocked(refusal: Refusal) -> TableBlocked:
    path = ".".join(refusal.path)
    return TableBlocked(
        f"{refusal.table}{': column ' + path if path else ''}: {refusal.reason}",
        code=refusal.code,
        place=refusal.table,
        remedy="change the table or the pipeline's tables policy; nothing of the batch was announced, its records are still "
        "in the topic",
    )
