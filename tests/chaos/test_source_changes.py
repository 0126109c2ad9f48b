"""The source topic changes under a running job: retention passes the reader, and the topic is deleted and made
again."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.chaos.harness import Running, fan_out, kill, landed, records, wait_for
from tests.conftest import Broker
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.chaos, pytest.mark.timeout(1200)]


def delete_records(broker: Broker, topic: str, partition: int, before: int) -> None:
    """What retention does, at once: everything in front of offset `before` goes."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    (future,) = admin.delete_records([TopicPartition(topic, partition, before)]).values()
    future.result(20)


def skipping(topic: str) -> str:
    return fan_out(topic).replace("topics: [", "on_data_loss: skip_and_record, topics: [", 1)


@pytest.mark.failure("F11")
def test_retention_passes_a_running_job_and_the_topic_is_made_again(project: Project, broker: Broker) -> None:
    """With `skip_and_record` a running job goes on behind what retention removed: sum, status and log name the gap,
    also after a restart. A topic that is made again is another topic, and ends the job with exit code 5."""
    topic = broker.new_topic("passing", partitions=2)
    file = project.pipeline("passing", skipping(topic))
    broker.produce(topic, records(60), partition=0)
    with Running(project, "run", file) as run:
        wait_for(lambda: ("shop",) in project.catalog().list_namespaces(), "the namespace")
        wait_for(lambda: landed(project) == 60, "the first batch")
        run.wait_for_output("committed", 1)
        kill([run.pid], signal.SIGSTOP)  # so that nothing of it is read before it goes
        broker.produce(topic, records(40, start=60), partition=0)
        delete_records(broker, topic, 0, 85)
        kill([run.pid], signal.SIGCONT)
        run.wait_for_output("recorded as lost")
        wait_for(lambda: landed(project) >= 75, "what is behind the gap")
        lost = _gap(project, topic)
        assert lost == [[60, 85]]
        assert run.terminate() == 0, run.output

    # While nobody runs, records go again, and the partition beside goes on.
    broker.produce(topic, records(20, start=100), partition=0)
    broker.produce(topic, records(10, start=120), partition=1)
    delete_records(broker, topic, 0, 105)
    output = project.run("run", file, "--until-caught-up")
    assert "25 written" in output
    assert "5 lost" in output
    assert _gap(project, topic) == [[60, 85], [100, 105]]
    assert f"records 60 to 84 of {topic}-0 were removed by retention" in project.run("status")
    assert f"25 lost; gone before they were read: {topic}-0 offsets 60 to 84" in project.run("log")
    offsets = sorted(
        o for (_, p, o), n in project.positions(project.tables("shop")).items() for _ in range(n) if p == 0
    )
    assert offsets == [*range(60), *range(85, 100), *range(105, 120)]

    with Running(project, "run", file) as run:
        run.wait_for_output("starting Spark")
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.delete_topics([topic])[topic].result(20)
        wait_for(lambda: _made(admin, topic), f"the making of {topic}")
        broker.produce(topic, records(200), partition=0)
        assert run.wait() == 5, run.output
        assert "recreated" in run.output or "taken out of the file" in run.output, run.output
    assert landed(project) == 100


def _made(admin: AdminClient, topic: str) -> bool:
    return admin.create_topics([NewTopic(topic, 2, 1)])[topic].exception(20) is None


def _gap(project: Project, topic: str) -> list[list[int]]:
    """The gaps that `floe status --json` lists for partition 0; the sum of invariant 8 must hold with them."""
    (pipeline,) = project.status()["pipelines"]
    totals = pipeline["totals"]
    parts = ("written", "filtered", "dead_lettered", "dropped", "holes", "lost")
    assert totals["offsets"] == sum(totals[part] for part in parts), totals
    (gaps,) = [p["gaps"] for p in pipeline["partitions"] if (p["topic"], p["partition"]) == (topic, 0)]
    assert totals["lost"] == sum(end - start for start, end in gaps)
    return [list(gap) for gap in gaps]


@pytest.mark.failure("F21")
def test_the_name_of_a_pipeline_given_to_another_source(project: Project, broker: Broker, tmp_path: Path) -> None:
    """A file that takes the name of a pipeline that reads another topic is refused at the start, with that topic's name
    and position; a second file of the same name in one command is refused by its name."""
    first, second = broker.new_topic("first"), broker.new_topic("second")
    broker.produce(first, records(20))
    broker.produce(second, records(20))
    file = project.pipeline("shared", fan_out(first))
    project.run("run", file, "--until-caught-up")
    other = project.pipeline("shared", fan_out(second))
    output = project.run("run", other, "--until-caught-up", code=5)
    assert first in output
    assert "20" in output
    assert landed(project) == 20
    copy = file.with_name("copy.yaml")
    copy.write_text(file.read_text())
    output = project.run("run", file, copy, "--until-caught-up", code=2)
    assert "shared" in output
