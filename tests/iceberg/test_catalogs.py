"""Catalogs and stores that people run: REST, SQL on PostgreSQL, and an S3 store under either; the same promises on
each.

Every catalog is a real server that the test run starts. What is read back is read by PyIceberg's own classes.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog

from framework.adapters.iceberg.catalog import IcebergCatalog
from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.parquet.files import TableWriter
from framework.commit.machine.effects import CommitConflict, Committed
from framework.table.changes import CreateTable
from testbed.servers.places import Place, Servers
from tests.conftest import Broker
from tests.iceberg.conftest import SCHEMA, TOPIC, Lake
from tests.iceberg.test_parquet_files import target_of
from tests.project import Project

pytestmark = [pytest.mark.iceberg]

# What `postgres-s3` would show is shown by `postgres` and by `s3`; a REST catalog writes to the store itself.
NAMES = ["rest", "postgres", "s3", "rest-s3"]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    servers = Servers(tmp_path_factory.mktemp("servers"))
    yield servers
    servers.stop()


@pytest.fixture(params=NAMES)
def place(request: pytest.FixtureRequest, tmp_path: Path, servers: Servers) -> Place:
    return servers.place(request.param, tmp_path)


class AnyLake(Lake):
    """A lake whose other door is PyIceberg's class for this kind of catalog."""

    @property
    def catalog(self) -> Catalog:
        return load_catalog("default", **self.settings)


@pytest.fixture
def any_lake(place: Place) -> AnyLake:
    return AnyLake(place.resolved)


def table_name(tmp_path: Path) -> str:
    """Servers are shared, so that every test has a namespace of its own."""
    return f"n{abs(hash(str(tmp_path))) % 10**8}.orders"


def test_create_commit_and_read_back(any_lake: AnyLake, tmp_path: Path) -> None:
    """A table is made, two commits add their rows once, and progress is recorded with them."""
    name = any_lake.create(table_name(tmp_path))
    for number in (1, 2):
        files = any_lake.files(name, [{"id": number, "name": "x"}])
        assert isinstance(any_lake.tables.commit(any_lake.effect(name, files, offset=number)), Committed)
    assert any_lake.rows(name) == [1, 2]
    progress = any_lake.view(name).progress
    assert progress is not None
    assert progress.control_offset == 2
    assert len(any_lake.tables.snapshots(name)) == 2


def test_a_commit_from_an_old_view_is_refused(any_lake: AnyLake, tmp_path: Path) -> None:
    """Invariant 4: of two commits decided from one view the catalog takes one; the other changes nothing."""
    name = any_lake.create(table_name(tmp_path))
    view = any_lake.view(name)
    first, second = (any_lake.files(name, [{"id": number, "name": "x"}]) for number in (1, 2))
    assert isinstance(any_lake.tables.commit(any_lake.effect(name, first, 1, view=view)), Committed)
    answer = IcebergTables(any_lake.settings).commit(any_lake.effect(name, second, 2, view=view))
    assert isinstance(answer, CommitConflict)
    assert any_lake.rows(name) == [1]


def test_a_large_file_goes_up_in_parts(servers: Servers, tmp_path: Path) -> None:
    """A file above the store's part size is uploaded in parts, and is there whole once it is committed."""
    lake = AnyLake(servers.place("s3", tmp_path).resolved)
    name = lake.create(table_name(tmp_path))
    names = [base64.b64encode(os.urandom(45)).decode() for _ in range(300_000)]
    rows = pa.table({"id": range(300_000), "name": names})
    writer = TableWriter(lake.tables.io_properties(), "p", "r", 1, 1 << 30, 1 << 30)
    writer.add(target_of(lake.plain(name), name), rows.cast(lake.plain(name).schema().as_arrow()))
    (file,) = writer.finish()[name]
    assert file.file_size_bytes > 10 << 20
    assert len([line for line in servers.requests("s3") if "partNumber=" in line]) > 1
    assert isinstance(lake.tables.commit(lake.effect(name, [file], offset=1)), Committed)
    found = lake.plain(name).scan().to_arrow().sort_by("id")
    assert found.column("name").to_pylist() == names


def test_each_catalog_has_a_store_of_its_own(
    servers: Servers, catalog_settings: dict[str, str], tmp_path: Path
) -> None:
    """One task writes for tables of two catalogs: the files of each go to its own store, with its own credentials, and
    are committed there."""
    settings = {"default": catalog_settings, "cold": servers.place("rest-s3", tmp_path).resolved}
    tables = IcebergTables.over({name: IcebergCatalog(each, name) for name, each in settings.items()})
    writer = TableWriter(tables.io_properties(), "p", "r", 1, 1 << 20, 1 << 20)
    name = table_name(tmp_path)
    lakes = {name: Lake(catalog_settings), f"cold:{name}": AnyLake(settings["cold"])}
    for number, (full_name, lake) in enumerate(lakes.items(), start=1):
        tables.create_table(CreateTable(full_name, SCHEMA.model_dump_json(), (), ()))
        rows = pa.table({"id": [number], "name": ["x"]})
        writer.add(target_of(lake.plain(name), full_name), rows.cast(lake.plain(name).schema().as_arrow()))
    files = writer.finish()
    assert [files[full_name][0].path.partition("://")[0] for full_name in lakes] == ["file", "s3"]
    for number, (full_name, lake) in enumerate(lakes.items(), start=1):
        view = tables.load_view(full_name, "main", TOPIC)
        assert view is not None
        effect = replace(lake.effect(name, files[full_name], 1, view=view), table=full_name)
        assert isinstance(tables.commit(effect), Committed)
        assert lake.rows(name) == [number]


PIPELINE = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      format: {{type: json}}
      metadata_columns: [topic, partition, offset]
    routes:
      rules: [{{table: "{namespace}.orders_{{region}}"}}]
      unrouted: fail
      allow_tables: ["{namespace}.*"]
    tables: {{defaults: {{commit: {{interval: 1s}}}}}}
    errors: {{policy: fail}}
"""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.kafka
def test_exact_after_a_kill_in_the_commit(place: Place, broker: Broker, tmp_path: Path) -> None:
    """The whole job on this catalog and store, killed between manifests and commit, then run again: each record
    once."""
    root = tmp_path / "project"
    root.mkdir()
    project = Project(root, broker.bootstrap_servers)
    project.write_target(catalog=place.by_reference)
    project.catalog_settings = place.resolved
    namespace = table_name(tmp_path).partition(".")[0]
    topic = broker.new_topic("catalog", partitions=2)
    broker.produce(topic, [{"id": i, "region": ["eu", "us", "ap"][i % 3]} for i in range(3000)])
    file = project.pipeline("orders", PIPELINE.format(topic=topic, namespace=namespace))

    killed = project.run(
        "run", file, "--until-caught-up", code=-9, env={**place.environment, "FLOE_FAULT": "manifests-written@2=kill"}
    )
    output = project.run("run", file, "--until-caught-up", env=place.environment)

    tables = [f"{namespace}.orders_{region}" for region in ("ap", "eu", "us")]
    assert project.tables(namespace) == tables
    counts = project.positions(tables)
    assert len(counts) == 3000
    assert set(counts.values()) == {1}
    assert not [secret for secret in place.secrets.values() if secret in killed + output]


@pytest.mark.kafka
def test_doctor_writes_and_leaves_nothing(place: Place, broker: Broker, tmp_path: Path) -> None:
    """`floe doctor` makes a table, writes and reads it on this catalog and store, and takes everything away again."""
    root = tmp_path / "project"
    root.mkdir()
    project = Project(root, broker.bootstrap_servers)
    project.write_target(catalog=place.by_reference)
    before = load_catalog("x", **place.resolved).list_namespaces()
    output = project.run("doctor", "--no-spark", "--json", env=place.environment)
    lines = json.loads(output[output.index("{") :])["findings"]
    states = {line["check"]: line["state"] for line in lines if line["check"].startswith("catalog")}
    assert states == dict.fromkeys(["catalog default", "catalog default table", "catalog default warehouse"], "ok")
    assert load_catalog("x", **place.resolved).list_namespaces() == before
