"""Fetches task ranges: one consumer a process, kept and assigned anew for each range.

In: a TaskRange. Out: RecordBlocks of committed records whose offsets all lie in the task range, and the number of holes
(markers, aborted and compacted records) that invariant 8 needs. A task range ends when the consumer's position passes its
end, never when a count is reached: holes make a counting reader hang or read over the end. Gaps are read once more, by
a second reader, before they count as holes (framework.record.gaps). Invariant 11: a task range counts only if the topic
still has the task range's id after it was read.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from confluent_kafka import KafkaError

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.broken_batch import BrokenBatch, first_broken, unread_blocks
from framework.adapters.kafka.client import address_of, is_passing, setup_error
from framework.adapters.kafka.reader import PartitionReader, Polled, PythonReader, open_reader
from framework.config.spec import MAX_RECORD_BYTES
from framework.errors import DataLossError, FloeError, RetriableError, StateDisagreement
from framework.record.compiled import is_uncompiled
from framework.record.gaps import Looks, Tally, check_seen, lost_record
from framework.record.model import RecordBlock, TaskRange

# Without any progress for this long the task fails, and Spark tries it again, instead of hanging for ever.
STALL_TIMEOUT_S = 60.0
# A block is cut off at this size too: 100,000 records of 1 MiB are more than a task's memory.
BLOCK_BYTES = 64 * 1024 * 1024
# Of one record, with key and headers, unless the pipeline says otherwise. A few compressed bytes may stand for any number.
MOST_RECORD_BYTES = MAX_RECORD_BYTES
# What an answer of the broker holds at most where a batch is done with care, beside its first batch of records: librdkafka
# decompresses an answer as a whole.
_ISOLATION_BYTES = 16 * 1024
_POLL_RECORDS = 20_000
_POLL_WAIT_S = 0.03


class _Connection:
    """The readers and the admin client of one process for one set of settings."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.reader: PartitionReader
        if is_uncompiled():
            self.reader = PythonReader(settings, queued_min_messages=1, max_partition_fetch_bytes=_ISOLATION_BYTES)
        else:
            self.reader = open_reader(settings)
        self.admin = KafkaAdmin(settings)
        self.gaps = _Gaps(settings)


class _Gaps:
    """What this process knows of gaps in what it reads, and the reader that looks at them: of the other kind than the
    one that reads, where that one is compiled, and made with the first gap."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = settings
        self._reader: PartitionReader | None = None
        self._begun = time.monotonic()
        self._spent_s = 0.0
        self.known: set[tuple[str, int]] = set()

    @property
    def reader(self) -> PartitionReader:
        if self._reader is None:
            # A gap is a few offsets long: little is fetched ahead.
            self._reader = PythonReader(self._settings, queued_min_messages=1, max_partition_fetch_bytes=64 * 1024)
        return self._reader

    def looks(self) -> Looks:
        return Looks(self._spent_s, time.monotonic() - self._begun)

    @contextmanager
    def timed(self) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        finally:
            self._spent_s += time.monotonic() - begun


_connections: dict[tuple[int, bool, frozenset[tuple[str, str]]], _Connection] = {}


def _connection(settings: Mapping[str, str]) -> _Connection:
    # The process id is part of the key: a client does not survive a fork, and Spark's workers are forked.
    key = (os.getpid(), is_uncompiled(), frozenset(settings.items()))
    if key not in _connections:
        _connections[key] = _Connection(settings)
    return _connections[key]


class RangeFetcher:
    """Reads task ranges one after another over the process's one consumer; one thread only. `holes` is the newest
    task range's."""

    def __init__(
        self,
        settings: Mapping[str, str],
        stall_timeout_s: float = STALL_TIMEOUT_S,
        most_record_bytes: int = MOST_RECORD_BYTES,
    ) -> None:
        self._most_bytes = most_record_bytes
        self._settings = dict(settings)
        self._stall_timeout_s = stall_timeout_s
        self.holes = 0
        """Offsets of the newest task range that hold no committed record; right once its iteration has ended."""
        self._seen = 0

    def fetch(self, task_range: TaskRange, block_records: int = 100_000) -> Iterator[RecordBlock]:
        """The committed records of [start, end), ascending, in blocks of about `block_records`.

        Raises:
            DataLossError: the task range is no longer in the log; says the first offset that is.
            StateDisagreement: the topic is not the one that the task range was planned for.
            RetriableError: nothing came for `stall_timeout_s`.
            SetupError: the broker refuses us.
            AccountingError: invariant 8, records of the task range were lost or repeated on the way.
        """
        self.holes = 0
        if task_range.end <= task_range.start:
            return
        connection = _connection(self._settings)
        tally = Tally(task_range)
        for block in self._read(connection, connection.reader, task_range, block_records):
            tally.add(block)
            yield block
            del block  # whoever asked for it may be done with it before the next one is there
        tally.end()
        check_seen(task_range, self._seen, tally.records)
        self._look_at_gaps(connection, tally, task_range)
        self._check_topic_id(connection, task_range)
        self.holes = tally.holes

    def _look_at_gaps(self, connection: _Connection, tally: Tally, task_range: TaskRange) -> None:
        """Invariant 8: a gap is a hole where a second reader finds no record either. What is committed at the first
        reading is committed at the second, so a record that shows up was lost by the first."""
        gaps, partition = connection.gaps, (task_range.topic_id, task_range.partition)
        found = tally.to_look_at(partition in gaps.known, gaps.looks(), random.random())
        for gap in found:
            with gaps.timed():
                try:
                    for block in self._read(connection, gaps.reader, gap, gap.end - gap.start):
                        raise lost_record(task_range, block.offsets[0])
                except DataLossError:
                    pass  # the log begins behind the gap by now
        if found:
            gaps.known.add(partition)

    def _read(
        self, connection: _Connection, reader: PartitionReader, task_range: TaskRange, block_records: int
    ) -> Iterator[RecordBlock]:
        reader.assign(task_range, self._most_bytes)
        try:
            yield from self._blocks(connection, reader, task_range, block_records)
        finally:
            # What was fetched ahead for this task range is of no use to the next one.
            reader.unassign()

    def _blocks(
        self, connection: _Connection, reader: PartitionReader, task_range: TaskRange, block_records: int
    ) -> Iterator[RecordBlock]:
        """The records inside the task range, in blocks of about `block_records`, until the position is at or past the
        end."""
        position, held, met, seen_before = task_range.start, 0, False, 0
        progress_at = time.monotonic()
        while position < task_range.end:
            before = position
            wanted = min(_POLL_RECORDS, task_range.end - position, max(1, block_records - held))
            polled = reader.poll(wanted, BLOCK_BYTES, task_range.end, _POLL_WAIT_S)
            held, self._seen = polled.records, seen_before + polled.seen
            position = max(position, polled.position, self._judge(connection, reader, task_range, polled))
            if (broken := first_broken(polled.events)) is not None:
                if held:
                    yield reader.take(task_range)
                begin = max(broken, position)
                end = BrokenBatch(reader, task_range, broken, self._stall_timeout_s).end(begin)
                yield from unread_blocks(task_range, begin, end, block_records, self._most_bytes)
                seen_before, held = self._seen + end - begin, 0
                self._seen = seen_before
                position, progress_at = end, time.monotonic()
                reader.assign(replace(task_range, start=end), self._most_bytes)
                continue
            if polled.position < 0 and not polled.events and not met:
                reader.ask_for_leader(task_range)
            met = True
            if position < task_range.end:
                position = max(position, reader.position(task_range))
            if position > before:
                progress_at = time.monotonic()
            if held >= block_records or polled.nbytes >= BLOCK_BYTES:
                held = 0
                handed_over_at = time.monotonic()
                yield reader.take(task_range)
                progress_at += time.monotonic() - handed_over_at  # what is done with a block is no time of the broker's
            if time.monotonic() - progress_at > self._stall_timeout_s:
                self._check_topic_id(connection, task_range)
                raise self._stalled(reader, task_range, position)
        if held:
            yield reader.take(task_range)

    def _judge(self, connection: _Connection, reader: PartitionReader, task_range: TaskRange, polled: Polled) -> int:
        """What the events say of the position (-1: nothing); raises what they mean otherwise."""
        position = -1
        for error, offset in polled.events:
            if error.code() == KafkaError._PARTITION_EOF:
                position = max(position, offset)
            elif error.code() == KafkaError._BAD_COMPRESSION:
                continue  # its records are unread
            else:
                self._refuse(connection, reader, task_range, error)
        return position

    def _refuse(
        self, connection: _Connection, reader: PartitionReader, task_range: TaskRange, error: KafkaError
    ) -> None:
        """Raise what an error event means; what librdkafka repairs by itself is left to the stall time-out."""
        place = f"{task_range.topic}-{task_range.partition}"
        lost = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION)
        if error.code() in lost:
            self._check_topic_id(connection, task_range)
            key = (task_range.topic, task_range.partition)
            first = connection.admin.start_offsets([key])[key]
            end = connection.admin.end_offsets([key])[key]
            raise DataLossError(
                f"offsets {task_range.start} to {task_range.end - 1} should be read, but the log now holds {first} to {end - 1}",
                place=place,
                remedy=f"the first offset available is {first}; raise the topic's retention, or set source.kafka.on_data_loss",
            )
        gone = (KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART)
        if error.code() in gone:
            self._check_topic_id(connection, task_range)
        # The client asks who coordinates the group that a reader must name; a reader uses none and is granted none.
        elif error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED and not is_passing(error):
            raise setup_error(error, self._settings, reader.log, f"fetching {place}")

    def _check_topic_id(self, connection: _Connection, task_range: TaskRange) -> None:
        """Invariant 11. A topic id never comes back, so an id that fits after reading fitted all the while."""
        facts = connection.admin.topics([task_range.topic]).get(task_range.topic)
        if facts is None or facts.topic_id != task_range.topic_id:
            now = f"its id is now {facts.topic_id}" if facts else "it does not exist"
            raise StateDisagreement(
                f"topic {task_range.topic} was deleted or recreated: the batch was planned for id {task_range.topic_id}, {now}",
                code="FLOE-R116",
                place=f"{task_range.topic}-{task_range.partition}",
                remedy="give the pipeline another name to start over with the new topic",
            )

    def _stalled(self, reader: PartitionReader, task_range: TaskRange, position: int) -> FloeError:
        newest = reader.log.newest
        why = f": {newest}" if newest else ""
        return RetriableError(
            f"no records came from {task_range.topic}-{task_range.partition} at offset {position} "
            f"for {self._stall_timeout_s:.0f} s{why}",
            code="FLOE-R123",
            place=address_of(self._settings),
            remedy="check that the partition has a leader and that this machine can reach every broker",
        )
