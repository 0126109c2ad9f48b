"""Recognizes what wraps the rows of a sample: envelopes of change events, Kafka Connect's schemas, arrays of documents.

In: records as JSON values. Out: the words that a pipeline file needs for them, and the rows inside; None where records are
their own rows. Only what all records have in common counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from framework.config.names.metadata import kept_column
from framework.config.spec import WHOLE_RECORD
from framework.config.values.envelopes import ENVELOPES
from framework.record.strict_json import JsonValue

_DEBEZIUM = frozenset({"c", "u", "d", "r", "t", "m"})
_Row = dict[str, JsonValue]


@dataclass(frozen=True)
class Wrapping:
    """`explode` and `envelope` are words of `source.format`; `typed`: the types of rows come with them. `what` says it to
    people. `rows`: those that are inside, one after the other. `table_field`: a column that names each row's table."""

    what: str
    rows: tuple[_Row, ...]
    envelope: str | None = None
    explode: str | None = None
    typed: bool = False
    table_field: str | None = None


def wrapping_of(records: Sequence[JsonValue]) -> Wrapping | None:
    """What all records of a sample are wrapped in."""
    if not records:
        return None
    if all(isinstance(record, list) for record in records):
        rows = [row for record in records if isinstance(record, list) for row in record]
        return Wrapping("arrays of documents", _objects(rows), explode=WHOLE_RECORD)
    found = [record for record in records if isinstance(record, dict)]
    if len(found) < len(records):
        return None
    for recognized in (_debezium, _connect, _canal, _maxwell, _dms):
        if (wrapping := recognized(found)) is not None:
            return wrapping
    return None


def _objects(values: Sequence[JsonValue]) -> tuple[_Row, ...]:
    return tuple(value for value in values if isinstance(value, dict))


def _has_schema(record: _Row) -> bool:
    """Whether Kafka Connect's JSON converter wrote the record with its schema."""
    return record.keys() == {"schema", "payload"} and isinstance(record["schema"], dict)


def _debezium(records: list[_Row]) -> Wrapping | None:
    typed = all(map(_has_schema, records))
    events = _objects([record["payload"] for record in records] if typed else records)
    if len(events) < len(records) or not all(
        (event.get("op") in _DEBEZIUM and {"before", "after"} & event.keys() and isinstance(event.get("source"), dict))
        or event.get("op") in ("t", "m")
        for event in events
    ):
        return None
    rows = [event["after"] if event.get("after") is not None else event.get("before") for event in events]
    types = "with a schema that says their types" if typed else "without a schema"
    return Wrapping(f"change events of Debezium, {types}", _objects(rows), "debezium", typed=typed)


def _connect(records: list[_Row]) -> Wrapping | None:
    if not all(map(_has_schema, records)):
        return None
    rows = _objects([record["payload"] for record in records])
    return Wrapping("records of Kafka Connect with a schema that says their types", rows, "connect", typed=True)


def _events(
    word: str, name: str, has_form: Callable[[_Row], bool], explode: str | None = None
) -> Callable[[list[_Row]], Wrapping | None]:
    """Change events whose envelope is known by its paths."""
    paths = ENVELOPES[word]
    known = {each.lower() for _, words in paths.operations for each in words} | {each.lower() for each in paths.ignore}

    def recognized(records: list[_Row]) -> Wrapping | None:
        said = [_at(record, paths.operation) for record in records]
        if not all(isinstance(each, str) and each.lower() in known for each in said) or not all(map(has_form, records)):
            return None
        inside = [_at(record, paths.after) for record in records]
        rows = [row for each in inside for row in (each if isinstance(each, list) else [each])]
        table = next(each for each in paths.fields if each.rpartition(".")[2] in ("table", "table-name"))
        return Wrapping(f"change events of {name}", _objects(rows), word, explode, table_field=kept_column(table))

    return recognized


def _at(record: _Row, path: str) -> JsonValue:
    value: JsonValue = record
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


_maxwell = _events("maxwell", "Maxwell", lambda record: {"database", "table"} <= record.keys())
_canal = _events("canal", "Canal", lambda record: {"database", "table", "isDdl"} <= record.keys(), "data")
_dms = _events("dms", "AWS DMS", lambda record: isinstance(_at(record, "metadata.record-type"), str))
