"""The broker forgets offsets of partitions that nobody commits; a pipeline's transactions keep all of theirs alive."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from framework.adapters.kafka.admin import GroupOffset, KafkaAdmin
from framework.adapters.kafka.control.topic import ensure_control_topic
from framework.adapters.kafka.control.transactions import PipelineProducer
from framework.local import stack
from tests.kafka.conftest import heartbeat, wait_for

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Settings of a broker that forgets committed offsets after a minute, the least that it can be set to."""
    state_dir = tmp_path_factory.mktemp("forgetful")
    config = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}
    state = stack.up(state_dir, kafka_port=0, progress=print, broker_config=config)
    try:
        yield {"bootstrap.servers": state.bootstrap_servers}
    finally:
        stack.down(state_dir, wipe=True)


def test_offsets_of_idle_partitions_expire_unless_every_transaction_sends_them(forgetful: dict[str, str]) -> None:
    """A partition left out is forgotten while its sibling is committed; one that is sent each time, idle or not,
    stays."""
    admin = KafkaAdmin(forgetful)
    sources = [ensure_control_topic(admin, name).name for name in ("busy", "idle")]
    control = ensure_control_topic(admin, "control").name
    careless = PipelineProducer(forgetful, "careless", "careless", control)
    careful = PipelineProducer(forgetful, "careful", "careful", control)
    for producer in (careless, careful):
        producer.start()
    first = {(source, 0): (7, "m") for source in sources}
    careless.announce([heartbeat("careless", 0)], first)
    assert admin.group_offsets("careless", first).keys() == first.keys()
    batch = 0

    def announce() -> None:
        nonlocal batch
        batch += 1
        careless.announce([heartbeat("careless", batch)], {("busy", 0): (batch, "m")})
        careful.announce([heartbeat("careful", batch)], {("busy", 0): (batch, "m"), ("idle", 0): (7, "m")})

    def forgotten() -> bool:
        announce()
        time.sleep(2)
        return ("idle", 0) not in admin.group_offsets("careless")

    wait_for(forgotten, timeout_s=180)
    assert admin.group_offsets("careless", [("busy", 0)]) == {("busy", 0): GroupOffset(batch, "m")}
    assert admin.group_offsets("careful") == {
        ("busy", 0): GroupOffset(batch, "m"),
        ("idle", 0): GroupOffset(7, "m"),
    }
    for producer in (careless, careful):
        producer.close()
