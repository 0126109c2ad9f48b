"""kill -9 of the driver at every named point between reading and visible data, then the same command again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from framework.adapters.host.failpoints import POINTS
from tests.chaos.checker import assert_exact, assert_sum_holds
from tests.chaos.harness import Running, crash, descendants, fan_out, processes, records, wait_for
from tests.conftest import Broker
from tests.iceberg.lineage import lineage
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.timeout(1200)]

# In the order in which one and the same command reaches them: each run goes a step further than the one before.
# The commit points come while nothing was ever committed: the moment at which other systems lose their first files.
LIFE_OF_A_FIRST_BATCH = (
    "before-query",
    "table-created",
    "files-written",
    "in-transaction",
    "announced",
    "before-commit",
    "manifests-written",
    "committed",
    "progress-published",
)


def groups(broker: Broker, prefix: str) -> list[str]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    return [g.group_id for g in admin.list_consumer_groups().result(20).valid if g.group_id.startswith(prefix)]


IN_THE_DRIVER = [point for point in POINTS if point != "records-written"]


@pytest.mark.failure("F03", "F04", "F13", "F15", "F16", "F17", "F21")
def test_killed_at_every_point_of_its_first_batch(project: Project, broker: Broker) -> None:
    """A driver killed once at each point of its life, before anything was ever committed, loses and repeats nothing, in
    tables of both format versions; and no two rows have one row id."""
    topic = broker.new_topic("crash", partitions=2)
    broker.produce(topic, records(2000))
    file = project.pipeline("crash", fan_out(topic, version_3="shop.t_k01"))

    for point in LIFE_OF_A_FIRST_BATCH:
        crash(project, point, "run", file, "--until-caught-up")
    project.run("run", file, "--until-caught-up")

    assert_exact(project.catalog(), broker.bootstrap_servers, [topic])
    assert_sum_holds(project.status(), "crash", 2000)
    given = lineage(project.catalog().load_table("shop.t_k01"))
    assert sum(rows for _, rows in list(given.files.values())[-1].values()) == given.next_row_id == 667
    # Ten runs, and still one group for the pipeline's offsets and one for the coordinator.
    assert len(groups(broker, project.prefix)) == 2


@dataclass
class Settled:
    """One pipeline with tables that hold data already; each test goes on where the one before ended."""

    project: Project
    topic: str
    file: Path
    rows: int = 0

    def produce(self, broker: Broker, count: int, kinds: int) -> None:
        broker.produce(self.topic, records(count, start=self.rows, kinds=kinds))
        self.rows += count


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory, broker: Broker) -> Settled:
    project = Project(tmp_path_factory.mktemp("settled"), broker.bootstrap_servers)
    topic = broker.new_topic("point", partitions=2)
    found = Settled(project, topic, project.pipeline("point", fan_out(topic)))
    found.produce(broker, 300, 3)
    project.run("run", found.file, "--until-caught-up")
    return found


@pytest.mark.failure("F13", "F15", "F16")
@pytest.mark.chaos
@pytest.mark.parametrize("point", IN_THE_DRIVER)
def test_killed_at_one_point(settled: Settled, broker: Broker, point: str) -> None:
    """Killed the first and then the second time that a point is reached, with tables that exist and hold data already:
    some points are reached once in a run, and then that run must end well."""
    project, file = settled.project, settled.file
    kinds = 3 + IN_THE_DRIVER.index(point)  # a table that is made on the way
    for nth in (1, 2):
        settled.produce(broker, 300, kinds)
        with Running(project, "run", file, "--until-caught-up", env={"FLOE_FAULT": f"{point}@{nth}=kill"}) as run:
            code = run.wait()
            assert code == -9 or (nth == 2 and code == 0), f"{code}\n{run.output}"
    if code:
        project.run("run", file, "--until-caught-up")

    assert_exact(project.catalog(), broker.bootstrap_servers, [settled.topic])
    assert_sum_holds(project.status(), "point", settled.rows)


@pytest.mark.chaos
def test_a_killed_driver_leaves_no_process_behind(project: Project, broker: Broker) -> None:
    """kill -9 of the driver alone: its JVM, planner and Python workers end by themselves."""
    topic = broker.new_topic("orphans")
    broker.produce(topic, records(100))
    with Running(project, "run", project.pipeline("orphans", fan_out(topic))) as run:
        run.wait_for_output("coordinator: committed shop.")
        below = {p.pid for p in descendants(run.pid)}
        assert len(below) >= 3, below
        run.kill()

        wait_for(lambda: not below & {p.pid for p in processes()}, "the end of the driver's children")
