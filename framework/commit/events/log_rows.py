"""Records of the control topic as rows of a table that keeps them for ever.

In: a record as it stands in the log. Out: a row, in the columns named here; and the record again.
Every record becomes one row, whoever wrote it and whatever this version makes of it, so the table and the log hold the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Iceberg's types. The moment is the record's, by which the table is partitioned.
COLUMNS = (
    ("control_topic", "string", True, "the control topic"),
    ("topic_id", "string", True, "the broker's id of this incarnation of the topic; offsets count for it alone"),
    ("offset", "long", True, "the record's offset"),
    ("timestamp", "timestamptz", False, "the record's timestamp, as the broker gives it"),
    ("type", "string", False, "the type of the event; null where the record is no event of floe"),
    ("pipeline", "string", False, "the pipeline that it is about"),
    ("table_name", "string", False, "the table that it is about"),
    ("by", "string", False, "who said it: a person, a coordinator or a run"),
    ("reason", "string", False, "why, in words"),
    ("event", "string", False, "the record as it stands in the log; docs/protocol.md says what is in it"),
    ("bytes", "binary", False, "the record where it is no text in UTF-8, which then `event` is not"),
)
REMOVED = "RemovedFromLog"  # the type of a row that stands for records which the topic lost before they were archived
_PIPELINES = ("pipeline",)
_TABLES = ("table",)
_AUTHORS = ("by", "coordinator", "run")
_REASONS = ("reason", "why", "cause")
_FIRST_MS, _END_MS = -62_135_596_800_000, 253_402_300_800_000  # what a calendar holds
_MOST_CHARACTERS = 4_000  # of a word for people; the event has all of it


@dataclass(frozen=True)
class LogPlace:
    """The incarnation of a control topic."""

    topic: str
    topic_id: str


def schema_json() -> str:
    """The table's schema, as Iceberg writes schemas."""
    fields = [
        {"id": number, "name": name, "type": kind, "required": required, "doc": doc}
        for number, (name, kind, required, doc) in enumerate(COLUMNS, 1)
    ]
    return json.dumps({"type": "struct", "schema-id": 0, "identifier-field-ids": [], "fields": fields})


def row_of(place: LogPlace, offset: int, timestamp_ms: int | None, value: bytes) -> dict[str, object]:
    """One record as a row, by column; `timestamp` in microseconds since 1970 (UTC)."""
    said = _object(value)
    kind = said.get("type")
    if kind == REMOVED:  # whoever wrote it into the log: floe writes such rows into the table alone
        kind = None
    try:
        event, other = value.decode("utf-8"), None
    except UnicodeDecodeError:
        event, other = None, value
    has_subject = kind == "StateChanged"
    subject = said.get("subject") if has_subject else None
    return {
        "control_topic": place.topic,
        "topic_id": place.topic_id,
        "offset": offset,
        "timestamp": timestamp_ms * 1000 if timestamp_ms is not None and _FIRST_MS <= timestamp_ms < _END_MS else None,
        "type": _text(kind),
        "pipeline": _text(said.get("name")) if subject == "pipeline" else _first(said, _PIPELINES),
        "table_name": _text(said.get("name")) if subject == "table" else _first(said, _TABLES),
        "by": _first(said, _AUTHORS),
        "reason": _first(said, _REASONS),
        "event": event,
        "bytes": other,
    }


def row_of_removed(place: LogPlace, first: int, below: int, now_ms: int) -> dict[str, object]:
    """The row that stands for the records in [first, below), which are gone. It has the last of their offsets."""
    said = {"type": REMOVED, "version": 1, "first": first, "below": below, "timestamp_ms": now_ms}
    row = row_of(place, below - 1, now_ms, json.dumps(said, separators=(",", ":")).encode())
    return {
        **row,
        "type": REMOVED,
        "reason": f"the topic no longer held offsets {first:,} to {below - 1:,} when they were to be archived",
    }


def value_of(row: Mapping[str, Any]) -> bytes:
    """The record that a row holds, as it stood in the log."""
    event = row["event"]
    return bytes(row["bytes"] or b"") if event is None else str(event).encode()


def words_of_removed(row: Mapping[str, Any]) -> str | None:
    """What a row says that stands for removed records; None for all others."""
    return str(row["reason"]) if row["type"] == REMOVED else None


def _object(value: bytes) -> dict[str, Any]:
    try:
        found = json.loads(value.decode("utf-8"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _first(said: dict[str, Any], keys: tuple[str, ...]) -> str | None:
    return next((text for key in keys if (text := _text(said.get(key)))), None)


def _text(value: object) -> str | None:
    if not isinstance(value, str):
        return None
    return value.encode("utf-8", "replace").decode()[:_MOST_CHARACTERS]
