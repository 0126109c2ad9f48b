"""Dates, times and timestamps: JSON's text and numbers to Iceberg's date, time, timestamp and timestamptz (us and ns).

Text is ISO 8601 or has the hint's format; a number needs the hint's unit, since nothing else says what it counts. A
timestamptz needs a zone: in the text, or declared by the hint for text that has none. A timestamp has no zone: text
with one is refused, unless the hint's zone says whose wall clock to keep. Digits beyond the column's unit must be
zeros.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from framework.record.arrays import cast_decimals, one_array
from framework.record.convert.converter import Converter
from framework.record.convert.format_times import parse_texts
from framework.record.convert.iso_time import (
    NANOSECONDS_PER_DAY,
    is_iso_format,
    parse_moment,
    parse_time,
    zone_local_offset_seconds,
    zone_offset_seconds,
)
from framework.record.convert.numbers import decimal_parse_type, exact_number, floor_times, plain_number, times
from framework.record.failure import RecordFailure
from framework.record.strict_json import JsonValue, NumberText

NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1, "d": NANOSECONDS_PER_DAY}
_MAX_LONG = (1 << 63) - 1
_MICROSECONDS_PER_DAY = NANOSECONDS_PER_DAY // 1_000
_NUMBER_SCALE = 9
_UTC = ("UTC", "Etc/UTC", "Z")
_DAY = r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
_CLOCK = r"([01]\d|2[0-3])(:[0-5]\d(:[0-5]\d(\.\d{1,9})?)?)?"
_ZONE = r"(Z|[+-]\d\d(:?\d\d)?)"


# Years 1 to 9999: what SQL's timestamps are sure to hold, and what the statistics of a data file can be made of.
_FIRST_DAY, _PAST_LAST_DAY = -719_162, 2_932_897
# Between 1970 and 2037 Arrow knows zones by the changes that are listed for them. Before, it has not all of them;
# behind, it goes on with the last one for ever, where the zone's rule has further ones. Each time out there is looked
# up by itself.
_KNOWN_ZONE_DAYS = (0, 24_472)


# PostgreSQL's infinities: as text, as Debezium counts them (its driver's own numbers of milliseconds, as microseconds), and
# as it writes these as text.
INFINITE_TEXTS = (
    "infinity", "+infinity", "-infinity", "+294247-01-10t04:00:25.200z", "+294247-01-10t04:00:25.200000z",
    "-290308-12-21t19:59:27.600z", "-290308-12-21t19:59:27.600000z",
)  # fmt: skip
_INFINITE_US = (9_223_372_036_825_200_000, -9_223_372_036_832_400_000)
INFINITE_COUNTS = {"us": _INFINITE_US, "ms": tuple(count // 1_000 for count in _INFINITE_US)}
_BEYOND_NANOSECONDS = re.compile(r"([.,]\d{9})\d+")


def number_parse_type() -> pa.DataType:
    """Numbers with a unit are parsed to decimals: whole or with a fraction, they stay exact."""
    return decimal_parse_type(38 - _NUMBER_SCALE, _NUMBER_SCALE)


@dataclass(frozen=True)
class TemporalConverter(Converter):
    """Common to all: the hint's format, zone and unit, and whether text may be a number of that unit; whether digits beyond
    the column's are cut off, and whether PostgreSQL's infinity is null."""

    format: str | None
    zone: str | None
    unit: str | None
    reads_text: bool
    truncates: bool
    infinity_is_null: bool

    def _prepared(self, values: pa.Array, digits: int) -> pa.Array:
        """Texts or numbers without infinities, and without the digits of a second that are cut off."""
        if pa.types.is_decimal(values.type):
            infinite = [Decimal(each) for each in INFINITE_COUNTS.get(self.unit or "", ())]
            if self.infinity_is_null and infinite:
                values = _without(values, pc.is_in(values, pa.array(infinite, values.type)))
            return values
        if self.infinity_is_null:
            values = _without(values, pc.is_in(pc.utf8_lower(values), pa.array(INFINITE_TEXTS)))
        if self.truncates:
            values = pc.replace_substring_regex(values, rf"([.,]\d{{{digits}}})\d+", r"\1")
        return values

    def prepared_times(self, values: pa.Array) -> pa.Array:
        """Times without infinities, and without the digits that are cut off."""
        kind = values.type
        if self.infinity_is_null and pa.types.is_timestamp(kind) and kind.unit in INFINITE_COUNTS:
            infinite = pa.array(INFINITE_COUNTS[kind.unit], pa.int64())
            values = _without(values, pc.is_in(values.cast(pa.int64()), infinite))
        is_ns = (pa.types.is_timestamp(kind) or pa.types.is_time(kind)) and kind.unit == "ns"
        if not self.truncates or not is_ns or getattr(self.target, "unit", "us") == "ns":
            return values
        counts = values.cast(pa.int64())
        units = pc.divide(counts, 1_000)
        units = _floor(units, pc.greater(pc.multiply(units, 1_000), counts))
        return units.cast(pa.timestamp("us", kind.tz) if pa.types.is_timestamp(kind) else pa.time64("us"))

    def _is_infinite(self, value: JsonValue) -> bool:
        if not self.infinity_is_null or not isinstance(value, str):
            return False
        if not isinstance(value, NumberText):
            return value.lower() in INFINITE_TEXTS
        return exact_number(value) in INFINITE_COUNTS.get(self.unit or "", ())  # however its digits are written

    def _is_count(self, text: str) -> bool:
        return self.unit is not None and self.reads_text and plain_number(text)

    def _cut(self, text: str) -> str:
        """A text with the digits of a second that can be read at all, where others are cut off. A count as text is none: of
        days, digits behind the ninth are nanoseconds."""
        return _BEYOND_NANOSECONDS.sub(r"\1", text) if self.truncates and not self._is_count(text) else text

    def _whole_units(self, value: JsonValue, path: str, nanoseconds: int, step: int) -> int:
        """Nanoseconds as units of so many."""
        if nanoseconds % step and not self.truncates:
            raise self.inexact(value, path)
        return nanoseconds // step

    def _distinct(self, values: pa.Array) -> pa.Array:
        """Each distinct text once, in the declared format; raises when one of them is no value of the column."""
        encoded = values.dictionary_encode()
        found = self._judged(encoded.dictionary)
        if found.null_count:
            raise pa.ArrowInvalid("a text is not of the declared format")
        kind = pa.int32() if pa.types.is_date32(self.target) else pa.int64()
        return found.cast(kind).cast(self.target).take(encoded.indices)

    def _judged(self, texts: pa.Array) -> pa.Array:
        """Distinct texts as whole numbers; null for a text that is no value of the column."""
        found = self._by_format(texts)
        odd = texts if found is None else texts.filter(found.is_null())
        judged = pa.array([self._value_or_none(text) for text in odd.to_pylist()], pa.int64())
        if found is None:
            return judged
        return pc.replace_with_mask(found, found.is_null(), judged) if len(judged) else found

    def _value_or_none(self, text: str) -> object:
        try:
            return self.value(text, "")
        except RecordFailure:
            return None

    def _by_format(self, texts: pa.Array) -> pa.Array | None:
        """Values as whole numbers where a vectorised parse is surely right, else null; None: no such parse."""
        return None

    def _like_format(self, values: pa.Array) -> pa.Array | None:
        """Which texts `array` takes, for a declared format."""
        if pa.types.is_decimal(values.type) or self.format is None:
            return None
        encoded = values.dictionary_encode()
        return self._judged(encoded.dictionary).is_valid().take(encoded.indices)

    def _unit_nanoseconds(self, value: NumberText, path: str) -> int:
        """The nanoseconds a number stands for."""
        if self.unit is None:
            raise self.failure("FLOE-D308", "is a number without a declared unit for", value, path)
        number = exact_number(value)
        if number is None:
            raise self.unparsable(value, path)
        if number and number.adjusted() > 40:
            raise self.out_of_range(value, path)
        nanoseconds = times(number, NANOSECONDS[self.unit])
        if nanoseconds is None and self.truncates:
            return floor_times(number, NANOSECONDS[self.unit])
        if nanoseconds is None:
            raise self.inexact(value, path)
        return nanoseconds

    def _units_from_numbers(self, values: pa.Array, unit: str) -> pa.Array:
        """Decimal numbers counted in the hint's unit, as whole numbers of `unit`; raises when a fraction is left."""
        if self.truncates:
            # A parsed number may have more digits than its type says: Arrow's parsers let it be, and rounding makes it 0.
            values = cast_decimals(values, pa.decimal128(38, _NUMBER_SCALE))
        factor = Decimal(NANOSECONDS[self.unit or "s"]) / NANOSECONDS[unit]
        if factor >= 1:
            digits = len(str(int(factor))) - 1
            if int(factor) != 10**digits or digits > _NUMBER_SCALE:
                raise pa.ArrowInvalid("not a decimal step")
            if self.truncates:
                values = pc.round(values, digits, "down")
            # x * 10^digits, exactly: drop the digits behind, then read the unscaled number as a whole one.
            return _unscaled(cast_decimals(values, pa.decimal128(38, digits)))
        digits = len(str(int(1 / factor))) - 1
        if self.truncates:
            values = pc.round(values, 0, "down")
        whole = cast_decimals(values, pa.decimal128(38, 0)).cast(pa.int64(), safe=True)
        divided = pc.divide(whole, 10**digits)
        if self.truncates:
            return _floor(divided, pc.greater(pc.multiply(divided, 10**digits), whole))
        if not pc.all(pc.equal(pc.multiply(divided, 10**digits), whole)).as_py() and whole.null_count < len(whole):
            raise pa.ArrowInvalid("digits would be lost")
        return divided


def within_calendar(values: pa.Array) -> pa.Array:
    """The same dates or timestamps; raises when one lies outside the years 1 to 9999."""
    kind = values.type
    if pa.types.is_date32(kind):
        first, past = _FIRST_DAY, _PAST_LAST_DAY
    elif pa.types.is_timestamp(kind) and kind.unit == "us":
        first, past = (day * _MICROSECONDS_PER_DAY for day in (_FIRST_DAY, _PAST_LAST_DAY))
    elif pa.types.is_timestamp(kind):
        first, past = -_MAX_LONG, _MAX_LONG + 1  # nanoseconds end in 2262; the least number is "no time" to NumPy
    else:
        return values  # times of day
    found = pc.min_max(values.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64()))
    if found["min"].is_valid and (found["min"].as_py() < first or found["max"].as_py() >= past):
        raise pa.ArrowInvalid("outside the years 1 to 9999")
    return values


@dataclass(frozen=True)
class TimestampConverter(TemporalConverter):
    """timestamp and timestamptz; `resolution` is us or ns."""

    resolution: str
    with_zone: bool

    def array(self, values: pa.Array) -> pa.Array:
        return within_calendar(self._array(values))

    def _array(self, values: pa.Array) -> pa.Array:
        values = self._prepared(values, 9 if self.resolution == "ns" else 6)
        if pa.types.is_decimal(values.type):
            return self._units_from_numbers(values, self.resolution).cast(self.target)
        if self.format is not None and not is_iso_format(self.format):
            return self._distinct(values)
        naive = pa.timestamp(self.resolution)
        if not self.with_zone:
            return values.cast(naive)
        if self.zone is None:
            return values.cast(self.target)
        try:
            local = values.cast(naive)
        except pa.ArrowInvalid:
            # Asked first, since Arrow words an error for each text that has no zone.
            has_zone = pc.match_substring_regex(values, f"[Tt ].*{_ZONE}$")
            if not has_zone.true_count:
                raise
            without = values.filter(pc.invert(has_zone))
            if len(without) == without.null_count:
                return values.cast(self.target)
            nothing = pa.scalar(None, values.type)
            with_zone = pc.if_else(has_zone, values, nothing).cast(self.target)
            return pc.coalesce(with_zone, self._in_zone(pc.if_else(has_zone, nothing, values).cast(naive)))
        return self._in_zone(local)

    def _in_zone(self, local: pa.Array) -> pa.Array:
        """Moments of the declared zone's clock."""
        if self.zone in _UTC:
            return local.cast(pa.int64()).cast(self.target)
        assert self.zone is not None
        counts = local.cast(pa.int64())
        per_day = NANOSECONDS_PER_DAY // NANOSECONDS[self.resolution]
        first, past = (pa.scalar(day * per_day, pa.int64()) for day in _KNOWN_ZONE_DAYS)
        known = pc.and_(pc.greater_equal(counts, first), pc.less(counts, past)).fill_null(True)
        if known.false_count == 0:
            return self._assumed(local)
        nothing = pa.scalar(None, pa.int64())
        within = self._assumed(pc.if_else(known, counts, nothing).cast(local.type))
        beyond = pc.if_else(known, nothing, counts).dictionary_encode()
        step = NANOSECONDS[self.resolution]
        moments = [
            None
            if (offset := zone_offset_seconds(self.zone, count * step)) is None
            else count - offset * (10**9 // step)
            for count in beyond.dictionary.to_pylist()
        ]
        if None in moments:
            raise pa.ArrowInvalid(f"a local time that occurs twice or never in {self.zone}")
        return pc.coalesce(within, pa.array(moments, pa.int64()).cast(self.target).take(beyond.indices))

    def _assumed(self, local: pa.Array) -> pa.Array:
        return pc.assume_timezone(local, self.zone, ambiguous="raise", nonexistent="raise").cast(self.target)

    def _by_format(self, texts: pa.Array) -> pa.Array | None:
        parsed = parse_texts(texts, self.format or "") if self.resolution == "us" else None
        if parsed is None:
            return None
        moments = parsed.local_us if not self.with_zone else pc.subtract(parsed.local_us, parsed.offset_us)
        # Where the zone is declared, or the text's is not wanted, the exact way decides.
        right = pc.and_(parsed.sure, pc.equal(parsed.offset_us.is_valid(), self.with_zone))
        if self.with_zone and self.zone in _UTC:
            moments = pc.coalesce(moments, parsed.local_us)
            right = parsed.sure
        return pc.if_else(right, moments, pa.scalar(None, pa.int64()))

    def plausible(self, values: pa.Array) -> pa.Array | None:
        if pa.types.is_decimal(values.type) or (self.format is not None and not is_iso_format(self.format)):
            return self._like_format(values)
        zone = "" if not self.with_zone else _ZONE if self.zone is None else f"({_ZONE})?"
        return pc.match_substring_regex(values, f"^{_DAY}([ T]{_CLOCK})?{zone}$")

    def value(self, value: JsonValue, path: str) -> object:
        is_count = isinstance(value, str) and self._is_count(value)
        if self._is_infinite(NumberText(value) if is_count else value):
            return None
        if isinstance(value, NumberText):
            nanoseconds = self._unit_nanoseconds(value, path)
        elif isinstance(value, str):
            nanoseconds = self._from_text(self._cut(value), path)
        else:
            raise self.wrong_kind(value, path)
        units = self._whole_units(value, path, nanoseconds, NANOSECONDS[self.resolution])
        if abs(units) > _MAX_LONG or not _FIRST_DAY <= nanoseconds // NANOSECONDS_PER_DAY < _PAST_LAST_DAY:
            raise self.out_of_range(value, path)
        return units

    def _from_text(self, text: str, path: str) -> int:
        if self._is_count(text):
            if parse_moment(text, None) is not None:
                raise self.failure("FLOE-D304", "is a count, or a date without its dashes, so not", text, path)
            return self._unit_nanoseconds(NumberText(text), path)
        moment = parse_moment(text, self.format)
        if moment is None:
            raise self.unparsable(text, path)
        local = moment.local_nanoseconds
        if moment.offset_seconds is not None:
            instant = local - moment.offset_seconds * 1_000_000_000
            if self.with_zone:
                return instant
            if self.zone is None:
                raise self.failure("FLOE-D308", "has a zone, and no zone is declared to convert it to for", text, path)
            kept = zone_local_offset_seconds(self.zone, instant)
            if kept is None:
                raise self.out_of_range(text, path)
            return instant + kept * 1_000_000_000
        if not self.with_zone:
            return local
        if self.zone is None:
            raise self.failure("FLOE-D308", "has no zone, and none is declared for", text, path)
        offset = zone_offset_seconds(self.zone, local)
        if offset is None:
            raise self.failure(
                "FLOE-D304", f"is a local time that occurs twice or never in {self.zone}, so not", text, path
            )
        return local - offset * 1_000_000_000


@dataclass(frozen=True)
class DateConverter(TemporalConverter):
    """date: text without a time of day, or a number in the hint's unit (`d` for days) that is a whole day."""

    def array(self, values: pa.Array) -> pa.Array:
        values = self._prepared(values, 9)
        if pa.types.is_decimal(values.type):
            raise pa.ArrowInvalid("read one by one")
        if self.format is not None and self.format not in ("%Y-%m-%d", "%F"):
            return within_calendar(self._distinct(values))
        return within_calendar(values.cast(self.target))

    def plausible(self, values: pa.Array) -> pa.Array | None:
        if pa.types.is_decimal(values.type) or (self.format is not None and self.format not in ("%Y-%m-%d", "%F")):
            return self._like_format(values)
        return pc.match_substring_regex(values, f"^{_DAY}$")

    def value(self, value: JsonValue, path: str) -> object:
        if self._is_infinite(value):
            return None
        if isinstance(value, NumberText):
            days = self._whole_units(value, path, self._unit_nanoseconds(value, path), NANOSECONDS_PER_DAY)
        elif isinstance(value, str):
            moment = parse_moment(self._cut(value), self.format)
            if moment is None:
                raise self.unparsable(value, path)
            if moment.has_time and not self.truncates:
                raise self.inexact(value, path)
            # 24:00 is midnight of the day after.
            days = moment.local_nanoseconds // NANOSECONDS_PER_DAY
        else:
            raise self.wrong_kind(value, path)
        if not _FIRST_DAY <= days < _PAST_LAST_DAY:
            raise self.out_of_range(value, path)
        return days


@dataclass(frozen=True)
class TimeConverter(TemporalConverter):
    """time of day in microseconds, without a zone: text, or a number in the hint's unit since midnight."""

    def array(self, values: pa.Array) -> pa.Array:
        if pa.types.is_decimal(values.type):
            raise pa.ArrowInvalid("read one by one")
        if self.format is not None:
            return self._distinct(values)
        values = self._prepared(values, 6)
        # Arrow reads no times of day, but timestamps: the same text behind a date.
        if not pc.all(pc.match_substring_regex(values, r"^\d\d:")).as_py() and values.null_count < len(values):
            raise pa.ArrowInvalid("not a time of day")
        return pc.binary_join_element_wise("1970-01-01T", values, "").cast(pa.timestamp("us")).cast(self.target)

    def plausible(self, values: pa.Array) -> pa.Array | None:
        return self._like_format(values)

    def value(self, value: JsonValue, path: str) -> object:
        if isinstance(value, NumberText):
            nanoseconds = self._unit_nanoseconds(value, path)
            if not 0 <= nanoseconds < NANOSECONDS_PER_DAY:
                raise self.out_of_range(value, path)
        elif isinstance(value, str):
            parsed = parse_time(self._cut(value), self.format)
            if parsed is None:
                raise self.unparsable(value, path)
            nanoseconds = parsed
        else:
            raise self.wrong_kind(value, path)
        return self._whole_units(value, path, nanoseconds, 1_000)


def _unscaled(values: pa.Array) -> pa.Array:
    """The unscaled whole numbers of a decimal array; raises when one does not fit 64 bits."""
    values = one_array(values)
    buffers = values.buffers()
    whole = pa.Array.from_buffers(pa.decimal128(38, 0), len(values), buffers, values.null_count, values.offset)
    return whole.cast(pa.int64(), safe=True)


def _without(values: pa.Array, gone: pa.Array) -> pa.Array:
    """Null in place of some values."""
    return pc.if_else(gone, pa.scalar(None, values.type), values) if gone.true_count else values


def _floor(quotients: pa.Array, are_above: pa.Array) -> pa.Array:
    """Quotients, which Arrow cuts off towards zero, as those below them where they are above the exact ones."""
    return pc.if_else(are_above, pc.subtract(quotients, 1), quotients)
