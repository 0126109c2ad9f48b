"""A desk of values, a fold of events for it, and a server of the real application over a real socket."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from framework.commit.events.event_types import (
    Accounting,
    Acted,
    CommitComplete,
    CommitToTable,
    ControlEvent,
    DataComplete,
    DataFile,
    DataWritten,
    Health,
    Holds,
    PauseChanged,
    SourceRange,
    StateChanged,
    Subject,
    TableCommitPolicy,
    TableMeasured,
)
from framework.commit.maintenance.health import TableHealth
from framework.commit.maintenance.others import OtherMaintainer
from framework.diagnose.whole_commands import ReaderPlace
from framework.overview.build import Built, overview
from framework.overview.fold import LogFold
from framework.overview.values import BrokerSeen, Overview, PartitionView, PipelineFactsSeen
from framework.web.access.access import Access, Token, parse_tokens
from framework.web.app import create_app
from framework.web.backend import Refused, SettingFinding
from framework.web.documents import DeadLetterPage, ShownDeadLetter
from framework.web.serve import bind, server

NOW_MS = 1_800_000_000_000
READER, ACTOR = "read-token-of-these-tests-000", "act-token-of-these-tests-0000"
TOKENS = parse_tokens(f"rita read {READER}\nann act {ACTOR}\n", "tokens")


def written(
    table: str, batch: int, rows: int = 10, schema_id: int = 0, pipeline: str = "orders", size: int = 2_048
) -> DataWritten:
    file = DataFile(f"s3://x/{table}-{batch}.parquet", rows, size, 0)
    ranges = (SourceRange("orders", "id", 0, batch * 10, batch * 10 + 10),)
    policy = TableCommitPolicy(60_000, 1 << 30, 1_000_000)
    return DataWritten(pipeline, "run-1", batch, table, f"uuid-{table}", schema_id, (file,), ranges, policy)


def complete(batch: int, pipeline: str = "orders", dead: int = 1) -> DataComplete:
    ranges = (SourceRange("orders", "id", 0, batch * 10, batch * 10 + 10),)
    total = Accounting(10 * batch, 9 * batch, dead_lettered=dead * batch)
    return DataComplete(pipeline, "run-1", batch, ranges, Accounting(10, 9, dead_lettered=dead, rows=9), total)


def committed(table: str, below: int, snapshot_id: int = 7, at_ms: int = NOW_MS, rows: int = 10) -> CommitToTable:
    return CommitToTable(table, f"uuid-{table}", snapshot_id, "c", below, rows, 1, at_ms, at_ms - 60_000)


def reported(
    table: str, state: Health, reason: str, at_ms: int = NOW_MS, subject: Subject = Subject.TABLE, by: str = "c"
) -> StateChanged:
    remedy = "`floe discard --table X` gives it up"
    return StateChanged(subject, table, state, reason, remedy, "FLOE-R136", 1, at_ms - 60_000, at_ms, by)


def measured(table: str, gain_files: int = 350, other: str = "") -> TableMeasured:
    by = OtherMaintainer(other, 2, NOW_MS) if other else None
    sizes = {"1MiB": 390, "8MiB": 10}
    health = TableHealth(400, 390, 10**8, 10**6, 20, 2, 3, 9_000, 12, None, gain_files, 10**7, sizes, by)
    return TableMeasured(table, health, NOW_MS - 60_000, "c")


def paused(pattern: str, reason: str = "", by: str = "ann@host") -> PauseChanged:
    return PauseChanged(Holds.READING, pattern, True, reason, by, NOW_MS - 5_000)


def seen(
    events: Sequence[tuple[ControlEvent, int]],
    version: int = 1,
    owner: str | None = "coordinator-1",
    now_ms: int = NOW_MS,
) -> Overview:
    """An overview of these events, each with when it was written; the pipelines that announced are live."""
    fold = LogFold()
    for offset, (event, at_ms) in enumerate(events):
        fold.observe(offset, event, at_ms)
    facts = PipelineFactsSeen(
        ("run-1",), (PartitionView("orders", 0, 20, 25, 5), PartitionView("orders", 1, None, 3, 3))
    )
    broker = BrokerSeen(now_ms, owner, fold.position, fold.low_water, dict.fromkeys(fold.pipelines, facts))
    return overview(fold, broker, Built(), now_ms, version, ReaderPlace("prod", "control-iceberg"))


def at_now(*events: ControlEvent) -> tuple[tuple[ControlEvent, int], ...]:
    return tuple((event, NOW_MS) for event in events)


USUAL = at_now(
    written("shop.orders", 1),
    written("shop.items", 1, schema_id=3),
    complete(1),
    committed("shop.orders", 2),
    written("shop.items", 2, schema_id=4),
    complete(2),
    CommitComplete("c", 0, NOW_MS, blocked={"shop.items": "table shop.items was dropped"}, position=3),
    Acted("rollback", "shop.orders", "ann@host", "the disk was lost", NOW_MS),
)


LETTERS = DeadLetterPage(
    "orders",
    "shop.dead_letters",
    NOW_MS - 86_400_000,
    7,
    (
        ShownDeadLetter(
            "orders-0@51", NOW_MS - 60_000, "convert", "FLOE-D304", "A value does not fit", "total: no int64: 'many'", "total",
            "int64", "many", "k-1", ('{"id": 7, "total": "many", "note": "<b onclick=x>"}', "                   ^^^^^^"), False,
        ),
    ),
)  # fmt: skip


@dataclass
class PlainDesk:
    """Answers from values; notes what was done. `error` is raised by whatever asks the world."""

    found: Overview = field(default_factory=lambda: seen(USUAL))
    settings: Mapping[str, str] = field(default_factory=lambda: {"read.topics": "orders"})
    findings: tuple[SettingFinding, ...] = ()
    acts: list[tuple[str, bool, str, str]] = field(default_factory=list)
    error: Exception | None = None
    changes: bool = True
    shown: Mapping[str, DeadLetterPage] = field(default_factory=dict)

    def view(self) -> Overview:
        return self.found

    def config(self, pipeline: str) -> Mapping[str, str]:
        self._fail()
        return self.settings

    def hold(self, pipeline: str, paused: bool, by: str, why: str) -> bool:
        self._fail()
        self.acts.append((pipeline, paused, by, why))
        return self.changes

    def stop(self, pipeline: str, by: str, why: str) -> bool:
        self._fail()
        self.acts.append((pipeline, True, by, f"stop {why}"))
        return self.changes

    @property
    def has_dead_letters(self) -> bool:
        return bool(self.shown)

    def letters(self, pipeline: str, code: str, limit: int, by: str) -> DeadLetterPage:
        self._fail()
        if pipeline not in self.shown:
            raise Refused(403, f"the target does not let the page show dead letters of {pipeline}")
        self.acts.append((pipeline, False, by, f"{code} {limit}"))
        return self.shown[pipeline]

    def check(self, plugin: str, settings: Mapping[str, str]) -> tuple[SettingFinding, ...]:
        self._fail()
        return self.findings

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error


@contextmanager
def served(
    backend: PlainDesk, tokens: Callable[[], Sequence[Token]] | None = lambda: TOKENS, names: tuple[str, ...] = ()
) -> Iterator[str]:
    """The application at an address of its own."""
    bound = bind("127.0.0.1", 0)
    running = server(create_app(backend, Access(tokens, names)))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        running.should_exit = True
        thread.join(10)
        bound.close()
