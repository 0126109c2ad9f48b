"""Reports runs and commits, as lineage events, in a thread of its own: nothing waits for who listens.

In: values, from any thread. Out: events, sent one after another to the target's sink. What does not fit into the queue, or
cannot be delivered, is dropped, counted, and said once. Invariant: no method blocks or raises, so that no run and no commit
is slowed or stopped by lineage.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.secrets import resolve
from framework.adapters.telemetry.lineage_sinks import FileSink, HttpSink, LineageSink
from framework.commit.events.event_types import ControlEvent, DataComplete, DataWritten, Deployed, Heartbeat
from framework.commit.machine.effects import CommitTable, Committed
from framework.config.spec import TablePolicy, TargetSpec
from framework.diagnose.counted import counted
from framework.lineage.events import Event, run_began, run_ended, table_committed, table_recovered
from framework.lineage.values import (
    Names,
    RunBegan,
    RunEnded,
    TableCommitted,
    TableRecovered,
    TableSchema,
    catalog_namespace,
    committed,
    kafka_namespace,
)
from framework.plan.compile import group_id
from framework.runtime.published_plans import newest_published
from framework.task.failures import in_words, say_safely

QUEUED = 1_000
CLOSE_TIMEOUT_S = 5.0
_Item = RunBegan | RunEnded | TableCommitted | TableRecovered


class LineageTeller:
    """Of one process and Kafka connection.

    Args:
        open_sink: makes the sink, on the thread that sends.
        schema_of: a table as it is now; asked again when a commit has another schema.
        plan_of: what a pipeline's newest run published on one of these control topics, for a coordinator that began to read
            behind that word; asked once.
    """

    def __init__(
        self,
        names: Names,
        open_sink: Callable[[], LineageSink],
        schema_of: Callable[[str], TableSchema | None],
        say: Callable[[str], None],
        queued: int = QUEUED,
        plan_of: Callable[[str, Iterable[str]], Mapping[str, Any] | None] = lambda pipeline, topics: None,
    ) -> None:
        self._plan_of = plan_of
        self._control_topics: set[str] = set()
        self._asked: set[str] = set()
        self.dropped = 0
        self.sent = 0
        self._names = names
        self._open_sink = open_sink
        self._schema_of = schema_of
        self._say = say
        self._runs: dict[str, str] = {}
        self._plans: dict[str, Mapping[str, Any]] = {}
        self._schemas: dict[str, TableSchema] = {}
        self._queue: queue.Queue[_Item | None] = queue.Queue(queued)
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._is_failing = False
        self._thread = threading.Thread(target=self._send_all, name="lineage", daemon=True)
        self._thread.start()

    def reads(self, control_topic: str) -> None:
        """A coordinator of this process reads that topic."""
        self._control_topics.add(control_topic)

    def note(self, event: ControlEvent) -> None:
        """The coordinator has read an event: whose run it is, or what the run says that it runs."""
        if isinstance(event, Deployed):
            plan = plan_in(event)
            if plan is not None:
                self._plans[event.pipeline] = plan
        if isinstance(event, DataWritten | DataComplete | Heartbeat):
            self._runs[event.pipeline] = event.run

    def committed(self, effect: CommitTable, outcome: Committed) -> None:
        """A commit is in its table."""
        try:
            self._offer(committed(effect, outcome))
        except Exception as error:  # a commit that was made is made, whatever can be determined of it
            self._drop(1, error)

    def recovered(self, verb: str, effect: CommitTable, outcome: Committed) -> None:
        """A verb of recovery has changed a table."""
        commit = replace(committed(effect, outcome), reads={})
        self._offer(TableRecovered(verb, replace(commit, rows=0, files=0, bytes=0, replaced=0)))

    def run(self, reported: RunBegan | RunEnded) -> None:
        """A run begins or has ended."""
        self._offer(reported)

    def close(self) -> None:
        """Send what is queued, for as long as that takes a few seconds; what is left is dropped."""
        self._closing.set()
        with suppress(queue.Full):  # then the thread looks whether it is to end
            self._queue.put_nowait(None)
        self._thread.join(CLOSE_TIMEOUT_S)
        left = self._queue.qsize() if self._thread.is_alive() else 0
        if self.dropped + left:
            say_safely(self._say, f"lineage: {counted(self.dropped + left, 'event was', 'events were')} dropped")

    def _offer(self, item: _Item) -> None:
        try:
            self._queue.put_nowait(item)
        except queue.Full:
            self._drop(1, OSError(f"{QUEUED:,} events wait"))

    def _drop(self, events: int, error: Exception) -> None:
        with self._lock:
            self.dropped += events
            is_news, self._is_failing = not self._is_failing, True
        if is_news:
            say_safely(
                self._say, f"lineage events are not delivered and are dropped: {in_words(error)}; going on without"
            )

    def _delivered(self) -> None:
        with self._lock:
            self.sent += 1
            is_news, self._is_failing = self._is_failing, False
        if is_news:
            say_safely(self._say, f"lineage events are delivered again; {self.dropped:,} were dropped")

    # ---- the thread that sends -----------------------------------------------------------------------------------

    def _send_all(self) -> None:
        sink: LineageSink | None = None
        while (item := self._next()) is not None:
            events: list[Event] = []
            try:
                events = self._events(item)
                sink = sink or self._open_sink()
                while events:
                    event = events[0]
                    sink.send(event["job"]["name"], json.dumps(event, separators=(",", ":")).encode())
                    events.pop(0)
                    self._delivered()
            except Exception as error:  # whatever it is: the events that follow are sent all the same
                self._drop(max(1, len(events)), error)
        if sink is not None:
            try:
                sink.close()
            except Exception as error:
                say_safely(self._say, f"lineage: {in_words(error)}")

    def _next(self) -> _Item | None:
        while True:
            try:
                return self._queue.get(timeout=0.5)
            except queue.Empty:
                if self._closing.is_set():
                    return None

    def _events(self, item: _Item) -> list[Event]:
        if isinstance(item, RunBegan):
            return [run_began(item, self._names)]
        if isinstance(item, RunEnded):
            return [run_ended(item, self._names)]
        if isinstance(item, TableRecovered):
            return [table_recovered(item, self._schema(item.commit), self._names)]
        for pipeline in item.reads:
            self._find_plan(pipeline)
        return table_committed(item, self._runs, self._plans, self._schema(item), self._names)

    def _find_plan(self, pipeline: str) -> None:
        if pipeline in self._plans or pipeline in self._asked:
            return
        self._asked.add(pipeline)
        try:
            found = self._plan_of(pipeline, sorted(self._control_topics))
        except Exception:  # the broker's trouble is reported by those who need it; the columns' origin is left out
            self._asked.discard(pipeline)
            return
        if found is not None:
            self._plans.setdefault(pipeline, found)

    def _schema(self, commit: TableCommitted) -> TableSchema | None:
        known = self._schemas.get(commit.table)
        if known is None or known.schema_id != commit.schema_id:
            try:
                known = self._schema_of(commit.table)
            except Exception:  # the catalog's trouble is reported by those who need it
                return None
            if known is not None:
                self._schemas[commit.table] = known
        return known


def lineage_of(
    target: TargetSpec, connection: str, catalog: IcebergTables, say: Callable[[str], None]
) -> LineageTeller | None:
    """What reports a target's runs and commits; None where it says nothing of lineage."""
    spec = target.lineage
    if not spec.is_wanted:
        return None
    servers = resolve(target.kafka[connection])["bootstrap.servers"]
    catalogs = {name: catalog_namespace(name, settings) for name, settings in target.catalogs.items()}
    names = Names(spec.namespace or target.prefix, kafka_namespace(servers), catalogs)

    def open_sink() -> LineageSink:
        if spec.file:
            return FileSink(spec.file)
        if spec.http:
            return HttpSink(spec.http, resolve({"token": spec.token})["token"] if spec.token else "")
        from framework.adapters.kafka.lineage_topic import TopicSink

        return TopicSink(resolve(target.kafka[spec.kafka_connection]), spec.kafka_topic)

    def schema_of(table: str) -> TableSchema | None:
        found = catalog.load_target(table, TablePolicy())
        return None if found is None else TableSchema(found.schema_json, found.schema_id, found.location)

    def plan_of(pipeline: str, control_topics: Iterable[str]) -> Mapping[str, Any] | None:
        for topic in control_topics:
            group = group_id(target.prefix, pipeline)
            reported = newest_published(resolve(target.kafka[connection]), topic, {pipeline: group}).get(pipeline)
            if reported is not None:
                return plan_in(reported)
        return None

    return LineageTeller(names, open_sink, schema_of, say, plan_of=plan_of)


@contextmanager
def recovery_publisher(
    target: TargetSpec, connection: str, catalog: IcebergTables, say: Callable[[str], None]
) -> Iterator[Callable[[str, CommitTable, Committed], None]]:
    """For a verb of recovery: what it is to call with each table that it has changed."""
    publisher = lineage_of(target, connection, catalog, say)
    try:
        yield publisher.recovered if publisher is not None else lambda verb, effect, outcome: None
    finally:
        if publisher is not None:
            publisher.close()


def plan_in(event: Deployed) -> dict[str, Any] | None:
    """The plan that a run published; None where it was too large, or of another version."""
    plan = event.plan.get("plan")
    return plan if isinstance(plan, dict) else None


def now_ms() -> int:
    return int(time.time() * 1000)
