"""The key indexes of a run's tables: what tasks search by, kept up between batches.

In: each table's live files at the head that a batch starts from, and what tasks made of their own files. Out: the runs
that tasks search. The steps of `table.key_index` run as jobs of Spark beside the next batch. Batches wait only for an
index of rows whose key columns they would have to read instead, in all for a bounded time for each; nothing fails by an
index.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.io import FileIO

from framework.adapters.file_io import file_io
from framework.adapters.iceberg.upsert.index_file import read_index, remove_left_over, remove_run, root_of, write_index
from framework.adapters.iceberg.upsert.target import UpsertTarget
from framework.adapters.value_bytes import plain_type
from framework.config.spec import KeyIndexUse
from framework.record.model import TaskReport
from framework.table.model import TableTarget
from framework.table.schema.arrow import arrow_schema, parse_schema
from framework.table.upsert import key_index
from framework.table.upsert.key_index import KeyIndex, KeyRun
from framework.task.upsert.index_job import IndexedTable, Made, do_steps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger(__name__)
# A first index that takes longer is finished beside the batches, and so is one that cannot be made.
FIRST_INDEX_WAIT_S = 180.0
Work = Callable[["SparkSession", IndexedTable, Sequence[key_index.Step]], list[Made]]


@dataclass
class _Index:
    """Of one table, by its uuid. `settings`: what `io` was made with."""

    table: TableTarget
    settings: Mapping[str, str]
    root: str
    key: str
    runs: dict[str, KeyRun]
    io: FileIO
    retry_for_s: float
    job: Future[list[Made]] | None = None
    lost: set[str] = field(default_factory=set)


class KeyIndexes:
    """Of one run of a pipeline, for the thread that does its batches."""

    def __init__(
        self,
        io_properties: Callable[[str], Mapping[str, str]],
        first_wait_s: float = FIRST_INDEX_WAIT_S,
        work: Work = do_steps,
    ) -> None:
        """`io_properties` gives by table what its FileIO is made with. Batches wait `first_wait_s` in all for an
        index that `work` makes; once it is made, they would wait as long for another."""
        self._io_properties = io_properties
        self._first_wait_s = first_wait_s
        self._do_work = work
        self._known: dict[str, _Index] = {}

    def of(self, target: TableTarget, keyed: UpsertTarget) -> KeyIndex | None:
        """What tasks search the table's keys by; None where it is too small for an index, or is to have none."""
        use = target.policy.write.key_index
        rows = sum(file.record_count for file in keyed.files.by_path.values())
        if use is KeyIndexUse.NEVER or (use is KeyIndexUse.AUTO and rows < key_index.LEAST_TABLE_ROWS):
            return None
        known = self._known.get(target.table_uuid)
        if known is None or known.key != _key_of(keyed):
            known = self._known[target.table_uuid] = self._load(target, keyed)
        self._take_what_is_made(known)
        self._drop_useless(known, keyed)
        return KeyIndex(known.root, tuple(known.runs.values()))

    def add(self, reports: Iterable[TaskReport]) -> None:
        """Take up what the tasks of a batch made, once the batch will not be done again."""
        for report in reports:
            for table, part in report.keyed.items():
                known = self._known.get(report.targets[table][0])
                if known is None:
                    continue
                known.lost.update(part.lost_runs)
                if part.run is not None:
                    known.runs[part.run.path] = part.run

    def keep_up(self, session: SparkSession, target: TableTarget, keyed: UpsertTarget) -> None:
        """Start what is to be done for the table's index, beside whatever else runs."""
        known = self._known.get(target.table_uuid)
        if known is None or keyed.index is None or known.job is not None:
            return
        tasks = session.sparkContext.defaultParallelism
        steps = key_index.next_steps(_live_rows(keyed), list(known.runs.values()), tasks)
        if not steps:
            return
        schema = arrow_schema(parse_schema(target.schema_json))
        ids = [each.field_id for each in parse_schema(target.schema_json).fields]
        table = IndexedTable(
            dict(self._io_properties(target.name)),
            target.location,
            known.root,
            keyed.files.by_path,
            keyed.columns.of(keyed.key_ids),
            tuple(plain_type(schema.field(ids.index(each)).type) for each in keyed.key_ids),
        )
        known.job = _beside(lambda: self._do_work(session, table, steps))

    def wait_for_first(self, session: SparkSession, loaded: Iterable[tuple[TableTarget, UpsertTarget]]) -> bool:
        """Where a batch is done sooner with indexes that are not there yet, have them made, all at once; True where one
        is there now."""
        awaited: list[tuple[_Index, Future[list[Made]]]] = []
        for target, keyed in loaded:
            known = self._known.get(target.table_uuid)
            if known is None or keyed.index is None:
                continue
            if not key_index.is_worth_waiting(_live_rows(keyed), list(known.runs.values())):
                known.retry_for_s = self._first_wait_s
                continue
            self.keep_up(session, target, keyed)
            if known.job is not None and known.retry_for_s > 0:
                awaited.append((known, known.job))
        if not awaited:
            return False
        begun = time.monotonic()
        done = wait([job for _, job in awaited], max(known.retry_for_s for known, _ in awaited)).done
        for known, _ in awaited:
            known.retry_for_s -= time.monotonic() - begun
        return bool(done)

    def _load(self, target: TableTarget, keyed: UpsertTarget) -> _Index:
        settings = self._io_properties(target.name)
        io, root = file_io(settings, target.location), root_of(target.location)
        runs = read_index(io, root, _key_of(keyed))
        remove_left_over(io, root, [run.path for run in runs])
        return _Index(target, settings, root, _key_of(keyed), {run.path: run for run in runs}, io, self._first_wait_s)

    def _io(self, known: _Index) -> FileIO:
        """With keys that are good now."""
        settings = self._io_properties(known.table.name)
        if settings != known.settings:
            known.settings, known.io = settings, file_io(settings, known.table.location)
        return known.io

    def _take_what_is_made(self, known: _Index) -> None:
        for path in known.lost:
            known.runs.pop(path, None)
        known.lost.clear()
        if known.job is None or not known.job.done():
            return
        job, known.job = known.job, None
        if (error := job.exception()) is not None:
            _LOG.warning("the key index in %s is not kept up for now: %s", known.root, error)
            return
        for made in job.result():
            if made.run is not None:
                known.runs[made.run.path] = made.run
            for run in made.replaced:
                known.runs.pop(run.path, None)
                remove_run(self._io(known), run.path)

    def _drop_useless(self, known: _Index, keyed: UpsertTarget) -> None:
        """The batch before this one is committed, or will never be: whatever is not live now is gone."""
        live = _live_rows(keyed)
        kept = {run.path: run for run in key_index.useful(live, list(known.runs.values()))}
        gone = known.runs.keys() - kept.keys()
        if known.job is None:
            for path in gone:
                remove_run(self._io(known), path)
            known.runs = kept
        try:
            write_index(self._io(known), known.root, known.key, list(known.runs.values()))
        except Exception as error:  # each store has exceptions of its own
            _LOG.warning("the key index in %s is not recorded for now: %s", known.root, error)


def _key_of(keyed: UpsertTarget) -> str:
    return keyed.columns.of(keyed.key_ids).meaning


def _live_rows(keyed: UpsertTarget) -> dict[str, int]:
    return {path: file.record_count for path, file in keyed.files.by_path.items()}


def _beside(do: Callable[[], list[Made]]) -> Future[list[Made]]:
    """In a thread that no end of the process waits for: what it leaves is made again."""
    made: Future[list[Made]] = Future()

    def run() -> None:
        try:
            made.set_result(do())
        except BaseException as error:  # given to whoever asks for the result
            made.set_exception(error)

    threading.Thread(target=run, name="floe-key-index", daemon=True).start()
    return made
