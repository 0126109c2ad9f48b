"""Whose run it is, and what became of an announcement: read back from the group's offsets.

In: the offsets of a pipeline's consumer group with what was committed beside them. Out: whether a batch was announced,
or an error that names the other run or both values. Keeps invariant 2 (the newest run alone goes on) and invariant 7
(an outcome that is not known is read back before anything else is done).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum

from framework.commit.events.event_types import SourceRange
from framework.commit.offsets import PartitionKey, SafeOffset
from framework.diagnose.shown import argument
from framework.errors import FencedError, StateDisagreement


class AnnounceState(Enum):
    """What the group offsets say after an announcement whose outcome was unknown (invariant 7)."""

    ANNOUNCED = "announced"
    NOT_ANNOUNCED = "not_announced"


def check_owner(pipeline: str, runs: Collection[str], group: Mapping[PartitionKey, SafeOffset]) -> None:
    """Refuse to go on when the newest offsets are of a run that is neither this one nor the one before it (invariant
    2).

    Raises:
        FencedError: another run has announced since.
    """
    for key, safe in group.items():
        if safe.run not in runs:
            raise FencedError(
                f"run {safe.run} of pipeline {pipeline} announced batch {safe.batch}; this run has been replaced",
                place=_name(key),
                remedy="only one run of a pipeline can go on: stop one of the two",
            )


def read_back(
    pipeline: str, run: str, batch: int, ranges: Iterable[SourceRange], group: Mapping[PartitionKey, SafeOffset]
) -> AnnounceState:
    """Equal to the batch's end, by this run: announced. Equal to its start: announce again. Anything else: stop.

    Raises:
        StateDisagreement: the group shows neither, so something else wrote to it.
    """
    ranges = list(ranges)
    shown = {(r.topic, r.partition): group.get((r.topic, r.partition)) for r in ranges}
    if all((s := shown[r.topic, r.partition]) and (s.offset, s.batch, s.run) == (r.end, batch, run) for r in ranges):
        return AnnounceState.ANNOUNCED
    if all(
        (s := shown[r.topic, r.partition]) is None
        or (s.offset == r.start and s.batch <= batch and (s.batch, s.run) != (batch, run))
        for r in ranges
    ):
        return AnnounceState.NOT_ANNOUNCED
    seen = ", ".join(f"{_name(key)}={safe.offset if safe else 'none'}" for key, safe in shown.items())
    raise StateDisagreement(
        f"after an unknown outcome of batch {batch} the group offsets of {pipeline} are neither its start nor its end: "
        f"{seen}",
        code="FLOE-R318",
        remedy=f"another program commits to this group; find it, then run `floe offsets set {argument(pipeline)} --from-log`",
    )


def _name(key: PartitionKey) -> str:
    return f"{key[0]}-{key[1]}"
