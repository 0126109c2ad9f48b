"""A run of another version of floe is killed in the middle and continued by this one, and the other way round.

`FLOE_OTHER` names the Python of the other version's environment: the commit before an upgrade, say. Both run the same
pipelines, one that appends and one that upserts, with one control topic.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.chaos.harness import fan_out, records
from tests.conftest import Broker
from tests.project import FLOE, Project, kill_group

OTHER = os.environ.get("FLOE_OTHER", "")
pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.iceberg,
    pytest.mark.slow,
    pytest.mark.skipif(not OTHER, reason="FLOE_OTHER names no Python of another version"),
]

UPSERTS = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      schema: {{id: {{type: long}}, n: {{type: long}}, op: {{type: string}}}}
    routes: {{rules: [{{table: shop.keys}}], allow_tables: ["shop.*"]}}
    tables:
      defaults:
        write: {{mode: upsert, key: [id], delete_when: {{field: op, equals: d}}}}
        commit: {{interval: 1ms}}
    errors: {{policy: dead_letter, dead_letter_table: shop.dead_letters}}
"""
POINTS = (
    "records-written",
    "files-written",
    "in-transaction",
    "announced",
    "before-commit",
    "manifests-written",
    "committed",
    "progress-published",
    "low-water-stored",
)
KEYS, SIZE = 40, 120


class Versions:
    """Two pipelines of one project, run by one version or by the other."""

    def __init__(self, root: Path, broker: Broker) -> None:
        self.project = Project(root, broker.bootstrap_servers)
        self.broker = broker
        self.appended, self.changed = broker.new_topic("appended"), broker.new_topic("changed")
        appends = self.project.pipeline("appends", fan_out(self.appended, interval="1ms"))
        self.files = [appends, self.project.pipeline("upserts", UPSERTS.format(topic=self.changed))]
        self.made = 0
        self.keys: dict[int, int] = {}

    def produce(self) -> None:
        first = self.made
        self.made += SIZE
        self.broker.produce(self.appended, records(SIZE, first))
        changes = []
        for n in range(first, self.made):
            key, gone = n * 7 % KEYS, n % 11 == 0
            changes.append({"id": key, "n": n, "op": "d" if gone else "u"})
            self.keys.pop(key, None)
            self.keys |= {} if gone else {key: n}
        self.broker.produce(self.changed, changes)

    def run(self, is_other: bool, fault: str = "") -> tuple[int, str]:
        python = OTHER if is_other else FLOE[0]
        words = [python, *FLOE[1:], "run", *map(str, self.files), "--target", "it", "--until-caught-up"]
        process = subprocess.Popen(
            words, cwd=self.project.root, env={**os.environ, "FLOE_FAULT": fault}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=240)
        finally:
            kill_group(process)
        return process.returncode, output

    def check(self) -> None:
        """Each record is a row once, and each key has its newest change."""
        ids = [i for n in range(3) for i in self.project.table(f"shop.t_k{n:02}").column("id").to_pylist()]
        assert sorted(ids) == [*range(self.made)]
        rows = self.project.table("shop.keys").to_pylist()
        assert sorted((row["id"], row["n"]) for row in rows) == sorted(self.keys.items())


@pytest.fixture
def versions(tmp_path: Path, broker: Broker) -> Versions:
    return Versions(tmp_path, broker)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("point", POINTS)
def test_each_version_goes_on_where_the_other_was_killed(versions: Versions, point: str) -> None:
    """The other version begins, is killed at a point of its second batch or commit, and this one goes on; this one is killed
    at the same point, and the other goes on: no record is lost or there twice, and each key has its newest change."""
    versions.produce()
    code, output = versions.run(is_other=True)
    assert code == 0, output
    versions.check()
    for killed_is_other in (True, False):
        versions.produce()
        code, output = versions.run(killed_is_other, f"{point}=kill")
        assert "Traceback" not in output, output
        assert code != 0 or point == "records-written", f"nothing was killed at {point}\n{output}"
        code, output = versions.run(not killed_is_other)
        if code != 0:  # to the broker the killed run may be alive for some seconds more
            code, output = versions.run(not killed_is_other)
        assert code == 0, output
        versions.check()
