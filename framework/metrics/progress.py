"""Whether a run gets on: its phases with their times, and the state of one that has made no progress for too long.

In: phases as they begin, and the clock. Out: a Progress, which is never changed in place; a Stall where the time is up.
The time is that of the phase, not of the batch: a long batch that goes through its phases is well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from framework.commit.events.event_types import Health
from framework.commit.machine.reporting.condition import Condition
from framework.commit.machine.reporting.health import STALLED_BATCH, STALLED_BATCH_REMEDY
from framework.metrics.figures import RunPhase, Stall

_WHERE = {
    RunPhase.STARTING: "Spark is being started",
    RunPhase.WAITING: "the source is being looked at",
    RunPhase.PLANNING: "Spark has a batch and has not begun it",
    RunPhase.TABLES: "the tables of a batch are being looked at or changed",
    RunPhase.WRITING: "the tasks of a batch are at work and none ends",
    RunPhase.ANNOUNCING: "a batch is being announced",
    RunPhase.RETRYING: "a batch failed, and the next attempt does not begin",
}


@dataclass(frozen=True)
class Progress:
    """`progress_ms`: when something last happened; `began_ms`: when the phase began; `seconds`: of phases that are
    over."""

    phase: RunPhase
    began_ms: int
    progress_ms: int
    batch: int = 0
    seconds: Mapping[RunPhase, float] = field(default_factory=dict)

    def enter(self, phase: RunPhase, now_ms: int, batch: int | None = None) -> Progress:
        """Another phase begins, of a batch if one is named."""
        spent = self.seconds.get(self.phase, 0.0) + max(0, now_ms - self.began_ms) / 1000
        seconds = {**self.seconds, self.phase: spent}
        return Progress(phase, now_ms, now_ms, self.batch if batch is None else batch, seconds)

    def got_on(self, now_ms: int) -> Progress:
        """Something happened within the phase."""
        return replace(self, progress_ms=now_ms)

    def seconds_at(self, now_ms: int) -> dict[RunPhase, float]:
        """Of all phases, the present one so far among them."""
        return dict(self.enter(self.phase, now_ms).seconds)

    def stall(self, now_ms: int, after_ms: int) -> Stall | None:
        """Where it stands still, if nothing happened for `after_ms`."""
        if self.phase is RunPhase.ENDED or now_ms - self.progress_ms < after_ms:
            return None
        return Stall(self.phase, self.progress_ms)


def stalled_condition(progress: Progress, stall: Stall, since_ms: int) -> Condition:
    """The stall as `floe status` says it; `since_ms`: when it began, by the clock on the wall."""
    batch = (
        f"batch {progress.batch}, "
        if progress.batch and stall.phase not in (RunPhase.STARTING, RunPhase.WAITING)
        else ""
    )
    reason = f"no progress: {batch}phase {stall.phase.value}: {_WHERE[stall.phase]}"
    return Condition(Health.STALLED, reason, STALLED_BATCH_REMEDY, STALLED_BATCH, since_ms)
