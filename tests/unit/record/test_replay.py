"""Dead letters on their way back and on a screen: which wait, what records they were, and where the trouble is."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.commit.dead_letter_replay import (
    ReplayPosition,
    is_replay,
    replay_name,
    replay_position,
    replay_range,
)
from framework.commit.events.event_types import Accounting, Heartbeat
from framework.commit.machine.effects import PipelineProgress
from framework.config.spec import ErrorPolicy
from framework.record.dead_letters.dead_letter import (
    MOST_MESSAGE_BYTES,
    dead_letter_messages,
    dead_letter_schema,
    dead_letters_to_arrow,
)
from framework.record.dead_letters.replay import (
    RECORD,
    dead_letter_blocks,
    marks_to_arrow,
    open_dead_letters,
    plan_marks_table,
    replay_plan,
)
from framework.record.dead_letters.view import bytes_text, value_lines
from framework.record.json.locate_field import locate
from framework.record.model import DeadLetter
from framework.record.process import process_block
from framework.record.strict_json import parse_record
from framework.table.schema.arrow import parse_schema
from testbed.record_samples import block, plan, target


def letters(*places: tuple[str, int, int], value: bytes = b"{") -> pa.Table:
    found = [
        DeadLetter(t, p, o, 1000 + o, b"k", value, [("h", b"1")], "decode", "FLOE-D101", "no") for t, p, o in places
    ]
    return dead_letters_to_arrow(found, "p", "run", target(schema=dead_letter_schema()))


def places(table: pa.Table) -> list[tuple[str, int, int]]:
    columns = (table.column(name).to_pylist() for name in ("topic", "partition", "offset"))
    return list(zip(*columns, strict=True))


def test_dead_letters_without_a_mark_wait_once_each() -> None:
    """A letter waits until a mark names its place; a place that is there twice is one letter; they come in order."""
    found = letters(("b", 0, 5), ("a", 1, 7), ("a", 1, 3), ("a", 0, 3), ("a", 1, 7))
    marks = marks_to_arrow("p", [("a", 0, 3)], 1, "r", target(schema=parse_schema(plan_marks_table("x.d").schema_json)))
    assert places(open_dead_letters(found, marks)) == [("a", 1, 3), ("a", 1, 7), ("b", 0, 5)]
    assert places(open_dead_letters(found, found)) == []


def test_dead_letters_become_the_records_they_were() -> None:
    """Bytes, place, time, key and headers of a record are what they were when it failed."""
    blocks = list(dead_letter_blocks(letters(("a", 0, 1), ("a", 0, 9), ("b", 0, 2)).select(list(RECORD))))
    assert [(b.topic, b.partition, b.offsets, b.timestamps_ms) for b in blocks] == [
        ("a", 0, [1, 9], [1001, 1009]),
        ("b", 0, [2], [1002]),
    ]
    assert (blocks[0].values, blocks[0].key(1), blocks[0].headers_of(1)) == ([b"{", b"{"], b"k", [("h", b"1")])


def test_a_replay_never_stops_at_a_record() -> None:
    """Under the policy `fail` a letter that fails again stays a letter; `drop` is heeded."""
    replayed = replay_plan(plan(errors=ErrorPolicy.FAIL, unrouted=ErrorPolicy.DROP))
    assert (replayed.pipeline, replayed.write.errors, replayed.route.unrouted) == (
        "p.replay",
        ErrorPolicy.DEAD_LETTER,
        ErrorPolicy.DROP,
    )
    assert is_replay(replay_name("p"))


def test_a_replay_goes_on_behind_everything_known() -> None:
    """The next batch follows the newest that the log or any table tells of, whichever knows more."""
    link = Heartbeat("p.replay", "r", 4, (replay_range("x.d", 30, 30),), Accounting())
    assert replay_position("x.d", None, [None]) == ReplayPosition(0, 0)
    assert replay_position("x.d", link, [PipelineProgress(2, {"dead-letters:x.d": {"0": 20}})]) == ReplayPosition(4, 30)
    assert replay_position("x.d", None, [PipelineProgress(5, {"dead-letters:x.d": {"0": 41}})]) == ReplayPosition(5, 41)
    assert replay_position("x.other", link, []) == ReplayPosition(4, 0)


def test_stages_have_policies_of_their_own() -> None:
    """A record that fails goes where its stage's policy says, and where `errors.policy` says at the other stages."""
    pipeline = plan(errors=ErrorPolicy.DEAD_LETTER)
    write = {"error_stages": (("decode", ErrorPolicy.DROP), ("convert", ErrorPolicy.FAIL))}
    pipeline = type(pipeline)(**{**vars(pipeline), "write": type(pipeline.write)(**{**vars(pipeline.write), **write})})
    result = process_block(block([b"{", {"a": "x"}, {"a": 1}]), pipeline, {"ns.t": target(columns={"a": "int"})})
    assert (result.dropped, result.written, [d.stage for d in result.dead_letters]) == (1, 1, ["convert"])
    assert result.failure is not None


def test_a_dead_letter_as_a_kafka_record() -> None:
    """A letter keeps its key, value, headers and time; the reason is in headers; a value that is too large stays
    behind."""
    (small,) = dead_letter_messages(letters(("a", 0, 7), value=b"\xff"))
    assert (small.key, small.value, small.timestamp_ms) == (b"k", b"\xff", 1007)
    headers = dict(small.headers)
    assert headers["h"] == b"1"
    assert (headers["floe.offset"], headers["floe.code"], headers["floe.timestamp"]) == (b"7", b"FLOE-D101", b"1007")
    (large,) = dead_letter_messages(letters(("a", 0, 7), value=b"x" * MOST_MESSAGE_BYTES))
    assert large.value is None
    assert "floe.value" in dict(large.headers)


# ---- what a person sees -------------------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=3),
    max_leaves=10,
)


def paths(value: object, path: str) -> list[tuple[str, object]]:
    found = [(path, value)]
    if isinstance(value, dict):
        for name, item in value.items():
            found += paths(item, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            found += paths(item, f"{path}[{i}]")
    return found


@given(st.dictionaries(st.text("abc", min_size=1), VALUES, max_size=3), st.sampled_from([None, 1]))
def test_every_value_is_found_by_its_path(record: dict[str, object], indent: int | None) -> None:
    """The span of a field is exactly the text of its value, at any depth."""
    text = json.dumps(record, indent=indent)
    for path, value in paths(record, ""):
        span = locate(text, path)
        assert span is not None
        assert json.loads(text[slice(*span)]) == value


@pytest.mark.parametrize("path", ["x", "a.b", "a[0]", "l[5]", "l.a"])
def test_a_path_that_leads_nowhere(path: str) -> None:
    """A field that the document has not is not found, and neither is one in what is no document."""
    assert locate('{"a": 1, "l": [1]}', path) is None
    assert locate('{"a": ', path) is None


@pytest.mark.parametrize(
    ("value", "field", "lines"),
    [
        (b'{"a": 1 2}', None, ['{"a": 1 2}', "        ^ byte 8"]),
        (b'{"a": "\xff"}', None, ['{"a": "\\xff"}', "       ^ byte 7"]),
        ('{"ü": 1, "a": tru}'.encode(), None, ['{"ü": 1, "a": tru}', "              ^ byte 15"]),
        (b'{"a": [1, "x"]}', "a[1]", ['{"a": [1, "x"]}', "          ^^^"]),
        (b'{"A": 5}', "a", ['{"A": 5}', "      ^"]),
        (b'{"a":\n1}', "gone", ['{"a":\\n1}']),
        (b"\x1b[2J", None, ["\\x1b[2J", "^^^^ byte 0"]),
        (None, None, ["(null)"]),
    ],
)
def test_the_mark_is_under_the_trouble(value: bytes | None, field: str | None, lines: list[str]) -> None:
    """A caret stands under the byte where the JSON breaks, a mark under the field; control characters are harmless."""
    assert value_lines(value, field) == lines


def test_a_long_record_is_shown_around_the_trouble() -> None:
    """Of a long record the part with the trouble is shown, and the mark is still in its place."""
    value = b'{"pad": "' + b"x" * 5000 + b'", "a": "here"}'
    line, mark = value_lines(value, "a")
    assert len(line) < 130
    assert line[mark.index("^") : mark.index("^") + 6] == '"here"'


@given(st.binary(max_size=60))
def test_any_bytes_can_be_shown(value: bytes) -> None:
    """Whatever a record holds, what is printed has no control characters."""
    for line in [*value_lines(value, "a.b"), bytes_text(value)]:
        assert line.isprintable() or not any(ord(c) < 32 or ord(c) == 127 for c in line)


def test_positions_in_messages_are_those_of_the_mark() -> None:
    """A message about broken JSON names the byte that the mark points to."""
    from framework.record.failure import RecordFailure

    with pytest.raises(RecordFailure, match="at byte 15"):
        parse_record('{"ü": 1, "a": tru}'.encode())
