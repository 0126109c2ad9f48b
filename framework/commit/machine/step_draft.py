"""The working copy of one call of `step`: a draft of the next state, and the effects asked for so far.

In: a state. Out: the next one. The state it was made from stays as it was: the draft is a copy, which belongs to the
turn until `done`; a dictionary is copied before its first change; everything deeper is replaced. Nothing of a Turn
outlives its call. The draft is changed in place because a state has many fields and an input changes several of them
one by one.
"""

from __future__ import annotations

from typing import Any

from framework.commit.machine.changed import changed
from framework.commit.machine.effects import Effect
from framework.commit.machine.model import CommitRequest, CoordinatorState, PipelineState, TablePhase, TableState

_COMMITTING = TablePhase.COMMITTING


class StepDraft:
    """A draft of the state after one input, at `now_ms`. `state` always shows it as far as it has come."""

    def __init__(self, state: CoordinatorState, now_ms: int) -> None:
        self.state = changed(state)
        self.now_ms = now_ms
        self.effects: list[Effect] = []
        self._owned: set[str] = set()

    def set(self, **changes: Any) -> None:
        """Set fields of the draft other than its dictionaries of tables, pipelines and requests."""
        self.state.__dict__.update(changes)  # frozen for everybody else

    def put_table(self, table: TableState) -> None:
        before = self.state.tables.get(table.table)
        files = table.pending_files - (before.pending_files if before is not None else 0)
        committing = (table.phase is _COMMITTING) - (before is not None and before.phase is _COMMITTING)
        self._own("tables")
        if files or committing:
            self.set(pending_files=self.state.pending_files + files, committing=self.state.committing + committing)
        self.state.tables[table.table] = table

    def put_queue(self, table_uuid: str, name: str) -> None:
        self._own("queues")
        self.state.queues[table_uuid] = name

    def put_pipeline(self, pipeline: PipelineState) -> None:
        self._own("pipelines")
        self.state.pipelines[pipeline.pipeline] = pipeline

    def put_request(self, request: CommitRequest) -> None:
        self._own("requests")
        self.state.requests[request.request_id] = request

    def drop_request(self, request_id: str) -> None:
        if request_id in self.state.requests:
            self._own("requests")
            del self.state.requests[request_id]

    def emit(self, effect: Effect) -> None:
        self.effects.append(effect)

    def done(self) -> tuple[CoordinatorState, tuple[Effect, ...]]:
        """The next state and what it asks for. The draft must not be changed after this."""
        return self.state, tuple(self.effects)

    def _own(self, name: str) -> None:
        if name not in self._owned:
            self._owned.add(name)
            self.set(**{name: dict(getattr(self.state, name))})
