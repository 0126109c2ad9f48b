"""Follows the control topic and asks the broker for all who look: one reader, however many viewers.

In: a target's broker and one control topic. Out: the newest `Overview`, and a number that grows whenever something
has changed. Its thread reads the log as it grows and asks the broker every few seconds, more seldom while nobody
looks. It changes nothing; an outage is waited out and shown.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.leadership import SESSION_TIMEOUT_MS, Mark, mark_of
from framework.adapters.kafka.control.log import ControlReader
from framework.adapters.kafka.control.record_time import RecordTimes, record_time_ms
from framework.adapters.kafka.control.topic import check_control_topic, control_topic_there
from framework.commit.dead_letter_replay import is_replay, is_replay_topic
from framework.commit.events.event_types import SourceRange
from framework.commit.offsets import PartitionKey, SafeOffset, decode_metadata, recreated_topics
from framework.commit.risks import nearest_to_retention
from framework.diagnose.whole_commands import ReaderPlace
from framework.errors import FloeError, SetupError, StateDisagreement
from framework.observe.liveness import live_members
from framework.observe.waiting_since import UnreadPart, open_transactions, waiting_since, with_times
from framework.overview.build import Built, held_of, overview
from framework.overview.fold import LogFold
from framework.overview.values import NO_CONTROL_TOPIC, BrokerSeen, Overview, PartitionView, PipelineFactsSeen
from framework.plan.compile import coordinator_group, group_id
from framework.task.failures import in_words, say_safely

log = logging.getLogger(__name__)

TAIL = 20_000
POLL_S = 0.5
ASK_EVERY_S = 3.0  # while somebody looks
ASK_SELDOM_S = 15.0
LOOKED_AT_S = 60.0  # who asked so lately looks still
AGAIN_AFTER_S = 3.0
BUILD_EVERY_S = 1.0


@dataclass(frozen=True)
class LiveTarget:
    """What is looked at."""

    target: str
    prefix: str
    kafka: Mapping[str, str]
    control_topic: str
    connection: str = ""  # where a command has to name it


class OverviewReader:
    """`start`, then `view` from any thread, then `close`."""

    def __init__(self, looked: LiveTarget, say: Callable[[str], None]) -> None:
        self._looked = looked
        self._say = say
        self._admin = KafkaAdmin(looked.kafka)
        self._group = coordinator_group(looked.prefix, looked.control_topic)
        self._place = ReaderPlace(
            looked.target, looked.control_topic, looked.connection, looked.kafka.get("bootstrap.servers", "")
        )
        self._times = RecordTimes(looked.kafka)
        self._uncommitted_times = RecordTimes(looked.kafka, committed=False)
        self._fold = LogFold()
        self._built = Built()
        self._broker = BrokerSeen()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="overview", daemon=True)
        self._reader: ControlReader | None = None
        self._is_dirty = True
        self._version = 0
        self._view: Overview | None = None
        self._built_at = 0.0
        self._asked_at = 0.0
        self._looked_at = time.monotonic()
        self._waiting_since: dict[
            str, tuple[PartitionKey, int | None, float]
        ] = {}  # by pipeline, and when it was asked

    def start(self, waits: bool = False) -> None:
        """Read what is there, then go on in the background.

        Args:
            waits: for a control topic that does not exist yet; meanwhile that is what is shown.

        Raises:
            SetupError: the broker does not answer, or there is no control topic.
        """
        try:
            self._begin()
        except SetupError as error:
            if not waits or error.code != NO_CONTROL_TOPIC:
                raise
            self._in_trouble(error)
        self._thread.start()

    def _begin(self) -> None:
        facts = check_control_topic(self._admin, self._looked.control_topic)
        key = (self._looked.control_topic, 0)
        stored = self._admin.group_offsets(self._group, [key]).get(key)
        mark = mark_of(stored.metadata) if stored is not None else Mark()
        begin = facts.log_start
        if stored is not None and mark.topic_id == facts.topic_id:
            begin = stored.offset if mark.chain_from is None else min(stored.offset, mark.chain_from)
            self._fold.low_water = stored.offset
        self._reader = ControlReader(self._looked.kafka, self._looked.control_topic, notice=_pass_over)
        end = self._reader.end_offset()
        self._reader.seek(max(facts.log_start, min(begin, end - TAIL)))
        with self._lock:
            for record in self._reader.records_until(end):
                self._fold.observe(record.offset, record.event, record.timestamp_ms)
            self._fold.position = max(self._fold.position, end)
        self._ask()

    def close(self) -> None:
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._reader is not None:
            self._reader.close()
        self._times.close()
        self._uncommitted_times.close()

    def view(self) -> Overview:
        """How everything stands; made anew at most once a second, and only where something has changed."""
        self._looked_at = time.monotonic()
        with self._lock:
            now = time.monotonic()
            is_due = now - self._built_at >= BUILD_EVERY_S
            if self._view is None or (self._is_dirty and is_due):
                self._version += 1
                self._is_dirty, self._built_at = False, now
                self._view = overview(
                    self._fold,
                    self._broker,
                    self._built,
                    int(time.time() * 1000),
                    self._version,
                    self._place,
                )
            return self._view

    # ---- its thread ----------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        while not self._closing.is_set():
            try:
                if self._reader is None:
                    self._begin()
                assert self._reader is not None
                records = self._reader.poll_records(POLL_S)
                with self._lock:
                    for record in records:
                        self._observe(record.offset, record.event, record.timestamp_ms)
                    self._is_dirty = self._is_dirty or bool(records)
                is_looked_at = time.monotonic() - self._looked_at < LOOKED_AT_S
                if time.monotonic() - self._asked_at >= (ASK_EVERY_S if is_looked_at else ASK_SELDOM_S):
                    self._ask()
            except Exception as error:  # whatever it is: it is shown, and asked again
                self._in_trouble(error)
                self._closing.wait(AGAIN_AFTER_S)

    def _observe(self, offset: int, event: object, at_ms: int | None) -> None:
        try:
            self._fold.observe(offset, event, at_ms)  # type: ignore[arg-type]
        except Exception as error:  # one event that is not understood must not hide those behind it
            log.exception("an event of the control topic is not shown")
            say_safely(self._say, f"control topic: the event at offset {offset} is not shown: {in_words(error)}")

    def _in_trouble(self, error: Exception) -> None:
        with self._lock:
            now_ms = int(time.time() * 1000)
            if not self._broker.trouble:
                log.info("the broker could not be asked: %s", error)
            since_ms = self._broker.trouble_since_ms if self._broker.trouble else now_ms
            code = error.code if isinstance(error, FloeError) else ""
            self._broker = replace(self._broker, trouble=in_words(error), trouble_since_ms=since_ms, trouble_code=code)
            self._is_dirty = True

    def _ask(self) -> None:
        """What the log does not hold: who is alive, where sources end, how far offsets are safe."""
        self._asked_at = time.monotonic()
        control_topic_there(self._admin, self._looked.control_topic)
        members = self._admin.group_members(self._group)
        key = (self._looked.control_topic, 0)
        owner = next((m.client_id for m in members if key in m.partitions), None)
        stored = self._admin.group_offsets(self._group, [key]).get(key)
        with self._lock:
            announced = {
                name: found.link.ranges if found.link is not None else ()
                for name, found in self._fold.pipelines.items()
            }
        pipelines = self._with_waiting({name: self._ask_of(name, ranges) for name, ranges in announced.items()})
        log_end = self._admin.end_offsets([key])[key]
        now_ms = int(time.time() * 1000)
        with self._lock:
            if stored is not None:
                self._fold.everything_is_in(stored.offset)
            found = BrokerSeen(0, owner, log_end, max(self._fold.low_water, 0), pipelines)
            has_changed = replace(self._broker, at_ms=0) != found
            self._is_dirty = self._is_dirty or has_changed
            self._broker = replace(found, at_ms=now_ms)

    def _ask_of(self, name: str, announced: tuple[SourceRange, ...]) -> PipelineFactsSeen:
        """One pipeline, with the ranges that it announced last. Offsets are asked for by partition, which is safe while a
        broker goes down."""
        topics = tuple(sorted({r.topic for r in announced if not is_replay_topic(r.topic)}))
        if is_replay(name) or not topics:
            return PipelineFactsSeen()
        found = self._admin.topics(topics)
        keys = [(topic, partition) for topic, facts in found.items() for partition in facts.partitions]
        ends = self._admin.end_offsets(keys) if keys else {}
        starts = self._admin.start_offsets(keys) if keys else {}
        group: dict[PartitionKey, SafeOffset] = {}
        foreign = ""
        stored = self._admin.group_offsets(group_id(self._looked.prefix, name), keys, settled=False) if keys else {}
        for key, value in stored.items():
            try:
                group[key] = decode_metadata(value.offset, value.metadata, f"{key[0]}-{key[1]}")
            except StateDisagreement as error:
                foreign = f"{error.place}: {error.message}"
        partitions = tuple(
            PartitionView(
                *key,
                group[key].offset if key in group else None,
                end,
                max(0, end - (group[key].offset if key in group else starts[key])),
                group[key].gaps if key in group else (),
                starts[key],
            )
            for key, end in sorted(ends.items())
        )
        runs = tuple(m.run for m in live_members(self._admin, self._looked.prefix, name) if m.run)
        partitions = self._with_retention(name, partitions)
        missing = tuple(t for t in topics if t not in found)
        recreated = recreated_topics(group, announced, {topic: facts.topic_id for topic, facts in found.items()})
        live_until_ms = None if runs else self._live_until_ms(name)
        hiding = open_transactions(ends, self._admin.end_offsets(keys, committed=False)) if keys else ()
        return PipelineFactsSeen(runs, partitions, missing, foreign, live_until_ms, recreated, transactions=hiding)

    def _with_waiting(self, pipelines: Mapping[str, PipelineFactsSeen]) -> dict[str, PipelineFactsSeen]:
        unread = {
            name: tuple(
                UnreadPart((each.topic, each.partition), max(each.safe_offset, each.log_start), each.lag)
                for each in seen.partitions
                if each.safe_offset is not None
            )
            for name, seen in pipelines.items()
        }
        since_ms = waiting_since(self._times.of, unread)
        hiding = with_times(self._uncommitted_times.of, {name: seen.transactions for name, seen in pipelines.items()})
        return {
            name: replace(seen, waits_since_ms=since_ms.get(name), transactions=hiding[name])
            for name, seen in pipelines.items()
        }

    def _live_until_ms(self, name: str) -> int | None:
        """When the last run of a pipeline that is not alive now can have ended: the group keeps a member that was killed
        for as long as a session lasts."""
        seen = self._broker.pipelines.get(name, PipelineFactsSeen())
        return self._broker.at_ms - SESSION_TIMEOUT_MS if seen.runs else seen.live_until_ms

    def _with_retention(self, name: str, partitions: tuple[PartitionView, ...]) -> tuple[PartitionView, ...]:
        """The worst partition gets since when its records wait, where retention is near them: looked for seldom."""
        worst = nearest_to_retention(held_of(partitions))
        if worst is None:
            self._waiting_since.pop(name, None)
            return partitions
        key, first = (worst.topic, worst.partition), max(worst.log_start, worst.safe_offset)
        known = self._waiting_since.get(name)
        if known is None or known[0] != key or time.monotonic() - known[2] >= ASK_SELDOM_S:
            since_ms = record_time_ms(self._looked.kafka, *key, first)
            known = self._waiting_since[name] = (key, since_ms, time.monotonic())
        return tuple(
            replace(each, waits_since_ms=known[1]) if (each.topic, each.partition) == key else each
            for each in partitions
        )


def _pass_over(offset: int, why: str, value: bytes) -> None:
    """Who only looks reads on behind what cannot be read; `floe log` marks it."""
