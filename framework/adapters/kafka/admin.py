"""Facts about a Kafka cluster as plain values: topics with their ids, log ends, group offsets with metadata, members.

In: a connection's settings. Out: frozen values; an unreachable broker is a SetupError within ten seconds. Keeps the
facts that invariant 11 needs: an offset can always be checked against the id of its cluster and topic.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from framework.adapters.kafka.client import (
    CONNECT_TIMEOUT_S,
    SILENT,
    STALE,
    ClientLog,
    address_of,
    build,
    client_config,
    consumer_config,
    error_of,
    is_passing,
    setup_error,
)
from framework.config.names.patterns import compiled
from framework.errors import FloeError, RetriableError, SetupError

Key = tuple[str, int]
T = TypeVar("T")

# A transaction that was just committed may need a moment until its offsets are stable; one whose owner died is aborted
# by the broker at the latest one clean-up round (10 s) after its own time-out (10 s).
STABLE_OFFSETS_TIMEOUT_S = 30.0
# A new broker makes its offsets topic in about a second.
COORDINATOR_TIMEOUT_S = 5.0
COMMITTED_TIMEOUT_S = 3.0  # it is asked again until the offsets are settled
# A moment after the newest record has this offset; what lies below it is no answer.
_NO_SUCH_OFFSET = -1


# Sixteen bytes of zeros, as Kafka writes ids, and what a client gives that knows none.
NO_TOPIC_ID = frozenset({"AAAAAAAAAAAAAAAAAAAAAA", "", "None"})


@dataclass(frozen=True)
class TopicFacts:
    """`topic_id` is the broker's id of this incarnation (text); `partitions` are the partition numbers, ascending."""

    topic_id: str
    partitions: tuple[int, ...]


@dataclass(frozen=True)
class GroupOffset:
    """A committed offset and the metadata string that was committed with it ("" when there is none)."""

    offset: int
    metadata: str


@dataclass(frozen=True)
class GroupMember:
    """A live member of a consumer group and the partitions it owns."""

    member_id: str
    client_id: str
    host: str
    partitions: tuple[Key, ...]


class KafkaAdmin:
    """One admin client. Every method raises SetupError when the broker cannot be reached (FLOE-E101) or refuses us."""

    def __init__(self, settings: Mapping[str, str], timeout_s: float = CONNECT_TIMEOUT_S) -> None:
        self._settings = dict(settings)
        # Of several brokers two are asked, each for half the time: who waits for an answer waits no longer than for one.
        self._has_several = "," in str(self._settings.get("bootstrap.servers", ""))
        self._timeout_s = timeout_s / 2 if self._has_several else timeout_s
        self._log = ClientLog()
        self._met: set[str] = set()
        self._coordinated: set[str] = set()
        self._client = build(AdminClient, self._settings, client_config(self._settings, self._log))

    @property
    def address(self) -> str:
        return address_of(self._settings)

    def check(self) -> None:
        """Raises SetupError when no broker answers."""
        self.cluster_id()

    def cluster_id(self) -> str:
        """The cluster's id; part of what qualifies an offset (invariant 11)."""

        def ask() -> str:
            found = self._client.cluster_id(timeout=self._timeout_s)
            if not found:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            return str(found)

        return self._patiently(ask, "asking for the cluster id", self._timeout_s)

    def topics(self, wanted: Sequence[str] | str) -> dict[str, TopicFacts]:
        """Facts of the named topics, or of those whose name a regular expression is found in.

        Args:
            wanted: names, or one pattern; a pattern never matches internal topics (`__...`).

        Returns:
            One entry a topic, sorted by name; a name that does not exist is absent. Nothing is created by asking.
        """
        names = self._matching(wanted) if isinstance(wanted, str) else sorted(set(wanted))
        if not names:
            return {}

        def ask() -> dict[str, TopicFacts]:
            futures = self._client.describe_topics(TopicCollection(names), request_timeout=self._timeout_s)
            found: dict[str, TopicFacts] = {}
            for name in names:
                try:
                    description = self.answer(futures[name])
                except KafkaException as raised:
                    if error_of(raised).code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                        continue
                    raise
                numbers = tuple(sorted(partition.id for partition in description.partitions))
                found[name] = TopicFacts(known_id(name, str(description.topic_id), self.address), numbers)
            return found

        return self._patiently(ask, f"describing topic {', '.join(names[:3])}", self._timeout_s)

    def replicas(self, topic: str) -> tuple[int, int]:
        """How many brokers are to hold the topic, and how many hold all of it now: the least of its partitions."""

        def ask() -> tuple[int, int]:
            described = self._client.describe_topics(TopicCollection([topic]), request_timeout=self._timeout_s)
            partitions = self.answer(described[topic]).partitions
            return min(len(each.replicas) for each in partitions), min(len(each.isr) for each in partitions)

        return self._patiently(ask, f"describing topic {topic}", self._timeout_s)

    def _matching(self, pattern: str) -> list[str]:
        regex = compiled(pattern)
        return sorted(name for name in self._all_topics() if regex.is_within(name) and not name.startswith("__"))

    def _all_topics(self) -> Iterable[str]:
        return {topic for topic, _ in self._all_partitions()}

    def _all_partitions(self) -> list[Key]:
        def ask() -> list[Key]:
            topics = self._client.list_topics(timeout=self._timeout_s).topics
            return [(name, partition) for name, facts in topics.items() for partition in facts.partitions]

        return self._patiently(ask, "listing topics", self._timeout_s)

    def start_offsets(self, keys: Iterable[Key]) -> dict[Key, int]:
        """The first offset that each partition still has."""
        return self._offsets(keys, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def end_offsets(self, keys: Iterable[Key], committed: bool = True) -> dict[Key, int]:
        """The last stable offset of each partition: below it no transaction is open, so read_committed shows it all.

        Args:
            committed: False: the high watermark, which also counts what open transactions have written.
        """
        return self._offsets(keys, OffsetSpec.latest(), committed)  # type: ignore[no-untyped-call]

    def offsets_at(self, keys: Iterable[Key], timestamp_ms: int) -> dict[Key, int]:
        """The first offset of each partition whose record is not older than a moment; -1 where there is none."""
        return self._offsets(keys, OffsetSpec.for_timestamp(timestamp_ms))

    def _offsets(self, keys: Iterable[Key], spec: OffsetSpec, committed: bool = True) -> dict[Key, int]:
        wanted = [TopicPartition(topic, partition) for topic, partition in keys]
        if not wanted:
            return {}
        self._meet({tp.topic for tp in wanted})

        def ask() -> dict[Key, int]:
            futures = self._client.list_offsets(
                dict.fromkeys(wanted, spec),
                isolation_level=IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED,
                request_timeout=self._timeout_s,
            )
            found = {(tp.topic, tp.partition): self.answer(f).offset for tp, f in futures.items()}
            if min(found.values()) < _NO_SUCH_OFFSET:
                # What the client gives for a partition that is in no answer, as when the connection was cut meanwhile.
                raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
            return found

        return self._patiently(ask, "asking for log ends", self._timeout_s)

    def _meet(self, topics: set[str]) -> None:
        """Describe topics that this client has not met: its first question about their offsets may else take 3 s."""
        new = topics - self._met
        missing = new - self.topics(sorted(new)).keys()
        if missing:
            raise SetupError(
                f"no topic {', '.join(sorted(missing))}",
                code="FLOE-E110",
                place=self.address,
                remedy="create the topic, or correct its name in the pipeline file",
            )
        self._met |= new

    def group_offsets(
        self, group: str, keys: Iterable[Key] | None = None, settled: bool = True
    ) -> dict[Key, GroupOffset]:
        """Committed offsets of a group, with metadata. Waits until no transaction on them is pending.

        Args:
            keys: the partitions to ask for; None: all that there are. A broker keeps no offsets of a topic that is gone.
            settled: False: what is committed by now, without waiting for transactions that are open.

        Raises:
            RetriableError: a pending transaction was not settled within 30 seconds.
        """
        if keys is None:
            keys = self._all_partitions()
        return self._committed(group, [TopicPartition(topic, partition) for topic, partition in keys], settled)

    def _committed(self, group: str, named: list[TopicPartition], settled: bool) -> dict[Key, GroupOffset]:
        """Through a consumer that never subscribes, by the names of the partitions: what is safe to ask while a broker goes
        down.

        The admin request for a group's offsets ends the whole process when its coordinator moves or the connection breaks
        under it (confluentinc/librdkafka#5040, up to 2.16 at least), which is just when a running job reads its offsets
        back. `test_nobody_asks_the_admin_client_for_a_groups_offsets` keeps it out.
        """
        if not named:
            return {}
        doing = f"reading the offsets of group {group}"
        deadline = time.monotonic() + STABLE_OFFSETS_TIMEOUT_S
        # The client asks for offsets that no open transaction may change exactly where it reads committed records only.
        level = "read_committed" if settled else "read_uncommitted"
        config = consumer_config(self._settings, self._log, group, isolation_level=level)
        consumer = build(Consumer, self._settings, config)
        try:
            while True:
                try:
                    return _stored(consumer.committed(named, timeout=min(self._timeout_s, COMMITTED_TIMEOUT_S)))
                except KafkaException as raised:
                    if not is_passing(error_of(raised)):
                        raise self.error(raised, doing) from raised
                    # What it is refused a consumer waits for, too; it says so where records would come.
                    said = consumer.poll(0)
                    refused = said.error() if said is not None else None
                    if refused is not None and refused.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                        raise self.error(KafkaException(refused), doing) from raised
                    self.check()  # nobody answers at all: that is another error
                    if time.monotonic() > deadline:
                        raise RetriableError(
                            f"a transaction on the offsets of group {group} is still pending",
                            code="FLOE-R120",
                            place=self.address,
                            remedy="the broker ends it after its timeout; then the offsets can be read",
                        ) from raised
                time.sleep(0.1)
        finally:
            consumer.close()

    def _await_coordinator(self, group: str) -> None:
        """Wait until the group has a coordinator, once for a group.

        A broker that is new makes its offsets topic when it is first asked; a consumer waits for that as it should, and
        admin requests do not.
        """
        if group in self._coordinated:
            return
        consumer = build(Consumer, self._settings, consumer_config(self._settings, self._log, group))
        try:
            # What is asked for does not matter, nor whether this user may read it: the answer is a coordinator's.
            consumer.committed([TopicPartition(group, 0)], timeout=min(self._timeout_s, COORDINATOR_TIMEOUT_S))
            self._coordinated.add(group)
        except KafkaException as raised:
            # A consumer waits for what it is refused, too; the request itself then says what is wrong.
            if error_of(raised).code() != KafkaError._TIMED_OUT:
                raise
        finally:
            consumer.close()

    def group_members(self, group: str) -> tuple[GroupMember, ...]:
        """The live members of a group and what each owns; empty when there are none or the group does not exist."""

        def ask() -> tuple[GroupMember, ...]:
            self._await_coordinator(group)
            futures = self._client.describe_consumer_groups([group], request_timeout=self._timeout_s)
            try:
                members = self.answer(futures[group]).members
            except KafkaException as raised:
                if error_of(raised).code() == KafkaError.GROUP_ID_NOT_FOUND:
                    return ()
                raise
            return tuple(
                GroupMember(
                    m.member_id,
                    m.client_id,
                    m.host,
                    tuple(sorted((tp.topic, tp.partition) for tp in m.assignment.topic_partitions)),
                )
                for m in members
            )

        return self._patiently(ask, f"describing group {group}", self._timeout_s)

    def _patiently(self, ask: Callable[[], T], doing: str, timeout_s: float) -> T:
        """Ask again while the broker says "not now": a leader moves, a coordinator loads, a transaction settles. What one of
        several brokers was asked that is silent is asked once more, of whichever answers a new client."""
        deadline = time.monotonic() + timeout_s
        may_ask_another = self._has_several
        while True:
            try:
                return ask()
            except KafkaException as raised:
                found = error_of(raised)
                is_silent = found.code() in SILENT  # it was waited for already
                if is_silent and may_ask_another:
                    may_ask_another = False
                    self._renew()
                    deadline = time.monotonic() + timeout_s
                    continue
                if is_silent or not is_passing(found) or time.monotonic() > deadline:
                    raise self.error(raised, doing) from raised
            if found.code() in STALE:
                with suppress(KafkaException):
                    self._client.list_topics(timeout=self._timeout_s)  # asks anew; naming one topic could create it
            time.sleep(0.1)

    def _renew(self) -> None:
        """A client that lost its connection may ask the same broker nothing ever again: what is asked next gets a new one."""
        self._log = ClientLog()
        self._client = build(AdminClient, self._settings, client_config(self._settings, self._log))

    def error(self, raised: KafkaException, doing: str) -> FloeError:
        """What a failed request means to a person, with the newest error of the connection in it."""
        self._client.poll(0)  # serves the error callback, which knows why nothing answered
        log = self._log
        if error_of(raised).code() in SILENT:
            self._renew()  # also where a group's coordinator is back, and answers all others
        return setup_error(error_of(raised), self._settings, log, doing)

    @property
    def raw(self) -> AdminClient:
        """The admin client itself, for the neighbours of this module that create and describe topics."""
        return self._client

    def wait(self, future: Future[Any], doing: str) -> Any:
        """The result of one of the client's futures, its error translated."""
        try:
            return self.answer(future)
        except KafkaException as raised:
            raise self.error(raised, doing) from raised

    def answer(self, future: Future[Any]) -> Any:
        """The result of one of the client's futures. The client's own time-out comes late on a busy machine, and behind
        that of a process that stood still: both are one error."""
        try:
            return future.result(self._timeout_s + 2)
        except FutureTimeout as raised:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from raised


def known_id(topic: str, topic_id: str, address: str) -> str:
    """A topic's id, which is what distinguishes it from another of its name (invariant 11).

    Raises:
        SetupError: FLOE-E113, the broker gives none: it is older than topic ids, and answers with zeros.
    """
    if topic_id in NO_TOPIC_ID:
        raise SetupError(
            f"the broker gives topic {topic} no id, so a recreated topic of the same name would look the same",
            code="FLOE-E113",
            place=address,
            remedy="use Kafka 2.8 or newer, with inter.broker.protocol.version at 2.8 or above; topics then get their ids",
        )
    return topic_id


def _stored(partitions: Iterable[TopicPartition]) -> dict[Key, GroupOffset]:
    """The partitions that have a committed offset, by name."""
    found: dict[Key, GroupOffset] = {}
    for tp in partitions:
        if tp.error is not None:
            raise KafkaException(tp.error)
        if tp.offset >= 0:
            found[tp.topic, tp.partition] = GroupOffset(tp.offset, tp.metadata or "")
    return found
