"""Booleans and numbers: JSON's to Iceberg's boolean, int, long, float, double and decimal.

Integers and decimals are exact or refused; floats are the nearest value, and refused when that would be an infinity the
record did not write. A whole number that a double would change is refused, too, unless the field is declared `double`.
Numbers and booleans written as text (`"12"`, `"true"`) are read like the real ones where nothing of the text is lost by
it.
"""

from __future__ import annotations

import base64
import math
import re
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, Context, Decimal
from enum import Enum, auto

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from framework.record.arrays import cast_decimals
from framework.record.convert.converter import Converter
from framework.record.convert.text import is_base64
from framework.record.failure import RecordFailure
from framework.record.strict_json import NON_FINITE, JsonValue, NumberText

_NUMBER = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:[eE]([+-]?)(\d+))?", re.ASCII)
_WHOLE = re.compile(r"-?\d+", re.ASCII)
# Text that a number prints as, but for zeros behind the point. `"007"`, `"+49"` and, where no float is meant, `"1e3"`
# are codes.
_PLAIN_TEXT = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?", re.ASCII)
_FLOAT_TEXT = re.compile(_PLAIN_TEXT.pattern + r"(?:[eE][+-]?\d+)?", re.ASCII)
_FURTHEST_EXPONENT = 400
_MOST_FLOAT32 = float(np.finfo(np.float32).max)
_MIDDLE_BEYOND_FLOAT32 = _MOST_FLOAT32 + 2.0**103
# With an exponent beyond, and beyond the digits there are, a number is out of every column's range, or smaller than its
# last digit. Which of them is all that counts, so the exponent is cut to that: Decimal takes none of any length.
_MOST_EXPONENT = 1_000_000


def exact_number(value: JsonValue) -> Decimal | None:
    """The exact value of a JSON number or of a number written as text; None when it is neither (NaN included)."""
    found = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return None
    digits, sign, exponent = found.groups()
    if exponent is not None and len(exponent.lstrip("0")) > 6:
        return Decimal(f"{digits}e{sign}{_MOST_EXPONENT + 2 * len(digits)}")
    return Decimal(found[0])


def times(number: Decimal, factor: int) -> int | None:
    """The product as a whole number; None where it is none. Decimal's own operators round to 28 digits.

    The number's first digit should be known to be no place far to the left: the result has as many digits.
    """
    if number.adjusted() < -_FURTHEST_EXPONENT:
        return 0 if not number else None
    product = _product(number, factor)
    return int(product) if product == product.to_integral_value() else None


def floor_times(number: Decimal, factor: int) -> int:
    """The product, or the whole number below it."""
    if number.adjusted() < -_FURTHEST_EXPONENT:
        return -1 if number < 0 else 0
    return int(_product(number, factor).to_integral_value(ROUND_FLOOR))


def _product(number: Decimal, factor: int) -> Decimal:
    exactly = Context(prec=len(number.as_tuple().digits) + len(str(factor)), Emax=MAX_EMAX, Emin=MIN_EMIN)
    return exactly.multiply(number, factor)


def nearest_float32(text: str) -> float:
    """The nearest value of single precision to a number's text, an infinity beyond them all. By way of a double it
    could be rounded twice, so that the text decides where the double lies in the middle between two."""
    double = float(text)
    with np.errstate(over="ignore"):
        nearest = np.float32(double)
    if not np.isfinite(double) or float(nearest) == double:
        return float(nearest)
    if not np.isfinite(nearest):
        # `copy_abs`, since `abs` rounds to the 28 digits of Python's context.
        if abs(double) != _MIDDLE_BEYOND_FLOAT32 or Decimal(text).copy_abs() >= Decimal(_MIDDLE_BEYOND_FLOAT32):
            return float(nearest)
        return math.copysign(_MOST_FLOAT32, double)
    with np.errstate(over="ignore", under="ignore"):
        other = np.nextafter(nearest, np.float32(math.copysign(math.inf, double - float(nearest))))
    lower, upper = sorted((float(nearest), float(other)))
    if double - lower != upper - double:
        return float(nearest)
    found, middle = exact_number(text), Decimal(double)
    if found is None or found == middle:
        return float(nearest)
    return upper if found > middle else lower


def plain_number(text: str) -> bool:
    """Whether a text is a number as JSON prints one, so that nothing of it is lost: no code such as `007` or `+49`."""
    return _PLAIN_TEXT.fullmatch(text) is not None


def double_keeps(whole: str) -> bool:
    """Whether a whole number, in digits, is held by a double, or is what a double is printed as."""
    nearest = float(whole)
    if math.isinf(nearest):
        return False
    exact = Decimal(whole)
    return exact == Decimal(nearest) or exact == Decimal(repr(nearest))


def _number(
    converter: Converter, value: JsonValue, path: str, reads_text: bool, text: re.Pattern[str] = _PLAIN_TEXT
) -> Decimal:
    """The exact value of what is to be a number; raises RecordFailure when it is none."""
    if isinstance(value, str) and not isinstance(value, NumberText):
        if not reads_text:
            raise converter.wrong_kind(value, path)
        number = exact_number(value) if text.fullmatch(value) else None
        if number is None:
            raise converter.unparsable(value, path)
        return number
    number = exact_number(value)
    if number is None:
        raise converter.wrong_kind(value, path)
    return number


def decimal_parse_type(precision: int, scale: int) -> pa.DataType:
    """The decimal that JSON numbers can be parsed to without Arrow's multiplication running over in silence.

    Arrow checks a number's own digits against the precision, then multiplies by up to 10^scale; the product fits when
    precision + scale fit the width (38 digits in 128 bits, 76 in 256).
    """
    return pa.decimal128(precision, scale) if precision + scale <= 38 else pa.decimal256(76 - scale, scale)


class TextNumbers(Enum):
    """Whether text is read as a number. `UNLESS_BASE64`: where it may be the bytes of a decimal as well, as Debezium
    writes them into JSON, neither is guessed."""

    REFUSED = auto()
    READ = auto()
    UNLESS_BASE64 = auto()


@dataclass(frozen=True)
class BooleanConverter(Converter):
    reads_text: bool = True

    def array(self, values: pa.Array) -> pa.Array:
        return values

    def value(self, value: JsonValue, path: str) -> object:
        if isinstance(value, bool):
            return value
        if self.reads_text and isinstance(value, str) and not isinstance(value, NumberText):
            if value.lower() in ("true", "false"):
                return value.lower() == "true"
            raise self.unparsable(value, path)
        raise self.wrong_kind(value, path)


@dataclass(frozen=True)
class IntegerConverter(Converter):
    """int (32 bits) and long (64 bits). `1.0` and `1e3` are integers; `1.5` is not."""

    bits: int
    reads_text: bool = True

    def array(self, values: pa.Array) -> pa.Array:
        return values.cast(self.target, safe=True)

    def plausible(self, values: pa.Array) -> pa.Array | None:
        least = -(1 << (self.bits - 1))
        return pc.and_(pc.greater_equal(values, least), pc.less_equal(values, -least - 1))

    def value(self, value: JsonValue, path: str) -> object:
        number = _number(self, value, path, self.reads_text)
        if number and number.adjusted() > _FURTHEST_EXPONENT:
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
    """float and double: the nearest value. With `keeps_wholes`, whole numbers are exact or refused."""

    keeps_wholes: bool = False
    reads_text: bool = True

    def array(self, values: pa.Array) -> pa.Array:
        # Arrow parses a number beyond float32 to an infinity; whether the record wrote one only its text can tell.
        if pa.types.is_float32(values.type) and pc.any(pc.is_inf(values)).as_py():
            raise pa.ArrowInvalid("an infinity may be an overflow")
        return values

    def plausible(self, values: pa.Array) -> pa.Array | None:
        return pc.invert(pc.is_inf(values))

    def value(self, value: JsonValue, path: str) -> object:
        if isinstance(value, str) and value in NON_FINITE and (self.reads_text or isinstance(value, NumberText)):
            return float(value)
        _number(self, value, path, self.reads_text, _FLOAT_TEXT)
        nearest = float(str(value)) if pa.types.is_float64(self.target) else nearest_float32(str(value))
        if nearest in (float("inf"), float("-inf")):
            fits_double = pa.types.is_float32(self.target) and abs(float(str(value))) != float("inf")
            raise self.out_of_range(value, path, "double" if fits_double else None)
        if self.keeps_wholes and _WHOLE.fullmatch(str(value)) and not double_keeps(str(value)):
            raise self.inexact(value, path)
        return nearest


@dataclass(frozen=True)
class DecimalConverter(Converter):
    precision: int
    scale: int
    reads_text: bool = True
    may_be_base64: bool = False

    def array(self, values: pa.Array) -> pa.Array:
        # Arrow's JSON reader puts zeros behind a number without looking whether its digits still fit the precision.
        values.validate(full=True)
        return cast_decimals(values, self.target)

    def plausible(self, values: pa.Array) -> pa.Array | None:
        wide = values.cast(pa.decimal256(76, self.scale), safe=False)
        limit = pa.scalar(Decimal(10) ** (self.precision - self.scale), pa.decimal256(76, self.scale))
        return pc.and_(pc.less(wide, limit), pc.greater(wide, pc.negate(limit)))

    def value(self, value: JsonValue, path: str) -> object:
        number = _number(self, value, path, self.reads_text)
        if self.may_be_base64 and type(value) is str and is_base64(value):
            says = "may be digits, or Base64 of bytes: declare `format: digits` or `format: base64` for the"
            raise self.failure("FLOE-D304", says, value, path)
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
        if not number:
            return Decimal(0)  # whatever its exponent: Arrow makes room for as many digits
        return Decimal((sign, digits, exponent))


@dataclass(frozen=True)
class UnscaledConverter(DecimalConverter):
    """Decimals as Kafka Connect and Debezium write them into JSON: Base64 of the bytes of a whole number, highest first,
    in two's complement; the column says where its point is."""

    def array(self, values: pa.Array) -> pa.Array:
        try:
            found = [None if text is None else self.value(text, "") for text in values.to_pylist()]
        except RecordFailure as failure:
            raise pa.ArrowInvalid(failure.message) from None
        return pa.array(found, self.target)

    def plausible(self, values: pa.Array) -> pa.Array | None:
        return None

    def value(self, value: JsonValue, path: str) -> object:
        if not isinstance(value, str) or isinstance(value, NumberText):
            raise self.wrong_kind(value, path)
        if not value or not is_base64(value):
            raise self.failure("FLOE-D304", "is not base64, as needed for", value, path)
        unscaled = int.from_bytes(base64.b64decode(value), "big", signed=True)
        if abs(unscaled) >= 10**self.precision:
            needed = decimal_precision(unscaled)
            raise self.out_of_range(value, path, f"decimal({needed}, {self.scale})" if needed <= 38 else None)
        return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -self.scale))


def decimal_precision(whole: int) -> int:
    """How many digits a whole number has; 39 stands for any number above 38."""
    return next((digits for digits in range(1, 39) if abs(whole) < 10**digits), 39)
