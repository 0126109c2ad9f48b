"""`floe dlq replay`: dead letters through the pipeline file as it is now, exactly once.

In: a plan, its connections, a selection of letters. Out: announced and committed batches of a pipeline of its own
(`framework.commit.recovery.letter_replay`), each with the rows, the marks of the letters that gave them, and the end
of the batch, in one
transaction. Before marks are read everything that earlier replays announced is in its tables, and their transactional id
is ours: so whoever was killed, and whenever, no letter is replayed twice (invariants 1, 2, 5 and 7).
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from framework.adapters.faults import reach
from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.transactions import PipelineProducer
from framework.adapters.parquet.files import TableWriter
from framework.adapters.registry import registry_of
from framework.adapters.secrets import resolve
from framework.commit.events.event_types import Accounting, CommitComplete, DataComplete, Heartbeat
from framework.commit.machine.effects import PipelineProgress
from framework.commit.machine.progress import PROGRESS_PROPERTY, check_recorded_here
from framework.commit.recovery.letter_replay import ReplayPosition, replay_name, replay_position, replay_range
from framework.config.spec import LoadedPipeline
from framework.diagnose.counted import counted
from framework.errors import FencedError, FloeError, OutcomeUnknown, StateDisagreement, TableBlocked
from framework.plan.catalogs import used_catalogs
from framework.plan.compile import compile_plan, transactional_id
from framework.plan.model import Plan
from framework.record.letters.replay import (
    PLACE,
    RECORD,
    letter_blocks,
    marks_table,
    marks_to_arrow,
    open_letters,
    plan_marks_table,
    replay_plan,
)
from framework.record.model import BlockResult, DeadLetter, RecordBlock, Slice, SliceReport, TableNeed, TaskReport
from framework.record.process import needed_schemas, process_block, process_with_sql
from framework.recovery.dead_letters import Selection, letter_table, read_letters, read_marks
from framework.runtime.batch import BatchResult, BatchScope, summarise
from framework.runtime.coordinator import Coordinator
from framework.runtime.job import COMMIT_DEADLINE_S, ask_commit
from framework.runtime.source import newest_link
from framework.runtime.tables import TableRegistry
from framework.table.evolve import merge_needs

LETTERS_PER_BATCH = 50_000
CHANGE_ROUNDS = 8


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
        StateDisagreement: what earlier replays did cannot be told.
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
        self._original = compile_plan(pipeline)
        self._target = pipeline.target
        self._plan = replay_plan(self._original)
        self._letters = letter_table(self._original)
        self._marks = marks_table(self._letters)
        self._kafka = kafka
        registry = self._original.decode.registry
        self._registry = registry_of(resolve(self._target.registries[registry]) if registry else {})
        self._catalog = catalog
        self._selection = selection
        self._say = say
        self._report = ReplayReport(self._original.pipeline, uuid.uuid4().hex[:12])
        self._tables = TableRegistry(self._plan, catalog, say)
        own_id = transactional_id(self._target.prefix, replay_name(self._original.pipeline))
        self._control_topic = self._plan.announce.control_topic
        self._producer = PipelineProducer(kafka, own_id, own_id, self._control_topic)
        self._coordinator = Coordinator(
            kafka,
            self._plan.commit.coordinator_group,
            self._control_topic,
            catalog,
            lambda text: say(f"coordinator: {text}"),
        )
        self._topic_id = ""  # of the control topic
        self._runs: set[str] = set()  # this one, and the one that had announced last when it began
        self._totals = Accounting()
        self._spark: Any = None

    def run(self) -> ReplayReport:
        if read_letters(self._original, self._catalog, self._selection, PLACE) is None:
            return self._report
        self._topic_id = KafkaAdmin(self._kafka).ensure_control_topic(self._control_topic).topic_id
        # Invariant 2: older replays are fenced before anything of theirs is looked at.
        self._producer.start()
        self._coordinator.start()
        try:
            position = self._settle()
            letters = self._waiting()
            self._report.found = len(letters)
            if len(letters):
                self._say(f"{counted(len(letters), 'dead letter waits', 'dead letters wait')} in {self._letters}")
                self._tables.preload()
                for start in range(0, len(letters), LETTERS_PER_BATCH):
                    position = self._batch(letters.slice(start, LETTERS_PER_BATCH), position)
            if self._report.batches:
                self._commit()
        finally:
            self._coordinator.stop()
            self._producer.close()
            if self._spark is not None:
                from framework.runtime.spark_query import stop_session

                stop_session(self._spark)
        return self._report

    # ---- before: what earlier replays did ---------------------------------------------------------------------------

    def _settle(self) -> ReplayPosition:
        """Have everything committed that earlier replays announced; where the next batch begins."""
        link = newest_link(self._kafka, self._control_topic, self._plan.pipeline)
        self._runs = {self._report.run} | ({link.run} if link is not None else set())
        self._tables.load(self._marks)
        marks = self._tables.targets.get(self._marks)
        texts = {self._marks: marks.properties.get(PROGRESS_PROPERTY)} if marks else {}
        check_recorded_here(self._plan.pipeline, self._control_topic, self._topic_id, texts, first_run=False)
        recorded = self._recorded(self._marks)
        if link is not None and (recorded is None or recorded.batch < link.batch):
            self._ask()
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
        branch = self._plan.write.tables.policy_for(table).commit.branch
        view = self._catalog.load_view(table, branch, self._topic_id)
        return view.progress.pipelines.get(self._plan.pipeline) if view is not None and view.progress else None

    def _waiting(self) -> pa.Table:
        """The selected letters without a mark. Letters are read first: a mark is never older than its letter."""
        letters = read_letters(self._original, self._catalog, self._selection, RECORD)
        assert letters is not None
        marks = read_marks(self._original, self._catalog, self._selection)
        if marks is None:
            self._catalog.create_table(plan_marks_table(self._letters))
            marks = letters.slice(0, 0)
        return open_letters(letters, marks)

    # ---- one batch --------------------------------------------------------------------------------------------------

    def _batch(self, letters: pa.Table, position: ReplayPosition) -> ReplayPosition:
        blocks = list(letter_blocks(letters))
        results = self._process(blocks)
        places: list[tuple[str, int, int]] = []
        for block, result in zip(blocks, results, strict=True):
            failing = {letter.offset for letter in result.dead_letters}
            places += [(block.topic, block.partition, o) for o in block.offsets if o not in failing]
            for letter in result.dead_letters:
                self._report.failing[letter.code] += 1
                self._report.examples.setdefault(letter.code, letter)
        if not places:
            return position
        tables = {name for result in results for name, rows in result.rows.items() if len(rows)}
        recorded = [self._recorded(name) for name in sorted(tables)]
        position = replay_position(self._letters, None, [_progress(position, self._letters), *recorded])
        number, start, end = position.batch + 1, position.letters, position.letters + len(places)
        written = self._write(results, places, number, start, end)
        piece = replay_range(self._letters, start, end)
        key = (piece.topic, piece.partition)
        scope = BatchScope(self._report.run, number, {key: start}, {key: end}, {piece.topic: piece.topic_id})
        reach("files-written")
        batch = summarise(self._plan, scope, [written], self._totals)
        self._announce(batch, number)
        self._totals = batch.totals
        report = self._report
        report.batches += 1
        report.accounting = report.accounting + batch.accounting
        for name in sorted(tables):
            report.rows[name] = report.rows.get(name, 0) + batch.rows[name]
        self._say(f"batch {number}: {len(places):,} replayed, {len(letters) - len(places):,} still cannot be written")
        return ReplayPosition(number, end)

    def _process(self, blocks: list[RecordBlock]) -> list[BlockResult]:
        """The letters as the pipeline file says now, once its tables can hold them."""
        for _ in range(CHANGE_ROUNDS):
            plan = replace(self._plan, route=replace(self._plan.route, refused_tables=self._tables.refused))
            results = [self._process_block(block, plan) for block in blocks]
            found: dict[str, list[TableNeed]] = {}
            for result in results:
                for name, need in result.needs.items():
                    found.setdefault(name, []).append(need)
            if not found:
                return results
            self._tables.satisfy([merge_needs(needs) for needs in found.values()])
        raise FloeError(
            f"the letters asked for table changes {CHANGE_ROUNDS} times in a row",
            code="FLOE-R325",
            remedy="report this with the pipeline file",
        )

    def _process_block(self, block: RecordBlock, plan: Plan) -> BlockResult:
        schemas = self._registry.schemas(needed_schemas(block, plan.decode))
        if plan.transform is None:
            return process_block(block, plan, self._tables.targets, schemas)
        from framework.task.sql import transform_table

        sql, session = plan.transform.sql, self._session()
        return process_with_sql(
            block, plan, self._tables.targets, lambda rows: transform_table(session, rows, sql), schemas
        )

    def _session(self) -> Any:
        if self._spark is None:
            from framework.runtime.spark_query import start_session

            self._say("starting Spark for transform.sql")
            target = self._target
            log_dir = Path(target.state_dir) / "logs"
            self._spark = start_session(
                f"floe dlq replay {self._original.pipeline}", target.spark_master, target.spark_conf, log_dir
            )
        return self._spark

    def _write(
        self, results: Iterable[BlockResult], places: list[tuple[str, int, int]], number: int, start: int, end: int
    ) -> TaskReport:
        """Files of rows and marks, as a task of a job would report them."""
        if self._marks not in self._tables.targets:
            self._tables.load(self._marks)
        targets = self._tables.targets
        write = self._plan.write
        writer = TableWriter(
            self._catalog.io_properties(used_catalogs(self._original)),
            self._plan.pipeline,
            self._report.run,
            number,
            write.buffer_bytes,
            write.target_file_bytes,
        )
        rows: Counter[str] = Counter()
        written = dropped = filtered = 0
        for result in results:
            written, dropped, filtered = written + result.written, dropped + result.dropped, filtered + result.filtered
            for name, part in result.rows.items():
                writer.add(targets[name], part)
                rows[name] += len(part)
        now_us = time.time_ns() // 1000
        marks = marks_to_arrow(self._original.pipeline, places, now_us, self._report.run, targets[self._marks])
        writer.add(targets[self._marks], marks)
        rows[self._marks] += len(marks)
        piece = replay_range(self._letters, start, end)
        source = Slice(piece.topic, piece.topic_id, piece.partition, start, end)
        files = writer.finish()
        return TaskReport(
            (SliceReport(source, written, filtered, 0, dropped, 0, None),),
            files,
            {name: (targets[name].table_uuid, targets[name].schema_id) for name in files},
            {name: count for name, count in rows.items() if count},
            {},
        )

    # ---- announcing and committing -----------------------------------------------------------------------------------

    def _announce(self, batch: BatchResult, number: int) -> None:
        """Invariant 1, for a source that is no topic: rows, marks and the end of the batch in one transaction."""
        try:
            self._producer.announce(batch.events, {})
        except OutcomeUnknown as error:
            # Invariant 7: read back before anything else. Once we have recovered, it is decided.
            self._say(f"outcome of batch {number} unknown ({error.message}); reading back")
            # Invariant 2: to recover would fence a newer replay, so whose is the newest is looked at first.
            self._refuse_newer(newest_link(self._kafka, self._control_topic, self._plan.pipeline))
            self._producer.recover()
            link = newest_link(self._kafka, self._control_topic, self._plan.pipeline)
            self._refuse_newer(link)
            if link is None or (link.run, link.batch) != (self._report.run, number):
                self._producer.announce(batch.events, {})
        reach("announced")

    def _refuse_newer(self, link: DataComplete | Heartbeat | None) -> None:
        if link is not None and link.run not in self._runs:
            raise FencedError(
                f"a newer replay of the dead letters of {self._original.pipeline} has started ({link.run}); this one ends",
                place=self._original.pipeline,
                remedy="only one replay of a pipeline's dead letters can run at a time; let the newer one finish",
            )

    def _ask(self) -> CommitComplete:
        return ask_commit(self._kafka, self._control_topic, COMMIT_DEADLINE_S, self._coordinator, self._plan.pipeline)

    def _commit(self) -> None:
        answer = self._ask()
        blocked = answer.blocked
        mine = sorted({*self._report.rows, self._marks} & set(blocked))
        if not mine and answer.more_blocked:
            mine, blocked = ["one of many"], {"one of many": f"{len(blocked) + answer.more_blocked:,} tables wait"}
        if mine:
            raise TableBlocked(
                f"{len(mine)} tables are blocked; the first is {mine[0]}: {blocked[mine[0]]}",
                place=mine[0],
                remedy="the letters are committed once the table is free again; do not replay them by hand",
            )


def _progress(position: ReplayPosition, table: str) -> PipelineProgress:
    piece = replay_range(table, position.letters, position.letters)
    return PipelineProgress(position.batch, {piece.topic: {"0": piece.end}})
