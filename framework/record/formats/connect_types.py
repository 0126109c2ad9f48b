"""The types that Kafka Connect and Debezium name: moments, days, times of day, decimals, geometry.

In: a schema's name (`io.debezium.time.MicroTimestamp`), its physical type and parameters. Out: the column that holds
such values exactly, or None for a name that says nothing of the type. The same names stand in Avro schemas and in the
JSON converter's `schema` part.
"""

from __future__ import annotations

import base64
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa

from framework.record.formats.columns import (
    ColumnBuilder,
    MappedColumn,
    PlainColumn,
    TimeColumn,
    day_column,
    decimal_column,
    moment_column,
    plain_column,
    unscaled_of,
    zeros_column,
)

_MOST_PLACES = 10_000  # a scale is four bytes long, and its digits would be as many as it says
_DAY_MS = 86_400_000
_MOMENTS = {
    "org.apache.kafka.connect.data.Timestamp": ("ms", "UTC"),
    "io.debezium.time.Timestamp": ("ms", None),
    "io.debezium.time.MicroTimestamp": ("us", None),
    "io.debezium.time.NanoTimestamp": ("ns", None),
}
_TIMES = {
    "org.apache.kafka.connect.data.Time": _DAY_MS,
    "io.debezium.time.Time": _DAY_MS,
    "io.debezium.time.MicroTime": _DAY_MS * 1000,
    "io.debezium.time.NanoTime": _DAY_MS * 1_000_000,
}
_DATES = ("org.apache.kafka.connect.data.Date", "io.debezium.time.Date")


def connect_column(name: str, kind: str, parameters: dict[str, str]) -> ColumnBuilder | None:
    """The column of a named type, for values as they are in Avro."""
    if name in _MOMENTS and kind in ("long", "int64"):
        return moment_column(*_MOMENTS[name])
    if name in _TIMES and kind in ("int", "long", "int32", "int64"):
        return TimeColumn("time", _TIMES[name])
    if name in _DATES and kind in ("int", "int32"):
        return day_column()
    if name == "org.apache.kafka.connect.data.Decimal" and kind == "bytes":
        scale = _whole(parameters.get("scale", "0"))
        if scale is not None and scale < 0:
            return zeros_column(scale)
        return decimal_column(_whole(parameters.get("connect.decimal.precision", "38")), scale)
    if name == "io.debezium.time.ZonedTimestamp" and kind == "string":
        return PlainColumn("timestamptz", pa.string())
    if name == "io.debezium.data.Uuid" and kind == "string":
        return PlainColumn("uuid", pa.string())
    if name == "io.debezium.data.VariableScaleDecimal":
        # Each value has a scale of its own, so no decimal column holds them all; the text of each is exact.
        return MappedColumn("string", plain_column("string"), _variable_decimal)
    return None


def _whole(text: object) -> int | None:
    """A parameter as Java's Integer.parseInt takes it; None where it is no number of a few digits, whoever wrote it."""
    return int(text) if isinstance(text, str) and re.fullmatch(r"[+-]?[0-9]{1,10}", text) else None


def _variable_decimal(value: Any) -> str:
    unscaled = value["value"]
    data = base64.b64decode(unscaled, validate=True) if isinstance(unscaled, str) else unscaled
    digits = unscaled_of(data)
    if abs(value["scale"]) > _MOST_PLACES:
        raise ValueError(f"the decimal has more than {_MOST_PLACES:,} places")
    sign = 1 if digits < 0 else 0
    return format(Decimal((sign, tuple(map(int, str(abs(digits)))), -value["scale"])), "f")
