"""The values of the columns that floe fills itself from Kafka's own fields, for the records of one block.

In: a block and the names of `source.metadata_columns`. Out: Arrow arrays by Kafka's name of the field, and the records
whose key or header is to be a column of text and is no text.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa

from framework.config.names.metadata import HEADER, INDEX, metadata_column
from framework.record.arrays import Ints
from framework.record.failure import RecordFailure
from framework.record.model import RecordBlock, timestamps_us
from framework.record.state.elements import NO_ELEMENT

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def is_text(name: str) -> bool:
    """Whether a metadata column is made of bytes that must be UTF-8."""
    return name == "key_text" or name.startswith(HEADER)


class MetadataValues:
    """`indexes` are those of elements, where the block's records hold several documents."""

    def __init__(self, block: RecordBlock, wanted: tuple[str, ...], indexes: Ints | None = None) -> None:
        self._block = block
        self._wanted = wanted
        self._indexes = indexes
        self._texts: dict[str, list[str | None]] = {}

    def unreadable(self, positions: Ints) -> dict[int, RecordFailure]:
        """Of these records those whose text is none; to be called before `at`."""
        bad: dict[int, RecordFailure] = {}
        for name in self._wanted:
            if not is_text(name):
                continue
            texts: list[str | None] = [None] * len(self._block)
            for i in positions.tolist():
                data = self._block.key(i) if name == "key_text" else _last(self._block.headers_of(i), name)
                try:
                    texts[i] = None if data is None else str(data, "utf-8")
                except UnicodeDecodeError:
                    bad.setdefault(i, _not_text(name))
            self._texts[name] = texts
        return bad

    def at(self, positions: Ints, wanted: Collection[str]) -> dict[str, pa.Array]:
        """The values of these fields for these records, by Kafka's name of the field."""
        block = self._block
        arrays: dict[str, pa.Array] = {}
        if "topic" in wanted:
            arrays["topic"] = pa.repeat(pa.scalar(block.topic), len(positions))
        if "partition" in wanted:
            arrays["partition"] = pa.repeat(pa.scalar(block.partition, pa.int32()), len(positions))
        if "offset" in wanted:
            arrays["offset"] = pa.array(np.asarray(block.offsets, np.int64)[positions])
        if INDEX in wanted:
            indexes = np.full(len(block), NO_ELEMENT) if self._indexes is None else self._indexes
            found = indexes[positions]
            arrays[INDEX] = pa.array(found, pa.int32(), mask=found == NO_ELEMENT)
        if "timestamp" in wanted:
            micros, absent = timestamps_us(np.asarray(block.timestamps_ms, np.int64)[positions])
            arrays["timestamp"] = pa.array(micros, pa.timestamp("us", "UTC"), mask=absent)
        if "key" in wanted:
            arrays["key"] = pa.array([block.key(i) for i in positions.tolist()], pa.binary())
        if "headers" in wanted:
            headers = [[{"key": k, "value": v} for k, v in block.headers_of(i)] for i in positions.tolist()]
            arrays["headers"] = pa.array(headers, HEADERS)
        for name in wanted:
            if is_text(name):
                arrays[name] = pa.array([self._texts[name][i] for i in positions.tolist()], pa.string())
        return arrays


def _last(headers: list[tuple[str, bytes | None]], name: str) -> bytes | None:
    """The value of a header; of several with one name the last one, as Kafka's own `lastHeader` has it."""
    wanted = name.removeprefix(HEADER)
    return next((value for key, value in reversed(headers) if key == wanted), None)


def _not_text(name: str) -> RecordFailure:
    what = "key" if name == "key_text" else f"header {name.removeprefix(HEADER)}"
    column = metadata_column(name)
    return RecordFailure("decode", "FLOE-D104", f"{column}: the record's {what} is not UTF-8", field_path=column)
