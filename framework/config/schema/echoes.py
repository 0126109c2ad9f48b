"""One finding for one cause: what follows from another finding of the schema is left out.

In: what the schema says of a tree, each with the keys that were probably meant. Out: what somebody has to act on, and the
paths of which nobody knows what they should hold, so that rules conclude nothing from them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from framework.diagnose.diagnostic import Diagnostic
from framework.diagnose.suggest import listed

_OTHER_KINDS = tuple(f"`{kind}`" for kind in ("Pipeline", "Target", "Template"))


class Violation(NamedTuple):
    """What the schema says of one place.

    Args:
        meant: the dotted paths of the keys that were probably meant: of a mistyped key, or where one of another level belongs.
        moved: whether the key belongs into another mapping, so that `meant` is not beside it.
        missing: the keys that are not there.
        empty: whether the key is there and has no value.
    """

    finding: Diagnostic
    meant: tuple[str, ...] = ()
    moved: bool = False
    missing: tuple[str, ...] = ()
    empty: bool = False

    @property
    def place(self) -> str:
        """The dotted path of the mapping that the key is in."""
        return _above(self.finding.path)


def without_echoes(found: list[Violation]) -> list[Violation]:
    """Without what follows from another one: a key that is missing since it is mistyped or stands elsewhere, a key without
    a value since its values stand elsewhere, everything in a file of another kind than the one asked for."""
    other = [one for one in found if one.finding.path == "kind" and one.finding.message.endswith(_OTHER_KINDS)]
    if other:
        return other
    meant = {path for one in found for path in one.meant}
    homes = {_above(path) for one in found if one.moved for path in one.meant}
    return _together([one for one in found if not _follows(one, meant, homes, found)])


def _follows(one: Violation, meant: set[str], homes: set[str], found: list[Violation]) -> bool:
    path = one.finding.path
    if one.missing:
        return path in meant or path in homes
    if one.empty:
        return path in homes
    # Where the line `source:` was moved down, what it left belongs in `source`, and `source` has what stands below it; where
    # it was moved in, it belongs at the top, and what is beside it there belongs in `source`.
    return one.moved and any(
        other.moved
        and other.finding.order < one.finding.order
        and (
            (other.place != one.place and one.place in map(_above, other.meant))
            or not _homes(one).isdisjoint(other.meant)
        )
        for other in found
    )


def _together(found: list[Violation]) -> list[Violation]:
    """All keys that are missing in one mapping as one finding."""
    result: list[Violation] = []
    at: dict[tuple[object, str], int] = {}
    for one in found:
        index = at.setdefault((one.finding.span, one.place), len(result)) if one.missing else len(result)
        if index == len(result):
            result.append(one)
            continue
        known = result[index]
        missing = (*known.missing, *one.missing)
        where = known.finding.message.partition(" has no ")[0]
        message = f"{where} has no {listed(missing)}"
        remedy = f"add {listed([f'{key}:' for key in missing], 'and')}"
        result[index] = known._replace(finding=replace(known.finding, message=message, remedy=remedy), missing=missing)
    return result


def _homes(one: Violation) -> set[str]:
    """The mappings that the keys of a finding may belong in."""
    return {_above(path) for path in one.meant}


def refused_paths(found: Iterable[Violation]) -> frozenset[str]:
    """The dotted paths that the schema has spoken of, and those that were meant."""
    return frozenset(path for one in found for path in (one.finding.path, *one.meant))


def _above(path: str) -> str:
    return path.rpartition(".")[0]
