"""The main job on a real YARN cluster (Hadoop's mini cluster, with HDFS), by `floe submit` in both deploy modes.

The archive of packages is put into HDFS once, as people do whose cluster is used often: a node unpacks its 22,000 files
once then, and not for each application. `test_flights.py` has the submissions that bring everything with them.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.topic import ensure_control_topic
from framework.adapters.project.files import load_or_raise
from framework.local.spark import spark_home
from framework.plan.compile import compile_plan
from framework.plan.grants.kafka import grants_for
from testbed.servers.spark_reader import java_read
from testbed.servers.yarn import YarnApplication, YarnCluster
from tests.conftest import Broker
from tests.kafka.test_security import PASSWORD, secured_project
from tests.project import Project, kill_group, wait_for
from tests.secured_broker import SecuredBroker
from tests.spark.test_standalone_cluster import PIPELINE, TABLES, check_exact, landed, orders

pytestmark = [
    *(pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.slow),
    pytest.mark.timeout(1200),
]
MODES = ("client", "cluster")
START_S = 420
"""The first container of an archive waits until its node has unpacked it."""


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[YarnCluster]:
    cluster = YarnCluster(tmp_path_factory.mktemp("yarn"))
    try:
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def packages(yarn: YarnCluster) -> str:
    """The archive that `floe package` makes, in HDFS."""
    words = [sys.executable, "-m", "framework.cli.main", "package", "--json"]
    answer = subprocess.run(words, capture_output=True, text=True, timeout=300, check=True)
    return yarn.put(Path(json.loads(answer.stdout)["archive"]))


@pytest.fixture
def project(tmp_path: Path, broker: Broker, packages: str) -> Project:
    project = Project(tmp_path, broker.bootstrap_servers)
    use_yarn(project, **{"spark.archives": f"{packages}#environment"})
    return project


def use_yarn(project: Project, **conf: str) -> None:
    settings = {
        "spark.executor.instances": "2",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.driver.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1",
        "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",
        # The nodes have Spark, as most clusters do: otherwise each submission uploads 400 MB.
        "spark.yarn.jars": f"local:{spark_home()}/jars/*",
        **conf,
    }
    file = project.root / "pipelines" / "targets" / "it.yaml"
    head = file.read_text().partition("spark:")[0]
    lines = "".join(f'    {key}: "{value}"\n' for key, value in settings.items())
    file.write_text(f"{head}spark:\n  master: yarn\n  conf:\n{lines}")


def newest(yarn: YarnCluster) -> YarnApplication:
    return yarn.applications()[-1]


def running(yarn: YarnCluster, before: int) -> str:
    """The id of the application that was submitted after so many others, once it runs."""
    wait_for(lambda: len(yarn.applications()) > before and newest(yarn).state == "RUNNING", START_S, "an application")
    return newest(yarn).id


def check_exact_by_java(project: Project, records: int) -> None:
    """Every record is in the tables once, by PyIceberg, by Spark, and by Iceberg's Java library."""
    check_exact(project, records)
    query = " UNION ALL ".join(f"SELECT id FROM `default`.{name}" for name in TABLES)
    read = java_read(project.catalog_settings, [query], TABLES)
    assert Counter(row["id"] for row in read.rows[0]) == Counter(range(records))
    assert sum(read.counts.values()) == records


@pytest.mark.parametrize("mode", MODES)
def test_a_container_killed_in_mid_batch(project: Project, broker: Broker, yarn: YarnCluster, mode: str) -> None:
    """kill -9 of an executor's container while it holds a task: another does the work; nothing lost, nothing twice."""
    topic = broker.new_topic("killed", partitions=2)
    broker.produce(topic, orders(60_000))
    file = project.pipeline("orders", PIPELINE.format(topic=topic))
    before = len(yarn.applications())
    process = project.start("submit", file, "--until-caught-up", "--deploy-mode", mode, env=yarn.environment)
    try:
        application = running(yarn, before)
        pid, container = wait_for(lambda: with_a_task(yarn, application), START_S, "a task in a container")
        yarn.kill_container(pid)
        output, _ = process.communicate(timeout=START_S)
        assert process.returncode == 0, output
    finally:
        kill_group(process)
    log = yarn.logs(application)[container]
    assert "Running task" in log
    assert "Finished task" not in log
    assert (newest(yarn).final, newest(yarn).attempt) == ("SUCCEEDED", 1)
    check_exact_by_java(project, 60_000)


def with_a_task(yarn: YarnCluster, application: str) -> tuple[int, str] | None:
    """The process and the name of a container that runs its first task."""
    logs = yarn.logs(application)
    for pid, folder in yarn.containers(application).items():
        if "Running task" in logs.get(folder.name, "") and "Finished task" not in logs[folder.name]:
            return pid, folder.name
    return None


def test_sigterm_drains_a_driver_here(project: Project, broker: Broker, yarn: YarnCluster) -> None:
    """SIGTERM to `floe submit` in client mode finishes the batch in hand and commits what is announced; the exit code is
    0, and YARN reports a success."""
    topic = broker.new_topic("drain", partitions=2)
    broker.produce(topic, orders(900))
    text = PIPELINE.format(topic=topic).replace("interval: 1s", "interval: 1h")
    process = project.start("submit", project.pipeline("orders", text), env=yarn.environment)
    try:
        assert process.stdout is not None
        output = ""
        while "announced in" not in output:
            line = process.stdout.readline()
            assert line, output
            output += line
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=120)
        assert process.returncode == 0, output + rest
    finally:
        kill_group(process)
    check_exact(project, 900)
    wait_for(lambda: newest(yarn).has_ended, 60, "the end of the application")
    assert newest(yarn).final == "SUCCEEDED"


def test_a_driver_in_the_cluster_is_killed_by_all_means(project: Project, broker: Broker, yarn: YarnCluster) -> None:
    """The driver's container is killed: YARN starts the driver again. `yarn application -kill` ends it; the same command
    again goes on. `floe stop` drains it, and YARN reports a success. Each record is in the tables once."""
    topic = broker.new_topic("driver", partitions=2)
    broker.produce(topic, orders(900))
    file = project.pipeline("orders", PIPELINE.format(topic=topic))
    submit = ("submit", file, "--deploy-mode", "cluster")
    before = len(yarn.applications())
    first = project.start(*submit, env=yarn.environment)
    second = None
    try:
        application = running(yarn, before)
        wait_for(lambda: landed(project) == 900, START_S, "the first rows")
        (driver,) = [pid for pid, folder in yarn.containers(application).items() if folder.name.endswith("_01_000001")]
        yarn.kill_container(driver)
        broker.produce(topic, orders(900, start=900))
        wait_for(lambda: landed(project) == 1800, START_S, "the rows after the kill")
        assert newest(yarn).attempt == 2

        broker.produce(topic, orders(60_000, start=1800))
        yarn.end_application(application)
        first.communicate(timeout=120)
        assert first.returncode == 1
        assert newest(yarn).state == "KILLED"

        second = project.start(*submit, env=yarn.environment)
        wait_for(lambda: landed(project) == 61_800, START_S, "all rows")
        assert "orders has stopped: drained" in project.run("stop", "orders", "--timeout", "120")
        second.communicate(timeout=120)
        assert second.returncode == 0
    finally:
        kill_group(first)
        if second is not None:
            kill_group(second)
    assert (newest(yarn).state, newest(yarn).final, newest(yarn).attempt) == ("FINISHED", "SUCCEEDED", 1)
    check_exact_by_java(project, 61_800)


@pytest.mark.parametrize("mode", MODES)
def test_a_run_with_nothing_to_read_ends_well(project: Project, broker: Broker, yarn: YarnCluster, mode: str) -> None:
    """A bounded run that finds nothing to do is a success, also where YARN waits for the driver's session."""
    file = project.pipeline("orders", PIPELINE.format(topic=broker.new_topic("nothing", partitions=2)))
    before = len(yarn.applications())
    project.run("submit", file, "--until-caught-up", "--deploy-mode", mode, env=yarn.environment, timeout_s=START_S)
    assert [(each.final, each.attempt) for each in yarn.applications()[before:]] in ([("SUCCEEDED", 1)], [])


def test_a_fenced_driver_is_not_started_again(project: Project, broker: Broker, yarn: YarnCluster) -> None:
    """A newer run of the pipeline fences the one in YARN's cluster, which must not come back and fence the newer one."""
    topic = broker.new_topic("fenced", partitions=2)
    broker.produce(topic, orders(300))
    file = project.pipeline("orders", PIPELINE.format(topic=topic))
    before = len(yarn.applications())
    process = project.start("submit", file, "--deploy-mode", "cluster", env=yarn.environment)
    try:
        application = running(yarn, before)
        wait_for(lambda: landed(project) == 300, START_S, "the first rows")
        broker.produce(topic, orders(300, start=300))
        target = project.root / "pipelines" / "targets" / "it.yaml"
        target.write_text(target.read_text().partition("spark:")[0] + 'spark: {master: "local[2,4]"}\n')
        project.run("run", file, "--until-caught-up")
        process.communicate(timeout=120)
        assert process.returncode == 0
    finally:
        kill_group(process)
    assert newest(yarn).attempt == 1
    assert "ended with 4, which is final: it must not be restarted" in "".join(yarn.logs(application).values())
    check_exact(project, 600)


@pytest.mark.parametrize("mode", MODES)
def test_no_secret_is_where_others_read(tmp_path: Path, yarn: YarnCluster, packages: str, mode: str) -> None:
    """A password by reference reaches driver and tasks and nothing else: no environment, command line, launch script, log or
    file of a container, nothing in HDFS, nothing that YARN or Spark reports of the application."""
    secured = SecuredBroker(tmp_path / "secured")
    process = None
    try:
        root = tmp_path / "project"
        root.mkdir()
        project = secured_project(root, secured, secured.password_user("runner", PASSWORD))
        conf = {"spark.authenticate": "true", "spark.ui.enabled": "true", "spark.ui.port": "0"}
        use_yarn(project, **{"spark.archives": f"{packages}#environment", **conf})
        environment = {**yarn.environment, "TEAM_PASSWORD": PASSWORD}
        if mode == "cluster":
            (root / "password").write_text(PASSWORD)
            target = root / "pipelines" / "targets" / "it.yaml"
            target.write_text(target.read_text().replace("secret:env:TEAM_PASSWORD", f"secret:file:{root}/password"))
            del environment["TEAM_PASSWORD"]
        topic = secured.plain.new_topic("secret", partitions=2)
        secured.plain.produce(topic, orders(900))
        before = len(yarn.applications())
        file = project.pipeline("orders", PIPELINE.format(topic=topic))
        ensure_control_topic(KafkaAdmin({"bootstrap.servers": secured.plain.bootstrap_servers}), project.control_topic)
        target = root / "pipelines" / "targets" / "it.yaml"
        secured.grant("runner", grants_for(map(compile_plan, load_or_raise([file], str(target)))))
        process = project.start("submit", file, "--deploy-mode", mode, env=environment)
        application = running(yarn, before)
        wait_for(lambda: landed(project) == 900, START_S, "all rows")

        assert yarn.containers(application)
        shown = yarn.shown(application)
        for place in ("launch_container.sh", "/environ", "/stdout", "hdfs:/user/", "page "):  # it was looked there
            assert any(place in each for each in shown), place
        assert [place for place, text in shown.items() if PASSWORD.encode() in text] == []
        project.run("stop", "orders", "--timeout", "120", env=environment)
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0, output
        assert PASSWORD not in output
    finally:
        if process is not None:
            kill_group(process)
        secured.stop()
    check_exact(project, 900)
