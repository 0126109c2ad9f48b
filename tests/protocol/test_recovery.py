"""A coordinator that begins on a long log: everything is committed once, and memory stays bounded on the way."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from framework.commit.codec import decode, encode
from framework.commit.effects import Assigned, CommitTable, Committed, Effect, LoadTable, Read, TableLoaded, Tick
from framework.commit.state import CoordinatorState, Limits, snapshot, step, wants_more
from tests.protocol.build import TOPIC_ID, complete, view, written


class Catalog:
    """Answers at once; counts the files that come in."""

    def __init__(self, limits: Limits) -> None:
        self.state = CoordinatorState(limits=limits)
        self.files: Counter[str] = Counter()
        self.feed(Assigned("c", TOPIC_ID, 0, None), 0)

    def feed(self, message: Assigned | Read | Tick | TableLoaded | Committed, now_ms: int) -> None:
        self.state, effects = step(self.state, message, now_ms)
        self.answer(effects, now_ms)

    def answer(self, effects: tuple[Effect, ...], now_ms: int) -> None:
        for effect in effects:
            if isinstance(effect, LoadTable):
                self.feed(TableLoaded(view(effect.table)), now_ms)
            elif isinstance(effect, CommitTable):
                self.files.update(file.path for file in effect.files)
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
