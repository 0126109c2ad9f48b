"""Control events to bytes and back.

In: a `ControlEvent`, or the value of a control record. Out: compact UTF-8 JSON valid under
`schemas/control-event.v1.schema.json`, or the event. Unknown event types decode to None, so that older coordinators can
read a newer log; unknown fields are ignored. What is no event of floe at all is passed over, since no announcement can
look like that; what is named like one of its events and does not fit is a FloeError, never skipped in silence.
`framework.commit.events.split` cuts events that would be too large.
"""

from __future__ import annotations

import json
import re
from typing import Any

from framework.commit.events.event_shapes import DELETED_KEYS_VERSION, FILE, SHAPES, UPSERT_VERSION, VERSION
from framework.commit.events.event_types import ControlEvent, DataFile, DataWritten
from framework.commit.events.json_shape import Malformed
from framework.errors import FloeError

MAX_EVENT_BYTES = 512 * 1024
# Some readers tell the type by the first bytes alone: no record may be one thing to them and another to the rest.
_FIRST_TYPE = re.compile(rb'\{"type":"([A-Za-z]+)",')
NO_EVENT = "a control record is not an event of floe: "


def encode(event: ControlEvent) -> bytes:
    """The event as compact JSON. Raises FloeError when a value has no JSON form (NaN, bytes)."""
    value = SHAPES[type(event).__name__].write(event)
    if isinstance(event, DataWritten) and event.keyed is not None:
        value["version"] = UPSERT_VERSION if event.keyed.tombstones is None else DELETED_KEYS_VERSION
    return _dump(value, type(event).__name__)


def encode_file(file: DataFile) -> bytes:
    """One file as it stands in an announcement, to measure it. Raises FloeError as `encode` does."""
    return _dump(FILE.write(file), "DataWritten")


def _dump(value: dict[str, object], kind: str) -> bytes:
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise FloeError(
            f"a {kind} event holds a value without a JSON form: {error}",
            code="FLOE-R201",
            place="control topic",
            remedy="a partition value must be an Iceberg JSON single value; choose another partition transform",
        ) from error


def decode(value: bytes | None) -> ControlEvent | None:
    """The event in a control record's value; None for an event type that this version does not know, and for what is no
    event of floe (`foreign`).

    Raises FloeError when a record is named like an event and is none: a field missing or of another type, a newer
    version.
    """
    parsed = _parsed(value)
    if isinstance(parsed, str):
        return None
    shape = SHAPES.get(parsed["type"])
    if shape is None:
        return None
    if (first := _FIRST_TYPE.match(value or b"")) is not None and first[1].decode() != parsed["type"]:
        raise _malformed(f"its type is given twice, {first[1].decode()} and {parsed['type']}")
    expected = _version_of(parsed)
    if parsed.get("version") != expected or parsed["version"] is True:
        raise _malformed(f"its version is {parsed.get('version')!r} and this floe reads version {expected}")
    try:
        event: ControlEvent = shape.read(parsed)
        return event
    except (Malformed, RecursionError) as error:
        raise _malformed(f"{parsed['type']}: {error}") from error


def _version_of(parsed: dict[str, Any]) -> int:
    """The version that an event with these fields has."""
    keyed = parsed.get("keyed") if parsed["type"] == DataWritten.__name__ else None
    if keyed is None:
        return VERSION
    return DELETED_KEYS_VERSION if isinstance(keyed, dict) and keyed.get("tombstones") is not None else UPSERT_VERSION


def foreign(value: bytes | None) -> str:
    """Why a control record can be no event of floe, of whatever version: all of them are JSON objects with a `type`, in
    few levels. "" where it may be one."""
    parsed = _parsed(value)
    return parsed if isinstance(parsed, str) else ""


def _no_constant(word: str) -> None:
    """NaN and Infinity are no JSON; floe writes none."""
    raise ValueError(word)


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def _parsed(value: bytes | None) -> dict[str, Any] | str:
    """The object, or why there is none."""
    try:
        # Not from bytes, of which json guesses the encoding: some readers look at the first bytes alone, and all see
        # the same.
        parsed = _DECODER.decode(value.decode("utf-8")) if value else None
    except RecursionError:
        return "it is nested too deeply"
    except ValueError:
        return "it is not JSON"
    if not isinstance(parsed, dict) or not isinstance(parsed.get("type"), str):
        return "it is not a JSON object with a `type`"
    return parsed


def is_of_type(value: bytes, kind: str) -> bool:
    """Whether a control record is an event of this type, recognized by its first bytes, as `encode` writes them.

    For readers that look for one type among many: decoding announcements costs far more than reading them.
    """
    return value.startswith(f'{{"type":"{kind}",'.encode())


def _malformed(reason: str) -> FloeError:
    return FloeError(
        f"{NO_EVENT}{reason}",
        code="FLOE-R202",
        place="control topic",
        remedy="find out who writes to the control topic; floe never skips an announcement, so reading stops here",
    )
