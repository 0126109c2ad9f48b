"""`floe drill` on a real broker and real catalogs: what it shows, what it leaves behind, and that it can fail."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from jsonschema import Draft202012Validator
from pyiceberg.catalog import load_catalog

from framework.local import stack
from framework.ops.drill.model import Drill
from testbed.servers.places import Place, Servers
from tests.chaos.harness import descendants, kill, processes, wait_for
from tests.conftest import Broker
from tests.project import FLOE, Project, kill_group

pytestmark = [
    pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.slow, pytest.mark.timeout(1200),
]  # fmt: skip
SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "drill.v1.schema.json").read_text(encoding="utf-8"))
MUTATIONS = Path(__file__).parent / "drill_mutations"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    servers = Servers(tmp_path_factory.mktemp("servers"))
    yield servers
    servers.stop()


@dataclass(frozen=True)
class Drilled:
    """A project whose target has a catalog of one kind."""

    project: Project
    place: Place
    warehouse: Path

    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*FLOE, "drill", *words, "--target", "it"],
            cwd=self.project.root / "pipelines",
            env={**os.environ, **self.place.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def drill(self, *words: str, **environment: str) -> dict[str, Any]:
        process = self.start(*words, "--json", **environment)
        try:
            output, _ = process.communicate(timeout=600)
        finally:
            kill_group(process)
        document = json.loads(output)
        Draft202012Validator(SCHEMA).validate(document)
        assert process.returncode == (0 if document["ok"] else 10)
        return document  # type: ignore[no-any-return]

    def everything(self) -> dict[str, Any]:
        """Topics, groups, namespaces and files; the topic of results stays."""
        admin = AdminClient({"bootstrap.servers": self.project.bootstrap_servers})
        ours = self.project.prefix
        groups = [g.group_id for g in admin.list_consumer_groups().result(20).valid]
        catalog = load_catalog("default", **self.place.resolved)
        return {
            "topics": sorted(t for t in admin.list_topics(timeout=20).topics if ours in t and t != f"{ours}-drills"),
            "groups": sorted(g for g in groups if ours in g),
            "namespaces": sorted(catalog.list_namespaces()),
            "files": sorted(str(f) for f in self.warehouse.rglob("*") if f.is_file()),
        }


@pytest.fixture(params=["sqlite", "postgres", "rest"])
def drilled(request: pytest.FixtureRequest, tmp_path: Path, broker: Broker, servers: Servers) -> Drilled:
    project = Project(tmp_path, broker.bootstrap_servers)
    place = servers.place(request.param, tmp_path)
    project.write_target(catalog=place.by_reference)
    return Drilled(project, place, Path(place.settings["warehouse"].removeprefix("file://")))


@pytest.fixture
def on_sqlite(tmp_path: Path, broker: Broker, servers: Servers) -> Drilled:
    project = Project(tmp_path, broker.bootstrap_servers)
    place = servers.place("sqlite", tmp_path)
    project.write_target(catalog=place.by_reference)
    return Drilled(project, place, tmp_path / "warehouse")


def test_all_pass_and_leave_nothing_behind(drilled: Drilled) -> None:
    """All six on each catalog; topics, groups, namespaces and files are those of before, and the results are kept."""
    before = drilled.everything()
    document = drilled.drill()
    assert [each["problem"] for each in document["results"]] == [""] * len(Drill)
    assert [each["drill"] for each in document["results"]] == [each.value for each in Drill]
    assert {each["rows"] for each in document["results"]} == {2_000, 4_000}
    assert drilled.everything() == before
    assert drilled.drill("--results")["results"] == document["results"]


@pytest.mark.parametrize("drill", list(Drill), ids=lambda drill: drill.value)
def test_each_fails_without_its_protection(on_sqlite: Drilled, drill: Drill) -> None:
    """With what a drill tries taken out of the code, it fails, and cleans up all the same."""
    before = on_sqlite.everything()
    environment = {"PYTHONPATH": str(MUTATIONS), "FLOE_DRILL_MUTATION": drill.value}
    [result] = on_sqlite.drill(drill.value, **environment)["results"]
    assert (result["passed"], result["code"]) == (False, "FLOE-R191"), result
    print(result["problem"])
    assert result["remedy"].startswith(f"`floe drill {drill.value} -t it`")
    assert on_sqlite.everything() == before


@pytest.mark.parametrize("moment", ["topic", "table"])
def test_what_a_killed_drill_leaves_is_removed(on_sqlite: Drilled, moment: str) -> None:
    """kill -9 of the drill: its processes end by themselves, and `--clean` removes what is left of it, and nothing of others."""
    catalog = load_catalog("default", **on_sqlite.place.resolved)
    catalog.create_namespace("floe_drill_of_somebody")
    AdminClient({"bootstrap.servers": on_sqlite.project.bootstrap_servers})
    before = on_sqlite.everything()
    process = on_sqlite.start("rollback-and-replay")
    try:
        wanted = {"topic": lambda: on_sqlite.everything()["topics"], "table": lambda: on_sqlite.everything()["files"]}
        wait_for(wanted[moment], "the drill's own")
        below = {each.pid for each in descendants(process.pid)}
        kill([process.pid])
        process.wait(30)
        wait_for(lambda: not below & {each.pid for each in processes()}, "the end of its processes", 60)
    finally:
        kill_group(process)
    assert on_sqlite.everything() != before
    on_sqlite.drill("--results")
    assert on_sqlite.drill("--clean") == {"version": 1, "command": "drill", "ok": True, "results": [], "stays": []}
    assert on_sqlite.everything() == before


def test_a_cluster_that_deletes_no_topics_fails_no_drill(tmp_path: Path, servers: Servers) -> None:
    """With `delete.topic.enable=false` a drill passes, says which topics stay, and waits for none; so does the next one."""
    state_dir = tmp_path / "broker"
    broker = stack.up(state_dir, kafka_port=0, broker_config={"delete.topic.enable": "false"})
    try:
        project = Project(tmp_path, broker.bootstrap_servers)
        place = servers.place("sqlite", tmp_path)
        project.write_target(catalog=place.by_reference)
        drilled = Drilled(project, place, tmp_path / "warehouse")
        for _ in range(2):
            [result] = drilled.drill("crash-before-announcement")["results"]
            assert result["passed"]
            topics = [t for t in drilled.everything()["topics"] if result["steps"][-1].count(t)]
            assert len(topics) == 2
            assert result["steps"][-1].endswith("; `floe drill --clean` tries again")
        left = drilled.everything()
        assert (len(left["topics"]), left["groups"], left["namespaces"], left["files"]) == (4, [], [], [])
        assert drilled.drill("--clean")["stays"] == left["topics"]
    finally:
        stack.down(state_dir, wipe=True)
