"""A coordinator that begins on a long log: everything is committed once, and memory stays bounded on the way."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from framework.commit.events.codec import decode, encode
from framework.commit.events.event_types import ControlEvent
from framework.commit.machine.effects import (
    Assigned,
    CommitTable,
    Committed,
    Effect,
    Input,
    LoadTable,
    Read,
    ReadAgain,
    TableLoaded,
    TableMissing,
    TableProgress,
    Tick,
)
from framework.commit.machine.step import CoordinatorState, Limits, snapshot, step, wants_more
from tests.protocol.build import TOPIC_ID, complete, view, written


class Catalog:
    """Answers at once; counts the files that come in."""

    def __init__(self, limits: Limits, recorded: tuple[str, ...] = ()) -> None:
        self.state = CoordinatorState(limits=limits)
        self.files: Counter[str] = Counter()
        self.missing: set[str] = set()
        self.again = False
        self._progress = {table: TableProgress(TOPIC_ID, 0, {}) for table in recorded}
        self.feed(Assigned("c", TOPIC_ID, 0, None), 0)

    def feed(self, message: Input, now_ms: int) -> None:
        self.state, effects = step(self.state, message, now_ms)
        self.answer(effects, now_ms)

    def answer(self, effects: tuple[Effect, ...], now_ms: int) -> None:
        for effect in effects:
            if isinstance(effect, LoadTable) and effect.table in self.missing:
                self.feed(TableMissing(effect.table, "dropped"), now_ms)
            elif isinstance(effect, LoadTable):
                self.feed(TableLoaded(view(effect.table, progress=self._progress.get(effect.table))), now_ms)
            elif isinstance(effect, ReadAgain):
                self.again = True
            elif isinstance(effect, CommitTable):
                self.files.update(file.path for file in effect.files)
                self._progress[effect.table] = effect.progress
                after = replace(effect.view, progress=effect.progress, snapshot_id=1)
                self.feed(Committed(effect.table, effect.commit_id, after, 1, now_ms), now_ms)


@pytest.mark.parametrize("announcements", [5_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_long_log_is_folded_in_bounded_memory(announcements: int) -> None:
    """All announcements come into their tables once; never more wait in memory than the limit and one batch."""
    tables = tuple(f"db.t{n}" for n in range(50))
    limits = Limits(pending_files=announcements // 10)
    catalog = Catalog(limits)
    offset, most = 0, 0
    for batch in range(1, announcements // len(tables) + 1):
        events = [written("a", batch, table, interval_ms=1 << 40) for table in tables]
        for event in (*events, complete("a", batch, tables)):
            catalog.feed(Read(offset, decode(encode(event))), offset)
            offset += 1
        most = max(most, catalog.state.pending_files)
        while not wants_more(catalog.state):
            catalog.feed(Tick(False), offset)
    catalog.feed(Tick(True), 1 << 41)
    assert most <= limits.pending_files + len(tables)
    assert len(catalog.files) == announcements
    assert set(catalog.files.values()) == {1}
    assert snapshot(catalog.state).low_water == offset


@pytest.mark.parametrize("announcements", [5_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_announcements_of_a_blocked_table_do_not_pile_up_in_memory(announcements: int) -> None:
    """While a table is missing its queue stays within the limit and others are committed; once it is there again, the
    log is read again and each of its files comes into it once."""
    limits = Limits(undrained_files=500, pending_files=2_000)
    catalog = Catalog(limits, recorded=("db.well",))
    catalog.missing = {"db.gone"}
    log: list[ControlEvent] = []
    for batch in range(1, announcements // 10 + 1):
        tables = ("db.gone", "db.well")
        log += [
            *(written("a", batch, table, interval_ms=0, files=5) for table in tables),
            complete("a", batch, tables),
        ]
    most = queued = 0
    for offset, event in enumerate(log):
        catalog.feed(Read(offset, event), offset)
        gone = catalog.state.tables.get("db.gone")
        queued = max(queued, gone.pending_files if gone is not None else 0)
        most = max(most, catalog.state.pending_files)
    catalog.feed(Tick(True), len(log))
    assert queued <= limits.undrained_files + 20
    assert most <= limits.pending_files + 20
    assert sum(1 for path in catalog.files if path.startswith("db.well")) == announcements // 2
    assert snapshot(catalog.state).low_water == 0
    waiting = catalog.state.tables["db.gone"].unread
    assert waiting is not None
    assert waiting.files == announcements // 2 - limits.undrained_files

    catalog.missing = set()
    now = 1 << 41
    catalog.feed(Tick(True), now)  # examined, well, and what was kept is committed
    assert catalog.again
    catalog.feed(Assigned("c", TOPIC_ID, 0, None), now)
    for offset, event in enumerate(log):
        while not wants_more(catalog.state):
            catalog.feed(Tick(False), now)
        catalog.feed(Read(offset, event), now)
    catalog.feed(Tick(True), now)
    assert len(catalog.files) == announcements
    assert set(catalog.files.values()) == {1}
    assert snapshot(catalog.state).low_water == len(log)
