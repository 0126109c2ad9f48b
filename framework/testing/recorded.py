"""Turns records from a file or a topic into the `input` of a test.

In: a record's original bytes. Out: the shortest YAML that gives exactly these bytes. Fields that the user names, and
those with names of secrets, are masked first: more people read a repository than a topic.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection
from dataclasses import dataclass, replace

from framework.config.names.metadata import HEADER
from framework.config.spec import PipelineSpec
from framework.diagnose.secrets import is_secret_name
from framework.errors import ConfigError
from framework.record.failure import RecordFailure
from framework.record.masks import MASKED, Hidden, Masks, mask_elements, mask_fields
from framework.record.strict_json import JsonValue, NumberText, parse_document, parse_record
from framework.testing.values import Plain

MAX_RECORDS = 200
MAX_RECORD_BYTES = 64 * 1024


@dataclass(frozen=True)
class Taken:
    """One record. `topic` is None where the pipeline has but one; what is beside the value is of records from a
    topic."""

    value: bytes | None
    topic: str | None = None
    partition: int = 0
    offset: int = 0
    timestamp_ms: int = -1
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def checked(records: Collection[Taken], place: str) -> None:
    """Refuses what makes no test that a person would read.

    Raises:
        ConfigError: FLOE-R403, no records, too many, or one that is too large.
    """
    if not 0 < len(records) <= MAX_RECORDS:
        raise ConfigError(
            f"there are {len(records)} records, but a test takes 1 to {MAX_RECORDS}",
            code="FLOE-R403",
            place=place,
            remedy="give only the few records that matter",
        )
    largest = max(len(record.value or b"") for record in records)
    if largest > MAX_RECORD_BYTES:
        raise ConfigError(
            f"a record has {largest:,} bytes, but a test takes at most {MAX_RECORD_BYTES:,}",
            code="FLOE-R403",
            place=place,
            remedy="write the fields that matter to a file, and record that",
        )


def masked(record: Taken, fields: Collection[str], place: str) -> tuple[Taken, set[str]]:
    """The record without the values of some fields and of those with the name of a secret; and the paths that were
    masked.

    Args:
        fields: dotted paths; a list on the way is passed through.

    Raises:
        ConfigError: FLOE-R403, a field is to be masked in a record that is no JSON object.
    """
    found: set[str] = set()
    headers = tuple((name, _masked_header(name, value, fields, found)) for name, value in record.headers)
    kept = replace(record, headers=headers)
    if record.value is None:
        return kept, found
    hidden, masks = Hidden(), Masks.of(fields)
    try:
        shown = _shown(record.value, masks, hidden)
    except RecordFailure as failure:
        if not fields:
            return kept, found
        raise ConfigError(
            f"fields can be masked only in JSON objects: {failure.message}",
            code="FLOE-R403",
            place=place,
            remedy="choose other records, or leave --mask out and check what is written",
        ) from None
    return (replace(kept, value=_json(shown).encode()) if hidden.paths else kept), found | hidden.paths


def _shown(value: bytes, masks: Masks, hidden: Hidden) -> JsonValue:
    """The record's fields without what is hidden; those of its elements where it is an array."""
    document = parse_document(value) if value.lstrip()[:1] == b"[" else None
    if isinstance(document, list):
        return mask_elements(document, masks, hidden)
    return mask_fields(parse_record(value), masks, hidden)


def _masked_header(name: str, value: bytes | None, fields: Collection[str], found: set[str]) -> bytes | None:
    if value is None or not (f"header.{name}" in fields or is_secret_name(name)):
        return value
    found.add(f"header.{name}")
    return MASKED.encode()


def _json(value: JsonValue) -> str:
    """JSON with its numbers as they were written."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)}: {_json(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_json, value)) + "]"
    return str(value) if isinstance(value, NumberText) else json.dumps(value, ensure_ascii=False)


# ---- as YAML --------------------------------------------------------------------------------------------------------


def as_input(record: Taken, spec: PipelineSpec) -> Plain:
    """One item of `input`: the value, and of what is beside it only what the pipeline looks at."""
    item: dict[str, Plain] = {}
    if record.topic is not None and record.topic != next(iter(spec.source.kafka.topics), None):
        item["topic"] = record.topic
    columns = spec.source.metadata_columns
    # Which change of a key is the newest depends on positions; a line of a file has none but its place.
    is_ordered = spec.tables.has_upserts and record.topic is not None
    if is_ordered or "partition" in columns:
        item["partition"] = record.partition
    if is_ordered or "offset" in columns:
        item["offset"] = record.offset
    if "timestamp" in columns and record.timestamp_ms >= 0:
        item["timestamp_ms"] = record.timestamp_ms
    if record.key is not None and (spec.source.key or not {"key", "key_text"}.isdisjoint(columns)):
        item["key"] = _bytes(record.key)
    wanted = {name: value for name, value in record.headers if "headers" in columns or HEADER + name in columns}
    if wanted:
        item["headers"] = {
            name: None if value is None else value.decode("utf-8", "replace") for name, value in wanted.items()
        }
    return {**item, **_value(record.value)}


def _value(value: bytes | None) -> dict[str, Plain]:
    """The shortest form that gives exactly these bytes' meaning: YAML where numbers keep their digits, else the
    text."""
    if value is None:
        return {"value": None}
    raw = _bytes(value)
    if not isinstance(raw, str):
        return {"raw": raw}
    try:
        fields = json.loads(raw, parse_float=_float, parse_constant=_float, object_pairs_hook=_mapping)
    except (ValueError, RecursionError):
        return {"raw": raw}
    return {"value": fields} if isinstance(fields, dict | list) else {"raw": raw}


def _bytes(value: bytes) -> Plain:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _float(text: str) -> float:
    number = float(text)
    if repr(number) != text:
        raise ValueError("YAML would not keep its digits")
    return number


def _mapping(pairs: list[tuple[str, Plain]]) -> dict[str, Plain]:
    if len({key for key, _ in pairs}) < len(pairs) or any("${" in key or "{{" in key for key, _ in pairs):
        raise ValueError("YAML has no such mapping")
    return dict(pairs)
