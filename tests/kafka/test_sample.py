"""A look at a topic of the real broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from framework.adapters.kafka.sample import newest_values
from framework.cli.main import run_main
from framework.errors import SetupError
from tests.conftest import Broker

pytestmark = pytest.mark.kafka


def test_the_newest_records_are_taken_from_all_partitions(broker: Broker) -> None:
    """As many as asked for, the newest of each partition, and no group is left behind."""
    topic = broker.new_topic("sample", partitions=2)
    # With keys, since records without one may all go to one partition.
    broker.produce(topic, [{"i": i} for i in range(20)], keys=[str(i) for i in range(20)])
    settings = {"bootstrap.servers": broker.bootstrap_servers}

    assert len(newest_values(settings, topic, 6)) == 6
    assert len(newest_values(settings, topic, 100)) == 20
    with pytest.raises(SetupError) as raised:
        newest_values(settings, f"{topic}-not-there", 5)
    assert raised.value.code == "FLOE-E110"


def test_init_and_record_look_at_a_topic(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`floe init --from-topic` writes a file with the types that the topic's records show, and it validates; `floe test
    --record-topic` adds a test of the newest records that passes and shows no secret."""
    topic = broker.new_topic("look", partitions=1)
    record = {"created_at": "2024-01-04T12:28:13Z", "who": {"mail": "a@b.c"}, "api_token": "s3cret"}
    broker.produce(topic, [*({"id": i, **record} for i in range(5)), "nope"])
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

    wanted = ["test", "pipelines/look.yaml", "--target", "it", "--record-topic", topic, "--records", "3"]
    assert run_main(wanted) == 0
    said = capsys.readouterr().err
    assert "masked: api_token" in said
    text = (tmp_path / "pipelines" / "look.yaml").read_text()
    assert f"- name: recorded from the topic {topic}" in text.replace('"', "")
    assert "s3cret" not in text
    assert "raw: nope" in text
    assert "rows:" in text
    assert "id: 4" in text
    assert "id: 2" not in text
    # A record that is no JSON cannot be masked, so nothing is written; nor is a topic of somebody else taken.
    assert run_main([*wanted, "--mask", "who.mail"]) == 2
    assert run_main([*wanted[:5], "another"]) == 2
    assert (tmp_path / "pipelines" / "look.yaml").read_text() == text


def test_an_imported_sink_is_proved_by_records_of_its_topics(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`floe import-connector --sample` takes the newest records of each topic, masked, and writes them only with
    consent."""
    orders, refunds = broker.new_topic("orders", partitions=1), broker.new_topic("refunds", partitions=1)
    broker.produce(orders, [{"id": i, "mail": "a@b.c", "api_token": "s3cret"} for i in range(5)])
    broker.produce(refunds, [{"id": 9, "why": "late"}])
    monkeypatch.chdir(tmp_path)
    target = tmp_path / "targets" / "it.yaml"
    target.parent.mkdir()
    target.write_text(
        "apiVersion: floe/v1\nkind: Target\nmetadata: {name: it}\nconnections:\n"
        f'  kafka: {{main: {{bootstrap.servers: "{broker.bootstrap_servers}"}}}}\n'
        '  catalog: {default: {type: rest, uri: "http://catalog"}}\n'
    )
    sink = {
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "topics": f"{orders},{refunds}",
        "iceberg.tables": "shop.changes",
        "iceberg.tables.auto-create-enabled": "true",
        "iceberg.tables.evolve-schema-enabled": "true",
    }
    (tmp_path / "sink.json").write_text(json.dumps(sink))
    wanted = [
        "import-connector",
        "sink.json",
        "-o",
        "pipeline.yaml",
        "--sample",
        "2",
        "--target",
        "it",
        "--mask",
        "mail",
    ]

    assert run_main(wanted) == 2
    assert not (tmp_path / "pipeline.yaml").exists()
    assert run_main([*wanted, "--yes"]) == 0

    text = (tmp_path / "pipeline.yaml").read_text()
    assert "masked: api_token, mail" in capsys.readouterr().err
    assert "id: 4" in text
    assert "id: 9" in text
    assert "id: 2" not in text
    assert "s3cret" not in text
    assert "a@b.c" not in text
    assert run_main(["test", "pipeline.yaml"]) == 0
