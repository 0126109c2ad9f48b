"""The shape of a value as a JSON object, reported once and read both ways.

In: for each field of a dataclass the kind of its JSON value. Out: `Shape.write`, value to plain JSON, and `Shape.read`,
which refuses what is missing or of another type. No field is guessed; fields that are not known are ignored.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from framework.commit.events.event_types import SourceRange

# Kafka's offsets are signed numbers of 64 bits.
MAX_OFFSET = 1 << 63


class Malformed(Exception):
    """Says which field does not fit; turned into a FloeError by `framework.commit.events.codec`."""


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class FieldKind:
    """How one field stands in JSON. `absent` makes its value where the key is missing; None: then it is refused.

    `sparse` fields are written only where they say something. A value whose type is `plain` is what `read` would give
    for it: it is taken without a call, which is most of what decoding a long control log does.
    """

    read: Callable[[Any, str], Any]
    write: Callable[[Any], Any] = _same
    absent: Callable[[], Any] | None = None
    sparse: bool = False
    plain: type | None = None


class JsonShape:
    """A dataclass and the kinds of its fields, in the order in which they are written."""

    def __init__(
        self, make: type, head: dict[str, object], check: Callable[[Any], None] | None = None, **kinds: FieldKind
    ) -> None:
        self.make = make
        self._head = head
        self._check = check
        self._writes = tuple((name, kind.write, kind.sparse) for name, kind in kinds.items())
        self._reads = tuple((name, kind.plain, kind.read, kind.absent) for name, kind in kinds.items())
        if kinds.keys() != make.__dataclass_fields__.keys():  # type: ignore[attr-defined]
            raise TypeError(f"the shape of {make.__name__} names other fields than it has")

    def write(self, value: Any) -> dict[str, object]:
        found = dict(self._head)
        for name, write, sparse in self._writes:
            field = getattr(value, name)
            if not (sparse and (field is None or field is False or field in ((), {}))):
                found[name] = write(field)
        return found

    def read(self, value: dict[str, Any]) -> Any:
        """The dataclass, made of a parsed object. Raises Malformed."""
        found: Any = object.__new__(
            self.make
        )  # with all fields at once: the constructor of a frozen class sets each alone
        fields = found.__dict__
        for name, plain, read, absent in self._reads:
            held = value.get(name)
            if type(held) is plain:
                fields[name] = held
            else:
                fields[name] = absent() if absent is not None and name not in value else read(held, name)
        if self._check is not None:
            self._check(found)
        return found


def _of_type(kind: type, words: str) -> FieldKind:
    def read(found: Any, key: str) -> Any:
        if type(found) is not kind:  # bool is an int, and no offset
            raise Malformed(f"`{key}` must be {words}, not {found!r}")
        return found

    return FieldKind(read, plain=kind)


INT = _of_type(int, "an integer")
TEXT = _of_type(str, "text")
OBJECT = _of_type(dict, "an object")
LIST = _of_type(list, "a list")
BOOL = _of_type(bool, "true or false")
OPTIONAL_INT = FieldKind(
    lambda found, key: None if found is None else INT.read(found, key), absent=lambda: None, plain=int
)


def optional(kind: FieldKind, absent: Callable[[], Any]) -> FieldKind:
    """The same, and where the key is missing another value: logs of older versions have none."""
    return replace(kind, absent=absent)


def sparse(kind: FieldKind, absent: Callable[[], Any]) -> FieldKind:
    """The same, left out where it is empty."""
    return replace(kind, absent=absent, sparse=True)


def list_of(kind: type, words: str) -> FieldKind:
    """A tuple of single values of one type."""
    only = {kind}

    def read(found: Any, key: str) -> Any:
        if not only.issuperset(map(type, LIST.read(found, key))):
            raise Malformed(f"`{key}` must hold only {words}")
        return tuple(found)

    return FieldKind(read, list)


def map_of(kind: type) -> FieldKind:
    only = {kind}

    def read(found: Any, key: str) -> Any:
        if not only.issuperset(map(type, OBJECT.read(found, key).values())):
            raise Malformed(f"`{key}` must hold only values of type {kind.__name__}")
        return found

    return FieldKind(read)


def one_of(kind: type[Enum], but: Enum | None = None) -> FieldKind:
    """A word of `kind`; `but` is one that never stands in an event."""
    words = {str(each.value): each for each in kind if each is not but}

    def read(found: Any, key: str) -> Any:
        try:
            return words[TEXT.read(found, key)]
        except KeyError as error:
            raise Malformed(f"`{key}` must be one of {', '.join(words)}, not {found!r}") from error

    return FieldKind(read, lambda each: each.value)


def object_of(shape: JsonShape) -> FieldKind:
    return FieldKind(lambda found, key: shape.read(OBJECT.read(found, key)), shape.write)


def optional_object(shape: JsonShape) -> FieldKind:
    """An object, or None."""
    return FieldKind(
        lambda found, key: None if found is None else shape.read(OBJECT.read(found, key)),
        lambda value: None if value is None else shape.write(value),
    )


def objects_of(shape: JsonShape) -> FieldKind:
    """A tuple of values, each an object."""

    def read(found: Any, key: str) -> Any:
        each_is = [type(each) is dict for each in LIST.read(found, key)]
        if not all(each_is):
            raise Malformed(f"`{key}` must hold objects, not {found[each_is.index(False)]!r}")
        return tuple([shape.read(each) for each in found])

    return FieldKind(read, lambda values: [shape.write(each) for each in values])


def map_of_objects(shape: JsonShape) -> FieldKind:
    plain = map_of(dict)
    return FieldKind(
        lambda found, key: {name: shape.read(each) for name, each in plain.read(found, key).items()},
        lambda values: {name: shape.write(each) for name, each in values.items()},
    )


def _write_ranges(ranges: tuple[SourceRange, ...]) -> list[dict[str, object]]:
    """Consecutive ranges of one topic share its name and id: 5,000 partitions stay far below the size limit."""
    groups: list[dict[str, object]] = []
    rows: list[list[int | None]] = []
    last: tuple[str, str] | None = None
    for r in ranges:
        if (r.topic, r.topic_id) != last:
            last = (r.topic, r.topic_id)
            rows = []
            groups.append({"topic": r.topic, "topic_id": r.topic_id, "partitions": rows})
        rows.append([r.partition, r.start, r.end, r.max_timestamp_ms])
    return groups


def _read_ranges(found: Any, key: str) -> tuple[SourceRange, ...]:
    ranges: list[SourceRange] = []
    for group in LIST.read(found, key):
        if type(group) is not dict:
            raise Malformed(f"`{key}` must hold objects, not {group!r}")
        topic, topic_id = TEXT.read(group.get("topic"), "topic"), TEXT.read(group.get("topic_id"), "topic_id")
        for row in LIST.read(group.get("partitions"), "partitions"):
            if type(row) is not list or len(row) != 4 or not all(type(n) is int for n in row[:3]):
                raise Malformed(f"a range must be [partition, start, end, max_timestamp_ms or null], not {row!r}")
            if row[3] is not None and type(row[3]) is not int:
                raise Malformed(f"a range's highest timestamp must be an integer or null, not {row[3]!r}")
            if not 0 <= row[1] <= row[2] < MAX_OFFSET:
                raise Malformed(f"a range must not end before it starts, nor where no offset is: {row!r}")
            ranges.append(SourceRange(topic, topic_id, row[0], row[1], row[2], row[3]))
    return tuple(ranges)


class _RangesOfABatch:
    """Reads ranges, and gives those it read last once more for the same list: all announcements of a batch repeat them,
    so that a batch of 50 tables is checked once and kept once."""

    def __init__(self) -> None:
        self._last: tuple[bytes, tuple[SourceRange, ...]] = (b"", ())

    def __call__(self, found: Any, key: str) -> tuple[SourceRange, ...]:
        seen = marshal.dumps(found, 2)  # 1 and True are equal, and their bytes are not
        known, ranges = self._last  # read and set as one: coordinators of one process may share this
        if seen == known:
            return ranges
        ranges = _read_ranges(found, key)
        self._last = seen, ranges
        return ranges


RANGES = FieldKind(_RangesOfABatch(), _write_ranges)
OTHER_RANGES = FieldKind(_read_ranges, _write_ranges)  # those that stand beside a batch's own and differ from them
