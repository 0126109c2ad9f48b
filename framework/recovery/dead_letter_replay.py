"""`floe dlq replay`: dead letters through the pipeline file as it is now, exactly once.

In: a plan, its connections, a selection of letters. Out: announced and committed batches of a pipeline of its own
(`framework.commit.dead_letter_replay`), each with the rows, the marks of the letters that gave them, and the end of
the batch, in one transaction. Before marks are read, those that earlier replays announced are in their table, and
their transactional id is ours: so whoever was killed, and whenever, no letter is replayed twice (invariants 1, 2, 5 and
7). At the end all that this and earlier replays announced is committed.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from framework.adapters.host.failpoints import failpoint
from framework.adapters.iceberg.tables import IcebergTables
from framework.commit.dead_letter_replay import ReplayPosition, replay_name, replay_position, replay_range
from framework.commit.events.event_types import Accounting, DataComplete
from framework.commit.machine.effects import PipelineProgress
from framework.commit.machine.progress.recorded import PROGRESS_PROPERTY, check_recorded_here
from framework.config.spec import LoadedPipeline
from framework.diagnose.counted import counted
from framework.errors import StateDisagreement
from framework.plan.compile import compile_plan, transactional_id
from framework.record.dead_letters.replay import (
    PLACE,
    RECORD,
    dead_letter_blocks,
    marks_table,
    marks_to_arrow,
    open_dead_letters,
    plan_marks_table,
    replay_plan,
)
from framework.record.model import BlockResult, DeadLetter, RecordBlock, TaskRange
from framework.recovery.dead_letter_announcer import DeadLetterAnnouncer
from framework.recovery.dead_letter_stage import DeadLetterStage
from framework.recovery.dead_letters import Selection, dead_letter_table_of, read_dead_letters, read_marks
from framework.runtime.batches.batch import BatchResult, BatchScope, summarise
from framework.runtime.tables.registry import TableRegistry

DEAD_LETTERS_PER_BATCH = 50_000
Place = tuple[str, int, int]  # topic, partition, offset


@dataclass
class ReplayReport:
    """What a replay did: letters found, sent through and still failing, and the rows by table (marks excluded)."""

    pipeline: str
    run: str
    found: int = 0
    batches: int = 0
    accounting: Accounting = field(default_factory=Accounting)
    rows: dict[str, int] = field(default_factory=dict)
    failing: Counter[str] = field(default_factory=Counter)
    examples: dict[str, DeadLetter] = field(default_factory=dict)

    @property
    def replayed(self) -> int:
        return self.accounting.offsets

    def add(self, batch: BatchResult, tables: Sequence[str]) -> None:
        """Take in a batch that was announced; `tables` are those that letters gave rows for."""
        self.batches += 1
        self.accounting = self.accounting + batch.accounting
        for name in tables:
            self.rows[name] = self.rows.get(name, 0) + batch.rows[name]

    def still_fails(self, dead_letter: DeadLetter) -> None:
        self.failing[dead_letter.code] += 1
        self.examples.setdefault(dead_letter.code, dead_letter)


def replay(
    pipeline: LoadedPipeline,
    kafka: dict[str, str],
    catalog: IcebergTables,
    selection: Selection,
    say: Callable[[str], None],
) -> ReplayReport:
    """Replay the letters of a pipeline that wait and are selected.

    Raises:
        SetupError: the pipeline keeps no dead letters, or the environment is wrong.
        FencedError: another replay of the pipeline was started meanwhile.
        StateDisagreement: what earlier replays did cannot be determined.
        TableBlocked, DeadlinePassed: all is announced, but not all of it could be committed.
    """
    return Replay(pipeline, kafka, catalog, selection, say).run()


class Replay:
    def __init__(
        self,
        pipeline: LoadedPipeline,
        kafka: dict[str, str],
        catalog: IcebergTables,
        selection: Selection,
        say: Callable[[str], None],
    ) -> None:
        self._original = original = compile_plan(pipeline)
        self._plan = replay_plan(original)
        self._letters = dead_letter_table_of(original)
        self._marks = marks_table(self._letters)
        self._catalog = catalog
        self._selection = selection
        self._say = say
        self._report = ReplayReport(original.pipeline, run := uuid.uuid4().hex[:12])
        self._tables = TableRegistry(self._plan, catalog, say)
        self._stage = DeadLetterStage(pipeline, self._plan, catalog, self._tables, run, say)
        own_id = transactional_id(pipeline.target.prefix, replay_name(original.pipeline))
        self._announcer = DeadLetterAnnouncer(original.pipeline, self._plan, kafka, own_id, catalog, run, say)
        self._topic_id = ""  # of the control topic
        self._totals = Accounting()
        self._earlier: tuple[str, ...] | None = None  # the tables of the newest batch of earlier replays

    def run(self) -> ReplayReport:
        if read_dead_letters(self._original, self._catalog, self._selection, PLACE) is None:
            return self._report
        self._topic_id = self._tables.control_topic_id = self._announcer.start()
        is_done = False
        try:
            position = self._settle()
            dead_letters = self._waiting()
            self._report.found = len(dead_letters)
            if len(dead_letters):
                self._say(f"{counted(len(dead_letters), 'dead letter waits', 'dead letters wait')} in {self._letters}")
                self._tables.preload()
                for start in range(0, len(dead_letters), DEAD_LETTERS_PER_BATCH):
                    position = self._batch(dead_letters.slice(start, DEAD_LETTERS_PER_BATCH), position)
            if self._report.batches or self._earlier is not None:
                # Also if nothing is left to replay: a replay may have died between the commits of marks and of rows.
                self._announcer.commit({*self._report.rows, *(self._earlier or ()), self._marks})
            is_done = True
        finally:
            self._announcer.close(is_done)
            self._stage.close()
        return self._report

    # ---- before: what earlier replays did ---------------------------------------------------------------------------

    def _settle(self) -> ReplayPosition:
        """Have all marks committed that earlier replays announced; where the next batch begins."""
        link = self._announcer.adopt_newest()
        if link is not None:
            self._earlier = link.tables if isinstance(link, DataComplete) else ()
        self._tables.load(self._marks)
        marks = self._tables.targets.get(self._marks)
        texts = {self._marks: marks.properties.get(PROGRESS_PROPERTY)} if marks else {}
        topic = self._plan.announce.control_topic
        check_recorded_here(self._plan.pipeline, topic, self._topic_id, texts, first_run=False)
        recorded = self._recorded(self._marks)
        if link is not None and (recorded is None or recorded.batch < link.batch):
            self._announcer.ask_commit()
            recorded = self._recorded(self._marks)
        if link is not None and (recorded is None or recorded.batch < link.batch):
            said = "nothing" if recorded is None else f"batch {recorded.batch}"
            raise StateDisagreement(
                f"earlier replays of {self._original.pipeline} announced batch {link.batch}, and {self._marks} holds {said}",
                code="FLOE-R326",
                place=self._marks,
                remedy="`floe status` says whether the table is blocked; if it was dropped, floe cannot tell which letters were "
                "replayed: restore it, or name another dead-letter table",
            )
        self._totals = link.totals if link is not None else Accounting()
        return replay_position(self._letters, link, [recorded])

    def _recorded(self, table: str) -> PipelineProgress | None:
        branch = self._plan.commit.tables.policy_for(table).commit.branch
        view = self._catalog.load_view(table, branch, self._topic_id)
        return view.progress.pipelines.get(self._plan.pipeline) if view is not None and view.progress else None

    def _waiting(self) -> pa.Table:
        """The selected letters without a mark. Letters are read first: a mark is never older than its letter."""
        dead_letters = read_dead_letters(self._original, self._catalog, self._selection, RECORD)
        assert dead_letters is not None
        marks = read_marks(self._original, self._catalog, self._selection)
        if marks is None:
            self._catalog.create_table(plan_marks_table(self._letters))
            marks = dead_letters.slice(0, 0)
        return open_dead_letters(dead_letters, marks)

    # ---- one batch --------------------------------------------------------------------------------------------------

    def _batch(self, dead_letters: pa.Table, position: ReplayPosition) -> ReplayPosition:
        blocks = list(dead_letter_blocks(dead_letters))
        results = self._stage.process(blocks)
        for result in results:
            for dead_letter in result.dead_letters:
                self._report.still_fails(dead_letter)
        places = _went_through(blocks, results)
        if not places:
            return position
        tables = sorted({name for result in results for name, rows in result.rows.items() if len(rows)})
        recorded = [self._recorded(name) for name in tables]
        position = replay_position(self._letters, None, [_progress(position, self._letters), *recorded])
        number, start, end = position.batch + 1, position.letters, position.letters + len(places)
        piece = replay_range(self._letters, start, end)
        source = TaskRange(piece.topic, piece.topic_id, piece.partition, start, end)
        written = self._stage.write(results, self._marks_of(places), number, source)
        key = (piece.topic, piece.partition)
        scope = BatchScope(self._report.run, number, {key: start}, {key: end}, {piece.topic: piece.topic_id})
        failpoint("files-written")
        batch = summarise(self._plan, scope, [written], self._totals)
        self._announcer.announce(batch, number)
        self._totals = batch.totals
        self._report.add(batch, tables)
        self._say(
            f"batch {number}: {len(places):,} replayed, {len(dead_letters) - len(places):,} still cannot be written"
        )
        return ReplayPosition(number, end)

    def _marks_of(self, places: Sequence[Place]) -> BlockResult:
        """Rows that mark the letters of these places as replayed."""
        if self._marks not in self._tables.targets:
            self._tables.load(self._marks)
        target, now_us = self._tables.targets[self._marks], time.time_ns() // 1000
        rows = marks_to_arrow(self._original.pipeline, places, now_us, self._report.run, target)
        return BlockResult(rows={self._marks: rows})


def _went_through(blocks: Sequence[RecordBlock], results: Sequence[BlockResult]) -> list[Place]:
    """The places of the letters that fail no longer."""
    places: list[Place] = []
    for block, result in zip(blocks, results, strict=True):
        failing = {dead_letter.offset for dead_letter in result.dead_letters}
        places += [(block.topic, block.partition, offset) for offset in block.offsets if offset not in failing]
    return places


def _progress(position: ReplayPosition, table: str) -> PipelineProgress:
    piece = replay_range(table, position.letters, position.letters)
    return PipelineProgress(position.batch, {piece.topic: {"0": piece.end}})
