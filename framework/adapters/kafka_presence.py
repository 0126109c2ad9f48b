"""A live run shows itself: it is a member of its pipeline's consumer group, and reads nothing through it.

In: a connection's settings, the group, the source topics and the run's name. Out: a membership that ends with the process,
six seconds after its death at the latest. Ordinary tools then show the run as the group's consumer, and the broker itself
refuses to move or delete the offsets of a group with members. Decides nothing; `runtime.liveness` asks for the members.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaException, TopicPartition

from framework.adapters.kafka_client import ClientLog, build, consumer_config
from framework.adapters.kafka_seat import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS

log = logging.getLogger(__name__)

RUN_CLIENT_ID = "floe-run."
_POLL_S = 0.2


class Presence:
    """Membership of one run. Joins at once, leaves with `close`; serves itself in a thread of its own.

    It only tells; it guards nothing. That one run alone can announce is kept by the transactional id (invariant 2), so a
    membership that could not be had, or was lost in an outage, does no harm and is taken up again by itself.
    """

    def __init__(self, settings: Mapping[str, str], group_id: str, topics: Sequence[str], run_id: str) -> None:
        named = {**settings, "client.id": f"{RUN_CLIENT_ID}{run_id}"}
        self._consumer = build(
            Consumer,
            settings,
            consumer_config(
                named,
                ClientLog(),
                group_id,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
                partition_assignment_strategy="range",
            ),
        )
        self._topics = list(topics)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="presence", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Leave the group, so that everybody sees at once that the run has ended."""
        self._closing.set()
        self._thread.join()

    def _serve(self) -> None:
        try:
            self._consumer.subscribe(self._topics, on_assign=_take_nothing)
            while not self._closing.is_set():
                # Nothing is assigned, so what comes are errors of the connection, which others of this run report too.
                self._consumer.poll(_POLL_S)
        except KafkaException as raised:
            log.warning("this run is not shown as a member of its consumer group: %s", raised)
        finally:
            self._consumer.close()


def _take_nothing(consumer: Consumer, partitions: list[TopicPartition]) -> None:
    """The group's offsets are moved in transactions only; this member fetches and commits nothing."""
    consumer.assign([])
