"""Each process of a running driver killed on its own: Python worker, planner, JVM; and a newer run of the same
pipeline."""

from __future__ import annotations

import signal

import pytest

from tests.chaos.checker import assert_exact, assert_sum_holds
from tests.chaos.harness import (
    Running,
    fan_out,
    is_stopped,
    jvm_of,
    kill,
    landed,
    lands,
    planners_of,
    python_workers_of,
    records,
    wait_for,
)
from tests.conftest import Broker
from tests.project import Project

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.iceberg,
    pytest.mark.chaos,
    pytest.mark.timeout(1200),
]


@pytest.mark.failure("F13", "F16")
def test_worker_planner_and_jvm_killed_in_turn(project: Project, broker: Broker) -> None:
    """A killed Python worker or planner costs a retry, a killed JVM ends the run with a clear error; all is exact."""
    # One partition and tables that are there: one task a batch, so that the first batch takes each process only once.
    topic = broker.new_topic("parts")
    file = project.pipeline("parts", fan_out(topic))
    broker.produce(topic, records(100))
    project.run("run", file, "--until-caught-up")
    broker.produce(topic, records(100, start=100))
    # Each worker process stops itself in its second task, with rows in its buffers and no file closed; and the second
    # batch fails as a whole once, after all its files were written.
    with Running(project, "run", file, env={"FLOE_FAULT": "records-written@2=stop,files-written@2=raise"}) as run:
        lands(project, 200, run)

        broker.produce(topic, records(200, start=200))
        stopped = wait_for(lambda: [p for p in python_workers_of(run.pid) if is_stopped(p)], "a task in mid-batch")
        assert kill(stopped) == len(stopped)

        def second_batch_landed() -> bool:
            kill(p for p in python_workers_of(run.pid) if is_stopped(p))
            return landed(project) == 400

        wait_for(second_batch_landed, "the batch whose worker was killed")
        assert "batch failed (fault point files-written was armed)" in run.output, run.output

        assert kill(planners_of(run.pid)) == 1
        broker.produce(topic, records(200, start=400))

        def third_batch_landed() -> bool:
            kill(p for p in python_workers_of(run.pid) if is_stopped(p))
            return landed(project) == 600

        wait_for(third_batch_landed, "the batch whose planner was killed")
        assert run.running, run.output

        broker.produce(topic, records(200, start=600))
        kill([jvm_of(run.pid)])
        assert run.wait() not in (0, -signal.SIGKILL), run.output
        assert "error[FLOE-" in run.output, run.output
        assert "/framework/" not in run.output, (
            run.output
        )  # no traceback of ours; PySpark's own threads may print theirs

    project.run("run", file, "--until-caught-up")
    assert_exact(project.catalog(), broker.bootstrap_servers, [topic])
    assert_sum_holds(project.status(), "parts", 800)


@pytest.mark.failure("F07")
def test_a_worker_that_dies_every_time_ends_the_run(project: Project, broker: Broker) -> None:
    """A task that kills its process at every attempt ends the run with an error and announces nothing."""
    topic = broker.new_topic("deadly")
    broker.produce(topic, records(50))
    file = project.pipeline("deadly", fan_out(topic))
    with Running(project, "run", file, "--until-caught-up", env={"FLOE_FAULT": "records-written=kill"}) as run:
        assert run.wait() == 1, run.output
        assert "attempt 5 follows" in run.output, run.output
        assert "Python worker exited unexpectedly" in run.output, run.output
        assert "error[FLOE-" in run.output, run.output
    assert landed(project) == 0
    project.run("run", file, "--until-caught-up")
    assert_exact(project.catalog(), broker.bootstrap_servers, [topic])


@pytest.mark.failure("F21")
def test_a_second_run_fences_the_first(project: Project, broker: Broker) -> None:
    """The older of two runs of one pipeline ends with exit code 4 and a message that says so; the newer one goes on."""
    topic = broker.new_topic("fence", partitions=2)
    file = project.pipeline("fence", fan_out(topic))
    broker.produce(topic, records(100))
    with Running(project, "run", file) as first:
        lands(project, 100, first)
        with Running(project, "run", file) as second:
            second.wait_for_output("goes on after batch")
            broker.produce(topic, records(100, start=100))
            assert first.wait() == 4, first.output
            assert "a newer run of this pipeline has taken over" in first.output
            lands(project, 200, second)
            broker.produce(topic, records(100, start=200))
            lands(project, 300, second)
            assert second.terminate() == 0, second.output
    assert_exact(project.catalog(), broker.bootstrap_servers, [topic])


def test_sigterm_while_a_failed_batch_waits(project: Project, broker: Broker) -> None:
    """A drain that could not finish the batch in hand does not end with 0, and the next run loses and repeats
    nothing."""
    topic = broker.new_topic("undone", partitions=2)
    file = project.pipeline("undone", fan_out(topic))
    broker.produce(topic, records(100))
    faults = ",".join(f"files-written@{n}=raise" for n in range(1, 9))
    with Running(project, "run", file, env={"FLOE_FAULT": faults}) as run:
        run.wait_for_output("attempt 5 follows")  # the pause is eight seconds long by now
        assert run.terminate() == 1, run.output
        assert "error[FLOE-R324] fault point files-written was armed" in run.output
    project.run("run", file, "--until-caught-up")
    assert_exact(project.catalog(), broker.bootstrap_servers, [topic])
