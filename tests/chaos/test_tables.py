"""Tables dropped, replaced, rolled back or written by others under a running job: that table alone waits, and says
why."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from tests.chaos.checker import assert_exact, landed_positions
from tests.chaos.harness import Running, fan_out, records, wait_for
from tests.conftest import Broker
from tests.project import Project

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.iceberg,
    pytest.mark.chaos,
    pytest.mark.timeout(1200),
]


def count(project: Project, *tables: str) -> int:
    return sum(landed_positions(project.catalog(), tables).values())


@pytest.mark.failure("F09", "F18", "F40", "F41")
def test_dropped_replaced_and_rolled_back_tables_wait_alone(project: Project, broker: Broker) -> None:
    """Each table in trouble is BLOCKED with its reason while its siblings commit; what was announced for it waits."""
    topic = broker.new_topic("trouble", partitions=2)
    file = project.pipeline("trouble", fan_out(topic))
    names = [f"shop.t_k{i:02}" for i in range(4)]
    replaced, dropped, rolled_back, healthy = names
    broker.produce(topic, records(80, kinds=4))
    with Running(project, "run", file) as run:
        wait_for(lambda: ("shop",) in project.catalog().list_namespaces(), "the namespace")
        wait_for(lambda: project.tables("shop") == names and count(project, *names) == 80, "the first batch")
        broker.produce(topic, records(80, start=80, kinds=4))
        wait_for(lambda: count(project, *names) == 160, "the second batch")

        catalog = project.catalog()
        table = catalog.load_table(rolled_back)
        first = table.history()[0].snapshot_id
        table.manage_snapshots().rollback_to_snapshot(first).commit()
        catalog.drop_table(dropped)
        schema = catalog.load_table(replaced).schema()
        catalog.drop_table(replaced)
        catalog.create_table(replaced, schema)

        broker.produce(topic, records(80, start=160, kinds=4))
        wait_for(lambda: count(project, healthy) == 60, "the healthy table's third batch")

        def blocked() -> dict[str, str]:
            return {t["table"]: t["reason"] for t in project.status()["tables"] if t["state"] == "BLOCKED"}

        reasons = wait_for(lambda: r if len(r := blocked()) == 3 else None, "three blocked tables")
        assert set(reasons) == {dropped, replaced, rolled_back}
        assert "rolled back" in reasons[rolled_back]
        assert "replaced" in reasons[replaced]
        assert "not exist" in reasons[dropped]
        assert count(project, replaced) == 0
        assert count(project, rolled_back) == 20

        broker.produce(topic, records(80, start=240, kinds=4))
        wait_for(lambda: count(project, healthy) == 80, "the healthy table's fourth batch")
        assert run.running, run.output
        assert run.terminate() == 6, run.output


@pytest.mark.failure("F06", "F31", "F36")
def test_another_writer_and_a_changed_spec(project: Project, broker: Broker) -> None:
    """Appends, deletes and a partition change by another engine in between are kept, and our records land once each."""
    topic = broker.new_topic("shared", partitions=10)
    file = project.pipeline("shared", fan_out(topic))
    broker.produce(topic, records(40, kinds=1), partition=0)  # one busy partition, nine idle ones
    with Running(project, "run", file) as run:
        wait_for(lambda: ("shop",) in project.catalog().list_namespaces(), "the namespace")
        wait_for(lambda: project.tables("shop") == ["shop.t_k00"], "the table")
        wait_for(lambda: count(project, "shop.t_k00") == 40, "the first batch")
        for round_ in range(1, 4):
            broker.produce(topic, records(40, start=40 * round_, kinds=1), partition=0)
            table = project.catalog().load_table("shop.t_k00")
            row = dict.fromkeys(table.schema().as_arrow().names) | {"id": -round_}
            append_until_done(project, pa.Table.from_pylist([row], schema=table.schema().as_arrow()))
            if round_ == 2:
                with project.catalog().load_table("shop.t_k00").update_spec() as update:
                    update.add_field("kind", "identity")
            wait_for(lambda rows=40 * (round_ + 1) + round_: count(project, "shop.t_k00") == rows, "both writers' rows")
        assert run.terminate() == 0, run.output
    rows = project.table("shop.t_k00")
    assert sorted(i for i in rows.column("id").to_pylist() if i < 0) == [-3, -2, -1]
    assert sorted(i for i in rows.column("id").to_pylist() if i >= 0) == list(range(160))


def append_until_done(project: Project, rows: pa.Table) -> None:
    """Another writer's append, tried again after a conflict with ours."""

    def append() -> bool:
        try:
            project.catalog().load_table("shop.t_k00").append(rows)
        except CommitFailedException:
            return False
        return True

    wait_for(append, "the other writer's append")


@pytest.mark.failure("F36", "F35")
def test_compaction_expiry_and_another_writer_in_a_loop(project: Project, broker: Broker) -> None:
    """While another writer appends, a compaction rewrites the whole table and old snapshots are expired, each in a loop
    of its own, every batch of ours ends in the table once, and every row of theirs stays."""
    topic = broker.new_topic("loop", partitions=2)
    body = fan_out(topic).replace("{commit:", "{create: {properties: {commit.retry.num-retries: '0'}}, commit:")
    file = project.pipeline("loop", body)
    broker.produce(topic, records(40, kinds=1))
    stop = threading.Event()
    done = {"append": 0, "compact": 0, "expire": 0}
    failed: list[BaseException] = []

    def append(table: Table) -> None:
        row = dict.fromkeys(table.schema().as_arrow().names) | {"id": -done["append"] - 1}
        table.append(pa.Table.from_pylist([row], schema=table.schema().as_arrow()))

    def compact(table: Table) -> None:
        table.overwrite(table.scan().to_arrow())

    def expire(table: Table) -> None:
        table.maintenance.expire_snapshots().older_than(datetime.now()).commit()

    def loop(name: str, act: Callable[[Table], None]) -> None:
        while not stop.wait(0.2):
            try:
                # No blind retries: what was scanned before a conflict is not what is in the table after it.
                act(project.catalog().load_table("shop.t_k00"))
                done[name] += 1
            except (CommitFailedException, FileNotFoundError):
                continue  # somebody else was first, or the metadata that was read is gone already: look again
            except BaseException as error:
                failed.append(error)
                return

    with Running(project, "run", file) as run:
        wait_for(lambda: ("shop",) in project.catalog().list_namespaces(), "the namespace")
        wait_for(lambda: project.tables("shop") == ["shop.t_k00"], "the table")
        wait_for(lambda: count(project, "shop.t_k00") == 40, "the first batch")
        threads = [
            threading.Thread(target=loop, args=each)
            for each in (("append", append), ("compact", compact), ("expire", expire))
        ]
        for thread in threads:
            thread.start()
        try:
            for round_ in range(1, 16):
                broker.produce(topic, records(40, start=40 * round_, kinds=1))
                run.wait_for_output("coordinator: committed shop.t_k00", round_ + 1)
        finally:
            stop.set()
            for thread in threads:
                thread.join(60)
        assert run.terminate() == 0, run.output
    assert not failed, failed
    assert min(done.values()) >= 3, done
    ids = sorted(project.table("shop.t_k00").column("id").to_pylist())
    assert ids == [*range(-done["append"], 0), *range(640)]
    positions = {p: n for p, n in landed_positions(project.catalog(), ["shop.t_k00"]).items() if p[0] is not None}
    assert set(positions.values()) == {1}
    assert len(positions) == 640


@pytest.mark.failure("F12")
def test_partitions_are_added_while_running(project: Project, broker: Broker) -> None:
    """New partitions are read from offset 0 without a restart; every record lands once."""
    topic = broker.new_topic("grow", partitions=2)
    file = project.pipeline("grow", fan_out(topic))
    broker.produce(topic, records(60))
    with Running(project, "run", file) as run:
        wait_for(lambda: ("shop",) in project.catalog().list_namespaces(), "the namespace")
        wait_for(lambda: count(project, *project.tables("shop")) == 60, "the first batch")
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_partitions([NewPartitions(topic, 5)])[topic].result(20)
        for partition in range(5):
            broker.produce(topic, records(30, start=60 + 30 * partition), partition=partition)
        wait_for(lambda: count(project, *project.tables("shop")) == 210, "the new partitions' records")
        assert run.terminate() == 0, run.output
    project.run("run", file, "--until-caught-up")
    assert_exact(project.catalog(), broker.bootstrap_servers, [topic])
