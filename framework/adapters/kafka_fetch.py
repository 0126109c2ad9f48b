"""Fetches slices of partitions: one consumer a process, kept and re-assigned for each slice.

In: a Slice. Out: RecordBlocks of committed records whose offsets all lie in the slice, and the number of holes
(markers, aborted and compacted records) that invariant 8 needs. A slice ends when the consumer's position passes its
end, never when a count is reached: holes make a counting reader hang or read over the end. Invariant 11: a slice counts
only if the topic still has the slice's id after it was read.
"""

from __future__ import annotations

import gc
import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar, overload

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from framework.adapters.kafka_admin import KafkaAdmin
from framework.adapters.kafka_client import ClientLog, address_of, build, consumer_config, error_of, setup_error
from framework.errors import DataLossError, FloeError, RetriableError, StateDisagreement
from framework.record.model import RecordBlock, Slice

# Without any progress for this long the task fails, and Spark tries it again, instead of hanging for ever.
STALL_TIMEOUT_S = 60.0
_CONSUME_RECORDS = 20_000
_CONSUME_WAIT_S = 0.03
# Named in ACLs and seen in broker logs; it never joins a group and never commits.
FETCH_GROUP_ID = "floe-fetch"

T = TypeVar("T")
logger = logging.getLogger(__name__)


class LazyColumn(Sequence[T], Generic[T]):
    """One attribute of fetched messages, read when asked for. Pickles as the plain list."""

    def __init__(self, messages: Sequence[Message], method: str) -> None:
        self._messages = messages
        self._method = method

    def __len__(self) -> int:
        return len(self._messages)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [getattr(message, self._method)() for message in self._messages[index]]
        return getattr(self._messages[index], self._method)()  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[T]:
        return (getattr(message, self._method)() for message in self._messages)

    def __reduce__(self) -> tuple[type, tuple[list[T]]]:
        return (list, (list(self),))


class _Connection:
    """The consumer and the admin client of one process for one set of settings."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.log = ClientLog()
        self.consumer = build(
            Consumer,
            settings,
            consumer_config(
                settings,
                self.log,
                FETCH_GROUP_ID,
                # Slices are short and read to their very end: an answer that is there must not wait for more.
                fetch_wait_max_ms=10,
                fetch_min_bytes=1,
                # TCP and the broker have checked the bytes already.
                check_crcs=False,
                # What is fetched past a slice's end is thrown away: with 8 MiB and 200,000 messages a slice of 1,000
                # records costs 170 ms, with these 40 ms, and long slices are no slower.
                max_partition_fetch_bytes=1024 * 1024,
                queued_max_messages_kbytes=64 * 1024,
                queued_min_messages=20_000,
                fetch_queue_backoff_ms=5,
            ),
        )
        self.admin = KafkaAdmin(settings)


_connections: dict[tuple[int, frozenset[tuple[str, str]]], _Connection] = {}


def _connection(settings: Mapping[str, str]) -> _Connection:
    # The process id is part of the key: a client does not survive a fork, and Spark's workers are forked.
    key = (os.getpid(), frozenset(settings.items()))
    if key not in _connections:
        _connections[key] = _Connection(settings)
    return _connections[key]


class SliceFetcher:
    """Reads slices one after another over the process's one consumer; one thread only. `holes` is the newest slice's."""

    def __init__(self, settings: Mapping[str, str], stall_timeout_s: float = STALL_TIMEOUT_S) -> None:
        self._settings = dict(settings)
        self._stall_timeout_s = stall_timeout_s
        self.holes = 0
        """Offsets of the newest slice that hold no committed record; right once its iteration has ended."""

    def fetch(self, piece: Slice, block_records: int = 100_000) -> Iterator[RecordBlock]:
        """The committed records of [start, end), ascending, in blocks of about `block_records`.

        Raises:
            DataLossError: the slice is no longer in the log; says the first offset that is.
            StateDisagreement: the topic is not the one that the slice was planned for.
            RetriableError: nothing came for `stall_timeout_s`.
            SetupError: the broker refuses us.
        """
        self.holes = 0
        if piece.end <= piece.start:
            return
        connection = _connection(self._settings)
        consumer = connection.consumer
        consumer.assign([TopicPartition(piece.topic, piece.partition, piece.start)])
        records = 0
        try:
            for messages in self._blocks(connection, piece, block_records):
                records += len(messages)
                yield _block(piece, messages)
            self._check_topic_id(connection, piece)
        finally:
            # What was fetched ahead for this slice is of no use to the next one.
            consumer.unassign()
        self.holes = piece.end - piece.start - records

    def _blocks(self, connection: _Connection, piece: Slice, block_records: int) -> Iterator[list[Message]]:
        """Messages inside the slice, in lists of about `block_records`, until the position is at or past the end."""
        block: list[Message] = []
        position, met = piece.start, False
        progress_at = time.monotonic()
        while position < piece.end:
            before = position
            wanted = min(_CONSUME_RECORDS, piece.end - position, max(1, block_records - len(block)))
            with _no_cycle_collection():
                got = connection.consumer.consume(wanted, _CONSUME_WAIT_S)
                if got:
                    messages, position = self._take(connection, piece, got, position)
                    block += messages
            if not got and not met:
                _ask_for_leader(connection.consumer, piece)
            met = True
            if position < piece.end:
                position = max(position, _position(connection.consumer, piece))
            if position > before:
                progress_at = time.monotonic()
            if len(block) >= block_records:
                yield block
                block = []
            if time.monotonic() - progress_at > self._stall_timeout_s:
                self._check_topic_id(connection, piece)
                raise self._stalled(connection, piece, position)
        if block:
            yield block

    def _take(
        self, connection: _Connection, piece: Slice, got: list[Message], position: int
    ) -> tuple[list[Message], int]:
        """Split one answer into records of the slice and news; returns the records and the new position."""
        # The common case first: all are records inside the slice, which the last one shows, since offsets ascend.
        last = got[-1]
        if last.error() is None and (last.offset() or 0) < piece.end and not any(m.error() for m in got):
            return got, (last.offset() or 0) + 1
        records: list[Message] = []
        for message in got:
            error = message.error()
            if error is None:
                offset = message.offset() or 0
                position = max(position, offset + 1)
                if offset < piece.end:
                    records.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                position = max(position, message.offset() or 0)
            else:
                self._refuse(connection, piece, error)
        return records, position

    def _refuse(self, connection: _Connection, piece: Slice, error: KafkaError) -> None:
        """Raise what an error event means; what librdkafka mends by itself is left to the stall time-out."""
        place = f"{piece.topic}-{piece.partition}"
        lost = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION)
        if error.code() in lost:
            self._check_topic_id(connection, piece)
            key = (piece.topic, piece.partition)
            first = connection.admin.start_offsets([key])[key]
            end = connection.admin.end_offsets([key])[key]
            raise DataLossError(
                f"offsets {piece.start} to {piece.end - 1} were to be read, but the log holds {first} to {end - 1} now",
                place=place,
                remedy=f"the first offset available is {first}; raise the topic's retention, or see on_data_loss",
            )
        gone = (KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART)
        if error.code() in gone:
            self._check_topic_id(connection, piece)
        elif error.code() not in (
            KafkaError._ALL_BROKERS_DOWN,
            KafkaError._TRANSPORT,
            KafkaError._TIMED_OUT,
            # The client asks who coordinates the group that a reader must name; a reader uses none and is granted none.
            KafkaError.GROUP_AUTHORIZATION_FAILED,
        ):
            raise setup_error(error, self._settings, connection.log, f"fetching {place}")

    def _check_topic_id(self, connection: _Connection, piece: Slice) -> None:
        """Invariant 11. A topic id never comes back, so an id that fits after reading fitted all the while."""
        facts = connection.admin.topics([piece.topic]).get(piece.topic)
        if facts is None or facts.topic_id != piece.topic_id:
            now = f"it has id {facts.topic_id} now" if facts else "it does not exist now"
            raise StateDisagreement(
                f"topic {piece.topic} was deleted or recreated: the batch was planned for id {piece.topic_id}, {now}",
                code="FLOE-R116",
                place=f"{piece.topic}-{piece.partition}",
                remedy="give the pipeline another name to begin anew with the new topic",
            )

    def _stalled(self, connection: _Connection, piece: Slice, position: int) -> FloeError:
        why = f": {connection.log.newest}" if connection.log.newest else ""
        return RetriableError(
            f"nothing came from {piece.topic}-{piece.partition} at offset {position} "
            f"for {self._stall_timeout_s:.0f} s{why}",
            code="FLOE-R123",
            place=address_of(self._settings),
            remedy="check that the partition has a leader and that this machine reaches every broker",
        )


def _ask_for_leader(consumer: Consumer, piece: Slice) -> None:
    """A topic that the consumer has not met waits for its once-a-second look at unknown topics; asking ends the wait."""
    try:
        consumer.list_topics(piece.topic, timeout=5)
    except KafkaException as raised:
        # An unreachable broker is judged by the stall time-out; anything else comes again as an error of the fetch.
        logger.debug("no metadata of %s yet: %s", piece.topic, raised)


@contextmanager
def _no_cycle_collection() -> Iterator[None]:
    """Message objects hold no cycles, but making 20,000 of them sets off the collector so often that it takes more
    time than the fetch: about 2.0 s instead of 1.1 s of CPU per million records in a process that has loaded Spark."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _position(consumer: Consumer, piece: Slice) -> int:
    """Where the consumer is, past markers that it has met; -1 before anything was read."""
    try:
        [found] = consumer.position([TopicPartition(piece.topic, piece.partition)])
    except KafkaException as raised:
        if error_of(raised).code() == KafkaError._UNKNOWN_PARTITION:
            return -1
        raise
    return found.offset


def _block(piece: Slice, messages: list[Message]) -> RecordBlock:
    """Little Python per record: this is the widest part of the path."""
    first, last = messages[0].offset() or 0, messages[-1].offset() or 0
    # Offsets ascend strictly, so a span as long as the list has no holes.
    whole = last - first + 1 == len(messages)
    offsets = list(range(first, last + 1)) if whole else [message.offset() or 0 for message in messages]
    return RecordBlock(
        topic=piece.topic,
        partition=piece.partition,
        values=[message.value() for message in messages],
        offsets=offsets,
        timestamps_ms=[message.timestamp()[1] for message in messages],
        keys=LazyColumn(messages, "key"),
        headers=LazyColumn(messages, "headers"),
    )
