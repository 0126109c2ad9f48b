"""What a verb says when it refuses is typed as it is shown, and ends what it was refused for.

In: a pipeline run by hand, in a control topic of its own, and a verb that is refused. Out: the command of its remedy, whole, with
its exit code and what it left.
"""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic

import framework
from framework.cli.main import run_main
from framework.errors import FloeError
from tests.chaos.harness import wait_for
from tests.recovery.conftest import HandRun, once
from tests.recovery.test_rollback import missing, three_commits

pytestmark = [pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.timeout(600)]
FRAMEWORK = Path(framework.__file__).parent
QUOTED = re.compile(r"`(floe [^`]+)`")
WORDS_TO_FILL = re.compile(r"(?<![\w-])(?:FILE|FOLDER|PIPELINE|TABLE|SNAPSHOT|NAME|BROKER|OFFSET)(?![\w-])|\.\.\.")


class Person:
    """Somebody at a terminal, who reads and types."""

    def __init__(self, hand: HandRun, capsys: pytest.CaptureFixture[str]) -> None:
        self.hand, self._capsys = hand, capsys

    def type(self, command: str, code: int = 0) -> str:
        """What it printed, on both streams."""
        words = shlex.split(command)
        assert words[0] == "floe"
        assert not WORDS_TO_FILL.search(command), f"not whole: {command}"
        self._capsys.readouterr()
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.hand.project.root)
            found = run_main(words[1:])
        printed = self._capsys.readouterr()
        output = printed.out + printed.err
        assert found == code, f"`{command}` ended with {found}\n{output}"
        return output

    def control(self, command: str) -> str:
        return f"{command} -t it --control-topic {self.hand.control_topic}"

    def reads(self, text: str, beginning: str) -> str:
        """The command that is shown and begins so."""
        found = list(
            dict.fromkeys(each for each in QUOTED.findall(" ".join(text.split())) if each.startswith(beginning))
        )
        assert found, f"no `{beginning} ...` in: {text}"
        return found[0]


@pytest.fixture
def person(hand: HandRun, capsys: pytest.CaptureFixture[str]) -> Person:
    return Person(hand, capsys)


def recreate_source(hand: HandRun, records: int) -> None:
    hand.admin.raw.delete_topics([hand.topic])[hand.topic].result(20)
    wait_for(lambda: not hand.admin.topics([hand.topic]), "the end of the topic")
    hand.admin.raw.create_topics([NewTopic(hand.topic, 2, 1)])[hand.topic].result(20)
    for partition in (0, 1):
        hand.broker.produce(hand.topic, [{"id": n, "kind": "k00"} for n in range(records)], partition=partition)


def test_an_offset_beside_the_log_is_named(person: Person, hand: HandRun) -> None:
    hand.announce(9, 9)
    hand.commit()
    refused = person.type(person.control(f"floe offsets set hand {hand.topic}:0=9999 --allow-loss"), 5)
    said = person.type(person.reads(refused, "floe offsets set") + " --allow-loss")
    assert hand.group()[0] == 60, said


def test_a_recreated_topic_is_begun_again(person: Person, hand: HandRun) -> None:
    """All partitions are in the command: a person need not know how many there are."""
    hand.announce(9, 9)
    hand.commit()
    recreate_source(hand, 5)
    refused = person.type(person.control("floe offsets set hand --from-log"), 5)
    person.type(person.reads(refused, "floe offsets set"))
    assert hand.group() == {0: 0, 1: 0}


def test_a_partition_that_nobody_named_is_named(person: Person, hand: HandRun) -> None:
    """The log does not hold the announcements any more, and the group is ahead of the tables: what that loses is asked for once
    more, by name."""
    hand.announce(9, 9)
    hand.commit()
    hand.announce(20, 20)
    hand.admin.raw.delete_records([TopicPartition(hand.control_topic, 0, -1)])
    refused = person.type(person.control(f"floe offsets set hand {hand.topic}:0=20"), 5)
    assert "FLOE-R347" in refused, refused
    command = person.reads(refused, "floe offsets set")
    assert "add --allow-loss to accept that" in person.type(command, 5)
    person.type(f"{command} --allow-loss")
    assert hand.group() == {0: 20, 1: 20}


def test_what_a_list_cannot_show_is_taken_off(person: Person, hand: HandRun) -> None:
    """The list says that the table lacks what it holds, and the log is too short to say what: `--skip`, as shown."""
    first, _, third = three_commits(hand)
    table = hand.names[0]
    person.type(person.control(f"floe rollback --table {table} --to {first} --replay"))
    with hand.project.catalog().load_table(table).manage_snapshots() as manage:
        manage.set_current_snapshot(third)
    refused = person.type(f"floe replay pipelines/hand.yaml --table {table} -t it", 5)
    command = person.reads(refused, "floe rollback")
    person.type(command)
    assert missing(hand) == []


def test_a_record_that_is_no_event_is_looked_at_and_skipped(person: Person, hand: HandRun) -> None:
    hand.announce(9, 9)
    watch = hand.watched()
    hand.broker.produce(hand.control_topic, [{"type": "DataWritten", "version": 1}])
    hand.announce(20, 20, watch=watch)
    with pytest.raises(FloeError) as refused:
        hand.commit()
    remedy = refused.value.remedy
    assert "floe log" in remedy, refused.value
    person.type(person.control(person.reads(remedy, "floe log --from")))
    person.type(person.control(person.reads(remedy, "floe log --skip")))
    hand.commit()
    assert hand.landed() == once({0: 20, 1: 20})


def test_no_command_leaves_words_out() -> None:
    """Texts of the program that are commands of floe: what is filled in is known by a name, and nothing is left as dots."""
    texts = {
        "".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in node.values)
        if isinstance(node, ast.JoinedStr)
        else str(node.value)
        for file in FRAMEWORK.rglob("*.py")
        if "codes" not in file.parts
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
    }
    commands = {each for text in texts for each in QUOTED.findall(text)}
    assert len(commands) > 100
    assert {each for each in commands if re.search(r"(?<!FILE)\.\.\.|SNAPSHOT|OFFSET", each)} == set()
