"""`floe ops --notify` on a real broker and catalog, with receivers that answer over HTTP."""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from framework.cli.main import run_main
from framework.commit.events.event_types import Health
from framework.commit.machine.reporting.condition import Condition
from framework.errors import FloeError
from framework.observe.live.notifier import LOOK_EVERY_S, Notifier, SentFile, read_receivers
from framework.overview.values import BrokerSeen, Overview, ScreenProblem
from tests.chaos.harness import Running, wait_for
from tests.recovery.conftest import HandRun

pytestmark = [pytest.mark.kafka, pytest.mark.iceberg]
SLACK, KEY = "/services/T0/B0/path-of-slack", "key-of-pagerduty-0000"


@dataclass
class Receivers:
    """Slack and PagerDuty: what each took. The first `refused` requests of each get 500."""

    refused: int = 2
    taken: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)

    def start(self) -> ThreadingHTTPServer:
        receivers = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                assert self.headers["Content-Type"] == "application/json"
                receivers.asked[self.path] = receivers.asked.get(self.path, 0) + 1
                is_taken = receivers.asked[self.path] > receivers.refused
                if is_taken:
                    receivers.taken.setdefault(self.path, []).append(body)
                self.send_response(200 if is_taken else 500)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server


def receivers_file(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "receivers"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_trouble_and_its_end_come_once(hand: HandRun) -> None:
    """Also where the first posts are refused, and where the trouble ends while nobody looks; the address of neither is
    printed."""
    hand.announce(9, 9)
    hand.commit()
    hand.project.catalog().drop_table(hand.names[0])
    hand.announce(30, 30)
    with suppress(FloeError):
        hand.commit()
    receivers = Receivers()
    server = receivers.start()
    at = f"http://127.0.0.1:{server.server_address[1]}"
    file = receivers_file(hand.project.root, f"# who is on call\nslack {at}{SLACK}\npagerduty {KEY} {at}/v2/enqueue\n")
    options = ("--control-topic", hand.control_topic)
    with Running(hand.project, "ops", *options, "--listen", "127.0.0.1:0", "--notify", file) as run:
        wait_for(lambda: len(receivers.taken) == 2, "the notifications", 60)
        threading.Event().wait(3 * LOOK_EVERY_S)
        [[said], [event]] = receivers.taken[SLACK], receivers.taken["/v2/enqueue"]
        assert said["text"].startswith(f"[it] BLOCKED: table {hand.names[0]}: ")
        assert f"floe discard --table {hand.names[0]} --dry-run -t it" in said["text"]
        assert (event["event_action"], event["routing_key"]) == ("trigger", KEY)
        assert (event["payload"]["severity"], event["payload"]["class"]) == ("critical", "FLOE-R110")
    memory = file.with_name("receivers.sent")
    assert memory.stat().st_mode & 0o777 == 0o600
    assert not any(secret in memory.read_text() for secret in (SLACK, KEY, at))
    hand.floe("discard", "--table", hand.names[0], *options)
    hand.commit()
    with Running(hand.project, "ops", *options, "--listen", "127.0.0.1:0", "--notify", file) as again:
        wait_for(lambda: all(len(taken) == 2 for taken in receivers.taken.values()), "their end", 60)
        assert receivers.taken[SLACK][1]["text"] == f"[it] over: table {hand.names[0]} was BLOCKED"
        end = receivers.taken["/v2/enqueue"][1]
        assert (end["event_action"], end["dedup_key"]) == ("resolve", event["dedup_key"])
    server.shutdown()
    for line, kind in ((2, "slack"), (3, "pagerduty")):
        failed = f"receiver {kind} of line {line} did not take a notification: the server answers 500; trying again"
        assert run.output.count(failed) == 1, run.output
        assert f"receiver {kind} of line {line} takes notifications again" in run.output
    assert not any(secret in run.output + again.output for secret in (SLACK, KEY, at))


MEMORY = {"version": 1, "target": "it", "control_topic": "c"}
OF_RECEIVER = [["table", "shop.t", "BLOCKED", "FLOE-R110"]]


@pytest.mark.parametrize(
    ("memory", "mode", "is_sent", "said"),
    [
        (None, 0o600, True, ""),
        (MEMORY, 0o600, False, ""),
        (MEMORY | {"control_topic": "other"}, 0o600, True, ""),
        (MEMORY | {"version": 2}, 0o600, True, ""),
        (MEMORY, 0o644, True, "may be read or written by others"),
        ([], 0o600, True, "it holds something else"),
        (MEMORY | {"receivers": []}, 0o600, True, "it holds something else"),
    ],
)
def test_what_was_sent_is_known_to_the_next_process(
    tmp_path: Path, memory: dict[str, Any] | list[Any] | None, mode: int, is_sent: bool, said: str
) -> None:
    """It says nothing again, whatever it says itself of what it finds; what is not private, of another control topic or
    something else counts as nothing."""
    receivers = Receivers(refused=0)
    server = receivers.start()
    text = f"slack http://127.0.0.1:{server.server_address[1]}{SLACK}\n"
    file = receivers_file(tmp_path, text)
    [receiver] = read_receivers(file)
    if memory is not None:
        found = {"receivers": {receiver.digest: OF_RECEIVER}} | memory if isinstance(memory, dict) else memory
        (tmp_path / "receivers.sent").write_text(json.dumps(found))
        (tmp_path / "receivers.sent").chmod(mode)
    lines: list[str] = []
    condition = Condition(Health.BLOCKED, "why", "", "FLOE-R110")
    seen = Overview(1, 0, "it", "c", BrokerSeen(), 0, (), (), (ScreenProblem("table", "shop.t", condition),), (), ())
    now = [seen]
    sent_file = SentFile(file, "it", "c", lines.append)
    notifier = Notifier([receiver], lambda: now[0], lines.append, 0.05, sent_file)
    notifier.start()
    if is_sent:
        wait_for(lambda: receivers.taken.get(SLACK), "the trouble", 20)
    threading.Event().wait(0.3)
    assert len(receivers.taken.get(SLACK, [])) == is_sent
    assert any(said in line for line in lines) if said else not lines
    now[0] = replace(seen, broker=BrokerSeen(trouble="no answer"), troubles=())
    wait_for(lambda: any("DOWN" in body["text"] for body in receivers.taken.get(SLACK, [])), "the broker", 20)
    assert not any("over" in body["text"] for body in receivers.taken.get(SLACK, []))
    now[0] = replace(seen, troubles=())
    wait_for(lambda: sum("over" in body["text"] for body in receivers.taken[SLACK]) == 2, "table and broker", 20)
    notifier.close()
    server.shutdown()
    assert json.loads((tmp_path / "receivers.sent").read_text())["receivers"][receiver.digest] == []


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        ("slack https://x/path-of-slack\n", 0o644, "may be read or written by others"),
        ("slack path-of-slack\n", 0o600, "line 1 of the file of receivers names none"),
        ("\nslack https://x/path-of-slack more\n", 0o600, "line 2 of"),
        ("# none\n", 0o600, "names none"),
        ("teams https://x/path-of-slack\n", 0o600, "line 1 of"),
    ],
)
def test_a_file_that_is_no_good_is_refused_by_line(
    text: str, mode: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is asked, and without what the line holds."""
    assert run_main(["ops", "--notify", str(receivers_file(tmp_path, text, mode))]) == 3
    printed = capsys.readouterr().err
    assert "FLOE-E040" in printed
    assert said in printed
    assert "path-of-slack" not in printed


def test_a_pipe_in_the_place_of_a_file_is_refused_at_once(tmp_path: Path) -> None:
    """Nobody writes into it, and `floe ops` waits for nobody."""
    os.mkfifo(tmp_path / "receivers", 0o600)
    assert run_main(["ops", "--notify", str(tmp_path / "receivers")]) == 3
    os.mkfifo(tmp_path / "of.sent", 0o600)
    lines: list[str] = []
    SentFile(tmp_path / "of", "it", "c", lines.append).recall([])
    assert "it is no plain file" in lines[0]
