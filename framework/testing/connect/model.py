"""A record on its way through a sink, and what can go wrong there.

In: bytes of a topic's record. Out: the record as Connect's JSON converter gives it, without a schema. This folder
shares no code with the translation of connectors: what both say alike was written down twice.
"""

from __future__ import annotations

import json
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
    """The value as JSON without a schema. Raises Stops."""
    if value is None:
        return None
    try:
        found = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise Stops(f"the value is not JSON: {error}") from None
    return found
