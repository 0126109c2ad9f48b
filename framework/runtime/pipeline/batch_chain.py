"""A run's chain of batches: where each one starts and which number it has; owned by the thread that paces the run.

In: what the source, the group and announced batches say. Out: the scope of the next batch; heartbeats, and gaps as
batches of their own. Keeps invariant 2: a batch starts where the one before ended, and its number follows that one's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from framework.commit.events.event_types import SourceRange
from framework.commit.offsets import PartitionFacts, PartitionKey, check_still_readable, find_gaps, first_position
from framework.diagnose.log_lines import Level, LogLine
from framework.errors import FloeError
from framework.plan.model import Plan
from framework.runtime.batches.announcer import Announcer, Stand, now_ms
from framework.runtime.batches.batch import BatchScope, summarise_gaps
from framework.runtime.batches.handover import AnnouncedBatch
from framework.runtime.pipeline.begin import Begun
from framework.runtime.pipeline.pipeline_state import PipelineRunStatus
from framework.runtime.pipeline.worker_report import WorkerReport
from framework.runtime.source import PipelineSource


class BatchChain:
    """Of one run. `positions` are the next source offsets; `begin` comes first."""

    def __init__(
        self,
        plan: Plan,
        run_id: str,
        source: PipelineSource,
        announcer: Announcer,
        run_status: PipelineRunStatus,
        report: WorkerReport,
        say: Callable[[str], None],
    ) -> None:
        self.positions: dict[PartitionKey, int] = {}
        self._plan = plan
        self._run_id = run_id
        self._source = source
        self._announcer = announcer
        self._run_status = run_status
        self._report = report
        self._say = say
        self._batch = 0
        self._given_up: tuple[SourceRange, ...] = ()

    def begin(self, begun: Begun) -> None:
        self.positions, self._batch, self._given_up = begun.positions, begun.batch, begun.given_up
        self._announcer.stand = Stand(begun.batch, dict(begun.positions), begun.totals)
        self._report.totals = begun.totals

    def look(self) -> dict[PartitionKey, PartitionFacts] | None:
        """The source as it is now, checked, with new partitions begun; None when a gap was recorded instead.

        Raises:
            DataLossError, StateDisagreement: a position no longer fits its log.
        """
        facts = self._source.facts()
        policy = self._plan.read.on_data_loss
        new = [key for key in facts if key not in self.positions]
        for key in new:
            # A partition that appeared while running is read at once; no restart is needed.
            self.positions[key] = first_position(self._plan.pipeline, key, facts[key], self._given_up, policy)
        check_still_readable(self._plan.pipeline, self.positions, self._source.ids, facts, policy)
        if new:
            left = tuple(r for r in self._given_up if (r.topic, r.partition) not in self.positions)
            self._batch += left != self._given_up  # a number of its own; see `StartPoint.claimed_batch`
            self._given_up = left
            self._claim()
        gaps = find_gaps(self.positions, facts)
        if gaps:
            self._record_gaps(gaps)
            return None
        return facts

    def next_scope(self, ends: Mapping[PartitionKey, int]) -> BatchScope:
        """The next batch, from the present positions to `ends`."""
        self._batch += 1
        return BatchScope(
            self._run_id,
            self._batch,
            dict(self.positions),
            ends,
            dict(self._source.ids),
            self._announcer.base_batch,
            self._given_up,
            now_ms(),
        )

    def advance(self, batch: AnnouncedBatch) -> None:
        """A batch is announced: the next one starts where it ends."""
        self.positions = dict(batch.scope.ends)
        self._run_status.announced(batch.scope.batch)
        self._report.add(batch.result, batch.control_offset)

    def heartbeat(self, is_idle: bool) -> None:
        """Announces that this run is alive, and where it stands. A number of its own says besides that there was
        nothing to read; a run that is held says no such thing. An idle partition's offset would expire: all are
        committed again."""
        self._announcer.republish_plan()
        if is_idle:
            self._batch += 1
        self._claim()

    def settle(self, error: FloeError) -> None:
        """After a failure: positions from the group, since an announcement may have gone through.

        Raises:
            FencedError: another run has announced since.
        """
        group = self._announcer.settle(error, self.positions)
        if group:
            self.positions.update({key: safe.offset for key, safe in group.items()})
            newest = max(group.values(), key=lambda safe: safe.batch)
            if newest.run == self._run_id:
                self._run_status.awaits(newest.batch)
            self._report.totals = newest.totals
        # Invariant 2: the number of a batch that was not announced is used again; a number left out breaks the chain.
        self._batch = newest.batch if group else 0
        self._announcer.stand = Stand(self._batch, dict(self.positions), self._report.totals)

    @property
    def batch(self) -> int:
        """The number of the newest batch that was begun."""
        return self._batch

    def _claim(self) -> None:
        self._announcer.claim(self._batch, self.positions, self._report.totals, self._given_up)

    def _record_gaps(self, gaps: tuple[SourceRange, ...]) -> None:
        """Announce what retention removed before it was read as a batch of its own, so that the chain goes on behind it
        and the sum of invariant 8 names it."""
        scope = self.next_scope(self.positions | {(gap.topic, gap.partition): gap.end for gap in gaps})
        result = summarise_gaps(self._plan, scope, gaps, self._report.totals)
        self._announcer.announce_gaps(scope, result, gaps)
        self.advance(AnnouncedBatch(scope, result, self._announcer.control_offset))
        for gap in gaps:
            text = (
                f"batch {scope.batch}: records {gap.start:,} to {gap.end - 1:,} of {gap.topic}-{gap.partition} were "
                "removed by retention before they were read; recorded as lost (on_data_loss: skip_and_record)"
            )
            self._say(LogLine(text, Level.WARNING, batch=scope.batch))
