"""The demo's 336,776 flights under kill -9: the same pipeline file, killed at each moment between files and visible data."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.local import nycflights
from framework.local.replay import replay
from tests.chaos.checker import all_tables, assert_exact
from tests.chaos.harness import crash
from tests.conftest import Broker
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.timeout(2400)]

ROOT = Path(__file__).parent.parent.parent
NAMESPACE = "flights_by_carrier"
# In the order in which one command reaches them; the first three come while nothing was ever committed.
MOMENTS = ("files-written", "announced", "before-commit", "manifests-written", "committed")


def fill(broker: Broker, topic: nycflights.DemoTopic) -> str:
    name = broker.new_topic(topic.name, partitions=topic.partitions)
    archive = nycflights.fetch(print)
    replay(
        broker.bootstrap_servers,
        name,
        topic.partitions,
        lambda: nycflights.records(archive, topic),
        topic.records,
        lambda _: None,
    )
    return name


def flights_pipeline(project: Project, flights: str, weather: str) -> Path:
    """The project's own file on topics of this test, with the Kafka position of each record as columns."""
    text = (ROOT / "pipelines" / "flights.yaml").read_text(encoding="utf-8").partition("\ntests:")[0]
    for old, new in (
        ("topics: [flights, weather]", f"topics: [{flights}, {weather}]"),
        ("format: {type: json}", "format: {type: json}\n  metadata_columns: [topic, partition, offset]"),
        ("^weather$", f"^{weather}$"),
        ("control-iceberg", project.control_topic),
    ):
        assert old in text, old
        text = text.replace(old, new)
    path = project.root / "pipelines" / "flights.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.failure("F03", "F13", "F15")
@pytest.mark.chaos
def test_the_flights_killed_at_each_moment(project: Project, broker: Broker) -> None:
    """Killed after the files, after the transaction, before the first commit and within it, 336,776 flights land once."""
    flights, weather = fill(broker, nycflights.FLIGHTS), fill(broker, nycflights.WEATHER)
    file = flights_pipeline(project, flights, weather)

    for moment in MOMENTS:
        crash(project, moment, "run", file, "--until-caught-up", timeout_s=600)
    project.run("run", file, "--until-caught-up", timeout_s=900)
    before = {name: project.catalog().load_table(name).metadata_location for name in project.tables(NAMESPACE)}
    project.run("run", file, "--until-caught-up", timeout_s=600)

    catalog = project.catalog()
    tables = all_tables(catalog, [NAMESPACE])
    carriers = [name for name in tables if name.startswith(f"{NAMESPACE}.carrier_")]
    rows = {name: catalog.load_table(name).scan(selected_fields=("time_hour",)).count() for name in tables}
    assert len(carriers) == 16
    assert sum(rows[name] for name in carriers) == nycflights.FLIGHTS.records == 336_776
    assert rows[f"{NAMESPACE}.weather"] == nycflights.WEATHER.records
    assert_exact(catalog, broker.bootstrap_servers, [flights, weather], namespaces=[NAMESPACE])
    # A run that finds nothing new changes no table at all.
    assert {name: catalog.load_table(name).metadata_location for name in tables} == before
