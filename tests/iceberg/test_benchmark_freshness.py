"""What the benchmarks call freshness is what a reader of the table sees, whatever maintenance did to the files since."""

from __future__ import annotations

import time
from datetime import datetime

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation
from pyiceberg.types import LongType, NestedField, TimestampType

from benchmarks.freshness import seconds_to_visible
from framework.adapters.maintenance.tables import TableCare
from framework.commit.machine.effects import Committed
from framework.config.values.maintenance import CompactionPolicy
from tests.iceberg.conftest import Lake

pytestmark = pytest.mark.iceberg

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False), NestedField(2, "made", TimestampType(), required=False)
)
MADE = datetime(2026, 1, 1)
MADE_MS = 1_767_225_600_000


def append(lake: Lake, name: str, ids: list[int], offset: int) -> None:
    files = lake.files(name, [{"id": each, "made": MADE} for each in ids])
    assert isinstance(lake.tables.commit(lake.effect(name, files, offset)), Committed)
    time.sleep(0.01)  # no two snapshots have one time


def compact(lake: Lake, name: str) -> None:
    assert TableCare(lake.tables).compact(name, CompactionPolicy(min_input_files=2), dry_run=False) is not None
    time.sleep(0.01)


def test_compaction_makes_no_row_visible(lake: Lake) -> None:
    """A row's wait ends at the snapshot that appended it, also where its file was rewritten since, more than once."""
    name = lake.create(schema=SCHEMA)
    appended = [[1, 2], [3], [4, 5, 6], [7]]
    for offset, ids in enumerate(appended[:3], 1):
        append(lake, name, ids, offset)
    compact(lake, name)
    append(lake, name, appended[3], 4)
    compact(lake, name)

    table = lake.plain(name)
    operations = [each.summary.operation for each in table.snapshots() if each.summary is not None]
    assert operations.count(Operation.REPLACE) == 2
    times = [s.timestamp_ms for s in table.snapshots() if s.summary and s.summary.operation is Operation.APPEND]
    expected = [(ms - MADE_MS) / 1000 for ms, ids in zip(times, appended, strict=True) for _ in ids]
    assert sorted(seconds_to_visible(table, "made")) == expected


def test_rows_whose_snapshot_is_gone_are_not_left_out(lake: Lake) -> None:
    """Where it is not known when some rows became visible there is no figure, rather than one of the others."""
    name = lake.create(schema=SCHEMA)
    append(lake, name, [1, 2], 1)
    append(lake, name, [3], 2)
    table = lake.plain(name)
    table.maintenance.expire_snapshots().by_id(table.snapshots()[0].snapshot_id).commit()
    with pytest.raises(AssertionError, match="1 rows were added by the snapshots that are there, and 3 are there"):
        seconds_to_visible(lake.plain(name), "made")
