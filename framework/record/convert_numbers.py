"""Booleans and numbers: JSON's to Iceberg's boolean, int, long, float, double and decimal.

Integers and decimals are exact or refused; floats are the nearest value, and refused when that would be an infinity the
record did not write. Numbers written as text (`"12"`) and booleans written as text (`"true"`) are read like the real ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from framework.record.converter import Converter
from framework.record.json_strict import NON_FINITE, JsonValue, NumberText

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,6})?", re.ASCII)
_FURTHEST_EXPONENT = 400


def exact_number(value: JsonValue) -> Decimal | None:
    """The exact value of a JSON number or of a number written as text; None when it is neither (NaN included)."""
    if not isinstance(value, str) or _NUMBER.fullmatch(value) is None:
        return None
    return Decimal(value)


def _number(converter: Converter, value: JsonValue, path: str) -> Decimal:
    """The exact value of what is to be a number; raises RecordFailure when it is none."""
    number = exact_number(value)
    if number is not None:
        return number
    if isinstance(value, str) and not isinstance(value, NumberText):
        raise converter.unparsable(value, path)
    raise converter.wrong_kind(value, path)


def decimal_parse_type(precision: int, scale: int) -> pa.DataType:
    """The decimal that JSON numbers can be parsed to without Arrow's multiplication running over in silence.

    Arrow checks a number's own digits against the precision, then multiplies by up to 10^scale; the product fits when
    precision + scale fit the width (38 digits in 128 bits, 76 in 256).
    """
    return pa.decimal128(precision, scale) if precision + scale <= 38 else pa.decimal256(76 - scale, scale)


@dataclass(frozen=True)
class BooleanConverter(Converter):
    def array(self, values: pa.Array) -> pa.Array:
        return values

    def value(self, value: JsonValue, path: str) -> object:
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and not isinstance(value, NumberText):
            if value.lower() in ("true", "false"):
                return value.lower() == "true"
            raise self.unparsable(value, path)
        raise self.wrong_kind(value, path)


@dataclass(frozen=True)
class IntegerConverter(Converter):
    """int (32 bits) and long (64 bits). `1.0` and `1e3` are integers; `1.5` is not."""

    bits: int

    def array(self, values: pa.Array) -> pa.Array:
        return values.cast(self.target, safe=True)

    def plausible(self, values: pa.Array) -> pa.Array | None:
        least = -(1 << (self.bits - 1))
        return pc.and_(pc.greater_equal(values, least), pc.less_equal(values, -least - 1))

    def value(self, value: JsonValue, path: str) -> object:
        number = _number(self, value, path)
        if number.adjusted() > _FURTHEST_EXPONENT:
            raise self.out_of_range(value, path)
        if number != number.to_integral_value():
            raise self.inexact(value, path)
        integer = int(number)
        if not -(1 << (self.bits - 1)) <= integer < 1 << (self.bits - 1):
            fits_long = self.bits == 32 and -(1 << 63) <= integer < 1 << 63
            raise self.out_of_range(value, path, "long" if fits_long else None)
        return integer


@dataclass(frozen=True)
class FloatConverter(Converter):
    """float and double: the nearest value."""

    def array(self, values: pa.Array) -> pa.Array:
        # Arrow parses a number beyond float32 to an infinity; whether the record wrote one only its text can tell.
        if pa.types.is_float32(values.type) and pc.any(pc.is_inf(values)).as_py():
            raise pa.ArrowInvalid("an infinity may be an overflow")
        return values

    def plausible(self, values: pa.Array) -> pa.Array | None:
        return pc.invert(pc.is_inf(values))

    def value(self, value: JsonValue, path: str) -> object:
        if isinstance(value, str) and value in NON_FINITE:
            return float(value)
        _number(self, value, path)
        # Arrow rounds text to float32 directly; by way of a double it could be rounded twice.
        nearest = float(pa.scalar(str(value).lstrip("+")).cast(self.target).as_py())
        if nearest in (float("inf"), float("-inf")):
            fits_double = pa.types.is_float32(self.target) and abs(float(str(value))) != float("inf")
            raise self.out_of_range(value, path, "double" if fits_double else None)
        return nearest


@dataclass(frozen=True)
class DecimalConverter(Converter):
    precision: int
    scale: int

    def array(self, values: pa.Array) -> pa.Array:
        # Arrow's JSON reader puts zeros behind a number without looking whether its digits still fit the precision.
        values.validate(full=True)
        return values.cast(self.target, safe=True)

    def plausible(self, values: pa.Array) -> pa.Array | None:
        wide = values.cast(pa.decimal256(76, self.scale), safe=False)
        limit = pa.scalar(Decimal(10) ** (self.precision - self.scale), pa.decimal256(76, self.scale))
        return pc.and_(pc.less(wide, limit), pc.greater(wide, pc.negate(limit)))

    def value(self, value: JsonValue, path: str) -> object:
        number = _number(self, value, path)
        if number and number.adjusted() >= self.precision - self.scale:
            needed = number.adjusted() + 1 + self.scale
            raise self.out_of_range(value, path, f"decimal({needed}, {self.scale})" if needed <= 38 else None)
        sign, digits, exponent = number.as_tuple()
        assert isinstance(exponent, int)  # exact_number admits finite numbers only
        surplus = -self.scale - exponent
        if surplus > 0:
            kept, lost = digits[:-surplus] if surplus < len(digits) else (), digits[-surplus:]
            if any(lost):
                raise self.inexact(value, path)
            digits, exponent = kept or (0,), -self.scale
        return Decimal((sign, digits, exponent))
