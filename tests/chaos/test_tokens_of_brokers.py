"""A run on a broker whose tokens end while it reads: nothing is lost, nothing twice, and no secret is anywhere.

Tokens are those of an OpenID provider, which librdkafka asks for, and those that AWS's signer makes for Amazon MSK.
"""

from __future__ import annotations

import base64
import os
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from framework.adapters.kafka.reader import FETCH_VARIABLE
from testbed.servers.s3 import SIGNER, client_packages
from tests.chaos.checker import assert_exact, assert_sum_holds
from tests.chaos.harness import Running, fan_out, lands, processes, records
from tests.chaos.written_bytes import files_of, values_of
from tests.project import Project
from tests.token_broker import ACCESS_KEY, CLIENT, REGION, SECRET, SECRET_KEY, TokenBroker

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.chaos, pytest.mark.timeout(1200)]
# The long form: `FLOE_TOKEN_ROUNDS=300` takes ten minutes with tokens of half a minute.
ROUNDS = int(os.environ.get("FLOE_TOKEN_ROUNDS", "25"))
LIFETIME_S = 30.0 if ROUNDS > 100 else 15.0
# Clients of a process share one, and may get it at half of its life.
SIGNED_LIFETIME_S = 30.0
ROUND_S = 1.0
# The commits' interval, a batch, the harness's own looking and a busy machine; a client that lost its broker takes 12 s.
LONGEST_PAUSE_S = 5.0


@dataclass(frozen=True)
class Giver:
    """Who gives tokens: what a target writes of it, how it goes away and comes back, and what must not be seen.

    Args:
        says: what a run shows while there are no tokens.
        tokens: all that were given until now.
    """

    connection: str
    away: Callable[[], None]
    back: Callable[[], None]
    says: str
    tokens: Callable[[], Iterable[str]]
    secrets: tuple[str, ...]


def _provider(broker: TokenBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Giver:
    monkeypatch.setenv("BROKER_TOKEN_SECRET", SECRET)
    settings = broker.settings("${secret:env:BROKER_TOKEN_SECRET}")
    return Giver(
        connection="".join(f'      {key}: "{value}"\n' for key, value in settings.items()),
        away=lambda: setattr(broker.identity, "status", 401),
        back=lambda: setattr(broker.identity, "status", 200),
        says="is shut out",
        tokens=lambda: broker.identity.issued,
        secrets=(SECRET, base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()),
    )


def _aws(broker: TokenBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Giver:
    """Keys in AWS's own file, which each token is signed from; the signer's fifteen minutes are half of one."""
    packages, keys = tmp_path / "packages", tmp_path / "aws" / "credentials"
    keys.parent.mkdir()
    keys.write_text(f"[default]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n")
    shutil.copytree(client_packages() / SIGNER, packages / SIGNER)
    module = packages / SIGNER / "MSKAuthTokenProvider.py"
    assert "SECONDS = 900" in module.read_text()
    module.write_text(module.read_text().replace("SECONDS = 900", f"SECONDS = {SIGNED_LIFETIME_S:.0f}"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(packages), str(client_packages())]))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(keys))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    auth = f"{{type: msk_iam, msk_iam: {{region: {REGION}}}}}"
    lines = (f'bootstrap.servers: "{broker.address}"', "security.protocol: sasl_plaintext", f"auth: {auth}")
    return Giver(
        connection="".join(f"      {line}\n" for line in lines),
        away=lambda: (keys.rename(keys.with_name("hidden")), None)[1],
        back=lambda: (keys.with_name("hidden").rename(keys), None)[1],
        says="no credentials were found",
        tokens=lambda: broker.msk.seen,
        secrets=(SECRET_KEY,),
    )


@pytest.mark.failure("F35")
@pytest.mark.parametrize("kind", ["provider", "provider-read-in-python", "aws"])
def test_tokens_end_beside_a_run(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection whose token ends is closed by the broker. Driver, coordinator, executors and the commands that look at a run
    bring a new one in time: each round of records is in the tables within a commit's interval and a batch. Who gives tokens is
    away for a while: the run waits, says so, and goes on. Neither a secret nor a token is in a file, an event, an output or a
    command line."""
    broker = TokenBroker(tmp_path / "tokens", LIFETIME_S, msk=kind == "aws")
    try:
        giver = (_aws if kind == "aws" else _provider)(broker, tmp_path, monkeypatch)
        if kind == "provider-read-in-python":
            monkeypatch.setenv(FETCH_VARIABLE, "python")
        _run_while_tokens_end(broker, giver, Project(tmp_path / "project", broker.plain.bootstrap_servers))
    finally:
        broker.stop()


def _run_while_tokens_end(broker: TokenBroker, giver: Giver, project: Project) -> None:
    target = project.root / "pipelines" / "targets" / "it.yaml"
    old = f'      bootstrap.servers: "{broker.plain.bootstrap_servers}"\n'
    assert old in target.read_text()
    target.write_text(target.read_text().replace(old, giver.connection))
    topic = broker.plain.new_topic("tokens", partitions=2)
    file = project.pipeline("tokens", fan_out(topic))
    shown = [project.run("plan", file, code=None), project.run("doctor", file, "--no-spark", code=None)]
    commands: set[str] = set()
    pauses: list[float] = []
    with Running(project, "run", file) as run:
        for number in range(ROUNDS):
            broker.plain.produce(topic, records(50, start=50 * number))
            produced = time.monotonic()
            lands(project, 50 * (number + 1), run)
            pauses.append(time.monotonic() - produced)
            commands |= {process.command for process in processes()}
            if number == ROUNDS // 2:
                shown += [project.run("status", code=None), project.run("offsets", "show", "tokens", code=None)]
            time.sleep(ROUND_S)
        assert "WARNING" not in run.output, run.output
        giver.away()
        run.wait_for_output(giver.says)
        shown.append(project.run("status", code=None))
        time.sleep(SIGNED_LIFETIME_S)
        assert run.running, run.output
        giver.back()
        broker.plain.produce(topic, records(50, start=50 * ROUNDS))
        lands(project, 50 * (ROUNDS + 1), run)
        shown += [project.run("log", code=None), project.run("doctor", file, "--no-spark", code=None)]
        assert run.terminate() == 0, run.output
        shown.append(run.output)
    assert_exact(project.catalog(), broker.plain.bootstrap_servers, [topic])
    assert_sum_holds(project.status(), "tokens", 50 * (ROUNDS + 1))
    assert max(pauses[1:]) < LONGEST_PAUSE_S, pauses
    tokens = tuple(giver.tokens())
    assert len(tokens) > ROUNDS * ROUND_S / LIFETIME_S
    assert "Traceback" not in run.output
    needles = [each.encode() for each in (*giver.secrets, *tokens)]
    said = {"what was printed": "\n".join(shown).encode(), "command lines": "\n".join(commands).encode()}
    said |= {"the control topic": b"\n".join(values_of(broker.plain, project.control_topic))}
    assert len(said["the control topic"]) > 1000
    said |= {str(path): path.read_bytes() for path in files_of(project.root)}
    assert len(said) > 20
    assert {place for place, text in said.items() for needle in needles if needle in text} == set()
