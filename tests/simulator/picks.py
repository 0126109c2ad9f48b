"""The choices of one act: numbers that the act carries, so that it makes the same ones whatever happened before.

In: one large number. Out: choices, one after another. A history from which acts are left out stays valid: what an act
cannot do then, it does not do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Picks:
    def __init__(self, number: int) -> None:
        self._left = number

    def below(self, count: int) -> int:
        """A number from 0 on."""
        self._left, found = divmod(self._left, max(count, 1))
        return found

    def of(self, values: Sequence[T]) -> T:
        return values[self.below(len(values))]
