"""The driver's view of the tables a pipeline writes to, and the one party that changes them.

In: what tasks found missing (TableNeed). Out: tables created or altered through the catalog, as the pure functions of
`framework.table` decided. Keeps invariant 4 (a change is made only to the schema it was decided from) and invariant 10:
what is wrong with one table is reported to `runtime.table_troubles`, and stops no other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase

from framework.adapters.iceberg.tables import IcebergTables
from framework.commit.machine.progress.recorded import FILLED_FROM_PROPERTY, filled_from
from framework.config.names.table_names import identifier_of, template_glob
from framework.diagnose.log_lines import LogLine
from framework.errors import FloeError, TableBlocked
from framework.plan.catalogs import used_catalogs
from framework.plan.model import Plan
from framework.record.model import TableNeed, TableTarget
from framework.runtime.tables.creation import TableCreation, nobody_foresaw
from framework.runtime.tables.owner import named_tables, to_record
from framework.runtime.tables.troubles import TableTroubles
from framework.table.changes import Refusal, changes_in_words
from framework.table.evolve import plan_evolution

ATTEMPTS = 10
LOADERS = 4
PRELOAD_AGAIN_S = 2.0


class TableRegistry:
    """Targets of one pipeline's tables, cached; `say` is called with every change that was made. Safe for threads: one of
    them loads tables while another has them changed."""

    def __init__(
        self,
        plan: Plan,
        catalog: IcebergTables,
        say: Callable[[str], None],
        publish: Callable[[str, tuple[str, ...], str], None] = lambda table, changes, cause: None,
    ) -> None:
        """`publish` is called before each change with the table, the changes in words, and whose records ask for them; it
        neither blocks nor raises."""
        self._plan = plan
        self._catalog = catalog
        self._say = say
        self._publish = publish
        self._targets: dict[str, TableTarget] = {}
        self._loaded_at: dict[str, float] = {}
        self._troubles = TableTroubles(plan, catalog, say)
        self._creation = TableCreation(plan, catalog, say)
        self.control_topic_id = ""  # where the run announces, once it knows
        self._lock = threading.Lock()  # a change must not be followed by what was loaded before it

    @property
    def targets(self) -> dict[str, TableTarget]:
        """What tasks are given: every table known by now."""
        return self._troubles.targets(dict(self._targets))

    def with_lent(self, io_properties: Mapping[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        """What tasks write files with, by catalog, and by table where its catalog lends keys for it."""
        return self._catalog.with_lent(io_properties, self.targets)

    @property
    def refused(self) -> tuple[tuple[str, str], ...]:
        """Tables that cannot be written now, with the reason; records for them are dead letters, or what the policy
        says."""
        return self._troubles.refused

    @property
    def owned_by_others(self) -> tuple[tuple[str, str], ...]:
        """Tables of other pipelines, with whose they are; records for them are dead letters, or what the policy says."""
        return self._troubles.owned_by_others

    @property
    def troubles(self) -> dict[str, str]:
        """Each table that is in trouble by itself, with the reason."""
        return self._troubles.reasons

    def preload(self) -> None:
        """Load the tables that exist already and that the routes may reach, so that a restart repeats no batch."""
        names = reachable_tables(self._plan, self._catalog)
        while True:
            try:
                self.load(*names)
                self._creation.remember(self._targets.values())
                return
            except FloeError as error:
                if isinstance(error, TableBlocked) or not self._troubles.is_undecided:
                    raise
            time.sleep(PRELOAD_AGAIN_S)

    def loaded_at(self, name: str) -> float | None:
        """When a table was loaded last, by the monotonic clock in seconds; None: never."""
        return self._loaded_at.get(name)

    def retry_refused(self) -> None:
        """Give tables another try that were refused, or not to be changed, for a while."""
        self._troubles.forget_old()

    def load(self, *names: str) -> None:
        """Load tables as they are now. One that was dropped, or replaced by another of its name, stays known as it was:
        what is announced for it waits and its state says so, while rows written to a new one, behind the back of
        whoever did it, would part its rows in two. The next run begins with what it finds.

        Raises:
            FloeError: an outage; TableBlocked: the dead-letter table cannot be written.
        """
        with self._lock:
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
        policy = self._plan.write.tables.policy_for(name)
        for _ in range(ATTEMPTS):
            found = self._catalog.load_target(name, policy)
            if found is None or not self._fills(name):
                return found
            try:
                reported = dict(to_record(self._plan, found))
            except TableBlocked:
                self._targets.pop(name, None)  # what was written before is committed; nothing is written any more
                raise
            # Invariant 12: said before the first file is written, since nobody who removes orphans need know this topic.
            if self.control_topic_id and self.control_topic_id not in filled_from(found.properties):
                reported[FILLED_FROM_PROPERTY + self.control_topic_id] = self._plan.pipeline
            if not reported or self._catalog.note_properties(name, found, reported):
                return found
        return found

    def _fills(self, name: str) -> bool:
        """Whether records go to the table: a replay of one table drops those for others, and writes nothing on these."""
        only = self._plan.route.only_tables
        return not only or name in (*only, self._plan.write.dead_letter_table)

    def satisfy(self, needs: Iterable[TableNeed], cause: str = "") -> None:
        """Make every table able to hold what was seen; several at once, since each is a few requests to its catalog.
        `cause` names whose records ask for it, such as "batch 3".

        A table that cannot be made is refused for a while, and one that cannot be changed, or is not the one that this
        run knows, is not changed for a while: `refused` and `targets` say so, and the records that ask for it are dead
        letters or what the policy says (invariant 10).

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
                and (target is not None or self._admits(by_name[name]))
            ]
            with ThreadPoolExecutor(LOADERS) as pool:
                done = dict(
                    zip(
                        (need.table for need, _ in wanted),
                        pool.map(lambda each: self._try_to_satisfy(each[0], each[1], cause), wanted),
                        strict=True,
                    )
                )
            self._judge({**found, **{name: error for name, error in done.items() if error is not None}}, change=True)

    def _is_the_known_one(self, name: str, found: TableTarget | None) -> bool:
        """As `load` keeps to the table that is known, a change is made to no other one, nor is it made anew."""
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

    def _try_to_satisfy(self, need: TableNeed, found: TableTarget | None, cause: str) -> FloeError | None:
        """What it fails with; None when the table is as it is needed, or was frozen or refused meanwhile."""
        try:
            self._satisfy(need, found, cause)
        except FloeError as error:
            return error
        except (MemoryError, OSError):
            raise
        except Exception as error:  # whatever a library makes of a column that nobody imagined
            return self._unforeseen(need.table, error)
        return None

    def _unforeseen(self, table: str, error: Exception) -> FloeError | None:
        """What records ask of the table cannot be done and nobody knows why: they are dead letters, and it is let
        alone."""
        known = table in self._targets and not self._troubles.is_frozen(table)
        reason = nobody_foresaw(error)
        try:
            (self._troubles.freeze if known else self._troubles.refuse)(table, reason)
        except FloeError as blocked:
            return blocked
        return None

    def _satisfy(self, need: TableNeed, target: TableTarget | None, cause: str) -> None:
        """`target` is the table as it was found; a table that was not there has been admitted."""
        admitted = target is None
        for _ in range(ATTEMPTS):
            if target is None and admitted:
                self._publish(need.table, ("create the table",), cause)
                self._creation.make(need, self.control_topic_id)
                admitted = False
            target = target or self._load_one(need.table)
            if not self._is_the_known_one(need.table, target):
                return
            if target is None:
                if not self._admits(need):  # somebody dropped it meanwhile
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
            words = changes_in_words(change.changes)
            self._publish(need.table, words, cause)
            if self._catalog.alter_table(change):
                self._say(LogLine(f"altered {need.table}: {', '.join(words)}", table=need.table))
            target = None
        raise TableBlocked(
            f"the definition of {need.table} changed {ATTEMPTS} times in a row during the change",
            place=need.table,
            remedy="find out who else alters this table, then restart the pipeline",
        )

    def _admits(self, need: TableNeed) -> bool:
        """Whether a table that is not there may be made; why not is said and remembered."""
        refusal = self._creation.refusal(need)
        if refusal:
            self._troubles.refuse(need.table, refusal, done="not created")
        return not refusal


def reachable_tables(plan: Plan, catalog: IcebergTables) -> tuple[str, ...]:
    """The tables that the plan's rules name, histories and dead letters included, and those of the catalog that a rule with
    a field of the record in its name may reach within `allow_tables`. The first need not exist."""
    tables = plan.write.tables
    names = list(named_tables(plan))
    patterns = [template_glob(rule.table) for rule in plan.route.rules if "{" in rule.table]
    namespaces = {pattern.rsplit(".", 1)[0] for pattern in patterns}
    everywhere = any("*" in namespace for namespace in namespaces)
    for namespace in (None,) if everywhere else sorted(namespaces):
        for name in catalog.list_tables(namespace, used_catalogs(plan)):
            bare = identifier_of(name)
            # A table of this name in another catalog is not the one that the rule leads to.
            is_meant = any(fnmatchcase(bare, pattern) for pattern in patterns)
            is_allowed = any(fnmatchcase(bare.lower(), glob.lower()) for glob in plan.route.allow_tables)
            if tables.full_name(bare) == name and is_meant and is_allowed:
                names.append(name)
    return tuple(dict.fromkeys(names))


def _said(refusal: Refusal) -> str:
    return f"column {'.'.join(refusal.path)}: {refusal.reason}" if refusal.path else refusal.reason
