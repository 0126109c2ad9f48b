"""What a run keeps beside its tables while it lives, and what is left of it when it is killed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.harness import Running
from tests.conftest import Broker
from tests.project import Project, kill_group, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.slow]
PIPELINE = """
    source: {{kafka: {{connection: main, topics: [{topic}]}}}}
    routes: {{rules: [{{table: shop.orders}}], allow_tables: ["shop.*"]}}
    errors: {{policy: dead_letter, dead_letter_table: shop.dead_letters}}
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where floe, Spark and Java put temporary files."""
    folder = tmp_path / "a folder"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def test_a_killed_run_leaves_one_folder_and_the_next_one_removes_it(
    tmp_path: Path, broker: Broker, temporary: Path
) -> None:
    """Driver, JVM and workers are killed: all that they leave in the system's temporary folder is one folder of floe's,
    however often it happens, and after a run that ends by itself nothing."""
    project = Project(tmp_path / "p", broker.bootstrap_servers)
    topic = broker.new_topic("scratch", partitions=2)
    broker.produce(topic, [{"id": number} for number in range(200)])
    file = project.pipeline("scratch", PIPELINE.format(topic=topic))
    for _ in range(2):
        running = Running(project, "run", str(file))
        try:
            wait_for(lambda: project.catalog().table_exists("shop.orders"), 120, "the table")
        finally:
            kill_group(running.process)
        assert [path.name[:9] for path in temporary.iterdir()] == ["floe-run-"]
        broker.produce(topic, [{"id": 1}])
    project.run("run", file, "--until-caught-up")
    assert os.listdir(temporary) == []
    assert project.table("shop.orders").num_rows == 202


def test_temporary_files_are_on_this_machine(tmp_path: Path, broker: Broker, temporary: Path) -> None:
    """Where Hadoop's settings name another file system for paths, as on YARN's nodes, a run keeps nothing in it and does not
    even ask it: this one does not answer."""
    project = Project(tmp_path / "p", broker.bootstrap_servers)
    with (project.root / "pipelines" / "targets" / "it.yaml").open("a") as target:
        target.write('  conf: {spark.hadoop.fs.defaultFS: "hdfs://127.0.0.1:1"}\n')
    topic = broker.new_topic("scratch")
    broker.produce(topic, [{"id": number} for number in range(200)])
    project.run("run", project.pipeline("scratch", PIPELINE.format(topic=topic)), "--until-caught-up", timeout_s=250)
    assert os.listdir(temporary) == []
    assert sorted(os.listdir(tmp_path)) == ["a folder", "p"]
    assert project.table("shop.orders").num_rows == 200
