"""The coordinator killed, stopped and doubled, with announcements waiting and no driver alive."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.chaos.checker import assert_exact
from tests.chaos.harness import Running, crash, fan_out, is_stopped, kill, landed, lands, records, wait_for
from tests.conftest import Broker
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.timeout(1200)]


def announce(project: Project, broker: Broker, name: str, count: int, start: int = 0) -> tuple[str, Path]:
    """Announced and not committed: the driver dies right after its transaction. Returns the topic and the file."""
    topic = broker.new_topic(name, partitions=2)
    file = project.pipeline(name, fan_out(topic))
    broker.produce(topic, records(count, start))
    crash(project, "announced", "run", file, "--until-caught-up")
    return topic, file


def coordinator(project: Project, fault: str | None = None) -> Running:
    args = ("coordinator", "--control-topic", project.control_topic)
    return Running(project, *args, env={"FLOE_FAULT": fault} if fault else None)


@pytest.mark.failure("F01", "F02")
@pytest.mark.slow
def test_two_coordinators_one_stopped_across_a_rebalance(project: Project, broker: Broker) -> None:
    """A coordinator stopped in mid-commit and resumed after another took over and committed adds nothing and loses
    nothing."""
    topic, file = announce(project, broker, "zombie", 600)
    with coordinator(project, "manifests-written=stop") as first:
        wait_for(lambda: is_stopped(first.pid), "the first coordinator in mid-commit")
        assert landed(project) == 0
        with coordinator(project) as second:
            lands(project, 600, second)
            snapshots = {name: project.catalog().load_table(name).metadata.snapshots for name in project.tables("shop")}
            kill([first.pid], signal.SIGCONT)
            first.wait_for_output("no longer coordinates")
            assert {n: project.catalog().load_table(n).metadata.snapshots for n in project.tables("shop")} == snapshots
            assert_exact(project.catalog(), broker.bootstrap_servers, [topic])
            assert first.terminate() == 0, first.output
            assert second.terminate() == 0, second.output
    project.run("run", file, "--until-caught-up")
    assert_exact(project.catalog(), broker.bootstrap_servers, [topic])


@pytest.mark.chaos
@pytest.mark.failure("F03", "F04", "F15")
@pytest.mark.parametrize("point", ["before-commit", "committed", "low-water-stored"])
def test_coordinator_alone_killed(project: Project, broker: Broker, point: str) -> None:
    """`floe coordinator` killed before, just after and well after its commits: the next one ends with the same
    tables."""
    topic, _ = announce(project, broker, "alone", 300)
    crash(project, point, "coordinator", "--control-topic", project.control_topic)
    with coordinator(project) as second:
        # After the last of these points nothing is left to land: a process that only begins cannot end in order.
        second.wait_for_output("coordinates")
        lands(project, 300, second)
        assert second.terminate() == 0, second.output
    assert_exact(project.catalog(), broker.bootstrap_servers, [topic])


@pytest.mark.chaos
@pytest.mark.failure("F03", "F04")
def test_coordinator_group_gone_and_started_from_the_beginning(project: Project, broker: Broker) -> None:
    """A coordinator that knows no position reads the log from its beginning; what is in the tables is not added
    again."""
    from confluent_kafka.admin import AdminClient

    topic, _ = announce(project, broker, "anew", 300)
    with coordinator(project) as first:
        lands(project, 300, first)
        assert first.terminate() == 0, first.output
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    groups = [g.group_id for g in admin.list_consumer_groups().result(20).valid if project.prefix in g.group_id]
    (group,) = [g for g in groups if "coordinator" in g]
    admin.delete_consumer_groups([group])[group].result(20)
    with coordinator(project) as second:
        second.wait_for_output("coordinates")
        wait_for(lambda: _committed_group(admin, group), "the second coordinator's low-water mark")
        assert second.terminate() == 0, second.output
    assert_exact(project.catalog(), broker.bootstrap_servers, [topic])


def _committed_group(admin: object, group: str) -> bool:
    from confluent_kafka import ConsumerGroupTopicPartitions

    answer = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(20)  # type: ignore[attr-defined]
    return any(p.offset >= 0 for p in answer.topic_partitions)
