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

from framework.commit.events.event_types import CommitRequested, CommitToTable
from framework.commit.machine.effects import LoadTable, Read
from framework.commit.machine.step import next_due_ms, snapshot
from tests.protocol import world as w
from tests.protocol.build import STEP, pause

HISTORIES = int(os.environ.get("FLOE_HISTORIES", "250"))

coordinators = st.integers(0, 2)
tables = st.sampled_from(["db.t", "db.u", "db.k"])
pipelines = st.integers(0, 2)
picks = st.integers(0, 99)
SCRIPT = (("db.t", "DB.U"), ("db.t",), ("db.u", "db.t*2", "DB.U"), (), ("db.t*3",), ("DB.U",), ("db.t", "db.u"))
# The pipeline that writes a table by its keys, alone, and other tables beside it.
KEYED_SCRIPT = (("db.k", "db.t"), ("db.k",), ("db.k*2", "DB.U"), ("db.k",), (), ("db.t", "db.k*3"), ("db.k",))
POSITIONS = {
    "a": (("src", "src-id", 0, 0),),
    "b": (("src", "src-id", 0, 0), ("src", "src-id", 1, 0)),
    "c": (("src", "src-id", 0, 0), ("other", "other-id", 0, 0)),
}


class Protocol(RuleBasedStateMachine):
    """Three pipelines, two of them with two partitions; three coordinators; three tables, one of them with two names and
    one that is an upsert table."""

    # Replaced by mutations: the function under test.
    step = staticmethod(w.step)

    def __init__(self) -> None:
        super().__init__()
        self.limits = replace(
            w.PROMPT,
            commit_files=3,
            undrained_files=1,
            retry_first_ms=1,
            retry_most_ms=1,
            conflict_first_ms=1,
            conflict_most_ms=1,
            blocked_first_ms=1,
            blocked_most_ms=1,
            store_ms=1,
        )
        self.world = w.World(
            workers=tuple(
                w.Worker(name, KEYED_SCRIPT if name == "a" else SCRIPT, positions=POSITIONS[name])
                for name in ("a", "b", "c")
            ),
            tables=(
                w.Table("db.t", "uuid-t"),
                w.Table("db.u", "uuid-u", names=("DB.U",)),
                w.Table(w.KEYED, "uuid-k"),
            ),
            coordinators=(None, None, None),
        )
        self.world = w.assign(self.world, 0, self.step, self.limits)
        self.wrong = 0
        self.repeated = False
        self.links_lost = False
        self.cut = False  # the broker lost the log's end
        self.replaced = 0
        self.requests = 0

    # ---- workers

    @rule(which=pipelines, count=st.integers(1, 4))
    def announce(self, which: int, count: int) -> None:
        """A few events, perhaps in the middle of a transaction; others may come in between."""
        for _ in range(count):
            worker = self.world.workers[which]
            if worker.script:
                self.world = w.worker_append(self.world, worker)

    @rule(which=pipelines)
    def announce_a_batch(self, which: int) -> None:
        if self.world.workers[which].script:
            self.world = w.worker_append(self.world, self.world.workers[which])
            while self.world.workers[which].appended:
                self.world = w.worker_append(self.world, self.world.workers[which])

    @rule(pipeline=st.sampled_from(["", "a", "b"]), patience=st.integers(0, 5_000))
    def commit_is_requested(self, pipeline: str, patience: int) -> None:
        self.requests += 1
        event = CommitRequested(f"q{self.requests}", pipeline, self.world.now_ms + patience)
        self.world = w.append_plainly(self.world, event)

    @rule(
        which=pipelines, kind=st.sampled_from(["dies", "dies", "repeat", "break", "settled"]), table=tables, pick=picks
    )
    def trouble_in_a_pipeline(self, which: int, kind: str, table: str, pick: int) -> None:
        """The driver dies; a batch that was announced before comes once more, with its own or with other file names;
        the chain breaks since somebody moved the pipeline's offsets; a person settles them, or moves them by
        consent."""
        worker = self.world.workers[which]
        if kind == "dies":
            self.world = w.worker_crash(self.world, worker)
        elif kind == "settled" and self.cut:
            return  # what the log has lost a person settles with other means, and by consent to what that loses
        elif kind == "settled":
            self.world = w.settle_offsets(self.world, worker, (0, 0, -10, 5, -5, 20)[pick % 6])
        elif worker.batch == 1 or worker.appended or self.links_lost:
            return
        elif kind == "repeat":
            self.repeated = True
            batch = 1 + pick % (worker.batch - 1)
            run = f"r{worker.run}" if pick % 2 else "copy"
            if (source := w.ranges_of(self.world, worker.pipeline, batch)) is not None:
                self.world = w.announce_wrongly(self.world, worker.pipeline, batch, table, run=run, source=source)
        elif not self.wrong:
            self.wrong += 1
            shift, number = ((5, 0), (-5, 0), (0, 1))[pick % 3]
            source = w.spans(w.shifted(worker, shift), STEP)
            if not number and source == w.spans(worker, STEP):
                return  # it would be what comes next: there is nothing in front of the log's start
            self.world = w.announce_wrongly(self.world, worker.pipeline, worker.batch + number, table, source=source)

    @rule(which=pipelines, kind=st.sampled_from(["given up", "back", "back", "from its start", "anew", "grows"]))
    def trouble_with_topics(self, which: int, kind: str) -> None:
        """A person gives a partition up; it comes back, where that was or (once, wrongly) at its start; the topic is
        made anew, with fewer partitions, or grows."""
        worker = self.world.workers[which]
        if kind == "given up":
            self.world = w.give_up(self.world, worker)
        elif kind == "back":
            self.world = w.take_back(self.world, worker)
        elif kind == "from its start" and worker.left and not self.wrong and not self.links_lost:
            self.wrong += 1
            self.world = w.take_back(self.world, worker, kept=False)
        elif kind == "anew" and not self.cut:
            self.world = w.make_anew(self.world, worker)
        elif kind == "grows":
            self.world = w.grow(self.world, worker)

    @rule(table=tables, paused=st.booleans())
    def commits_are_paused(self, table: str, paused: bool) -> None:
        """A person holds the commits of a table, or lets them go on."""
        self.world = w.append_plainly(self.world, pause(table, paused))

    # ---- coordinators

    @rule(coordinator=coordinators, count=st.integers(1, 12))
    def reads(self, coordinator: int, count: int) -> None:
        for _ in range(count):
            if w.next_visible(self.world, coordinator) is not None:
                self.world = w.read(self.world, coordinator, self.step)

    @rule(coordinator=coordinators)
    def ticks(self, coordinator: int) -> None:
        """No timer runs free: a Tick does what is due, and what it leaves is due later or waits for something."""
        if self.world.coordinators[coordinator] is not None:
            self.world = w.tick(self.world, coordinator, self.step)
            held = self.world.coordinators[coordinator]
            due = next_due_ms(held.state) if held is not None else None
            assert due is None or due > self.world.now_ms

    @rule(
        coordinator=coordinators,
        number=st.integers(0, 3),
        outcome=st.sampled_from(["sound"] * 4 + ["lost", "failed", "late"]),
    )
    def performs(self, coordinator: int, number: int, outcome: str) -> None:
        held = self.world.coordinators[coordinator]
        if held is not None and held.tasks:
            self.world = w.perform(self.world, coordinator, number % len(held.tasks), outcome, self.step)

    @rule(mended=st.booleans())
    def the_owner_works(self, mended: bool) -> None:
        """Perhaps after tables that were gone have come back."""
        if mended:
            for table in self.world.tables:
                self.world = self.world.with_table(replace(table, exists=True))
        if self.world.owner is not None:
            self.works_for_a_while(self.world.owner, True)

    @rule(coordinator=coordinators, all_done=st.booleans())
    def works_for_a_while(self, coordinator: int, all_done: bool) -> None:
        """Reads, ticks and performs as a healthy coordinator does; perhaps it stops with commits under way."""
        for _ in range(3):
            while w.next_visible(self.world, coordinator) is not None:
                self.world = w.read(self.world, coordinator, self.step)
                self._load(coordinator)
            if (
                self.world.coordinators[coordinator] is None
            ):  # it was not there, or a stale one was to read again and has no coordinator
                return
            self.world = w.tick(self.world, coordinator, self.step)
            self._load(coordinator)
            if not all_done:
                return
            while (held := self.world.coordinators[coordinator]) is not None and held.tasks:
                self.world = w.perform(self.world, coordinator, 0, step=self.step)

    def _load(self, coordinator: int) -> None:
        while (held := self.world.coordinators[coordinator]) is not None and any(
            isinstance(t, LoadTable) for t in held.tasks
        ):
            number = next(n for n, t in enumerate(held.tasks) if isinstance(t, LoadTable))
            self.world = w.perform(self.world, coordinator, number, step=self.step)

    @rule(
        coordinator=coordinators,
        kind=st.sampled_from(["takes over"] * 3 + ["dies", "reads again"]),
        back=st.integers(1, 5),
    )
    def trouble_with_coordinators(self, coordinator: int, kind: str, back: int) -> None:
        """Another one takes over and the old one is not told; one dies; a record is delivered a second time."""
        held = self.world.coordinators[coordinator]
        if kind == "takes over":
            self.world = w.assign(self.world, coordinator, self.step, self.limits)
        elif kind == "dies":
            self.world = w.crash(self.world, coordinator)
        elif held is not None and 0 <= (offset := held.state.position - back) < len(self.world.log):
            entry = self.world.log[offset]
            if entry.committed:
                self.world = w.feed(self.world, coordinator, Read(offset, entry.event), self.step)

    @precondition(lambda self: self.world.orphans)
    @rule(number=st.integers(0, 3))
    def a_late_request_arrives(self, number: int) -> None:
        self.world = w.apply_orphan(self.world, number % len(self.world.orphans))

    @rule(change=st.sampled_from([1, 1_000, 60_000, 700_000, -50_000]))
    def clock_moves(self, change: int) -> None:
        self.world = replace(self.world, now_ms=max(0, self.world.now_ms + change))

    # ---- tables and the log, by others

    @rule(
        table=tables,
        kind=st.sampled_from(
            ["commit"] * 3
            + ["expire"] * 2
            + [
                "schema",
                "rollback",
                "rollback",
                "gone",
                "replaced",
                "elsewhere",
                "discard",
                "discard first",
                "put back",
                "unset",
            ]
        ),
        pick=picks,
    )
    def somebody_touches_a_table(self, table: str, kind: str, pick: int) -> None:
        """A second writer, expiry, a schema change, a rollback; the table goes away or comes back; it is replaced; it
        holds records that a pipeline announced on another cluster; a person gives up what it can never take."""
        found = self.world.table(table)
        if kind == "commit":
            self.world = w.foreign_commit(self.world, table)
        elif kind == "expire":
            self.world = w.expire(self.world, table)
        elif kind == "schema":
            self.world = self.world.with_table(replace(found, schema_id=found.schema_id + 1))
        elif kind == "rollback":
            targets = w.rollback_targets(self.world, table)
            if targets:
                self.world = w.rollback(self.world, table, targets[pick % len(targets)])
        elif kind == "put back":
            self.world = w.put_back(self.world, table, pick)
        elif kind == "unset":
            # Where neither a snapshot nor the log shows the record, nothing does (named as a limit in
            # docs/protocol.md).
            shown = any(s.marker is not None for n, s in found.snapshots if n not in found.expired)
            reported = any(
                isinstance(e.event, CommitToTable) and e.event.table_uuid == found.uuid for e in self.world.log
            )
            if shown or reported:
                self.world = w.unset_progress(self.world, table)
        elif kind == "gone":
            self.world = self.world.with_table(replace(found, exists=not found.exists))
        elif kind == "discard":
            self.world = w.discard_waiting(self.world, table)
        elif kind == "discard first":
            self.world = w.discard_first(self.world, table, 1 + pick % 3)
        elif kind == "elsewhere":
            pipeline = self.world.workers[pick % 3].pipeline
            if not any(path.startswith(f"{table}/{pipeline}-") for path in (*found.files, *found.removed)):
                self.world = w.filled_from_elsewhere(self.world, table, pipeline)
        elif not self.replaced:
            self.replaced += 1
            self.world = w.recreate(self.world, table)

    @rule(
        kind=st.sampled_from(["below", "below", "links", "announcements", "position", "cut off", "leader", "leader"]),
        back=st.integers(1, 6),
    )
    def trouble_with_the_log(self, kind: str, back: int = 1) -> None:
        """Retention removes what is below the low-water mark, sometimes more; the stored position is lost; the broker
        loses the log's end.

        The links of the chains are lost only in histories without a wrong announcement: one whose predecessor has left
        the log cannot be told from a first one by a new coordinator (docs/protocol.md names this limit).
        """
        low = self.world.low_water or 0
        if kind == "cut off":
            if not (self.wrong or self.repeated or self.links_lost):
                # What the log loses of announcements is explored exhaustively: with a lost beginning besides, nobody
                # could tell a pipeline's first batch from a later one (docs/protocol.md names this limit).
                self.cut = True
                self.world = w.truncate(self.world, max(w.end_of_announcements(self.world), len(self.world.log) - back))
            return
        if kind == "leader":
            self.world = w.new_leader(self.world)
            return
        if kind == "position":
            self.world = replace(self.world, low_water=None, chain_from=None, records_end=None)
            return
        if kind == "below":
            start = min(low, self.world.chain_from or 0)
        elif self.wrong or self.repeated or self.cut:
            return
        else:
            self.links_lost = True
            start = low + (1 if kind == "announcements" else 0)
        self.world = w.remove_below(self.world, start)

    # ---- what must hold

    @invariant()
    def no_fault(self) -> None:
        assert w.faults(self.world) == []

    @invariant()
    def reports_and_timers_work(self) -> None:
        for coordinator in self.world.coordinators:
            if coordinator is not None:
                assert snapshot(coordinator.state).position == coordinator.state.position
                assert isinstance(next_due_ms(coordinator.state), int | None)

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
