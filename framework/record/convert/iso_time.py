"""Dates and times written as text, exactly: ISO 8601 and declared formats, to whole numbers since 1970.

In: text, a format of strptime's directives or none. Out: days, nanoseconds of the day and the offset from UTC in
seconds (None where the text has no zone). ISO forms: calendar, ordinal and week dates, extended or basic, time to the
minute, second or any fraction, `T`, `t` or a blank between, `Z`, `z` or an offset. Times are optional; 24:00 ends a
day.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from functools import lru_cache
from zoneinfo import ZoneInfo

from framework.config.values.time_format import expanded, pieces

NANOSECONDS_PER_DAY = 86_400 * 1_000_000_000
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_WEEKDAY_OF_1970 = date(1970, 1, 1).weekday()
_DAYS_IN_400_YEARS = 146_097

_DATE = (
    r"(?:(?P<year>\d{4})(?:-(?P<month>\d\d)-(?P<day>\d\d)|(?P<bmonth>\d\d)(?P<bday>\d\d)"
    r"|-?W(?P<week>\d\d)-?(?P<weekday>[1-7])|-?(?P<ordinal>\d{3})))"
)
_TIME = r"(?:(?P<hour>\d\d)(?::?(?P<minute>\d\d)(?::?(?P<second>\d\d)(?:[.,](?P<fraction>\d+))?)?)?)"
_ZONE = r"(?P<zone>[Zz]|[+-]\d\d(?::?\d\d)?)"
_ISO_MOMENT = re.compile(rf"{_DATE}(?:[Tt ]{_TIME}\s?{_ZONE}?)?", re.ASCII)
_ISO_TIME = re.compile(rf"[Tt]?{_TIME}{_ZONE}?", re.ASCII)

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_FULL_MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_DIRECTIVES = {
    "Y": r"(?P<year>\d{4})",
    "y": r"(?P<short_year>\d\d)",
    "m": r"(?P<month>\d\d?)",
    "d": r"(?P<day>\d\d?)",
    "e": r" ?(?P<day>\d\d?)",
    "j": r"(?P<ordinal>\d{3})",
    "H": r"(?P<hour>\d\d?)",
    "I": r"(?P<hour12>\d\d?)",
    "p": r"(?P<half>[AaPp][Mm])",
    "M": r"(?P<minute>\d\d?)",
    "S": r"(?P<second>\d\d?)",
    "f": r"(?P<fraction>\d{1,9})",
    "z": r"(?P<zone>[Zz]|[+-]\d\d(?::?\d\d)?)",
    "b": r"(?P<month_name>[A-Za-z]{3})",
    "B": r"(?P<month_name>[A-Za-z]{3,9})",
    "a": r"(?P<weekday_name>[A-Za-z]{3})",
    "A": r"(?P<weekday_name>[A-Za-z]{6,9})",
    "%": "%",
}
# Where numbers touch, nothing but their digits says where one ends.
_TOUCHING = {
    "m": r"(?P<month>\d\d)",
    "d": r"(?P<day>\d\d)",
    "e": r"(?P<day> \d|\d\d)",
    "H": r"(?P<hour>\d\d)",
    "I": r"(?P<hour12>\d\d)",
    "M": r"(?P<minute>\d\d)",
    "S": r"(?P<second>\d\d)",
}
_NUMERIC = frozenset("Yyjf") | _TOUCHING.keys()
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


@dataclass(frozen=True)
class IsoTime:
    """`days` since 1970-01-01, `nanoseconds` of that day (86,400 s when it is 24:00), `offset_seconds` east of UTC."""

    days: int
    nanoseconds: int
    offset_seconds: int | None
    has_time: bool

    @property
    def local_nanoseconds(self) -> int:
        """Nanoseconds from 1970-01-01T00:00 on the clock that the text was read from."""
        return self.days * NANOSECONDS_PER_DAY + self.nanoseconds


def check_format(pattern: str) -> str | None:
    """What is wrong with a strptime format, or None when it is understood."""
    try:
        _compiled(pattern)
    except ValueError as error:
        return str(error)
    return None


def is_iso_format(pattern: str) -> bool:
    """Whether a format describes one of the ISO forms, so that every ISO form may be read for it."""
    return re.fullmatch(r"%Y-%m-%d([T ]%H:%M(:%S([.,]%f)?)?(%z)?)?", expanded(pattern)) is not None


def parse_moment(text: str, pattern: str | None) -> IsoTime | None:
    """A date with or without time; None when the text is no such thing."""
    found = _ISO_MOMENT.fullmatch(text)
    if pattern is not None and not is_iso_format(pattern):
        found = _compiled(pattern).fullmatch(text)
    return None if found is None else _moment(found.groupdict())


def parse_time(text: str, pattern: str | None) -> int | None:
    """Nanoseconds of the day for a time without zone; None when the text is no such thing."""
    found = (_compiled(pattern) if pattern is not None else _ISO_TIME).fullmatch(text)
    if found is None or found.groupdict().get("zone"):
        return None
    nanoseconds = _nanoseconds(found.groupdict())
    return None if nanoseconds is None or nanoseconds >= NANOSECONDS_PER_DAY else nanoseconds


def zone_offset_seconds(zone: str, local_nanoseconds: int) -> int | None:
    """The zone's offset at a local time; None when the clock shows that time twice or never, or outside years
    1-9999."""
    seconds = local_nanoseconds // 1_000_000_000
    try:
        local = datetime(1970, 1, 1) + timedelta(seconds=seconds)
        tzinfo = ZoneInfo(zone)
        early, late = (local.replace(tzinfo=tzinfo, fold=fold).utcoffset() for fold in (0, 1))
    except OverflowError:
        return None
    return None if early is None or early != late else int(early.total_seconds())


def zone_local_offset_seconds(zone: str, utc_nanoseconds: int) -> int | None:
    """The zone's offset at an instant; None outside years 1-9999."""
    try:
        instant = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=utc_nanoseconds // 1_000_000_000)
        offset = instant.astimezone(ZoneInfo(zone)).utcoffset()
    except OverflowError:
        return None
    return None if offset is None else int(offset.total_seconds())


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    out, found = [], list(pieces(pattern))
    numeric = [letter in _NUMERIC if is_directive else letter.isdigit() for letter, is_directive in found]
    for at, (letter, is_directive) in enumerate(found):
        if not is_directive:
            out.append(re.escape(letter))
            continue
        if letter not in _DIRECTIVES:
            raise ValueError(f"the format {pattern!r} uses %{letter}, which is not understood")
        touches = any(numeric[max(at - 1, 0) : at] + numeric[at + 1 : at + 2])
        out.append(_TOUCHING[letter] if touches and letter in _TOUCHING else _DIRECTIVES[letter])
    try:
        return re.compile("".join(out), re.ASCII)
    except re.error:
        raise ValueError(f"the format {pattern!r} names one part of a date twice") from None


def _moment(parts: dict[str, str | None]) -> IsoTime | None:
    days = _days(parts)
    nanoseconds = _nanoseconds(parts)
    if days is None or nanoseconds is None:
        return None
    offset = None
    if zone := parts.get("zone"):
        offset = offset_seconds(zone)
        if offset is None:
            return None
    weekday = (parts.get("weekday_name") or "").lower()
    if weekday and weekday not in (name := _WEEKDAYS[(days + _WEEKDAY_OF_1970) % 7], name[:3]):
        return None
    has_time = parts.get("hour") is not None or parts.get("hour12") is not None
    return IsoTime(days, nanoseconds, offset, has_time)


def _days(parts: dict[str, str | None]) -> int | None:
    if long := parts.get("year"):
        year = int(long)
    elif short := parts.get("short_year"):
        year = int(short) + (1900 if int(short) >= 69 else 2000)
    else:
        return None
    shift = 0 if year > 0 else 400  # the calendar repeats every 400 years; Python's begins with year 1
    name = (parts.get("month_name") or "").lower()
    try:
        if ordinal := parts.get("ordinal"):
            day = date(year + shift, 1, 1) + timedelta(days=int(ordinal) - 1)
            if int(ordinal) < 1 or day.year != year + shift:
                return None
        elif week := parts.get("week"):
            day = date.fromisocalendar(year + shift, int(week), int(parts["weekday"] or 1))
        else:
            month = parts.get("month") or parts.get("bmonth")
            if name in _FULL_MONTHS:
                month = str(_FULL_MONTHS.index(name) + 1)
            elif name in _MONTHS:
                month = str(_MONTHS.index(name) + 1)
            number = parts.get("day") or parts.get("bday")
            if month is None or number is None:
                return None
            day = date(year + shift, int(month), int(number))
    except (ValueError, OverflowError):
        return None
    return day.toordinal() - _EPOCH_ORDINAL - (_DAYS_IN_400_YEARS if shift else 0)


def _nanoseconds(parts: dict[str, str | None]) -> int | None:
    hour = int(parts.get("hour") or 0)
    if twelve := parts.get("hour12"):
        half = (parts.get("half") or "").lower()
        if not 1 <= int(twelve) <= 12 or not half:
            return None
        hour = int(twelve) % 12 + (12 if half == "pm" else 0)
    minute, second = int(parts.get("minute") or 0), int(parts.get("second") or 0)
    fraction = (parts.get("fraction") or "").rstrip("0")
    if len(fraction) > 9 or hour > 24 or minute > 59 or second > 59:
        return None
    nanoseconds = ((hour * 60 + minute) * 60 + second) * 1_000_000_000 + int(fraction.ljust(9, "0"))
    return nanoseconds if nanoseconds <= NANOSECONDS_PER_DAY else None


def offset_seconds(zone: str) -> int | None:
    """Seconds east of UTC of `Z` or `+hh[:mm]`; None when there is no such offset."""
    if zone in "Zz":
        return 0
    digits = zone[1:].replace(":", "")
    hours, minutes = int(digits[:2]), int(digits[2:] or 0)
    if hours > 23 or minutes > 59:
        return None
    return (hours * 3600 + minutes * 60) * (-1 if zone[0] == "-" else 1)
