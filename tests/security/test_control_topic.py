"""Somebody who may write to the control topic: what he wants, and what he gets.

He cannot be kept from announcing as floe does: whoever may write there is trusted with the tables of its pipelines. But
nothing that he writes by mistake or malice stops those who read without saying where, and nobody is left without a way
past it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from unicodedata import category

import pytest
from confluent_kafka import Producer
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.topic import ensure_control_topic
from framework.cli.main import run_main
from framework.cli.watch.log import describe
from framework.commit.events.codec import decode, encode
from framework.commit.events.event_types import ControlEvent
from framework.commit.machine.effects import Assigned, Read, Tick
from framework.commit.machine.step import CoordinatorState, snapshot, step
from framework.commit.watch import Watch
from framework.diagnose.shown import shown
from framework.errors import FloeError
from tests.conftest import Broker
from tests.project import Project
from tests.protocol.build import TOPIC_ID, complete, written
from tests.protocol.strategies import events

FOREIGN = [b"", b"hello", b"\xff\xfe", b"[]", b'{"type":7}', b"[" * 20_000, b'{"a":' * 20_000]
HOSTILE = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([-1, 0, 2**63, 10**30, -(10**30), 1.5, float("inf")]),
    st.sampled_from(["", "\x1b[2J", "\x00", "../..", "a" * 5_000, "\ud800"]),
    st.lists(st.integers(), max_size=2),
    st.just({}),
)


def places(value: object, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    """The path of every value inside of a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, each in inner for place in places(each, (*path, key)))]


def read(value: bytes) -> ControlEvent | str:
    """The event, or the code of the error."""
    try:
        event = decode(value)
    except FloeError as error:
        return error.code
    return "foreign" if event is None else event  # NaN and Infinity are no JSON


@settings(max_examples=600, deadline=None)
@given(events, st.data())
def test_no_event_ends_those_who_read_it(event: ControlEvent, data: st.DataObject) -> None:
    """Wanted: a coordinator, a run or `floe log` that falls over. Got: the event is refused as a whole with FLOE-R202,
    or taken as far as it goes; what is printed of it holds no control character."""
    value = json.loads(encode(event))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from([p for p in places(value) if p and p not in (("type",), ("version",))]))
        inside = value
        for key in path[:-1]:
            inside = inside[key]
        inside[path[-1]] = data.draw(HOSTILE)
    found = read(json.dumps(value).encode("utf-8", "surrogatepass"))
    if isinstance(found, str):
        assert found in ("FLOE-R202", "foreign")
        return
    assert not [c for c in shown(describe(found)) if category(c) == "Cc"]
    watch = Watch()
    state, _ = step(CoordinatorState(), Assigned("c", TOPIC_ID, 0, None), 0)
    for offset, each in enumerate((written("a", 1), complete("a", 1), found, written("a", 2), complete("a", 2))):
        watch.observe(offset, each)
        state, _ = step(state, Read(offset, each), 1_000)
        state, _ = step(state, Tick(True, offset + 1), 2_000)
    snapshot(state)


GOOD = encode(complete("a", 1))
# Written by somebody who knows what floe's events look like: all begin as one does.
SIBLINGS = {
    "a number of 10,000 digits": GOOD.replace(b'"batch":1', b'"batch":' + b"9" * 10_000, 1),
    "an exponent without end": GOOD.replace(b'"batch":1', b'"batch":1e999999999', 1),
    "no number": GOOD.replace(b'"batch":1', b'"batch":NaN', 1),
    "infinity": GOOD.replace(b'"batch":1', b'"batch":-Infinity', 1),
    "a fraction": GOOD.replace(b'"batch":1', b'"batch":1.0', 1),
    "true in a number's place": GOOD.replace(b'"batch":1', b'"batch":true', 1),
    "two types": GOOD.replace(b'"version"', b'"type":"Skipped","version"', 1),
    "two types, ours last": b'{"type":"Skipped",' + GOOD[1:],
    "a deep value": GOOD[:-1] + b',"x":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "a deep value in a field": GOOD.replace(b'"batch":1', b'"batch":' + b"[" * 900 + b"]" * 900, 1),
    "bytes that are no text": GOOD.replace(b'"a"', b'"\xff\xfe"', 1),
    "another encoding": GOOD.decode().encode("utf-16"),
    "a mark before it": b"\xef\xbb\xbf" + GOOD,
    "half of one": GOOD[: len(GOOD) // 2],
    "two in one": GOOD + GOOD,
    "a version to come": GOOD.replace(b'"version":1', b'"version":2', 1),
    "a version that is true": GOOD.replace(b'"version":1', b'"version":true', 1),
    "a name that is no text": GOOD.replace(b'"a"', b"null", 1),
}


@pytest.mark.parametrize("what", SIBLINGS)
def test_what_only_looks_like_an_event_is_distinguished_from_one(what: str) -> None:
    """Wanted: a reader that falls over, or two that see two things in one record. Got: it is no event, or refused as a
    whole."""
    assert SIBLINGS[what] != GOOD
    found = read_or_none(SIBLINGS[what])
    assert found in (None, "FLOE-R202")


def read_or_none(value: bytes) -> ControlEvent | str | None:
    try:
        return decode(value)
    except FloeError as error:
        return error.code


def test_the_last_of_two_fields_counts_for_everybody() -> None:
    """A field that stands there twice is read alike by all, so that it parts nobody; nor does a surrogate or a control
    character in a name, which is escaped wherever it is shown."""
    twice = GOOD.replace(b'"batch":1', b'"batch":7,"batch":1', 1)
    assert decode(twice) == decode(GOOD)
    odd = decode(GOOD.replace(b'"a"', b'"\\ud800\\u001b[2J"', 1))
    assert odd is not None
    assert "\x1b" not in shown(describe(odd))


NO_SOURCE = 9  # status reads the whole log and then calls it trouble that the pipeline's topic is not there


@pytest.fixture
def project(tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path, broker.bootstrap_servers)


@pytest.fixture
def floe(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def run(*words: str) -> tuple[int, str]:
        code = run_main([*words, "--target", "it"])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return run


def write(broker: Broker, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0


@pytest.mark.kafka
@pytest.mark.iceberg
def test_records_that_are_no_events_stop_nobody(
    project: Project, broker: Broker, floe: Callable[..., tuple[int, str]]
) -> None:
    """Wanted: everybody who reads the control topic stops. Got: they are passed over, and `floe log` shows them."""
    topic = broker.new_topic("foreign")
    passed_over = [
        value for value in (*FOREIGN, *SIBLINGS.values()) if read_or_none(value) is None and len(value) < 900_000
    ]
    ensure_control_topic(KafkaAdmin({"bootstrap.servers": broker.bootstrap_servers}), f"{topic}-control")
    write(broker, f"{topic}-control", *passed_over, encode(complete("a", 1)))
    options = ("--control-topic", f"{topic}-control")
    code, said = floe("log", *options)
    assert code == 0
    assert said.count("no event that can be read") == len(passed_over)
    assert "a batch 1" in said
    code, said = floe("status", *options)
    assert code == NO_SOURCE, said
    code, said = floe("log", "--json", *options)
    unreadable = [json.loads(line) for line in said.splitlines() if '"unreadable"' in line]
    assert [line["offset"] for line in unreadable] == list(range(len(passed_over)))
    assert floe("clean", *options)[0] == 0
    assert floe("offsets", "show", "a", *options)[0] in (0, 1, 3, 5)


@pytest.mark.kafka
@pytest.mark.iceberg
def test_a_record_that_is_named_like_an_event_stops_with_its_offset_until_a_person_lets_it_pass(
    project: Project, broker: Broker, floe: Callable[..., tuple[int, str]]
) -> None:
    """Wanted: everybody stops for good. Got: they stop and say where; `floe log` shows the record, and `floe log
    --skip` lets it pass for everybody; a record that can be read is not passed over."""
    topic = broker.new_topic("named")
    control = f"{topic}-control"
    ensure_control_topic(KafkaAdmin({"bootstrap.servers": broker.bootstrap_servers}), control)
    write(broker, control, encode(complete("a", 1)), b'{"type":"DataWritten","version":1,"pipeline":["a"]}')
    options = ("--control-topic", control)
    code, said = floe("status", *options)
    assert code != 0
    assert f"the record at offset 1 of control topic {control} cannot be read" in said
    assert "floe log --skip 1" in said
    code, said = floe("log", *options)
    assert code == 0
    assert "no event that can be read" in said
    code, said = floe("log", "--skip", "0", *options)
    assert code == 5
    assert "FLOE-R205" in said
    code, said = floe("log", "--skip", "1", *options)
    assert code == 0, said
    assert floe("log", "--skip", "1", *options)[0] == 0
    code, said = floe("status", *options)
    assert code == NO_SOURCE, said
    assert floe("log", *options)[1].count("is skipped, by") == 1
