"""Each command that `floe status` and the page show as a remedy works as typed, in the state that it is shown for.

In: a state, planted on a real broker and catalog, and what `floe status` shows of it. Out: the command in a shell, with nothing
filled in by hand, its exit code, and a state that has ended where the command ends it. The commands are listed from the code: one
that no test types fails here.
"""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import NewTopic

from framework.adapters.kafka.control.log import ControlPublisher, ControlReader
from framework.adapters.kafka.control.presence import Presence
from framework.commit.events.event_types import (
    CommitComplete,
    ControlEvent,
    DataWritten,
    Health,
    StateChanged,
    StopRequested,
    Subject,
)
from framework.commit.machine.reporting.condition import HELD, HELD_REMEDY
from framework.observe.liveness import live_members
from framework.runtime.job import reported
from tests.chaos.harness import wait_for
from tests.kafka import test_deploy
from tests.night import faults
from tests.recovery.conftest import HandRun
from tests.spark import test_moved_cluster

pytestmark = [pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.timeout(600)]

FRAMEWORK = Path(__file__).parents[2] / "framework"
# Where the remedies of states and risks are made.
MADE_IN = (
    *sorted((FRAMEWORK / "commit" / "machine" / "reporting").glob("*.py")),
    FRAMEWORK / "commit" / "risks.py",
    FRAMEWORK / "commit" / "offsets.py",
)
TYPED: dict[str, str] = {}  # by command, "*" for what is filled in: the test here that types it
# Typed by tests elsewhere: of planted faults in a live installation, most of them.
ELSEWHERE = {
    "floe run FILE": faults.run_again,
    "floe rebase FILE": faults.rebase_all,
    "floe doctor FILE": faults.allow_reading,
    "floe rebase FILE --begin-at latest": test_moved_cluster.test_a_pipeline_moves_to_a_cluster_with_other_offsets,
    "floe rebase FILE --begin-at earliest": faults.go_on_with_new_topic,
    "floe offsets set * * --allow-loss": faults.allow_loss,
    # With a deployment that a stand-in of spark-submit runs.
    "floe deploy FOLDER": test_deploy.test_what_vanished_is_deployed_again,
}
Test = TypeVar("Test", bound=Callable[..., None])


def types(*commands: str) -> Callable[[Test], Test]:
    """Says which commands a test types."""

    def noted(test: Test) -> Test:
        TYPED.update(dict.fromkeys(commands, test.__name__))
        return test

    return noted


def shown_in_code(file: Path) -> set[str]:
    """Commands between back quotes in the texts of a module, without those of docstrings; "*" for what is filled in."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    passed = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            passed.add(id(body[0].value))
    found = set()
    for node in nodes:
        text = ""
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        if id(node) not in passed:
            found |= set(re.findall(r"`(floe [a-z][^`]*)`", text))
    return {command for command in found if "(?:" not in command}


def test_each_command_of_a_remedy_is_typed_by_a_test() -> None:
    """A command that a state or a risk shows is typed here or in a live installation; none is listed that is not shown."""
    shown = {command for file in MADE_IN for command in shown_in_code(file)}
    assert len(shown) > 15
    assert {*TYPED, *ELSEWHERE} == shown


class Shown:
    """What is shown of a pipeline run by hand, whose file and target a reader does not know."""

    def __init__(self, hand: HandRun) -> None:
        self.hand = hand
        self.tell(replace(reported(hand.loaded, ""), run="run-1", file="pipelines/hand.yaml", timestamp_ms=now_ms()))

    def tell(self, *events: ControlEvent) -> None:
        publisher = ControlPublisher(self.hand.kafka, self.hand.control_topic)
        publisher.publish(events)
        publisher.close()

    def status(self, *options: str) -> dict[str, Any]:
        """Also with its exit code: 9 where there is trouble."""
        command = f"floe status --json -t it --control-topic {self.hand.control_topic} {' '.join(options)}"
        _, output = self.shell(command)
        return json.loads(output[output.index("{") :])  # type: ignore[no-any-return]

    def of(self, kind: str, name: str, *options: str) -> dict[str, Any]:
        [one] = [each for each in self.status(*options)[f"{kind}s"] if each[kind] == name]
        return one  # type: ignore[no-any-return]

    def table(self) -> dict[str, Any]:
        return self.of("table", self.hand.names[0], "--verify")

    def pipeline(self) -> dict[str, Any]:
        return self.of("pipeline", "hand")

    def type(self, shown: str, words: str, code: int = 0, changed: tuple[str, str] = ("", "")) -> str:
        """The one command with these words, as it is shown; `changed`: what the sentence says to change of it."""
        found = [each for each in re.findall(r"`(floe [^`]+)`", shown) if words in each]
        assert found, f"no command with `{words}` in: {shown}"
        command = found[0].replace(*changed) if changed[0] else found[0]
        done, output = self.shell(command)
        assert done == code, f"`{command}` ended with {done}\n{output}"
        return output

    def shell(self, command: str, timeout_s: float = 200) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.hand.project.root,
            env=typing(),
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        return done.returncode, done.stdout + done.stderr

    def live(self) -> Presence:
        """A member of the group, as a live run is one."""
        presence = Presence(self.hand.kafka, self.hand.plan.read.group_id, [self.hand.topic], "run-1")
        wait_for(lambda: live_members(self.hand.admin, self.hand.project.prefix, "hand"), "the run")
        return presence

    def blocked(self) -> None:
        with pytest.raises(Exception, match="R110"):
            self.hand.commit()


def typing() -> dict[str, str]:
    return {**os.environ, "COLUMNS": "400", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def now_ms() -> int:
    return int(time.time() * 1000)


@pytest.fixture
def shown(hand: HandRun) -> Shown:
    hand.announce(9, 9)
    hand.commit()
    return Shown(hand)


@types("floe discard --table * --dry-run")
def test_what_waits_for_a_table_that_is_gone_is_given_up(shown: Shown, hand: HandRun) -> None:
    """A dropped table blocks; what is shown shows what would be given up, and without --dry-run gives it up."""
    hand.project.catalog().drop_table(hand.names[0])
    hand.announce(30, 30)
    shown.blocked()
    remedy = shown.table()["remedy"]
    assert shown.of("table", hand.names[0])["remedy"] == remedy
    assert "14 rows of pipeline hand" in shown.type(remedy, "floe discard")
    shown.type(remedy, "floe discard", changed=(" --dry-run", ""))
    hand.commit()
    assert shown.table()["state"] != "BLOCKED"


@pytest.mark.spark
@pytest.mark.slow
def test_announced_files_that_are_gone_are_read_again(shown: Shown, hand: HandRun) -> None:
    """What `floe discard` prints at its end is a whole command: it reads again what was in the files."""
    hand.announce(30, 30)
    hand.announce(60, 60)
    lost = [each for each in hand.log() if isinstance(each, DataWritten) and each.table == hand.names[0]][1]
    Path(lost.files[0].path.removeprefix("file://")).unlink()
    shown.blocked()
    remedy = shown.table()["remedy"]
    said = shown.type(remedy, "floe discard", changed=(" --dry-run", ""))
    hand.commit()
    shown.type(said, "floe replay")
    assert hand.project.catalog().load_table(hand.names[0]).scan().count() == 40


@types("floe stop PIPELINE", "floe rollback --table * --to * --replay --dry-run")
def test_a_rollback_of_somebody_is_settled(shown: Shown, hand: HandRun) -> None:
    """The stop, the dry run and the act; what is printed at the end is a whole replay."""
    hand.announce(20, 20)
    hand.commit()
    table = hand.project.catalog().load_table(hand.names[0])
    table.manage_snapshots().rollback_to_snapshot(table.snapshots()[-2].snapshot_id).commit()
    hand.announce(30, 30)
    shown.blocked()
    remedy = shown.table()["remedy"]
    shown.type(remedy, "floe stop")
    shown.type(remedy, "floe rollback")
    said = shown.type(remedy, "floe rollback", changed=(" --dry-run", ""))
    hand.commit()
    assert shown.table()["state"] != "BLOCKED"
    shown.type(said, "floe replay", changed=("floe replay", "floe replay --dry-run"))


@types("floe offsets set PIPELINE --from-log")
def test_offsets_of_another_program_are_written_back(shown: Shown, hand: HandRun) -> None:
    partition = TopicPartition(hand.topic, 0, 3)
    [future] = hand.admin.raw.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(hand.plan.read.group_id, [partition])]
    ).values()
    future.result(20)
    found = shown.pipeline()
    assert found["code"] == "FLOE-R313"
    shown.type(found["remedy"], "--from-log")
    assert shown.pipeline()["code"] != "FLOE-R313"
    assert hand.group() == {0: 9, 1: 9}


@types("floe stop *", "floe offsets set * --from-log")
def test_a_broken_chain_is_ended_where_it_is_good(shown: Shown, hand: HandRun) -> None:
    """Somebody announced past a gap: what stands behind it belongs to no chain."""
    hand.positions[0] = 12
    hand.announce(20, 20)
    with pytest.raises(Exception, match="hand"):
        hand.commit()
    found = shown.pipeline()
    assert found["code"] == "FLOE-R105"
    assert "offsets set" in shown.table()["remedy"]
    shown.type(found["remedy"], "floe stop")
    shown.type(found["remedy"], "--from-log")
    assert hand.group() == {0: 9, 1: 9}
    hand.positions = {0: 9, 1: 9}


@pytest.mark.parametrize("mark", ["stored", "lost"])
@types("floe rebase FILE --dry-run")
def test_a_table_that_was_put_back_reads_again(shown: Shown, hand: HandRun, mark: str) -> None:
    """Somebody registered an older metadata file: the dry run shows where it would go on, and the act goes on there. Who looks
    begins at the coordinator's mark, or where there is none, before requests for commits that were answered long ago."""
    older = hand.project.catalog().load_table(hand.names[0]).metadata_location
    hand.announce(20, 20)
    hand.commit()
    hand.project.catalog().drop_table(hand.names[0])
    hand.project.catalog().register_table(hand.names[0], older)
    hand.announce(30, 30)
    shown.blocked()
    if mark == "lost":
        hand.admin.raw.delete_consumer_groups([hand.plan.commit.coordinator_group])[
            hand.plan.commit.coordinator_group
        ].result(20)
    remedy = shown.of("table", hand.names[0])["remedy"]
    looked = shown.table()
    assert (looked["state"], looked["remedy"]) == ("BLOCKED", remedy), "a look at the table says the same"
    shown.type(remedy, "floe stop")
    shown.type(remedy, "floe rebase")
    shown.type(remedy, "floe rebase", changed=(" --dry-run", ""))
    assert shown.table()["state"] != "BLOCKED"


@pytest.mark.parametrize("holds", ["reading", "commits"])
def test_what_is_paused_is_resumed(shown: Shown, hand: HandRun, holds: str) -> None:
    """By the command that a state shows, or the list of pauses."""
    pattern = "hand" if holds == "reading" else hand.names[0]
    done, output = shown.shell(
        f"floe pause --{holds} '{pattern}' --why INC-7 -t it --control-topic {hand.control_topic}"
    )
    assert done == 0, output
    presence = shown.live()
    try:
        shown.type((shown.pipeline() if holds == "reading" else shown.table())["remedy"], "floe resume")
        assert shown.status()["pauses"] == []
    finally:
        presence.close()


@types("floe status --table * --verify")
def test_progress_that_is_gone_is_looked_at(shown: Shown, hand: HandRun) -> None:
    """Somebody removed the property: what is shown says whether setting it again is enough."""
    table = hand.project.catalog().load_table(hand.names[0])
    held = table.properties["floe.progress"]
    table.transaction().remove_properties("floe.progress").commit_transaction()
    hand.announce(20, 20)
    shown.blocked()
    remedy = shown.table()["remedy"]
    assert "BLOCKED" in shown.type(remedy, "--verify", code=9)
    hand.project.catalog().load_table(hand.names[0]).transaction().set_properties(
        {"floe.progress": held}
    ).commit_transaction()
    shown.type(remedy, "--verify")


@types("floe offsets show *")
def test_offsets_are_shown_where_a_topic_is_gone(shown: Shown, hand: HandRun) -> None:
    hand.admin.raw.delete_topics([hand.topic])[hand.topic].result(20)
    wait_for(lambda: not hand.admin.topics([hand.topic]), "the end of the topic")
    found = shown.pipeline()
    assert found["code"] == "FLOE-R315"
    assert hand.topic in shown.type(found["remedy"], "floe offsets show")


@types("floe coordinator")
def test_a_coordinator_commits_what_waits(shown: Shown, hand: HandRun) -> None:
    """Nobody coordinates: the command that is shown commits what waits, and goes on until it is ended."""
    hand.announce(30, 30)
    [command] = re.findall("`(floe coordinator[^`]*)`", shown.of("table", hand.names[0])["remedy"])
    process = subprocess.Popen(command.split(), cwd=hand.project.root, env=typing(), stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: hand.project.catalog().load_table(hand.names[0]).scan().count() == 20, "the rows")
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


@types("floe log --last 200")
def test_who_coordinates_is_shown_where_it_changes_often(shown: Shown) -> None:
    shown.tell(*(CommitComplete(f"c{number % 2}", 0, now_ms(), position=0) for number in range(6)))
    [risk] = shown.status()["dangers"]
    assert risk["code"] == "FLOE-R153"
    assert "c1" in shown.type(risk["remedy"], "floe log")


@types("floe readiness FILE")
def test_retention_that_comes_near_is_reviewed(shown: Shown, hand: HandRun) -> None:
    """It says no go, since not all of it can be as it should; and how long is left."""
    [future] = hand.admin.raw.delete_records([TopicPartition(hand.topic, 0, 8)]).values()
    future.result(20)
    [risk] = [each for each in shown.status()["dangers"] if each["code"] == "FLOE-R152"]
    shown.type(risk["remedy"], "floe readiness", 10)


@types("floe doctor")
def test_a_run_that_is_about_to_be_gone_has_said_why_it_failed(shown: Shown, hand: HandRun) -> None:
    """Who types `floe stop` between a run's last report and its end is told what it reported, with what to do about it."""
    presence = shown.live()
    shown.tell(
        StateChanged(
            Subject.PIPELINE, "hand", Health.FAILED, "the topic is another one", "`floe rebase FILE --begin-at earliest`",
            "FLOE-R316", 1, now_ms(), now_ms(), "run-1",
        )
    )  # fmt: skip
    stop = subprocess.Popen(
        ["floe", "stop", "hand", "-t", "it", "--control-topic", hand.control_topic],
        cwd=hand.project.root, env=typing(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    asked = ControlReader(hand.kafka, hand.control_topic)
    asked.seek(0)
    wait_for(lambda: any(isinstance(event, StopRequested) for _, event in asked.poll(0.5)), "the request")
    presence.close()
    said, _ = stop.communicate(timeout=60)
    assert (stop.returncode, "error[FLOE-R316] pipeline hand has failed: the topic is another one" in said) == (
        1,
        True,
    ), said
    assert "floe rebase" in said


def test_what_cannot_be_read_is_asked_for(shown: Shown, hand: HandRun) -> None:
    """A metadata file is gone: the table cannot be looked at, and the command names it."""
    file = Path(hand.project.catalog().load_table(hand.names[0]).metadata_location.removeprefix("file://"))
    file.rename(file.with_name("away"))
    found = shown.table()
    assert found["code"] == "FLOE-R135"
    assert f"table {hand.names[0]} cannot be loaded" in shown.type(found["remedy"], "floe doctor")


@types("floe rebase FILE --same-offsets")
def test_a_topic_that_was_restored_goes_on(shown: Shown, hand: HandRun) -> None:
    """It was made again with the same records at the same offsets."""
    hand.admin.raw.delete_topics([hand.topic])[hand.topic].result(20)
    wait_for(lambda: not hand.admin.topics([hand.topic]), "the end of the topic")
    hand.admin.raw.create_topics([NewTopic(hand.topic, 2)])[hand.topic].result(20)
    for partition in range(2):
        hand.broker.produce(hand.topic, [{"id": n, "kind": f"k{n % 3:02}"} for n in range(60)], partition=partition)
    found = shown.pipeline()
    assert found["code"] == "FLOE-R316"
    shown.type(found["remedy"], "--same-offsets")
    assert shown.pipeline()["state"] == "STOPPED"


@types("floe offsets set FILE --from-log --allow-loss")
def test_what_a_run_says_of_a_topic_that_its_file_left_is_typed(shown: Shown, hand: HandRun) -> None:
    """A run refuses with the whole command. Where no topic is left that was read, that command says with which one the pipeline
    goes on with the topics that its file names now."""
    other = hand.broker.new_topic("other")
    hand.file.write_text(hand.file.read_text().replace(hand.topic, other))
    done, said = shown.shell("floe run pipelines/hand.yaml -t it")
    assert (done, "FLOE-R315" in said) == (5, True), said
    refused = shown.type(said, "floe offsets set", 5)
    assert "FLOE-R343" in refused
    shown.type(refused, "floe offsets set")
    assert shown.pipeline()["state"] != "BLOCKED"


@types("floe status")
def test_what_a_run_waits_for_is_looked_at(shown: Shown, hand: HandRun) -> None:
    """Too much waits for its tables: the run said so, and the command says why they wait."""
    hand.announce(20, 20)
    hand.project.catalog().drop_table(hand.names[0])
    shown.blocked()
    presence = shown.live()
    try:
        at_ms = now_ms()
        shown.tell(
            StateChanged(
                Subject.PIPELINE, "hand", Health.DEGRADED, "1 batch waits", HELD_REMEDY, HELD, 0, at_ms, at_ms, "run-1"
            )
        )
        found = shown.pipeline()
        assert found["code"] == HELD
        assert hand.names[0] in shown.type(found["remedy"], "floe status", 9)
    finally:
        presence.close()


@types("floe dlq stats FILE", "floe pause --reading *")
def test_a_flood_of_dead_letters_is_looked_at_and_held(shown: Shown, hand: HandRun) -> None:
    """Both commands of the risk; the pause is there afterwards."""
    hand.file.write_text(
        hand.file.read_text().replace(
            "errors: {policy: fail}", "errors: {policy: dead_letter, dead_letter_table: shop.dead}"
        )
    )
    hand.announce(200, 200, dead_letters=60)
    [risk] = [each for each in shown.status()["dangers"] if each["code"] == "FLOE-R154"]
    shown.type(risk["remedy"], "floe dlq stats")
    shown.type(risk["remedy"], "floe pause")
    assert [each["pattern"] for each in shown.status()["pauses"]] == ["hand"]
