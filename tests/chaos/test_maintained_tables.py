"""Twenty live tables with maintenance on, while every process dies now and then, others rewrite and expire, and readers
read in loops: nothing is lost, nothing is there twice, and no reader fails or sees a row vanish.

The seed is printed and read from FLOE_CHAOS_SEED, the minutes from FLOE_CHAOS_MAINTAINED_MINUTES. How long announced
rows waited for their commit is printed, too: with FLOE_CHAOS_MAINTENANCE=never that is the time without maintenance.
Readers and foreign
maintenance are PyIceberg and Spark with Iceberg's own runtime; the check at the end shares no code with floe.
"""

from __future__ import annotations

import os
import random
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from statistics import quantiles

import pytest

from benchmarks.maintained_freshness import waits
from tests.chaos.checker import POSITION_COLUMNS, all_tables, assert_exact, assert_sum_holds, produced_positions
from tests.chaos.conftest import FragileBroker
from tests.chaos.harness import Running, fan_out
from tests.chaos.test_random_kills import TABLES, Flow
from tests.iceberg.spark_server import IcebergSpark
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.chaos]

MINUTES = 6.0
KEPT = timedelta(minutes=2)  # others let expire what is older; no reader here takes as long
MODE = os.environ.get("FLOE_CHAOS_MAINTENANCE") or "always"
MAINTENANCE = (
    f"maintenance: {{mode: {MODE}, compaction: {{min_input_files: 3}}, manifests: {{min_count: 10}}, "
    "expire: {max_snapshots: 5, rollback_window: 1m, reader_lease: 1m}}"
)


class Loop:
    """Does something again and again in a thread; what it raises ends it and is kept."""

    def __init__(self, name: str, do: Callable[[], None], pause_s: float) -> None:
        self.name, self.turns, self.failure = name, 0, ""
        self._do, self._pause_s, self._stop = do, pause_s, threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._pause_s):
            try:
                self._do()
            except BaseException:  # whatever it is, the test tells it
                self.failure = traceback.format_exc()
                return
            self.turns += 1

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(300)


class Others:
    """Readers and foreign maintenance of the tables, each table as it is found."""

    def __init__(self, project: Project, spark: IcebergSpark, seed: int) -> None:
        self._project = project
        self._spark = spark
        self._settings = project.catalog_settings
        self._chance = random.Random(seed)
        self._one_asks = threading.Lock()
        self._rows: dict[str, Counter[str]] = {"PyIceberg": Counter(), "Spark": Counter()}

    def _a_table(self) -> str | None:
        tables = all_tables(self._project.catalog(), ["shop"])
        return self._chance.choice(tables) if tables else None

    def _saw(self, reader: str, table: str, rows: int, distinct: int) -> None:
        assert rows == distinct, f"{reader} reads {rows} rows of {table}, and {distinct} different records"
        assert rows >= self._rows[reader][table], (
            f"{reader} saw {self._rows[reader][table]} rows of {table}, now {rows}"
        )
        self._rows[reader][table] = rows

    def read_by_pyiceberg(self) -> None:
        if (table := self._a_table()) is not None:
            found = self._project.catalog().load_table(table).scan(selected_fields=POSITION_COLUMNS).to_arrow()
            self._saw("PyIceberg", table, len(found), found.group_by(list(POSITION_COLUMNS)).aggregate([]).num_rows)

    def read_by_spark(self) -> None:
        if (table := self._a_table()) is not None:
            position = ", ".join(POSITION_COLUMNS)
            [found] = self._ask(f"SELECT count(*) AS n, count(DISTINCT {position}) AS d FROM `default`.{table}")
            self._saw("Spark", table, found["n"][0].as_py(), found["d"][0].as_py())

    def maintain(self) -> None:
        """What a cluster of somebody else does to a table now and then; to lose against floe is no failure."""
        if (table := self._a_table()) is None:
            return
        moment = datetime.now(timezone.utc) - KEPT
        call = self._chance.choice(
            [
                f"CALL `default`.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))",
                f"CALL `default`.system.expire_snapshots(table => '{table}', older_than => TIMESTAMP '{moment:%F %T}')",
            ]
        )
        self._ask(call)

    def _ask(self, query: str) -> list[object]:
        with self._one_asks:
            return self._spark.ask(self._settings, [query])


@pytest.mark.timeout(3 * 3600)
def test_tables_are_kept_healthy_through_deaths_and_beside_others(
    tmp_path: Path, fragile_broker: FragileBroker
) -> None:
    """Maintenance by floe and by others, kills of every process, and readers that never stop reading."""
    seed = int(os.environ.get("FLOE_CHAOS_SEED") or random.SystemRandom().randrange(1_000_000))
    minutes = float(os.environ.get("FLOE_CHAOS_MAINTAINED_MINUTES") or MINUTES)
    print(f"FLOE_CHAOS_SEED={seed} FLOE_CHAOS_MAINTAINED_MINUTES={minutes}")
    chance = random.Random(seed)
    project = Project(tmp_path, fragile_broker.bootstrap_servers)
    topic = fragile_broker.new_topic("maintained", partitions=3)
    text = fan_out(topic).replace("commit: {interval: 1s}", f"commit: {{interval: 1s}}, {MAINTENANCE}")
    assert MAINTENANCE in text
    file = project.pipeline("maintained", text)
    commands: dict[str, tuple[str | Path, ...]] = {
        "driver": ("run", file),
        "coordinator": ("coordinator", "--control-topic", project.control_topic),
    }
    started: list[Running] = []
    alive: dict[str, Running] = {}

    def start(name: str) -> None:
        alive[name] = Running(project, *commands[name])
        started.append(alive[name])

    (tmp_path / "spark").mkdir()
    spark = IcebergSpark(tmp_path / "spark")
    others = Others(project, spark, seed)
    story: list[str] = []
    flow = Flow(fragile_broker, topic)
    loops: list[Loop] = []
    try:
        for name in commands:
            start(name)
        alive["driver"].wait_for_output("batch 1:")
        loops += [
            Loop("PyIceberg reads", others.read_by_pyiceberg, 0.5),
            Loop("Spark reads", others.read_by_spark, 2.0),
            Loop("Spark maintains", others.maintain, 20.0),
        ]
        began = time.monotonic()
        while time.monotonic() - began < minutes * 60:
            time.sleep(chance.uniform(5.0, 40.0))
            assert all(not loop.failure for loop in loops), next(loop.failure for loop in loops if loop.failure)
            victim = chance.choice(["driver", "coordinator", "coordinator", "broker"])
            story.append(victim)
            if victim == "broker":
                with flow.pause:
                    fragile_broker.kill()
                    fragile_broker.restart()
            elif alive[victim].running:
                alive[victim].kill()
            for name, run in list(alive.items()):
                if not run.running:
                    assert name == victim or "error[FLOE-" in run.output, f"{name}: {run.output}"
                    start(name)
        flow.stop()
        for loop in loops:
            loop.stop()
        for run in alive.values():
            run.terminate()
        project.run("run", file, "--until-caught-up", timeout_s=600)
    finally:
        flow.stop()
        for loop in loops:
            loop.stop()
        for run in started:
            run.__exit__()
        spark.stop()

    assert [f"{loop.name}: {loop.failure}" for loop in loops if loop.failure] == []
    assert all(loop.turns for loop in loops), [(loop.name, loop.turns) for loop in loops]
    produced = produced_positions(fragile_broker.bootstrap_servers, [topic])
    verdict = assert_exact(project.catalog(), fragile_broker.bootstrap_servers, [topic])
    assert verdict.rows == len(produced)
    assert_sum_holds(project.status(), "maintained", len(produced))
    deaths = ", ".join(f"{number} of the {name}" for name, number in sorted(Counter(story).items()))
    turns = ", ".join(f"{loop.name} {loop.turns} times" for loop in loops)
    rounds = sum(run.output.count("compacted shop.") for run in started)
    cuts = quantiles(waits({"bootstrap.servers": fragile_broker.bootstrap_servers}, project.control_topic), n=20)
    print(
        f"seed {seed}: {minutes:g} min, {len(story)} kills ({deaths}), {len(produced):,} records in {TABLES} tables, lost 0, "
        f"twice 0; {turns}; {rounds} compactions by floe; "
        f"announced rows waited {cuts[9]:.2f} s (median), {cuts[18]:.2f} s (95 of 100)"
    )
    assert bool(rounds) == (MODE != "never"), f"{rounds} compactions by floe"
