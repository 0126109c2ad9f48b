"""The demo's 336,776 flights under kill -9: the same pipeline file, killed at each moment between files and visible
data."""

from __future__ import annotations

import pytest

from tests.chaos.checker import all_tables, assert_exact
from tests.chaos.harness import crash
from tests.conftest import Broker
from tests.flights import NAMESPACE, fill, flights_pipeline
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.timeout(2400)]

# In the order in which one command reaches them; the first three come while nothing was ever committed.
MOMENTS = ("files-written", "announced", "before-commit", "manifests-written", "committed")


@pytest.mark.failure("F03", "F13", "F15")
@pytest.mark.chaos
def test_the_flights_killed_at_each_moment(project: Project, broker: Broker) -> None:
    """Killed after the files, after the transaction, before the first commit and within it, 336,776 flights land
    once."""
    flights = fill(broker)
    file = flights_pipeline(project, flights)

    for moment in MOMENTS:
        crash(project, moment, "run", file, "--until-caught-up", timeout_s=600)
    project.run("run", file, "--until-caught-up", timeout_s=900)
    before = {name: project.catalog().load_table(name).metadata_location for name in project.tables(NAMESPACE)}
    project.run("run", file, "--until-caught-up", timeout_s=600)

    catalog = project.catalog()
    tables = all_tables(catalog, [NAMESPACE])
    rows = {name: catalog.load_table(name).scan(selected_fields=("time_hour",)).count() for name in tables}
    assert rows == flights.rows
    assert (len(flights.carriers), flights.count) == (16, 336_776)
    assert_exact(catalog, broker.bootstrap_servers, flights.topics, namespaces=[NAMESPACE])
    # A run that finds nothing new changes no table at all.
    assert {name: catalog.load_table(name).metadata_location for name in tables} == before
