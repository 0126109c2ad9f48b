"""When the record at an offset was written, asked for one record at a time by whoever shows how long it waits.

In: a connection's settings and positions. Out: times. It joins no group and commits nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, TopicPartition

from framework.adapters.kafka.client import ClientLog, build, consumer_config
from framework.adapters.kafka.control.leadership import written_at_ms
from framework.adapters.kafka.control.log import READ_GROUP_ID
from framework.commit.offsets import PartitionKey

TIMEOUT_S = 5.0
# Of many records at once: what is shown must not wait for one of them.
MANY_TIMEOUT_S = 2.0

Place = tuple[PartitionKey, int]


class RecordTimes:
    """Asks with one consumer, which lives until `close`: whoever looks every few seconds makes no connection for it. What was
    found for a place stays known while it is asked for."""

    def __init__(self, settings: Mapping[str, str], committed: bool = True) -> None:
        """`committed` False: also of records whose transaction is open."""
        self._settings = settings
        self._level = "read_committed" if committed else "read_uncommitted"
        self._consumer: Consumer | None = None
        self._known: dict[Place, int] = {}

    def of(self, places: Sequence[Place], timeout_s: float = MANY_TIMEOUT_S) -> dict[Place, int]:
        """The times of the first records at or behind many places, as many as come soon. Places in one partition are asked
        one after the other."""
        wanted = list(dict.fromkeys(places))
        self._known = {place: self._known[place] for place in wanted if place in self._known}
        todo = [place for place in wanted if place not in self._known]
        limit = time.monotonic() + timeout_s
        while todo and time.monotonic() < limit:
            asked = dict(reversed(todo))  # one place of each partition
            self._ask(asked, limit)
            todo = [place for place in todo if asked.get(place[0]) != place[1]]
        return dict(self._known)

    def _ask(self, asked: Mapping[PartitionKey, int], limit: float) -> None:
        if self._consumer is None:
            config = consumer_config(
                self._settings, ClientLog(), READ_GROUP_ID, fetch_wait_max_ms=100, isolation_level=self._level
            )
            self._consumer = build(Consumer, self._settings, config)
        self._consumer.assign([TopicPartition(*key, offset) for key, offset in asked.items()])
        left = set(asked)
        try:
            while left and time.monotonic() < limit:
                message = self._consumer.poll(0.1)
                if message is None:
                    continue
                key = (str(message.topic()), int(message.partition() or 0))
                if (error := message.error()) is not None:
                    if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                        left.discard(key)  # it stays refused: who only looks need not wait for it
                elif key in left:
                    left.remove(key)
                    at_ms = written_at_ms(message)
                    if at_ms is not None:
                        self._known[key, asked[key]] = at_ms
        finally:
            self._consumer.unassign()  # it fetches nothing until it is asked again

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


def record_times_ms(
    settings: Mapping[str, str],
    places: Sequence[Place],
    timeout_s: float = MANY_TIMEOUT_S,
    committed: bool = True,
) -> dict[Place, int]:
    """As `RecordTimes.of`, once."""
    times = RecordTimes(settings, committed)
    try:
        return times.of(places, timeout_s)
    finally:
        times.close()


def record_time_ms(settings: Mapping[str, str], topic: str, partition: int, offset: int) -> int | None:
    """The time of the first record at or behind the offset; None where none came, or it has no time."""
    place = ((topic, partition), offset)
    return record_times_ms(settings, [place], TIMEOUT_S).get(place)
