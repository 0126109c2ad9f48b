"""The error budgets that `floe status` shows are what anybody counts who reads the control topic with a console consumer."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from jsonschema import Draft202012Validator

from framework.adapters.kafka.control.transactions import PipelineProducer
from framework.commit.events.event_types import Deployed
from framework.config.values.objectives import Objectives
from framework.plan.canonical import canonical, hash_of
from tests.chaos.harness import fan_out
from tests.recovery.conftest import HandRun

pytestmark = [pytest.mark.kafka, pytest.mark.iceberg]

SCHEMA = Draft202012Validator(
    json.loads((Path(__file__).parents[2] / "schemas" / "status.v1.schema.json").read_text(encoding="utf-8"))
)
FRESH_MS = 2_000


def report(hand: HandRun) -> None:
    """A run that begins says what it promises."""
    promised = Objectives(FRESH_MS, "99%", "2%")
    value = canonical(replace(hand.loaded, spec=replace(hand.loaded.spec, objectives=promised)))
    event = Deployed("hand", "run", hash_of([value]), value, "1", int(time.time() * 1000))
    producer = PipelineProducer(
        hand.kafka, hand.plan.announce.transactional_id, hand.plan.read.group_id, hand.control_topic
    )
    producer.start()
    try:
        producer.announce((event,), {})
    finally:
        producer.close()


def log_of(hand: HandRun) -> list[tuple[int, dict[str, Any]]]:
    """Every record of the control topic as JSON, with its time."""
    consumer = Consumer({**hand.kafka, "group.id": "recount", "isolation.level": "read_committed"})
    place = TopicPartition(hand.control_topic, 0, 0)
    consumer.assign([place])
    _, end = consumer.get_watermark_offsets(place, timeout=20)
    found = []
    try:
        while consumer.position([place])[0].offset < end:
            message = consumer.poll(1.0)
            if message is not None and message.value() is not None:
                found.append((message.timestamp()[1], json.loads(message.value())))
    finally:
        consumer.close()
    return found


def recount(log: list[tuple[int, dict[str, Any]]], read_ms: int) -> dict[str, tuple[int, int]]:
    """By objective what counts and what of it is bad, over a window that holds the whole log."""
    sums: dict[str, int] = {}
    begun, begin_ms, through_ms = False, None, 0
    visible: list[tuple[int, int]] = []
    for at_ms, event in log:
        begun = begun or event["type"] == "Deployed"
        if begun and event["type"] == "DataComplete":
            for key, count in event["accounting"].items():
                sums[key] = sums.get(key, 0) + count
        if begun and event["type"] == "CommitComplete" and "hand" in event["valid_through_ms"]:
            visible.append((at_ms, event["valid_through_ms"]["hand"]))
    stale_ms = 0
    for number, (at_ms, reached_ms) in enumerate(visible):
        begin_ms = at_ms if begin_ms is None else begin_ms
        through_ms = max(through_ms, reached_ms)
        until_ms = visible[number + 1][0] if number + 1 < len(visible) else read_ms
        stale_ms += max(0, until_ms - max(at_ms, through_ms + FRESH_MS))
    written, letters, lost = sums["written"], sums["dead_lettered"], sums.get("lost", 0)
    return {
        "freshness": (read_ms - (begin_ms or read_ms), stale_ms),
        "complete": (written + letters + lost, letters + lost),
        "dead_letters": (sums["offsets"] - sums.get("holes", 0) - lost, letters),
    }


def test_the_budget_is_what_the_control_topic_comes_to(hand: HandRun) -> None:
    """Before a run has reported its objectives nothing is counted; then every record of a batch and each millisecond."""
    hand.announce(5, 5, dead_letters=3)
    hand.commit()
    options = ("status", "--json", "--control-topic", hand.control_topic)
    [before] = json.loads(hand.floe(*options))["pipelines"]
    assert before["objectives"] == []

    report(hand)
    hand.announce(20, 20, dead_letters=1)
    hand.commit()
    hand.announce(40, 50)
    hand.commit()
    document = json.loads(hand.floe(*options))
    SCHEMA.validate(document)
    [shown] = document["pipelines"]
    budgets = {each["objective"]: each for each in shown["objectives"]}
    wanted = recount(log_of(hand), document["read_ms"])

    assert wanted["complete"] == (80, 1)
    for name, allowed in (("freshness", 0.01), ("complete", 0.01), ("dead_letters", 0.02)):
        counted, bad = wanted[name]
        for window in budgets[name]["windows"]:
            assert (window["counted"], window["bad"]) == (counted, bad), name
            assert window["burn_rate"] == pytest.approx(bad / counted / allowed)
        assert budgets[name]["left_ratio"] == pytest.approx(1 - bad / counted / allowed)
    assert budgets["freshness"]["windows"][0]["bad"] > 0  # its records are of 1970
    text = hand.floe("status", "--control-topic", hand.control_topic)
    assert "hand: objective complete 99%: -25% of the error budget left, burn rate 1.2 over 1h" in text


def test_readiness_is_no_go_only_where_a_promise_is_broken_now(hand: HandRun) -> None:
    """A file without objectives is told so, one whose objectives were kept passes, and one whose last hour missed one fails."""

    def objectives(text: str) -> tuple[set[str], list[tuple[str, str]]]:
        file = hand.project.pipeline("hand", f"{dedent(fan_out(hand.topic))}\n{text}\n")
        output = hand.floe("readiness", file, "--format", "json", "--replay-offsets", "1")
        document = json.loads(output[output.index("{") :])
        [check] = [each for each in document["checks"] if each["name"] == "objectives"]
        failing = {each["name"] for each in document["checks"] if each["verdict"] == "fail"}
        return failing, [(each["verdict"], each["text"]) for each in check["seen"]]

    hand.announce(5, 5)
    hand.commit()
    before, [(verdict, text)] = objectives("")
    assert (verdict, "freshness, complete, dead_letters" in text) == ("pass", True)
    failing, seen = objectives("objectives: {complete: 99%}")  # no run has reported it yet
    assert (failing, {verdict for verdict, _ in seen}) == (before, {"pass"})
    report(hand)
    hand.announce(50, 50, dead_letters=1)
    hand.commit()
    failing, seen = objectives("objectives: {complete: 99%}")
    assert failing - before == {"objectives"}
    assert [verdict for verdict, text in seen if text.startswith("complete 99%: -11% of the error budget left")] == [
        "fail"
    ]
    # What is judged is what the run promised, of which one was kept.
    assert [verdict for verdict, text in seen if text.startswith("dead_letters 2%: 44% of")] == ["pass"]
