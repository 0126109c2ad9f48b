"""Keys that a catalog lends for each table: whoever writes a table's files has those of this table, and nothing else."""

from __future__ import annotations

import ast
import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import framework
from framework.adapters.file_io import settings_of
from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.log import ControlPublisher
from framework.adapters.kafka.control.topic import ensure_control_topic
from framework.adapters.parquet.files import TableWriter
from framework.commit.machine.effects import CommitConflict, Committed
from framework.config.spec import LogArchiveSpec
from framework.errors import TableBlocked
from framework.runtime.batches import change_rounds
from framework.runtime.coordinator.log_archive import LogArchive
from framework.table.changes import CreateTable
from framework.table.model import TableTarget
from testbed.servers.s3 import SECRET_KEY
from testbed.servers.spark_reader import java_read
from tests.chaos.proxy import is_commit
from tests.conftest import Broker
from tests.iceberg.conftest import POLICY, SCHEMA, Lake
from tests.iceberg.vending import TOKEN, Vending
from tests.kafka.conftest import heartbeat, unique
from tests.project import Project, kill_group, wait_for

pytestmark = [pytest.mark.iceberg]


@pytest.fixture
def vending(tmp_path: Path) -> Iterator[Vending]:
    made = Vending(tmp_path / "servers")
    yield made
    made.close()


def make(tables: IcebergTables, *names: str) -> dict[str, TableTarget]:
    found = {}
    for name in names:
        tables.create_table(CreateTable(name, SCHEMA.model_dump_json(), (), ()))
        target = tables.load_target(name, POLICY)
        assert target is not None
        found[name] = target
    return found


def write(io_properties: dict[str, dict[str, str]], *targets: TableTarget) -> dict[str, list[Any]]:
    """As a task does."""
    writer = TableWriter(io_properties, "p", "run", 1, 1 << 28, 1 << 28)
    for target in targets:
        writer.add(target, pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["x", "y"]}))
    return writer.finish()


def test_each_table_is_written_with_its_own_keys(vending: Vending) -> None:
    """Tasks write files of two tables, each with the keys of its table alone: the store would refuse those of the other. The
    commits are made with lent keys as well, and nothing that is sent to tasks is the driver's."""
    lake = Lake(vending.settings())
    targets = make(lake.tables, "shop.orders", "shop.returns")
    io_properties = lake.tables.with_lent(lake.tables.io_properties(), targets)
    files = write(io_properties, *targets.values())
    for name in targets:
        assert isinstance(lake.tables.commit(lake.effect(name, files[name], 1)), Committed)
    of_data = [
        (vending.locations[key], path)
        for key, paths in vending.used.items()
        for path in paths
        if "/data/p-run-" in path
    ]
    assert len({location for location, _ in of_data}) == 2
    assert [each for each in of_data if f"/{each[0].removeprefix('s3://')}/" not in each[1]] == []
    sent = pickle.dumps(io_properties).decode("latin-1")
    assert TOKEN not in sent
    admin = [vending.admin[f"s3.{key}"] for key in ("access-key-id", "secret-access-key")]
    assert [secret for secret in (SECRET_KEY, *admin) if secret in sent] == []
    with pytest.raises(OSError, match=r"(?i)denied|forbidden|403"):
        write({"default": dict(settings_of(io_properties, "shop.orders"))}, targets["shop.returns"])
    found = java_read(
        vending.settings_of_admin(), ["SELECT count(*) c, sum(id) s FROM `default`.shop.orders"], ["shop.returns"]
    )
    assert found.rows[0] == [{"c": 2, "s": 3}]
    assert found.counts == {"shop.returns": 2}


def test_commits_over_lent_keys_that_others_overtake_or_hide(vending: Vending) -> None:
    """A commit that another one overtook is a conflict, and is made anew; one whose answer is lost is found in the table, and not
    made twice; both on main and on a branch, with lent keys alone."""
    lake = Lake(vending.settings())
    [target] = make(lake.tables, "shop.orders").values()
    offset = 0
    for branch in ("main", "audit"):

        def files() -> list[Any]:
            lent = lake.tables.with_lent(lake.tables.io_properties(), ["shop.orders"])
            return write(lent, target)["shop.orders"]

        seen = lake.view("shop.orders", branch)
        rival = lake.effect("shop.orders", files(), offset + 1, branch=branch)
        assert isinstance(lake.tables.commit(rival), Committed)
        mine = files()
        assert isinstance(lake.tables.commit(lake.effect("shop.orders", mine, offset + 2, view=seen)), CommitConflict)
        again = lake.effect("shop.orders", mine, offset + 2, branch=branch)
        assert isinstance(lake.tables.commit(again), Committed)
        hidden = lake.effect("shop.orders", files(), offset + 3, branch=branch)
        vending.catalog.after = lambda method, path: 500 if is_commit(method, path) else None
        first = lake.tables.commit(hidden)
        assert vending.catalog.answered[500] > 0
        vending.catalog.after = lambda method, path: None
        if not isinstance(first, Committed):
            assert isinstance(lake.tables.commit(hidden), Committed)
        offset += 3
    queries = [f"SELECT count(*) c FROM `default`.shop.orders VERSION AS OF '{name}'" for name in ("main", "audit")]
    assert java_read(vending.settings_of_admin(), queries).rows == [
        [{"c": 6}],
        [{"c": 12}],
    ]  # a branch begins where main is
    assert vending.late == 0
    assert {vending.locations[key] for key in vending.used} == {target.location}


def _calls(tree: ast.AST, name: str) -> list[ast.Call]:
    """Calls of a function or a method of this name."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and name in (getattr(node.func, "id", ""), getattr(node.func, "attr", ""))
    ]


def test_whoever_makes_a_writer_gives_it_lent_keys() -> None:
    """Every maker of a `TableWriter` is known, with where its settings come from; settings of catalogs as they are, keys of the
    driver among them, go nowhere but to `with_lent`, or to the base of a task's context, which gets them by `context_now`."""
    trees = {path: ast.parse(path.read_text()) for path in Path(framework.__file__).parent.rglob("*.py")}
    names = {path: path.relative_to(Path(framework.__file__).parent).as_posix() for path in trees}
    makers = {
        names[path]: ast.unparse(call.args[0]) for path, tree in trees.items() for call in _calls(tree, "TableWriter")
    }
    assert (
        makers
        == {
            "runtime/coordinator/log_archive.py": "settings",  # of `with_lent`, a line before
            "task/output.py": "context.io_properties",  # of `context_now`
            "adapters/maintenance/rewrite_files.py": "io_properties",  # of `io_properties_of`, which is `with_lent` for one table
        }
    )
    plain = set()
    for path, tree in trees.items():
        lent = {id(inner) for call in _calls(tree, "with_lent") for each in call.args for inner in ast.walk(each)}
        plain |= {(names[path], ast.unparse(call)) for call in _calls(tree, "io_properties") if id(call) not in lent}
    assert plain == {
        (
            "runtime/upsert/deleted_keys.py",
            "self.io_properties(target.name)",
        ),  # its own: what it was given is `io_properties_of`
        ("adapters/iceberg/tables.py", "self._catalog(name).io_properties()"),  # what `IcebergTables.io_properties` is
        ("runtime/batches/runner.py", "self._catalog.io_properties(self._catalogs)"),  # the base of a run's tasks
        (
            "recovery/dead_letter_stage.py",
            "self._catalog.io_properties(used_catalogs(self._base.plan))",
        ),  # and of a replay's
    }
    [now] = _calls(trees[Path(change_rounds.__file__)], "with_lent")
    assert ast.unparse(now) == "tables.with_lent(base.io_properties)"
    made = {names[path] for path, tree in trees.items() if _calls(tree, "TaskContext")}
    assert made == {
        "runtime/batches/runner.py", "recovery/dead_letter_stage.py",
        "ops/tap/model.py",  # with no settings at all: it writes nothing
    }  # fmt: skip
    assert {names[path] for path, tree in trees.items() if _calls(tree, "run_stage")} == {
        "runtime/batches/stage.py",  # inside of `change_tables_until_they_hold`
        "runtime/batches/spark_stage.py",  # itself, again with the same context
    }


def test_keys_are_renewed_before_they_end(vending: Vending) -> None:
    """Keys of 4 s are asked for anew after two, and good ones are kept; where the catalog is away, those that are there are
    used."""
    vending.lives_s = 4.0
    tables = IcebergTables(vending.settings())
    make(tables, "shop.orders")
    first = tables.io_properties_of("shop.orders")
    assert tables.io_properties_of("shop.orders") == first
    time.sleep(2.2)
    second = tables.io_properties_of("shop.orders")
    assert second["s3.access-key-id"] != first["s3.access-key-id"]
    time.sleep(2.2)
    vending.catalog.before = lambda method, path: 503
    assert tables.io_properties_of("shop.orders") == second


def test_the_targets_keys_stay_where_every_table_has_its_own(vending: Vending) -> None:
    """A target that has keys of the store sends them to tasks only where some table has none of its own."""
    own = vending.settings() | {"s3.access-key-id": "of-the-driver", "s3.secret-access-key": "secret-of-the-driver"}
    tables = IcebergTables(own)
    make(tables, "shop.orders")
    assert "of-the-driver" not in str(tables.with_lent(tables.io_properties(), ["shop.orders"]))
    both = tables.with_lent(tables.io_properties(), ["shop.orders", "shop.unknown"])
    assert both["default"]["s3.access-key-id"] == "of-the-driver"
    assert settings_of(both, "shop.orders")["s3.access-key-id"] in vending.ends


def test_a_catalog_that_signs_requests_itself_is_refused_by_name(vending: Vending) -> None:
    """Remote signing without keys is FLOE-R149, before the store is asked, and so no wrong key; with keys of the catalog, or of
    the target, the table is written."""
    tables = IcebergTables(vending.settings())
    make(tables, "shop.orders")
    vending.sends = {"s3.remote-signing-enabled": "true", "s3.signer.uri": "http://evil.example"}
    assert tables.load_target("shop.orders", POLICY) is not None
    vending.lends = False
    vending.used.clear()
    with pytest.raises(TableBlocked, match="signs each request") as refused:
        tables.load_target("shop.orders", POLICY)
    assert (refused.value.code, refused.value.place) == ("FLOE-R149", "shop.orders")
    assert vending.used == {}
    own = {key: vending.admin[key] for key in ("s3.access-key-id", "s3.secret-access-key")}
    assert IcebergTables(vending.settings() | own).load_target("shop.orders", POLICY) is not None


PIPELINE = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      format: {{type: json}}
      metadata_columns: [topic, partition, offset]
    routes:
      rules: [{{table: "shop.orders_{{region}}"}}]
      unrouted: fail
      allow_tables: ["shop.*"]
    tables: {{defaults: {{commit: {{interval: 2s}}}}}}
    errors: {{policy: fail}}
"""


def _of_processes(secrets: set[str], group: int) -> list[str]:
    """Those secrets that a command line or an environment of the group's processes holds."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if int((folder / "stat").read_text().rpartition(")")[2].split()[2]) != group:
                    continue
                text = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
            except OSError:
                continue
            found += [secret for secret in secrets if secret.encode() in text]
    return found


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.kafka
def test_a_run_over_keys_that_end(vending: Vending, broker: Broker, tmp_path: Path) -> None:
    """A live run of many intervals, with keys that live 30 s: each record is there once, by Spark; no request comes with a key
    whose time is over; no lent key is on a command line, in an environment, or in a file that the run leaves."""
    vending.lives_s = 30.0
    root = tmp_path / "project"
    root.mkdir()
    project = Project(root, broker.bootstrap_servers)
    project.write_target(catalog=vending.settings() | {"token": "${secret:env:CATALOG_TOKEN}"})
    project.catalog_settings = vending.settings_of_admin()
    topic = broker.new_topic("vended", partitions=2)
    file = project.pipeline("orders", PIPELINE.format(topic=topic))
    sent = 0
    run = project.start("run", file, env={"CATALOG_TOKEN": TOKEN})
    try:
        begun = time.monotonic()
        while time.monotonic() - begun < 80:
            broker.produce(topic, [{"id": sent + i, "region": ["eu", "us", "ap"][i % 3]} for i in range(30)])
            sent += 30
            time.sleep(2)
            assert run.poll() is None, run.communicate()[0]
            assert _of_processes(vending.secrets, run.pid) == []
        tables = [f"shop.orders_{region}" for region in ("ap", "eu", "us")]
        wait_for(lambda: sum(project.positions(tables).values()) >= sent, 60, "every record")
    finally:
        kill_group(run)
    keys_of_tasks = {key for key, paths in vending.used.items() if any("/data/" in path for path in paths)}
    assert len(keys_of_tasks) > 6  # of three tables, each several times
    assert vending.late == 0
    query = " UNION ALL ".join(f"SELECT _kafka_partition p, _kafka_offset o FROM `default`.{name}" for name in tables)
    rows = java_read(vending.settings_of_admin(), [query]).rows[0]
    assert len(rows) == len({(row["p"], row["o"]) for row in rows}) == sent
    left = [path for path in root.rglob("*") if path.is_file()]
    secrets = [each.encode() for each in (*vending.secrets, TOKEN)]
    assert [path for path in left if any(each in path.read_bytes() for each in secrets)] == []


@pytest.mark.kafka
def test_the_archive_of_the_control_log_has_keys_of_its_own(vending: Vending, broker: Broker) -> None:
    """Coordinators write rows of the control log with the keys that the catalog lends for their table."""
    kafka, topic = {"bootstrap.servers": broker.bootstrap_servers}, unique("control-log")
    ensure_control_topic(KafkaAdmin(kafka), topic)
    publisher = ControlPublisher(kafka, topic)
    archive = LogArchive(kafka, topic, IcebergTables(vending.settings()), LogArchiveSpec("ops.log"), print)
    for batch in range(2):
        publisher.publish([heartbeat("p", batch)])
        assert archive.round() == 1
    publisher.close()
    of_data = [vending.locations[key] for key, paths in vending.used.items() for path in paths if "/data/" in path]
    assert len(of_data) >= 2
    assert {location.rpartition("/")[2] for location in of_data} == {"log"}
