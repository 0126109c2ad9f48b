"""What a driver reports of its runs as lineage events: that each begins, and how it ends.

In: workers, and how they ended. Out: values for the tellers of `runtime.lineage`, one for each Kafka connection, which the
coordinators of the driver use, too. Without `lineage` in the target nothing is reported.
"""

from __future__ import annotations

from collections.abc import Callable

from framework.adapters.iceberg.tables import IcebergTables
from framework.config.spec import TargetSpec
from framework.lineage.values import RunBegan, RunEnd, RunEnded
from framework.runtime.lineage import LineageTeller, lineage_of, now_ms
from framework.runtime.pipeline.worker import PipelineWorker


class JobLineage:
    """Of one driver. A run that has begun ends once."""

    def __init__(self, target: TargetSpec, say: Callable[[str], None]) -> None:
        self._target = target
        self._say = say
        self._publishers: dict[str, LineageTeller | None] = {}
        self._open: set[str] = set()

    def of(self, connection: str, catalog: IcebergTables) -> LineageTeller | None:
        """What reports the runs and commits of a Kafka connection."""
        if connection not in self._publishers:
            self._publishers[connection] = lineage_of(self._target, connection, catalog, self._say)
        return self._publishers[connection]

    def began(self, worker: PipelineWorker, catalog: IcebergTables) -> None:
        """A run begins to read."""
        publisher = self.of(worker.plan.read.connection, catalog)
        if publisher is None:
            return
        self._open.add(worker.run_id)
        tables = worker.plan.write.tables
        named = [tables.full_name(rule.table) for rule in worker.plan.route.rules if "{" not in rule.table]
        named += [worker.plan.write.dead_letter_table] if worker.plan.write.dead_letter_table else []
        topics = tuple(sorted(worker.source.ids))
        outputs, owners = tuple(dict.fromkeys(named)), worker.plan.owners
        publisher.run(RunBegan(worker.plan.pipeline, worker.run_id, now_ms(), topics, outputs, owners))

    def ended(self, worker: PipelineWorker, end: RunEnd, code: str = "") -> None:
        """A run has ended; `code` is that of the error that ended it."""
        publisher = self._publishers.get(worker.plan.read.connection)
        if publisher is None or worker.run_id not in self._open:
            return
        self._open.discard(worker.run_id)
        report = worker.report
        name = worker.plan.pipeline
        publisher.run(RunEnded(name, worker.run_id, now_ms(), end, code, report.batches, report.accounting))

    def dropped(self) -> int:
        """How many events were not delivered."""
        return sum(publisher.dropped for publisher in self._publishers.values() if publisher is not None)

    def close(self) -> None:
        """Send what is left, for a few seconds at most."""
        for publisher in self._publishers.values():
            if publisher is not None:
                publisher.close()
