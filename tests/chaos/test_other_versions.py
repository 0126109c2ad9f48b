"""A run of one version of floe that is killed in the middle is continued by another version, exactly.

The earlier version is taken out of the repository's history and runs beside this one, with the same packages. It has no
compiled modules there, so it reads in Python: what it announces and commits is the same.
"""

from __future__ import annotations

import os
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from tests.chaos.checker import assert_exact, assert_sum_holds
from tests.chaos.harness import crash, fan_out, records
from tests.conftest import Broker
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.chaos, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[2]
EARLIER = "2a66ab6"  # before the protocol's edges were mended and the modules were moved
POINTS = ("files-written", "in-transaction", "announced", "manifests-written", "committed")


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which the command `floe` is the earlier version."""
    tree = tmp_path_factory.mktemp("earlier")
    packed = subprocess.run(["git", "archive", EARLIER, "framework", "schemas"], cwd=ROOT, capture_output=True)
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
