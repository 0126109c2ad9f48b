"""The coordinator as a thread: it serves for as long as it is wanted, and after an outage of the broker with clients
made anew.

In: connections, the group and the control topic. Out: table commits, information events and the stored low-water mark,
by `runtime.coordinator_turns`; or the error that ended it. Decides nothing itself. Keeps invariant 7 by leaving
read-back to the catalog adapter, and by waiting at its end for the commits in flight, so that their outcome is known.
"""

from __future__ import annotations

import gc
import threading
import uuid
from collections.abc import Callable, Mapping

from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.kafka.control.leadership import CoordinatorLeadership
from framework.commit.events.event_types import TableMeasured
from framework.commit.machine.model import CoordinatorState, Limits
from framework.config.spec import LogArchiveSpec
from framework.config.values.maintenance import MaintenanceLimits
from framework.diagnose.log_lines import Level, LogLine
from framework.errors import FloeError
from framework.metrics.services import service_of
from framework.runtime.coordinator.catalog_requests import CatalogRequests
from framework.runtime.coordinator.information import Information
from framework.runtime.coordinator.leadership_changes import RecentLeadership, read_claims
from framework.runtime.coordinator.log_archive import LogArchive
from framework.runtime.coordinator.turns import CoordinatorTurns
from framework.runtime.lineage import LineageTeller
from framework.runtime.maintenance.background import TableKeeper
from framework.runtime.maintenance.orphans import Announced
from framework.runtime.measures.commits import CommitMeasures
from framework.runtime.retry_policy import is_retriable

REBUILD_AFTER_S = 2.0
# What waits in the state is many small values without a cycle among them. Python's usual 700 new ones between two looks
# for cycles make a good part of what reading a long control log costs.
NEW_OBJECTS_BETWEEN_COLLECTIONS = 50_000


class Coordinator:
    """Runs in a thread of a driver or alone. Several may be alive: one owns the partition, the others wait. With limits
    for `maintenance`, the owner keeps tables healthy as well.

    `error`: what ended it. It is set by the coordinator's thread once, at its end.
    """

    def __init__(
        self,
        kafka: dict[str, str],
        group: str,
        control_topic: str,
        catalog: IcebergTables,
        say: Callable[[str], None],
        stalled_after_ms: int | None = None,
        maintenance: MaintenanceLimits | None = None,
        lineage: LineageTeller | None = None,
        archive: LogArchiveSpec | None = None,
    ) -> None:
        """`stalled_after_ms`: a commit that is under way for longer is reported as stalled; None: none is. `lineage` hears of
        what is read and committed. `archive`: where the control log is kept for ever; None: nowhere."""
        self.name = f"{group}/{uuid.uuid4().hex[:8]}"
        self.error: FloeError | None = None
        self._kafka = kafka
        self._group = group
        self._control_topic = control_topic
        self._say = say
        self._stopping = threading.Event()
        self._is_done = False
        self._lineage = lineage
        if lineage is not None:
            lineage.reads(control_topic)
        self._requests = CatalogRequests(catalog, say, *(() if lineage is None else (lineage.committed,)))
        self._limits = Limits(stalled_ms=stalled_after_ms)
        self._turns: CoordinatorTurns | None = None
        self._history = RecentLeadership(lambda first, below: read_claims(kafka, control_topic, first, below))
        table = "" if archive is None else archive.table
        limits = maintenance or MaintenanceLimits(enabled=False)
        self._keeper = TableKeeper(catalog, limits, lambda: Announced(kafka, (control_topic,)), say, self.name, table)
        self._archive = (
            LogArchive(kafka, control_topic, catalog, archive, say, self._is_caught_up_owner, self._keeper.committed)
            if archive is not None and table
            else None
        )
        self._thread = threading.Thread(target=self._run, name="coordinator", daemon=True)

    def start(self) -> None:
        youngest, *older = gc.get_threshold()
        if youngest:  # 0: somebody has turned it off
            gc.set_threshold(max(youngest, NEW_OBJECTS_BETWEEN_COLLECTIONS), *older)
        self._thread.start()
        self._keeper.start()
        if self._archive is not None:
            self._archive.start()

    def stop(self, is_done: bool = False) -> None:
        """End the loop; commits in flight are waited for, so that their outcome is known.

        Args:
            is_done: whoever needed it has ended well, or was asked to end; the log says so.
        """
        self._is_done = is_done
        self._stopping.set()
        self._keeper.stop()
        self._thread.join()
        if self._archive is not None:
            self._archive.stop()  # behind what the thread has published at last

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def control_topic(self) -> str:
        return self._control_topic

    @property
    def measures(self) -> CommitMeasures:
        return self._requests.measures

    @property
    def measured(self) -> Mapping[str, TableMeasured]:
        """How healthy each table was when this or an earlier coordinator last looked."""
        return self._keeper.measured

    @property
    def takeovers_ms(self) -> tuple[int, ...]:
        """When who coordinates changed, as the control log reports it; what it knows while it coordinates itself."""
        return self._history.takeovers_ms

    @property
    def state(self) -> CoordinatorState:
        """What it knows now."""
        turns = self._turns
        return turns.state if turns is not None else CoordinatorState()

    @property
    def knows_the_owner(self) -> bool:
        """Whether the group has published it that it coordinates, or that another one does, and it can hear the group."""
        turns = self._turns
        return turns is not None and turns.has_joined and self.alive and not self.measures.hangs

    def _is_caught_up_owner(self) -> bool:
        turns = self._turns
        return turns is not None and turns.is_caught_up_owner

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    self._serve()
                except FloeError as error:
                    if not is_retriable(error):
                        self.error = error
                        return
                    self._say(LogLine(f"degraded: {error.message}; trying again", Level.WARNING))
                    self._requests.measures.tried_again(service_of(error))
                    self._stopping.wait(REBUILD_AFTER_S)
        except Exception as error:  # a thread that ends without a word would leave announcements waiting for ever
            self.error = FloeError(f"the coordinator ended: {type(error).__name__}: {error}", place=self.name)
            self.error.__cause__ = error
        finally:
            self._requests.close()

    def _serve(self) -> None:
        """Turns with one leadership, until it is to be stopped or to be given up and taken again."""
        leadership = CoordinatorLeadership(self._kafka, self._group, self._control_topic, self.name)
        information = Information(self._kafka, self._control_topic, self._say)
        reads_again = self._turns is not None and self._turns.wants_new_leadership
        turns = self._turns = CoordinatorTurns(
            self.name,
            leadership,
            self._requests,
            information,
            self._keeper,
            self._say,
            self._limits,
            () if self._lineage is None else (self._lineage.note,),
            self._history,
            reads_again,
        )
        try:
            while (not self._stopping.is_set() or self._requests.in_flight) and not turns.wants_new_leadership:
                turns.turn()
            if self._is_done:
                turns.release()
        finally:
            self._keeper.gap(is_owner=False, is_gap=False)
            # Answers to what was asked until now belong to an ownership that has ended.
            self._requests.new_term()
            self.measures.assigned(owns=False)
            leadership.close()
            information.close()
