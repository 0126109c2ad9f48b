"""A run on a REST catalog whose tokens end every few seconds: nothing is lost, nothing twice, and no secret is anywhere."""

from __future__ import annotations

import base64
import time

import pytest

from tests.chaos.checker import assert_exact, assert_sum_holds
from tests.chaos.conftest import ProxiedCatalog
from tests.chaos.harness import Running, fan_out, lands, processes, records
from tests.chaos.written_bytes import files_of, values_of
from tests.conftest import Broker
from tests.iceberg.catalog_door import SECRET, Door
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.chaos, pytest.mark.timeout(1200)]
ROUNDS = 16


@pytest.mark.failure("F35", "F08")
def test_tokens_end_beside_a_run(
    project: Project, broker: Broker, rest_catalog: ProxiedCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens live for three seconds, are revoked twice, and are not to be had for a while: commits go on or wait, the reason is
    shown without a traceback, every record lands once. Neither the client's secret nor any token is in a file, an event, an
    output or a command line."""
    server = rest_catalog.server
    door = Door(server.port)
    try:
        door.tokens.lifetime_s = 3
        monkeypatch.setenv("CHAOS_CATALOG_SECRET", SECRET)
        auth = {
            "client_id": "floe",
            "client_secret": "${secret:env:CHAOS_CATALOG_SECRET}",
            "token_url": door.tokens.uri,
        }
        project.catalog_settings = server.settings()
        project.write_target(catalog={**server.settings(door.proxy.uri), "auth": {"type": "oauth2", "oauth2": auth}})
        topic = broker.new_topic("tokens", partitions=2)
        file = project.pipeline("tokens", fan_out(topic))
        shown = [project.run("plan", file, code=None)]
        commands: set[str] = set()
        with Running(project, "run", file) as run:
            for number in range(ROUNDS):
                broker.produce(topic, records(50, start=50 * number))
                if number in (4, 9):
                    door.tokens.revoke()
                if number == 6:
                    door.tokens.status = 401
                    door.tokens.revoke()
                    run.wait_for_output("invalid_client")
                    shown.append(project.run("status", code=None))
                    time.sleep(3)
                    assert run.running
                    door.tokens.status = 200
                lands(project, 50 * (number + 1), run)
                commands |= {process.command for process in processes()}
                time.sleep(1)
            shown.append(project.run("doctor", file, "--no-spark", code=None))
            shown.append(project.run("log", code=None))
            assert run.terminate() == 0, run.output
            shown.append(run.output)
        assert_exact(project.catalog(), broker.bootstrap_servers, [topic])
        assert_sum_holds(project.status(), "tokens", 50 * ROUNDS)
        assert len(door.tokens.issued) > ROUNDS
        assert "Traceback" not in run.output
        basic = base64.b64encode(f"floe:{SECRET}".encode()).decode()
        needles = [each.encode() for each in (SECRET, basic, *door.tokens.issued)]
        said = {"what was printed": "\n".join(shown).encode(), "command lines": "\n".join(commands).encode()}
        said |= {"the control topic": b"\n".join(values_of(broker, project.control_topic))}
        assert len(said["the control topic"]) > 1000
        said |= {str(path): path.read_bytes() for path in files_of(project.root)}
        assert len(said) > 20
        assert {place for place, text in said.items() for needle in needles if needle in text} == set()
    finally:
        door.close()
