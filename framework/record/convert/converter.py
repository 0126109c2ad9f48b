"""What every converter offers: one column's values to its Iceberg type, for a whole Arrow array and for one JSON value.

The two ways must agree: the array way may refuse (raise `pa.ArrowInvalid`) where the value way finds an exact result,
never the other way round. Both keep invariant 9: the exact value, the nearest one for binary floats, or an error.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from framework.record.failure import RecordFailure, shown
from framework.record.strict_json import JsonValue, kind_of


@dataclass(frozen=True)
class Converter:
    """Converts to one Iceberg type.

    Attributes:
        target: the Arrow type of the result, with field ids in nested fields.
        parse_type: the Arrow type JSON is parsed to for `array`; None when only `value` can convert.
        type_name: the Iceberg type as people read it.
    """

    target: pa.DataType
    parse_type: pa.DataType | None
    type_name: str

    def array(self, values: pa.Array) -> pa.Array:
        """All values at once; nulls stay nulls. Raises pa.ArrowInvalid when any value cannot be converted this way."""
        raise pa.ArrowInvalid(f"no vectorised conversion to {self.type_name}")

    def plausible(self, values: pa.Array) -> pa.Array | None:
        """Which values `array` may take, as a cheap guess: it may be wrong both ways and only saves a search for the
        values that `array` refuses. None: no guess."""
        return None

    def value(self, value: JsonValue, path: str) -> object:
        """One value (not null) as what `pa.array` takes for `target` (timestamps as integers). Raises RecordFailure."""
        raise self.wrong_kind(value, path)

    def wrong_kind(self, value: JsonValue, path: str) -> RecordFailure:
        return RecordFailure(
            "convert",
            "FLOE-D301",
            f"{path} expects {self.type_name}, the record has {_article(kind_of(value))}",
            field_path=path,
            expected=self.type_name,
            actual=f"{kind_of(value)} {_sample(value)}".strip(),
            is_empty=holds_nothing(value),
        )

    def out_of_range(self, value: object, path: str, wider: str | None = None) -> RecordFailure:
        return self.failure("FLOE-D302", "is out of range for", value, path, wider)

    def inexact(self, value: object, path: str) -> RecordFailure:
        return self.failure("FLOE-D303", "would lose digits as", value, path)

    def unparsable(self, value: object, path: str) -> RecordFailure:
        return self.failure("FLOE-D304", "cannot be read as", value, path)

    def failure(self, code: str, says: str, value: object, path: str, wider: str | None = None) -> RecordFailure:
        return RecordFailure(
            "convert",
            code,
            f"{path}: {shown(value)!r} {says} {self.type_name}",
            field_path=path,
            expected=self.type_name,
            actual=shown(value),
            wider=wider,
        )


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "ao" else f"a {kind}"


def _sample(value: JsonValue) -> str:
    return "" if isinstance(value, (dict, list)) else shown(value)


def holds_nothing(value: JsonValue) -> bool:
    """Whether all of a list or object is nothing: such a value would not have made a column either."""
    if isinstance(value, dict):
        value = list(value.values())
    return isinstance(value, list) and all(item is None or holds_nothing(item) for item in value)
