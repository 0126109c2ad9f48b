"""Each line of `floe readiness` turns when what it asks for breaks, and no other line does.

A pipeline that has run is looked at, something is broken, it is looked at again, and what was broken is made whole.
"""

from __future__ import annotations

import ast
import inspect
import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from textwrap import dedent

import pyarrow as pa
import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from framework.adapters.kafka.control.log import ControlPublisher
from framework.commit.events.event_types import DataWritten, Health, StateChanged, Subject
from framework.ops.readiness import card
from tests import reports
from tests.chaos.harness import fan_out
from tests.recovery.conftest import HandRun
from tests.recovery.test_objectives import report

pytestmark = [pytest.mark.kafka, pytest.mark.iceberg]

# Owners, and a schema that the tables have.
BODY = """
{body}
owners: {{pipeline: shop, schema: shop, catalog: shop, topics: shop, cut_over: shop}}
"""


class Reviewed:
    """A pipeline that has run twice, and its file as a text that a break may change."""

    def __init__(self, hand: HandRun) -> None:
        self.hand = hand
        self.text = BODY.format(body=dedent(fan_out(hand.topic)))
        self.options: list[str] = []
        for end in (20, 40):
            hand.announce(end, end)
            hand.commit()
        report(hand)

    def verdicts(self) -> dict[str, str]:
        file = self.hand.project.pipeline("hand", self.text)
        words = ["readiness", str(file), "--format", "json", "--no-spark", *self.options]
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.hand.project.root)
            from click.testing import CliRunner

            from framework.cli.main import floe

            output = CliRunner().invoke(floe, [*words, "--target", "it"]).output
        document = json.loads(output[output.index("{\n") :])
        return {each["name"]: each["verdict"] for each in document["checks"]}


@contextmanager
def file_says(reviewed: Reviewed, old: str, new: str) -> Iterator[None]:
    before = reviewed.text
    assert old in before
    reviewed.text = before.replace(old, new)
    yield
    reviewed.text = before


@contextmanager
def topic_has(reviewed: Reviewed, name: str, value: str) -> Iterator[None]:
    """A setting of the control topic."""

    def alter(*entry: object) -> None:
        entries = [ConfigEntry(*entry)]  # type: ignore[arg-type]
        resource = ConfigResource(ResourceType.TOPIC, reviewed.hand.control_topic, incremental_configs=entries)
        for future in reviewed.hand.admin.raw.incremental_alter_configs([resource]).values():
            future.result(30)

    alter(name, value, *_operation(AlterConfigOpType.SET))
    yield
    alter(name, None, *_operation(AlterConfigOpType.DELETE))


def _operation(kind: AlterConfigOpType) -> tuple[object, ...]:
    """The arguments of a `ConfigEntry` between its value and the operation stay what they are."""
    names = list(inspect.signature(ConfigEntry.__init__).parameters.values())[3:]
    return tuple(kind if each.name == "incremental_operation" else each.default for each in names)


@contextmanager
def an_announcement_waits_too_long(reviewed: Reviewed) -> Iterator[None]:
    """For less than a day, with the shortest retention that a run takes."""
    with topic_has(reviewed, "retention.ms", "86400000"):
        reviewed.hand.announce(45, 45)
        yield
    reviewed.hand.commit()


@contextmanager
def a_waiting_file_is_gone(reviewed: Reviewed) -> Iterator[None]:
    hand = reviewed.hand
    hand.announce(50, 50)
    written = [event for event in hand.log() if isinstance(event, DataWritten)][-1]
    path = Path(written.paths[0].removeprefix("file://"))
    held = path.read_bytes()
    path.unlink()
    yield
    path.write_bytes(held)
    hand.commit()


@contextmanager
def a_table_is_in_trouble(reviewed: Reviewed) -> Iterator[None]:
    hand, now_ms = reviewed.hand, int(time.time() * 1000)
    change = StateChanged(
        Subject.TABLE, hand.names[0], Health.DEGRADED, "the store is full", "", "FLOE-R139", 1, now_ms, now_ms, "c"
    )
    publisher = ControlPublisher(hand.kafka, hand.control_topic)
    publisher.publish([change])
    publisher.close()
    yield


@contextmanager
def another_writer_commits(reviewed: Reviewed) -> Iterator[None]:
    table = reviewed.hand.project.catalog().load_table(reviewed.hand.names[0])
    schema = table.schema().as_arrow()
    table.append(pa.Table.from_pylist([dict.fromkeys(schema.names, None)], schema=pa.schema(list(schema))))
    yield


@contextmanager
def old_group(reviewed: Reviewed) -> Iterator[None]:
    reviewed.options = ["--old-group", "nobody"]
    yield
    reviewed.options = []


Break = Callable[[Reviewed], AbstractContextManager[None]]
BREAKS: dict[str, Break] = {
    "plan": lambda it: file_says(it, "interval: 1s", "interval: 30s"),
    "owners": lambda it: file_says(it, "catalog: shop, ", ""),
    "schema": lambda it: file_says(
        it, "  format: {type: json}", "  format: {type: json}\n  schema: {id: {type: boolean}}"
    ),
    "control-retention": an_announcement_waits_too_long,
    "upkeep": a_waiting_file_is_gone,
    "offsets": old_group,
    "store-failure": a_table_is_in_trouble,
    "snapshots": another_writer_commits,
}
_KAFKA = "tests/kafka/test_readiness.py::test_"
ELSEWHERE = {
    # Not alone: where a grant is missing, a run is refused.
    "grants": "tests/kafka/test_security.py::test_a_missing_grant_turns_the_lines_of_readiness_that_need_it",
    "objectives": "tests/recovery/test_objectives.py::test_readiness_is_no_go_only_where_a_promise_is_broken_now",
    "commit-time": f"{_KAFKA}an_interval_in_which_the_catalog_commits_no_table_is_no_go",
    "source-retention": f"{_KAFKA}lag_that_takes_what_an_outage_needs_is_a_line_of_its_own",
    "outage": f"{_KAFKA}a_topic_that_keeps_less_than_an_outage_is_no_go",
    "replay": "tests/spark/test_readiness.py::test_what_is_there_is_compared_with_what_the_records_give",
    "log-archive": f"{_KAFKA}how_much_of_the_control_log_is_kept",
    "rebuild": f"{_KAFKA}what_a_rebuild_would_read_is_read",
    "drills": f"{_KAFKA}drills_that_are_missing_old_or_failed_are_seen",
    "comparison": f"{_KAFKA}what_a_comparison_found_is_shown_while_it_is_about_the_table",
}


def test_each_line_turns_alone(hand: HandRun) -> None:
    """Eight breaks, one after the other: the line that asks about it turns, and none beside it."""
    reviewed = Reviewed(hand)
    before = reviewed.verdicts()
    for line, break_it in BREAKS.items():
        with break_it(reviewed):
            after = reviewed.verdicts()
        turned = {name: (before[name], found) for name, found in after.items() if found != before[name]}
        assert set(turned) == {line}, turned
        before = reviewed.verdicts() if line in ("upkeep", "store-failure") else before


def test_no_line_is_without_a_break() -> None:
    """The lines are read from the code: a new one needs a break here, or a test elsewhere that exists."""
    tuples = [node for node in ast.walk(ast.parse(inspect.getsource(card.scorecard))) if isinstance(node, ast.Tuple)]
    firsts = [node.elts[0] for node in tuples if len(node.elts) == 3]
    lines = {each.value for each in firsts if isinstance(each, ast.Constant)}
    assert lines == BREAKS.keys() | ELSEWHERE.keys()
    assert not BREAKS.keys() & ELSEWHERE.keys()
    collected = {
        test.partition("[")[0] for test in reports.collect(folders=("tests/recovery", "tests/kafka", "tests/spark"))
    }
    assert set(ELSEWHERE.values()) <= collected
