"""A small cache of tables as they were examined, so that the commit that follows need not load them again.

In: a view and the table it was taken from. Out: that table, once, while it is recent. Invariant 4 does not depend on
it: the commit is conditional on the view, so if the table has changed in the meantime, the catalog refuses and the
table is read back.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict

from pyiceberg.table import Table

from framework.commit.machine.effects import ExaminedTable

# A commit replaces its branch's reference as a whole, with the retention that was read: what a person sets meanwhile
# would be lost, so this is no longer than a commit waits for its turn.
KEPT_S = 2.0
# The coordinator has few tables in hand at a time; the metadata of one with many snapshots is large.
MOST = 32


class ExaminedTables:
    """Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: OrderedDict[str, tuple[float, ExaminedTable, Table]] = OrderedDict()

    def put(self, view: ExaminedTable, table: Table) -> None:
        with self._lock:
            self._tables.pop(view.table, None)
            self._tables[view.table] = (time.monotonic(), view, table)
            if len(self._tables) > MOST:
                self._tables.popitem(last=False)

    def take(self, view: ExaminedTable) -> Table | None:
        """The table that this very view was taken from, or None where it is not there any more."""
        with self._lock:
            found = self._tables.pop(view.table, None)
        if found is None or found[1] != view or found[0] < time.monotonic() - KEPT_S:
            return None
        return found[2]
