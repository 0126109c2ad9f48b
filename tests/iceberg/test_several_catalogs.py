"""Tables of several catalogs behind one door: each is found in its own, and one that is down troubles no other's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from framework.adapters.iceberg.catalog import IcebergCatalog
from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.parquet.files import TableWriter
from framework.cli.run.coordinator import check_some
from framework.commit.machine.effects import CommitFailed, Committed, ExaminedTable
from framework.config.spec import RouteRule, SecretRef, SettingValue, TablePolicy, TargetSpec
from framework.errors import FloeError, SetupError
from framework.plan.catalogs import used_catalogs
from framework.record.model import TableNeed
from framework.runtime.job import open_catalog
from framework.runtime.maintenance.orphans import why_not
from framework.runtime.tables import refresh as table_refresh
from framework.runtime.tables.refresh import TableRefresh
from framework.runtime.tables.registry import TableRegistry, reachable_tables
from framework.table.changes import CreateTable
from framework.table.schema.arrow import arrow_schema, parse_schema
from testbed.record_samples import plan
from tests.iceberg.conftest import SCHEMA, TOPIC, Lake
from tests.iceberg.spark_server import IcebergSpark

pytestmark = pytest.mark.iceberg

HOT, COLD = "archive.orders", "cold:archive.orders"


def target_of(catalogs: dict[str, dict[str, SettingValue]]) -> TargetSpec:
    return TargetSpec("it", kafka={}, catalogs=catalogs)


class Lakes:
    """Two catalogs with a warehouse each: `default`, and `cold`."""

    def __init__(self, root: Path) -> None:
        self.settings: dict[str, dict[str, SettingValue]] = {}
        for name in ("default", "cold"):
            (root / name).mkdir()
            self.settings[name] = {
                "type": "sql",
                "uri": f"sqlite:///{root}/{name}.db",
                "warehouse": f"file://{root}/{name}",
            }
        self.root = root
        self.tables = open_catalog(target_of(self.settings), self.settings)
        # As others see them, each alone: by the names that the tables have there.
        self.hot, self.cold = (Lake({k: str(v) for k, v in s.items()}, name) for name, s in self.settings.items())

    def lose_cold(self) -> None:
        """The catalog's database is no database any more."""
        (self.root / "cold.db").write_bytes(b"no database" * 1000)


@pytest.fixture
def lakes(tmp_path: Path) -> Lakes:
    return Lakes(tmp_path)


def view(lakes: Lakes, name: str) -> ExaminedTable:
    found = lakes.tables.load_view(name, "main", TOPIC)
    assert found is not None
    return found


def test_one_name_in_two_catalogs_is_two_tables(lakes: Lakes) -> None:
    """Made, filled, altered and listed by its full name, each table is in its own catalog and its files are in that
    catalog's store, as plain PyIceberg reads them; what is told of it carries the full name."""
    for name in (HOT, COLD):
        lakes.tables.create_table(CreateTable(name, SCHEMA.model_dump_json(), (), ()))
        lakes.tables.create_table(CreateTable(name, SCHEMA.model_dump_json(), (), ()))  # is there: success
    assert lakes.tables.list_tables() == [COLD, HOT]
    assert lakes.tables.list_tables("archive", ["cold"]) == [COLD]
    writer = TableWriter(lakes.tables.io_properties(), "p", "r", 1, 1 << 20, 1 << 20)
    for name, ids in ((HOT, [1]), (COLD, [2, 3])):
        target = lakes.tables.load_target(name, TablePolicy())
        assert target is not None
        assert target.name == name
        schema = arrow_schema(parse_schema(target.schema_json))
        writer.add(target, pa.Table.from_pylist([{"id": n} for n in ids], schema=schema))
    files = writer.finish()
    for name, lake in ((HOT, lakes.hot), (COLD, lakes.cold)):
        before = view(lakes, name)
        effect = replace(lake.effect(HOT, files[name], 5, view=before), table=name)
        answer = lakes.tables.commit(effect)
        assert isinstance(answer, Committed)
        assert (answer.table, answer.view.table) == (name, name)
        history = lakes.tables.load_history(name, "main", TOPIC)
        assert history is not None
        assert history.table == name
        place = lakes.tables.place(name)
        assert place is not None
        warehouse = str(lake.settings["warehouse"])
        assert all(root.startswith(warehouse) for root in place.roots)
        stored = [file.location for file in lakes.tables.stored_files(name, place.roots)]
        assert any(location.endswith(files[name][0].path.rpartition("/")[2]) for location in stored)
    assert (lakes.hot.rows(HOT), lakes.cold.rows(HOT)) == ([1], [2, 3])

    registry = TableRegistry(plan(defaults=TablePolicy()), lakes.tables, lambda _: None)
    registry.satisfy([TableNeed(COLD, (("more", "string"),))])
    assert lakes.cold.plain(HOT).schema().column_names == ["id", "name", "more"]
    assert lakes.hot.plain(HOT).schema().column_names == ["id", "name"]


def test_a_catalog_that_nobody_needs_may_be_wrong(lakes: Lakes) -> None:
    """What is needed is checked, and the first that fails is named; the secrets of others are not even read. A name of
    no catalog is refused with those that there are."""
    secret = SecretRef("env", "FLOE_NO_SUCH_SECRET")
    settings = {**lakes.settings, "gone": {"type": "rest", "uri": "http://127.0.0.1:1", "token": secret}}
    tables = open_catalog(target_of(settings), ["default", "cold"])
    assert tables.list_tables("archive", ["default"]) == []
    with pytest.raises(SetupError, match="FLOE_NO_SUCH_SECRET"):
        open_catalog(target_of(settings), ["default", "gone"])
    lakes.lose_cold()
    with pytest.raises(SetupError, match="catalog cold") as caught:
        open_catalog(target_of(lakes.settings), ["cold", "default"])
    assert caught.value.code == "FLOE-E201"
    with pytest.raises(SetupError, match="no catalog warm") as unknown:
        lakes.tables.load_view("warm:archive.orders", "main", TOPIC)
    assert unknown.value.code == "FLOE-E311"
    assert "`cold` and `default`" in unknown.value.remedy


def test_a_coordinator_begins_while_one_catalog_answers(lakes: Lakes) -> None:
    """Invariant 10: a catalog that is down is named, and the tables of the others are committed; with none there is
    nothing to begin with."""
    said: list[str] = []
    check_some(lakes.tables, said.append)
    assert said == []
    lakes.lose_cold()
    check_some(open_catalog(target_of(lakes.settings), ()), said.append)
    assert len(said) == 1
    assert said[0].startswith("catalog cold: ")
    with pytest.raises(SetupError):
        check_some(
            IcebergTables.over({"cold": IcebergCatalog({"type": "rest", "uri": "http://127.0.0.1:1"}, "cold")}), print
        )


def test_a_catalog_that_is_down_holds_up_its_own_tables_alone(lakes: Lakes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Invariant 10: a commit to it fails for now. A batch for tables of both goes on with what is known of its tables,
    which is said once; a batch for its tables alone waits, and so does one that needs a change there."""
    monkeypatch.setattr(table_refresh, "REFRESH_AFTER_S", 0.0)  # everything is old at once
    lakes.hot.create(HOT)
    lakes.cold.create(HOT)
    said: list[str] = []
    registry = TableRegistry(plan(defaults=TablePolicy()), lakes.tables, said.append)
    refresh = TableRefresh(registry, said.append)
    for name in (HOT, COLD):
        registry.load(name)
    known = registry.targets[COLD]
    effect = replace(lakes.cold.effect(HOT, (), 5, view=view(lakes, COLD)), table=COLD)
    lakes.lose_cold()
    with lakes.hot.plain(HOT).update_schema() as update:
        update.add_column("more", SCHEMA.fields[1].field_type)

    for _ in range(2):
        refresh.begin_batch([COLD, HOT])
    assert registry.targets[COLD] == known
    assert registry.targets[HOT].schema_id == 1
    assert [line for line in said if "as this run knew them" in line] == said
    assert len(said) == 1
    assert COLD in said[0]
    with pytest.raises(FloeError, match=COLD):
        refresh.begin_batch([COLD])
    with pytest.raises(FloeError, match=COLD):
        registry.satisfy([TableNeed(COLD, (("other", "string"),))])
    answer = lakes.tables.commit(effect)
    assert isinstance(answer, CommitFailed)
    assert answer.table == COLD
    hot = lakes.hot.effect(HOT, lakes.hot.files(HOT, [{"id": 1}]), 5, view=view(lakes, HOT))
    assert isinstance(lakes.tables.commit(hot), Committed)


def test_a_rule_reaches_the_tables_of_its_own_catalogs(lakes: Lakes) -> None:
    """Tables that records may name are looked for where the pipeline would make them: one of the same name in another
    catalog is not the pipeline's, nor is one that the rule's name fits and `allow_tables` leaves out."""
    for lake in (lakes.hot, lakes.cold):
        for name in ("archive.a", "archive.b", "archive.c", "other.a"):
            lake.create(name)
    overrides = [("archive.a*", replace(TablePolicy(), catalog="cold"))]
    made = plan([RouteRule("archive.{kind}")], allow=("archive.[ab]",), defaults=TablePolicy(), overrides=overrides)
    assert used_catalogs(made) == ("cold", "default")
    assert reachable_tables(made, lakes.tables) == ("ns.dead_letters", "cold:archive.a", "archive.b")


def test_files_of_two_catalogs_in_one_place_are_left_alone(lakes: Lakes) -> None:
    """Invariant 12: where two catalogs share a warehouse, a table may lie where one of the other catalog does; then the
    orphans of neither can be told."""
    shared = {**lakes.settings, "cold": {**lakes.settings["cold"], "warehouse": lakes.settings["default"]["warehouse"]}}
    tables = open_catalog(target_of(shared), shared)
    for name in (HOT, COLD, "shop.orders"):
        tables.create_table(CreateTable(name, SCHEMA.model_dump_json(), (), ()))
    known = {name: place for name in tables.list_tables() if (place := tables.place(name)) is not None}
    assert len(known) == 3
    said = {name: why_not(name, known, frozenset()) for name in known}
    assert said == {
        HOT: f"table {COLD} has files inside its location",
        COLD: f"table {HOT} has files inside its location",
        "shop.orders": "",
    }


@pytest.mark.spark
@pytest.mark.parametrize("version", ["V0", "V1"])
def test_a_database_that_java_filled_under_another_name(
    version: str, tmp_path: Path, iceberg_spark: IcebergSpark
) -> None:
    """Rows of a JDBC catalog carry its name: under `catalog-name` floe finds what Java made, in both forms of the
    database, and Java reads what floe adds."""
    settings = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/lake.db",
        "warehouse": f"file://{tmp_path}",
        "catalog-name": "sink",
    }
    spark = {**settings, "jdbc.schema-version": version}
    made = ["CREATE NAMESPACE sink.shop", "CREATE TABLE sink.shop.orders (id BIGINT)"]
    iceberg_spark.ask(spark, [*made, "INSERT INTO sink.shop.orders VALUES (1)"])
    lake, plain = Lake(settings), Lake({**settings, "catalog-name": "sink"}, "sink")
    assert lake.tables.list_tables() == ["shop.orders"]
    committed = lake.tables.commit(lake.effect("shop.orders", plain.files("shop.orders", [{"id": 2}]), 1))
    assert isinstance(committed, Committed)
    (rows,) = iceberg_spark.ask(spark, ["SELECT id FROM sink.shop.orders ORDER BY id"])
    assert rows.column("id").to_pylist() == [1, 2]
    assert Lake({**settings, "catalog-name": "default"}).tables.list_tables() == []
