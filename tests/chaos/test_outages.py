"""Broker, catalog and storage fail for a while under a running job; it goes on by itself and stays exact."""

from __future__ import annotations

import itertools
import resource
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from framework.adapters.kafka.admin import KafkaAdmin
from tests.chaos.checker import assert_exact, assert_sum_holds
from tests.chaos.conftest import FragileBroker, ProxiedCatalog
from tests.chaos.harness import Running, fan_out, landed, lands, python_daemons_of, python_workers_of, records, wait_for
from tests.chaos.proxy import END_TXN, LIST_OFFSETS, TXN_OFFSET_COMMIT, is_commit
from tests.conftest import Broker
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.timeout(1200)]


# ---- the broker -----------------------------------------------------------------------------------------------------


@pytest.mark.chaos
@pytest.mark.failure("F13")
def test_broker_killed_and_started_again(tmp_path: Path, fragile_broker: FragileBroker) -> None:
    """kill -9 of the broker under a running job: after its restart the job goes on by itself, and all is exact."""
    project = Project(tmp_path, fragile_broker.bootstrap_servers)
    topic = fragile_broker.new_topic("down", partitions=2)
    fragile_broker.produce(topic, records(200))
    file = project.pipeline("down", fan_out(topic))
    with Running(project, "run", file) as run:
        lands(project, 200, run)
        fragile_broker.kill()
        fragile_broker.restart()
        fragile_broker.produce(topic, records(200, start=200))
        lands(project, 400, run)
        assert run.terminate() == 0, run.output
    assert_exact(project.catalog(), fragile_broker.bootstrap_servers, [topic])
    assert_sum_holds(project.status(), "down", 400)


def test_an_answer_about_log_ends_that_is_lost_is_asked_for_again(fragile_broker: FragileBroker) -> None:
    """A connection that is cut before the ends of a log are told gives no made-up end, which would stop a pipeline for
    good."""
    topic = fragile_broker.new_topic("ends", partitions=2)
    fragile_broker.produce(topic, records(5))
    admin = KafkaAdmin({"bootstrap.servers": fragile_broker.proxy.address})
    keys = [(topic, 0), (topic, 1)]
    starts, ends = admin.start_offsets(keys), admin.end_offsets(keys)
    assert sum(ends.values()) == 5
    for _ in range(3):
        for ask, known in ((admin.start_offsets, starts), (admin.end_offsets, ends)):
            before = fragile_broker.proxy.lost_answers
            fragile_broker.proxy.lose_answer_to(LIST_OFFSETS)
            assert ask(keys) == known
            assert fragile_broker.proxy.lost_answers == before + 1


@pytest.mark.chaos
@pytest.mark.failure("F08")
def test_broker_answers_are_lost_and_connections_cut(tmp_path: Path, fragile_broker: FragileBroker) -> None:
    """A transaction that commits while its answer is lost, a cut line and a slow one: no batch is announced twice."""
    proxy = fragile_broker.proxy
    project = Project(tmp_path, proxy.address)
    topic = fragile_broker.new_topic("line", partitions=2)
    fragile_broker.produce(topic, records(100))
    file = project.pipeline("line", fan_out(topic))
    with Running(project, "run", file) as run:
        lands(project, 100, run)
        rows = 100
        for api_key in (END_TXN, TXN_OFFSET_COMMIT):
            before = proxy.lost_answers
            proxy.lose_answer_to(api_key)
            fragile_broker.produce(topic, records(100, start=rows))
            rows += 100
            lands(project, rows, run)
            assert proxy.lost_answers == before + 1
        fragile_broker.produce(topic, records(100, start=rows))
        proxy.cut()
        rows += 100
        lands(project, rows, run)
        proxy.delay_s = 0.05
        fragile_broker.produce(topic, records(100, start=rows))
        rows += 100
        lands(project, rows, run)
        proxy.delay_s = 0.0
        proxy.refuse()
        fragile_broker.produce(topic, records(100, start=rows))
        proxy.cut()
        proxy.accept()
        rows += 100
        lands(project, rows, run)
        assert run.terminate() == 0, run.output
    assert_exact(project.catalog(), fragile_broker.bootstrap_servers, [topic])


# ---- the catalog ----------------------------------------------------------------------------------------------------


@pytest.mark.failure("F07")
def test_catalog_unreachable_at_the_start(project: Project, broker: Broker) -> None:
    """A catalog that cannot be reached when a job starts: exit code 3, the address and a remedy, and nothing
    announced."""
    topic = broker.new_topic("nocatalog")
    broker.produce(topic, records(10))
    project.write_target(
        catalog={"type": "rest", "uri": "http://127.0.0.1:9/", "warehouse": f"file://{project.root}/warehouse"}
    )
    output = project.run("run", project.pipeline("nocatalog", fan_out(topic)), "--until-caught-up", code=3)
    assert "error[FLOE-E201]" in output
    assert "127.0.0.1:9" in output
    assert "remedy:" in output
    assert list((project.root / "warehouse").iterdir()) == []


@pytest.mark.chaos
@pytest.mark.failure("F07", "F08", "F35", "F41")
def test_catalog_applies_and_answers_504_then_refuses(
    project: Project, broker: Broker, rest_catalog: ProxiedCatalog
) -> None:
    """A commit that was applied and answered 504 is found again, not repeated; an outage of the catalog ends by
    itself."""
    topic = broker.new_topic("rest", partitions=2)
    project.catalog_settings = rest_catalog.direct
    project.write_target(catalog=rest_catalog.proxied)
    broker.produce(topic, records(150))
    proxy = rest_catalog.proxy
    lost: list[str] = []

    def lose_first_answers(method: str, path: str) -> int | None:
        if is_commit(method, path) and len(lost) < 3:
            lost.append(path)
            return 504
        return None

    with Running(project, "run", project.pipeline("rest", fan_out(topic))) as run:
        proxy.after = lose_first_answers
        lands(project, 150, run)
        assert len(lost) == 3
        one_commit_a_table = {
            name: len(project.catalog().load_table(name).snapshots()) for name in project.tables("shop")
        }
        assert set(one_commit_a_table.values()) == {1}, one_commit_a_table

        answers = itertools.cycle((401, 403, 419, 500, 503))  # also what an expired token looks like
        proxy.before = lambda method, path: next(answers)
        broker.produce(topic, records(150, start=150))
        refused = proxy.answered.total()
        wait_for(lambda: proxy.answered.total() >= refused + 8, "attempts during the outage")
        assert landed(project) == 150
        assert run.running, run.output
        proxy.before = lambda method, path: None
        lands(project, 300, run)

        proxy.before = lambda method, path: 503 if is_commit(method, path) else None
        broker.produce(topic, records(150, start=300))
        refused = proxy.answered[503]
        wait_for(lambda: proxy.answered[503] >= refused + 3, "refused commits")
        states = {t["table"]: t for t in project.status()["tables"]}
        assert any(t["pending"]["rows"] for t in states.values()), states
        proxy.before = lambda method, path: None
        lands(project, 450, run)
        assert run.terminate() == 0, run.output
    assert_exact(project.catalog(), broker.bootstrap_servers, [topic])
    assert_sum_holds(project.status(), "rest", 450)


@pytest.mark.chaos
@pytest.mark.failure("F35")
def test_catalog_database_locked_for_a_while(project: Project, broker: Broker) -> None:
    """A SQL catalog whose database is locked for longer than its driver waits: commits fail, are retried, and land
    once."""
    topic = broker.new_topic("locked", partitions=2)
    broker.produce(topic, records(100))
    with Running(project, "run", project.pipeline("locked", fan_out(topic))) as run:
        lands(project, 100, run)
        lock = sqlite3.connect(project.root / "catalog.db", isolation_level=None)
        lock.execute("BEGIN EXCLUSIVE")
        broker.produce(topic, records(100, start=100))
        run.wait_for_output("locked")
        lock.execute("ROLLBACK")
        lock.close()
        lands(project, 200, run)
        assert run.terminate() == 0, run.output
    assert_exact(project.catalog(), broker.bootstrap_servers, [topic])


# ---- the storage ----------------------------------------------------------------------------------------------------


@pytest.mark.chaos
@pytest.mark.failure("F35")
@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs Linux: a limit is set on another process")
def test_full_disk_under_tasks_and_commits(project: Project, broker: Broker) -> None:
    """Writes that fail with 'file too large', first of data files, then of manifests: retried, and exact once there is
    room."""
    topic = broker.new_topic("full", partitions=2)
    broker.produce(topic, records(100))
    with Running(project, "run", project.pipeline("full", fan_out(topic))) as run:
        lands(project, 100, run)
        workers = [*python_daemons_of(run.pid), *python_workers_of(run.pid)]
        assert workers, "no process of tasks was found, so none would be limited"
        limit_file_size(workers, 16)
        broker.produce(topic, records(100, start=100))
        run.wait_for_output("batch failed")
        limit_file_size([*python_daemons_of(run.pid), *python_workers_of(run.pid)], None)
        lands(project, 200, run)

        limit_file_size([run.pid], 2_000)  # the driver's own small files fit, a manifest does not
        broker.produce(topic, records(100, start=200))
        run.wait_for_output("not committed shop.")
        assert landed(project) == 200
        limit_file_size([run.pid], None)
        lands(project, 300, run)
        assert run.terminate() == 0, run.output
    assert_exact(project.catalog(), broker.bootstrap_servers, [topic])
    assert_sum_holds(project.status(), "full", 300)


def limit_file_size(pids: list[int], size: int | None) -> None:
    """From now on a write beyond `size` bytes into any file fails in these processes; None lifts the limit."""
    assert sys.platform == "linux"
    for pid in pids:
        with suppress(ProcessLookupError):  # it ended by itself in between
            _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard if size is None else size, hard))


@pytest.mark.chaos
@pytest.mark.failure("F35")
def test_storage_gone_for_a_while(project: Project, broker: Broker) -> None:
    """The warehouse cannot be read or written for a while: batches and commits fail, are retried, and land once."""
    topic = broker.new_topic("gone", partitions=2)
    broker.produce(topic, records(100))
    warehouse, away = project.root / "warehouse", project.root / "away"
    with Running(project, "run", project.pipeline("gone", fan_out(topic))) as run:
        lands(project, 100, run)
        warehouse.rename(away)
        warehouse.write_text("a file in the folder's place: nothing below it can be opened or made\n")
        broker.produce(topic, records(100, start=100))
        run.wait_for_output("batch failed")
        warehouse.unlink()
        away.rename(warehouse)
        lands(project, 200, run)
        assert run.terminate() == 0, run.output
    assert_exact(project.catalog(), broker.bootstrap_servers, [topic])


ASKING = """
import sys, time
from framework.adapters.kafka.admin import KafkaAdmin
from framework.errors import FloeError
admin = KafkaAdmin({"bootstrap.servers": sys.argv[1]})
answers, end = 0, time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    try:
        admin.group_offsets("asked-about")
        answers += 1
    except FloeError:
        pass
print(answers)
"""


@pytest.mark.slow
def test_a_groups_offsets_are_asked_for_while_the_broker_dies(fragile_broker: FragileBroker) -> None:
    """Three processes ask for all offsets of a group without a pause while the broker is killed and restarted five times:
    each is refused or answered, and none is ended by its client library."""
    fragile_broker.new_topic("asked-about", partitions=3)
    command = [sys.executable, "-c", ASKING, fragile_broker.bootstrap_servers, "45"]
    asking = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for _ in range(5):
        time.sleep(4)
        fragile_broker.kill()
        fragile_broker.restart()
    for each in asking:
        answers, _ = each.communicate(timeout=120)
        assert each.returncode == 0
        assert int(answers) > 20
