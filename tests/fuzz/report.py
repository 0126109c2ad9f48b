"""What the fuzzer found, and columns as the oracle counts.

In: counts and faults of blocks; Arrow columns. Out: their sum; Python values in which moments are numbers, without a
calendar between.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from framework.config.spec import PartitionFieldSpec, SortFieldSpec
from tests.fuzz.kinds import Kind
from tests.fuzz.oracle import Pairs


@dataclass(frozen=True)
class Landed:
    """Rows of one table that are the oracle's, and the table as it is defined."""

    family: str
    table: str
    schema_json: str
    rows: pa.Table
    partition_by: tuple[PartitionFieldSpec, ...] = ()
    sort_by: tuple[SortFieldSpec, ...] = ()


@dataclass
class Report:
    """Counts by way and type; `faults` are (what, seed, details), the first of each block. `landed` are the rows of one
    block, of one way, and `streams` its changes of upsert tables; `read_back` counts tables that Spark has read, by family."""

    documents: int = 0
    values: Counter[tuple[str, str]] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    wrong: int = 0
    disagreements: int = 0
    uncaught: int = 0
    faults: list[tuple[str, int, str]] = field(default_factory=list)
    landed: list[Landed] = field(default_factory=list)
    streams: list[Any] = field(default_factory=list)
    read_back: Counter[str] = field(default_factory=Counter)

    def add(self, other: Report) -> None:
        self.documents += other.documents
        self.values += other.values
        self.refused += other.refused
        self.rows += other.rows
        self.wrong += other.wrong
        self.disagreements += other.disagreements
        self.uncaught += other.uncaught
        self.faults += other.faults
        self.read_back += other.read_back

    @property
    def is_clean(self) -> bool:
        return not (self.wrong or self.disagreements or self.uncaught)


def plain_values(column: pa.ChunkedArray | pa.Array, kind: Kind) -> list[Any]:
    """A column as Python values, moments as numbers: without a calendar between."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    is_null = array.is_null().to_pylist()
    if kind.name == "struct":
        children = [plain_values(child, inner) for child, inner in zip(array.flatten(), kind.inner, strict=True)]
        return [
            None if null else {name: values[i] for name, values in zip(kind.names, children, strict=True)}
            for i, null in enumerate(is_null)
        ]
    if kind.name in ("list", "map"):
        offsets = array.offsets.to_pylist()
        if kind.name == "list":
            items: list[Any] = plain_values(array.values, kind.inner[0])
        else:
            keys, values = plain_values(array.keys, kind.inner[0]), plain_values(array.items, kind.inner[1])
            items = list(zip(keys, values, strict=True))
        make = list if kind.name == "list" else Pairs
        return [None if null else make(items[offsets[i] : offsets[i + 1]]) for i, null in enumerate(is_null)]
    if pa.types.is_timestamp(array.type) or pa.types.is_time64(array.type):
        array = array.cast(pa.int64())
    elif pa.types.is_date32(array.type):
        array = array.cast(pa.int32())
    return array.to_pylist()  # type: ignore[no-any-return]
