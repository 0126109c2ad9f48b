"""What a pipeline for some records might say: types that JSON cannot tell, the event's time, and fields that part them.

In: the bytes of a few hundred records. Out: a `Proposal`. Only what holds for every record seen is proposed, and a
person reviews it: a wrong guess shows as dead letters, never as a changed value (invariant 9).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from framework.record.convert.iso_time import parse_moment
from framework.record.failure import RecordFailure
from framework.record.strict_json import JsonValue, NumberText, parse_record
from framework.table.schema.types import BIG_INTEGER, MOST_DIGITS

MAX_SPLIT_VALUES = 20
_MIN_RECORDS_PER_VALUE = 5
_MIN_WHOLE_VALUES = 20
_IDENTIFIER = re.compile(r"(^|[._])id$|[a-z]Id$|^ID$", re.ASCII)
_TIME_NAMES = re.compile(
    r"(^|_|\.)(ts|time|timestamp|date|datetime|at|ms|us|epoch)$|time$|date$|timestamp$|At$", re.ASCII
)
_EVENT_TIME = ("event_time", "eventtime", "time", "timestamp", "ts", "occurred_at", "created_at", "date")
_SPLIT_NAMES = re.compile(r"(^|_)(type|kind|event|action|op|category|name)$", re.IGNORECASE)
# Whole numbers from 2001 to 2100 in each unit; the ranges do not touch.
_EPOCHS = (
    ("s", 10**9, 41 * 10**8),
    ("ms", 10**12, 41 * 10**11),
    ("us", 10**15, 41 * 10**14),
    ("ns", 10**18, 41 * 10**17),
)
_NAMESPACE_SAFE = re.compile(r"[A-Za-z0-9_]+\Z")


@dataclass(frozen=True)
class ProposedHint:
    """A field's exact type; `unit` for numbers since 1970. `zoneless` says that the text leaves the zone open."""

    path: str
    type: str
    unit: str | None = None
    zoneless: bool = False


@dataclass(frozen=True)
class ProposedSplit:
    """A field with few values, by which records could go to tables of their own; most frequent first."""

    field: str
    values: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Proposal:
    """`unreadable` counts records that are not JSON objects; `time_field` is the hint by which to partition, if any."""

    records: int
    unreadable: int
    hints: tuple[ProposedHint, ...]
    time_field: str | None
    splits: tuple[ProposedSplit, ...]


def propose(values: Iterable[bytes]) -> Proposal:
    """Looks at every record and keeps what holds for all of them."""
    records: list[dict[str, JsonValue]] = []
    unreadable = 0
    for value in values:
        try:
            records.append(parse_record(value))
        except RecordFailure:
            unreadable += 1
    columns: dict[str, list[JsonValue]] = {}
    for record in records:
        for path, leaf in _leaves(record, ""):
            columns.setdefault(path, []).append(leaf)
    hints = tuple(hint for path, found in columns.items() if (hint := _hint(path, found)) is not None)
    splits = tuple(split for path, found in columns.items() if (split := _split(path, found, len(records))) is not None)
    return Proposal(len(records) + unreadable, unreadable, hints, _time_field(hints, columns, len(records)), splits)


def _leaves(record: dict[str, JsonValue], above: str) -> Iterator[tuple[str, JsonValue]]:
    """Every value that is not null, by its dotted path; lists are left alone, and names that hold a dot."""
    for name, value in record.items():
        if "." in name or value is None or isinstance(value, list):
            continue
        if isinstance(value, dict):
            yield from _leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _hint(path: str, found: Sequence[JsonValue]) -> ProposedHint | None:
    if all(isinstance(value, NumberText) for value in found):
        numbers = [str(value) for value in found]
        return _epoch(path, numbers) or _whole(path, numbers)
    if not all(isinstance(value, str) and not isinstance(value, NumberText) for value in found):
        return None
    moments = [parse_moment(str(value), None) for value in found]
    # Eight digits are a date in ISO's basic form, and a number of something far more often.
    if any(moment is None for moment in moments) or any(str(value).isdigit() for value in found):
        return None
    seen = [moment for moment in moments if moment is not None]
    if not any(moment.has_time for moment in seen):
        return ProposedHint(path, "date")
    if all(moment.offset_seconds is not None for moment in seen):
        return ProposedHint(path, "timestamptz")
    if all(moment.offset_seconds is None for moment in seen):
        return ProposedHint(path, "timestamp", zoneless=True)
    return None


def _epoch(path: str, found: Sequence[str]) -> ProposedHint | None:
    """Moments as numbers: every one is whole and in the range of one unit, and the name says that it is a time."""
    if not _TIME_NAMES.search(path) or not all(value.isdigit() for value in found):
        return None
    numbers = [int(value) for value in found]
    for unit, low, high in _EPOCHS:
        if all(low <= number < high for number in numbers):
            return ProposedHint(path, "timestamptz", unit=unit)
    return None


def _whole(path: str, found: Sequence[str]) -> ProposedHint | None:
    """Numbers of which none is a fraction: what is named like an identifier, or many. Without a declared type they
    would be doubles, as the next one may be."""
    if len(found) < _MIN_WHOLE_VALUES and not _IDENTIFIER.search(path):
        return None
    if not all(NumberText(value).is_integer_literal for value in found):
        return None
    if any(len(value.lstrip("-")) > MOST_DIGITS for value in found):
        return None
    fits = all(-(1 << 63) <= int(value) < 1 << 63 for value in found)
    return ProposedHint(path, "long" if fits else BIG_INTEGER)


def _time_field(hints: Sequence[ProposedHint], columns: dict[str, list[JsonValue]], records: int) -> str | None:
    """The moment that every record has, at the top; the usual names for an event's time come first."""
    whole = [
        hint.path
        for hint in hints
        if hint.type.startswith("timestamp") and "." not in hint.path and len(columns[hint.path]) == records
    ]
    ranked = sorted(whole, key=lambda path: _EVENT_TIME.index(path.lower()) if path.lower() in _EVENT_TIME else 99)
    return ranked[0] if ranked else None


def _split(path: str, found: Sequence[JsonValue], records: int) -> ProposedSplit | None:
    """A field that every record has, of a telling name, with a few values that are names of tables."""
    if not _SPLIT_NAMES.search(path) or len(found) < records:
        return None
    texts = [value for value in found if isinstance(value, str) and not isinstance(value, NumberText)]
    counts = Counter(texts)
    few = 2 <= len(counts) <= min(MAX_SPLIT_VALUES, records // _MIN_RECORDS_PER_VALUE)
    if len(texts) < records or not few or not all(_NAMESPACE_SAFE.match(value) for value in counts):
        return None
    return ProposedSplit(path, tuple(counts.most_common()))
