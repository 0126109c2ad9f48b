"""`floe deploy` on a real broker: what is started, left alone, restarted and stopped. The whole of it with Spark is in
tests/spark/test_deploy.py; here a stand-in takes the place of spark-submit."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from framework.cli.main import run_main
from tests.chaos.harness import descendants, kill, wait_for
from tests.conftest import Broker
from tests.project import Project

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.iceberg]

ROOT = Path(__file__).parents[2]
PIPELINE = """
    source: {{kafka: {{connection: main, topics: [{topic}]}}}}
    routes: {{rules: [{{table: shop.{name}}}], unrouted: fail, allow_tables: ["shop.*"]}}
    tables: {{defaults: {{commit: {{interval: 1s}}}}}}
    errors: {{policy: fail}}
"""


class Deployment:
    """A project whose folder is rolled out by commands in this process; what they start are processes of their own."""

    def __init__(self, project: Project, capsys: pytest.CaptureFixture[str]) -> None:
        self.project = project
        self._capsys = capsys

    def floe(self, *words: str, code: int = 0) -> str:
        found = run_main([*words, "--target", "it"])
        captured = self._capsys.readouterr()
        assert found == code, captured.out + captured.err
        return captured.out + captured.err

    def deploy(self, *words: str) -> dict[str, str]:
        output = self.floe("deploy", "pipelines", *words, "--json")
        steps = json.loads(output[output.index("{\n") : output.rindex("}") + 1])["steps"]
        return {step["application"]: step["action"] for step in steps}

    def status(self, code: int = 0) -> dict[str, Any]:
        shown = json.loads(self.floe("deploy", "--status", "--json", code=code))["applications"]
        return {one["application"]: one for one in shown}


@pytest.fixture
def deployment(
    tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Deployment]:
    home = tmp_path / "spark"
    (home / "bin").mkdir(parents=True)
    submit = home / "bin" / "spark-submit"
    submit.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("stand_in_submit.py")} "$@"\n')
    submit.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    found = Deployment(Project(tmp_path, broker.bootstrap_servers), capsys)
    try:
        yield found
    finally:
        run_main(["deploy", "--stop", "--target", "it"])


def test_only_what_changed_is_touched(deployment: Deployment, broker: Broker) -> None:
    """A folder is rolled out, again, with one file changed, without one, and all in one application; each time only
    what is different is drained and started, and what was told on the control topic is what runs."""
    topic, project = broker.new_topic("deploy"), deployment.project
    for name in ("orders", "refunds"):
        project.pipeline(name, PIPELINE.format(topic=topic, name=name))

    assert deployment.deploy("--dry-run") == {"orders": "start", "refunds": "start"}
    assert deployment.status() == {}
    assert deployment.deploy() == {"orders": "start", "refunds": "start"}
    first = deployment.status()
    assert {one["state"] for one in first.values()} == {"running"}
    assert deployment.deploy() == {"orders": "keep", "refunds": "keep"}

    changed = PIPELINE.format(topic=topic, name="refunds").replace("interval: 1s", "interval: 2s")
    file = project.pipeline("refunds", changed)
    assert deployment.deploy() == {"orders": "keep", "refunds": "restart"}
    second = deployment.status()
    assert second["orders"] == first["orders"]
    assert second["refunds"]["pid"] != first["refunds"]["pid"]
    assert "unchanged since" in deployment.floe("plan", str(file))

    file.unlink()
    assert "pipeline refunds of deployment pipelines" in deployment.floe("plan", "pipelines", code=2)
    assert "pipeline refunds of deployment pipelines" in deployment.floe("diff", "pipelines")
    assert "removed" not in deployment.floe("diff", "pipelines/orders.yaml")
    assert "FLOE-P108" in deployment.floe("deploy", "pipelines", code=2)
    assert deployment.status() == second
    assert deployment.deploy("--allow-remove", "--together") == {
        "orders": "stop",
        "refunds": "stop",
        "pipelines": "start",
    }
    assert "pipelines: ended with 0" in deployment.floe("deploy", "--stop")
    assert deployment.status()["pipelines"]["state"] == "ended"


def test_one_that_does_not_start_is_reported_with_the_end_of_its_log(deployment: Deployment, broker: Broker) -> None:
    """A driver that ends before it runs fails the deployment, and the log's last lines are shown."""
    root = deployment.project.root
    (root / "spark" / "bin" / "spark-submit").write_text("#!/bin/sh\necho no cluster here\nexit 2\n")
    deployment.project.pipeline("orders", PIPELINE.format(topic=broker.new_topic("never"), name="orders"))
    output = deployment.floe("deploy", "pipelines", code=1)
    assert "FLOE-R411" in output
    assert "\n  | no cluster here\n" in output
    assert "\\n" not in output
    assert deployment.status(code=1)["orders"]["exit_code"] == 2


def test_what_vanished_is_deployed_again(deployment: Deployment, broker: Broker) -> None:
    """The machine of a deployed pipeline is gone: `floe status` shows the command that starts it again, and it does, as typed."""
    deployment.project.pipeline("orders", PIPELINE.format(topic=broker.new_topic("vanished"), name="orders"))
    deployment.deploy()
    before = deployment.status()["orders"]
    kill([before["pid"], *(each.pid for each in descendants(before["pid"]))])

    def remedy() -> str:
        return " ".join(
            each["remedy"] for each in deployment.project.status()["pipelines"] if "floe deploy" in each["remedy"]
        )

    [command] = re.findall("`(floe deploy [^`]+)`", wait_for(remedy, "the end of the run"))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command], env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, f"`{command}` ended with {done.returncode}\n{done.stdout}{done.stderr}"
    after = deployment.status()["orders"]
    assert (after["state"], after["pid"] != before["pid"]) == ("running", True)
