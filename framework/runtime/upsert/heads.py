"""Where the live rows of a pipeline's upsert tables are, looked at anew for each batch: its changes are found against
that head.

In: the tables as tasks are about to be given them. Out: by name a `UpsertTarget` for each upsert table: one
call of its catalog, and its manifests where the head has moved. Tables that are appended to cost nothing. Raises where
rows of a table cannot be replaced by key, before anything is read: the pipeline holds, since a change that is left out
cannot be made up for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.iceberg.upsert.target import UpsertTarget, blocked
from framework.plan.model import Plan
from framework.record.model import TaskReport
from framework.runtime.upsert.deleted_keys import RememberedDeletes
from framework.runtime.upsert.key_indexes import KeyIndexes
from framework.runtime.upsert.unique_keys import UniqueKeys
from framework.table.model import TableTarget

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOADERS = 4


class UpsertHeads:
    """Of one run of a pipeline; what was read of a table is kept until its head moves."""

    def __init__(
        self,
        plan: Plan,
        catalog: IcebergTables,
        say: Callable[[str], None] = lambda text: None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.indexes = KeyIndexes(catalog.io_properties_of)
        self._unique = UniqueKeys(
            catalog.io_properties_of,
            say,
            lambda target: catalog.writers_beside(target, plan.pipeline),
        )
        self._deletes = RememberedDeletes(catalog.io_properties_of, now_ms)
        self._plan = plan
        self._catalog = catalog
        self._known: dict[str, UpsertTarget] = {}
        self._loaded: list[tuple[TableTarget, UpsertTarget]] = []

    def load(self, targets: Mapping[str, TableTarget]) -> dict[str, UpsertTarget]:
        """The upsert tables among these tables, at their heads now.

        Raises:
            TableBlocked: FLOE-R144, rows of one of them cannot be replaced by key.
            FloeError: its catalog or store does not answer.
        """
        if not self._plan.is_upserted:
            return {}
        dead_letters, only = self._plan.write.dead_letter_table, self._plan.route.only_tables
        keyed = {
            name: each
            for name, each in targets.items()
            if each.policy.write.is_upsert and name != dead_letters and (not only or name in only)
        }
        _check_distinct(keyed)
        with ThreadPoolExecutor(LOADERS) as pool:
            found = pool.map(
                lambda each: self._catalog.load_upsert_target(each, self._known.get(each.name)), keyed.values()
            )
            self._known = dict(zip(keyed, found, strict=True))
        for name, each in self._known.items():
            self._unique.check(keyed[name], each)
        indexed = {
            name: self._deletes.ready(keyed[name], self._indexed(keyed[name], each))
            for name, each in self._known.items()
        }
        self._loaded = [(keyed[name], each) for name, each in indexed.items()]
        return indexed

    def wait_for_indexes(self, session: SparkSession) -> bool:
        """Have those first indexes made that save the next batch time; True where `load` gives more than before."""
        return self.indexes.wait_for_first(session, self._loaded)

    def _indexed(self, target: TableTarget, found: UpsertTarget) -> UpsertTarget:
        index = self.indexes.of(target, found)
        return found if index is None else replace(found, index=index)

    def keep_indexes(self, session: SparkSession, reports: Iterable[TaskReport]) -> None:
        """Take up what the tasks of a batch made for the tables' key indexes, and have done what these need."""
        self.indexes.add(reports)
        for target, keyed in self._loaded:
            self.indexes.keep_up(session, target, keyed)


def _check_distinct(targets: Mapping[str, TableTarget]) -> None:
    """A key's changes under two names of one table would be two newest ones."""
    by_uuid: dict[str, str] = {}
    for name, target in targets.items():
        other = by_uuid.setdefault(target.table_uuid, name)
        if other != name:
            raise blocked(
                name, f"it is the table {other} under another name", "use one name for it in the pipeline file"
            )
