"""A batch of records that librdkafka cannot decompress, as it may decompress to more than an answer may have: how far it
goes, and blocks that stand for its records.

In: a reader that met one. Out: the offset behind its last one, found by trying offsets, and records that were not read.
Without this a single record of a producer would hold up its partition for good.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from confluent_kafka import KafkaError

from framework.adapters.kafka.reader import PartitionReader
from framework.errors import RetriableError
from framework.record.model import RecordBlock, TaskRange, UnreadRecord

_POLL_WAIT_S = 0.1
_POLL_BYTES = 1024 * 1024


def first_broken(events: Sequence[tuple[KafkaError, int]]) -> int | None:
    """The offset of the first record of a batch that cannot be decompressed; None where there is none."""
    return next((offset for error, offset in events if error.code() == KafkaError._BAD_COMPRESSION), None)


class BrokenBatch:
    """`first` is the offset of its first record, which may be in front of the slice."""

    def __init__(self, reader: PartitionReader, piece: TaskRange, first: int, stall_timeout_s: float) -> None:
        self._reader, self._piece, self._first = reader, piece, first
        self._stall_timeout_s = stall_timeout_s

    def end(self, begin: int) -> int:
        """One past the last offset of the batch and the slice; `begin` is an offset of both.

        Raises:
            RetriableError: nothing comes.
        """
        inside, step = begin, 1
        outside = min(begin + step, self._piece.end)
        while outside < self._piece.end and self._holds(outside):
            inside, step = outside, step * 2
            outside = min(inside + step, self._piece.end)
        while outside - inside > 1:
            middle = (inside + outside) // 2
            if self._holds(middle):
                inside = middle
            else:
                outside = middle
        return outside

    def _holds(self, offset: int) -> bool:
        """Whether reading from there on meets this very batch again."""
        self._reader.assign(replace(self._piece, start=offset), 0)
        until = time.monotonic() + self._stall_timeout_s
        while time.monotonic() < until:
            polled = self._reader.poll(1, _POLL_BYTES, self._piece.end, _POLL_WAIT_S)
            broken = first_broken(polled.events)
            if broken is not None:
                return broken == self._first
            if polled.position >= 0 or any(error.code() == KafkaError._PARTITION_EOF for error, _ in polled.events):
                return False
        place = f"{self._piece.topic}-{self._piece.partition}"
        raise RetriableError(
            f"nothing came from {place} at offset {offset} for {self._stall_timeout_s:.0f} s",
            code="FLOE-R123",
            place=place,
            remedy="check that the partition has a leader and that this machine can reach every broker",
        )


def unread_blocks(piece: TaskRange, begin: int, end: int, block_records: int, most_bytes: int) -> Iterator[RecordBlock]:
    """Records in place of those of [begin, end), in blocks."""
    for start in range(begin, end, block_records):
        offsets = range(start, min(start + block_records, end))
        count = len(offsets)
        yield RecordBlock(
            topic=piece.topic,
            partition=piece.partition,
            values=[b""] * count,
            offsets=list(offsets),
            timestamps_ms=[-1] * count,
            keys=[None] * count,
            headers=[None] * count,
            unread=dict.fromkeys(offsets, UnreadRecord(None, most_bytes)),
        )
