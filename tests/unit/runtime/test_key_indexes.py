"""How long batches wait for the key index of a table."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from framework.adapters.iceberg.private.live_files import LiveFile, LiveFiles
from framework.adapters.iceberg.project_by_id import TableColumns
from framework.adapters.iceberg.upsert.target import UpsertTarget
from framework.config.spec import KeyIndexUse, WriteMode, WritePolicy
from framework.runtime.upsert.key_indexes import KeyIndexes
from framework.table.model import TableTarget
from framework.table.upsert.key_index import WORTH_WAITING_ROWS, KeyRun, Step
from framework.task.upsert.index_job import IndexedTable, Made
from testbed.record_samples import policy

SESSION: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))
WAIT_S = 0.4
ROWS = WORTH_WAITING_ROWS


def table(folder: Path, name: str, *files: str) -> tuple[TableTarget, UpsertTarget]:
    """A table whose every file is worth waiting for."""
    schema = Schema(NestedField(1, "id", LongType(), required=True))
    upsert = replace(policy(), write=WritePolicy(WriteMode.UPSERT, key=("id",), key_index=KeyIndexUse.ALWAYS))
    spec = UNPARTITIONED_PARTITION_SPEC.model_dump_json()
    location = (folder / name).as_uri()
    target = TableTarget(name, f"uuid of {name}", location, schema.model_dump_json(), 0, spec, 0, 0, 1, {}, upsert)
    found = {path: LiveFile(path, 0, (), ROWS, 10, 1, 1, 1, None, {}, {}, None, ()) for path in files}
    return target, UpsertTarget(1, (1,), LiveFiles(found, frozenset()), 2, TableColumns(schema.model_dump_json()))


class Work:
    """Makes each index when `may_end` is set; with `fails`, makes none."""

    def __init__(self, *, fails: bool = False) -> None:
        self.may_end = threading.Event()
        self.begun: list[str] = []
        self.fails = fails

    def __call__(self, session: object, table: IndexedTable, steps: Sequence[Step]) -> list[Made]:
        self.begun.append(table.location)
        self.may_end.wait(30)
        files = tuple(table.live)
        run = KeyRun(f"{table.root}/{len(self.begun)}.arrow", ROWS, 10, files, (ROWS,) * len(files))
        return [] if self.fails else [Made(run, ())]


def waited_s(indexes: KeyIndexes, *tables: tuple[TableTarget, UpsertTarget]) -> float:
    """What one batch waits."""
    loaded = [(target, replace(keyed, index=indexes.of(target, keyed))) for target, keyed in tables]
    begun = time.monotonic()
    indexes.wait_for_first(SESSION, loaded)
    return time.monotonic() - begun


@pytest.mark.parametrize("tables", [1, 5])
def test_batches_wait_once_for_an_index_that_takes_long(tmp_path: Path, tables: int) -> None:
    """However many batches come, and however many tables wait, all of them wait for the bounded time together."""
    work = Work()
    indexes = KeyIndexes(lambda _: {}, WAIT_S, work)
    found = [table(tmp_path, f"db.t{n}", "a") for n in range(tables)]
    first = waited_s(indexes, *found)
    later = [waited_s(indexes, *found) for _ in range(10)]
    work.may_end.set()

    assert WAIT_S <= first < 2 * WAIT_S
    assert sum(later) < WAIT_S / 2
    assert len(work.begun) == tables


def test_an_index_that_cannot_be_made_is_waited_for_once(tmp_path: Path) -> None:
    """A store that takes no index costs the bounded time in a run, not in each of its batches."""
    work = Work(fails=True)
    indexes = KeyIndexes(lambda _: {}, WAIT_S, work)
    found = table(tmp_path, "db.t", "a")
    threading.Timer(WAIT_S * 0.6, work.may_end.set).start()
    first = waited_s(indexes, found)
    work.may_end.clear()
    later = [waited_s(indexes, found) for _ in range(10)]
    work.may_end.set()

    assert first < WAIT_S
    assert sum(later) < WAIT_S


def test_what_was_made_is_waited_for_again_when_all_files_are_new(tmp_path: Path) -> None:
    """A rewrite of the whole table by somebody else is a first index once more."""
    work = Work()
    indexes = KeyIndexes(lambda _: {}, WAIT_S, work)
    waited_s(indexes, table(tmp_path, "db.t", "a"))
    work.may_end.set()
    time.sleep(0.1)
    assert waited_s(indexes, table(tmp_path, "db.t", "a")) < 0.1
    work.may_end.clear()
    assert waited_s(indexes, table(tmp_path, "db.t", "b")) >= WAIT_S
