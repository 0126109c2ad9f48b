"""The main job on a real Spark standalone cluster: a master and two workers, by `floe run` and by `floe submit`."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.servers.spark_cluster import SparkCluster
from tests.conftest import Broker
from tests.project import Project, kill_group, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.slow]

PIPELINE = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      format: {{type: json}}
      metadata_columns: [topic, partition, offset]
    routes:
      rules: [{{table: "shop.orders_{{region}}"}}]
      unrouted: fail
      allow_tables: ["shop.*"]
    tables: {{defaults: {{commit: {{interval: 1s}}}}}}
    errors: {{policy: fail}}
"""
TABLES = ["shop.orders_ap", "shop.orders_eu", "shop.orders_us"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    cluster = SparkCluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def project(tmp_path: Path, broker: Broker, cluster: SparkCluster) -> Project:
    project = Project(tmp_path, broker.bootstrap_servers)
    use_cluster(project, cluster.master)
    return project


def use_cluster(project: Project, master: str, **conf: str) -> None:
    settings = {
        "spark.cores.max": "2",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.driver.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        **conf,
    }
    file = project.root / "pipelines" / "targets" / "it.yaml"
    head = file.read_text().partition("spark:")[0]
    lines = "".join(f'    {key}: "{value}"\n' for key, value in settings.items())
    file.write_text(f'{head}spark:\n  master: "{master}"\n  conf:\n{lines}')


def orders(count: int, start: int = 0) -> list[dict[str, object]]:
    return [{"id": i, "region": ["eu", "us", "ap"][i % 3], "total": i / 4} for i in range(start, start + count)]


def check_exact(project: Project, records: int) -> None:
    """Every record is in the tables once, and nothing else is."""
    counts = project.positions(TABLES)
    assert len(counts) == records
    assert set(counts.values()) == {1}


def test_run_on_a_cluster(project: Project, broker: Broker, cluster: SparkCluster) -> None:
    """`floe run` with a standalone master lands every record once; the nodes use the Python that the target names."""
    use_cluster(project, cluster.master, **{"spark.pyspark.python": sys.executable})
    topic = broker.new_topic("cluster", partitions=2)
    broker.produce(topic, orders(3000))

    project.run("run", project.pipeline("orders", PIPELINE.format(topic=topic)), "--until-caught-up")

    check_exact(project, 3000)
    assert cluster.executors("worker-0")
    assert cluster.executors("worker-1")


def test_submit_ships_all_that_the_nodes_need(project: Project, broker: Broker, cluster: SparkCluster) -> None:
    """`floe submit` needs nothing of floe on the nodes: code, packages and plan arrive with the application."""
    topic = broker.new_topic("submit", partitions=2)
    broker.produce(topic, orders(3000))
    file = project.pipeline("orders", PIPELINE.format(topic=topic))
    before = {*cluster.executors("worker-0"), *cluster.executors("worker-1")}

    output = project.run("submit", file, "--until-caught-up", timeout_s=240)

    check_exact(project, 3000)
    done = json.loads(next(line for line in output.splitlines() if line.startswith('{"command": "submitted"')))
    assert [(p["pipeline"], p["state"]) for p in done["pipelines"]] == [("orders", "caught up")]
    for executor in {*cluster.executors("worker-0"), *cluster.executors("worker-1")} - before:
        assert (executor / "environment" / "bin" / "python").exists()
        assert list(executor.glob("floe-*.zip"))
    project.run("submit", file, "--until-caught-up", timeout_s=240)
    check_exact(project, 3000)


def test_the_printed_command_is_the_one_that_runs(project: Project, broker: Broker) -> None:
    """What `--stage` prints runs as it is, from a shell; the pipeline's own files are not needed any more."""
    topic = broker.new_topic("printed", partitions=2)
    broker.produce(topic, orders(500))
    file = project.pipeline("orders", PIPELINE.format(topic=topic))
    shown = project.run("submit", file, "--until-caught-up", "--stage")
    assert project.run("submit", file, "--until-caught-up", "--print") == shown[shown.index("# sha256:") :]
    shutil.rmtree(project.root / "pipelines")

    command = shown[shown.index("cd ") :]
    answer = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=240, check=False)

    assert answer.returncode == 0, answer.stdout + answer.stderr
    check_exact(project, 500)


def test_a_worker_lost_in_mid_batch(project: Project, broker: Broker, cluster: SparkCluster) -> None:
    """kill -9 of a worker and its executor while they hold a task: the other does the work; nothing lost, nothing
    twice."""
    topic = broker.new_topic("lost", partitions=2)
    broker.produce(topic, orders(60_000))
    known = cluster.executors("worker-1")
    process = project.start("submit", project.pipeline("orders", PIPELINE.format(topic=topic)), "--until-caught-up")
    try:
        # The first task of an executor loads the packages first, which takes seconds: the kill comes before its end.
        wait_for(lambda: has_a_task(set(cluster.executors("worker-1")) - set(known)), 180, "a task on worker-1")
        cluster.kill_worker("worker-1")
        output, _ = process.communicate(timeout=180)
        assert process.returncode == 0, output
    finally:
        kill_group(process)
        cluster.start_worker("worker-1")
    assert "Lost executor" in (project.root / ".floe" / "logs" / "spark.log").read_text()
    (log,) = [(executor / "stderr").read_text() for executor in set(cluster.executors("worker-1")) - set(known)]
    assert "Finished task" not in log
    check_exact(project, 60_000)


def has_a_task(executors: set[Path]) -> bool:
    logs = [(executor / "stderr").read_text() for executor in executors if (executor / "stderr").exists()]
    return any("Running task" in log for log in logs)


def test_sigterm_drains_a_submitted_driver(project: Project, broker: Broker) -> None:
    """SIGTERM to `floe submit` finishes the batch in hand and commits what is announced; the exit code is 0."""
    topic = broker.new_topic("drain", partitions=2)
    broker.produce(topic, orders(900))
    text = PIPELINE.format(topic=topic).replace("interval: 1s", "interval: 1h")
    process = project.start("submit", project.pipeline("orders", text))
    try:
        assert process.stdout is not None
        output = ""
        while "announced in" not in output:
            line = process.stdout.readline()
            assert line, output
            output += line
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=90)
        assert process.returncode == 0, output + rest
    finally:
        kill_group(process)
    check_exact(project, 900)


@pytest.mark.timeout(1200)
def test_a_driver_in_the_cluster_is_supervised(tmp_path: Path, broker: Broker) -> None:
    """In cluster mode a worker runs the driver. When that worker is killed, the master starts the driver on the other
    one, which goes on: nothing lost, nothing twice. `floe stop` drains it, and it is not started again."""
    cluster = SparkCluster(tmp_path / "cluster", cores=2)
    project = Project(tmp_path, broker.bootstrap_servers)
    try:
        use_cluster(project, cluster.master, **{"spark.submit.deployMode": "cluster", "spark.cores.max": "1"})
        topic = broker.new_topic("supervised", partitions=2)
        broker.produce(topic, orders(900))
        project.run("submit", project.pipeline("orders", PIPELINE.format(topic=topic)))
        wait_for(lambda: landed(project) == 900, 420, "the first rows")
        (first,) = [name for name in ("worker-0", "worker-1") if cluster.drivers(name)]
        (second,) = {"worker-0", "worker-1"} - {first}

        cluster.kill_worker(first)
        broker.produce(topic, orders(900, start=900))
        wait_for(lambda: landed(project) == 1800, 420, "the rows after the kill")
        assert cluster.drivers(second)
        assert "orders has stopped: drained" in project.run("stop", "orders", "--timeout", "120")
        wait_for(lambda: not cluster.state()["activedrivers"], 60, "the driver's end")
        # What the master started again has a new number; the one that was lost keeps the state in which it was given
        # up.
        states = sorted(driver["state"] for driver in cluster.state()["completeddrivers"])
        assert states == ["FINISHED", "RELAUNCHING"]
    finally:
        cluster.stop()
    check_exact(project, 1800)


def landed(project: Project) -> int:
    if "shop" not in {name[0] for name in project.catalog().list_namespaces()}:
        return 0
    return sum(project.positions(project.tables("shop")).values())
