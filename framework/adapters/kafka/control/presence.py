"""A live run shows itself: it is a member of its pipeline's consumer group, and reads nothing through it.

In: a connection's settings, the group, the source topics and the run's name. Out: a membership that ends with the
process, six seconds after its death at the latest. Ordinary tools then show the run as the group's consumer, and the
broker itself refuses to move or delete the offsets of a group with members. Decides nothing; `runtime.liveness` asks
for the members.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, TopicPartition

from framework.adapters.kafka.client import ClientLog, build, consumer_config
from framework.adapters.kafka.control.leadership import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS

log = logging.getLogger(__name__)

RUN_CLIENT_ID = "floe-run."
AGAIN_AFTER_S = 5.0
_POLL_S = 0.2


class Presence:
    """Membership of one run. Joins at once, leaves with `close`; serves itself in a thread of its own.

    It only reports; it guards nothing. That one run alone can announce is kept by the transactional id (invariant 2), so
    a membership that could not be had, or was lost in an outage, does no harm and is taken up again by itself.
    """

    def __init__(self, settings: Mapping[str, str], group_id: str, topics: Sequence[str], run_id: str) -> None:
        self._settings = settings
        self._group_id = group_id
        self._run_id = run_id
        self._topics = list(topics)
        self._consumer: Consumer | None = self._new_consumer()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="presence", daemon=True)
        self._thread.start()

    def _new_consumer(self) -> Consumer:
        return build(
            Consumer,
            self._settings,
            consumer_config(
                {**self._settings, "client.id": f"{RUN_CLIENT_ID}{self._run_id}"},
                ClientLog(),
                self._group_id,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
                partition_assignment_strategy="range",
            ),
        )

    def close(self) -> None:
        """Leave the group, so that everybody sees at once that the run has ended."""
        self._closing.set()
        self._thread.join()

    def _serve(self) -> None:
        reported = False
        while not self._closing.is_set():
            try:
                self._be_a_member()
            except Exception as error:  # whatever it is: the membership is taken up again, with a client made anew
                if not reported:
                    log.warning("this run is not a visible member of its consumer group for now: %s", error)
                reported = True
                self._leave()
                self._closing.wait(AGAIN_AFTER_S)
        self._leave()

    def _be_a_member(self) -> None:
        if self._consumer is None:
            self._consumer = self._new_consumer()
        self._consumer.subscribe(self._topics, on_assign=_take_nothing)
        while not self._closing.is_set():
            # Nothing is assigned, so what comes are errors of the connection, which others of this run report too.
            self._consumer.poll(_POLL_S)

    def _leave(self) -> None:
        consumer, self._consumer = self._consumer, None
        try:
            if consumer is not None:
                consumer.close()
        except Exception as error:  # the session time-out ends it then
            log.warning("this run could not leave its consumer group: %s", error)


def _take_nothing(consumer: Consumer, partitions: list[TopicPartition]) -> None:
    """The group's offsets are moved in transactions only; this member fetches and commits nothing."""
    consumer.assign([])
