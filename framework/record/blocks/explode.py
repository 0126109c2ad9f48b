"""Records that hold several documents: a place in the block for each element of their array, before anything is parsed.

In: the texts of a block's records, and where the array is. Out: blocks with a place for each element, its text (the record's
own, with the element where the array stood), and which record and index each place is of. Nothing is judged here but
whether there is an array: the elements are parsed by the same code as records that hold one document.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from framework.config.spec import RECORD_LINES, WHOLE_RECORD
from framework.plan.model import Decode
from framework.record.arrays import Ints
from framework.record.blocks.unwrap_envelope import JsonRead, finished
from framework.record.failure import RecordFailure
from framework.record.formats.wire import Schemas
from framework.record.json.member_spans import after_space, element_spans, member_place, value_end
from framework.record.model import RecordBlock
from framework.record.state.elements import NO_ELEMENT, Elements
from framework.record.strict_json import JsonValue, kind_of, parse_document, parse_record

# What stands beside an array stands in the text of each element. A piece of a block is processed at once; one record is not
# cut, so it may not become more than a task can hold.
PIECE_BYTES = 64 * 1024**2
MOST_BYTES = 256 * 1024**2
# A place of a block takes memory beside its text.
_PLACE_BYTES = 64

_T = TypeVar("_T")


@dataclass(frozen=True)
class Exploded:
    """Some consecutive records of a block, `count` of them, with a place for each element."""

    block: RecordBlock
    read: JsonRead
    elements: Elements
    count: int


def exploded(
    block: RecordBlock, read: JsonRead, decode: Decode, schemas: Schemas, piece_bytes: int = PIECE_BYTES
) -> Iterator[Exploded]:
    """The block in pieces.

    Args:
        read: the texts of the block's records, with a `{}` for those without a value that may delete.
    """
    first = 0
    while first < len(block):
        piece = _Exploder(block, read, decode, schemas, first)
        yield piece.until(piece_bytes)
        first = piece.end


class _Exploder:
    def __init__(self, block: RecordBlock, read: JsonRead, decode: Decode, schemas: Schemas, first: int) -> None:
        self._block, self._read, self._decode, self._schemas = block, read, decode, schemas
        self._path = decode.format.explode or WHOLE_RECORD
        self._is_finished = not (decode.parsed or decode.key or decode.format.envelope_paths)
        self._first = self.end = first
        self._records: list[int] = []
        self._indexes: list[int] = []
        self._found = JsonRead([])
        self._texts: list[bytes | None] = []

    def until(self, most_bytes: int) -> Exploded:
        """Take records until their texts have so many bytes, one at least."""
        taken = 0
        while self.end < len(self._block) and taken < most_bytes:
            taken += self._take(self.end)
            self.end += 1
        self._found.values = self._texts
        records = np.array(self._records, np.int64)
        path = "" if self._path in (WHOLE_RECORD, RECORD_LINES) else self._path
        elements = Elements(path, records - self._first, np.array(self._indexes, np.int64))
        return Exploded(_repeated(self._block, records), self._found, elements, self.end - self._first)

    def _take(self, record: int) -> int:
        data = self._read.values[record]
        if (failure := self._read.failures.get(record)) is not None:
            return self._fail(record, failure)
        if data is None or self._block.values[record] is None:
            return self._add(record, NO_ELEMENT, data)
        try:
            texts = element_texts(data, self._path)
        except RecordFailure as found:
            return self._fail(record, found)
        if not texts:
            self._found.dropped.append(len(self._texts))
            return self._add(record, NO_ELEMENT, None)
        if self._is_finished:
            self._records += [record] * len(texts)
            self._indexes += range(len(texts))
            self._texts += texts
            return len(texts) * _PLACE_BYTES + sum(map(len, texts))
        return sum(self._add(record, index, text) for index, text in enumerate(texts))

    def _fail(self, record: int, failure: RecordFailure) -> int:
        self._found.failures[len(self._texts)] = failure
        return self._add(record, NO_ELEMENT, None)

    def _add(self, record: int, index: int, text: bytes | None) -> int:
        if text is not None:
            try:
                text = finished(text, self._block, record, self._decode, self._schemas)
                if text is None:
                    self._found.dropped.append(len(self._texts))
            except RecordFailure as failure:
                self._found.failures[len(self._texts)] = failure
                text = None
        self._records.append(record)
        self._indexes.append(index)
        self._texts.append(text)
        return _PLACE_BYTES + len(text or b"")


def element_texts(data: bytes, path: str) -> list[bytes]:
    """The texts of a record's elements, none where the array is empty or null.

    Raises:
        RecordFailure: as `parse_record`; FLOE-D126, there is no array; FLOE-D127, its elements would be too much.
    """
    if path == RECORD_LINES:
        return _documents(data)
    steps = [] if path == WHOLE_RECORD else path.split(".")
    try:
        text = data.decode("utf-8").strip(" \t\r\n")
    except UnicodeDecodeError:
        text = ""  # the strict parser says where
    place = member_place(text, steps)
    if place is None:
        raise _no_array(data, steps)
    start, end = place
    if text[start:end] == "null" and steps:
        parse_record(data)
        return []
    found = element_spans(text, start)
    if found is None or found[1] != end:
        raise _no_array(data, steps)
    spans, _ = found
    if not spans:
        (parse_record if steps else parse_document)(data)
        return []
    before, after = text[:start].encode(), text[end:].encode()
    size = len(spans) * (len(before) + len(after) + _PLACE_BYTES) + end - start
    if size > MOST_BYTES:
        raise RecordFailure(
            "decode",
            "FLOE-D127",
            f"{path}: with what stands beside it the {len(spans):,} elements have {size:,} bytes",
            field_path=path,
            expected=f"{MOST_BYTES:,} bytes at most",
            actual=f"{size:,} bytes",
        )
    return [before + text[first:last].encode() + after for first, last in spans]


def _documents(data: bytes) -> list[bytes]:
    """Documents that stand one behind the other, with space between them or without."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        parse_document(data)
        raise
    texts: list[bytes] = []
    at = after_space(text, 0)
    while at < len(text):
        end = value_end(text, at)
        if end is None:
            whole = f"[{len(texts)}]"
            try:
                parse_document(text[at:].encode())
            except RecordFailure as failure:
                raise failure.at(whole, f"{whole}: {failure.message}") from None
            raise RecordFailure("decode", "FLOE-D101", f"{whole}: the record is not JSON", field_path=whole)
        texts.append(text[at:end].encode())
        at = after_space(text, end)
    return texts


def _no_array(data: bytes, steps: Sequence[str]) -> RecordFailure:
    """Why a record has no array; what cannot be read at all comes first."""
    path = ".".join(steps)
    try:
        value: JsonValue = parse_record(data) if steps else parse_document(data)
    except RecordFailure as failure:
        return failure
    for step in steps:
        if not isinstance(value, dict) or not (names := [n for n in value if n == step or n.lower() == step.lower()]):
            message = f"{path}: the record has no such array to explode"
            return RecordFailure("decode", "FLOE-D126", message, field_path=path, expected="array", actual="nothing")
        value = value[step if step in names else names[0]]
    message = f"{path}: this is no array to explode" if steps else "the record is no array to explode"
    return RecordFailure(
        "decode", "FLOE-D126", message, field_path=path or None, expected="array", actual=kind_of(value)
    )


# ---- the block ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Repeated(Sequence[_T], Generic[_T]):
    """What records have, for each of their places. Few are ever asked for."""

    of_records: Sequence[_T]
    records: Ints

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, place):  # type: ignore[no-untyped-def]  # a slice is never asked for
        return self.of_records[self.records[place]]


def _repeated(block: RecordBlock, records: Ints) -> RecordBlock:
    """The block with as many places of each record as these numbers say."""
    numbers = records.tolist()
    values, last = [], -1
    for number in numbers:
        if number != last:  # values in one buffer make an object each time
            value, last = block.values[number], number
        values.append(value)
    return RecordBlock(
        block.topic,
        block.partition,
        values,
        np.asarray(block.offsets, np.int64)[records].tolist(),
        np.asarray(block.timestamps_ms, np.int64)[records].tolist(),
        _Repeated(block.keys, records),
        _Repeated(block.headers, records),
    )
