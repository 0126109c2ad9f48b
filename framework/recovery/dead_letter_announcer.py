"""A replay of dead letters in the control topic: it takes its place, announces its batches, and has them committed.

In: the plan of the replay and what its batches gave. Out: events under the replay's own transactional id, and commits
by a coordinator of its own. Keeps invariants 2 and 7: older replays are fenced first, a replay that a newer one has
fenced announces nothing more, and an outcome that is not known is read back before anything else is done.
"""

from __future__ import annotations

from collections.abc import Iterable

from framework.adapters.host.failpoints import failpoint
from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.topic import ensure_control_topic
from framework.adapters.kafka.control.transactions import PipelineProducer
from framework.commit.events.event_types import CommitComplete, DataComplete, Heartbeat
from framework.diagnose.counted import counted
from framework.errors import FencedError, OutcomeUnknown, TableBlocked
from framework.plan.model import Plan
from framework.runtime.batches.batch import BatchResult
from framework.runtime.coordinator.thread import Coordinator
from framework.runtime.job import COMMIT_DEADLINE_S, Say, ask_commit
from framework.runtime.source import newest_link


class DeadLetterAnnouncer:
    """Of one replay. `original` is the pipeline whose letters they are; `plan` is the replay's. `start` comes first."""

    def __init__(
        self, original: str, plan: Plan, kafka: dict[str, str], own_id: str, catalog: IcebergTables, run: str, say: Say
    ) -> None:
        self._original = original
        self._pipeline = plan.pipeline
        self._kafka = kafka
        self._control_topic = plan.announce.control_topic
        self._run = run
        self._runs = {run}  # this one, and the one that had announced last when it began
        self._say = say
        self._producer = PipelineProducer(kafka, own_id, own_id, self._control_topic)
        self._coordinator = Coordinator(
            kafka, plan.commit.coordinator_group, self._control_topic, catalog, lambda text: say(f"coordinator: {text}")
        )

    def start(self) -> str:
        """Fence older replays; the id of the control topic."""
        topic_id = ensure_control_topic(KafkaAdmin(self._kafka), self._control_topic).topic_id
        # Invariant 2: older replays are fenced before anything of theirs is looked at.
        self._producer.start()
        self._coordinator.start()
        return topic_id

    def close(self, is_done: bool = False) -> None:
        self._coordinator.stop(is_done)
        self._producer.close()

    def adopt_newest(self) -> DataComplete | Heartbeat | None:
        """What earlier replays announced last; whose it is counts as ours from now on."""
        link = self._newest()
        if link is not None:
            self._runs.add(link.run)
        return link

    def announce(self, batch: BatchResult, number: int) -> None:
        """Invariant 1, for a source that is no topic: rows, marks and the end of the batch in one transaction.

        Raises:
            FencedError: another replay of the pipeline was started meanwhile.
        """
        try:
            self._producer.announce(batch.events, {})
        except OutcomeUnknown as error:
            # Invariant 7: read back before anything else. Once we have recovered, it is decided.
            self._say(f"outcome of batch {number} unknown ({error.message}); reading back")
            # Invariant 2: to recover would fence a newer replay, so whose is the newest is looked at first.
            self._refuse_newer(self._newest())
            self._producer.recover()
            link = self._newest()
            self._refuse_newer(link)
            if link is None or (link.run, link.batch) != (self._run, number):
                self._producer.announce(batch.events, {})
        failpoint("announced")

    def ask_commit(self) -> CommitComplete:
        """Have everything committed that is announced by now.

        Raises:
            DeadlinePassed, FloeError: as `framework.runtime.job.ask_commit`.
        """
        return ask_commit(self._kafka, self._control_topic, COMMIT_DEADLINE_S, self._coordinator, self._pipeline)

    def commit(self, tables: Iterable[str]) -> None:
        """The same for what this replay announced for `tables`.

        Raises:
            TableBlocked: one of them is blocked.
        """
        answer = self.ask_commit()
        blocked = answer.blocked
        mine = sorted(set(tables) & set(blocked))
        if not mine and answer.more_blocked:
            mine, blocked = (
                ["one of many"],
                {"one of many": counted(len(blocked) + answer.more_blocked, "table waits", "tables wait")},
            )
        if mine:
            raise TableBlocked(
                f"{counted(len(mine), 'table is', 'tables are')} blocked; the first is {mine[0]}: {blocked[mine[0]]}",
                place=mine[0],
                remedy="the letters are committed once the table is free again; do not replay them by hand",
            )

    def _newest(self) -> DataComplete | Heartbeat | None:
        return newest_link(self._kafka, self._control_topic, self._pipeline)

    def _refuse_newer(self, link: DataComplete | Heartbeat | None) -> None:
        if link is not None and link.run not in self._runs:
            raise FencedError(
                f"a newer replay of the dead letters of {self._original} has started ({link.run}); this one ends",
                place=self._original,
                remedy="only one replay of a pipeline's dead letters can run at a time; let the newer one finish",
            )
