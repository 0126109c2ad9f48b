"""A pipeline's word in the control topic: each batch, gap and heartbeat is one transaction with the source offsets.

In: what a batch gave and the scope that it was to cover. Out: events in the log and offsets in the group, together, or
the error that says what is known of them. Keeps invariants 1, 2 and 7: older runs are fenced before the offsets are
read, and an outcome that is not known is read back before anything else is done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from framework.adapters.host.failpoints import failpoint
from framework.adapters.iceberg.files import moment
from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.kafka.control.transactions import (
    DEAD_LETTERS_TRANSACTION_TIMEOUT_MS,
    TRANSACTION_TIMEOUT_MS,
    PipelineProducer,
)
from framework.adapters.parquet.read import read_files
from framework.commit.events.codec import MAX_EVENT_BYTES, encode
from framework.commit.events.event_types import (
    Accounting,
    ControlEvent,
    DataComplete,
    DataWritten,
    Deployed,
    Heartbeat,
    SourceRange,
)
from framework.commit.file_ages import ClockReading, stood_still
from framework.commit.offsets import Gaps, PartitionKey, SafeOffset, add_gap, current_offsets, encode_metadata
from framework.commit.read_back import AnnounceState, check_owner, read_back
from framework.diagnose.counted import counted
from framework.diagnose.log_lines import Level, LogLine
from framework.errors import FloeError, OutcomeUnknown, RetriableError
from framework.plan.model import Plan
from framework.record.dead_letters.dead_letter import DeadLetterMessage, dead_letter_messages
from framework.runtime.batches.batch import BatchResult, BatchScope
from framework.runtime.source import PipelineSource

# Well inside the shortest retention that a control topic may have, so that a live run's plan can always be found.
REPUBLISH_MS = 6 * 60 * 60 * 1000


@dataclass(frozen=True)
class Stand:
    """How far a pipeline is announced: its newest batch, the next offset of each partition, and the sum so far."""

    batch: int
    positions: Mapping[PartitionKey, int]
    totals: Accounting


class Announcer:
    """One run's producer with what goes beside each offset. One thread at a time; `start` comes first.

    `base_batch` is the batch number under which the offsets were last moved by hand, as `decide_start` says.
    """

    def __init__(
        self,
        plan: Plan,
        kafka: dict[str, str],
        source: PipelineSource,
        catalog: IcebergTables,
        run_id: str,
        say: Callable[[str], None],
    ) -> None:
        self.base_batch = 0
        self.control_offset = 0
        self.last_ms = 0
        self.phases_ms: Callable[[], dict[str, int]] = dict
        """Where the time went since the last announcement; set by whoever measures it."""
        self.stand = Stand(0, {}, Accounting())
        """As of the last announcement; replaced at the moment in which its outcome is known."""
        self._plan = plan
        self._source = source
        self._catalog = catalog
        self._run_id = run_id
        self._say = say
        self._runs = {run_id}
        self._gaps: dict[PartitionKey, Gaps] = {}
        self._deployed: Deployed | None = None
        self._deployed_at: int | None = None
        self._published_ms = 0
        dead_letters = bool(plan.write.dead_letter_topic)
        self._producer = PipelineProducer(
            kafka,
            plan.announce.transactional_id,
            plan.read.group_id,
            plan.announce.control_topic,
            transaction_timeout_ms=DEAD_LETTERS_TRANSACTION_TIMEOUT_MS if dead_letters else TRANSACTION_TIMEOUT_MS,
        )

    def start(self) -> dict[PartitionKey, SafeOffset]:
        """Fence older runs, settle an unfinished transaction, and read the safe offsets.

        Raises:
            SetupError: the broker does not answer or refuses us. StateDisagreement: an offset was not written by floe.
        """
        # Invariant 2: init_transactions comes before the offsets are read, so that no older run can move them any more.
        self._producer.start()
        group = self._source.group_offsets()
        self._runs |= {safe.run for safe in group.values()}
        self._gaps = {key: safe.gaps for key, safe in group.items()}
        newest = max(group.values(), key=lambda safe: safe.batch, default=None)
        self._deployed_at = newest.deployed_at if newest is not None else None  # until this run has published its own
        self.last_ms = now_ms()
        return group

    def claim(
        self,
        batch: int,
        positions: Mapping[PartitionKey, int],
        totals: Accounting,
        given_up: tuple[SourceRange, ...] = (),
    ) -> None:
        """Where the run stands and that it is this run, with the number of the batch before (0: none).

        The starting positions are announced when they are first decided: who begins anew goes by them, and never
        decides again. And whoever has to find out which of two runs is the newer one sees it here.

        Raises:
            FloeError: as `announce`.
        """
        ranges = self._current_ranges(positions)
        event = Heartbeat(self._plan.pipeline, self._run_id, batch, ranges, totals, given_up)
        self._once(batch, ranges, totals, lambda offsets: self._producer.announce((event,), offsets))

    def publish_plan(self, deployed: Deployed) -> None:
        """Put on record what this run runs; `tell_plan_again` repeats it every few hours.

        It goes through the transactional producer, so that a run that was fenced can never publish its older plan.
        """
        self._deployed = replace(deployed, run=self._run_id)
        if len(encode(self._deployed)) > MAX_EVENT_BYTES:
            self._say("the plan is too large for the control topic; only its hash is announced")
            self._deployed = replace(self._deployed, plan={})
        self._publish_plan()

    def republish_plan(self) -> None:
        if now_ms() - self._published_ms > REPUBLISH_MS:
            self._publish_plan()

    def _publish_plan(self) -> None:
        if self._deployed is None:
            return
        self._published_ms = now_ms()
        try:
            end = self._producer.announce((replace(self._deployed, timestamp_ms=self._published_ms),), {})
        except OutcomeUnknown:
            self._producer.recover()  # it is information: reported or not, the next time comes
        except RetriableError as error:
            self._say(LogLine(f"could not announce what runs ({error.message})", Level.WARNING))
        else:
            self._deployed_at = end - 1

    def announce(self, scope: BatchScope, result: BatchResult, begun: ClockReading | None = None) -> None:
        """A batch, once.

        Args:
            begun: before its first file was; None where it has none.

        Raises:
            RetriableError: it certainly was not announced. OutcomeUnknown: `settle` finds out.
            FencedError: another run has taken over; final. StateDisagreement: something else writes to the group.
        """
        spent = self.phases_ms()
        reported = replace(result, events=tuple(_with_phases(event, spent) for event in result.events))
        self._once(scope.batch, result.ranges, result.totals, lambda offsets: self._send(reported, offsets, begun))
        failpoint("announced")

    def _once(
        self,
        batch: int,
        ranges: tuple[SourceRange, ...],
        totals: Accounting,
        send: Callable[[dict[PartitionKey, tuple[int, str]]], object],
    ) -> None:
        # Invariant 1: the offsets are committed in the transaction that announces the files with their records.
        offsets = {(r.topic, r.partition): (r.end, self._metadata(r, batch, totals)) for r in ranges}
        try:
            send(offsets)
        except OutcomeUnknown as error:
            # Invariant 7: read back before anything else.
            text = f"outcome of batch {batch} unknown ({error.message}); reading back"
            self._say(LogLine(text, Level.WARNING, batch=batch))
            group = self._take_back(offsets)
            if read_back(self._plan.pipeline, self._run_id, batch, ranges, group) is AnnounceState.NOT_ANNOUNCED:
                send(offsets)
        self.stand = Stand(batch, {key: end for key, (end, _) in offsets.items()}, totals)
        self.last_ms = now_ms()

    def look_again(self, error: FloeError) -> dict[PartitionKey, SafeOffset]:
        """The safe offsets as they are now, after an error of a run that had not begun yet.

        Raises:
            FencedError: another run has announced since.
        """
        if isinstance(error, OutcomeUnknown):
            self._take_back(None)
        group = self._source.group_offsets(settled=False)
        check_owner(self._plan.pipeline, self._runs, group)
        self._gaps = {key: safe.gaps for key, safe in group.items()}
        return group

    def _take_back(self, keys: Iterable[PartitionKey] | None) -> dict[PartitionKey, SafeOffset]:
        """A new producer after an unknown outcome, and what the group says then.

        To take the transactional id again fences whoever has it (invariant 2). So whose run is the newest is looked at
        first: an older run that had stopped for a while ends here, and the newer one goes on.

        Raises:
            FencedError: another run has announced since.
            RetriableError: one has done so just now, and is fenced: this run goes on from where that one was.
        """
        keys = list(keys) if keys is not None else None
        seen = current_offsets(self._source.group_offsets(keys, settled=False), self.base_batch)
        check_owner(self._plan.pipeline, self._runs, seen)
        self._producer.recover()
        group = current_offsets(self._source.group_offsets(keys), self.base_batch)
        others = {safe.run for safe in group.values()} - self._runs
        if others:
            self._runs |= others
            raise RetriableError(
                f"run {', '.join(sorted(others))} of pipeline {self._plan.pipeline} began while this one was being recovered",
                code="FLOE-R122",
                place=self._plan.announce.transactional_id,
                remedy="this run goes on, and the other one ends: a pipeline can have only one run",
            )
        return group

    def announce_gaps(self, scope: BatchScope, result: BatchResult, gaps: Iterable[SourceRange]) -> None:
        """A batch of what retention removed before it was read; the gaps stand beside the offsets from now on.

        Raises:
            FloeError: as `announce`.
        """
        for gap in gaps:
            key = (gap.topic, gap.partition)
            self._gaps[key] = add_gap(self._gaps.get(key, ()), gap.start, gap.end)
        self.announce(scope, result)

    def _current_ranges(self, positions: Mapping[PartitionKey, int]) -> tuple[SourceRange, ...]:
        return tuple(
            SourceRange(topic, self._source.ids[topic], partition, at, at)
            for (topic, partition), at in sorted(positions.items())
        )

    def settle(self, error: FloeError, positions: Iterable[PartitionKey]) -> dict[PartitionKey, SafeOffset]:
        """After a failure: what the group says now, since an announcement may have gone through.

        Only an unknown outcome asks for a new producer: taking the transactional id again would fence a newer run.

        Raises:
            FencedError: another run has announced since.
        """
        if isinstance(error, OutcomeUnknown):
            group = self._take_back(positions)
        else:
            group = current_offsets(self._source.group_offsets(positions), self.base_batch)
            check_owner(self._plan.pipeline, self._runs, group)
        self._gaps = {key: safe.gaps for key, safe in group.items()}
        return group

    def close(self) -> None:
        self._producer.close()

    def _metadata(self, r: SourceRange, batch: int, totals: Accounting) -> str:
        gaps = self._gaps.get((r.topic, r.partition), ())
        return encode_metadata(r.topic_id, batch, totals, self._run_id, self.base_batch, gaps, self._deployed_at)

    def _send(
        self, result: BatchResult, offsets: dict[PartitionKey, tuple[int, str]], begun: ClockReading | None = None
    ) -> None:
        """One transaction; the dead letters for a topic are read from the files that it announces for their table."""
        # Invariant 12: files that are not announced yet are orphans once they are old, so a run that slept looks first.
        if begun is not None and stood_still(begun, moment()):
            self._check_files(result)
        write = self._plan.write
        dead_letters: Iterable[DeadLetterMessage] = ()
        if write.dead_letter_topic:
            paths = [
                file.path
                for event in result.events
                if isinstance(event, DataWritten) and event.table == write.dead_letter_table
                for file in event.files
            ]
            if paths:
                self._source.check_dead_letter_topic(RetriableError)
            settings = self._catalog.io_properties_of(write.dead_letter_table or "") if paths else {}
            batches = read_files(settings, paths)
            dead_letters = (dead_letter for batch in batches for dead_letter in dead_letter_messages(batch))
        self.control_offset = self._producer.announce(
            result.events, offsets, dead_letters, write.dead_letter_topic or ""
        )

    def _check_files(self, result: BatchResult) -> None:
        """Raises RetriableError where a file is gone: the batch is done again, from the offsets where it began."""
        for event in result.events:
            if not isinstance(event, DataWritten):
                continue
            if missing := self._catalog.missing_files(event.table, event.paths):
                raise RetriableError(
                    f"{counted(len(missing), 'file')} of batch {event.batch} went as orphans before it was announced, such as "
                    f"{missing[0]}",
                    code="FLOE-R122",
                    place=self._plan.announce.transactional_id,
                    remedy="the batch is done again by itself; find out why the run stood still for so long",
                )


def _with_phases(event: ControlEvent, spent: dict[str, int]) -> ControlEvent:
    return replace(event, phase_ms=spent) if isinstance(event, DataComplete) else event


def now_ms() -> int:
    return int(time.time() * 1000)
