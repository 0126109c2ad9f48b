"""Lineage that nobody takes: commits and runs do not notice."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from framework.commit.events.event_types import DataWritten, TableCommitPolicy
from framework.commit.machine.effects import CommitTable, Committed, ExaminedTable, PipelineProgress, TableProgress
from framework.lineage.values import Names, RunBegan, TableSchema
from framework.runtime.lineage import LineageTeller
from tests.unit.lineage.schemas import check_event

NAMES = Names("prod", "kafka://b:9092", {})
VIEW = ExaminedTable("shop.orders", "uuid", "main", 1, 0, None)
EFFECT = CommitTable(
    "shop.orders", VIEW, "c1", (), TableProgress("x", 5, {"shop": PipelineProgress(1, {"orders": {"0": 9}})}), None
)
DONE = Committed("shop.orders", "c1", VIEW, 7, 1_000)


class Sink:
    """Takes events while `works`; `hold` lets it hang."""

    def __init__(self) -> None:
        self.works, self.hold = True, threading.Event()
        self.hold.set()
        self.events: list[dict[str, object]] = []

    def send(self, key: str, event: bytes) -> None:
        self.hold.wait(30)
        if not self.works:
            raise OSError("nobody listens")
        self.events.append(json.loads(event))

    def close(self) -> None:
        pass


def wait(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)


def publisher(sink: Sink, said: list[str], queued: int = 10) -> LineageTeller:
    return LineageTeller(NAMES, lambda: sink, lambda table: None, said.append, queued)


def test_a_sink_that_hangs_holds_nobody_and_costs_no_memory() -> None:
    """However many commits there are meanwhile, each is told in no time; what does not fit is dropped, counted, and said
    once, and the end does not wait for ever."""
    sink, said = Sink(), list[str]()
    sink.hold.clear()
    lineage = publisher(sink, said)
    begun = time.monotonic()
    for _ in range(5_000):
        lineage.committed(EFFECT, DONE)
    assert time.monotonic() - begun < 5
    assert lineage.dropped >= 5_000 - 10 - 2
    assert len(said) == 1
    assert "are dropped" in said[0]
    begun = time.monotonic()
    lineage.close()
    assert time.monotonic() - begun < 15
    assert said[-1].endswith("dropped")
    sink.hold.set()


def test_a_sink_that_refuses_is_said_once_and_said_again_when_it_takes() -> None:
    """Every event that is not delivered counts, and the first that is ends the outage."""
    sink, said = Sink(), list[str]()
    lineage = publisher(sink, said, 1_000)
    sink.works = False
    for _ in range(20):
        lineage.committed(EFFECT, DONE)
    wait(lambda: lineage.dropped == 20)
    sink.works = True
    lineage.run(RunBegan("shop", "r", 0, ("orders",), ()))
    wait(lambda: lineage.sent == 1)
    lineage.close()
    assert len(said) == 3, said
    assert "delivered again; 20 were dropped" in said[1]
    assert said[2] == "lineage: 20 events were dropped"


def test_what_cannot_be_reported_of_a_commit_ends_nothing() -> None:
    """An error while an event is made is a dropped event, on whichever thread."""
    said = list[str]()
    broken = CommitTable("t", VIEW, "c", (), None, None)  # type: ignore[arg-type]
    lineage = publisher(Sink(), said)
    lineage.committed(broken, DONE)
    assert lineage.dropped == 1
    lineage.close()


def test_a_commit_is_reported_of_the_run_that_announced_it() -> None:
    """The run that the log names is the one that the driver begins, with the schema of the table, asked for once."""
    sink, asked = Sink(), list[str]()

    def schema_of(table: str) -> TableSchema:
        asked.append(table)
        return TableSchema('{"type": "struct", "fields": []}', 0, "")

    lineage = LineageTeller(NAMES, lambda: sink, schema_of, lambda text: None)
    lineage.run(RunBegan("shop", "run-9", 0, ("orders",), ()))
    lineage.note(DataWritten("shop", "run-9", 1, "shop.orders", "uuid", 0, (), (), TableCommitPolicy(1, 1, 1)))
    for _ in range(3):
        lineage.committed(EFFECT, DONE)
    lineage.close()
    assert len(sink.events) == 4
    assert len({event["run"]["runId"] for event in sink.events}) == 1  # type: ignore[index]
    assert asked == ["shop.orders"]


PLAN = {
    "transform": None,
    "decode": {"format": {"type": "json", "envelope": "none", "column": ""}, "key": None, "hints": []},
}
SCHEMA = '{"type": "struct", "fields": [{"id": 1, "name": "total", "type": "long", "required": false}]}'


@pytest.mark.parametrize("fails", [False, True])
def test_a_coordinator_that_began_behind_what_a_run_published_looks_it_up(fails: bool) -> None:
    """After its restart the columns of a commit have their origin all the same; it is asked for once, on the topics that
    are read, and again where the broker did not answer."""
    sink, asked = Sink(), list[tuple[str, list[str]]]()

    def plan_of(pipeline: str, topics: Iterable[str]) -> dict[str, object]:
        asked.append((pipeline, list(topics)))
        if fails and len(asked) == 1:
            raise OSError("no broker")
        return PLAN

    schema = TableSchema(SCHEMA, 0, "")
    lineage = LineageTeller(NAMES, lambda: sink, lambda table: schema, lambda text: None, plan_of=plan_of)
    lineage.reads("control")
    lineage.note(DataWritten("shop", "run-9", 1, "shop.orders", "uuid", 0, (), (), TableCommitPolicy(1, 1, 1)))
    for _ in range(3):
        lineage.committed(EFFECT, DONE)
    lineage.close()
    columns = [event["outputs"][0]["facets"].get("columnLineage") for event in sink.events]  # type: ignore[index]
    assert [each is not None for each in columns] == [not fails, True, True]
    assert set(columns[-1]["fields"]) == {"total"}
    assert asked == [("shop", ["control"])] * (1 + fails)


def test_a_table_that_a_person_rolled_back_is_reported_without_records() -> None:
    """A verb of recovery is a job of its own, complete at once, whose output is the table at its new snapshot: valid by the
    published schemas, with no rows, no pipeline and no input."""
    sink = Sink()
    lineage = LineageTeller(NAMES, lambda: sink, lambda table: TableSchema(SCHEMA, 0, ""), lambda text: None)
    lineage.recovered("rollback", EFFECT, DONE)
    lineage.close()
    [event] = sink.events
    check_event(event)
    job: Any = event["job"]
    [output] = event["outputs"]  # type: ignore[misc]
    commit = output["outputFacets"]["floe_commit"]
    assert (event["eventType"], job["name"], event["inputs"]) == ("COMPLETE", "floe.rollback", [])
    assert output["facets"]["version"]["datasetVersion"] == "7"
    assert (commit["rows"], commit["files"], commit["pipelines"]) == (0, 0, [])
    assert "outputStatistics" not in output["outputFacets"]


@pytest.mark.parametrize("fails", ["open", "schema"])
def test_a_sink_that_cannot_be_opened_is_tried_again(fails: str) -> None:
    """Nor does a catalog that does not answer cost an event: it is told without the schema."""
    sink, tries = Sink(), list[int]()

    def open_sink() -> Sink:
        tries.append(1)
        if fails == "open" and len(tries) < 3:
            raise OSError("not there yet")
        return sink

    def schema_of(table: str) -> TableSchema | None:
        raise OSError("no catalog")

    lineage = LineageTeller(NAMES, open_sink, schema_of, lambda text: None)
    for _ in range(5):
        lineage.committed(EFFECT, DONE)
    lineage.close()
    assert (lineage.sent, lineage.dropped) == ((3, 2) if fails == "open" else (5, 0))
