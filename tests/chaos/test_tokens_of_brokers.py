"""A run on a broker whose tokens end while it reads: nothing is lost, nothing twice, and no secret is anywhere."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.adapters.kafka.reader import FETCH_VARIABLE
from tests.chaos.checker import assert_exact, assert_sum_holds
from tests.chaos.harness import Running, fan_out, lands, processes, records
from tests.chaos.written_bytes import files_of, values_of
from tests.project import Project
from tests.token_broker import CLIENT, SECRET, TokenBroker

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.chaos, pytest.mark.timeout(1200)]
# The long form: `FLOE_TOKEN_ROUNDS=300` takes ten minutes with tokens of half a minute.
ROUNDS = int(os.environ.get("FLOE_TOKEN_ROUNDS", "25"))
LONG = ROUNDS > 100
LIFETIME_S = 30.0 if LONG else 15.0
ROUND_S = 1.0
# The commits' interval, a batch and the harness's own looking.
LONGEST_PAUSE_S = 5.0


@pytest.fixture(scope="module")
def token_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenBroker]:
    broker = TokenBroker(tmp_path_factory.mktemp("tokens"), LIFETIME_S)
    try:
        yield broker
    finally:
        broker.stop()


def write_settings(project: Project, broker: TokenBroker, settings: dict[str, str]) -> None:
    """The target's connection gets these settings; the client's secret is a reference."""
    file = project.root / "pipelines" / "targets" / "it.yaml"
    old = f'      bootstrap.servers: "{broker.plain.bootstrap_servers}"\n'
    assert old in file.read_text()
    file.write_text(
        file.read_text().replace(old, "".join(f'      {key}: "{value}"\n' for key, value in settings.items()))
    )


@pytest.mark.parametrize("reader", ["compiled", "python"])
def test_tokens_end_beside_a_run(
    tmp_path: Path, token_broker: TokenBroker, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection whose token ends is closed by the broker. Driver, coordinator, executors and the commands that look at a run
    bring a new one in time: each round of records is in the tables within a commit's interval and a batch. The provider is away
    for a while: the run waits, says so, and goes on. Neither the client's secret nor a token is in a file, an event, an output
    or a command line."""
    monkeypatch.setenv("BROKER_TOKEN_SECRET", SECRET)
    if reader == "python":
        monkeypatch.setenv(FETCH_VARIABLE, "python")
    identity = token_broker.identity
    project = Project(tmp_path / "project", token_broker.plain.bootstrap_servers)
    write_settings(project, token_broker, token_broker.settings("${secret:env:BROKER_TOKEN_SECRET}"))
    topic = token_broker.plain.new_topic("tokens", partitions=2)
    file = project.pipeline("tokens", fan_out(topic))
    shown = [project.run("plan", file, code=None), project.run("doctor", file, "--no-spark", code=None)]
    commands: set[str] = set()
    pauses: list[float] = []
    with Running(project, "run", file) as run:
        for number in range(ROUNDS):
            token_broker.plain.produce(topic, records(50, start=50 * number))
            produced = time.monotonic()
            lands(project, 50 * (number + 1), run)
            pauses.append(time.monotonic() - produced)
            commands |= {process.command for process in processes()}
            if number == ROUNDS // 2:
                shown += [project.run("status", code=None), project.run("offsets", "show", "tokens", code=None)]
            time.sleep(ROUND_S)
        identity.status = 401
        run.wait_for_output("is shut out")
        shown.append(project.run("status", code=None))
        time.sleep(LIFETIME_S + 5)
        assert run.running, run.output
        identity.status = 200
        token_broker.plain.produce(topic, records(50, start=50 * ROUNDS))
        lands(project, 50 * (ROUNDS + 1), run)
        shown += [project.run("log", code=None), project.run("doctor", file, "--no-spark", code=None)]
        assert run.terminate() == 0, run.output
        shown.append(run.output)
    assert_exact(project.catalog(), token_broker.plain.bootstrap_servers, [topic])
    assert_sum_holds(project.status(), "tokens", 50 * (ROUNDS + 1))
    print("pauses", sorted(round(each, 2) for each in pauses))
    assert max(pauses[1:]) < LONGEST_PAUSE_S, pauses
    assert len(identity.issued) > ROUNDS * ROUND_S / LIFETIME_S * 3
    assert "Traceback" not in run.output
    basic = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
    needles = [each.encode() for each in (SECRET, basic, *identity.issued)]
    said = {"what was printed": "\n".join(shown).encode(), "command lines": "\n".join(commands).encode()}
    said |= {"the control topic": b"\n".join(values_of(token_broker.plain, project.control_topic))}
    assert len(said["the control topic"]) > 1000
    said |= {str(path): path.read_bytes() for path in files_of(project.root)}
    assert len(said) > 20
    assert {place for place, text in said.items() for needle in needles if needle in text} == set()
