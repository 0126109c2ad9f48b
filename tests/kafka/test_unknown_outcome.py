"""Invariant 7 on a real broker: whatever becomes of a commit's request or answer, the read-back tells the truth.

The broker stands behind a proxy that loses the request or the answer that ends a transaction.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from framework.adapters.kafka.admin import GroupOffset, KafkaAdmin
from framework.adapters.kafka.control.log import ControlReader
from framework.adapters.kafka.control.topic import ensure_control_topic
from framework.adapters.kafka.control.transactions import PipelineProducer
from framework.errors import FencedError, OutcomeUnknown
from framework.local import stack
from tests.kafka.conftest import batches, heartbeat, unique
from tests.kafka.proxy import END_TXN, Fate, Proxy

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]


@dataclass(frozen=True)
class Behind:
    """A broker behind a proxy."""

    state_dir: Path
    proxy: Proxy
    port: int
    config: dict[str, str]

    @property
    def settings(self) -> dict[str, str]:
        return {"bootstrap.servers": f"127.0.0.1:{self.proxy.port}"}

    def kill(self) -> None:
        pid = stack.status(self.state_dir).pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    def restart(self) -> None:
        stack.up(self.state_dir, kafka_port=self.port, broker_config=self.config)


@dataclass
class Pipeline:
    """One pipeline with a source of one partition, its own control topic, and its first batch announced."""

    behind: Behind
    admin: KafkaAdmin
    producer: PipelineProducer
    name: str
    source: str
    control_topic: str

    def announce(self, batch: int) -> int:
        return self.producer.announce([heartbeat(self.name, batch)], {(self.source, 0): (batch * 10, f"batch {batch}")})

    def offset(self) -> GroupOffset:
        return self.admin.group_offsets(self.name)[self.source, 0]

    def announced(self) -> list[int]:
        reader = ControlReader(self.behind.settings, self.control_topic)
        try:
            reader.seek(0)
            return [batch for _, batch in batches(list(reader.read_until(reader.end_offset())))]
        finally:
            reader.close()


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    state_dir = tmp_path_factory.mktemp("behind")
    proxy = Proxy()
    config = {
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    }
    state = stack.up(state_dir, kafka_port=0, progress=print, broker_config=config)
    port = int(state.bootstrap_servers.rpartition(":")[2])
    proxy.target = ("127.0.0.1", port)
    try:
        yield Behind(state_dir, proxy, port, config)
    finally:
        proxy.close()
        stack.down(state_dir, wipe=True)


@pytest.fixture
def new_pipeline(behind: Behind) -> Iterator[Callable[..., Pipeline]]:
    made: list[Pipeline] = []

    def make(**options: float) -> Pipeline:
        admin = KafkaAdmin(behind.settings)
        name, control_topic = unique("p"), ensure_control_topic(admin, unique("control")).name
        source = ensure_control_topic(admin, unique("source")).name
        producer = PipelineProducer(behind.settings, name, name, control_topic, **options)
        producer.start()
        pipeline = Pipeline(behind, admin, producer, name, source, control_topic)
        made.append(pipeline)
        pipeline.announce(1)
        return pipeline

    yield make
    behind.proxy.heal()
    for pipeline in made:
        pipeline.producer.close()


def at_end_txn(fate: Fate, times: int = 1000) -> Callable[[int], Fate]:
    """The first `times` requests that end a transaction meet this fate."""
    left = [times]

    def decide(api_key: int) -> Fate:
        if api_key != END_TXN or not left[0]:
            return Fate.PASS
        left[0] -= 1
        return fate

    return decide


def test_a_commit_that_never_arrived_is_read_back_as_not_announced(
    behind: Behind, new_pipeline: Callable[..., Pipeline]
) -> None:
    """The request is lost: the group's offsets show the batch's start, and the same batch is announced again, once."""
    pipeline = new_pipeline(commit_retry_s=2.0)
    behind.proxy.decide = at_end_txn(Fate.LOSE_REQUEST)
    with pytest.raises(OutcomeUnknown, match=pipeline.name):
        pipeline.announce(2)
    with pytest.raises(OutcomeUnknown):
        pipeline.announce(2)  # refused until it was read back
    behind.proxy.heal()
    pipeline.producer.recover()
    assert pipeline.offset() == GroupOffset(10, "batch 1")
    pipeline.announce(2)
    assert pipeline.announced() == [1, 2]


def test_a_commit_whose_answer_was_lost_is_read_back_as_announced(
    behind: Behind, new_pipeline: Callable[..., Pipeline]
) -> None:
    """The broker committed and its answer is lost: the group's offsets show the batch's end; nothing is sent again."""
    pipeline = new_pipeline(commit_retry_s=2.0)
    behind.proxy.decide = at_end_txn(Fate.LOSE_ANSWER)
    with pytest.raises(OutcomeUnknown):
        pipeline.announce(2)
    behind.proxy.heal()
    pipeline.producer.recover()
    assert pipeline.offset() == GroupOffset(20, "batch 2")
    pipeline.announce(3)
    assert pipeline.announced() == [1, 2, 3]


def test_one_lost_answer_is_mended_within_the_commit(behind: Behind, new_pipeline: Callable[..., Pipeline]) -> None:
    """A connection that breaks once at the commit is no unknown outcome: the same commit is asked for again."""
    pipeline = new_pipeline()
    behind.proxy.decide = at_end_txn(Fate.CUT, times=1)
    pipeline.announce(2)
    assert behind.proxy.reached.is_set()
    pipeline.announce(3)
    assert pipeline.announced() == [1, 2, 3]


def test_a_transaction_that_outlived_its_time_out_is_not_taken_for_a_newer_run(
    behind: Behind, new_pipeline: Callable[..., Pipeline]
) -> None:
    """The broker ends a transaction in the words of a fence; with no other run alive the pipeline must not end for
    good."""
    pipeline = new_pipeline(transaction_timeout_ms=2000, commit_retry_s=30.0)

    moves_on_at = time.monotonic() + 6

    def stall(api_key: int) -> Fate:
        if api_key == END_TXN:  # these connections stand still, the broker's clock does not
            time.sleep(max(0.0, moves_on_at - time.monotonic()))
        return Fate.PASS

    behind.proxy.decide = stall
    with pytest.raises(OutcomeUnknown):
        pipeline.announce(2)
    pipeline.producer.recover()
    assert pipeline.offset() == GroupOffset(10, "batch 1")
    pipeline.announce(2)
    assert pipeline.announced() == [1, 2]


def test_a_newer_run_that_took_over_during_an_outage_is_final(
    behind: Behind, new_pipeline: Callable[..., Pipeline]
) -> None:
    """Invariant 2: once the outage ends, the newer run goes on and the older one can announce nothing more."""
    pipeline = new_pipeline(commit_retry_s=1.0)
    behind.proxy.decide = at_end_txn(Fate.LOSE_REQUEST)
    with pytest.raises(OutcomeUnknown):
        pipeline.announce(2)
    behind.proxy.heal()
    older = pipeline.producer
    older.recover()
    newer = PipelineProducer(behind.settings, pipeline.name, pipeline.name, pipeline.control_topic)
    newer.start()
    with pytest.raises(FencedError):
        older.announce([heartbeat(pipeline.name, 2)], {(pipeline.source, 0): (20, "older")})
    newer.announce([heartbeat(pipeline.name, 2)], {(pipeline.source, 0): (20, "newer")})
    assert pipeline.offset() == GroupOffset(20, "newer")
    assert pipeline.announced() == [1, 2]
    newer.close()


@pytest.mark.parametrize("fate", [pytest.param(Fate.LOSE_REQUEST, marks=pytest.mark.slow), Fate.LOSE_ANSWER])
def test_a_broker_killed_in_mid_commit_keeps_all_or_nothing(
    behind: Behind, new_pipeline: Callable[..., Pipeline], fate: Fate
) -> None:
    """kill -9 of the broker around the commit: after its restart events and offsets are both there or both are not."""
    pipeline = new_pipeline(commit_retry_s=2.0)
    behind.proxy.decide = at_end_txn(fate)
    with pytest.raises(OutcomeUnknown):
        pipeline.announce(2)
    behind.kill()
    behind.proxy.heal()
    behind.restart()
    pipeline.producer.recover()
    shown = pipeline.offset()
    assert shown in (GroupOffset(10, "batch 1"), GroupOffset(20, "batch 2"))
    if shown.offset == 10:
        pipeline.announce(2)
    assert pipeline.announced() == [1, 2]
    pipeline.announce(3)
    assert pipeline.announced() == [1, 2, 3]
