"""One consumer that reads one partition at a time, in two forms: compiled without an object per record, and plain
Python.

In: settings of a connection. Out: records of the assigned partition, gathered into RecordBlocks, and the events among
them as they are. Both forms give equal blocks; which one a process uses is decided once, by what is installed. Neither
decides what an event means: that is `framework.adapters.kafka.fetch`.
"""

from __future__ import annotations

import gc
import logging
import math
import os
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, Generic, Protocol, TypeVar, cast, overload

import confluent_kafka.cimpl
import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from framework.adapters.kafka.client import ClientLog, build, consumer_config, error_of
from framework.adapters.kafka.tokens import token_of
from framework.config.units import setting_text
from framework.record.compiled import load_compiled
from framework.record.model import RecordBlock, TaskRange, UnreadRecord
from framework.record.value_buffer import JoinedValues

# Named in ACLs and seen in broker logs; it never joins a group and never commits.
FETCH_GROUP_ID = "floe-fetch"
# `python` makes every process read without the compiled extension.
FETCH_VARIABLE = "FLOE_FETCH"
FETCH_INTERFACE = 6

T = TypeVar("T")
Headers = list[tuple[str, bytes | None]] | None
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Polled:
    """What one look at the consumer gave. `records` and `nbytes` are what is held now, `position` is one past the
    newest record seen (-1: none was seen), `events` are errors and ends of the partition, each with its offset. `seen`
    counts the records below the end that the client gave since the task range was assigned, before anything was done with
    them."""

    records: int
    nbytes: int
    position: int
    events: Sequence[tuple[KafkaError, int]]
    seen: int


class PartitionReader(Protocol):
    """A consumer of one partition at a time, for one thread. Nothing it holds outlives `assign` and `unassign`."""

    log: ClientLog

    def assign(self, task_range: TaskRange, most_bytes: int) -> None:
        """Read from the start of the task range on. Of a record with more than `most_bytes` its size alone is held."""

    def unassign(self) -> None:
        """Read nothing; what was fetched ahead is thrown away."""

    def poll(self, records: int, nbytes: int, end: int, timeout_s: float) -> Polled:
        """Hold up to so many more records and bytes, all below offset `end`."""

    def take(self, task_range: TaskRange) -> RecordBlock:
        """The records held, which are held no more; there is at least one."""

    def position(self, task_range: TaskRange) -> int:
        """Where the consumer is, past markers that it has met; -1 before anything was read."""

    def ask_for_leader(self, task_range: TaskRange) -> None:
        """A topic that the consumer has not met waits for its once-a-second look at unknown topics; asking ends
        that."""


def open_reader(settings: Mapping[str, str]) -> PartitionReader:
    """The compiled reader where it can be used, else the one in Python."""
    return CompiledReader(settings) if compiled() is not None else PythonReader(settings)


@cache
def compiled() -> str | None:
    """The version of librdkafka that the compiled extension reads through; None where it cannot be used."""
    if os.environ.get(FETCH_VARIABLE) == "python":
        return None
    try:
        version: str = _extension().load(confluent_kafka.cimpl.__file__)
    except (ImportError, OSError) as error:
        logger.debug("records are fetched in Python: %s", error)
        return None
    return version


def _extension() -> ModuleType:
    return load_compiled("framework.adapters.kafka", "_fetch", FETCH_INTERFACE)


def fetch_described() -> str:
    """How this process fetches, in words."""
    version = compiled()
    return f"the compiled reader (librdkafka {version})" if version else "the reader in Python"


def _config(settings: Mapping[str, str], log: ClientLog, **own: int) -> dict[str, Any]:
    options: dict[str, Any] = {
        # Slices are short and read to their very end: an answer that is there must not wait for more.
        "fetch_wait_max_ms": 10,
        "fetch_min_bytes": 1,
        # TCP and the broker have checked the bytes already.
        "check_crcs": False,
        # What is fetched past a task range's end is thrown away: with 8 MiB and 200,000 messages a task range of 1,000
        # records costs 170 ms, with these 40 ms, and long task ranges are no slower.
        "max_partition_fetch_bytes": 1024 * 1024,
        "queued_max_messages_kbytes": 64 * 1024,
        "queued_min_messages": 20_000,
        "fetch_queue_backoff_ms": 5,
    }
    return consumer_config(settings, log, FETCH_GROUP_ID, **options | own)


class LazyColumn(Sequence[T], Generic[T]):
    """One attribute of fetched messages, read when asked for. Pickles as the plain list."""

    def __init__(self, length: int, read: Callable[[int], T]) -> None:
        self._length = length
        self._read = read

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self._read(i) for i in range(*index.indices(self._length))]
        if not -self._length <= index < self._length:
            raise IndexError(index)
        return self._read(index % self._length)

    def __reduce__(self) -> tuple[type, tuple[list[T]]]:
        return (list, (list(self),))


# ---- without an object per record
# -------------------------------------------------------------------------------------


class CompiledReader:
    """Reads through `_fetch`, with a client of its own on the librdkafka that confluent-kafka brought along."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        extension = _extension()
        self.log = ClientLog()
        config = _config(settings, self.log)
        self._logger = config.pop("logger")
        self._on_error = config.pop("error_cb")
        # Tokens that floe makes: this client calls nothing of Python, so it gets them ahead of their end.
        self._token_settings = dict(settings) if config.pop("oauth_cb", None) else None
        self._renew_at_s = math.inf

        def make(config: dict[str, Any]) -> Any:
            try:
                texts = {name: setting_text(value) for name, value in config.items()}
                return extension.Reader(texts, self._token_settings is not None)
            except ValueError as error:
                raise KafkaException(KafkaError(KafkaError._INVALID_ARG, str(error))) from error

        self._reader = build(make, settings, config)
        self._most_bytes = 0
        self._give_token()

    def _give_token(self) -> None:
        """Raises SetupError FLOE-E115: there is none, and the old one has ended."""
        if self._token_settings is not None:
            token = token_of(self._token_settings)
            self._renew_at_s = token.renew_at_s
            _checked(self._reader.set_token(token.value, round(token.ends_at_s * 1000)))

    def assign(self, task_range: TaskRange, most_bytes: int) -> None:
        if time.time() >= self._renew_at_s:
            self._give_token()
        self._most_bytes = most_bytes
        _checked(self._reader.assign(task_range.topic, task_range.partition, task_range.start, most_bytes))

    def unassign(self) -> None:
        _checked(self._reader.unassign())

    def poll(self, records: int, nbytes: int, end: int, timeout_s: float) -> Polled:
        if time.time() >= self._renew_at_s:
            self._give_token()
        held, held_bytes, position, events, seen = self._reader.consume(records, nbytes, end, round(timeout_s * 1000))
        for level, code, text in self._reader.notes():
            if level < 0:
                self._on_error(KafkaError(code, text))
            else:
                self._logger.log(_LEVELS[min(level, 7)], text)
        return Polled(
            held, held_bytes, position, [(KafkaError(code, text), offset) for code, offset, text in events], seen
        )

    def take(self, task_range: TaskRange) -> RecordBlock:
        data, starts, offsets, stamps, missing, newlines, is_braced, is_ascii, messages, large = self._reader.take()
        sizes = np.frombuffer(large or b"", np.int64).reshape(-1, 2).tolist()
        absent = None if missing is None else np.frombuffer(missing, np.bool_)
        values = JoinedValues(data, np.frombuffer(starts, np.int64), absent, newlines, is_braced, is_ascii)
        return RecordBlock(
            topic=task_range.topic,
            partition=task_range.partition,
            values=values,
            offsets=array("q", offsets),
            timestamps_ms=array("q", stamps),
            keys=LazyColumn(len(values), messages.key if messages else _nothing),
            headers=LazyColumn(len(values), messages.headers if messages else _nothing),
            unread={offset: UnreadRecord(size, self._most_bytes) for offset, size in sizes},
        )

    def position(self, task_range: TaskRange) -> int:
        code, offset = self._reader.position(task_range.topic, task_range.partition)
        if code == KafkaError._UNKNOWN_PARTITION:
            return -1
        _checked(code)
        return int(offset)

    def ask_for_leader(self, task_range: TaskRange) -> None:
        code = self._reader.describe(task_range.topic, 5000)
        if code:
            logger.debug("no metadata of %s yet: %s", task_range.topic, KafkaError(code).str())


# Syslog's levels, as librdkafka counts them.
_LEVELS = (
    *(logging.CRITICAL,) * 3,
    logging.ERROR,
    logging.WARNING,
    *(logging.INFO,) * 2,
    logging.DEBUG,
)


def _nothing(index: int) -> None:
    return None


def _checked(code: int) -> None:
    if code:
        raise KafkaException(KafkaError(code))


# ---- in Python
# ----------------------------------------------------------------------------------------------------------


# More at once are no faster.
_AT_ONCE = 500


class _Large:
    """What is held of a record that is too large, as far as it answers as a message does."""

    def __init__(self, offset: int, timestamp: tuple[int, int], size: int) -> None:
        self._offset, self._timestamp, self.size = offset, timestamp, size

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return self._timestamp

    def value(self) -> bytes:
        return b""

    def key(self) -> None:
        return None

    def headers(self) -> None:
        return None


def _size(message: Message) -> int:
    """Of value, key and headers, in bytes."""
    headers = cast("Headers", message.headers())
    reported = sum(len(name.encode()) + len(value or b"") for name, value in headers) if headers else 0
    return len(message.value() or b"") + len(message.key() or b"") + reported


class PythonReader:
    """Reads through confluent-kafka's Consumer, a Message object for each record."""

    def __init__(self, settings: Mapping[str, str], **own: int) -> None:
        """`own` are settings of librdkafka for this reader alone."""
        self.log = ClientLog()
        self._consumer = build(Consumer, settings, _config(settings, self.log, **own))
        self._held: list[Message | _Large] = []
        self._nbytes = 0
        self._seen = 0
        self._most_bytes = 0

    def assign(self, task_range: TaskRange, most_bytes: int) -> None:
        self._forget()
        self._seen, self._most_bytes = 0, most_bytes
        self._consumer.assign([TopicPartition(task_range.topic, task_range.partition, task_range.start)])

    def unassign(self) -> None:
        self._forget()
        self._consumer.unassign()

    def poll(self, records: int, nbytes: int, end: int, timeout_s: float) -> Polled:
        position, taken = -1, 0
        events: list[tuple[KafkaError, int]] = []
        with _no_cycle_collection():
            # A few at a time: each message is a copy of its record, which may be large.
            while taken < records and self._nbytes < nbytes and not events and position < end:
                wanted = min(records - taken, _AT_ONCE)
                got = self._consumer.consume(wanted, timeout_s)
                # The common case first: all are records inside the task range, which the last one shows, since offsets ascend.
                whole = bool(got) and not any(m.error() for m in got) and (got[-1].offset() or 0) < end
                self._seen += len(got) if whole else sum(not m.error() and (m.offset() or 0) < end for m in got)
                for message in got[-1:] if whole else got:
                    if message.error() is None:
                        position = max(position, (message.offset() or 0) + 1)
                self._hold(got if whole else self._sort_out(got, end, events))
                taken += len(got)
                if len(got) < wanted:
                    break
        return Polled(len(self._held), self._nbytes, position, events, self._seen)

    def _hold(self, inside: list[Message]) -> None:
        sizes = [_size(message) for message in inside]
        if max(sizes, default=0) <= self._most_bytes:
            self._held += inside
            self._nbytes += sum(sizes)
            return
        for message, size in zip(inside, sizes, strict=True):
            is_large = size > self._most_bytes
            self._held.append(_Large(message.offset() or 0, message.timestamp(), size) if is_large else message)
            self._nbytes += 0 if is_large else size

    def _sort_out(self, got: list[Message], end: int, events: list[tuple[KafkaError, int]]) -> list[Message]:
        """The records below `end`; events go to `events`."""
        inside = []
        for message in got:
            error = message.error()
            if error is not None:
                events.append((error, message.offset() or 0))
            elif (message.offset() or 0) < end:
                inside.append(message)
        return inside

    def take(self, task_range: TaskRange) -> RecordBlock:
        """Little Python per record: this is the widest part of the path."""
        messages = self._held
        self._forget()
        first, last = messages[0].offset() or 0, messages[-1].offset() or 0
        # Offsets ascend strictly, so a span as long as the list has no holes.
        whole = last - first + 1 == len(messages)
        return RecordBlock(
            topic=task_range.topic,
            partition=task_range.partition,
            values=[message.value() for message in messages],
            offsets=list(range(first, last + 1)) if whole else [message.offset() or 0 for message in messages],
            timestamps_ms=[message.timestamp()[1] for message in messages],
            keys=LazyColumn(len(messages), lambda i: messages[i].key()),
            headers=LazyColumn(len(messages), lambda i: cast("Headers", messages[i].headers())),
            unread={m.offset(): UnreadRecord(m.size, self._most_bytes) for m in messages if isinstance(m, _Large)},
        )

    def _forget(self) -> None:
        self._held, self._nbytes = [], 0

    def position(self, task_range: TaskRange) -> int:
        try:
            [found] = self._consumer.position([TopicPartition(task_range.topic, task_range.partition)])
        except KafkaException as raised:
            if error_of(raised).code() == KafkaError._UNKNOWN_PARTITION:
                return -1
            raise
        return int(found.offset)

    def ask_for_leader(self, task_range: TaskRange) -> None:
        try:
            self._consumer.list_topics(task_range.topic, timeout=5)
        except KafkaException as raised:
            # An unreachable broker is judged by the stall time-out; anything else comes again as an error of the fetch.
            logger.debug("no metadata of %s yet: %s", task_range.topic, raised)


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
