"""Dead letters as rows of their table."""

from __future__ import annotations

from pyiceberg.schema import Schema

from framework.record.dead_letters.dead_letter import dead_letter_schema, dead_letters_to_arrow, plan_dead_letter_table
from framework.record.model import DeadLetter
from testbed.record_samples import target

LETTER = DeadLetter(
    topic="events",
    partition=3,
    offset=2**40,
    timestamp_ms=1_704_369_600_123,
    key=None,
    value=b"\x00\xff",
    headers=[("trace", b"1"), ("trace", None)],
    stage="convert",
    code="FLOE-D302",
    message="too large",
    field_path="a.b",
    expected="int",
    actual="2147483648",
)


def test_a_dead_letter_becomes_a_row_with_everything_in_it() -> None:
    """Bytes, place, headers in order and reason are kept; a missing timestamp is null."""
    timeless = DeadLetter("t", 0, 0, -1, b"k", None, [], "decode", "FLOE-D101", "no JSON")
    rows = dead_letters_to_arrow([LETTER, timeless], "p", "run1", target(schema=dead_letter_schema())).to_pylist()
    first = {name: value for name, value in rows[0].items() if name != "timestamp"}
    assert first == {
        "topic": "events",
        "partition": 3,
        "offset": 2**40,
        "key": None,
        "value": b"\x00\xff",
        "headers": [{"key": "trace", "value": b"1"}, {"key": "trace", "value": None}],
        "stage": "convert",
        "code": "FLOE-D302",
        "message": "too large",
        "field_path": "a.b",
        "expected": "int",
        "actual": "2147483648",
        "pipeline": "p",
        "run": "run1",
    }
    assert rows[0]["timestamp"].timestamp() == 1_704_369_600.123
    assert rows[1]["timestamp"] is None
    assert (rows[1]["value"], rows[1]["headers"]) == (None, [])


def test_the_plan_of_the_table() -> None:
    """The table is made with the fixed schema, by day of the records."""
    change = plan_dead_letter_table("ops.letters")
    assert Schema.model_validate_json(change.schema_json) == dead_letter_schema()
    assert [(field.column, field.transform) for field in change.partition_by] == [("timestamp", "day")]


def test_a_table_with_other_ids_and_columns() -> None:
    """Rows follow the table as it is: its own field ids, its further columns null."""
    other = target(columns={"offset": "long", "more": "string", "topic": "string"})
    rows = dead_letters_to_arrow([LETTER], "p", "run1", other)
    assert rows.to_pylist() == [{"offset": 2**40, "more": None, "topic": "events"}]
    assert [field.metadata[b"PARQUET:field_id"] for field in rows.schema] == [b"1", b"2", b"3"]
