"""Which snapshots of a table expire, and why each other one stays.

In: the snapshots and references of a table's metadata, the control topics that it records, a policy and the time. Out:
the ids that go, oldest first, and the reason for each that stays. Keeps what a rollback, a reader, a tag, a branch or
the table's progress needs: of each control topic the newest snapshot that records progress stays, with everything
behind the head up to it, so that a rollback by others is still seen (invariant 10). What streaming readers stand at
stays as well: the newest append, as long as nothing but rewrites followed it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise

from framework.config.values.maintenance import ExpirePolicy

# One commit takes at most so many: the catalog compares each of them with all that there are.
MOST_AT_ONCE = 500
_MAIN, _APPEND, _REPLACE = "main", "append", "replace"


@dataclass(frozen=True)
class SnapshotAge:
    """`control_topic_id` is None for snapshots that do not record progress. `left_ms`: when the snapshot ceased to be the
    head of a branch; None for one that is a head, or never was one as far as the metadata says. `operation`: Iceberg's
    word for what the snapshot did; None where it says nothing."""

    snapshot_id: int
    parent_id: int | None
    timestamp_ms: int
    control_topic_id: str | None
    left_ms: int | None = None
    operation: str | None = None


@dataclass(frozen=True)
class Reference:
    """A branch or a tag. What a branch says of its own snapshots is None where it says nothing."""

    name: str
    snapshot_id: int
    is_branch: bool
    max_snapshot_age_ms: int | None = None
    min_snapshots_to_keep: int | None = None


class Stay(str, Enum):
    """Why a snapshot stays."""

    HEAD = "the head of a branch"
    TAG = "tagged"
    PROGRESS = "records the table's progress"
    ROLLBACK = "inside the rollback window"
    READER = "inside the readers' lease"
    STREAM = "where streaming readers stand"
    BRANCH = "kept by the settings of its branch"
    YOUNG = "within age and number"
    NEXT = "its turn comes next"


@dataclass(frozen=True)
class Expiry:
    """The ids that go, the oldest first, and why each other one stays."""

    expired: tuple[int, ...]
    kept: Mapping[int, Stay]


def with_left_ms(snapshots: Iterable[SnapshotAge], heads: Iterable[tuple[int, int]]) -> tuple[SnapshotAge, ...]:
    """The snapshots with when each ceased to be a head: when the next one became it, by the log of main's heads and by
    what was built on it, whichever is later.

    Args:
        heads: the ids of main's heads and since when they were it, oldest first.
    """
    known = tuple(snapshots)
    left: dict[int, int] = {}
    for (earlier, _), (_, since_ms) in pairwise(heads):
        left[earlier] = max(left.get(earlier, 0), since_ms)
    for each in known:
        if each.parent_id is not None:
            left[each.parent_id] = max(left.get(each.parent_id, 0), each.timestamp_ms)
    return tuple(replace(each, left_ms=left.get(each.snapshot_id)) for each in known)


def with_words_of_table(
    references: Iterable[Reference], max_snapshot_age_ms: int | None, min_snapshots_to_keep: int | None
) -> tuple[Reference, ...]:
    """The references with what the table's own properties say of snapshots, for each that says nothing of itself."""
    return tuple(
        replace(
            each,
            max_snapshot_age_ms=max_snapshot_age_ms if each.max_snapshot_age_ms is None else each.max_snapshot_age_ms,
            min_snapshots_to_keep=min_snapshots_to_keep
            if each.min_snapshots_to_keep is None
            else each.min_snapshots_to_keep,
        )
        for each in references
    )


def decide_expiry(
    snapshots: Sequence[SnapshotAge],
    references: Sequence[Reference],
    topic_ids: Collection[str],
    policy: ExpirePolicy,
    now_ms: int,
    most: int = MOST_AT_ONCE,
) -> Expiry:
    """Decide about every snapshot.

    Args:
        topic_ids: the control topics whose progress the table records.
        most: at most so many expire; the oldest come first.
    """
    if policy.enabled:
        kept = dict(_kept(snapshots, references, topic_ids, policy, now_ms))
    else:
        kept = {each.snapshot_id: Stay.YOUNG for each in snapshots}
    gone = sorted((each for each in snapshots if each.snapshot_id not in kept), key=lambda each: each.timestamp_ms)
    kept |= {each.snapshot_id: Stay.NEXT for each in gone[most:]}
    return Expiry(tuple(each.snapshot_id for each in gone[:most]), kept)


def _kept(
    snapshots: Sequence[SnapshotAge],
    references: Sequence[Reference],
    topic_ids: Collection[str],
    policy: ExpirePolicy,
    now_ms: int,
) -> Iterator[tuple[int, Stay]]:
    """Later reasons are stronger."""
    by_id = {each.snapshot_id: each for each in snapshots}
    newest_first = sorted(snapshots, key=lambda each: each.timestamp_ms, reverse=True)
    for number, each in enumerate(newest_first):
        age_ms = now_ms - each.timestamp_ms
        if number < policy.max_snapshots and age_ms <= policy.max_snapshot_age_ms:
            yield each.snapshot_id, Stay.YOUNG
        # Readers and rollbacks go by what was the head: a snapshot of last week may have been it until a second ago.
        since_ms = now_ms - max(each.timestamp_ms, each.left_ms or 0)
        if since_ms <= policy.reader_lease_ms:
            yield each.snapshot_id, Stay.READER
        if since_ms <= policy.rollback_window_ms:
            yield each.snapshot_id, Stay.ROLLBACK
    for reference in references:
        line = list(_line(by_id, reference.snapshot_id))
        if not reference.is_branch:
            yield reference.snapshot_id, Stay.TAG
            continue
        for number, each in enumerate(line):
            is_young = reference.max_snapshot_age_ms is not None and (
                now_ms - each.timestamp_ms <= reference.max_snapshot_age_ms
            )
            if number < (reference.min_snapshots_to_keep or 0) or is_young:
                yield each.snapshot_id, Stay.BRANCH
        if reference.name == _MAIN:
            yield from ((each, Stay.STREAM) for each in _streamed(line))
        yield from ((each, Stay.PROGRESS) for each in _recorded(line, topic_ids))
    # On whatever line: a branch that somebody moved back does not hold what the newest commit of floe is known by.
    yield from ((each, Stay.PROGRESS) for each in _recorded(newest_first, topic_ids, alone=True))
    yield from ((each.snapshot_id, Stay.HEAD) for each in references if each.is_branch)


def _streamed(line: Sequence[SnapshotAge]) -> Iterator[int]:
    """The newest append with the rewrites behind it. A reader that has read all there is stands at that append, passes
    over rewrites, and finds what follows by its parents only. Where rows were deleted since, their files go as the policy
    says: whoever deletes wants that."""
    behind: list[int] = []
    for each in line:
        behind.append(each.snapshot_id)
        if each.operation != _REPLACE:
            yield from behind if each.operation == _APPEND else ()
            return


def _recorded(line: Sequence[SnapshotAge], topic_ids: Collection[str], alone: bool = False) -> Iterator[int]:
    """The newest snapshot of each control topic, and unless `alone` all behind the head up to them: an heir without its
    parents looks as if somebody had moved the branch back."""
    wanted = set(topic_ids)
    behind: list[int] = []
    for each in line:
        behind.append(each.snapshot_id)
        if each.control_topic_id in wanted:
            wanted.discard(each.control_topic_id)
            yield from [each.snapshot_id] if alone else behind
            behind = []


def _line(by_id: Mapping[int, SnapshotAge], snapshot_id: int | None) -> Iterator[SnapshotAge]:
    while snapshot_id is not None and (found := by_id.get(snapshot_id)) is not None:
        yield found
        snapshot_id = found.parent_id


def is_end_of_line(gone: Sequence[SnapshotAge], stays: Sequence[SnapshotAge]) -> bool:
    """Whether all these snapshots are one line, each built on the one before, and those that are gone are its oldest
    part."""
    every = [*gone, *stays]
    parents = {each.parent_id for each in every}
    heads = [each for each in every if each.snapshot_id not in parents]
    if len(heads) != 1:
        return False
    line = [each.snapshot_id for each in _line({each.snapshot_id: each for each in every}, heads[0].snapshot_id)]
    return len(line) == len(every) and set(line[len(stays) :]) == {each.snapshot_id for each in gone}
