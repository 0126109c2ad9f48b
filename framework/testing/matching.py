"""Matches expected with actual items when both come in any order.

In: the differences of each pair. Out: pairs, and what is left over on either side. As many as possible are paired
without a difference; of the rest, the most similar ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

Difference = TypeVar("Difference")


@dataclass(frozen=True)
class Matching(Generic[Difference]):
    """Pairs (expected, actual), expected ones left over, actual ones left over; each in order of the expected ones.

    `differences` are by expected and actual one; none for a match.
    """

    differences: list[list[list[Difference]]]
    pairs: list[tuple[int, int]]
    missing: list[int]
    extra: list[int]

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left over on either side."""
        return not self.missing and not self.extra


def match(differences: list[list[list[Difference]]], sizes: list[int], actual_count: int) -> Matching[Difference]:
    """Finds the pairs.

    Args:
        differences: by expected and actual one; none for a match.
        sizes: how many things each expected one says; a pair that differs in all of them is none, unless it is the
            last.
    """
    owner: dict[int, int] = {}

    def place(i: int, seen: set[int]) -> bool:
        """Finds an actual one for an expected one, moving others where that makes room."""
        fitting = [j for j, found in enumerate(differences[i]) if not found and j not in seen]
        for j in sorted(fitting, key=lambda j: j in owner):  # free ones first
            seen.add(j)
            if j not in owner or place(owner[j], seen):
                owner[j] = i
                return True
        return False

    placed = {i for i in range(len(differences)) if place(i, set())}
    missing = [i for i in range(len(differences)) if i not in placed]
    extra = [j for j in range(actual_count) if j not in owner]
    pairs = [(i, j) for j, i in owner.items()]
    for count, i, j in sorted((len(differences[i][j]), i, j) for i in missing for j in extra):
        alike = count < max(sizes[i], 1) or len(missing) == len(extra) == 1
        if i in missing and j in extra and alike:
            pairs.append((i, j))
            missing.remove(i)
            extra.remove(j)
    return Matching(differences, sorted(pairs), missing, extra)
