"""What people ask of running pipelines and coordinators through the control topic: pauses, and runs to stop.

In: an event that asks. Out: the event in the log, and, for a stop, what came of it, followed in the log until the run
has published its last state. Nothing here reaches a process directly: whoever runs or coordinates, wherever, reads the log.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeGuard

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.log import ControlPublisher, ControlReader
from framework.commit.events.event_types import ControlEvent, Health, PauseChanged, StateChanged, StopRequested, Subject
from framework.errors import DeadlinePassed
from framework.observe.liveness import live_members
from framework.observe.status.control_log import ControlLog, read_control_log
from framework.plan.compile import coordinator_group

POLL_S = 0.5
ASKED_S = 300.0  # a run that has not seen a request by then does not heed it
LAST_REPORT_S = 5.0  # a word that was said is visible by then


def say_pause(kafka: dict[str, str], prefix: str, control_topic: str, event: PauseChanged) -> bool:
    """Write a pause, or its end, to the log; False when that is how it stands already, and nothing was written."""
    admin = KafkaAdmin(kafka)
    log = read_control_log(admin, kafka, control_topic, coordinator_group(prefix, control_topic), None)
    known = log.state.pauses.get((event.holds, event.pattern))
    if (known is not None and known.event.paused) == event.paused:
        return False
    publisher = ControlPublisher(kafka, control_topic)
    try:
        publisher.publish((event,))
    finally:
        publisher.close()
    return True


def ask_to_stop(kafka: dict[str, str], prefix: str, control_topic: str, pipeline: str, by: str, why: str = "") -> bool:
    """Ask the live run of a pipeline to drain, and wait for nothing; False where no run is live."""
    if not any(member.run for member in live_members(KafkaAdmin(kafka), prefix, pipeline)):
        return False
    publisher = ControlPublisher(kafka, control_topic)
    try:
        publisher.publish((StopRequested(uuid.uuid4().hex, pipeline, int((time.time() + ASKED_S) * 1000), by, why),))
    finally:
        publisher.close()
    return True


@dataclass(frozen=True)
class StopOutcome:
    """`runs` were live when they were asked; none: there was nothing to stop. `state` is what the last of them reported."""

    runs: tuple[str, ...]
    state: Health | None
    reason: str
    code: str
    remedy: str


def stop_pipeline(
    kafka: dict[str, str],
    prefix: str,
    control_topic: str,
    pipeline: str,
    timeout_s: float,
    by: str,
    show: Callable[[int, ControlEvent], None],
    why: str = "",
) -> StopOutcome:
    """Ask the live run of a pipeline to drain, and follow the log until it has ended.

    Raises:
        DeadlinePassed: it has not ended in time; it does not heed the request any more either, if it has not seen it
            yet.
    """
    admin = KafkaAdmin(kafka)
    group = coordinator_group(prefix, control_topic)
    runs = tuple(m.run for m in live_members(admin, prefix, pipeline) if m.run)
    if not runs:
        return StopOutcome((), None, "no run is live", "", "")
    reader = ControlReader(kafka, control_topic)
    publisher = ControlPublisher(kafka, control_topic)
    limit = time.monotonic() + timeout_s
    request = StopRequested(uuid.uuid4().hex, pipeline, int((time.time() + timeout_s) * 1000), by, why)
    try:
        reader.seek(reader.end_offset())
        publisher.publish((request,))
        gone_at: float | None = None
        while time.monotonic() < limit:
            for offset, event in reader.poll(POLL_S):
                if event is None:
                    continue
                show(offset, event)
                if _is_last_report(event, pipeline, runs):
                    return _ended(runs, event)
            if gone_at is None and not live_members(admin, prefix, pipeline):
                gone_at = time.monotonic()
            if gone_at is not None and time.monotonic() > gone_at + LAST_REPORT_S:
                return _said_before(read_control_log(admin, kafka, control_topic, group, None), pipeline, runs)
    finally:
        reader.close()
        publisher.close()
    raise DeadlinePassed(
        f"pipeline {pipeline} has not ended within {timeout_s:.0f} s: run {', '.join(runs)}",
        place=control_topic,
        remedy="the current batch may take longer: ask again with a longer --timeout; `floe status` shows what it does",
    )


def _ended(runs: tuple[str, ...], report: StateChanged) -> StopOutcome:
    return StopOutcome(runs, report.state, report.reason, report.code, report.remedy)


def _said_before(log: ControlLog, pipeline: str, runs: tuple[str, ...]) -> StopOutcome:
    """A run that ends by itself is a member of its group for a while after its last report: who asks it to stop then hears
    nothing more of it, and the log has it."""
    for report in reversed(log.reports.get(pipeline, {}).values()):
        if _is_last_report(report, pipeline, runs):
            return _ended(runs, report)
    return StopOutcome(runs, None, "the run has ended without a word", "FLOE-R138", "")


def _is_last_report(event: ControlEvent, pipeline: str, runs: tuple[str, ...]) -> TypeGuard[StateChanged]:
    return (
        isinstance(event, StateChanged)
        and (event.subject, event.name) == (Subject.PIPELINE, pipeline)
        and event.by in runs
        and event.state in (Health.STOPPED, Health.FAILED)
    )
