"""Runs into tables whose catalog lends keys, under kills, and with batches that take longer than the keys live."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.servers.spark_reader import java_read
from tests.chaos.conftest import FragileBroker
from tests.chaos.harness import Running, crash, fan_out, lands, records, wait_for
from tests.chaos.test_stores_and_servers import degraded
from tests.chaos.written_bytes import bytes_below, places_with
from tests.conftest import Broker
from tests.iceberg.vending import TOKEN, Vending
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.chaos, pytest.mark.timeout(900)]
VARIABLE = "CHAOS_CATALOG_TOKEN"
TABLES = ["shop.t_k00", "shop.t_k01", "shop.t_k02"]
KEYS_LIVE_S = 20.0


@pytest.fixture
def vending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Vending]:
    monkeypatch.setenv(VARIABLE, TOKEN)
    made = Vending(tmp_path / "servers")
    yield made
    made.close()


def project_of(vending: Vending, root: Path, bootstrap_servers: str) -> Project:
    root.mkdir()
    project = Project(root, bootstrap_servers)
    project.write_target(catalog=vending.settings() | {"token": f"${{secret:env:{VARIABLE}}}"})
    project.catalog_settings = vending.settings_of_admin()
    return project


def positions_by_spark(vending: Vending, branch: str = "main") -> list[tuple[int, int]]:
    query = " UNION ALL ".join(
        f"SELECT _kafka_partition p, _kafka_offset o FROM `default`.{name} VERSION AS OF '{branch}'" for name in TABLES
    )
    return sorted((row["p"], row["o"]) for row in java_read(vending.settings_of_admin(), [query]).rows[0])


@pytest.mark.failure("F35", "F08")
@pytest.mark.parametrize("branch", ["main", "audit"])
def test_a_kill_around_a_commit_over_lent_keys(vending: Vending, broker: Broker, tmp_path: Path, branch: str) -> None:
    """kill -9 after a commit's manifests are written, and after a commit that nobody recorded, on main and on a branch: the next
    run finds out what became of them, with keys of its own. Every record is there once, by Spark; no key is in a file."""
    project = project_of(vending, tmp_path / "project", broker.bootstrap_servers)
    topic = broker.new_topic("lent", partitions=2)
    body = fan_out(topic).replace("interval: 1s", f"interval: 1s, branch: {branch}")
    assert branch in body
    file = project.pipeline("lent", body)
    for number, point in enumerate(("manifests-written", "committed")):
        broker.produce(topic, records(90, start=90 * number))
        crash(project, point, "run", file, "--until-caught-up")
    broker.produce(topic, records(90, start=180))
    project.run("run", file, "--until-caught-up")
    found = positions_by_spark(vending, branch)
    assert len(found) == len(set(found)) == 270
    assert vending.late == 0
    assert places_with(bytes_below(project.root), [*vending.secrets, TOKEN]) == set()


@pytest.mark.failure("F35")
@pytest.mark.parametrize("says_end", [True, False])
def test_batches_that_outlive_lent_keys_get_smaller(
    vending: Vending, fragile_broker: FragileBroker, tmp_path: Path, says_end: bool
) -> None:
    """A backlog that takes several lives of the keys to read, over a slow line: the batch is done again with new keys and half of
    the records, until it fits; each time one message says what is the matter and what to do. Every record is there once. So it
    is where the catalog does not say when its keys end."""
    vending.says_end = says_end
    project = project_of(vending, tmp_path / "project", fragile_broker.proxy.address)
    topic = fragile_broker.new_topic("outlived", partitions=1)
    chance = random.Random(7)
    rows = [each | {"text": chance.randbytes(4000).hex()} for each in records(2000)]
    fragile_broker.produce(topic, records(3))
    file = project.pipeline("outlived", fan_out(topic))
    project.run("run", file, "--until-caught-up")  # makes the tables
    fragile_broker.produce(topic, rows)
    vending.lives_s = KEYS_LIVE_S
    try:
        fragile_broker.proxy.delay_s = 0.1  # for each 64 KiB: the backlog takes at least 25 s
        output = project.run("run", file, "--until-caught-up", timeout_s=500)
    finally:
        fragile_broker.proxy.delay_s = 0.0
    found = positions_by_spark(vending)
    assert found == [(0, offset) for offset in range(2003)]
    assert 1 <= output.count("ended before the batch did") <= 4, output
    assert vending.late > 0
    assert "Traceback" not in output


@pytest.mark.failure("F35")
def test_keys_that_end_before_any_batch_are_said_so(vending: Vending, broker: Broker, tmp_path: Path) -> None:
    """Keys that are over before a record is read: a run to a fixed end tries five times, and ends with one message that names the
    table and what to do; a run without an end is DEGRADED and says the same in `floe status`."""
    project = project_of(vending, tmp_path / "project", broker.bootstrap_servers)
    topic = broker.new_topic("over", partitions=1)
    file = project.pipeline("over", fan_out(topic))
    broker.produce(topic, records(3))
    project.run("run", file, "--until-caught-up")  # makes the tables
    broker.produce(topic, records(3))
    vending.lives_s = 0.001
    output = project.run("run", file, "--until-caught-up", code=1)
    last = output[output.rindex("error[") :]
    assert last.startswith("error[FLOE-R157] the keys that the catalog lends for shop.t_k0"), output
    assert "have the catalog lend keys for longer" in last
    with Running(project, "run", file) as run:
        run.wait_for_output("ended before the batch did", count=2)
        state = wait_for(lambda: degraded(project, "over"), "a state that tells of it")
        assert "the keys that the catalog lends for shop.t_k0" in state["reason"], state
        assert "lend keys for longer" in state["remedy"], state
        assert run.running
        vending.lives_s = 3600.0
        lands(project, 6, run)
        assert run.terminate() == 0
    assert positions_by_spark(vending) == [(0, offset) for offset in range(6)]
