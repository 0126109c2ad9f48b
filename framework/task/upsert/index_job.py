"""Keeps the key index of a table beside its batches: a job of Spark with a task for each step.

In: what `table.key_index` says is to be done. Out: for each step the run that was made of it. A step that fails is left
out, and comes again: the index is a cache.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from framework.table.upsert.key_index import Cover, KeyRun, Merge, Step

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.adapters.iceberg.private.live_files import LiveFile
    from framework.adapters.iceberg.project_by_id import TableColumns

_LOG = logging.getLogger(__name__)
_MADE_SCHEMA = "made binary"


@dataclass(frozen=True)
class IndexedTable:
    """What a step is done with. `live` are the data files of one snapshot, by path."""

    io_properties: dict[str, str]
    location: str
    root: str
    live: Mapping[str, LiveFile]
    key: TableColumns
    key_types: tuple[pa.DataType, ...]


@dataclass(frozen=True)
class Made:
    """`run` takes the place of `replaced`; None where of these nothing is left."""

    run: KeyRun | None
    replaced: tuple[KeyRun, ...]


def do_steps(session: SparkSession, table: IndexedTable, steps: Sequence[Step]) -> list[Made]:
    """Do each step in a task of its own."""
    numbers = session.range(0, len(steps), 1, len(steps))
    rows = numbers.mapInArrow(make_task(table, steps), _MADE_SCHEMA).collect()
    return [pickle.loads(bytes(row[0])) for row in rows]


def make_task(table: IndexedTable, steps: Sequence[Step]):  # type: ignore[no-untyped-def]  # a closure for mapInArrow
    """The number of a step in; what was made out, nothing where it failed."""

    def do(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                made = do_step(table, steps[number])
                if made is not None:
                    yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(made)], pa.binary())], ["made"])

    return do


def do_step(table: IndexedTable, step: Step) -> Made | None:
    """None where it failed."""
    from framework.adapters.file_io import file_io
    from framework.adapters.host.memory import release_memory
    from framework.adapters.iceberg.upsert.index_runs import UnusableRun, entries_of, merge_runs, write_run

    io = file_io(table.io_properties, table.location)
    try:
        if isinstance(step, Merge):
            return Made(merge_runs(io, table.root, step.runs, table.live.keys()), step.runs)
        assert isinstance(step, Cover)
        files = [table.live[path] for path in step.files]
        entries = entries_of(io, files, table.key, table.key_types)
        return Made(write_run(io, table.root, entries, step.files, [file.record_count for file in files]), ())
    except UnusableRun as error:
        _LOG.warning("runs of a key index are made anew: %s", error)
        return Made(None, step.runs if isinstance(step, Merge) else ())
    except Exception as error:  # each store has exceptions of its own
        _LOG.warning("the key index is not kept up for now: %s", error)
        return None
    finally:
        release_memory()
