"""What must become of each value: this exact value, or a dead letter. The other opinion, written from docs/types.md
alone.

In: a record's bytes and the kinds of a table's columns. Out: the row that must be there, or Refused. Numbers are
fractions of the record's own text, moments are counted by datetime and zoneinfo: nothing here is floe's, nor Arrow's.

A value in a row is a bool, int, float, Fraction (of decimals), str, bytes, list, dict (of structs) or Pairs (of maps);
dates are days, times and moments the count of their column's unit since 1970, or midnight.
"""

from __future__ import annotations

import base64
import json
import math
import re
import struct
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta, timezone
from fractions import Fraction
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from tests.fuzz.kinds import Kind, Shape
from tests.fuzz.strict import Number, Refused, read

_NUMBER = re.compile(r"([+-]?)(?:([0-9]+)(?:\.([0-9]*))?|\.([0-9]+))(?:[eE]([+-]?[0-9]+))?")
_TOKENS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_DAY_NS = 86_400 * 10**9
_UNITS_NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1, "d": _DAY_NS}
_EPOCH = datetime(1970, 1, 1)
_FIRST_DAY, _LAST_DAY = (date(1, 1, 1) - _EPOCH.date()).days, (date(9999, 12, 31) - _EPOCH.date()).days
# A number beyond is out of every column's range, and one below it is not whole: it need not be spelled out.
_FAR = 6000


class Pairs(list[Any]):
    """The entries of a map, in the record's order."""


class May:
    """Either this value or a dead letter: texts of declared formats, which strptime takes more of than floe does."""

    def __init__(self, value: Any) -> None:
        self.value = value


def judge(data: bytes, shape: Shape, ignored: frozenset[str] = frozenset(), insensitive: bool = True) -> dict[str, Any]:
    """The row of a record; `ignored` are lower-cased names of fields that are no columns.

    Raises:
        Refused: the record must be a dead letter.
    """
    fields = {name: value for name, value in read(data).items() if name.lower() not in ignored}
    whole = Kind("struct", tuple(shape.columns.values()), tuple(shape.columns), shape.needed, is_record=True)
    if shape.empty_is_null:
        fields = _without_empty(fields, whole, insensitive)
    if not shape.reads_text:
        whole = whole.without_text()
        _refuse_text(fields, whole, insensitive)
    row: dict[str, Any] = _struct(fields, whole, insensitive)
    return row


def _inside(value: Any, kind: Kind, insensitive: bool) -> Iterator[tuple[Any, Any, Kind]]:
    """Key or index, value and kind of each thing in an object or list that has a column."""
    if kind.name == "struct" and isinstance(value, dict):
        kinds = {
            name.lower() if insensitive else name: inner for name, inner in zip(kind.names, kind.inner, strict=True)
        }
        for name, item in value.items():
            column = column_of(name, kind.names, kind.is_record, insensitive)
            if (inner := kinds.get(column.lower() if insensitive else column)) is not None:
                yield name, item, inner
    elif kind.name == "list" and isinstance(value, list):
        yield from ((i, item, kind.inner[0]) for i, item in enumerate(value))
    elif kind.name == "map" and isinstance(value, dict):
        yield from ((key, item, kind.inner[1]) for key, item in value.items())


def _holds_nothing(value: Any) -> bool:
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, list):
            left += each
        elif isinstance(each, dict):
            left += each.values()
        elif each is not None:
            return False
    return True


def _without_empty(value: Any, kind: Kind, insensitive: bool) -> Any:
    """The value with null for each that holds nothing in a column of another kind; text takes it as it is."""
    if isinstance(value, (list, dict)) and _holds_nothing(value):
        fits = {"string": True, "list": isinstance(value, list)}.get(kind.name, isinstance(value, dict))
        if not (fits and kind.name in ("string", "list", "map", "struct")):
            return None
    if kind.name == "struct" and isinstance(value, dict):
        _spelled(value, kind, insensitive)
    changed = value.copy() if isinstance(value, (list, dict)) else value
    for at, item, inner in _inside(value, kind, insensitive):
        changed[at] = _without_empty(item, inner, insensitive)
    return changed


_NUMERIC = ("boolean", "int", "long", "float", "double", "decimal")


def _refuse_text(value: Any, kind: Kind, insensitive: bool) -> None:
    if isinstance(value, str) and not isinstance(value, Number) and kind.family in _NUMERIC:
        raise Refused("text in a column of numbers")
    for _, item, inner in _inside(value, kind, insensitive):
        _refuse_text(item, inner, insensitive)


# PostgreSQL's infinities: its words, and its driver's counts as Debezium hands them on, as numbers and as text.
_ENDLESS = frozenset(sign + "infinity" for sign in ("", "+", "-"))
_ENDLESS |= {f"{day}t{clock}{zeros}z" for day, clock in (("+294247-01-10", "04:00:25.200"), ("-290308-12-21", "19:59:27.600"))
             for zeros in ("", "000")}  # fmt: skip
_ENDLESS_MS = (Fraction(9_223_372_036_825_200), Fraction(-9_223_372_036_832_400))


def _is_endless(value: Any, kind: Kind) -> bool:
    """Whether it is null in the column for having no end."""
    if kind.ends or not isinstance(value, str):
        return False
    if not isinstance(value, Number) and value.lower() in _ENDLESS:
        return True
    if kind.unit not in ("us", "ms") or not (
        isinstance(value, Number) or (kind.family != "date" and _counts(value, kind))
    ):
        return False
    return exact(value) in [each * (1000 if kind.unit == "us" else 1) for each in _ENDLESS_MS]


def value_of(value: Any, kind: Kind, insensitive: bool = True) -> Any:
    """One value that is not null; null itself for a time without an end."""
    if kind.name == "struct":
        return _struct(value, kind, insensitive)
    if kind.name == "list":
        if not isinstance(value, list):
            raise Refused("no list")
        return [_element(item, kind.inner[0], "element" in kind.needed, insensitive) for item in value]
    if kind.name == "map":
        if not isinstance(value, dict):
            raise Refused("no map")
        pairs = Pairs()
        for key, item in value.items():
            made = value_of(key, kind.inner[0], insensitive)
            if any(same(made, other) for other, _ in pairs):
                raise Refused("one key twice")
            pairs.append((made, _element(item, kind.inner[1], "value" in kind.needed, insensitive)))
        return pairs
    return None if _is_endless(value, kind) else _PLAIN[kind.family](value, kind)


def _element(item: Any, kind: Kind, needed: bool, insensitive: bool) -> Any:
    found = None if item is None else value_of(item, kind, insensitive)
    if found is None and needed:
        raise Refused("null where a value is required")
    return found


def _spelled(value: dict[str, Any], kind: Kind, insensitive: bool) -> dict[str, str]:
    present = [name for name, item in value.items() if item is not None]
    columns = [column_of(name, kind.names, kind.is_record, insensitive) for name in present]
    spelled = {c.lower() if insensitive else c: name for c, name in zip(columns, present, strict=True)}
    if len(spelled) < len(present):
        raise Refused("two names that differ in case only, or are those of one column")
    return spelled


# Of the table in docs/concepts.md, "Names that no column can have".
KEPT = frozenset(("_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"))
KEPT |= {"_change_type", "_change_ordinal", "_commit_snapshot_id", "__floe_offset"}


def column_of(name: str, columns: Sequence[str], is_record: bool, insensitive: bool) -> str:
    """The column that has a field's values, or the field's own name where there is none."""
    here = {column.lower() if insensitive else column for column in columns}
    folded = name.lower() if insensitive else name
    if folded in here:
        return name
    for column in columns:
        own = column
        while own.endswith("_"):  # the field that this column would be called after, in any case
            own = own[:-1]
            if (own.lower() if insensitive else own) == folded and renamed(own, columns, is_record) == column:
                return column
    return name


def renamed(name: str, columns: Sequence[str], is_record: bool, parts: Sequence[str] = ()) -> str:
    """What the column of a field would be called beside those that there are: as the field, or with underscores behind it
    where no column can be called so; `parts` are names of partition fields."""
    others = [column for column in columns if column != name]

    def is_bad(text: str) -> bool:
        kept = is_record and (text.lower() in KEPT or text in parts)
        return kept or not text or any(not in_files(text).isdisjoint(in_files(each)) for each in others if each != text)

    found = name
    while is_bad(found):
        found += "_"
    return found


def in_files(name: str) -> set[str]:
    """A column's names in files: by UTF-16 as Java has it, and by characters as Python has it."""
    units = [chr(int.from_bytes(two, "big")) for two in _pairs(name.encode("utf-16-be", "surrogatepass"))]
    java = [
        u if u.isalpha() or u == "_" or (u.isdecimal() and i) else _written(u, u.isdecimal())
        for i, u in enumerate(units)
    ]
    python = [
        c if c.isalpha() or c == "_" or (c.isalnum() and i) else _written(c, c.isdigit()) for i, c in enumerate(name)
    ]
    return {"".join(java), "".join(python)} if name else set()


def _pairs(data: bytes) -> Iterator[bytes]:
    return (data[at : at + 2] for at in range(0, len(data), 2))


def _written(character: str, is_digit: bool) -> str:
    return f"_{character}" if is_digit else f"_x{ord(character):X}"


def _struct(value: Any, kind: Kind, insensitive: bool) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Refused("no object")
    spelled = _spelled(value, kind, insensitive)
    row: dict[str, Any] = {}
    for name, inner in zip(kind.names, kind.inner, strict=True):
        found = spelled.get(name.lower() if insensitive else name)
        if found is None and name in kind.needed:
            raise Refused("a required value is missing")
        row[name] = None if found is None else value_of(value[found], inner, insensitive)
        if row[name] is None and name in kind.needed:
            raise Refused("a required value has no end")
    return row


# ---- numbers
# -----------------------------------------------------------------------------------------------------------


def exact(text: str) -> Fraction | None:
    """The value of a number's text; None where it is none. Exponents beyond any column's are cut to one that still
    is."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    sign, whole, behind, alone, power = found.groups()
    behind = behind or alone or ""
    digits = (whole or "") + behind
    significant = digits.lstrip("0").rstrip("0")
    if not significant:
        return Fraction(0)
    trailing = len(digits) - len(digits.rstrip("0"))
    raised = _integer(power or "0") - len(behind) + trailing
    leading = raised + len(significant)
    if abs(leading) > _FAR:
        value = Fraction(10) ** (_FAR if leading > 0 else -_FAR)
    else:
        value = Fraction(_integer(significant)) * Fraction(10) ** raised
    return -value if sign == "-" else value


def _integer(text: str) -> int:
    """Texts of any length; Python alone takes 4,300 digits."""
    sign, digits = (-1, text[1:]) if text[:1] == "-" else (1, text.lstrip("+"))
    value = 0
    for first in range(0, len(digits), 4000):
        piece = digits[first : first + 4000]
        value = value * 10 ** len(piece) + int(piece)
    return sign * value


def _number(value: Any, exponents: bool = False) -> Fraction:
    """Text is a number only where JSON writes numbers so; with an exponent only where a float is meant."""
    found = exact(value) if isinstance(value, str) else None
    if found is None:
        raise Refused("no number")
    if not isinstance(value, Number):
        try:
            written = read(b'{"v":' + value.encode("utf-8", "surrogatepass") + b"}")["v"]
        except Refused:
            raise Refused("text that is no number of JSON") from None
        if not isinstance(written, Number) or written != value or ("e" in value.lower() and not exponents):
            raise Refused("text that is no plain number")
    return found


def _boolean(value: Any, kind: Kind) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and not isinstance(value, Number) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise Refused("no boolean")


def _whole(value: Any, kind: Kind) -> int:
    bits = 32 if kind.name == "int" else 64
    number = _number(value)
    if number.denominator != 1 or not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise Refused("no integer of the column")
    return int(number)


def nearest_double(number: Fraction) -> float:
    """Ties to even, as Python divides whole numbers."""
    try:
        return number.numerator / number.denominator
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def nearest_float(number: Fraction) -> float:
    """The nearest of single precision: of the neighbours of the double's the nearest, of two the even one."""
    most = Fraction(float(np.finfo(np.float32).max))
    if abs(number) >= most + Fraction(2) ** 103:
        return math.inf if number > 0 else -math.inf
    with np.errstate(over="ignore"):
        guess = np.float32(max(min(nearest_double(number), float(most)), -float(most)))
        around = [guess, np.nextafter(guess, np.float32(-np.inf)), np.nextafter(guess, np.float32(np.inf))]
    finite = [each for each in around if np.isfinite(each)]

    def distance(each: np.float32) -> tuple[Fraction, int]:
        return abs(Fraction(float(each)) - number), int(each.view(np.uint32)) & 1

    return float(min(finite, key=distance))


def _floating(value: Any, kind: Kind) -> float:
    if isinstance(value, str) and value in _TOKENS:
        return _TOKENS[value]
    number = _number(value, exponents=True)
    found = nearest_float(number) if kind.name == "float" else nearest_double(number)
    if math.isinf(found):
        raise Refused("beyond the column's range")
    whole = kind.name == "double" and not kind.declared and str(value).lstrip("-").isdigit()
    # The digits of a whole number are those of its double, or those that its double is printed as.
    if whole and number not in (Fraction(found), exact(repr(found))):
        raise Refused("a whole number that loses digits")
    return -0.0 if found == 0 and str(value).startswith("-") else found


def _decimal(value: Any, kind: Kind) -> Fraction:
    precision, scale = kind.size()
    number = _number(value)
    unscaled = number * 10**scale
    if unscaled.denominator != 1 or abs(unscaled) >= 10**precision:
        raise Refused("no decimal of the column")
    return number


# ---- text
# --------------------------------------------------------------------------------------------------------------


def as_json(value: Any) -> str:
    """Compact JSON, numbers as they were written."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, list):
        return "[" + ",".join(map(as_json, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(json.dumps(k, ensure_ascii=False) + ":" + as_json(v) for k, v in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


def _string(value: Any, kind: Kind) -> str:
    return str(value) if isinstance(value, str) else as_json(value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or isinstance(value, Number):
        raise Refused("no text")
    return value


def _uuid(value: Any, kind: Kind) -> bytes:
    text = _text(value)
    if not re.fullmatch("[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}", text):
        raise Refused("no UUID")
    return bytes.fromhex(text.replace("-", ""))


def _binary(value: Any, kind: Kind) -> bytes:
    text = _text(value)
    if kind.format == "hex":
        if not re.fullmatch("([0-9a-fA-F]{2})*", text):
            raise Refused("no hexadecimal")
        data = bytes.fromhex(text)
    else:
        if not re.fullmatch("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", text):
            raise Refused("no base64")
        data = base64.b64decode(text)
    if kind.family == "fixed" and len(data) != kind.size()[0]:
        raise Refused("another length")
    return data


# ---- dates and times
# ---------------------------------------------------------------------------------------------------

_DATES = (
    (re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.A), "calendar"),
    (re.compile(r"(\d{4})(\d\d)(\d\d)", re.A), "calendar"),
    (re.compile(r"(\d{4})-?W(\d\d)-?([1-7])", re.A), "week"),
    (re.compile(r"(\d{4})-?(\d{3})", re.A), "ordinal"),
)
_CLOCK = re.compile(r"(\d\d)(?::?(\d\d)(?::?(\d\d)(?:[.,](\d+))?)?)?", re.A)
_OFFSET = re.compile(r"[Zz]|([+-])(\d\d)(?::?(\d\d))?", re.A)


def _day(text: str) -> int:
    for pattern, form in _DATES:
        if found := pattern.fullmatch(text):
            year, second, third = int(found[1]), int(found[2]), int(found[3]) if form != "ordinal" else 0
            try:
                if form == "calendar":
                    day = date(year, second, third)
                elif form == "week":
                    day = date.fromisocalendar(year, second, third)
                else:
                    day = date(year, 1, 1) + timedelta(days=second - 1)
                    if day.year != year:
                        raise Refused("no such day")
            except (ValueError, OverflowError) as error:
                raise Refused(str(error)) from None
            return (day - _EPOCH.date()).days
    raise Refused("no date")


def _clock(text: str) -> int:
    """Nanoseconds of the day, 24:00 included."""
    found = _CLOCK.fullmatch(text)
    if found is None:
        raise Refused("no time")
    hour, minute, second = (int(found[i] or 0) for i in (1, 2, 3))
    fraction = (found[4] or "").rstrip("0")
    if minute > 59 or second > 59 or len(fraction) > 9:
        raise Refused("no time")
    total = ((hour * 60 + minute) * 60 + second) * 10**9 + int(fraction.ljust(9, "0") or 0)
    if total > _DAY_NS:
        raise Refused("no time")
    return total


def _offset(text: str) -> int:
    found = _OFFSET.fullmatch(text)
    if found is None:
        raise Refused("no offset")
    if found[1] is None:
        return 0
    hours, minutes = int(found[2]), int(found[3] or 0)
    if hours > 23 or minutes > 59:
        raise Refused("no offset")
    return (-1 if found[1] == "-" else 1) * (hours * 60 + minutes) * 60 * 10**9


_MOMENT = re.compile(r"([0-9W-]+?)(?:[Tt ]([0-9:.,]+)\s?([Zz]|[+-][0-9:]+)?)?", re.A)


def _moment(text: str) -> tuple[int, int | None, bool]:
    """Nanoseconds since 1970 on the text's own clock, its offset, and whether it has a time."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise Refused("no moment")
    local = _day(found[1]) * _DAY_NS + (_clock(found[2]) if found[2] else 0)
    return local, _offset(found[3]) if found[3] else None, found[2] is not None


_WIDTHS = {"Y": 4, "y": 2, "m": 2, "d": 2, "j": 3, "H": 2, "I": 2, "M": 2, "S": 2}
_RUN = re.compile("(?:%[YymdjHIMS]){2,}")


_PAST_MICROS = re.compile(r".*[.,][0-9]{6}([0-9]{1,3})", re.S)


def _touching(pattern: str) -> re.Pattern[str]:
    """Where numbers touch each has all its digits, or nothing says where one ends; the rest is as it may be."""
    out, at = [], 0
    for run in _RUN.finditer(pattern):
        digits = sum(_WIDTHS[each] for each in run[0].split("%")[1:])
        out += [".*" if run.start() > at else "", f"[0-9]{{{digits}}}"]
        at = run.end()
    return re.compile("".join(out) + ".*", re.S)


def _in_format(text: str, pattern: str) -> tuple[int, int | None, bool, bool]:
    """As `_moment`, and whether the text is as Python writes it, so that nobody may refuse it."""
    # Python's %f takes six digits, floe's nine: what a column cannot hold is refused for that.
    text, past_micros = (text[: -len(more[1])], more[1]) if (more := _PAST_MICROS.fullmatch(text)) else (text, "")
    if past_micros and not pattern.endswith("%f"):
        raise Refused("digits behind the format")
    try:
        found = datetime.strptime(text, pattern)
    except ValueError as error:
        raise Refused(str(error)) from None
    if not _touching(pattern).fullmatch(text):
        raise Refused("numbers touch, and one lacks a digit")
    for directive in ("%a", "%A"):
        if directive in pattern and found.strftime(directive).lower() not in text.lower():
            raise Refused("another day of the week")
    written = found.strftime(pattern.replace("%Y", f"{found.year:04d}"))
    offset = found.utcoffset()
    whole = found.replace(tzinfo=None) - _EPOCH
    return (
        (whole.days * 86_400 + whole.seconds) * 10**9 + whole.microseconds * 1000 + int(past_micros.ljust(3, "0")),
        None if offset is None else round(offset.total_seconds()) * 10**9,
        "%H" in pattern or "%I" in pattern,
        written == text and not past_micros,
    )


@lru_cache(maxsize=64)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def _clock_to_utc(local: int, zone: str) -> int:
    """What a zone's clock showed; Refused where it showed it twice or never."""
    try:
        naive = _EPOCH + timedelta(seconds=local // 10**9)
        both = [
            round(naive.replace(tzinfo=_zone(zone), fold=fold).utcoffset().total_seconds())  # type: ignore[union-attr]
            for fold in (0, 1)
        ]
    except OverflowError as error:
        raise Refused(str(error)) from None
    if both[0] != both[1]:
        raise Refused("twice or never")
    return local - both[0] * 10**9


def _utc_to_clock(moment: int, zone: str) -> int:
    try:
        there = (_EPOCH.replace(tzinfo=timezone.utc) + timedelta(seconds=moment // 10**9)).astimezone(_zone(zone))
    except OverflowError as error:
        raise Refused(str(error)) from None
    return moment + round(there.utcoffset().total_seconds()) * 10**9  # type: ignore[union-attr]


def _count(text: str) -> Fraction:
    found = exact(text)
    if found is None:
        raise Refused("no number")
    return found


def _counts(text: str, kind: Kind) -> bool:
    """Whether a text is a count of the declared unit: where text may be a number, and this one is plainly written."""
    if kind.unit is None or not kind.reads_text:
        return False
    try:
        _number(text)
    except Refused:
        return False
    try:
        _day(text)
    except Refused:
        return True
    raise Refused("a count, or a date without its dashes")


def _counted(value: str, kind: Kind) -> int:
    """A number in the declared unit as nanoseconds."""
    if kind.unit is None:
        raise Refused("a number without a unit")
    nanoseconds = _count(value) * _UNITS_NS[kind.unit]
    if kind.cuts:
        return nanoseconds.__floor__()
    if nanoseconds.denominator != 1:
        raise Refused("less than a nanosecond")
    return int(nanoseconds)


def _readable(text: str, kind: Kind) -> str:
    """Where digits are cut off, those behind the ninth are none."""
    return re.sub(r"([.,][0-9]{9})[0-9]+", r"\1", text) if kind.cuts else text


# A format that is itself an ISO form admits every one.
_ISO_FORMATS = ("%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M:%S.%f")


def _timestamp(value: Any, kind: Kind) -> Any:
    step = 1 if kind.name.endswith("_ns") else 1000
    may = False
    with_zone = kind.name.startswith("timestamptz")
    if isinstance(value, Number) or (isinstance(value, str) and _counts(value, kind)):
        moment = _counted(value, kind)
    else:
        text = _readable(_text(value), kind)
        if kind.format is not None and kind.format not in _ISO_FORMATS:
            local, offset, _, plain = _in_format(text, kind.format)
            may = not plain
        else:
            local, offset, _ = _moment(text)
        if offset is not None:
            moment = local - offset
            if not with_zone:
                if kind.zone is None:
                    raise Refused("a zone where none is kept")
                moment = _utc_to_clock(moment, kind.zone)
        elif not with_zone:
            moment = local
        elif kind.zone is None:
            raise Refused("no zone")
        else:
            moment = _clock_to_utc(local, kind.zone)
    if (
        (moment % step and not kind.cuts)
        or abs(moment // step) >= 1 << 63
        or not _FIRST_DAY <= moment // _DAY_NS <= _LAST_DAY
    ):
        raise Refused("out of the column's range")
    return May(moment // step) if may else moment // step


def _date(value: Any, kind: Kind) -> Any:
    if isinstance(value, Number):
        nanoseconds = _counted(value, kind)
        if nanoseconds % _DAY_NS and not kind.cuts:
            raise Refused("no whole day")
        days, may = nanoseconds // _DAY_NS, False
    else:
        text = _readable(_text(value), kind)
        if kind.format is not None:
            local, _, has_time, plain = _in_format(text, kind.format)
            may = not plain
        else:
            (local, _, has_time), may = _moment(text), False
        if has_time and not kind.cuts:
            raise Refused("a time")
        days = local // _DAY_NS
    if not _FIRST_DAY <= days <= _LAST_DAY:
        raise Refused("out of the calendar")
    return May(days) if may else days


def _time(value: Any, kind: Kind) -> Any:
    may = False
    if isinstance(value, Number):
        nanoseconds = _counted(value, kind)
    else:
        text = _readable(_text(value), kind)
        if kind.format is not None:
            nanoseconds, _, _, plain = _in_format("1970-01-01 " + text, "%Y-%m-%d " + kind.format)
            may = not plain
        else:
            nanoseconds = _clock(text[1:] if text[:1] in ("T", "t") else text)
    if not 0 <= nanoseconds < _DAY_NS or (nanoseconds % 1000 and not kind.cuts):
        raise Refused("no time of day in microseconds")
    return May(nanoseconds // 1000) if may else nanoseconds // 1000


_PLAIN = {
    "boolean": _boolean,
    "int": _whole,
    "long": _whole,
    "float": _floating,
    "double": _floating,
    "decimal": _decimal,
    "string": _string,
    "uuid": _uuid,
    "binary": _binary,
    "fixed": _binary,
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
    "timestamptz": _timestamp,
    "timestamp_ns": _timestamp,
    "timestamptz_ns": _timestamp,
}


# ---- comparing
# ---------------------------------------------------------------------------------------------------------


def same(wanted: Any, found: Any) -> bool:
    """Whether a value is this one, to the last bit: -0.0 is not 0.0, True is not 1, and NaN is itself."""
    if isinstance(wanted, May):
        wanted = wanted.value
    if isinstance(wanted, Fraction) and not isinstance(found, (bool, float, str)) and found is not None:
        return bool(wanted == Fraction(found))
    if type(wanted) is not type(found) and not (isinstance(wanted, list) and isinstance(found, list)):
        return False
    if isinstance(wanted, float):
        return (wanted != wanted and found != found) or struct.pack("d", wanted) == struct.pack("d", found)
    if isinstance(wanted, dict):
        return wanted.keys() == found.keys() and all(same(item, found[name]) for name, item in wanted.items())
    if isinstance(wanted, (list, tuple)):
        return len(wanted) == len(found) and all(map(same, wanted, found))
    return bool(wanted == found)


def may_be_refused(value: Any) -> bool:
    """Whether the record may be a dead letter, too."""
    if isinstance(value, dict):
        return any(map(may_be_refused, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(may_be_refused, value))
    return isinstance(value, May)
