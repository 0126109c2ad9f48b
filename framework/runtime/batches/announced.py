"""What a run has announced for each table, so that its next announcement can say which batch the table must hold
already.

In: a run's own batches, what the control topic showed of earlier runs, and what the tables record. Out: by table uuid
the batch before the next one. Keeps invariant 3 visible: a table that was put back to an older state lacks that batch,
and whoever reads the log sees it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from framework.commit.events.event_types import DataWritten
from framework.commit.machine.progress.recorded import PROGRESS_PROPERTY
from framework.commit.recovery.held import recorded_of
from framework.commit.watch import Newest, batch_before
from framework.record.model import TableTarget, TaskReport
from framework.runtime.batches.batch import BatchResult, BatchScope


class AnnouncedTables:
    """Of one run of a pipeline. `taken_over`: tables may hold what is announced for them, read again for others."""

    def __init__(self, pipeline: str, control_topic_id: str, taken_over: bool) -> None:
        self._pipeline = pipeline
        self._control_topic_id = control_topic_id
        self._taken_over = taken_over
        self._own: dict[str, Newest] = {}

    def batches_before(
        self, reports: Iterable[TaskReport], seen: Mapping[str, Newest], targets: Iterable[TableTarget]
    ) -> dict[str, int]:
        """By uuid of each table that the reports have files for: the batch that was announced for it before.

        Args:
            seen: what the control topic showed, by table uuid.
            targets: the tables as they are known.
        """
        texts = {target.table_uuid: target.properties.get(PROGRESS_PROPERTY) for target in targets}
        found: dict[str, int] = {}
        for table_uuid in {table_uuid for report in reports for table_uuid, _ in report.targets.values()}:
            own = self._own.get(table_uuid)
            if own is not None and not self._taken_over:  # what it records cannot be more
                found[table_uuid] = own.batch
                continue
            progress = recorded_of(texts.get(table_uuid), self._control_topic_id, self._pipeline)
            before = batch_before(own or seen.get(table_uuid), progress)
            if before is not None:
                found[table_uuid] = before
        return found

    def remember(self, scope: BatchScope, result: BatchResult, control_offset: int) -> None:
        """A batch was announced; `control_offset` is where the log ended behind it."""
        for event in result.events:
            if isinstance(event, DataWritten):
                self._own[event.table_uuid] = Newest(control_offset, scope.batch, result.ranges, scope.base_batch)
