"""A look at a topic of the real broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.adapters.kafka_sample import newest_values
from framework.cli.main import run_main
from framework.errors import SetupError
from tests.conftest import Broker

pytestmark = pytest.mark.kafka


def test_the_newest_records_are_taken_from_all_partitions(broker: Broker) -> None:
    """As many as asked for, the newest of each partition, and no group is left behind."""
    topic = broker.new_topic("sample", partitions=2)
    broker.produce(topic, [{"i": i} for i in range(20)])
    settings = {"bootstrap.servers": broker.bootstrap_servers}

    assert len(newest_values(settings, topic, 6)) == 6
    assert len(newest_values(settings, topic, 100)) == 20
    with pytest.raises(SetupError) as raised:
        newest_values(settings, f"{topic}-not-there", 5)
    assert raised.value.code == "FLOE-E110"


def test_init_looks_at_a_topic(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`floe init --from-topic` writes a file with the types that the topic's records show, and it validates."""
    topic = broker.new_topic("look", partitions=1)
    broker.produce(topic, [{"id": i, "created_at": "2024-01-04T12:28:13Z"} for i in range(5)])
    monkeypatch.chdir(tmp_path)
    target = tmp_path / "pipelines" / "targets" / "it.yaml"
    target.parent.mkdir(parents=True)
    target.write_text(
        "apiVersion: floe/v1\nkind: Target\nmetadata: {name: it}\nconnections:\n"
        f'  kafka: {{main: {{bootstrap.servers: "{broker.bootstrap_servers}"}}}}\n'
        '  catalog: {default: {type: rest, uri: "http://catalog"}}\n'
    )

    code = run_main(["init", "look", "--topic", topic, "--table", "a.look", "--from-topic", "--target", "it"])

    assert code == 0
    text = (tmp_path / "pipelines" / "look.yaml").read_text()
    assert "created_at: {type: timestamptz}" in text
    assert 'partition_by: ["day(created_at)"]' in text
    assert run_main(["validate", "pipelines/look.yaml", "--target", "it"]) == 0
