"""A record on its way through a sink, and what can go wrong there.

In: bytes of a topic's record. Out: the record as Connect's JSON converter gives it, without a schema. This folder
shares no code with the translation of connectors: what both say alike was written down twice.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

Value = Any  # None, bool, int, float, str, datetime, or lists and dicts of them


class Stops(Exception):
    """The sink's task ends at this record."""


class Unknown(Exception):
    """This interpreter does not know what the sink does; nothing can be proved."""


@dataclass(frozen=True)
class SinkRecord:
    """One record. `topic` may be another one than it was read from."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    value: Value


def parsed(value: bytes | None) -> Value:
    """The value as JSON without a schema, as Connect's converter reads it. Raises Stops and Unknown."""
    if value is None:
        return None
    try:
        text = value.decode(json.detect_encoding(value)).lstrip(" \t\r\n")
        return _DECODER.raw_decode(text)[0] if text else None  # what stands behind the first value is not looked at
    except (ValueError, RecursionError) as error:
        if re.search(rb"[\[:,\s]-?0[0-9]", value):
            raise Unknown("numbers with leading zeros") from None
        raise Stops(f"the value is not JSON: {error}") from None


def _long(text: str) -> int:
    """A whole number; Connect keeps the lowest 64 bits."""
    return (int(text) + (1 << 63)) % (1 << 64) - (1 << 63)


def _double(text: str) -> float:
    """Connect reads a decimal first, which has no zero below zero."""
    return float(text) if set(re.split("[eE]", text)[0]) - set("-0.") else 0.0


def _refused(text: str) -> Value:
    raise ValueError(f"{text} is no number")


_DECODER = json.JSONDecoder(parse_int=_long, parse_float=_double, parse_constant=_refused)
