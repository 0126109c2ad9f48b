"""Durations, sizes and partition fields as people write them, as plain values; and settings as clients take them.

In: text that has passed the schema, or any text at all. Out: milliseconds, bytes, `PartitionFieldSpec`; None where the
text is not of the form. The canonical partition text is that of Iceberg's SQL, `bucket(16, id)`; `bucket(id, 16)` is
read too.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

from framework.config.spec import PartitionFieldSpec, SortFieldSpec
from framework.config.values.transforms import TRANSFORMS

_DURATION = re.compile(r"([1-9][0-9]{0,8})(ms|s|m|h|d)\Z")
_MILLISECONDS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZE = re.compile(r"([1-9][0-9]{0,14})(B|kB|KB|MB|GB|TB|KiB|MiB|GiB|TiB)?\Z")
_BYTES = {
    "B": 1,
    **{unit: 1000**power for unit, power in (("kB", 1), ("KB", 1), ("MB", 2), ("GB", 3), ("TB", 4))},
    **{unit: 1024**power for unit, power in (("KiB", 1), ("MiB", 2), ("GiB", 3), ("TiB", 4))},
}
# A name that is quoted needs it, so that each name is written in one way. A dot inside of one would end it, and what
# YAML cannot print is no name.
_NOT_SAID = r"`.{}\x00-\x1f\x7f-\x9f\ufffe\uffff"
_STEP = (
    rf"(?:[A-Za-z_][A-Za-z0-9_-]*|`[A-Za-z_][A-Za-z0-9_-]*[^A-Za-z0-9_{_NOT_SAID}-][^{_NOT_SAID}]*`"
    rf"|`[^A-Za-z_{_NOT_SAID}][^{_NOT_SAID}]*`)"
)
COLUMN = rf"{_STEP}(?:\.{_STEP})*"
_QUOTED = re.compile(r"`([^`]*)`")
_ARGUMENT = rf" *({COLUMN}|[0-9]+) *"
_CALL = re.compile(rf"([A-Za-z_]+)\({_ARGUMENT}(?:,{_ARGUMENT})?\)\Z")
_COLUMN = re.compile(COLUMN + r"\Z")
_SORT = re.compile(r"(.+?)(?:(?<! ) +(asc|desc))?(?:(?<! ) +nulls +(first|last))?\Z")


def unquoted(path: str) -> str:
    """A field's path as records and tables have it: without the quotes that a name needs in a file."""
    return path.replace("`", "")


def quoted(path: str) -> str | None:
    """A field's path as a file has it; None where no file can say it."""
    steps = [step if re.fullmatch(_STEP, step) else f"`{step}`" for step in path.split(".")]
    return ".".join(steps) if all(re.fullmatch(_STEP, step) for step in steps) else None


def unsaid(text: str) -> str | None:
    """What about quoted names in a text keeps every file from saying them; None where nothing does."""
    found = next((found for name in _QUOTED.findall(text) if (found := re.search("[.{}]", name))), None)
    return None if found is None else "a name with a dot in it" if found[0] == "." else "a name with a brace in it"


def without_needless_quotes(text: str) -> str:
    """The text with no quotes around the names that need none."""
    return _QUOTED.sub(lambda found: found[1] if re.fullmatch(_STEP, found[1]) else found[0], text)


def setting_text(value: object) -> str:
    """A setting of librdkafka, a catalog or Spark, all of which take text: YAML's `true` is `true` again."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@lru_cache(maxsize=256)
def duration_ms(text: str) -> int | None:
    """`3m` as 180000."""
    match = _DURATION.match(text)
    return int(match[1]) * _MILLISECONDS[match[2]] if match else None


def duration_text(milliseconds: int) -> str:
    """180000 as `3m`: the largest unit that gives a whole number."""
    unit, size = next((unit, size) for unit, size in reversed(_MILLISECONDS.items()) if milliseconds % size == 0)
    return f"{milliseconds // size}{unit}"


def size_bytes(value: str | int) -> int | None:
    """`512MiB` as 536870912; a plain number counts bytes."""
    if isinstance(value, int):
        return value
    match = _SIZE.match(value)
    return int(match[1]) * _BYTES[match[2] or "B"] if match else None


@lru_cache(maxsize=1024)  # tables of one team are partitioned alike, and each rule asks
def partition_field(text: str) -> PartitionFieldSpec | None:
    """`day(ordered_at)`, `bucket(16, id)` or a plain column."""
    if _COLUMN.match(text):
        return PartitionFieldSpec(text)
    match = _CALL.match(text)
    if match is None:
        return None
    transform, first, second = match[1], match[2], match[3]
    known = TRANSFORMS.get(transform)
    if known and not known.counts and second is None and _COLUMN.match(first):
        return PartitionFieldSpec(first, transform)
    if known and known.counts and second is not None:
        number, column = (first, second) if first.isdecimal() else (second, first)
        if re.match(r"[1-9][0-9]{0,8}\Z", number) and _COLUMN.match(column):
            return PartitionFieldSpec(column, transform, int(number))
    return None


def plain_partition(field: PartitionFieldSpec) -> PartitionFieldSpec:
    """The field by its column's own name."""
    return replace(field, column=unquoted(field.column))


@lru_cache(maxsize=1024)
def sort_field(text: str) -> SortFieldSpec | None:
    """`ordered_at desc nulls last`; as in SQL's dialect of Iceberg, nulls come first when ascending, last when
    descending."""
    match = _SORT.match(text)
    by = partition_field(match[1]) if match else None
    if match is None or by is None:
        return None
    descending = match[2] == "desc"
    return SortFieldSpec(by, descending, match[3] == "first" if match[3] else not descending)


def sort_text(field: SortFieldSpec) -> str:
    """The canonical text of a sort field: what Iceberg takes for granted is left out."""
    direction = " desc" if field.descending else ""
    nulls = "" if field.nulls_first is not field.descending else f" nulls {'first' if field.nulls_first else 'last'}"
    return partition_text(field.by) + direction + nulls


@lru_cache(maxsize=1024)
def partition_text(field: PartitionFieldSpec) -> str:
    """The canonical text of a partition field."""
    column = quoted(field.column) or field.column
    if field.transform == "identity":
        return column
    return f"{field.transform}({f'{field.argument}, ' if field.argument is not None else ''}{column})"
