"""Framed JSON records to Arrow tables; one bad record costs a few small parses, not the block.

In: framed records, the schema of the fields whose parse type is known, and whether other fields are inferred. Out: parsed
parts with the position of every row, and the positions of records Arrow could not take. A part is trusted only if it has
as many rows as records (see framework.record.framing).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.json

from framework.record.arrays import Ints
from framework.record.framing import Framed

_BLOCK_BYTES = 2 * 1024 * 1024
_PIECE_RECORDS = 4096
_ROW = re.compile(r"in row (\d+)$")


@dataclass(frozen=True)
class Part:
    """Rows of `table` (one chunk) are the records at `positions` of the block, in order."""

    positions: Ints
    table: pa.Table

    def __len__(self) -> int:
        return len(self.positions)


def parse_framed(framed: Framed, schema: pa.Schema, infer: bool) -> tuple[list[Part], list[int]]:
    """Parse all records: parts whose tables differ only where inferred fields do, and positions that must be judged alone."""
    if len(framed.positions) == 0:
        return [], []
    options = pyarrow.json.ParseOptions(
        explicit_schema=schema, unexpected_field_behavior="infer" if infer else "ignore", newlines_in_values=False
    )
    records = len(framed.positions)
    table = _parse(framed.data, records, options, max(_BLOCK_BYTES, 2 * framed.longest))
    if isinstance(table, pa.Table):
        return [Part(framed.positions, table.combine_chunks())], []
    parser = _PieceParser(framed, options)
    for start in range(0, records, _PIECE_RECORDS):
        parser.parse(start, min(start + _PIECE_RECORDS, records))
    return _joined(parser.parts), parser.alone


def _parse(data: object, records: int, options: object, block_bytes: int) -> pa.Table | int | None:
    """The table, or the number of the row it failed at (None when Arrow does not say)."""
    try:
        table = pyarrow.json.read_json(
            pa.BufferReader(data),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=block_bytes),
            parse_options=options,
        )
    except pa.ArrowInvalid as error:
        found = _ROW.search(str(error))
        return int(found.group(1)) if found else None
    return table if table.num_rows == records else None


class _PieceParser:
    """Parses pieces of a block; a piece that fails is cut at the row Arrow names, or in halves."""

    def __init__(self, framed: Framed, options: object) -> None:
        self._data = pa.py_buffer(framed.data)
        self._starts = framed.starts()
        self._positions = framed.positions
        self._options = options
        self.parts: list[Part] = []
        self.alone: list[int] = []

    def parse(self, first: int, end: int) -> None:
        pending = [(first, end)]
        while pending:
            first, end = pending.pop()
            if first >= end:
                continue
            start, stop = int(self._starts[first]), int(self._starts[end]) - 1
            # One block only, so that the row number in an error counts from `first`.
            result = _parse(self._data.slice(start, stop - start), end - first, self._options, stop - start + 1)
            if isinstance(result, pa.Table):
                self.parts.append(Part(self._positions[first:end], result))
            elif end - first == 1:
                self.alone.append(int(self._positions[first]))
            elif result is not None and 0 < result < end - first:
                pending += [(first + result, end), (first, first + result)]
            elif result == 0:
                pending += [(first + 1, end), (first, first + 1)]
            else:
                middle = (first + end) // 2
                pending += [(middle, end), (first, middle)]


def _joined(parts: list[Part]) -> list[Part]:
    """Neighbours and others of one schema put together, in order of their first record."""
    groups: dict[str, list[Part]] = {}
    for part in parts:
        groups.setdefault(part.table.schema.to_string(show_field_metadata=False), []).append(part)
    return [
        group[0]
        if len(group) == 1
        else Part(
            np.concatenate([part.positions for part in group]),
            pa.concat_tables([part.table for part in group]).combine_chunks(),
        )
        for group in groups.values()
    ]
