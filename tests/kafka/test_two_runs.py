"""Two runs of one pipeline on a real broker: whatever the older one does when it wakes up, exactly one of them goes
on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.project.files import load_or_raise
from framework.commit.offsets import decode_metadata
from framework.config.spec import LoadedPipeline
from framework.errors import FencedError, OutcomeUnknown, RetriableError
from framework.plan.compile import compile_plan
from framework.runtime.job import open_catalog
from framework.runtime.pipeline.worker import PipelineWorker
from tests.conftest import Broker
from tests.kafka.test_plan import PIPELINE
from tests.project import Project

pytestmark = [pytest.mark.kafka, pytest.mark.iceberg]


@pytest.fixture
def pipeline(tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> LoadedPipeline:
    monkeypatch.chdir(tmp_path)
    topic = broker.new_topic("two", partitions=2)
    file = Project(tmp_path, broker.bootstrap_servers).pipeline("two", PIPELINE.format(topic=topic))
    return load_or_raise([file], "it")[0]


@pytest.fixture
def new_run(pipeline: LoadedPipeline) -> Iterator[Callable[[], PipelineWorker]]:
    """Runs of the pipeline, as far as they go before they read."""
    made: list[PipelineWorker] = []

    def make() -> PipelineWorker:
        kafka = {key: str(value) for key, value in pipeline.target.kafka["main"].items()}
        catalog = open_catalog(pipeline.target, ["default"])
        made.append(PipelineWorker(compile_plan(pipeline), kafka, catalog, Path("scratch"), lambda text: None))
        return made[-1]

    yield make
    for run in made:
        run.close()


def wakes_up(run: PipelineWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run's next announcement is one of which it does not know what became: it was stopped for longer than its
    transaction may take, and the broker has ended that."""
    producer = run.announcer._producer
    real = producer.announce

    def unknown(*_: Any) -> int:
        monkeypatch.setattr(producer, "announce", real)
        raise producer._unknown("the transaction was ended by the broker")

    monkeypatch.setattr(producer, "announce", unknown)


def owner(broker: Broker, pipeline: LoadedPipeline) -> set[str]:
    group = compile_plan(pipeline).read.group_id
    found = KafkaAdmin({"bootstrap.servers": broker.bootstrap_servers}).group_offsets(group)
    return {decode_metadata(value.offset, value.metadata, "").run for value in found.values()}


def test_an_older_run_that_wakes_up_ends_and_leaves_the_newer_one_alone(
    broker: Broker,
    pipeline: LoadedPipeline,
    new_run: Callable[[], PipelineWorker],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It looks whose run is the newest before it takes the transactional id again."""
    older, newer = new_run(), new_run()
    older.prepare()
    newer.prepare()
    assert owner(broker, pipeline) == {newer.run_id}
    wakes_up(older, monkeypatch)
    with pytest.raises(FencedError):
        older.heartbeat()
    newer.heartbeat()
    assert owner(broker, pipeline) == {newer.run_id}


def test_a_run_that_wakes_up_alone_goes_on(
    broker: Broker,
    pipeline: LoadedPipeline,
    new_run: Callable[[], PipelineWorker],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it had announced is read back, and it is announced once."""
    run = new_run()
    run.prepare()
    wakes_up(run, monkeypatch)
    run.heartbeat()
    run.heartbeat()
    assert owner(broker, pipeline) == {run.run_id}


def test_of_two_runs_that_take_over_at_once_one_goes_on(
    broker: Broker,
    pipeline: LoadedPipeline,
    new_run: Callable[[], PipelineWorker],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run that began between the look and the recovery is fenced by it; then the older one goes on where that one
    stood."""
    older, newer = new_run(), new_run()
    older.prepare()
    wakes_up(older, monkeypatch)
    looked = older.source.group_offsets

    def look(keys: Any = None, settled: bool = True) -> Any:
        found = looked(keys, settled)
        if not settled:
            newer.prepare()
        return found

    monkeypatch.setattr(older.source, "group_offsets", look)
    with pytest.raises(RetriableError) as raised:
        older.heartbeat()
    older.chain.settle(raised.value)
    older.heartbeat()
    with pytest.raises(FencedError):
        newer.heartbeat()
    assert owner(broker, pipeline) == {older.run_id}


def test_the_first_run_says_where_it_stands(
    broker: Broker, pipeline: LoadedPipeline, new_run: Callable[[], PipelineWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is read the positions are announced, also where the answer was lost; who comes later goes by
    them."""
    first, second = new_run(), new_run()
    producer = first.announcer._producer
    real = producer.announce

    def lost(*arguments: Any) -> int:
        monkeypatch.setattr(producer, "announce", real)
        real(*arguments)
        raise OutcomeUnknown("no answer")

    monkeypatch.setattr(producer, "announce", lost)
    first.prepare()
    assert owner(broker, pipeline) == {first.run_id}
    (topic,) = compile_plan(pipeline).read.topics
    broker.produce(topic, [{"id": 1}], partition=0)
    second.prepare()
    assert second.chain.positions == {(topic, 0): 0, (topic, 1): 0}
