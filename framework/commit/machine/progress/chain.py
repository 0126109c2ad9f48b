"""The chain of a pipeline's batches: does this batch begin where the one before ended?

In: the chain's newest link and a `DataComplete` or `Heartbeat`; or what a table's progress says of a pipeline and one
announcement. Out: a verdict with its reason. Keeps invariant 2 (an unbroken chain), invariant 11 (offsets of another
topic id mean nothing) and the second guard of invariant 5 (what a table already holds is not added again).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from framework.commit.events.event_types import DataComplete, DataWritten, Heartbeat, OffsetsSet, SourceRange
from framework.commit.machine.effects import PipelineProgress


class Fit(Enum):
    FOLLOWS = "follows"
    REPEAT = "repeat"  # everything in it was announced before
    BROKEN = "broken"


@dataclass(frozen=True)
class LinkCheck:
    fit: Fit
    reason: str = ""


FOLLOWS = LinkCheck(Fit.FOLLOWS)
REPEAT = LinkCheck(Fit.REPEAT)


def says_all_is_read(link: DataComplete | Heartbeat, event: Heartbeat) -> bool:
    """Whether a heartbeat says that every partition had nothing to read, and not only where the pipeline stands: it has a
    batch number of its own, and no partition that the chain before it did not name."""
    known = {(r.topic, r.partition) for r in link.ranges}
    return event.batch != link.batch and all((r.topic, r.partition) in known for r in event.ranges)


def check_link(link: Heartbeat | None, event: DataComplete | Heartbeat) -> LinkCheck:
    """Invariant 2: how an event fits the chain that ends with `link`.

    A pipeline's first event fits, and so does a partition's first range. A partition that is named no more keeps its
    place, and so does one that a person gave up: if it comes back, it must go on there.
    """
    if link is None:
        return FOLLOWS
    ends = {(r.topic, r.partition): r for r in link.ranges}
    given_up = {(r.topic, r.partition, r.topic_id): r.end for r in link.given_up}
    for r in event.ranges if given_up else ():
        left = given_up.get((r.topic, r.partition, r.topic_id))
        if left is not None and (r.topic, r.partition) not in ends and r.start != left:
            return _broken(
                f"partition {r.partition} of {r.topic} was given up at {left}, and batch {event.batch} reads it from {r.start}"
            )
    known = [(r, before) for r in event.ranges if (before := ends.get((r.topic, r.partition))) is not None]
    for r, before in known:
        if r.topic_id != before.topic_id:  # Invariant 11
            return _broken(
                f"topic {r.topic} was recreated: batch {link.batch} read the one with id {before.topic_id}, "
                f"batch {event.batch} reads {r.topic_id}"
            )
    follows = event.batch == link.batch + 1 or (isinstance(event, Heartbeat) and event.batch == link.batch)
    if follows and all(r.start == before.end for r, before in known):
        return FOLLOWS
    if event.batch <= link.batch and len(known) == len(event.ranges) and all(r.end <= b.end for r, b in known):
        return REPEAT
    for r, before in known:
        if r.start != before.end:
            kind = "a gap" if r.start > before.end else "an overlap"
            return _broken(
                f"{kind} in partition {r.partition} of {r.topic}: batch {link.batch} ended at {before.end}, "
                f"batch {event.batch} starts at {r.start}"
            )
    return _broken(f"batch {event.batch} follows batch {link.batch}")


def next_link(link: Heartbeat | None, event: DataComplete | Heartbeat) -> Heartbeat:
    """The chain's end after an event that fits."""
    ends = {(r.topic, r.partition): r for r in link.ranges} if link is not None else {}
    for r in event.ranges:
        ends[r.topic, r.partition] = SourceRange(r.topic, r.topic_id, r.partition, r.end, r.end)
    ranges = tuple(ends[key] for key in sorted(ends))
    before = link.given_up if link is not None else ()
    return Heartbeat(event.pipeline, event.run, event.batch, ranges, event.totals, _given_up(ends, before, event))


def settled_link(event: OffsetsSet, link: Heartbeat | None = None) -> Heartbeat:
    """The chain's end after a person settled it: exactly these ends. Partitions of `link`, the chain's end before, that
    are not named are given up."""
    ranges = tuple(SourceRange(r.topic, r.topic_id, r.partition, r.end, r.end) for r in event.ranges)
    named = {(r.topic, r.partition) for r in ranges}
    before = (*link.given_up, *link.ranges) if link is not None else ()
    return Heartbeat(event.pipeline, event.run, event.batch, ranges, event.totals, _given_up(named, before, event))


def _given_up(
    named: Container[tuple[str, int]],
    before: tuple[SourceRange, ...],
    event: DataComplete | Heartbeat | OffsetsSet,
) -> tuple[SourceRange, ...]:
    """Partitions that were given up and are not named: as the chain knew them, and as the event says, which is
    newer."""
    if not before and not event.given_up:
        return ()
    left = {(r.topic, r.partition): r for r in (*before, *event.given_up) if (r.topic, r.partition) not in named}
    return tuple(left[key] for key in sorted(left))


def check_recorded(progress: PipelineProgress | None, event: DataWritten) -> LinkCheck:
    """Invariant 5: how an announcement fits what its table already records of the pipeline.

    The table's record lags behind the chain (batches without rows for it leave no trace), so a gap shows only between
    consecutive batch numbers.
    """
    if progress is None or progress.batch < event.base_batch:
        return FOLLOWS  # a person has moved the offsets since; what that loses or repeats was agreed to by name
    ranges = [r for r in event.ranges if r.start < r.end]
    recorded = [
        (r, end) for r in ranges if (end := progress.offsets.get(r.topic, {}).get(str(r.partition))) is not None
    ]
    for r, _ in recorded:
        topic_id = progress.topic_ids.get(r.topic)
        if topic_id != r.topic_id:  # Invariant 11
            return _broken(f"topic {r.topic} was recreated: the table holds records of {topic_id}, not of {r.topic_id}")
    # After a pipeline was taken over, batches with new numbers read again what other tables lack.
    named = bool(ranges) or event.batch <= progress.batch
    if named and len(recorded) == len(ranges) and all(r.end <= end for r, end in recorded):
        return REPEAT
    for r, end in recorded:
        if r.start < end:
            return _disagrees(
                f"batch {event.batch} starts at {r.start} of partition {r.partition} of {r.topic}, "
                f"but the table holds everything up to {end}"
            )
        if r.start > end and event.batch == progress.batch + 1:
            return _disagrees(
                f"batch {event.batch} starts at {r.start} of partition {r.partition} of {r.topic}, "
                f"but batch {progress.batch} ended at {end}"
            )
    # A run that began in the middle of a rebase uses the number under which that rebase recorded its first tables.
    continues = (
        event.batch == progress.batch
        and bool(ranges)
        and [(r.start, r) for r in ranges] == [(e, r) for r, e in recorded]
    )
    if event.batch <= progress.batch and not continues:
        return _disagrees(f"batch {event.batch} comes after batch {progress.batch} was recorded, with other offsets")
    return FOLLOWS


def check_after(newest: int | None, event: DataWritten) -> LinkCheck:
    """Invariant 3: whether the table holds what was announced for it before.

    Args:
        newest: the pipeline's newest batch that is in the table, or goes into it with the same commit; None: none is.
    """
    if event.after_batch is None or (newest is not None and newest >= event.after_batch):
        return FOLLOWS
    held = "nothing of the pipeline" if newest is None else f"the pipeline up to batch {newest}"
    return put_back(event, f"it follows batch {event.after_batch} in this table, but the table records {held}")


def put_back(event: DataWritten, seen: str) -> LinkCheck:
    """What was announced for a table before this is not in it."""
    return _broken(
        f"batch {event.batch}: {seen}. The table was put back to an older state, or its record was taken away; "
        "`floe rebase FILE` reads again what it lacks"
    )


def record(progress: Mapping[str, PipelineProgress], events: Iterable[DataWritten]) -> dict[str, PipelineProgress]:
    """The table's record of all pipelines once the batches of these announcements are in it."""
    after = dict(progress)
    for name, batch_events in _by_pipeline(events).items():
        before = progress.get(name)
        offsets = {topic: dict(ends) for topic, ends in before.offsets.items()} if before is not None else {}
        topic_ids = dict(before.topic_ids) if before is not None else {}
        batch = before.batch if before is not None else 0
        for event in batch_events:
            batch = max(batch, event.batch)
            for r in event.ranges:
                if topic_ids.get(r.topic, r.topic_id) != r.topic_id:
                    # Invariant 11: partitions of the topic that had this name before say nothing about this one.
                    offsets.pop(r.topic, None)
                offsets.setdefault(r.topic, {})[str(r.partition)] = r.end
                topic_ids[r.topic] = r.topic_id
        after[name] = PipelineProgress(batch, offsets, topic_ids)
    return after


def _by_pipeline(events: Iterable[DataWritten]) -> dict[str, list[DataWritten]]:
    groups: dict[str, list[DataWritten]] = {}
    for event in events:
        groups.setdefault(event.pipeline, []).append(event)
    return groups


def _broken(reason: str) -> LinkCheck:
    return LinkCheck(Fit.BROKEN, reason)


def _disagrees(reason: str) -> LinkCheck:
    """The table records a batch of that number and other offsets, as after a rebase that a run interrupted."""
    return _broken(f"{reason}; `floe rebase FILE` reads again what it lacks")
