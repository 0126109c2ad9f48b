"""Numbers as people read them: `1 file`, `2,000 files`, `3 d 4 h`, `1.5 KiB`, `2026-01-31 09:00:00 UTC`.

In: a number and a noun, or milliseconds or bytes. Out: both, in the noun's right form, or in units. Whatever the number is,
there is a text: moments come from records, control topics and tables that others write.
"""

from __future__ import annotations

from datetime import datetime, timezone


def counted(number: int, noun: str, plural: str = "") -> str:
    """The number with thousands separated, and the noun; `plural` where it is not the noun with an s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def share_of(part: int, whole: int) -> str:
    """`12 (0.4%)`; less than a thousandth is shown as such, since no share of something is nothing."""
    if not part:
        return "0"
    return f"{part:,} ({part / whole:.1%})" if part * 1000 >= whole else f"{part:,} (<0.1%)"


def in_two_units(milliseconds: int) -> str:
    """A duration in its two largest units: `3 d 4 h`."""
    seconds = milliseconds // 1000
    for unit, size, below, smaller in (("d", 86_400, 3600, "h"), ("h", 3600, 60, "min"), ("min", 60, 1, "s")):
        if seconds >= size:
            rest = seconds % size // below
            return f"{seconds // size:,} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{seconds} s"


def size_text(size: int) -> str:
    """`1536` as `1.5 KiB`."""
    number, units = float(size), iter(("B", "KiB", "MiB", "GiB", "TiB"))
    unit = next(units)
    while number >= 1024 and (larger := next(units, None)) is not None:
        number, unit = number / 1024, larger
    return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"


def moment_text(milliseconds: int, form: str = "%Y-%m-%d %H:%M:%S UTC") -> str:
    """A moment since 1970 as people read it; as a number where no calendar has it.

    Args:
        form: as `strftime` takes it, without a part below seconds.
    """
    try:
        return datetime.fromtimestamp(milliseconds // 1000, timezone.utc).strftime(form)
    except (OverflowError, ValueError, OSError):
        return f"{milliseconds} ms"


def stamp_text(milliseconds: int) -> str:
    """A moment as programs read it, such as `2026-01-31T09:00:00Z`; as a number where no calendar has it."""
    return moment_text(milliseconds, "%Y-%m-%dT%H:%M:%SZ")
