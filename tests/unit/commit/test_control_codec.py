"""Control events as JSON: round trip, the published schema, the size limit, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from framework.commit.events.codec import MAX_EVENT_BYTES, decode, encode, foreign
from framework.commit.events.event_shapes import SHAPES
from framework.commit.events.event_types import (
    CommitComplete,
    ControlEvent,
    DataFile,
    DataWritten,
    Health,
    Heartbeat,
    SourceRange,
    StateChanged,
    Subject,
)
from framework.commit.events.split import split, split_data_written, split_information
from framework.errors import FloeError
from tests.protocol.build import complete, heartbeat, written
from tests.protocol.strategies import commit_completes, data_written, events, of_each_type

SCHEMA = Path(__file__).parents[3] / "schemas" / "control-event.v1.schema.json"


@cache
def validator() -> Draft202012Validator:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@given(events)
def test_an_event_survives_its_encoding(event: ControlEvent) -> None:
    """decode(encode(e)) == e for every event."""
    assert decode(encode(event)) == event


@settings(max_examples=60)
@given(events)
def test_an_encoded_event_validates_against_the_schema(event: ControlEvent) -> None:
    """What is written to the control topic is what the schema file describes."""
    errors = [error.message for error in validator().iter_errors(json.loads(encode(event)))]
    assert errors == []


@settings(max_examples=60)
@given(events)
def test_the_schema_declares_every_field_that_is_written(event: ControlEvent) -> None:
    """No field is written that the schema does not name, and none is left out but those that say nothing."""
    value = json.loads(encode(event))
    declared = validator().schema["$defs"][value["type"]]
    sparse = ("given_up", "after_batch", "table_uuids", "batches", "keyed", "phase_ms", "begun_ms")
    empty = {name for name in sparse if getattr(event, name, ()) in ((), {}, None)}
    assert set(value) == set(declared["properties"]) - empty


@given(data_written, st.integers(0, 3), st.integers(0, 4_000))
def test_a_split_announcement_says_the_same_and_no_part_is_too_large(
    event: DataWritten, repeat: int, room: int
) -> None:
    """Wherever the limit has room for each file alone, parts keep all files in order and everything else unchanged."""
    event = replace(event, files=event.files * (repeat + 1))
    limit = _largest_alone(event) + room
    parts = split_data_written(event, limit)
    assert tuple(file for part in parts for file in part.files) == event.files
    assert [(part.part, part.parts) for part in parts] == [(n, len(parts)) for n in range(len(parts))]
    assert all(len(encode(part)) <= limit for part in parts)
    assert [part.keyed for part in parts] == [event.keyed, *[None] * (len(parts) - 1)]
    assert all(replace(part, files=event.files, part=0, parts=1, keyed=event.keyed) == event for part in parts)


@given(data_written)
def test_a_file_that_no_event_can_hold_is_refused(event: DataWritten) -> None:
    """Where one file alone is above the limit, nothing is announced, and the message says how large it is."""
    with pytest.raises(FloeError, match="the limit is") as caught:
        split_data_written(event, len(encode(replace(event, files=event.files[:0]))) - 1)
    assert (caught.value.code, caught.value.place) == ("FLOE-R203", event.table)


def _largest_alone(event: DataWritten) -> int:
    """The least limit that has room for each file alone, with the digits of the number of parts."""
    return 20 + max(len(encode(replace(event, files=alone))) for alone in [(), *((file,) for file in event.files)])


@settings(max_examples=150)
@given(commit_completes, st.integers(0, 60), st.integers(0, 3_000), st.integers(700, 6_000))
def test_a_commit_complete_is_reported_whatever_it_holds(
    event: CommitComplete, tables: int, words: int, limit: int
) -> None:
    """No information is too large to be told: one event answers the request and says how many tables wait, reasons are
    shortened, and what readers add up stands in the events behind it unless a single piece of it is too large alone."""
    blocked = {f"shop.table_{n}": "x" * words for n in range(tables)} | {
        f"t{n}": v for n, v in enumerate(event.blocked)
    }
    event = replace(event, coordinator="c", request_id="q", blocked=blocked, more_blocked=0)
    pieces = [piece for piece in split_information(event, limit) if isinstance(piece, CommitComplete)]
    assert [p.request_id for p in pieces] == ["q"] + [""] * (len(pieces) - 1)
    assert len(pieces[0].blocked) + pieces[0].more_blocked == len(blocked)
    assert all(len(encode(piece)) <= limit for piece in pieces)
    bare = replace(event, blocked={}, blocked_pipelines={}, chain={}, valid_through_ms={}, paused=(), request_id="")
    alone = {name for name, link in event.chain.items() if len(encode(replace(bare, chain={name: link}))) <= limit}
    reported = {name: link for piece in pieces for name, link in piece.chain.items()}
    assert reported == {name: link for name, link in event.chain.items() if name in alone} or reported == event.chain
    assert {n: at for piece in pieces for n, at in piece.valid_through_ms.items()} == event.valid_through_ms
    held = [pause for piece in pieces for pause in piece.paused]
    assert held == [p for p in event.paused if len(encode(replace(bare, paused=(p,)))) <= limit] or held == list(
        event.paused
    )
    assert len(pieces) == 1 or len(encode(event)) > limit


@pytest.mark.parametrize("reason", ["x" * 700_000, "a file's name \udce9 of another encoding"])
def test_no_words_of_an_error_end_a_coordinator(reason: str) -> None:
    """Reasons that are too long, or that UTF-8 cannot hold, are told as far as they can be."""
    reported = StateChanged(Subject.TABLE, "shop.t", Health.BLOCKED, reason, "", "", 0, 0, 0, "c")
    complete_event = CommitComplete("c", 1, 0, "q", blocked={"shop.t": reason}, blocked_pipelines={"p": reason})
    for event in (reported, complete_event):
        (piece,) = split_information(event)
        assert len(encode(piece)) <= MAX_EVENT_BYTES


def test_five_thousand_partitions_and_wide_tables_fit_the_limit() -> None:
    """5,000 partitions and files with metrics of 300 columns are announced in events below the limit."""
    ids = {str(n): 10**9 for n in range(300)}
    text = {str(n): "AAAAAAAAAAA=" for n in range(300)}
    file = DataFile("s3://bucket/" + "x" * 100, 1, 1, 0, (), ids, ids, ids, ids, text, text)
    ranges = tuple(SourceRange("orders", "x" * 22, n, 10**9, 10**9 + 1, 1_700_000_000_000) for n in range(5_000))
    event = replace(written("a", 1, source=ranges), files=(file,) * 100)
    parts = split_data_written(event)
    assert len(parts) > 1
    assert max(len(encode(part)) for part in parts) <= MAX_EVENT_BYTES
    assert split(complete("a", 1, source=ranges)) == (complete("a", 1, source=ranges),)


def test_announcements_of_a_batch_share_its_ranges() -> None:
    """What each table's announcement repeats is held once; a list that only equals it, `true` for 1, is still
    refused."""
    value = json.loads(encode(heartbeat("orders", 1, 1)))
    first, second = decode(json.dumps(value).encode()), decode(json.dumps(value).encode())
    assert isinstance(first, Heartbeat)
    assert isinstance(second, Heartbeat)
    assert first.ranges is second.ranges
    value["ranges"][0]["partitions"][0][2] = True
    with pytest.raises(FloeError, match="a range must be"):
        decode(json.dumps(value).encode())


def test_an_unknown_event_type_is_none() -> None:
    """A newer floe may write events that this one does not know."""
    assert decode(b'{"type":"TableRenamed","version":9,"x":[1]}') is None


def test_unknown_fields_are_ignored() -> None:
    """A newer floe may add fields to events that this one knows."""
    value = json.loads(encode(heartbeat("a", 1, 5)))
    assert decode(json.dumps({**value, "mood": "good"}).encode()) == heartbeat("a", 1, 5)


@pytest.mark.parametrize(
    "value",
    [
        b'{"type":"Heartbeat","version":2}',
        b'{"type":"Heartbeat","version":1}',
        b'{"type":"Heartbeat"}',
    ],
)
def test_what_is_named_like_an_event_and_is_none_is_refused(value: bytes) -> None:
    """It may be an announcement of a newer floe: an error with a remedy, never skipped."""
    with pytest.raises(FloeError) as caught:
        decode(value)
    assert caught.value.remedy


@pytest.mark.parametrize(
    "value",
    [None, b"", b"\xff\xfe", b"[]", b"{}", b'{"type":7}', b"hello", b"[" * 100_000, b'{"a":' * 100_000, b"1" * 5_000],
)
def test_what_can_be_no_event_is_passed_over(value: bytes | None) -> None:
    """No event of floe, of any version, looks like that: it says why, and stops nobody."""
    assert decode(value) is None
    assert foreign(value)


# What logs of older versions lack, or what is left out where it is empty.
MAY_BE_MISSING = {
    "DataWritten": {"base_batch", "after_batch", "keyed", "begun_ms"},
    "DataComplete": {"gaps", "given_up", "phase_ms"},
    "Heartbeat": {"given_up"},
    "OffsetsSet": {"given_up"},
    "Discarded": {"table_uuids", "batches"},
    "CommitToTable": {"valid_through_ms"},
    "CommitComplete": {"blocked", "blocked_pipelines", "chain", "valid_through_ms", "paused", "more_blocked"},
    "StopRequested": {"reason"},
    "Acted": {"detail"},
    "Deployed": {"file"},
}


@cache
def _one_of_each() -> dict[str, ControlEvent]:
    """An event of each type: of twenty, the one that says least, which every version reads."""
    found: dict[str, ControlEvent] = {}

    @settings(max_examples=20, database=None, derandomize=True, phases=[Phase.generate])
    @given(st.tuples(*of_each_type))
    def collect(drawn: tuple[ControlEvent, ...]) -> None:
        for event in drawn:
            name = type(event).__name__
            if name not in found or len(encode(event)) < len(encode(found[name])):
                found[name] = event

    collect()
    assert found.keys() == SHAPES.keys()
    return found


@pytest.mark.parametrize("kind", sorted(SHAPES))
def test_an_event_with_a_field_missing_or_of_another_type_is_refused(kind: str) -> None:
    """No field of an event is ever guessed: each of each event is there and of its type, but for those told here."""
    value = json.loads(encode(_one_of_each()[kind]))
    declared = set(validator().schema["$defs"][kind]["properties"]) - {"type"}
    older = MAY_BE_MISSING.get(kind, set())
    assert declared >= older
    for name in declared:
        without = {key: held for key, held in value.items() if key != name}
        if name in older:
            assert type(decode(json.dumps(without).encode())).__name__ == kind, name
        else:
            _refused(without)
        for wrong in _of_another_type(value.get(name)):
            _refused({**value, name: wrong})


def _of_another_type(held: object) -> list[object]:
    """Values that are none for a field with this value; None may stand for a number, a list or an object."""
    others: list[object] = [[["no"]], 7, "words", True, {"map": [[]]}]
    if held is None:
        return ["words", True, [["no"]]]
    return [other for other in others if type(other) is not type(held)]


def _refused(value: dict[str, object]) -> None:
    with pytest.raises(FloeError):
        decode(json.dumps(value).encode())


def test_a_partition_value_without_a_json_form_is_refused_before_it_is_sent() -> None:
    """NaN is not JSON; nobody else could read the log."""
    event = written("a", 1)
    broken = replace(event, files=(replace(event.files[0], partition=(float("nan"),)),))
    for refused in (encode, split_data_written):
        with pytest.raises(FloeError) as caught:
            refused(broken)
        assert "JSON" in caught.value.message


@pytest.mark.parametrize("row", [[0, 5, 4, None], [0, -1, 4, None], [0, 1, 2], [0, 1, 2, "x"], [0, 1, True, None]])
def test_a_range_that_is_none_is_refused(row: list[object]) -> None:
    """A range never ends before it starts and has four numbers."""
    value = json.loads(encode(heartbeat("a", 1, 5)))
    value["ranges"][0]["partitions"] = [row]
    with pytest.raises(FloeError):
        decode(json.dumps(value).encode())


@given(data_written)
def test_a_reader_that_cannot_take_rows_away_stops_at_an_announcement_that_does(event: DataWritten) -> None:
    """An announcement with `keyed` has a version of its own, and one that says what becomes of remembered deletes another;
    each is refused under that of the others."""
    value = json.loads(encode(event))
    own = 1 if event.keyed is None else 2 if event.keyed.tombstones is None else 3
    assert value["version"] == own
    for other in {1, 2, 3} - {own}:
        value["version"] = other
        with pytest.raises(FloeError) as reported:
            decode(json.dumps(value).encode())
        assert reported.value.code == "FLOE-R202"


def test_a_stall_never_stands_in_the_log_by_its_own_name() -> None:
    """Readers of earlier versions stop at a state that they do not know, so STALLED is no word of an event: neither the
    published schema nor the reader has it."""
    reported = StateChanged(Subject.TABLE, "shop.t", Health.DEGRADED, "", "", "FLOE-R151", 0, 0, 0, "c")
    text = encode(reported).decode()
    assert "STALLED" not in (Path(__file__).parents[3] / "schemas" / "control-event.v1.schema.json").read_text()
    with pytest.raises(FloeError, match="must be one of"):
        decode(text.replace("DEGRADED", "STALLED").encode())
