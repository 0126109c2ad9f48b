"""Which pauses hold: what people have held and let go on, in the order of the control log.

In: `PauseChanged` events, and the pauses that a `CommitComplete` repeats. Out: what holds for a pipeline or a table. A
pause outlives whoever coordinates: a reader that begins at `chain_from` knows of each one that holds, itself or
repeated, before it reads an announcement that may have to wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from framework.commit.events.event_types import CommitComplete, Holds, PauseChanged
from framework.config.names.table_names import name_matches
from framework.diagnose.counted import moment_text
from framework.diagnose.shown import argument

PauseKey = tuple[Holds, str]

# What a pattern names: pipelines, or tables by their names with or without the catalog.
_MEANS: Mapping[Holds, Callable[[str, str], bool]] = {Holds.READING: fnmatchcase, Holds.COMMITS: name_matches}


@dataclass(frozen=True)
class PauseVisibility:
    """A reader that begins at `begin` has seen the pause once it has read the record at `seen_at`."""

    begin: int
    seen_at: int


@dataclass(frozen=True)
class SeenPause:
    """The newest word on one pattern, said at `said_at`. One that was taken back is kept as well, so that nobody's late
    repetition brings it to life again. `visibilities` are one or two, older first."""

    event: PauseChanged
    said_at: int
    visibilities: tuple[PauseVisibility, ...]

    def begin(self, low_water: int) -> int:
        """Where a reader has to begin to know of the pause before it reads anything at or above the low-water mark."""
        return max([self.visibilities[0].begin, *(s.begin for s in self.visibilities if s.seen_at < low_water)])


Pauses = Mapping[PauseKey, SeenPause]


def with_pause(pauses: Pauses, offset: int, event: PauseChanged) -> Pauses:
    """After one more event of the log."""
    return {**pauses, (event.holds, event.pattern): SeenPause(event, offset, (PauseVisibility(offset, offset),))}


def with_repeated(pauses: Pauses, offset: int, event: CommitComplete, low_water: int) -> Pauses:
    """After a CommitComplete that says which pauses held at its position. What was said at or behind that position is
    newer; the absence of a pause says nothing, since its sender may not have seen it."""
    new = PauseVisibility(event.position, offset)
    for repeated in event.paused:
        key = (repeated.holds, repeated.pattern)
        known = pauses.get(key)
        if known is None:
            pauses = {**pauses, key: SeenPause(repeated, event.position - 1, (new,))}
        elif known.said_at < event.position and known.event == repeated:
            # The newest sample takes the place of older ones once everything up to it is in every table.
            newest = known.visibilities[-1]
            if len(known.visibilities) == 1 or newest.seen_at < low_water:
                pauses = {**pauses, key: SeenPause(repeated, known.said_at, (newest, new))}
    return pauses


def active(pauses: Pauses) -> tuple[SeenPause, ...]:
    return tuple(seen for seen in pauses.values() if seen.event.paused)


def holding(pauses: Pauses, holds: Holds, name: str) -> PauseChanged | None:
    """The oldest pause that holds a pipeline's reading, or a table's commits; None when it may go on."""
    if not pauses:
        return None
    found = [
        seen.event
        for seen in pauses.values()
        if seen.event.paused and seen.event.holds is holds and _MEANS[holds](name, seen.event.pattern)
    ]
    return min(found, key=lambda event: event.timestamp_ms, default=None)


def describe(event: PauseChanged) -> str:
    """Why something is held, in one sentence."""
    at = moment_text(event.timestamp_ms)
    reason = f": {event.reason}" if event.reason else ""
    return f"{event.holds.value} paused for `{event.pattern}` by {event.by} at {at}{reason}"


def resume_command(event: PauseChanged) -> str:
    return f"floe resume --{event.holds.value} {argument(event.pattern)}"
