"""Random histories of the whole protocol around the real `step`: nothing lost, nothing twice, whatever happens.

Every rule is something that happens to such systems; Hypothesis picks the order. After each step no fault of
`tests.protocol.world.faults` may be seen, and when trouble ends every sound announcement must come into its table.
`FLOE_HISTORIES` sets the number of histories (the normal run keeps it small).
"""

from __future__ import annotations

import os
from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from framework.commit.effects import Read
from framework.commit.events import CommitRequested
from framework.commit.state import next_due_ms, snapshot
from tests.protocol import world as w

HISTORIES = int(os.environ.get("FLOE_HISTORIES", "250"))

seats = st.integers(0, 2)
tables = st.sampled_from(["db.t", "db.u"])
pipelines = st.integers(0, 2)
SCRIPT = (("db.t", "db.u"), ("db.t",), ("db.u", "db.t*2"), (), ("db.t*3",), ("db.u",), ("db.t", "db.u"))


class Protocol(RuleBasedStateMachine):
    """Three pipelines, three coordinators, two tables."""

    # Replaced by mutations: the function under test.
    step = staticmethod(w.step)

    def __init__(self) -> None:
        super().__init__()
        self.limits = replace(w.PROMPT, commit_files=3)
        self.world = w.World(
            workers=tuple(w.Worker(name, SCRIPT) for name in ("a", "b", "c")),
            tables=(w.Table("db.t", "uuid-t"), w.Table("db.u", "uuid-u")),
            seats=(None, None, None),
        )
        self.wrong = 0
        self.links_lost = False
        self.requests = 0

    # ---- workers

    @rule(which=pipelines, count=st.integers(1, 4))
    def announce(self, which: int, count: int) -> None:
        for _ in range(count):
            worker = self.world.workers[which]
            if worker.script:
                self.world = w.worker_append(self.world, worker)

    @rule(which=pipelines)
    def worker_dies(self, which: int) -> None:
        self.world = w.worker_crash(self.world, self.world.workers[which])

    @rule(which=pipelines, table=tables, data=st.data())
    def announced_again(self, which: int, table: str, data: st.DataObject) -> None:
        """A batch that was announced before comes once more, with its own or with other file names."""
        worker = self.world.workers[which]
        if worker.batch > 1 and not worker.appended:
            batch = data.draw(st.integers(1, worker.batch - 1))
            run = data.draw(st.sampled_from([f"r{worker.run}", "copy"]))
            start, end = worker.at - 10 * (worker.batch - batch), worker.at - 10 * (worker.batch - batch - 1)
            start, end = max(0, start), max(0, end)
            self.world = w.announce_wrongly(self.world, worker.pipeline, batch, table, start, end, run)

    @precondition(lambda self: self.wrong < 1)
    @rule(which=pipelines, table=tables, kind=st.sampled_from(["gap", "overlap", "number"]))
    def chain_breaks(self, which: int, table: str, kind: str) -> None:
        """Somebody moved the offsets of a pipeline."""
        worker = self.world.workers[which]
        if worker.batch > 1 and not worker.appended:
            self.wrong += 1
            at = worker.at
            batch, start = {
                "gap": (worker.batch, at + 5),
                "overlap": (worker.batch, at - 5),
                "number": (worker.batch + 1, at),
            }[kind]
            self.world = w.announce_wrongly(self.world, worker.pipeline, batch, table, start, at + 10, "wrong")

    @rule(pipeline=st.sampled_from(["", "a", "b"]), patience=st.integers(0, 5_000))
    def commit_is_requested(self, pipeline: str, patience: int) -> None:
        self.requests += 1
        event = CommitRequested(f"q{self.requests}", pipeline, self.world.now_ms + patience)
        self.world = w.append_plainly(self.world, event)

    # ---- coordinators

    @rule(seat=seats)
    def takes_over(self, seat: int) -> None:
        self.world = w.assign(self.world, seat, self.step, self.limits)

    @rule(seat=seats)
    def coordinator_dies(self, seat: int) -> None:
        self.world = w.crash(self.world, seat)

    @rule(seat=seats, count=st.integers(1, 12))
    def reads(self, seat: int, count: int) -> None:
        for _ in range(count):
            if w.next_visible(self.world, seat) is not None:
                self.world = w.read(self.world, seat, self.step)

    @rule(seat=seats, back=st.integers(1, 5))
    def reads_again(self, seat: int, back: int) -> None:
        """A record is delivered a second time."""
        held = self.world.seats[seat]
        if held is not None and 0 <= (offset := held.state.position - back) < len(self.world.log):
            entry = self.world.log[offset]
            if entry.committed:
                self.world = w.feed(self.world, seat, Read(offset, entry.event), self.step)

    @rule(seat=seats)
    def ticks(self, seat: int) -> None:
        if self.world.seats[seat] is not None:
            self.world = w.tick(self.world, seat, self.step)

    @rule(seat=seats, number=st.integers(0, 3), outcome=st.sampled_from(["sound"] * 4 + ["lost", "failed", "late"]))
    def performs(self, seat: int, number: int, outcome: str) -> None:
        held = self.world.seats[seat]
        if held is not None and held.tasks:
            self.world = w.perform(self.world, seat, number % len(held.tasks), outcome, self.step)

    @rule(seat=seats)
    def works_for_a_while(self, seat: int) -> None:
        """Reads, ticks and performs, as a healthy coordinator does."""
        if self.world.seats[seat] is None:
            return
        while w.next_visible(self.world, seat) is not None:
            self.world = w.read(self.world, seat, self.step)
        for _ in range(3):
            self.world = w.tick(self.world, seat, self.step)
            while (held := self.world.seats[seat]) is not None and held.tasks:
                self.world = w.perform(self.world, seat, 0, step=self.step)

    @precondition(lambda self: self.world.orphans)
    @rule(number=st.integers(0, 3))
    def a_late_request_arrives(self, number: int) -> None:
        self.world = w.apply_orphan(self.world, number % len(self.world.orphans))

    @rule(change=st.sampled_from([1, 1_000, 60_000, 700_000, -50_000]))
    def clock_moves(self, change: int) -> None:
        self.world = replace(self.world, now_ms=max(0, self.world.now_ms + change))

    # ---- tables and the log, by others

    @rule(table=tables)
    def somebody_else_commits(self, table: str) -> None:
        self.world = w.foreign_commit(self.world, table)

    @rule(table=tables)
    def snapshots_expire(self, table: str) -> None:
        self.world = w.expire(self.world, table)

    @rule(table=tables)
    def schema_changes(self, table: str) -> None:
        found = self.world.table(table)
        self.world = self.world.with_table(replace(found, schema_id=found.schema_id + 1))

    @rule(table=tables, data=st.data())
    def somebody_rolls_back(self, table: str, data: st.DataObject) -> None:
        targets = w.rollback_targets(self.world, table)
        if targets:
            self.world = w.rollback(self.world, table, data.draw(st.sampled_from(targets)))

    @rule(table=tables)
    def table_is_replaced(self, table: str) -> None:
        self.world = w.recreate(self.world, table)

    @rule(table=tables)
    def table_goes_and_comes_back(self, table: str) -> None:
        found = self.world.table(table)
        self.world = self.world.with_table(replace(found, exists=not found.exists))

    @rule(beyond=st.integers(0, 2))
    def retention_removes(self, beyond: int) -> None:
        """The log loses what is below its low-water mark, sometimes more.

        The links of the chains go with it only in histories without a broken chain: a break whose last good link has
        left the log is not seen by a new coordinator (docs/protocol.md names this limit).
        """
        low = self.world.low_water or 0
        if beyond:
            if self.wrong and not self.links_lost:
                return
            self.links_lost, self.wrong = True, 1
            start = low + beyond - 1
        else:
            start = min(low, self.world.chain_from or 0)
        start = min(start, self.world.stable_end)
        self.world = replace(self.world, log_start=max(self.world.log_start, start))

    @rule()
    def stored_position_is_lost(self) -> None:
        self.world = replace(self.world, low_water=None, chain_from=None)

    # ---- what must hold

    @invariant()
    def no_fault(self) -> None:
        assert w.faults(self.world) == []

    @invariant()
    def reports_and_timers_work(self) -> None:
        for seat in self.world.seats:
            if seat is not None:
                assert snapshot(seat.state).position == seat.state.position
                assert isinstance(next_due_ms(seat.state), int | None)

    def teardown(self) -> None:
        for table in self.world.tables:
            self.world = self.world.with_table(replace(table, exists=True))
        _, found = w.drain(self.world, self.step)
        assert found == []


TestProtocol = Protocol.TestCase
TestProtocol.settings = settings(
    max_examples=HISTORIES,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
