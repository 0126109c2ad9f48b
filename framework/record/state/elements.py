"""The elements of records that hold several documents, as places of a block.

In: for each place the record that it is of and its index in the record's array. Out: which places belong together, and
failures that say which element they are about. Keeps a record whole: what becomes of one of its places becomes of all.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from framework.config.names.metadata import PREFIX
from framework.record.arrays import Ints, Mask
from framework.record.failure import RecordFailure

# The index at a place that stands for a record itself: one without a value, without elements, or that cannot be read.
NO_ELEMENT = -1


@dataclass(frozen=True)
class Elements:
    """`records` has of each place the number of its record, ascending and without a gap; `indexes` that of the element, from
    0, or NO_ELEMENT. `path` is where the array stands in a record, "" where it is the record."""

    path: str
    records: Ints
    indexes: Ints

    @property
    def count(self) -> int:
        """How many records there are."""
        return int(self.records[-1]) + 1 if len(self.records) else 0

    def beside(self, places: Collection[int]) -> Ints:
        """All places of the records of these."""
        return np.flatnonzero(self.are_of(places)).astype(np.int64)

    def are_of(self, places: Collection[int] | Ints) -> Mask:
        """Which places are of the same records as these."""
        found: Mask = np.zeros(self.count, dtype=bool)
        found[self.records[np.fromiter(places, np.int64, len(places))]] = True
        return found[self.records]

    def located(self, failure: RecordFailure, place: int) -> RecordFailure:
        """The failure with the element's index in its field path: `items[2].price`, or `[2].price` where the record is the
        array. What stands beside the array is the same for all elements, so its path stays."""
        index = int(self.indexes[place])
        if index == NO_ELEMENT or (failure.field_path or "").startswith(PREFIX):  # Kafka's fields are the record's
            return failure
        whole, inner = f"{self.path}[{index}]", failure.field_path
        if inner is None:
            return failure.at(whole, f"{whole}: {failure.message}")
        if not self.path:
            path = f"{whole}.{inner}"
        elif inner.lower() == self.path.lower() or inner.lower().startswith(
            (f"{self.path}.".lower(), f"{self.path}[".lower())
        ):
            path = whole + inner[len(self.path) :]
        else:
            return failure
        message = failure.message
        return failure.at(path, path + message[len(inner) :] if message.startswith(inner) else f"{whole}: {message}")
