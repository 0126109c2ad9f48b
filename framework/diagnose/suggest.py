"""Guesses what a mistyped word was meant to be. In: a word and the words that are allowed. Out: the nearest, or
None."""

from __future__ import annotations

from collections.abc import Iterable

_SHORTEST_NAME = 2


def nearest(word: str, allowed: Iterable[str]) -> str | None:
    """The allowed word most like `word`, looking past case, `-` and `_`; None when nothing is close."""
    import difflib  # only wrong files need it

    candidates = {_plain(name): name for name in sorted(allowed, reverse=True)}
    slips = [name for plain, name in candidates.items() if is_one_letter_away(_plain(word), plain)]
    if len(slips) == 1:
        return slips[0]
    matches = difflib.get_close_matches(_plain(word), candidates, n=3, cutoff=0.6)
    if not matches:
        return None
    # Among equally near words the one that is spelled alike for longest, then the first in the alphabet.
    best = difflib.SequenceMatcher(None, matches[0], _plain(word)).ratio()
    alike = [m for m in matches if difflib.SequenceMatcher(None, m, _plain(word)).ratio() == best]
    return candidates[min(alike)]


def is_one_letter_away(one: str, other: str) -> bool:
    """Whether a letter is added, left out, replaced or swapped with the next. Digits tell names apart (`line1`,
    `line2`)."""
    same = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    a, b = one[same:], other[same:]
    if min(len(one), len(other)) < _SHORTEST_NAME or any(character.isdigit() for character in f"{a[:1]}{b[:1]}"):
        return False
    return a[1:] == b or a == b[1:] or a[1:] == b[1:] or (a[:2] == b[1::-1] and a[2:] == b[2:])


def did_you_mean(word: str, allowed: Iterable[str]) -> str | None:
    """`did you mean `x`?` for the nearest allowed word, or None."""
    found = nearest(word, allowed)
    return f"did you mean `{found}`?" if found is not None else None


def listed(words: Iterable[str], joint: str = "or") -> str:
    """The words for a sentence: `a`, `b` or `c`."""
    quoted = [f"`{word}`" for word in words]
    if len(quoted) < 2:
        return "".join(quoted)
    return f"{', '.join(quoted[:-1])} {joint} {quoted[-1]}"


def _plain(word: str) -> str:
    return word.lower().replace("-", "_")
