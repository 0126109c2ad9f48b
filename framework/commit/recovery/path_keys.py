"""The keys of very many files, eight bytes each.

In: keys of files, as announcements name them. Out: whether a key was put in. Keeps: what was put in is always found, so
that no announced file is taken for an orphan.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

_NEW_KEYS = 4_096


class PathKeys:
    """Keys of files, eight bytes each however long they are: a log names millions. What was put in is always in it; two
    keys of one hash are in it together, which spares a file too many."""

    def __init__(self) -> None:
        self._sorted: npt.NDArray[np.uint64] = np.empty(0, np.uint64)
        self._new: set[int] = set()

    def add(self, keys: Iterable[str]) -> None:
        self._new.update(map(_hash, keys))
        if len(self._new) >= max(_NEW_KEYS, len(self._sorted) // 8):
            self._sorted = np.union1d(self._sorted, np.fromiter(self._new, np.uint64, len(self._new))).astype(np.uint64)
            self._new = set()

    def __contains__(self, key: object) -> bool:
        found = _hash(str(key))
        if found in self._new:
            return True
        at = int(np.searchsorted(self._sorted, np.uint64(found)))
        return at < len(self._sorted) and int(self._sorted[at]) == found


def _hash(key: str) -> int:
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "big")
