"""A number and what it counts, as text: `1 file`, `2,000 files`. In: a number and a noun. Out: both, in the noun's
right form."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """The number with thousands separated, and the noun; `plural` where it is not the noun with an s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def share_of(part: int, whole: int) -> str:
    """`12 (0.4%)`; less than a thousandth is shown as such, since no share of something is nothing."""
    if not part:
        return "0"
    return f"{part:,} ({part / whole:.1%})" if part * 1000 >= whole else f"{part:,} (<0.1%)"
