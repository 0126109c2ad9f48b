"""Somebody who may alter a table, and a catalog's server: what they want of floe, and what they get.

A table's properties and its location are data that others set. They say how files are laid out inside of the target's
places, and nothing more: no class is imported, no other host is asked, no file elsewhere is read, written or removed.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg import io as pyiceberg_io
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import ConfigResponse
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import TableProperties
from pyiceberg.table.update import SetLocationUpdate, SetPropertiesUpdate

import framework
from framework.adapters.file_io_guard import _PLACES, guarded, places
from framework.adapters.iceberg.catalog import IcebergCatalog
from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.parquet.usable import _POSITIVE
from framework.adapters.server_settings import ServerSettings, lent, with_lent
from framework.commit.machine.effects import CommitFailed
from framework.config.rules.permitted import never_a_property
from framework.config.settings.known import client
from framework.errors import TableBlocked
from framework.ops.doctor.catalog import examine
from framework.ops.doctor.model import CheckState
from framework.table.changes import CreateTable
from testbed.record_samples import target as record_target
from testbed.servers.tokens import TokenServer
from tests.iceberg.conftest import POLICY, SCHEMA, TOPIC, Lake
from tests.iceberg.rest_server import Handler, RestServer

pytestmark = pytest.mark.iceberg
SOURCES = Path(framework.__file__).parent
ALL_LOADS = {
    "load_view": lambda tables, name: tables.load_view(name, "main", TOPIC),
    "load_recorded": lambda tables, name: tables.load_recorded(name, "main", TOPIC),
    "load_history": lambda tables, name: tables.load_history(name, "main", TOPIC),
    "load_target": lambda tables, name: tables.load_target(name, POLICY),
    "added_paths": lambda tables, name: tables.added_paths(name, [1]),
    "rows_in": lambda tables, name: tables.rows_in(name, []),
    "snapshots": lambda tables, name: tables.snapshots(name),
    "read": lambda tables, name: tables.read(name, ["id"]),
    "read_batches": lambda tables, name: list(tables.read_batches(name, ["id"])),
    "place": lambda tables, name: tables.place(name),
    "references": lambda tables, name: tables.references(name),
    "stored_files": lambda tables, name: tables.stored_files(name, ["file:///etc"]),
    "missing_files": lambda tables, name: tables.missing_files(name, ["file:///etc/passwd"]),
    "opened": lambda tables, name: tables.opened(name),
    "foreign_metadata": lambda tables, name: tables.foreign_metadata(name, []),
    "outdate_requests": lambda tables, name: tables.outdate_requests(name, {}),
    "note_properties": lambda tables, name: tables.note_properties(name, record_target(name), {"floe.owner": "x"}),
    "store_now_ms": lambda tables, name: tables.store_now_ms(name),
    "owned": lambda tables, name: tables.owned(name, ["file:///etc/passwd"]),
    "remove_files": lambda tables, name: list(tables.remove_files(name, ["file:///tmp/floe-no-such-file"])),
}  # fmt: skip


@pytest.fixture
def lake(catalog_settings: dict[str, str]) -> Lake:
    return Lake(catalog_settings)


def alter(lake: Lake, name: str, location: str = "", **properties: str) -> None:
    """As another engine does it: through PyIceberg's own catalog."""
    table = lake.plain(name)
    updates: list[Any] = [SetPropertiesUpdate(updates={k.replace("__", "."): v for k, v in properties.items()})]
    if location:
        updates.append(SetLocationUpdate(location=location))
    lake.catalog.commit_table(table, (), tuple(updates))


# ---- where a table lies ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ALL_LOADS)
def test_a_table_whose_location_was_moved_elsewhere_is_not_touched(lake: Lake, tmp_path: Path, how: str) -> None:
    """Wanted: rows written to, and files listed and removed in, another team's place. Got: FLOE-R142 from every
    door."""
    name = lake.create()
    alter(lake, name, location=f"file://{tmp_path}/other/orders")
    with pytest.raises(TableBlocked, match=r"the location .*/other/orders") as refused:
        ALL_LOADS[how](lake.tables, name)
    assert (refused.value.code, refused.value.place) == ("FLOE-R142", name)


def test_every_door_to_a_table_is_in_this_test() -> None:
    """A new method of `IcebergTables` that takes a table stands in the list above, or among those that cannot load
    one."""
    takes_a_table = {
        name
        for name, method in vars(IcebergTables).items()
        if callable(method) and not name.startswith("_") and "table" in method.__code__.co_varnames[:2]
    }
    assert takes_a_table - {"io_properties_of"} == set(ALL_LOADS)  # what was lent for a table that was loaded


@pytest.mark.parametrize("key", _PLACES)
def test_a_table_whose_files_go_elsewhere_is_not_touched(lake: Lake, tmp_path: Path, key: str) -> None:
    """Wanted: data or metadata in another place, by a property. Got: FLOE-R142; a place that the target allows is
    taken."""
    name = lake.create()
    lake.catalog.commit_table(lake.plain(name), (), (SetPropertiesUpdate(updates={key: f"file://{tmp_path}/other/x"}),))
    with pytest.raises(TableBlocked, match="where the target does not allow tables to have files"):
        lake.tables.load_target(name, POLICY)
    allowed = IcebergTables.over(
        {"default": IcebergCatalog(lake.settings, "default", locations=[f"file://{tmp_path}/other"])}
    )
    assert allowed.load_target(name, POLICY) is not None


def test_what_was_examined_before_cannot_be_committed_elsewhere(lake: Lake, tmp_path: Path) -> None:
    """Wanted: the table is moved between a coordinator's look and its commit. Got: the commit fails, and nothing is
    there."""
    name = lake.create()
    effect = lake.effect(name, lake.files(name, [{"id": 1}]), 1)
    alter(lake, name, location=f"file://{tmp_path}/other/orders")
    before = sorted((tmp_path / "other").rglob("*"))  # what the other engine wrote there as it moved the table
    answer = lake.tables.commit(effect)
    assert isinstance(answer, CommitFailed)
    assert sorted((tmp_path / "other").rglob("*")) == before


def test_a_namespace_cannot_send_new_tables_elsewhere(lake: Lake, tmp_path: Path) -> None:
    """Wanted: whoever sets a namespace's `location` gets the tables that floe makes in it. Got: FLOE-R142, nothing is
    made."""
    lake.catalog.create_namespace("shop", {"location": f"file://{tmp_path}/other"})
    with pytest.raises(TableBlocked) as refused:
        lake.tables.create_table(CreateTable("shop.orders", SCHEMA.model_dump_json(), (), ()))
    assert refused.value.code == "FLOE-R142"
    assert not (tmp_path / "other").exists()


def test_the_places_are_those_of_the_target() -> None:
    """A warehouse that is a mere name says no place: then `allow.locations` alone does, or the server is trusted."""
    assert places({"warehouse": "s3://lake"}, ["s3://more"]) == ("s3://lake", "s3://more")
    assert places({"warehouse": "prod"}) == ()
    assert places({"warehouse": "prod"}, ["s3://more"]) == ("s3://more",)


def test_every_property_with_a_path_is_looked_at() -> None:
    """A version of PyIceberg that writes where a further property says fails here."""
    offered = {value for value in vars(TableProperties).values() if isinstance(value, str) and value.endswith(".path")}
    assert offered == set(_PLACES)


# ---- what a table makes PyIceberg do --------------------------------------------------------------------------------

HOSTILE = {
    "py-io-impl": "os.system",
    "io-impl": "os.system",
    "write.py-location-provider.impl": "os.system",
    "s3.endpoint": "http://evil.example",
    "s3.retry-strategy-impl": "os.system",
    "s3.signer": "S3V4RestSigner",
    "s3.signer.uri": "http://evil.example",
    "s3.proxy-uri": "http://evil.example",
    "s3.access-key-id": "x",
    "adls.connection-string": "x",
    "gcs.service.host": "http://evil.example",
    "hdfs.host": "evil.example",
    "uri": "http://evil.example",
    "token": "x",
    "warehouse": "s3://evil",
}


def test_nothing_of_a_tables_properties_reaches_a_file_io(lake: Lake) -> None:
    """Wanted: another class, host or credential for the files. Got: PyIceberg's own FileIO with the target's settings
    alone."""
    opened = lake.tables._catalog("default").open()[0]
    found = opened._load_file_io(HOSTILE, "file:///x")  # type: ignore[attr-defined]
    assert type(found) is PyArrowFileIO
    assert found.properties == dict(opened.properties)
    with_properties = SCHEMA.model_dump_json()
    lake.tables.create_table(CreateTable("shop.evil", with_properties, (), tuple((k, v) for k, v in HOSTILE.items())))
    loaded = opened.load_table("shop.evil")
    assert loaded.metadata.properties.items() >= HOSTILE.items()
    assert loaded.io.properties == dict(opened.properties)
    target = lake.tables.load_target("shop.evil", POLICY)
    assert target is not None
    written = lake.tables.commit(lake_effect(lake, "shop.evil"))
    assert not isinstance(written, CommitFailed)


def lake_effect(lake: Lake, name: str) -> Any:
    return lake.effect(name, (), 1)


def test_a_task_imports_no_location_provider(tmp_path: Path) -> None:
    """Wanted: code in an executor, which loads neither catalog nor guard. Got: the default provider; nothing is
    imported."""
    (tmp_path / "evil.py").write_text("import pathlib; pathlib.Path('ran').touch()\nProvider = print\n")
    code = (
        "from framework.adapters.parquet.files import _layout\n"
        "from pyiceberg.schema import Schema; from pyiceberg.partitioning import PartitionSpec\n"
        "made = _layout(Schema().model_dump_json(), PartitionSpec().model_dump_json(), '', 's3://lake/t',\n"
        "    (('write.py-location-provider.impl', 'evil.Provider'),))\n"
        "print(type(made.locations).__name__)\n"
    )
    path = f"{SOURCES.parent}:{tmp_path}"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={"PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "SimpleLocationProvider"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *((key, value) for key in _POSITIVE for value in ("x", "0", "-1", "", "9" * 40, "1e3", "\u0663")),
        ("write.parquet.compression-codec", "lzo"), ("write.parquet.compression-codec", "\x1b[2J"),
        ("write.parquet.compression-level", "x"),
        ("write.metadata.metrics.default", "all"), ("write.metadata.metrics.column.id", "truncate(-1)"),
        ("write.metadata.metrics.max-inferred-column-defaults", "x"),
    ],
)  # fmt: skip
def test_a_value_that_no_writer_can_heed_stops_that_table_alone(lake: Lake, key: str, value: str) -> None:
    """Wanted: every task of the pipeline fails, or hangs. Got: the table is refused before a task hears of it."""
    name = lake.create()
    lake.catalog.commit_table(lake.plain(name), (), (SetPropertiesUpdate(updates={key: value}),))
    with pytest.raises(TableBlocked) as refused:
        lake.tables.load_target(name, POLICY)
    assert refused.value.code == "FLOE-R143"


def test_every_number_that_a_writer_reads_is_looked_at() -> None:
    """A version of PyIceberg with a further number for its writers fails here until it is judged."""
    other = {"write.parquet.compression-level", "write.parquet.bloom-filter-max-bytes"}  # tried out; not implemented
    offered = {
        value
        for name, value in vars(TableProperties).items()
        if isinstance(value, str) and (name.startswith("PARQUET_") or "FILE_SIZE" in name) and "." in value
    }
    numbers = {key for key in offered if key.endswith(("-bytes", "-limit", "-level"))}
    assert numbers - other - set(_POSITIVE) == set()


# ---- what a catalog's server sends ----------------------------------------------------------------------------------

SENT = {
    "py-io-impl": "os.system",
    "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
    "s3.retry-strategy-impl": "os.system",
    "auth": {"type": "custom", "impl": "os.system", "custom": {"command": "touch ran"}},
    "ssl": {"cabundle": "/tmp/evil.pem"},
    "header.X-Evil": "1",
    "s3.endpoint": "https://store.example",
    "token": "of-this-table",
}


class Sends(Handler):
    """Sends settings with its configuration, and with each table."""

    def _get(self) -> dict[str, object]:
        found = super()._get()
        if self._path == ["v1", "config"]:
            return {"defaults": SENT, "overrides": SENT}
        if "metadata" in found:
            found["metadata"]["properties"] = {"py-io-impl": "os.system"}  # type: ignore[index]
            found["config"] = SENT
        return found


@pytest.fixture
def server(catalog_settings: dict[str, str]) -> Iterator[RestServer]:
    made = RestServer(SqlCatalog("default", **{k: v for k, v in catalog_settings.items() if k != "type"}))
    made.RequestHandlerClass = Sends
    yield made
    made.shutdown()
    made.server_close()


@pytest.mark.parametrize("own", [{}, {"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"}])
def test_a_catalogs_server_imports_nothing(
    server: RestServer, own: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wanted: a class of the server's choice is loaded, by its configuration or with a table, also over a class that
    the target names. Got: where its stores are and as whom they are asked is taken; code, certificates and headers are
    the target's."""
    ran: list[object] = []
    monkeypatch.setattr("os.system", lambda *words, **named: ran.append((words, named)))
    opened = IcebergCatalog({"type": "rest", "uri": server.uri, **own}, "default").open()[0]
    tables = IcebergTables({"type": "rest", "uri": server.uri, **own})
    tables.create_table(CreateTable("shop.orders", SCHEMA.model_dump_json(), (), ()))
    loaded = opened.load_table("shop.orders")
    assert type(loaded.io) is PyArrowFileIO
    for settings in (opened.properties, loaded.io.properties):
        assert settings["s3.endpoint"] == "https://store.example"
        assert "token" not in settings
        assert settings.get("py-io-impl") == own.get("py-io-impl")
        assert not {"auth", "ssl", "header.X-Evil", "io-impl", "s3.retry-strategy-impl"} & settings.keys()
    assert ran == []


def test_what_is_taken_of_a_server_is_plain_text() -> None:
    """The configuration's own model lets any value through, so each that is no plain text is left out."""
    sent = ConfigResponse.model_validate({"defaults": SENT, "overrides": {}}).defaults
    assert ServerSettings({}).of_table(sent) == {"s3.endpoint": "https://store.example"}
    assert ServerSettings({}).with_config(sent) == {"s3.endpoint": "https://store.example"}


# Keys that a server lends, and regions.
LENT = {
    "adls.account-key", "adls.sas-token", "adls.sas-token.x", "adls.token", "client.access-key-id", "client.region",
    "client.secret-access-key", "client.session-token", "gcs.oauth2.token", "gcs.oauth2.token-expires-at",
    "s3.access-key-id", "s3.region", "s3.secret-access-key", "s3.session-token",
}  # fmt: skip
# Where stores are: taken where the target names no place, no address of the store and no keys for it.
WHERE = {
    "adls.account-host", "adls.account-name", "adls.blob-storage-authority", "adls.blob-storage-scheme",
    "adls.dfs-storage-authority", "adls.dfs-storage-scheme", "gcs.service.host", "s3.endpoint",
    "s3.force-virtual-addressing",
}  # fmt: skip
# How the catalog itself is asked.
CATALOG = {"namespace-separator", "prefix", "rest-page-size", "view-endpoints-supported"}


def test_every_setting_of_pyiceberg_that_a_server_may_send_is_judged() -> None:
    """Wanted: any setting that PyIceberg reads, sent as if it were the target's. Got: what lends keys and says a region; where a
    store is, only where the target trusts the server with it; never code, a file, a proxy, certificates, headers, as whom the
    catalog is asked, another catalog, or fewer snapshots than there are. A version of PyIceberg with another setting fails
    here until it is judged."""
    known = client("pyiceberg")
    names = [
        *known.values,
        *(f"{family}x" for family in known.families),
        *("auth", "auth.manager", "ssl", "botocore_session"),
    ]
    sent = dict.fromkeys(names, "sent")
    assert set(ServerSettings({}).of_table(sent)) == LENT | WHERE
    assert set(ServerSettings({}).with_config(sent)) == LENT | WHERE | CATALOG
    assert set(ServerSettings({}, ["s3://lake"]).of_table(sent)) == LENT
    assert ServerSettings({}).of_table({key.upper(): "x" for key in sent}) == {}


@pytest.mark.parametrize(
    "own", [{"s3.endpoint": "http://mine"}, {"client.access-key-id": "mine"}, {"s3.session-token": "mine"}]
)
def test_no_server_decides_where_a_targets_keys_are_sent(own: dict[str, str]) -> None:
    """Wanted: another store gets what is signed with the target's keys. Got: where the target names the store or keys for it, it
    alone says where the store is; of other stores the server may."""
    sent = {"s3.endpoint": "http://evil.example", "gcs.service.host": "http://gcs.example"}
    assert ServerSettings(own).of_table(sent) == {"gcs.service.host": "http://gcs.example"}
    assert ServerSettings(own).with_config(own | sent) == own | {"gcs.service.host": "http://gcs.example"}


def test_keys_of_two_owners_are_never_mixed() -> None:
    """Wanted: the target's token goes out beside a lent key. Got: what is lent for a store takes the place of all of the target's
    keys for it, however either names them."""
    own = {"client.access-key-id": "mine", "s3.session-token": "mine", "s3.region": "r", "gcs.oauth2.token": "mine"}
    lent = {"s3.access-key-id": "lent", "s3.secret-access-key": "lent"}
    assert with_lent(own, lent) == lent | {"s3.region": "r", "gcs.oauth2.token": "mine"}


@pytest.mark.parametrize(
    ("uri", "is_taken"),
    [
        ("http://here:80/v2", True), ("http://HERE/other", True), ("https://here", False), ("http://here:8181", False),
        ("http://there", False), ("http://here@there", False), ("http://here:x", False),
    ],
)  # fmt: skip
def test_no_server_names_another_catalog(uri: str, is_taken: bool) -> None:
    """Wanted: the next requests, with the target's token, go elsewhere. Got: another path on the same server at most."""
    assert ServerSettings({"uri": "http://here"}).with_config({"uri": uri})["uri"] == (
        uri if is_taken else "http://here"
    )


def test_what_is_ignored_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    """Names, and never a value, which may be a secret."""
    server = ServerSettings({})
    for _ in range(3):
        server.of_table({"s3.proxy-uri": "http://s3cret", "s3.region": "r"})
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == ["s3.proxy-uri"]
    assert "s3cret" not in caplog.text


def test_worn_keys_are_known_by_half_of_their_life() -> None:
    """Keys of 30 s are asked for anew after 15 s, those of hours after five minutes, and others after half a minute."""
    keys = {"s3.access-key-id": "x"}
    for lives_ms, kept_s in ((30_000, 15.0), (3_600_000, 300.0), (None, 30.0)):
        ends = {"s3.session-token-expires-at-ms": str(10**12 + lives_ms)} if lives_ms else {}
        found = lent(keys | ends, 10**12, 100.0)
        assert not found.is_worn(100.0 + kept_s - 0.1)
        assert found.is_worn(100.0 + kept_s)
    assert not lent({"s3.region": "r"}, 10**12, 100.0).is_worn(1e9)
    assert lent(keys | {"s3.session-token-expires-at-ms": "5"}, 10**12, 100.0).is_worn(100.0)


@pytest.mark.parametrize("part", ["defaults", "overrides"])
def test_no_server_decides_where_a_clients_secret_is_sent(server: RestServer, part: str) -> None:
    """Wanted: `oauth2-server-uri` leads the secret to the catalog's server, `scope` and `audience` make a token that is good
    elsewhere, `rest.sigv4-enabled` signs with the driver's keys. Got: the same requests as without them."""
    tokens, thief = TokenServer({"floe": "s3cret"}), TokenServer({})
    hostile = {
        "oauth2-server-uri": thief.uri, "credential": "floe:other", "token": "other", "scope": "admin", "audience": "bank",
        "resource": "bank", "rest.sigv4-enabled": "true", "rest.signing-name": "sts", "client.profile-name": "admin",
    }  # fmt: skip

    class SendsIdentity(Handler):
        def _get(self) -> dict[str, object]:
            return (
                {"defaults": {}, "overrides": {}, part: hostile} if self._path == ["v1", "config"] else super()._get()
            )

    server.RequestHandlerClass = SendsIdentity
    own = {"credential": "floe:s3cret", "oauth2-server-uri": tokens.uri, "scope": "lake"}
    try:
        opened = IcebergCatalog({"type": "rest", "uri": server.uri, **own}, "default").open()[0]
        opened.list_namespaces()
        assert thief.asked == 0
        assert {form.get("scope", [""])[0] for form in tokens.forms} == {"lake"}
        assert not [form for form in tokens.forms if {"audience", "resource"} & form.keys()]
        assert {key: opened.properties.get(key) for key in (*hostile, *own)} == dict.fromkeys(hostile) | own
        with_token = IcebergCatalog({"type": "rest", "uri": server.uri, "token": "mine"}, "default").open()[0]
        assert with_token.properties["token"] == "mine"
    finally:
        tokens.close()
        thief.close()


# ---- one door -------------------------------------------------------------------------------------------------------

DOORS = {
    "adapters/file_io_guard.py",
    "adapters/file_io.py",
    "adapters/store/private.py",  # which the one before names, and PyIceberg makes
    "adapters/iceberg/private/rest/catalog.py",
    "adapters/iceberg/private/sql.py",
}
# Makes the embedded catalog's empty database before there is any table.
DOORS_TO_NO_TABLE = {"local/catalog.py"}
OPENS = {
    "load_catalog", "load_rest", "load_hive", "load_glue", "load_sql", "load_dynamodb", "load_bigquery", "load_in_memory",
    "load_file_io", "load_location_provider", "StaticTable", "SqlCatalog", "RestCatalog", "InMemoryCatalog", "HiveCatalog",
    "GlueCatalog", "DynamoDbCatalog", "BigQueryMetastoreCatalog", "S3FileSystem", "GcsFileSystem", "AzureFileSystem",
    "HadoopFileSystem", "LocalFileSystem", "FileSystem",
}  # fmt: skip


def _names(path: Path) -> Iterator[str]:
    """Every name that a file imports or takes from a module."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom | ast.Import):
            yield from (alias.name.rpartition(".")[2] for alias in node.names)
            yield from ("fsspec" for alias in node.names if alias.name.startswith("fsspec"))
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fsspec"):
                yield "fsspec"
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id


def test_nothing_opens_a_catalog_or_a_store_past_the_door() -> None:
    """Code that calls PyIceberg's or Arrow's own ways to a catalog, a FileIO or a store would escape the guard."""
    past = {
        str(path.relative_to(SOURCES)): found
        for path in SOURCES.rglob("*.py")
        if (found := sorted({*_names(path)} & {*OPENS, "fsspec", "PyArrowFileIO", "FsspecFileIO", "from_path"}))
    }
    past = {file: found for file, found in past.items() if file not in DOORS | DOORS_TO_NO_TABLE}
    # It asks of what class a FileIO is, and makes none.
    assert past == {"adapters/iceberg/files.py": ["FsspecFileIO", "PyArrowFileIO"]}


def test_the_list_of_doors_is_all_that_pyiceberg_offers() -> None:
    """A further way to a catalog in a new version of PyIceberg fails here until it stands in the list."""
    import pyiceberg.catalog

    loaders = {name for name in vars(pyiceberg.catalog) if name.startswith("load_")}
    assert loaders <= OPENS
    import pyiceberg.catalog.memory

    classes = {each.__name__ for each in _subclasses(Catalog)}
    assert classes - {"FlatSqlCatalog", "TimeoutRestCatalog", "MetastoreCatalog", "NoopCatalog"} <= OPENS


def _subclasses(kind: type) -> set[type]:
    return {
        each for sub in kind.__subclasses__() for each in {sub, *_subclasses(sub)} if each.__module__.startswith("pyi")
    }


def test_what_pyiceberg_imports_by_name_is_known() -> None:
    """Every place of the installed PyIceberg that imports a class by a name that somebody wrote, and what keeps it from
    tables and servers: a further one in a new version fails here."""
    root = Path(pyiceberg_io.__file__).parent.parent
    found = {
        (str(path.relative_to(root)), node.name)
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
        and any(isinstance(part, ast.Attribute) and part.attr in ("import_module", "load") and _of_importlib(part)
                for part in ast.walk(node))
    }  # fmt: skip
    assert found == {
        ("catalog/__init__.py", "_import_catalog"),  # py-catalog-impl: the target's settings alone are given to it
        ("catalog/rest/auth.py", "create"),  # auth: `ServerSettings` takes none
        (
            "io/__init__.py",
            "_import_file_io",
        ),  # py-io-impl: no FileIO gets a table's properties; a server's are left out
        ("io/pyarrow.py", "_import_retry_strategy"),  # s3.retry-strategy-impl: the same
        ("table/locations.py", "_import_location_provider"),  # replaced
        ("transforms.py", "_try_import"),  # names that PyIceberg itself holds
    }


def _of_importlib(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "importlib"


def test_no_setting_of_a_file_io_is_a_property_that_files_may_set() -> None:
    """Every setting that PyIceberg's FileIOs read is refused as a table property, whatever a target allows."""
    settings = {
        value
        for name, value in vars(pyiceberg_io).items()
        if name.isupper() and isinstance(value, str) and ("." in value or value.endswith("impl"))
        and not value.startswith(("pyiceberg.", "v1/"))
    }  # fmt: skip
    assert {key for key in settings if not never_a_property(key)} == set()


def test_doctor_asks_through_the_same_door(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wanted: `floe doctor` opens a catalog of its own. Got: it opens the guarded one, and still finds that all is
    well."""
    opened: list[object] = []
    real = guarded
    monkeypatch.setattr(
        "framework.adapters.iceberg.catalog.guarded",
        lambda *given, **named: opened.append(given) or real(*given, **named),
    )
    found = list(examine("default", lambda: lake.settings))
    assert [finding.state for finding in found if finding.state is not CheckState.OK] == []
    assert opened
