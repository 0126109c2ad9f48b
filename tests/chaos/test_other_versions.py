"""A run of one version of floe that is killed in the middle is continued by another version, exactly; and a live deployment
is upgraded, one process after the other.

The earlier version is taken out of the repository's history and runs beside this one, with the same packages. It has no
compiled modules there, so it reads in Python: what it announces and commits is the same.
"""

from __future__ import annotations

import os
import subprocess
import tarfile
import threading
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path

import pyarrow.compute as pc
import pytest

from testbed.servers.spark_reader import java_read
from tests.chaos.checker import assert_exact, assert_sum_holds
from tests.chaos.harness import PATIENCE_S, Running, crash, fan_out, records, wait_for
from tests.conftest import Broker
from tests.project import FLOE, Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.chaos, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[2]
EARLIER = "2a66ab6"  # before the protocol's edges were mended and the modules were moved
OLDEST = ("0.1.0", "1adfe37")  # the oldest version that a live deployment may be upgraded from: docs/upgrading.md
ROUND, KEYS = 60, 40
TABLES = ("shop.t_k00", "shop.t_k01", "shop.t_k02", "shop.keys")
UPSERTS = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      schema: {{id: {{type: long}}, n: {{type: long}}}}
    routes: {{rules: [{{table: shop.keys}}], allow_tables: ["shop.*"], unrouted: fail}}
    tables:
      defaults:
        write: {{mode: upsert, key: [id]}}
        commit: {{interval: 1s}}
    errors: {{policy: fail}}
"""
POINTS = ("files-written", "in-transaction", "announced", "manifests-written", "committed")


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return of_history(EARLIER, tmp_path_factory.mktemp("earlier"))


@pytest.fixture(scope="module")
def oldest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return of_history(OLDEST[1], tmp_path_factory.mktemp("oldest"))


def of_history(commit: str, tree: Path) -> dict[str, str]:
    """The environment in which the command `floe` is the version of a commit."""
    packed = subprocess.run(["git", "archive", commit, "framework", "schemas"], cwd=ROOT, capture_output=True)
    assert packed.returncode == 0, f"the history of the repository is needed: {packed.stderr.decode()}"
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
        archive.extractall(tree, filter="data")
    return {"PYTHONPATH": str(tree)}


def version_of(project: Project, env: dict[str, str]) -> str:
    """Where the code of the command comes from."""
    code = "import framework; print(framework.__file__)"
    command = [project.command("status")[0], "-c", code]
    return subprocess.run(command, env={**os.environ, **env}, cwd=project.root, capture_output=True, text=True).stdout


@pytest.mark.parametrize("upgrade", [True, False], ids=["upgrade", "downgrade"])
def test_what_another_version_left_is_continued(
    project: Project, broker: Broker, earlier: dict[str, str], upgrade: bool
) -> None:
    """Killed at each point of a batch by one version and gone on with by the other, forth and back: every record
    once."""
    first, second = ({}, earlier) if not upgrade else (earlier, {})
    assert (earlier["PYTHONPATH"] in version_of(project, first)) == upgrade
    topic = broker.new_topic("versions", partitions=2)
    file = project.pipeline("versions", fan_out(topic))
    rows = 0
    for point in POINTS:
        broker.produce(topic, records(400, start=rows))
        rows += 400
        crash(project, point, "run", file, "--until-caught-up", env=first)
        project.run("run", file, "--until-caught-up", env=second)
        broker.produce(topic, records(100, start=rows))
        rows += 100
        project.run("run", file, "--until-caught-up", env=first)
    assert_exact(project.catalog(), broker.bootstrap_servers, [topic])
    assert_sum_holds(project.status(), "versions", rows)


class Load:
    """Records that arrive all the time: rows of three tables, and changes of forty keys."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.appended, self.changed = broker.new_topic("appended", partitions=2), broker.new_topic("changed")
        self.made = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._produce, daemon=True)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        self._ended.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _produce(self) -> None:
        while not self._ended.wait(0.5):
            first, self.made = self.made, self.made + ROUND
            self._broker.produce(self.appended, records(ROUND, first))
            self._broker.produce(self.changed, [{"id": n % KEYS, "n": n} for n in range(first, self.made)])


@pytest.mark.slow
def test_a_live_deployment_is_upgraded_from_the_oldest_version(
    project: Project, broker: Broker, oldest: dict[str, str]
) -> None:
    """A coordinator and two runs of the oldest supported version are replaced under load, one at a time, the coordinator
    first: each drains and ends with 0, both versions work side by side, and each record is in the tables once. The
    oldest version goes on after that, too: a downgrade is safe."""
    code = "import framework; print(framework.__version__, framework.__file__)"
    known = subprocess.run([FLOE[0], "-c", code], env={**os.environ, **oldest}, cwd=project.root, capture_output=True)
    assert known.stdout.decode().split() == [OLDEST[0], f"{oldest['PYTHONPATH']}/framework/__init__.py"]

    with Load(broker) as load:
        files = {
            "appends": project.pipeline("appends", fan_out(load.appended)),
            "upserts": project.pipeline("upserts", UPSERTS.format(topic=load.changed)),
        }
        with ExitStack() as all_of_them:

            def start(name: str, env: dict[str, str]) -> Running:
                words = ("coordinator",) if name == "coordinator" else ("run", files[name])
                return all_of_them.enter_context(Running(project, *words, env=env))

            live = {name: start(name, oldest) for name in ("coordinator", *files)}

            def goes_on() -> None:
                """Until rows that came after this moment are in the tables of both pipelines."""
                least = load.made + ROUND

                def there() -> bool:
                    assert all(each.running for each in live.values()), "".join(each.output for each in live.values())
                    return min(newest_rows(project)) >= least

                wait_for(there, f"row {least} of both pipelines")

            goes_on()
            for name in live:
                assert live[name].terminate() == 0, live[name].output
                live[name] = start(name, {})
                goes_on()
            load.end()
            for each in (live["appends"], live["upserts"], live["coordinator"]):
                assert each.terminate() == 0, each.output
                assert "Traceback" not in each.output
        check_upgraded(project, load, files, {})
        broker.produce(load.appended, records(ROUND, load.made))
        broker.produce(load.changed, [{"id": n % KEYS, "n": n} for n in range(load.made, load.made + ROUND)])
        load.made += ROUND
        check_upgraded(project, load, files, oldest)


def newest_rows(project: Project) -> tuple[int, int]:
    """The number that follows the newest record in the appended tables, and the one that follows it in the table of keys."""
    if ("shop",) not in project.catalog().list_namespaces():
        return 0, 0
    found = {name: project.table(name) for name in project.tables("shop")}
    ends = [0, 0]
    for name, table in found.items():
        is_keys = name == TABLES[3]
        newest = pc.max(table.column("n" if is_keys else "id")).as_py()
        ends[is_keys] = max(ends[is_keys], 0 if newest is None else newest + 1)
    return ends[0], ends[1]


def check_upgraded(project: Project, load: Load, files: dict[str, Path], env: dict[str, str]) -> None:
    """A version reads what is left, and then each record is a row once, by Spark and Iceberg's Java library, and each
    key has its newest change."""
    project.run("run", *files.values(), "--until-caught-up", env=env, timeout_s=PATIENCE_S)
    union = " UNION ALL ".join(f"SELECT id FROM `default`.{name}" for name in TABLES[:3])
    read = java_read(project.catalog_settings, [union, f"SELECT id, n FROM `default`.{TABLES[3]}"], TABLES)
    assert sorted(row["id"] for row in read.rows[0]) == [*range(load.made)]
    newest = {n % KEYS: n for n in range(load.made)}
    assert sorted((row["id"], row["n"]) for row in read.rows[1]) == sorted(newest.items())
    assert sum(read.counts.values()) == load.made + KEYS
