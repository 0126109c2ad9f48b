"""`floe ops` as a process on a real broker: what it says is what the log and `floe status` say, and acts have an author."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from framework.adapters.kafka.control.log import ControlPublisher
from framework.adapters.kafka.control.presence import Presence
from framework.commit.events.event_types import Deployed, PauseChanged, StopRequested
from framework.observe.liveness import live_members
from framework.plan.canonical import plan_value
from tests.chaos.harness import wait_for
from tests.recovery.conftest import HandRun

pytestmark = [pytest.mark.kafka, pytest.mark.iceberg]
READER, ACTOR = "read-token-of-these-tests-000", "act-token-of-these-tests-0000"


@contextmanager
def ops(root: Path, control_topic: str, *arguments: str) -> Iterator[str]:
    """The verb in a process of its own; its address."""
    command = [sys.executable, "-m", "framework.cli.main", "ops", "--target", "it"]
    process = subprocess.Popen(
        [*command, "--control-topic", control_topic, *arguments],
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        found = re.search(r"the page is at (http://\S+)/", line)
        assert found is not None, line + process.stderr.read()
        yield found[1]
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 128 + signal.SIGTERM
        process.stderr.close()


def ask(url: str, path: str, method: str = "GET", token: str = ACTOR, **more: Any) -> Any:
    answer = requests.request(method, url + path, headers={"Authorization": f"Bearer {token}"}, timeout=60, **more)
    assert answer.status_code < 300, answer.text
    return answer.json() if answer.content else None


def test_the_page_agrees_with_the_log_and_acts_have_an_author(hand: HandRun) -> None:
    """Tables, rows that wait, snapshots and offsets are those of `floe status`, to the record, and follow the log; a pause
    is the event of `floe pause` with the token's name and the reason; the configuration is what the run told."""
    hand.announce(9, 9)
    hand.commit()
    hand.announce(30, 27)
    publisher = ControlPublisher(hand.kafka, hand.control_topic)
    publisher.publish((Deployed("hand", "run-1", "sha256:1", plan_value(hand.plan), "0.1.0", int(time.time() * 1000)),))
    publisher.close()
    tokens = hand.project.root / "tokens"
    tokens.write_text(f"rita read {READER}\nann act {ACTOR}\n")
    tokens.chmod(0o600)
    options = ("--control-topic", hand.control_topic)
    named = ("--allow-host", "floe.example.com")
    with ops(hand.project.root, hand.control_topic, "--listen", "0.0.0.0:0", "--tokens", str(tokens), *named) as url:
        assert requests.get(url, headers={"Host": "floe.example.com"}, timeout=20).status_code == 200
        assert requests.get(f"{url}/v1/overview", timeout=20).status_code == 401
        status = json.loads(hand.floe("status", "--json", *options))
        tables = {each["table"]: each for each in ask(url, "/v1/tables", token=READER)["tables"]}
        assert set(tables) == set(hand.names)
        for each in status["tables"]:
            found = tables[each["table"]]
            assert (found["state"], found["waiting"]["rows"]) == (each["state"], each["pending"]["rows"])
            whole = ask(url, f"/v1/tables/{each['table']}")
            assert whole["snapshot_id"] == each["last_commit"]["snapshot_id"]
        [pipeline] = status["pipelines"]
        offsets = ask(url, "/connectors/hand/offsets")["offsets"]
        assert (
            {(each["partition"]["kafka_partition"], each["offset"]["kafka_offset"]) for each in offsets}
            == {(each["partition"], each["safe_offset"]) for each in pipeline["partitions"]}
            == {(0, 30), (1, 27)}
        )
        assert ask(url, "/connectors/hand/status")["floe"]["lag"] == pipeline["lag"] == 60 - 30 + 60 - 27

        config = ask(url, "/connectors/hand/config")
        assert config["connector.class"] == "floe"
        assert config["floe.hash"] == "sha256:1"
        assert hand.topic in " ".join(config.values())
        assert hand.kafka["bootstrap.servers"] not in json.dumps(config)

        hand.commit()
        wait_for(
            lambda: all(not each["waiting"]["rows"] for each in ask(url, "/v1/tables")["tables"]),
            "the commit to be seen",
            30,
        )

        ask(url, "/connectors/hand/pause?why=INC-7", "PUT")
        refused = requests.put(
            f"{url}/connectors/hand/resume", headers={"Authorization": f"Bearer {READER}"}, timeout=20
        )
        assert refused.status_code == 403
        wait_for(lambda: ask(url, "/v1/overview")["acts"], "the act", 30)
        [act] = ask(url, "/v1/overview")["acts"]
        assert (act["act"], act["by"], act["why"]) == ("pause", "ann", "INC-7")
        [pause] = json.loads(hand.floe("status", "--json", *options))["pauses"]
        assert (pause["by"], pause["reason"], pause["pattern"]) == ("ann", "INC-7", "hand")
        ask(url, "/connectors/hand/resume?why=done", "PUT")
        log = [event for event in hand.log() if isinstance(event, PauseChanged)]
        assert [(e.paused, e.by, e.reason) for e in log] == [(True, "ann", "INC-7"), (False, "ann", "done")]
        assert json.loads(hand.floe("status", "--json", *options))["pauses"] == []


def test_without_tokens_this_machine_reads_and_nobody_acts(hand: HandRun) -> None:
    """On loopback the page is there at once, with its data; a name that is not this machine's is refused."""
    hand.announce(3, 3)
    with ops(hand.project.root, hand.control_topic, "--listen", "127.0.0.1:0") as url:
        assert hand.names[0] in requests.get(url, timeout=20).text
        assert requests.put(f"{url}/connectors/hand/pause", timeout=20).status_code == 403
        assert requests.get(url, headers={"Host": "evil.example.com"}, timeout=20).status_code == 421


def test_who_stops_over_rest_asks_the_live_run(hand: HandRun) -> None:
    """202 while a run is live, with the token's name and the reason in the request that the run reads; the run ends, and then
    there is nothing to stop: 409."""
    hand.announce(3, 3)
    tokens = hand.project.root / "tokens"
    tokens.write_text(f"ann act {ACTOR}\n")
    tokens.chmod(0o600)
    presence = Presence(hand.kafka, hand.plan.read.group_id, [hand.topic], "run-1")
    wait_for(lambda: live_members(hand.admin, hand.project.prefix, "hand"), "the run")
    with ops(hand.project.root, hand.control_topic, "--listen", "127.0.0.1:0", "--tokens", str(tokens)) as url:
        assert ask(url, "/connectors/hand/stop?why=INC-9", "PUT") is None
        [request] = [event for event in hand.log() if isinstance(event, StopRequested)]
        assert (request.pipeline, request.by, request.reason) == ("hand", "ann", "INC-9")
        presence.close()
        bearer = {"Authorization": f"Bearer {ACTOR}"}
        wait_for(lambda: not live_members(hand.admin, hand.project.prefix, "hand"), "its end")
        assert requests.put(f"{url}/connectors/hand/stop", headers=bearer, timeout=60).status_code == 409


def test_the_page_is_there_before_the_first_run(hand: HandRun) -> None:
    """With a control topic that nobody has made yet: the probe is answered, the page says what is missing, and no screen says
    that all is well."""
    with ops(hand.project.root, "made-by-the-first-run", "--listen", "127.0.0.1:0") as url:
        assert requests.get(f"{url}/healthz", timeout=20).text == "ok\n"
        page = requests.get(url, timeout=20)
        assert page.status_code == 200
        assert "made-by-the-first-run" in page.text
        assert "Nothing is in trouble" not in page.text
