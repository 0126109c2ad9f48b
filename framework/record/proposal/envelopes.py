"""Recognizes what wraps a record: a change event of Debezium, with or without Kafka Connect's `schema` part.

In: a record as JSON values. Out: the row that the event is about, or None where it is no such event.
"""

from __future__ import annotations

from dataclasses import dataclass

from framework.record.strict_json import JsonValue

_OPERATIONS = frozenset({"c", "u", "d", "r", "t", "m"})


@dataclass(frozen=True)
class ChangeEvent:
    """`row` is the one after the change, or before a delete; None for an event about no row. `typed` says that a schema
    came with it."""

    row: dict[str, JsonValue] | None
    typed: bool


def is_wrapped(record: dict[str, JsonValue]) -> bool:
    """Whether Kafka Connect's JSON converter wrote the record with its schema."""
    return record.keys() == {"schema", "payload"} and isinstance(record["schema"], dict)


def row_of(record: dict[str, JsonValue]) -> ChangeEvent | None:
    """The row of a change event; None for any other record."""
    event = record["payload"] if is_wrapped(record) else record
    if (
        not isinstance(event, dict)
        or event.get("op") not in _OPERATIONS
        or not {"before", "after", "source"} & event.keys()
    ):
        return None
    if not isinstance(event.get("source"), dict):
        return None
    row = event.get("after") if event.get("after") is not None else event.get("before")
    return ChangeEvent(row if isinstance(row, dict) else None, is_wrapped(record))
