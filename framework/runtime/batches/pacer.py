"""What a run does next and how far its next batch goes, with what it has to remember for that; owned by the pacing
thread.

In: positions, the source as it is, the clock, and what batches made of their records. Out: a Turn. The rules are those
of `framework.commit.pacing`; nothing here touches the world.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from framework.commit.offsets import PartitionFacts, PartitionKey, plan_ends
from framework.commit.pacing import BatchBefore, Pace, PaceFacts, decide_pace, records_in_batch
from framework.commit.recovery.held import next_cut
from framework.plan.model import Plan
from framework.plan.pace import pace_rules
from framework.runtime.batches.handover import AnnouncedBatch

Ends = Mapping[PartitionKey, int]


@dataclass(frozen=True)
class BatchDecision:
    """What to do now; for a batch the source offsets at which it ends."""

    pace: Pace
    ends: Ends


class BatchPacer:
    """Of one run. `wanted_ends`: it reads to these and then ends; None: it goes on."""

    def __init__(self, plan: Plan) -> None:
        self.wanted_ends: Ends | None = None
        self._rules = pace_rules(plan)
        self._held: tuple[Ends, ...] = ()
        self._backlog = 0
        self._bytes_per_record = 0.0
        self._before: BatchBefore | None = None
        self._was_cut = False
        self._last_batch_ms: int | None = None
        self._last_records = 0
        self._most: int | None = None

    @property
    def has_an_end(self) -> bool:
        return self.wanted_ends is not None

    @property
    def is_idle(self) -> bool:
        """Whether there was nothing to read when the source was looked at last."""
        return not self._backlog

    def hold_to(self, held: tuple[Ends, ...]) -> None:
        """A batch must not go beyond any of these ends that lies ahead: some table holds everything up to there."""
        self._held = held

    def begin_query(self) -> None:
        """The first batch of a query is due at once."""
        self._last_batch_ms = None

    def learn(self, batch: AnnouncedBatch) -> None:
        """What a batch made of its records says how large the next one may be."""
        records = batch.result.accounting.offsets - batch.result.accounting.holes
        if records:
            self._bytes_per_record = batch.result.bytes / records
            self._before = BatchBefore(records, batch.result.files, batch.seconds, batch.result.sent_bytes)

    def make_smaller(self) -> None:
        """The newest batch took longer than the keys live that it was given: from now on batches have half of its records."""
        self._most = max(1, self._last_records // 2)

    def see(self, positions: Ends, facts: Mapping[PartitionKey, PartitionFacts]) -> Ends:
        """Look at what waits; returns how far reading may go."""
        self._backlog = sum(max(0, fact.log_end - positions[key]) for key, fact in facts.items())
        ends = self.wanted_ends or {key: fact.log_end for key, fact in facts.items()}
        cut = next_cut(positions, self._held)
        return ends if cut is None else {key: min(end, cut.get(key, end)) for key, end in ends.items()}

    def decide(
        self, positions: Ends, ends: Ends, now_ms: int, last_announce_ms: int, is_draining: bool, is_held: bool
    ) -> BatchDecision:
        """What to do now; a batch counts as begun."""
        backlog = sum(max(0, ends.get(key, at) - at) for key, at in positions.items())
        facts = PaceFacts(
            now_ms=now_ms,
            backlog=backlog,
            bytes_per_record=self._bytes_per_record,
            last_batch_ms=self._last_batch_ms,
            last_announce_ms=last_announce_ms,
            bounded=self.has_an_end,
            draining=is_draining,
            paused=is_held,
            was_cut=self._was_cut,
        )
        pace = decide_pace(self._rules, facts)
        if pace is not Pace.BATCH:
            return BatchDecision(pace, {})
        cap = records_in_batch(self._rules, self._before)
        if self._most is not None:
            cap = min(cap, self._most)
        self._last_records = min(cap, backlog)
        self._last_batch_ms, self._was_cut = now_ms, backlog > cap
        return BatchDecision(pace, plan_ends(positions, ends, cap))
