"""Reads and appends to the control topic outside of transactions of a pipeline.

In: a connection's settings and the topic's name. Out: committed events with their offsets, in log order; or, for the
publisher, events appended at least once. Keeps invariant 6's ground rule: a position outside the log is an error, never
a jump to an end of it. The coordinator's own reader is `kafka_seat`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.client import (
    CONNECT_TIMEOUT_S,
    ClientLog,
    address_of,
    build,
    client_config,
    consumer_config,
    error_of,
    is_passing,
    setup_error,
)
from framework.adapters.kafka.control.leadership import (
    LOST,
    CoordinatorLeadership,
    LeadershipAssigned,
    LeadershipRead,
    LeadershipRevoked,
    LeadershipUpdate,
    LogEndReached,
    lost_position,
    written_at_ms,
)
from framework.adapters.kafka.control.records import ControlRecords
from framework.commit.events.codec import encode
from framework.commit.events.event_types import ControlEvent
from framework.commit.machine.effects import Read
from framework.errors import RetriableError

__all__ = [
    "ControlPublisher",
    "ControlReader",
    "CoordinatorLeadership",
    "LeadershipAssigned",
    "LeadershipRead",
    "LeadershipRevoked",
    "LeadershipUpdate",
    "LogEndReached",
]

READ_GROUP_ID = "floe-control-reader"
STALL_TIMEOUT_S = 30.0
PUBLISH_TIMEOUT_S = 30.0
_POLL_RECORDS = 1000
T = TypeVar("T")


class RawRecord(NamedTuple):
    """A record that nobody has decoded yet."""

    offset: int
    value: bytes
    timestamp_ms: int | None
    leader_epoch: int | None


class ControlReader:
    """A reader that belongs to no group and commits nothing. Call `seek` first. Not for use by several threads.

    Args:
        only: the type of events that are wanted; all others are given as None, without being decoded.
        notice: called with each record that holds no event that can be read: its offset, why, and its value. Who only shows
            the log reads on behind them; without it such a record is an error unless it is provably nobody's
            announcement.
    """

    def __init__(
        self,
        settings: Mapping[str, str],
        topic: str,
        only: str | None = None,
        notice: Callable[[int, str, bytes], None] | None = None,
    ) -> None:
        self._settings = dict(settings)
        self._topic = topic
        self._records = ControlRecords(settings, topic, only)
        self._notice = notice
        self._log = ClientLog()
        self._admin = KafkaAdmin(settings)
        self._consumer = build(
            Consumer, settings, consumer_config(settings, self._log, READ_GROUP_ID, fetch_wait_max_ms=100)
        )
        self._position = 0
        self._ahead: Message | None = None  # read, and not given out: it stands behind the end of a reading

    def seek(self, offset: int) -> None:
        """Go on reading at `offset`. Raises SetupError when the broker does not answer."""
        self._consumer.assign([TopicPartition(self._topic, 0, offset)])
        self._ahead = None
        try:
            # Without being asked the client looks for the leader of a topic that is new to it once a second only.
            self._consumer.list_topics(self._topic, timeout=CONNECT_TIMEOUT_S)
        except KafkaException as raised:
            doing = f"reading the control topic {self._topic}"
            raise setup_error(error_of(raised), self._settings, self._log, doing) from raised
        self._position = offset

    def start_offset(self) -> int:
        """The first offset that the log still has."""
        return self._admin.start_offsets([(self._topic, 0)])[self._topic, 0]

    def end_offset(self) -> int:
        """The last stable offset now: everything below it is decided."""
        return self._admin.end_offsets([(self._topic, 0)])[self._topic, 0]

    def position(self) -> int:
        """The offset to be read next; past transaction markers that were met."""
        return self._position

    def poll(self, timeout_s: float) -> list[tuple[int, ControlEvent | None]]:
        """What is there, after waiting for the first record at most `timeout_s`. An event of an unknown type is None.

        Raises:
            FloeError: as `poll_records`.
        """
        return [(record.offset, record.event) for record in self.poll_records(timeout_s)]

    def poll_records(self, timeout_s: float) -> list[Read]:
        """The same, with the time of each record and its leader epoch.

        Raises:
            DataLossError: the position lies outside the log.
            FloeError: the connection is refused, or a record is malformed.
        """
        return self._poll(timeout_s, lambda message: self.decoded(_raw(message)))

    def poll_raw(self, timeout_s: float) -> list[RawRecord]:
        """What is there, as `poll`, without decoding."""
        return self._poll(timeout_s, _raw)

    def decoded(self, record: RawRecord) -> Read:
        """The event of a record, with its time and its leader epoch.

        Raises:
            FloeError: it is malformed.
        """
        event = self._event(record.offset, record.value)
        return Read(record.offset, event, record.timestamp_ms, record.leader_epoch)

    def _poll(self, timeout_s: float, take: Callable[[Message], T], below: int | None = None) -> list[T]:
        events: list[T] = []
        deadline = time.monotonic() + timeout_s
        # A message is as long as its value, so that one without any counts as false.
        message, self._ahead = self._ahead, None
        if message is None:
            message = self._consumer.poll(timeout_s)
        while message is not None:
            error = message.error()
            if error is None and below is not None and (message.offset() or 0) >= below:
                # It came since the end was asked for. Whoever goes on from here must still find it.
                self._ahead = message
                self._position = max(self._position, below)
                break
            if error is None:
                events.append(take(message))
                self._position = (message.offset() or 0) + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                # The end of what is committed so far: also past the markers behind the last event.
                self._position = max(self._position, message.offset() or 0)
                break  # who reads up to an end need not wait for what may come behind it
            else:
                self._refuse(error)
            if len(events) >= _POLL_RECORDS:
                break
            wait_s = 0.0 if events else max(0.0, deadline - time.monotonic())
            message = self._consumer.poll(wait_s)
        return events

    def read_until(
        self, end: int, stall_timeout_s: float = STALL_TIMEOUT_S
    ) -> Iterator[tuple[int, ControlEvent | None]]:
        """Everything from the position up to `end` (an `end_offset` taken before).

        Raises:
            RetriableError: nothing came for `stall_timeout_s`.
        """
        for record in self.records_until(end, stall_timeout_s):
            yield record.offset, record.event

    def records_until(self, end: int, stall_timeout_s: float = STALL_TIMEOUT_S) -> Iterator[Read]:
        """The same, with the time of each record and its leader epoch."""
        return self._until(end, stall_timeout_s, lambda message: self.decoded(_raw(message)))

    def raw_until(self, end: int, stall_timeout_s: float = STALL_TIMEOUT_S) -> Iterator[RawRecord]:
        """The same without decoding: most of what stands in a long log need not be, and decoding costs ten times as
        much as reading."""
        return self._until(end, stall_timeout_s, _raw)

    def _until(self, end: int, stall_timeout_s: float, take: Callable[[Message], T]) -> Iterator[T]:
        progress_at = time.monotonic()
        while self._position < end:
            before = self._position
            yield from self._poll(1.0, take, below=end)
            if self._position > before:
                progress_at = time.monotonic()
            elif time.monotonic() - progress_at > stall_timeout_s:
                why = f": {self._log.newest}" if self._log.newest else ""
                raise RetriableError(
                    f"no records came from the control topic {self._topic} at {self._position} of {end}{why}",
                    code="FLOE-R123",
                    place=address_of(self._settings),
                    remedy="check that the topic has a leader and that this machine can reach it",
                )

    def close(self) -> None:
        self._consumer.close()

    def _event(self, offset: int, value: bytes) -> ControlEvent | None:
        if self._notice is None:
            return self._records.event(offset, value)
        if why := self._records.unreadable(value):
            self._notice(offset, why, value)
            return None
        return self._records.event(offset, value)

    def _refuse(self, error: KafkaError) -> None:
        if error.code() in LOST:
            raise lost_position(self._admin, self._settings, self._topic, self._position)
        # The client asks who coordinates the group that a reader must name; a reader uses none and is granted none.
        if error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED and not is_passing(error):
            raise setup_error(error, self._settings, self._log, f"reading the control topic {self._topic}")


def _raw(message: Message) -> RawRecord:
    return RawRecord(message.offset() or 0, message.value() or b"", written_at_ms(message), message.leader_epoch())


class ControlPublisher:
    """Appends events at least once: what a coordinator publishes, and requests. Kept open between calls."""

    def __init__(self, settings: Mapping[str, str], topic: str, timeout_s: float = PUBLISH_TIMEOUT_S) -> None:
        self._settings = dict(settings)
        self._topic = topic
        self._timeout_s = timeout_s
        self._log = ClientLog()
        self._producer = build(
            Producer,
            settings,
            client_config(
                settings,
                self._log,
                enable_idempotence=True,
                acks="all",
                compression_type="zstd",
                linger_ms=0,
                message_timeout_ms=int(timeout_s * 1000),
            ),
        )

    def publish(self, events: Sequence[ControlEvent]) -> list[int]:
        """Append the events in order and wait until the broker has them all; returns their offsets.

        Raises:
            FloeError: some were not taken; publishing again may repeat others, which every reader allows for.
        """
        offsets: list[int] = []
        failed: list[KafkaError] = []

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failed.append(error)
                return
            offsets.append(message.offset() or 0)

        try:
            for event in events:
                self._producer.produce(self._topic, encode(event), partition=0, on_delivery=on_delivery)
            self._producer.flush(self._timeout_s + 1)
        except KafkaException as raised:
            failed.append(error_of(raised))
        if failed:
            raise setup_error(failed[0], self._settings, self._log, f"writing to the control topic {self._topic}")
        return offsets

    def close(self) -> None:
        with suppress(KafkaException):  # a producer that has failed for good says so again; `publish` has published it
            self._producer.flush(5)
