"""The transactional producer of one pipeline: a batch's events and its source offsets, in one short transaction.

In: control events and source offsets with their metadata strings. Out: the control offset just after the last event,
or an error that says whether the transaction certainly did not happen (RetriableError), may have happened
(OutcomeUnknown), or is another run's to make (FencedError). Keeps invariants 1, 2 and 7.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from framework.adapters.host.failpoints import failpoint
from framework.adapters.host.stopwatch import Stopwatch
from framework.adapters.host.timeout import NotBack, with_timeout
from framework.adapters.kafka.client import (
    CONNECT_TIMEOUT_S,
    ClientLog,
    address_of,
    build,
    client_config,
    consumer_config,
    error_of,
    setup_error,
)
from framework.commit.events.codec import encode
from framework.commit.events.event_types import ControlEvent, DataWritten
from framework.errors import FencedError, FloeError, OutcomeUnknown, RetriableError
from framework.record.dead_letters.dead_letter import DeadLetterMessage

# An open transaction hides everybody's later events from read_committed readers, so the broker must end it soon.
TRANSACTION_TIMEOUT_MS = 10_000
# With a dead-letter topic the transaction carries records too: at most a batch of 500,000.
DEAD_LETTERS_TRANSACTION_TIMEOUT_MS = 60_000
DELIVERY_TIMEOUT_MS = 8_000
COMMIT_RETRY_S = 20.0
# InitProducerId waits for the broker to finish the transaction of the run before.
START_TIMEOUT_S = 30.0
RECOVER_TIMEOUT_S = 60.0
HANG_GRACE_S = 2.0

# Announcing the same again would be refused again.
_LASTING = frozenset(
    {
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.INVALID_COMMIT_OFFSET_SIZE,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.OFFSET_METADATA_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
    }
)
_FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})


class PipelineProducer:
    """Announces batches under one transactional id.

    Call `start` once before reading the group's offsets; then `announce` for each batch. After OutcomeUnknown call
    `recover`, read the group's offsets back and decide; `announce` refuses until then. Not for use by several threads.
    """

    def __init__(
        self,
        settings: Mapping[str, str],
        transactional_id: str,
        group_id: str,
        control_topic: str,
        *,
        transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        commit_retry_s: float = COMMIT_RETRY_S,
    ) -> None:
        self._settings = dict(settings)
        self._transactional_id = transactional_id
        self._group_id = group_id
        self._control_topic = control_topic
        self._transaction_timeout_ms = transaction_timeout_ms
        self._commit_retry_s = commit_retry_s
        self._log = ClientLog()
        self._producer: Producer | None = None
        self._group_metadata: Any = None

    def start(self) -> None:
        """Take over the transactional id: older runs are fenced, an unfinished transaction of theirs is settled.

        Raises:
            SetupError: the broker does not answer or refuses us.
        """
        self._group_metadata = self._read_group_metadata()
        producer = self._new_producer()
        try:
            if not producer.cluster_id(timeout=CONNECT_TIMEOUT_S):  # quicker to tell than init_transactions
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            self._init_transactions(producer, START_TIMEOUT_S)
        except KafkaException as raised:
            _hear(producer)
            raise setup_error(
                error_of(raised), self._settings, self._log, f"taking over transactional id {self._transactional_id}"
            ) from raised
        self._producer = producer

    def recover(self) -> None:
        """After OutcomeUnknown: a new producer, which settles the old transaction; then the offsets can be read back.

        Invariant 7. The old client is dropped unasked: whatever it still holds belongs to an epoch that is fenced now.

        Raises:
            OutcomeUnknown: the broker did not answer within a minute; call again.
        """
        self._drop()
        producer = self._new_producer()
        try:
            self._init_transactions(producer, RECOVER_TIMEOUT_S)
        except KafkaException as raised:
            _hear(producer)
            raise self._unknown(f"it could not be read back yet: {error_of(raised).str()}") from raised
        self._producer = producer

    def announce(
        self,
        events: Sequence[ControlEvent],
        offsets: Mapping[tuple[str, int], tuple[int, str]],
        dead_letters: Iterable[DeadLetterMessage] = (),
        dead_letter_topic: str = "",
    ) -> int:
        """Invariant 1: the events that name the files and the source offsets they cover, in one transaction.

        Args:
            events: in the order in which they shall stand in the log.
            offsets: (topic, partition) -> (next source offset, metadata string), for ALL partitions of the pipeline;
                empty where the events are information only.
            letters: dead letters for `letter_topic`, in the same transaction.

        Returns:
            The control offset just after the last event.

        Raises:
            RetriableError: it certainly did not happen; announce again.
            OutcomeUnknown: it may have happened; `recover`, then read the group's offsets.
            FencedError: another run owns the transactional id; final.
        """
        if self._producer is None:
            raise OutcomeUnknown(
                "the producer has no transactional id of its own yet",
                place=self._transactional_id,
                remedy="call start(), or recover() and read the group's offsets back",
            )
        producer, begun = self._producer, Stopwatch()
        delivered: list[int] = []
        positions = [TopicPartition(t, p, offset, metadata) for (t, p), (offset, metadata) in offsets.items()]
        try:
            producer.begin_transaction()
            self._send_letters(producer, dead_letters, dead_letter_topic)
            self._produce(producer, events, delivered)
            if positions:
                self._send_offsets(producer, positions)
        except NotBack as raised:
            # Nothing was committed, but this client is stuck: a new one settles its transaction.
            raise self._unknown(f"the client hangs while sending the offsets: {raised}") from raised
        except KafkaException as raised:
            # No commit was asked for: nothing can have happened, but the transaction must be ended.
            raise self._ended_before_commit(self._cause(producer, error_of(raised), positions), begun) from raised
        if positions or any(isinstance(event, DataWritten) for event in events):  # not for what is only reported
            failpoint("in-transaction")
        self._commit(producer, begun)
        return max(delivered) + 1 if delivered else 0

    def close(self) -> None:
        """Let go of the connection. An open transaction is left to the broker's time-out or to the next run."""
        self._drop()

    def _send_letters(self, producer: Producer, dead_letters: Iterable[DeadLetterMessage], topic: str) -> None:
        """Send dead letters, and look now and then whether the broker takes them."""
        failed: list[KafkaError] = []

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failed.append(error)

        for dead_letter in dead_letters:
            while not failed:
                try:
                    producer.produce(
                        topic,
                        dead_letter.value,
                        key=dead_letter.key,
                        headers=list(dead_letter.headers),
                        on_delivery=on_delivery,
                        timestamp=dead_letter.timestamp_ms or 0,  # 0: now
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
        if topic:
            _flush(producer)
        if failed:
            raise KafkaException(failed[0])

    def _produce(self, producer: Producer, events: Sequence[ControlEvent], delivered: list[int]) -> None:
        """Send all events and wait until the broker has each; `delivered` gains their offsets."""
        failed: list[KafkaError] = []

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failed.append(error)
                return
            delivered.append(message.offset() or 0)

        for event in events:
            value = encode(event)
            while True:
                try:
                    producer.produce(
                        self._control_topic, value, key=self._transactional_id, partition=0, on_delivery=on_delivery
                    )
                    break
                except BufferError:
                    producer.poll(0.1)  # the local queue is full: serve deliveries, then go on
        _flush(producer)
        if failed:
            raise KafkaException(failed[0])
        if len(delivered) != len(events):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "some events were not delivered in time"))

    def _commit(self, producer: Producer, begun: Stopwatch) -> None:
        """Commit, patiently: a retriable error leaves the outcome open, and the same call may be made again."""
        deadline = time.monotonic() + self._commit_retry_s
        while True:
            try:
                producer.commit_transaction(max(0.1, deadline - time.monotonic()))
                return
            except KafkaException as raised:
                error = error_of(raised)
                if error.txn_requires_abort():
                    raise self._abort(producer, error, begun) from raised
                if error.fatal() or not error.retriable():
                    raise self._fatal(error, begun) from raised
                if time.monotonic() >= deadline:
                    raise self._unknown(error.str()) from raised

    def _cause(self, producer: Producer, error: KafkaError, positions: list[TopicPartition]) -> KafkaError:
        """Events are purged when their transaction has failed for another reason; the next call on it reports that."""
        if error.code() != KafkaError._PURGE_QUEUE or not positions:
            return error
        try:
            self._send_offsets(producer, positions)
        except KafkaException as raised:
            return error_of(raised)
        except NotBack:
            return error
        return error

    def _send_offsets(self, producer: Producer, positions: list[TopicPartition]) -> None:
        """Bounded by us as well: librdkafka never looks at this call's time-out while it waits for the group's
        coordinator, so that after a restart of the broker it may hang for ever."""
        timeout_s = self._transaction_timeout_ms / 1000
        with_timeout(
            lambda: producer.send_offsets_to_transaction(positions, self._group_metadata, timeout_s),
            timeout_s + HANG_GRACE_S,
        )

    def _ended_before_commit(self, error: KafkaError, begun: Stopwatch) -> FloeError:
        """The error to raise when something failed before the commit was asked for."""
        producer = self._producer
        assert producer is not None
        if error.fatal() or error.code() in _FENCED:
            return self._fatal(error, begun)
        return self._abort(producer, error, begun)

    def _abort(self, producer: Producer, error: KafkaError, begun: Stopwatch) -> FloeError:
        """Abort. Once the broker agrees it is certain that nothing happened; otherwise a new epoch must settle it."""
        try:
            producer.abort_transaction(self._transaction_timeout_ms / 1000)
        except KafkaException as raised:
            second = error_of(raised)
            if error.code() in _LASTING:
                # The commit was never asked for, and this run ends: the next one settles the transaction.
                return setup_error(error, self._settings, self._log, f"announcing for group {self._group_id}")
            if second.fatal() or second.code() in _FENCED:
                return self._fatal(second, begun)
            return self._unknown(f"{error.str()}; and it could not be aborted: {second.str()}")
        if error.code() in _LASTING:
            return setup_error(error, self._settings, self._log, f"announcing for group {self._group_id}")
        return RetriableError(
            f"the announcement was aborted: {error.str()}",
            code="FLOE-R122",
            place=self._transactional_id,
            remedy="it is announced again by itself; if this goes on, the broker's log says why",
        )

    def _fatal(self, error: KafkaError, begun: Stopwatch) -> FloeError:
        """Fenced is final. But a transaction that outlived its time-out was ended by the broker, in the same words.

        A fence within the time-out can only come from a newer run (invariant 2). After it, both are possible: then the
        outcome is open, and the offsets that are read back tell whether another run has gone on.
        """
        lasted_ms = begun.elapsed_s() * 1000
        if error.code() in _FENCED and lasted_ms < self._transaction_timeout_ms:
            self._drop()
            return FencedError(
                f"a newer run of this pipeline has taken over transactional id {self._transactional_id}",
                place=address_of(self._settings),
                remedy="stop one of the two runs for good; this one has ended and announced nothing more",
            )
        return self._unknown(error.str())

    def _unknown(self, why: str) -> OutcomeUnknown:
        self._drop()
        return OutcomeUnknown(
            f"the outcome of the announcement of {self._transactional_id} is not known: {why}",
            place=address_of(self._settings),
            remedy="the group's offsets are read back before anything else; until then no file is deleted",
        )

    def _new_producer(self) -> Producer:
        self._log = ClientLog()
        return build(
            Producer,
            self._settings,
            client_config(
                self._settings,
                self._log,
                transactional_id=self._transactional_id,
                transaction_timeout_ms=self._transaction_timeout_ms,
                message_timeout_ms=min(DELIVERY_TIMEOUT_MS, self._transaction_timeout_ms),
                acks="all",
                compression_type="zstd",
                linger_ms=0,
            ),
        )

    def _init_transactions(self, producer: Producer, timeout_s: float) -> None:
        """`init_transactions`, again while it is retriable: the call goes on where it was."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                producer.init_transactions(max(0.1, deadline - time.monotonic()))
                return
            except KafkaException as raised:
                if not error_of(raised).retriable() or time.monotonic() >= deadline:
                    raise

    def _read_group_metadata(self) -> Any:
        """The group metadata that a transaction's offsets need; a consumer that never subscribes gives it."""
        consumer = build(
            Consumer,
            self._settings,
            consumer_config(self._settings, ClientLog(), self._group_id, session_timeout_ms=6000),
        )
        try:
            return consumer.consumer_group_metadata()
        finally:
            consumer.close()

    def _drop(self) -> None:
        if self._producer is not None:
            self._producer.purge()
            self._producer = None


def _flush(producer: Producer) -> None:
    """Wait until the broker has what was produced."""
    try:
        producer.flush(DELIVERY_TIMEOUT_MS / 1000 + 1)
    except SystemError as raised:
        # The client raises a fatal error (being fenced, say) out of its error callback; where a delivery report is
        # served next to it, Python wraps that in a SystemError.
        if isinstance(raised.__cause__, KafkaException):
            raise raised.__cause__ from raised
        raise


def _hear(producer: Producer) -> None:
    """Serves the error callback, which knows why nothing answered. A producer that has failed for good raises that
    again."""
    with suppress(KafkaException):
        producer.poll(0)
