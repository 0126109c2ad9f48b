"""The same promises through a REST catalog, over real HTTP, with answers lost on the way."""

from __future__ import annotations

import sqlite3
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from framework.adapters.iceberg.tables import IcebergTables
from framework.commit.machine.effects import CommitConflict, CommitFailed, Committed
from framework.config.spec import PartitionFieldSpec
from framework.errors import FloeError
from framework.table.changes import AlterTable, CreateTable
from testbed.servers.certificates import Authority
from testbed.servers.rest_catalog import RestCatalog
from tests.chaos.proxy import HttpProxy
from tests.iceberg.conftest import POLICY, SCHEMA, TOPIC, Lake, metadata_files
from tests.iceberg.rest_server import RestServer

pytestmark = pytest.mark.iceberg


class RestLake(Lake):
    """A lake whose floe side goes through the REST server, while `catalog` still sees the database behind it."""

    def __init__(self, settings: dict[str, str], server: RestServer) -> None:
        self.settings, self.name = settings, "default"
        self.server = server
        self.tables = IcebergTables({"type": "rest", "uri": server.uri})
        self.tables.check()


@pytest.fixture
def rest(catalog_settings: dict[str, str]) -> Iterator[RestLake]:
    settings = {key: value for key, value in catalog_settings.items() if key != "type"}
    server = RestServer(SqlCatalog("default", **settings))
    try:
        yield RestLake(catalog_settings, server)
    finally:
        server.shutdown()
        server.server_close()


def test_a_table_is_created_altered_and_committed_to(rest: RestLake) -> None:
    """Everything the runtime does with a table works through REST, and the conditions travel in the request."""
    name = "lake.raw.orders"
    rest.tables.create_table(CreateTable(name, SCHEMA.model_dump_json(), (PartitionFieldSpec("id", "bucket", 4),), ()))
    target = rest.tables.load_target(name, POLICY)
    assert target is not None
    wider = Schema(*SCHEMA.fields, NestedField(3, "more", LongType(), required=False))
    assert rest.tables.alter_table(AlterTable(name, target.table_uuid, 0, 2, wider.model_dump_json(), ()))
    assert not rest.tables.alter_table(AlterTable(name, target.table_uuid, 0, 2, SCHEMA.model_dump_json(), ()))
    view = rest.view(name)
    assert isinstance(rest.tables.commit(rest.effect(name, rest.files(name, [{"id": 1}]), 1, view=view)), Committed)
    late = rest.tables.commit(rest.effect(name, rest.files(name, [{"id": 2}]), 2, view=view))
    assert isinstance(late, CommitConflict)
    assert rest.rows(name) == [1]
    assert rest.tables.list_tables("lake.raw") == [name]
    assert [info.control_offset for info in rest.tables.snapshots(name)] == [1]
    requirements = rest.server.commits[-1]["requirements"]
    assert requirements == [
        {"type": "assert-table-uuid", "uuid": target.table_uuid},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None},
        {"type": "assert-current-schema-id", "current-schema-id": 1},
    ]


def test_a_table_whose_metadata_file_cannot_be_read_is_not_missing(tmp_path: Path) -> None:
    """Iceberg's own server answers 404 where the store is away, too: the table is there, and nobody is told that it was
    dropped; a table that was dropped is missing."""
    server = RestCatalog(tmp_path).start()
    warehouse, away = tmp_path / "warehouse", tmp_path / "away"
    try:
        tables = IcebergTables(server.settings())
        name = "lake.orders"
        tables.create_table(CreateTable(name, SCHEMA.model_dump_json(), (), ()))
        warehouse.rename(away)
        for load in (lambda: tables.load_target(name, POLICY), lambda: tables.load_view(name, "main", TOPIC)):
            with pytest.raises(FloeError) as raised:
                load()
            assert raised.value.code == "FLOE-R135"
        away.rename(warehouse)
        assert tables.load_view(name, "main", TOPIC) is not None
        load_catalog("default", **server.settings()).drop_table(name)
        assert tables.load_view(name, "main", TOPIC) is None
    finally:
        server.stop()


@pytest.mark.parametrize("fault", ["lose_answers", "refuse_after_commit"])
def test_a_commit_whose_answer_is_lost_or_wrong_is_found(rest: RestLake, fault: str) -> None:
    """A dropped connection after the commit, and a 409 for a commit that was applied, both end as committed, once."""
    name = rest.create()
    effect = rest.effect(name, rest.files(name, [{"id": 1}]), 1)
    setattr(rest.server, fault, 1)
    answer = rest.tables.commit(effect)
    assert isinstance(answer, Committed)
    assert rest.rows(name) == [1]
    assert rest.view(name, topic=TOPIC).progress == effect.progress
    assert len(rest.server.commits) == 1


def test_the_server_keeps_house_for_its_metadata_files(rest: RestLake) -> None:
    """Behind a REST server metadata files are the server's own business: no client removes any."""
    name = rest.create(**{"write.metadata.previous-versions-max": "1"})
    for number in range(1, 5):
        rest.tables.commit(rest.effect(name, rest.files(name, [{"id": number}]), number))
    assert len(metadata_files(rest.plain(name))) == 5


@pytest.mark.failure("F35")
@pytest.mark.parametrize("status", [401, 403, 419])
def test_an_expired_token_is_read_anew(rest: RestLake, status: int) -> None:
    """A catalog that refuses the token once gets a client made anew with the token of that moment; nothing is lost."""
    secrets = {"token": "first"}
    settings = {"type": "rest", "uri": rest.server.uri}
    rest.server.token, rest.server.refusal = "first", status
    rest.tables = tables = IcebergTables({**settings, **secrets}, settings_now=lambda: {**settings, **secrets})
    name = "lake.raw.orders"
    tables.create_table(CreateTable(name, SCHEMA.model_dump_json(), (), ()))
    effect = rest.effect(name, rest.files(name, [{"id": 1}]), 1)

    secrets["token"] = rest.server.token = "second"
    first, second = tables.commit(effect), tables.commit(effect)

    assert isinstance(first, CommitFailed)
    assert isinstance(second, Committed)
    assert rest.server.refused
    refused = rest.server.refused
    assert tables.load_view(name, "main", TOPIC) is not None
    assert rest.server.refused == refused, "the new client has the new token"
    assert rest.rows(name) == [1]


@pytest.mark.failure("F35", "F08")
def test_a_server_that_falls_silent_is_given_up_in_time(rest: RestLake) -> None:
    """A catalog that takes requests and never answers, as a stopped process does, ends as an unknown outcome in bounded
    time; once it is awake, the same client goes on."""
    tables = IcebergTables({"type": "rest", "uri": rest.server.uri, "rest.client.socket-timeout-ms": "500"})
    name = rest.create()
    effect = rest.effect(name, rest.files(name, [{"id": 1}]), 1)
    assert tables.load_view(name, "main", TOPIC) is not None

    rest.server.silent.set()
    began = time.monotonic()
    answer = tables.commit(effect)
    assert isinstance(answer, CommitFailed)
    assert time.monotonic() - began < 10
    rest.server.silent.clear()
    rest.server.awake.set()

    assert isinstance(tables.commit(effect), Committed)
    assert rest.rows(name) == [1]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def behind_tls(rest: RestLake, authority: Authority) -> Iterator[HttpProxy]:
    """A server that asks each client for a certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.certificate))
    context.load_cert_chain(*authority.issue("catalog"))
    context.verify_mode = ssl.CERT_REQUIRED
    proxy = HttpProxy(rest.server.server_address[1], context)
    yield proxy
    proxy.close()


def test_a_catalog_behind_mutual_tls(
    rest: RestLake, behind_tls: HttpProxy, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the certificates of the file, whatever the environment says of authorities; tasks get none of it. Each that is
    missing, or another's, is an outage with its reason."""
    certificate, key = authority.issue("floe")
    full = {"ssl.cabundle": authority.certificate, "ssl.client.cert": certificate, "ssl.client.key": key}
    settings = {"type": "rest", "uri": behind_tls.uri} | {name: str(path) for name, path in full.items()}
    other = Authority(tmp_path / "other")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(other.certificate))
    tables = IcebergTables(settings)
    tables.check()
    tables.create_table(CreateTable("shop.tls", SCHEMA.model_dump_json(), (), ()))
    behind = RestLake(rest.settings, rest.server)
    behind.tables = tables
    answer = tables.commit(behind.effect("shop.tls", behind.files("shop.tls", [{"id": 1}]), 1))
    assert isinstance(answer, Committed)
    assert not any("ssl" in name for name in tables.io_properties())
    for changed in (
        {"ssl.cabundle": str(other.certificate)},
        {"ssl.client.cert": "", "ssl.client.key": ""},
        dict(zip(("ssl.client.cert", "ssl.client.key"), map(str, other.issue("floe")), strict=True)),
    ):
        given = {name: value for name, value in (settings | changed).items() if value}
        with pytest.raises(FloeError) as refused:
            IcebergTables(given).check()
        assert refused.value.code == "FLOE-E201"


def test_five_thousand_tables_are_listed_by_pages(tmp_path: Path) -> None:
    """Iceberg's own servlet gives a namespace of 5,000 tables, 300 a page: all are listed, and a table of the last page is
    loaded."""
    server = RestCatalog(tmp_path / "rest").start()
    proxy = HttpProxy(server.port)
    asked: list[str] = []
    proxy.before = lambda method, path: asked.append(path)  # type: ignore[func-returns-value]
    try:
        tables = IcebergTables(server.settings(proxy.uri) | {"rest-page-size": "300"})
        tables.create_table(CreateTable("shop.t0", SCHEMA.model_dump_json(), (), ()))
        with sqlite3.connect(server.root / "rest.db", timeout=60) as database:
            columns = [row[1] for row in database.execute("PRAGMA table_info(iceberg_tables)")]
            of_copies = ", ".join("?" if column == "table_name" else column for column in columns)
            text = f"INSERT INTO iceberg_tables SELECT {of_copies} FROM iceberg_tables WHERE table_name = 't0'"
            database.executemany(text, [(f"t{number}",) for number in range(1, 5000)])
        expected = sorted(f"shop.t{number}" for number in range(5000))
        asked.clear()
        assert tables.list_tables("shop") == expected
        assert len(asked) == 17, asked
        assert tables.list_tables() == expected
        assert tables.load_target(expected[-1], POLICY) is not None
    finally:
        proxy.close()
        server.stop()


@pytest.mark.parametrize("namespace", ["shop", None])
def test_a_list_that_leads_back_to_a_page_ends(rest: RestLake, namespace: str | None) -> None:
    """A server that gives the same token for ever is refused by name after the page that is the second of its kind; listing goes
    on once the server is sound."""
    for number in range(5):
        rest.create(f"shop.t{number}")
    rest.server.page_size, rest.server.same_page = 2, True
    with pytest.raises(FloeError, match="has no end") as raised:
        rest.tables.list_tables(namespace)
    assert raised.value.code == "FLOE-E201"
    assert rest.server.pages == 2
    rest.server.same_page = False
    assert rest.tables.list_tables(namespace) == [f"shop.t{number}" for number in range(5)]
