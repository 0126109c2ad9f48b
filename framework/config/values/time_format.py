"""Declared formats of dates and times: strptime's directives, and whether they say one thing, and all of it.

In: a format, and the type of its column. Out: its pieces, or what is wrong with it. A format that passes leaves nothing
to guess: each part of the value is named once, and each part that is named is used.
"""

from __future__ import annotations

from collections.abc import Iterator

SHORTHANDS = {"%F": "%Y-%m-%d", "%T": "%H:%M:%S", "%R": "%H:%M"}
# What each directive says.
_PARTS = {
    "Y": "the year", "y": "the year", "m": "the month", "b": "the month", "B": "the month", "d": "the day", "e": "the day",
    "j": "the day of the year", "a": "the weekday", "A": "the weekday", "H": "the hour", "I": "the hour", "p": "AM or PM",
    "M": "the minute", "S": "the second", "f": "the fraction of a second", "z": "the zone",
}  # fmt: skip
DIRECTIVES = frozenset({*_PARTS, "%", "F", "T", "R"})
_OF_A_DAY = ("the year", "the month", "the day", "the day of the year", "the weekday")
# What the part on the left means nothing without.
_NEEDS = (
    ("the minute", "the hour", "%H"),
    ("the second", "the minute", "%M"),
    ("the fraction of a second", "the second", "%S"),
)


def expanded(pattern: str) -> str:
    """The format without shorthands."""
    for short, long in SHORTHANDS.items():
        pattern = pattern.replace(short, long)
    return pattern


def pieces(pattern: str) -> Iterator[tuple[str, bool]]:
    """A format's directives, without `%`, and the single characters between them; whether each is a directive."""
    pattern = expanded(pattern)
    at = 0
    while at < len(pattern):
        is_directive = pattern[at] == "%"
        yield (pattern[at + 1 : at + 2], True) if is_directive else (pattern[at], False)
        at += 1 + is_directive


def format_fault(pattern: str, kind: str) -> str | None:
    """Why texts cannot be read by this format for a column of this type; None where they can. Directives that floe does
    not know are none of its business."""
    letters = [letter for letter, is_directive in pieces(pattern) if is_directive and letter in _PARTS]
    parts = [_PARTS[letter] for letter in letters]
    twice = next((part for part in parts if parts.count(part) > 1), None)
    if twice is not None:
        return f"it names {twice} twice"
    if "the day of the year" in parts and ("the month" in parts or "the day" in parts):
        return "it names the day twice: `%j` counts from the first of January"
    if ("I" in letters) != ("p" in letters):
        return "`%I` and `%p` go together: use both, or `%H` for hours from 0 to 23"
    for part, needed, directive in _NEEDS:
        if part in parts and needed not in parts:
            return f"it names {part} without {needed} (`{directive}`)"
    if kind == "time":
        useless = next((part for part in parts if part in (*_OF_A_DAY, "the zone")), None)
        return None if useless is None else f"it names {useless}, and a `time` has none"
    if kind == "date":
        useless = next((part for part in parts if part not in _OF_A_DAY), None)
        if useless is not None:
            return f"it names {useless}, and a `date` has none"
    elif kind in ("timestamp", "timestamp_ns") and "the zone" in parts:
        return f"it names the zone, and a `{kind}` has none"
    day = "the day of the year" in parts or ("the month" in parts and "the day" in parts)
    if "the year" not in parts or not day:
        return "it does not say which day: that takes the year, the month and the day, or `%Y` and `%j`"
    return None
