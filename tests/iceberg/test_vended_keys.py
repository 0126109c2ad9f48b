"""Keys that a catalog lends for each table: whoever writes a table's files has those of this table, and nothing else."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from framework.adapters.file_io import settings_of
from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.log import ControlPublisher
from framework.adapters.kafka.control.topic import ensure_control_topic
from framework.adapters.parquet.files import TableWriter
from framework.commit.machine.effects import Committed
from framework.config.spec import LogArchiveSpec
from framework.errors import TableBlocked
from framework.runtime.coordinator.log_archive import LogArchive
from framework.table.changes import CreateTable
from framework.table.model import TableTarget
from testbed.servers.s3 import SECRET_KEY
from testbed.servers.spark_reader import java_read
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
