"""Whether names of tables can meet: a name that several patterns match at once.

In: globs, and names with `{field}` in them, whose values are letters, digits, `_` and `-`. Out: one such name, as short
as there is; None where there is none, or where looking for it takes longer than it may: a run then finds it out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

_VALUE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
# Patterns of thousands of characters and stars would be compared for minutes.
_MOST_STATES = 5_000


@dataclass(frozen=True, slots=True)
class _Part:
    """One character, or with `repeats` any number: of `among`, of a glob's `[...]`, or any."""

    repeats: bool
    among: frozenset[str] | None = None
    glob: str = ""

    def takes(self, character: str) -> bool:
        if self.glob:
            return fnmatchcase(character, self.glob)
        return self.among is None or character in self.among


Pattern = tuple[_Part, ...]


def of_template(template: str) -> Pattern:
    """`shop.{kind}s`: a field's value has one character at least."""
    parts: list[_Part] = []
    for index, piece in enumerate(template.split("{")):
        if index:
            parts += (_Part(False, _VALUE), _Part(True, _VALUE))
            piece = piece.partition("}")[2]
        parts += (_Part(False, frozenset(character)) for character in piece)
    return tuple(parts)


def of_glob(glob: str) -> Pattern:
    """As `fnmatchcase` reads it."""
    parts: list[_Part] = []
    at = 0
    while at < len(glob):
        character = glob[at]
        end = glob.find("]", at + 2 + (glob[at + 1 : at + 2] == "!")) if character == "[" else -1
        if end > 0:
            parts.append(_Part(False, glob=glob[at : end + 1]))
            at = end
        elif character in "*?":
            parts.append(_Part(character == "*"))
        else:
            parts.append(_Part(False, frozenset(character)))
        at += 1
    return tuple(parts)


def common_name(patterns: Sequence[Pattern]) -> str | None:
    """A name that all of them match."""
    alphabet = _alphabet(patterns)
    begin = (0,) * len(patterns)
    seen, queue = {begin}, deque([(begin, "")])
    while queue and len(seen) <= _MOST_STATES:
        places, name = queue.popleft()
        if all(place == len(pattern) for place, pattern in zip(places, patterns, strict=True)):
            return name
        for after, character in _steps(places, patterns, alphabet):
            if after not in seen:
                seen.add(after)
                queue.append((after, name + character))
    return None


def _steps(
    places: tuple[int, ...], patterns: Sequence[Pattern], alphabet: Sequence[str]
) -> Iterator[tuple[tuple[int, ...], str]]:
    parts = [pattern[place] if place < len(pattern) else None for place, pattern in zip(places, patterns, strict=True)]
    for index, part in enumerate(parts):
        if part is not None and part.repeats:  # nothing more of it
            yield (*places[:index], places[index] + 1, *places[index + 1 :]), ""
    if None in parts:
        return
    present = [part for part in parts if part is not None]
    for character in alphabet:
        if all(part.takes(character) for part in present):
            moved = (place + (not part.repeats) for place, part in zip(places, present, strict=True))
            yield tuple(moved), character


def _alphabet(patterns: Sequence[Pattern]) -> list[str]:
    """The characters that patterns tell apart, and one that none of them names."""
    named = {min(part.among) for pattern in patterns for part in pattern if part.among and len(part.among) == 1}
    sets = {character for pattern in patterns for part in pattern for character in part.glob if part.glob}
    return sorted(named | (sets - set("[]!")) | {"x"})
