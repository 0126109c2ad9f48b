"""The same job everywhere: 336,776 flights from pipelines/flights.yaml, in each place that people run floe in.

Each place is made of real servers that the tests start. The tables are read back three times: by PyIceberg, by Spark
SQL with Iceberg's own runtime, and by Iceberg's Java library alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.topic import ensure_control_topic
from framework.adapters.project.files import load_or_raise
from framework.plan.compile import compile_plan
from framework.plan.grants.kafka import grants_for
from testbed.servers.places import Servers
from testbed.servers.spark_cluster import SparkCluster
from testbed.servers.spark_reader import java_read
from testbed.servers.yarn import YarnCluster
from tests.chaos.checker import assert_exact
from tests.conftest import Broker
from tests.flights import NAMESPACE, Flights, fill, flights_pipeline
from tests.kafka.test_security import PASSWORD, secured_project
from tests.project import Project
from tests.secured_broker import SecuredBroker
from tests.spark.test_standalone_cluster import use_cluster
from tests.spark.test_yarn import use_yarn

pytestmark = [
    *(pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.slow),
    pytest.mark.timeout(1800),
]


@dataclass(frozen=True)
class Stand:
    """A project in one place, the verb that runs it there, the flights on its broker, and what the run is told."""

    project: Project
    flights: Flights
    file: Path
    verb: str = "run"
    environment: dict[str, str] = field(default_factory=dict)  # secrets, which no output may have
    finds: dict[str, str] = field(default_factory=dict)  # where the cluster is

    def run(self) -> str:
        return self.project.run(
            self.verb, self.file, "--until-caught-up", env={**self.finds, **self.environment}, timeout_s=900
        )


@pytest.fixture(scope="module")
def flights(broker: Broker) -> Flights:
    return fill(broker)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    servers = Servers(tmp_path_factory.mktemp("servers"))
    yield servers
    servers.stop()


@pytest.fixture
def embedded(tmp_path: Path, broker: Broker, flights: Flights) -> Stand:
    """What `floe local up` gives: a broker, a catalog on SQLite, and Spark in this machine's driver."""
    project = Project(tmp_path, broker.bootstrap_servers)
    return Stand(project, flights, flights_pipeline(project, flights))


@pytest.fixture
def cluster(tmp_path: Path, broker: Broker, flights: Flights) -> Iterator[Stand]:
    """A Spark standalone cluster of two workers, who get code, packages and plan with the application."""
    project = Project(tmp_path, broker.bootstrap_servers)
    cluster = SparkCluster(tmp_path / "cluster")
    try:
        use_cluster(project, cluster.master)
        yield Stand(project, flights, flights_pipeline(project, flights), "submit")
        used = [
            list((executor / "environment" / "lib").glob("pyiceberg")) for executor in cluster.executors("worker-1")
        ]
        assert used, "the second worker had an executor"
        assert all(used), "its packages were shipped to it"
    finally:
        cluster.stop()


@pytest.fixture
def yarn_client(tmp_path: Path, broker: Broker, flights: Flights) -> Iterator[Stand]:
    """Hadoop's YARN and HDFS, with the driver on this machine."""
    yield from on_yarn("client", tmp_path, broker, flights)


@pytest.fixture
def yarn_cluster(tmp_path: Path, broker: Broker, flights: Flights) -> Iterator[Stand]:
    """Hadoop's YARN and HDFS, with the driver in a container."""
    yield from on_yarn("cluster", tmp_path, broker, flights)


def on_yarn(mode: str, tmp_path: Path, broker: Broker, flights: Flights) -> Iterator[Stand]:
    cluster = YarnCluster(tmp_path / "yarn")
    try:
        project = Project(tmp_path, broker.bootstrap_servers)
        use_yarn(project, **{"spark.submit.deployMode": mode})
        before = cluster.hdfs_files()
        yield Stand(project, flights, flights_pipeline(project, flights), "submit", finds=cluster.environment)
        # A driver here that finds nothing to read asks YARN for nothing.
        applications = [("SUCCEEDED", 1)] * (2 if mode == "cluster" else 1)
        assert [(each.final, each.attempt) for each in cluster.applications()] == applications
        assert cluster.hdfs_files() == before, "HDFS holds nothing of applications that have ended"
    finally:
        cluster.stop()


def in_place(
    name: str, root: Path, broker: Broker, flights: Flights, servers: Servers, partition_by: str = "day(time_hour)"
) -> Stand:
    project = Project(root, broker.bootstrap_servers)
    place = servers.place(name, root)
    project.write_target(catalog=place.by_reference)
    project.catalog_settings = place.resolved
    return Stand(project, flights, flights_pipeline(project, flights, partition_by), environment=place.environment)


@pytest.fixture
def rest_s3(tmp_path: Path, broker: Broker, flights: Flights, servers: Servers) -> Stand:
    """Iceberg's own REST catalog, whose tables lie in an S3 store: by month, since a store written in Python takes
    minutes for the six thousand files that days make."""
    return in_place("rest-s3", tmp_path, broker, flights, servers, "month(time_hour)")


@pytest.fixture
def postgres(tmp_path: Path, broker: Broker, flights: Flights, servers: Servers) -> Stand:
    """A catalog on PostgreSQL."""
    return in_place("postgres", tmp_path, broker, flights, servers)


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Stand]:
    """Kafka with TLS, a SCRAM password by reference, and an authorizer that grants the least set and nothing else."""
    broker = SecuredBroker(tmp_path / "secured")
    try:
        root = tmp_path / "project"
        root.mkdir()
        project = secured_project(root, broker, broker.password_user("flights", PASSWORD))
        flights = fill(broker.plain)
        file = flights_pipeline(project, flights)
        ensure_control_topic(KafkaAdmin({"bootstrap.servers": broker.plain.bootstrap_servers}), project.control_topic)
        target = root / "pipelines" / "targets" / "it.yaml"
        grants = grants_for(map(compile_plan, load_or_raise([file], str(target))))
        broker.grant("flights", grants)
        yield Stand(project, flights, file, environment={"TEAM_PASSWORD": PASSWORD})
        assert broker.grants_of("flights") == len(grants)
    finally:
        broker.stop()


@pytest.mark.parametrize(
    "place", ["embedded", "cluster", "yarn_client", "yarn_cluster", "rest_s3", "postgres", "secured"]
)
def test_every_flight_lands_once(
    place: str, request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> None:
    """Every record of both topics is in its table exactly once with its values, as PyIceberg, Spark and plain Java read
    it; 16 carriers have a table each; a second run changes no table."""
    stand: Stand = request.getfixturevalue(place)
    project, flights = stand.project, stand.flights

    output = stand.run()

    catalog = project.catalog()
    assert project.tables(NAMESPACE) == sorted(flights.rows)
    before = {name: catalog.load_table(name).metadata_location for name in flights.rows}
    assert_exact(catalog, project.bootstrap_servers, flights.topics, namespaces=[NAMESPACE])
    output += stand.run()
    assert {name: catalog.load_table(name).metadata_location for name in flights.rows} == before
    assert not [value for value in stand.environment.values() if value in output]

    read = java_read(project.catalog_settings, [union_of(flights)], list(flights.rows))
    by_table = {str(row["name"]): row for row in read.rows[0]}
    assert {name: row["rows"] for name, row in by_table.items()} == flights.rows
    assert {name: row["positions"] for name, row in by_table.items()} == flights.rows
    assert {name: by_table[name]["distance"] for name in flights.carriers} == flights.distance
    assert read.counts == flights.rows
    record_property("flights", flights.count)
    record_property("tables", len(flights.carriers))
    if "FLOE_FLIGHTS" not in os.environ:
        assert (flights.count, len(flights.carriers)) == (336_776, 16)


def union_of(flights: Flights) -> str:
    """One query over all tables: rows, different Kafka positions, and miles."""
    positions = "count(DISTINCT _kafka_topic, _kafka_partition, _kafka_offset) AS positions"
    return " UNION ALL ".join(
        f"SELECT '{name}' AS name, count(_kafka_offset) AS rows, {positions}, "
        f"{'sum(distance)' if name in flights.distance else 'NULL'} AS distance FROM `default`.{name}"
        for name in flights.rows
    )
