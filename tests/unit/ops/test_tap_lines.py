"""What `floe tap` shows of one record: what is hidden in its fields is hidden in every word about it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from framework.ops.tap.lines import Stage, document, json_line, text_lines
from framework.ops.tap.model import Change, RecordOutcome, SampledRecord
from framework.record.masks import Masks
from framework.record.model import DeadLetter
from framework.record.strict_json import parse_document, parse_record

SEEN = SampledRecord("orders", 0, 7, 1_000, None, b"{}", RecordOutcome.WRITTEN, {})


def refused(value: bytes, **more: Any) -> SampledRecord:
    given = {"stage": "convert", "code": "FLOE-D303", "message": "no", **more}
    letter = DeadLetter("orders", 0, 7, 1_000, None, value, [], **given)
    try:
        fields: dict[str, Any] | None = dict(parse_record(value))
    except Exception:
        fields = None
    return replace(SEEN, value=value, fate=RecordOutcome.DEAD_LETTER, fields=fields, letter=letter)


def said(seen: SampledRecord, *masks: str) -> str:
    parts = []
    for stage in Stage:
        found = document(seen, stage, Masks.of(masks))
        parts += [json_line(found), *text_lines(found)]
    return "\n".join(parts)


def test_numbers_are_shown_as_they_were_written() -> None:
    """No digit of a record is rounded on the way to the reader."""
    line = json_line(
        document(replace(SEEN, fields=dict(parse_record(b'{"a": 12.10, "b": 1e400}'))), Stage.DECODE, Masks())
    )
    assert '"a": 12.10, "b": 1e400' in line


def test_a_hidden_value_is_hidden_wherever_it_stands() -> None:
    """In another column, in the name of a table, in the words of an error, as text or as number."""
    record = b'{"mail": "me@there.example", "card": 41111111}'
    seen = replace(
        refused(record, message="`me@there.example` is no time", field_path="at", actual="me@there.example, 41111111"),
        changes=(Change("shop.me@there.example", "append", {"m": "to me@there.example", "c": 41111111}),),
    )
    text = said(seen, "mail", "card")
    assert "me@there" not in text
    assert "41111111" not in text
    assert "shop.masked" in text


@pytest.mark.parametrize("path", ["who", "who.mail", "who.mail.first"])
def test_the_words_about_a_hidden_field_are_not_shown(path: str) -> None:
    """However short or changed the value is that a message repeats."""
    seen = refused(b'{"who": {"mail": {"first": "xy"}}}', message="XY is bad", field_path="who.mail.first", actual="XY")
    text = said(seen, path)
    assert "XY" not in text
    assert "xy" not in text


def test_the_words_about_a_hidden_field_of_an_element_are_not_shown() -> None:
    """Lists add nothing to the path that a person hides, so neither do they to that of a dead letter."""
    seen = refused(b'{"who": [{"mail": "xy"}]}', message="XY is bad", field_path="who[0].mail", actual="XY")
    text = said(seen, "who.mail")
    assert "XY" not in text
    assert "xy" not in text


def test_a_record_that_is_an_array_is_hidden_field_by_field() -> None:
    """Its elements' fields have the names that they have as rows; secrets are hidden whoever asks."""
    value = b'[{"mail": "me@there.example", "n": 12.10}, {"mail": "xy", "password": "s3cret-word"}, 5]'
    seen = refused(value, message="XY is bad", field_path="[1].mail", actual="XY")
    text = said(replace(seen, fields={"$": parse_document(value)}), "mail")
    assert "me@there" not in text
    assert "s3cret-word" not in text
    assert "XY" not in text
    assert "xy" not in text
    assert "12.10" in text


@pytest.mark.parametrize(
    "value",
    [
        b'{"id": 1, "password": "s3cret-word',
        b'{"id":1,"password":"s3cret-word","id":2}',
        b'{"id":1,"pass\\u0077ord":"s3cret-word"',
        b"password=s3cret-word",
        b'{"headers": ["Authorization: Bearer s3cret-word"',
        b"\xff\xfe password: s3cret-word",
    ],
)
def test_what_cannot_be_read_is_shown_up_to_the_first_name_of_a_secret(value: bytes) -> None:
    """A broken record is no way around the masks."""
    assert "s3cret-word" not in said(refused(value, stage="decode", code="FLOE-D101"))


def test_a_broken_record_is_shown_unless_something_is_to_be_hidden() -> None:
    """Where fields are to be hidden, what cannot be read field by field is not shown at all."""
    seen = refused(b'{"id": 1, "mail": "me@there', stage="decode", code="FLOE-D101")
    assert "me@there" in said(seen)
    assert "me@there" not in said(seen, "phone")
    assert document(seen, Stage.DEAD_LETTER, Masks.of(["phone"]))["letter"]["value"] == {"bytes": 27}


def test_a_line_for_people_is_one_line() -> None:
    """Control characters of names and values are escaped, and a long record is cut."""
    record = json.dumps({"a\n\x1b": "b\r\u202e", "long": "x" * 10_000}).encode()
    seen = replace(
        SEEN, topic="o\nr", fields=dict(parse_record(record)), changes=(Change("t\n", "append", {"\x1b": "\n"}),)
    )
    for stage in Stage:
        for line in text_lines(document(seen, stage, Masks())):
            assert line.isprintable()
            assert len(line) < 2_100
