"""Coordinator leadership: whoever owns the control topic's partition in the coordinators' group reads it and commits.

In: a connection's settings, the group and the control topic. Out: LeadershipAssigned with the facts that invariant 6 needs,
then committed events from the low-water mark on, LogEndReached whenever the log's end is reached, LeadershipRevoked when
leadership is lost. The low-water mark is the group's offset, with the topic's id beside it (invariant 11).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import TIMESTAMP_CREATE_TIME, Consumer, KafkaError, KafkaException, Message, TopicPartition

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.client import (
    CONNECT_TIMEOUT_S,
    ClientLog,
    address_of,
    build,
    consumer_config,
    error_of,
    is_passing,
    setup_error,
)
from framework.adapters.kafka.control.records import ControlRecords
from framework.commit.events.event_types import ControlEvent
from framework.errors import DataLossError, RetriableError, SetupError

# The least that brokers allow by default. With members' heartbeats at one second a dead owner is replaced in about
# seven seconds; librdkafka's defaults take 45 and more.
SESSION_TIMEOUT_MS = 6_000
HEARTBEAT_INTERVAL_MS = 1_000
# The longest that one turn of the coordinator (many commits to a slow catalog) may take before it loses leadership.
MAX_POLL_INTERVAL_MS = 120_000
_POLL_RECORDS = 1000
PROBE_GROUP_ID = "floe-control-reader"  # a name that every reader of the topic may use; nothing is committed under it
LOST = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION)


@dataclass(frozen=True)
class LeadershipAssigned:
    """This process holds leadership. `low_water` is None when none was ever stored, or it expired."""

    topic_id: str
    log_start: int
    low_water: int | None
    low_water_topic_id: str | None
    chain_from: int | None = None
    """Where reading begins so that the pipelines' chains are seen; stored beside the mark, never above it."""
    log_end: int | None = None
    low_water_epoch: int | None = None
    records_end: int | None = None
    """Behind the last record that was read when the mark was stored; up to the mark there are markers only."""
    truncated: bool = False
    """Whether the log was cut off below the mark since it was stored, by what the broker knows of its leaders."""


@dataclass(frozen=True)
class LeadershipRevoked:
    """Leadership is lost, or was lost for a while: forget everything; what was decided before may no longer be stored."""


@dataclass(frozen=True)
class LeadershipRead:
    """One committed record; `event` None: a type unknown to this version. `timestamp_ms` by its writer's clock."""

    offset: int
    event: ControlEvent | None
    timestamp_ms: int | None = None
    leader_epoch: int | None = None


@dataclass(frozen=True)
class LogEndReached:
    """Everything that is committed so far was read; `position` is the next offset, past transaction markers."""

    position: int


LeadershipUpdate = LeadershipAssigned | LeadershipRevoked | LeadershipRead | LogEndReached


class CoordinatorLeadership:
    """A member of the coordinators' group. `poll` must be called at least every two minutes. One thread only."""

    def __init__(self, settings: Mapping[str, str], group: str, topic: str, client_id: str | None = None) -> None:
        """`client_id` is what `floe status` shows as the coordinator's name."""
        self._settings = dict(settings) | ({"client.id": client_id} if client_id else {})
        self._group = group
        self._topic = topic
        self._log = ClientLog()
        self._admin = KafkaAdmin(settings)
        self._updates: list[LeadershipUpdate] = []
        self._error: KafkaError | None = None  # reported once what came before it was handed out
        self._topic_id: str | None = None
        self._position = 0
        self.has_joined = False
        """Whether the group has taken this member in, so that somebody holds leadership."""
        self._consumer = build(
            Consumer,
            settings,
            consumer_config(
                self._settings,
                self._log,
                group,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
                max_poll_interval_ms=MAX_POLL_INTERVAL_MS,
                # Cooperative: a member that joins or leaves takes nothing from the owner. Eager assignment would move
                # leadership, and so re-read the log, each time a driver starts.
                partition_assignment_strategy="cooperative-sticky",
                fetch_wait_max_ms=100,
            ),
        )
        self._records = ControlRecords(settings, topic)
        self._consumer.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke)

    @property
    def owned(self) -> bool:
        """Whether this process believes that it holds leadership; only a conditional commit proves it (invariant 4)."""
        return self._topic_id is not None

    def poll(self, timeout_s: float) -> list[LeadershipUpdate]:
        """What happened, in order, after waiting at most `timeout_s` for the first update.

        Raises:
            SetupError: the broker refuses us, or the facts of a new leadership cannot be read; close this one, open another.
            DataLossError: the log was cut while it was read.
            FloeError: a control record is malformed.
        """
        if (held := self._error) is not None:
            self._error = None
            self._refuse(held)
        deadline = time.monotonic() + timeout_s
        while True:
            wait_s = 0.0 if self._updates else max(0.0, deadline - time.monotonic())
            message = self._consumer.poll(wait_s)  # serves the rebalance callbacks below, too
            if message is None:
                if self._updates or time.monotonic() >= deadline:
                    break
                continue
            error = message.error()
            if error is None:
                offset = message.offset() or 0
                event = self._records.event(offset, message.value())
                self._position = offset + 1
                self._updates.append(
                    LeadershipRead(
                        offset,
                        event,
                        written_at_ms(message),
                        message.leader_epoch(),
                    )
                )
            elif error.code() == KafkaError._PARTITION_EOF:
                self._position = max(self._position, message.offset() or 0)
                self._updates.append(LogEndReached(self._position))
            elif self._updates:
                # What is known of a new leadership says more than that its position cannot be read, and is decided from
                # first.
                self._error = error
                break
            else:
                self._refuse(error)
            if len(self._updates) >= _POLL_RECORDS:
                break
        updates, self._updates = self._updates, []
        self.has_joined = self.has_joined or bool(self._consumer.memberid())
        return updates

    def store_low_water(
        self,
        offset: int,
        chain_from: int | None = None,
        leader_epoch: int | None = None,
        records_end: int | None = None,
    ) -> bool:
        """Record durably that everything below `offset` is committed in every table.

        Args:
            leader_epoch: the newest of the records that were read, by which a log that was cut off is known later.
            records_end: behind the last of them.

        Returns:
            False when this process no longer holds leadership, the group is changing hands or the broker does not take it
            just now: a later mark, by whoever owns it then, includes this one.

        Raises:
            FloeError: the broker did not take it for another reason.
        """
        if self._topic_id is None:
            return False
        further = {"chain_from": chain_from, "leader_epoch": leader_epoch, "records_end": records_end}
        known = {key: value for key, value in further.items() if value is not None}
        metadata = json.dumps({"topic_id": self._topic_id, **known}, separators=(",", ":"))
        try:
            stored = self._consumer.commit(
                offsets=[TopicPartition(self._topic, 0, offset, metadata)], asynchronous=False
            )
            error = stored[0].error if stored else None
        except KafkaException as raised:
            error = error_of(raised)
        if error is None:
            return True
        not_ours = (
            KafkaError.ILLEGAL_GENERATION,
            KafkaError.REBALANCE_IN_PROGRESS,
            KafkaError.UNKNOWN_MEMBER_ID,
            KafkaError.FENCED_INSTANCE_ID,
            KafkaError._ASSIGNMENT_LOST,
            KafkaError._STATE,
        )
        if error.code() in not_ours or is_passing(error):
            return False
        raise setup_error(error, self._settings, self._log, f"storing the low-water mark of group {self._group}")

    def pause(self, paused: bool) -> None:
        """Hold or resume delivery of the log; membership and leadership are kept."""
        partitions = [tp for tp in self._consumer.assignment() if tp.partition == 0]
        if partitions:
            (self._consumer.pause if paused else self._consumer.resume)(partitions)

    def close(self) -> None:
        """Leave the group, so that another member takes leadership at once."""
        self._topic_id = None
        self._consumer.close()

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if not any(tp.partition == 0 for tp in partitions):
            consumer.incremental_assign(partitions)
            return
        assigned = self._facts()
        start = first_offset(assigned)
        # Always an explicit offset: the group's own would be taken unchecked, and its absence as an end of the log.
        consumer.incremental_assign([TopicPartition(self._topic, 0, start)])
        self._topic_id, self._position = assigned.topic_id, start
        self._updates.append(assigned)

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.incremental_unassign(partitions)
        if any(tp.partition == 0 for tp in partitions):
            self._topic_id = None
            self._updates.append(LeadershipRevoked())

    def _facts(self) -> LeadershipAssigned:
        """Read anew at every assignment: another owner may have moved the mark since."""
        key = (self._topic, 0)
        topic = self._admin.topics([self._topic]).get(self._topic)
        if topic is None:
            raise SetupError(
                f"the control topic {self._topic} was deleted",
                code="FLOE-E108",
                place=address_of(self._settings),
                remedy="`floe rebase FILE` creates it again, and lets a pipeline go on from what its tables hold",
            )
        stored = self._admin.group_offsets(self._group, [key]).get(key)
        log_start, log_end = self._admin.start_offsets([key])[key], self._admin.end_offsets([key])[key]
        if stored is None:
            return LeadershipAssigned(topic.topic_id, log_start, None, None, None, log_end)
        mark = mark_of(stored.metadata)
        ours = mark.topic_id == topic.topic_id and log_start <= stored.offset <= log_end
        truncated = (
            ours
            and mark.leader_epoch is not None
            and not holds_still(self._settings, self._topic, vouched_end(stored.offset, mark), mark.leader_epoch)
        )
        return LeadershipAssigned(
            topic.topic_id,
            log_start,
            stored.offset,
            mark.topic_id,
            mark.chain_from,
            log_end,
            mark.leader_epoch,
            mark.records_end,
            truncated,
        )

    def _refuse(self, error: KafkaError) -> None:
        if error.code() in LOST:
            raise lost_position(self._admin, self._settings, self._topic, self._position)
        # Where the poll came too late leadership is lost, and the callback says so.
        if error.code() != KafkaError._MAX_POLL_EXCEEDED and not is_passing(error):
            raise setup_error(error, self._settings, self._log, f"reading the control topic {self._topic}")


def lost_position(admin: KafkaAdmin, settings: Mapping[str, str], topic: str, position: int) -> DataLossError:
    """The error of a reader whose position lies outside the control topic's log."""
    key = (topic, 0)
    start, end = admin.start_offsets([key])[key], admin.end_offsets([key])[key]
    return DataLossError(
        f"the control topic {topic} should be read at {position}, but its log is [{start}, {end})",
        place=address_of(settings),
        remedy="announcements are gone or the topic was recreated; `floe rebase FILE` reads again what the tables lack",
    )


def first_offset(assigned: LeadershipAssigned) -> int:
    """Invariant 6: from the low-water mark of this very topic, else from the log's beginning, never from its end.

    Whether that is enough (a log that starts above the mark, a mark of another topic) is decided by
    `framework.commit.machine.step`.
    """
    mark = assigned.low_water
    if mark is None or assigned.low_water_topic_id != assigned.topic_id:
        return assigned.log_start
    known = (each for each in (assigned.chain_from, assigned.records_end) if each is not None)
    return max(min((mark, *known)), assigned.log_start)


@dataclass(frozen=True)
class Mark:
    """What stands beside a low-water mark; all None when something else wrote it, or an older version did not know
    it."""

    topic_id: str | None = None
    chain_from: int | None = None
    leader_epoch: int | None = None
    records_end: int | None = None


def vouched_end(low_water: int, mark: Mark) -> int:
    """Up to where the mark's leader epoch says what the log must hold: behind that stand markers, which a later leader may
    have written. An older floe did not note it; the record that chains are seen from was read in any case."""
    if mark.records_end is not None:
        return min(low_water, mark.records_end)
    return low_water if mark.chain_from is None else min(low_water, mark.chain_from + 1)


def mark_of(metadata: str) -> Mark:
    """Read back what `store_low_water` wrote beside the offset."""
    try:
        found = json.loads(metadata)
        keys = ("chain_from", "leader_epoch", "records_end")
        numbers = [None if (at := found.get(key)) is None else int(at) for key in keys]
        return Mark(str(found["topic_id"]), *numbers)
    except (ValueError, KeyError, TypeError, AttributeError):
        return Mark()


def holds_still(settings: Mapping[str, str], topic: str, offset: int, leader_epoch: int) -> bool:
    """Whether the log still holds everything below `offset` that was read up to this leader epoch: the broker says
    where the records of an epoch end (KIP-320), and a consumer that begins with an epoch learns where they end
    earlier.

    Raises:
        SetupError: the broker refuses us. RetriableError: it does not answer.
    """
    log = ClientLog()
    consumer = build(Consumer, settings, consumer_config(settings, log, PROBE_GROUP_ID, fetch_wait_max_ms=100))
    try:
        consumer.assign([TopicPartition(topic, 0, offset, leader_epoch=leader_epoch)])
        deadline = time.monotonic() + CONNECT_TIMEOUT_S
        while time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is None:
                continue
            error = message.error()
            if error is None or error.code() == KafkaError._PARTITION_EOF:
                return True
            if error.code() in LOST:
                return False
            # A reader must name a group, and uses none.
            if error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED and not is_passing(error):
                raise setup_error(error, settings, log, f"reading the control topic {topic}")
    finally:
        consumer.close()
    raise RetriableError(
        f"the broker did not say whether the control topic {topic} still holds what was read",
        code="FLOE-R123",
        place=address_of(settings),
        remedy="check that the topic has a leader and that this machine can reach it",
    )


def written_at_ms(message: Message) -> int | None:
    """When a record's writer says that it was written; None where the record does not tell."""
    kind, at_ms = message.timestamp()
    return at_ms if kind == TIMESTAMP_CREATE_TIME else None
