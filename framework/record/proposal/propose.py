"""What a pipeline for some records might say: types that JSON cannot tell, the event's time, and fields that part them.

In: the bytes of a few hundred records. Out: a `Proposal`. Only what holds for every record seen is proposed, and a
person reviews it: a wrong guess shows as dead letters, never as a changed value (invariant 9).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from framework.config.units import quoted
from framework.diagnose.suggest import listed
from framework.record.convert.iso_time import parse_moment
from framework.record.failure import RecordFailure
from framework.record.proposal.envelopes import Wrapping, wrapping_of
from framework.record.strict_json import JsonValue, NumberText, parse_document
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
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]*)(\.([0-9]+))?\Z", re.ASCII)
_NO_AMOUNTS = re.compile(r"version|release|build|phone|(^|[._])(ip|v|ver)$", re.IGNORECASE)
_DIGITS = 18  # of a proposed decimal: more than any price has, and what Parquet keeps in eight bytes
# Times that are not ISO's, as people and programs write them; a text may fit several, and then none is proposed.
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p", " %H:%M:%S %z")
_DAYS = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y", "%d %b %Y", "%b %d, %Y", "%Y%m%d")
_FORMATS = (
    *(f"{day}{clock}" for day in _DAYS for clock in _CLOCKS if (day, clock) != ("%Y%m%d", "")),
    "%d/%b/%Y:%H:%M:%S %z",
)
_NAMESPACE_SAFE = re.compile(r"[A-Za-z0-9_]+\Z")
_TABLE_SAFE = re.compile(r"[A-Za-z0-9_-]+\Z")


@dataclass(frozen=True)
class ProposedHint:
    """A field's exact type; `unit` for numbers since 1970, `format` for times that are not ISO's. `zoneless` says that the
    text leaves the zone open, `cut` that it has more digits of a second than the column."""

    path: str
    type: str
    unit: str | None = None
    zoneless: bool = False
    format: str | None = None
    cut: bool = False


@dataclass(frozen=True)
class OpenQuestion:
    """What only a person can say of a field, and where an answer is written."""

    path: str
    question: str
    answer: str


@dataclass(frozen=True)
class UnusableValues:
    """Values of the field that is to part the records which no table's name can hold, and how many records have one;
    `absent` is how many have none."""

    field: str
    values: tuple[tuple[str, int], ...]
    absent: int

    @property
    def records(self) -> int:
        return sum(count for _, count in self.values) + self.absent


@dataclass(frozen=True)
class ProposedSplit:
    """A field with few values, by which records could go to tables of their own; most frequent first."""

    field: str
    values: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Proposal:
    """`unreadable` counts records that are not JSON objects; `time_field` is the hint by which to partition, if any.

    `wrapping` is around the rows; all paths are then those of the rows inside.
    """

    records: int
    unreadable: int
    hints: tuple[ProposedHint, ...]
    time_field: str | None
    splits: tuple[ProposedSplit, ...]
    questions: tuple[OpenQuestion, ...] = ()
    unusable: UnusableValues | None = None
    wrapping: Wrapping | None = None


def propose(values: Iterable[bytes], split_by: str | None = None) -> Proposal:
    """Looks at every record and keeps what holds for all of them.

    Args:
        split_by: the field whose values are to name tables.
    """
    documents: list[JsonValue] = []
    unreadable = 0
    for value in values:
        try:
            documents.append(parse_document(value))
        except RecordFailure:
            unreadable += 1
    count = len(documents) + unreadable
    wrapping = wrapping_of(documents)
    records = [record for record in documents if isinstance(record, dict)]
    if wrapping is not None:
        records = list(wrapping.rows)
    else:
        unreadable = count - len(records)
    typed = wrapping is not None and wrapping.typed
    columns: dict[str, list[JsonValue]] = {}
    for record in records:
        for path, leaf in _leaves(record, ""):
            columns.setdefault(path, []).append(leaf)
    # A schema that comes with the records says the types; what is declared beside it would only be another opinion.
    hints = () if typed else tuple(hint for path, found in columns.items() if (hint := _hint(path, found)) is not None)
    splits = tuple(split for path, found in columns.items() if (split := _split(path, found, len(records))) is not None)
    questions = () if typed else (*_questions(columns), *_lists(records))
    return Proposal(
        count,
        unreadable,
        hints,
        _time_field(hints, columns, len(records)),
        splits,
        questions,
        _unusable(split_by, records) if split_by else None,
        wrapping,
    )


def _leaves(record: dict[str, JsonValue], above: str) -> Iterator[tuple[str, JsonValue]]:
    """Every value that is not null, by its path as a file has it; lists are left alone, and names that no file can say."""
    for name, value in record.items():
        step = None if "." in name else quoted(name)
        if step is None or value is None or isinstance(value, list):
            continue
        if isinstance(value, dict):
            yield from _leaves(value, f"{above}{step}.")
        else:
            yield f"{above}{step}", value


def _hint(path: str, found: Sequence[JsonValue]) -> ProposedHint | None:
    if all(isinstance(value, NumberText) for value in found):
        numbers = [str(value) for value in found]
        return _epoch(path, numbers) or _whole(path, numbers)
    if not all(isinstance(value, str) and not isinstance(value, NumberText) for value in found):
        return None
    texts = [str(value) for value in found]
    if (decimal := _decimal(path, texts)) is not None:
        return decimal
    # Eight digits are a date in ISO's basic form, and a number of something far more often.
    if any(text.isdigit() for text in texts):
        return None
    formats = [None, *_formats_of(texts)] if _are_moments(texts, None) else _formats_of(texts)
    return _moments(path, texts, formats[0]) if len(formats) == 1 or formats[:1] == [None] else None


def _are_moments(texts: Sequence[str], pattern: str | None) -> bool:
    return all(parse_moment(text, pattern) is not None for text in texts)


def _formats_of(texts: Sequence[str]) -> list[str | None]:
    """The formats that all texts fit."""
    return [pattern for pattern in _FORMATS if any(c.isdigit() for c in texts[0]) and _are_moments(texts, pattern)]


def _moments(path: str, texts: Sequence[str], pattern: str | None) -> ProposedHint | None:
    seen = [moment for text in texts if (moment := parse_moment(text, pattern)) is not None]
    if not any(moment.has_time for moment in seen):
        return ProposedHint(path, "date", format=pattern)
    cut = any(moment.nanoseconds % 1_000 for moment in seen)
    if all(moment.offset_seconds is not None for moment in seen):
        return ProposedHint(path, "timestamptz", format=pattern, cut=cut)
    if all(moment.offset_seconds is None for moment in seen):
        return ProposedHint(path, "timestamp", zoneless=True, format=pattern, cut=cut)
    return None


def _decimal(path: str, texts: Sequence[str]) -> ProposedHint | None:
    """Amounts as text, as programs write them that must not round: all are numbers, and one has a fraction."""
    found = [match for text in texts if (match := _DECIMAL.match(text))]
    scale = max((len(match[3] or "") for match in found), default=0)
    if len(found) < len(texts) or not scale or _NO_AMOUNTS.search(path):
        return None
    whole = max(len(match[1]) for match in found)
    digits = max(_DIGITS, whole + scale)
    return ProposedHint(path, f"decimal({digits}, {scale})") if digits <= MOST_DIGITS else None


def _questions(columns: dict[str, list[JsonValue]]) -> Iterator[OpenQuestion]:
    """Times that may be read in two ways."""
    for path, found in columns.items():
        texts = [str(value) for value in found if isinstance(value, str) and not isinstance(value, NumberText)]
        if len(texts) < len(found) or any(text.isdigit() for text in texts) or _are_moments(texts, None):
            continue
        formats = [pattern for pattern in _formats_of(texts) if pattern is not None]
        if len(formats) > 1:
            kind = "timestamp" if "%H" in formats[0] or "%I" in formats[0] else "date"
            answer = f'{path}: {{type: {kind}, format: "{formats[0]}"}}'
            others = " or ".join(f'"{pattern}"' for pattern in formats)
            yield OpenQuestion(path, f"{texts[0]} may be {others}, so it stays text until the file says which", answer)


def _lists(records: Sequence[dict[str, JsonValue]]) -> Iterator[OpenQuestion]:
    """Lists of mappings, whose fields have the types of JSON unless the list is declared whole."""
    inside: dict[str, dict[str, list[JsonValue]]] = {}
    for record in records:
        for name, value in record.items():
            if isinstance(value, list) and quoted(name) == name:
                for item in value:
                    if isinstance(item, dict):
                        for path, leaf in _leaves(item, ""):
                            inside.setdefault(name, {}).setdefault(path, []).append(leaf)
    for name, columns in inside.items():
        hints = {path: hint for path, found in columns.items() if (hint := _hint(path, found)) is not None}
        exact = [
            path for path, hint in hints.items() if hint.unit is None and hint.format is None and hint.type != "long"
        ]
        types = [(path, hints[path].type if path in exact else _json_type(found)) for path, found in columns.items()]
        if exact and not any("." in path or "`" in path or kind is None for path, kind in types):
            answer = f'{name}: "list<struct<{", ".join(f"{path}: {kind}" for path, kind in types)}>>"'
            what = f"{listed(exact, 'and')} {'is' if len(exact) == 1 else 'are'}"
            yield OpenQuestion(
                name, f"in this list of mappings {what} as JSON has it, unless the whole list is declared", answer
            )


def _json_type(found: Sequence[JsonValue]) -> str | None:
    """The type that values of JSON have by themselves; None where they are of several kinds."""
    if all(isinstance(value, NumberText) for value in found):
        return "long" if all(value.is_integer_literal for value in found if isinstance(value, NumberText)) else "double"
    if all(isinstance(value, bool) for value in found):
        return "boolean"
    is_text = all(isinstance(value, str) and not isinstance(value, NumberText) for value in found)
    return "string" if is_text else None


def _unusable(split_by: str, records: Sequence[dict[str, JsonValue]]) -> UnusableValues | None:
    """Records that would be dead letters, since their value of a field can be no part of a table's name."""
    counts: Counter[str] = Counter()
    absent = 0
    for record in records:
        value = dict(_leaves(record, "")).get(quoted(split_by) or split_by)
        if value is None or value == "":
            absent += 1
        elif not isinstance(value, bool) and not _TABLE_SAFE.match(str(value)):
            counts[str(value)] += 1
    return UnusableValues(split_by, tuple(counts.most_common()), absent) if counts or absent else None


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
