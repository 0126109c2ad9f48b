"""What is done again when tasks ask for a changed table."""

from __future__ import annotations

import pickle
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from framework.commit.events.event_types import DataFile, KeysFile
from framework.commit.offsets import OffsetRange
from framework.config.spec import DistributionMode, TablePolicy, WriteMode, WritePolicy
from framework.record.model import DeadLetter, TableNeed, TaskRange, TaskRangeReport, TaskReport, UpsertPart
from framework.runtime.batches import spark_stage
from framework.task.context import TaskContext
from testbed.record_samples import plan as sample_plan
from testbed.record_samples import policy

WORK = [[OffsetRange("events", 0, 0, 10)], [OffsetRange("events", 1, 0, 10)]]
UPSERT = replace(policy(), write=WritePolicy(WriteMode.UPSERT, key=("id",)))
HASH = replace(policy(), distribution=DistributionMode.HASH)


def read(partition: int) -> tuple[TaskRangeReport, ...]:
    return (TaskRangeReport(TaskRange("events", "id", partition, 0, 10), 10, 0, 0, 0, 0, None),)


NEEDS = TaskReport(read(0), {}, {}, {}, {"ns.t": TableNeed("ns.t", ())})
DONE = TaskReport(read(1), {}, {}, {"ns.t": 10}, {})
PART = UpsertPart(None, (1,), KeysFile("file:///nowhere/keys", 10, 1), 10, 0, 0, 0, 0)
WRITER = TaskReport((), {"ns.t": [DataFile("file:///nowhere/rows", 10, 1, 0)]}, {"ns.t": ("u", 0)}, {}, {})


def run(
    monkeypatch: pytest.MonkeyPatch, table: TablePolicy, *reports: TaskReport
) -> tuple[list[TaskReport], object, list[TableNeed], list[TaskReport]]:
    """What `run_stage` gives for what tasks reported, and the reports whose files it removed."""
    removed: list[TaskReport] = []
    rows = [(pickle.dumps(report),) for report in reports]
    monkeypatch.setattr(spark_stage, "exchange", lambda *_: SimpleNamespace(collect=lambda: rows))
    monkeypatch.setattr(spark_stage, "remove_files", lambda context, found: removed.extend(found))
    context = TaskContext(sample_plan(overrides=[("ns.t", table)]), {}, {}, {}, {"events": "id"}, "run", 1)
    return *spark_stage.run_stage(MagicMock(), WORK, context), removed


def test_a_batch_of_changes_by_key_is_done_again_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a key would have a newest change in each of the rounds. What was written in vain is removed."""
    writer = replace(WRITER, keyed={"ns.t": PART})
    done, work, needs, removed = run(monkeypatch, UPSERT, NEEDS, DONE, writer)

    assert (done, work) == ([], WORK)
    assert [need.table for need in needs] == ["ns.t"]
    assert writer in removed


def test_rows_that_are_added_stay_where_other_tasks_ask_for_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the work of the tasks that asked is left."""
    done, work, needs, removed = run(monkeypatch, HASH, NEEDS, DONE, WRITER)

    assert (done, work) == ([DONE, WRITER], WORK[:1])
    assert [need.table for need in needs] == ["ns.t"]
    assert removed == []


def test_a_failed_batch_of_changes_by_key_leaves_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy `fail`: the record is told, nothing is done again, and what other tasks wrote is removed."""
    letter = DeadLetter("events", 0, 3, 0, None, b"x", [], "decode", "FLOE-D101", "not JSON")
    failed = replace(NEEDS, needs={}, failure=letter)
    done, work, needs, removed = run(monkeypatch, UPSERT, failed, DONE, WRITER)

    assert (done, work, needs) == ([failed], [], [])
    assert WRITER in removed


def test_what_is_done_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """No task asks for anything: every report counts."""
    done, work, needs, removed = run(monkeypatch, UPSERT, DONE, replace(WRITER, keyed={"ns.t": PART}))
    assert (len(done), list(work), needs, removed) == (2, [], [], [])  # type: ignore[call-overload]
