"""Catalogs and stores that people run: REST, SQL on PostgreSQL, an S3 store under either, Glue, Hive and Nessie; the same
promises on each, but for what a place lacks.

Every catalog is a real server that the test run starts. What is read back is read by PyIceberg's own classes.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import BadRequestError, CommitFailedException
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField

from framework.adapters.iceberg.catalog import IcebergCatalog
from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.parquet.files import TableWriter
from framework.commit.machine.effects import CommitConflict, Committed
from framework.errors import FloeError, TableBlocked
from framework.ops.doctor.catalog import _write
from framework.ops.doctor.model import CheckState
from framework.table.changes import AlterTable, CreateTable
from testbed.servers.places import Place, Servers
from testbed.servers.spark_reader import java_read
from tests.conftest import Broker
from tests.iceberg.conftest import POLICY, SCHEMA, TOPIC, Lake
from tests.iceberg.test_parquet_files import target_of
from tests.project import Project

pytestmark = [pytest.mark.iceberg]

# What `postgres-s3` would show is shown by `postgres` and by `s3`; a REST catalog writes to the store itself.
NAMES = ["rest", "postgres", "s3", "rest-s3", "glue", "hive", pytest.param("nessie-s3", marks=pytest.mark.slow)]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    servers = Servers(tmp_path_factory.mktemp("servers"))
    yield servers
    servers.stop()


@pytest.fixture(params=NAMES)
def place(request: pytest.FixtureRequest, tmp_path: Path, servers: Servers, monkeypatch: pytest.MonkeyPatch) -> Place:
    made = servers.place(request.param, tmp_path)
    if made.packages is not None:
        monkeypatch.syspath_prepend(str(made.packages))
    return made


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


def test_create_commit_and_read_back(any_lake: AnyLake, place: Place, tmp_path: Path) -> None:
    """A table is made, two commits add their rows once, and progress is recorded with them."""
    name = any_lake.create(table_name(tmp_path))
    for number in (1, 2):
        files = any_lake.files(name, [{"id": number, "name": "x"}])
        assert isinstance(any_lake.tables.commit(any_lake.effect(name, files, offset=number)), Committed)
    assert any_lake.rows(name) == [1, 2]
    progress = any_lake.view(name).progress
    assert progress is not None
    assert progress.control_offset == 2
    assert len(any_lake.tables.snapshots(name)) == (1 if "older snapshots" in place.lacks else 2)


def test_a_commit_from_an_old_view_is_refused(any_lake: AnyLake, tmp_path: Path) -> None:
    """Invariant 4: of two commits decided from one view the catalog takes one; the other changes nothing."""
    name = any_lake.create(table_name(tmp_path))
    view = any_lake.view(name)
    first, second = (any_lake.files(name, [{"id": number, "name": "x"}]) for number in (1, 2))
    assert isinstance(any_lake.tables.commit(any_lake.effect(name, first, 1, view=view)), Committed)
    answer = IcebergTables(any_lake.settings).commit(any_lake.effect(name, second, 2, view=view))
    assert isinstance(answer, CommitConflict)
    assert any_lake.rows(name) == [1]


compared: list[bool] = []


def compared_as_glue_does(opened: Any, asked: Mapping[str, Any]) -> None:
    """Moto passes over `VersionId`; Glue's own documents say that a request with another than the present one is refused."""
    table = opened.glue.get_table(DatabaseName=asked["DatabaseName"], Name=asked["TableInput"]["Name"])["Table"]
    compared.append(True)
    if table["VersionId"] != asked["VersionId"]:
        said = {"Error": {"Code": "ConcurrentModificationException", "Message": "the version is not the present one"}}
        raise opened.glue.exceptions.ConcurrentModificationException(said, "UpdateTable")


def test_a_commit_that_is_overtaken_inside_of_the_catalogs_client_is_refused(
    any_lake: AnyLake, place: Place, tmp_path: Path
) -> None:
    """Invariant 4: the other commit lands after this one's conditions were checked by a client. The catalog itself compares, or
    the client does so with what it was given; one of the two is made. Where a first commit is not compared, `floe doctor`
    says so."""
    name = any_lake.create(table_name(tmp_path))
    before = [0] if "a comparison at the first commit" in place.lacks else []
    for number in before:
        any_lake.tables.commit(any_lake.effect(name, any_lake.files(name, [{"id": number, "name": "x"}]), number))
    view = any_lake.view(name)
    first, second = (any_lake.files(name, [{"id": number, "name": "x"}]) for number in (1, 2))
    late = IcebergTables(any_lake.settings)
    opened = late._catalog("default").open()[0]
    answers: list[object] = []
    compared.clear()

    def overtaken(method: Callable[..., object]) -> Callable[..., object]:
        def called(*words: object, **named: object) -> object:
            if not answers:
                answers.append(None)
                answers[0] = any_lake.tables.commit(any_lake.effect(name, first, 1, view=view))
            if "VersionId" in named:
                compared_as_glue_does(opened, named)
            return method(*words, **named)

        return called

    at: object = opened
    last = "commit_table"
    if place.settings["type"] == "glue":
        at, last = opened.glue, "update_table"  # type: ignore[attr-defined]
    setattr(at, last, overtaken(getattr(at, last)))
    answer = late.commit(any_lake.effect(name, second, 2, view=view))
    if place.settings["type"] == "glue":
        assert compared == [True], "the version that was looked at goes with the request"
    assert isinstance(answers[0], Committed)
    assert isinstance(answer, CommitConflict), answer
    assert any_lake.rows(name) == [*before, 1]


def test_threads_get_the_answers_to_their_own_questions(any_lake: AnyLake, tmp_path: Path) -> None:
    """One catalog is asked by many threads at once, as a run does: each gets the table that it asked for."""
    names = [any_lake.create(f"{table_name(tmp_path)}_{number}") for number in range(4)]
    uuids = {name: any_lake.view(name).table_uuid for name in names}

    def ask(number: int) -> list[str]:
        name = names[number % 4]
        found = [any_lake.tables.load_view(name, "main", TOPIC) for _ in range(15)]
        return [name for view in found if view is None or view.table_uuid != uuids[name]]

    with ThreadPoolExecutor(8) as threads:
        assert [wrong for each in threads.map(ask, range(8)) for wrong in each] == []


def test_a_table_evolves(any_lake: AnyLake, place: Place, tmp_path: Path) -> None:
    """A column is added and a type widened in one change; the same change from an old view is refused. A server that takes
    no schema changes nothing, and the message has its answer."""
    name = any_lake.create(table_name(tmp_path))
    target = any_lake.tables.load_target(name, POLICY)
    assert target is not None
    wider = Schema(*SCHEMA.fields, NestedField(3, "more", LongType(), required=False))
    change = AlterTable(name, target.table_uuid, 0, 2, wider.model_dump_json(), ())
    if "schemas that are added" in place.lacks:
        with pytest.raises(FloeError, match="HTTP 400 Bad Request") as raised:
            any_lake.tables.alter_table(change)
        assert raised.value.code == "FLOE-R134"
        assert any_lake.plain(name).schema().column_names == ["id", "name"]
        return
    assert any_lake.tables.alter_table(change)
    assert not any_lake.tables.alter_table(AlterTable(name, target.table_uuid, 0, 2, SCHEMA.model_dump_json(), ()))
    files = any_lake.files(name, [{"id": 1, "name": "x", "more": 7}])
    assert isinstance(any_lake.tables.commit(any_lake.effect(name, files, 1)), Committed)
    assert any_lake.plain(name).scan().to_arrow()["more"].to_pylist() == [7]


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_each_format_version_is_written_or_refused(
    any_lake: AnyLake, place: Place, tmp_path: Path, version: str
) -> None:
    """Versions 1 and 2 everywhere; 3 where the catalog numbers rows as the table says, and elsewhere it is refused by name."""
    if version == "3" and place.settings["type"] not in ("rest", "sql"):
        with pytest.raises(TableBlocked) as raised:
            any_lake.create(table_name(tmp_path), format_version=version)
        assert raised.value.code == "FLOE-R131"
        return
    name = any_lake.create(table_name(tmp_path), format_version=version)
    answer = any_lake.tables.commit(any_lake.effect(name, any_lake.files(name, [{"id": 1, "name": "x"}]), 1))
    assert isinstance(answer, Committed)
    assert any_lake.rows(name) == [1]


def test_namespaces_with_levels_are_made_or_refused(any_lake: AnyLake, place: Place, tmp_path: Path) -> None:
    """A table in a namespace of three levels is made, found and listed; Glue and Hive have one level, which they say."""
    namespace, _, table = table_name(tmp_path).partition(".")
    name = f"{namespace}.deep.deeper.{table}"
    if place.settings["type"] in ("glue", "hive"):
        with pytest.raises(FloeError) as raised:
            any_lake.create(name)
        assert raised.value.code == "FLOE-R132"
        return
    any_lake.create(name)
    assert any_lake.tables.list_tables(f"{namespace}.deep.deeper") == [name]
    assert isinstance(any_lake.tables.commit(any_lake.effect(name, any_lake.files(name, [{"id": 1}]), 1)), Committed)


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
    """The whole job on this catalog and store, killed between manifests and commit, then run again: each record once, read by
    Spark where it speaks to such a catalog without further packages."""
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
    if place.settings["type"] in ("rest", "sql"):
        every = " UNION ALL ".join(f"SELECT id FROM `default`.{each}" for each in tables)
        query = f"SELECT count(*) AS n, count(DISTINCT id) AS ids FROM ({every})"
        assert java_read(place.resolved, [query]).rows == [[{"n": 3000, "ids": 3000}]]
    assert not [secret for secret in place.secrets.values() if secret in killed + output]


@pytest.mark.kafka
def test_doctor_writes_and_leaves_nothing(place: Place, broker: Broker, tmp_path: Path) -> None:
    """`floe doctor` makes a table, writes and reads it on this catalog and store, and takes everything away again. It warns of
    a catalog that takes a first commit though another one was first."""
    root = tmp_path / "project"
    root.mkdir()
    project = Project(root, broker.bootstrap_servers)
    project.write_target(catalog=place.by_reference)
    before = load_catalog("x", **place.resolved).list_namespaces()
    is_bad = "a comparison at the first commit" in place.lacks
    output = project.run("doctor", "--no-spark", "--json", code=None if is_bad else 0, env=place.environment)
    lines = json.loads(output[output.index("{") :])["findings"]
    states = {(line["check"], line["state"]) for line in lines if line["check"].startswith("catalog")}
    checks = ("catalog default", "catalog default table", "catalog default warehouse")
    assert states == {(each, "ok") for each in checks} | ({("catalog default table", "error")} if is_bad else set())
    assert load_catalog("x", **place.resolved).list_namespaces() == before


def test_doctor_takes_the_word_for_a_conflict_alone(tmp_path: Path) -> None:
    """A catalog that refuses an outdated commit in other words than those of a conflict is warned of, not taken for one that
    compares, nor for one that does not."""
    opened = load_catalog("x", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    opened.create_namespace("n")
    commit_table = opened.commit_table

    def refused(table: Table, requirements: Sequence[Any], updates: Sequence[Any]) -> object:
        try:
            return commit_table(table, tuple(requirements), tuple(updates))
        except CommitFailedException as raised:
            raise BadRequestError("a table has changed") from raised

    assert {(one.state, one.check) for one in _write("c", opened, "n.a")} == {
        *((CheckState.OK, "c table"), (CheckState.OK, "c warehouse"))
    }
    opened.commit_table = refused  # type: ignore[method-assign,assignment]
    found = [one for one in _write("c", opened, "n.b") if one.state is not CheckState.OK]
    assert [one.state for one in found] == [CheckState.WARNING, CheckState.WARNING]
    assert all("refused, but not as a conflict" in one.message for one in found)
    assert not opened.list_tables("n")
