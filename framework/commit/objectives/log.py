"""Objectives of the pipelines of a control log, folded by somebody who only looks.

In: the log's events in order, each with its time. Out: the budgets of each pipeline whose newest run reported objectives. A
pipeline is measured from the moment at which a run reported them, and anew when they become others.
"""

from __future__ import annotations

from framework.commit.events.event_types import (
    CommitComplete,
    CommitToTable,
    ControlEvent,
    DataComplete,
    DataWritten,
    Deployed,
    Discarded,
    Heartbeat,
    OffsetsSet,
)
from framework.commit.machine.progress.chain import says_all_is_read
from framework.commit.objectives.budget import Budget, ObjectiveHistory
from framework.config.values.objectives import NO_OBJECTIVES, Objectives, objectives_in


def objectives_of(deployed: Deployed) -> Objectives:
    """The objectives that a run reported."""
    plan = deployed.plan.get("plan")
    announce = plan.get("announce") if isinstance(plan, dict) else None
    return objectives_in(announce.get("objectives")) if isinstance(announce, dict) else NO_OBJECTIVES


class ObjectiveLog:
    """Of all pipelines of a log. `hear` by one thread at a time."""

    def __init__(self) -> None:
        self._histories: dict[str, ObjectiveHistory] = {}
        self._links: dict[str, DataComplete | Heartbeat] = {}
        self._waiting: dict[str, dict[str, int]] = {}  # by pipeline and table uuid the newest announcement that waits

    def budgets(self, pipeline: str, now_ms: int) -> tuple[Budget, ...]:
        """None where the newest run reported no objectives, or no run reported any in what was read."""
        history = self._histories.get(pipeline)
        return history.budgets(now_ms) if history is not None else ()

    def hear(self, offset: int, event: ControlEvent | None, at_ms: int | None) -> None:
        """One more event of the log."""
        if isinstance(event, Deployed):
            self._deployed(event)
        elif isinstance(event, DataWritten):
            self._waiting.setdefault(event.pipeline, {})[event.table_uuid] = offset
        elif isinstance(event, CommitToTable):
            self._forget(event.control_offset, (event.table_uuid,))
        elif isinstance(event, Discarded):
            self._forget(event.below, event.table_uuids, event.first)
        elif isinstance(event, CommitComplete):
            self._forget(event.low_water)
            for name, through_ms in event.valid_through_ms.items():
                self._reach(name, at_ms, through_ms)
        elif isinstance(event, DataComplete):
            history = self._histories.get(event.pipeline)
            if history is not None and at_ms is not None:
                history.add(at_ms, event.accounting)
            self._links[event.pipeline] = event
        elif isinstance(event, Heartbeat):
            link = self._links.get(event.pipeline)
            # A run that reads everything and whose tables have it is fresh, however long ago the newest record came.
            if link is not None and says_all_is_read(link, event) and not self._waiting.get(event.pipeline):
                self._reach(event.pipeline, at_ms, at_ms or 0)
            self._links[event.pipeline] = event
        elif isinstance(event, OffsetsSet):
            self._links.pop(event.pipeline, None)

    def _deployed(self, event: Deployed) -> None:
        objectives, history = objectives_of(event), self._histories.get(event.pipeline)
        if history is not None and history.objectives == objectives:
            return
        self._histories.pop(event.pipeline, None)
        if objectives != NO_OBJECTIVES:
            self._histories[event.pipeline] = ObjectiveHistory(objectives)

    def _reach(self, pipeline: str, at_ms: int | None, through_ms: int) -> None:
        history = self._histories.get(pipeline)
        if history is not None and at_ms is not None:
            history.reach(at_ms, through_ms)

    def _forget(self, below: int, tables: tuple[str, ...] = (), first: int = 0) -> None:
        """What was announced there waits no more: of these tables, or of all."""
        for waiting in self._waiting.values():
            for uuid in tables or tuple(waiting):
                if first <= waiting.get(uuid, -1) < below:
                    del waiting[uuid]
