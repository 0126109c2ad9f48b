"""Replays of dead letters, as the protocol sees them: a pipeline of its own beside the one whose letters it sends
again.

In: a pipeline's name, its dead-letter table, and what log and tables record of earlier replays. Out: names, and the
source range of the next batch. The source of a replay is no topic: its offsets count the dead letters that were
replayed, ever. So its batches form a chain like every other pipeline's (invariant 2), and a table's progress shows what
it holds of them (invariants 3 and 5).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from framework.commit.events.event_types import DataComplete, Heartbeat, SourceRange
from framework.commit.machine.effects import PipelineProgress

_SUFFIX = ".replay"  # no pipeline's own name has a dot, no topic's name a colon
_TOPIC = "dead-letters:"
_TOPIC_ID = "replay"


@dataclass(frozen=True)
class ReplayPosition:
    """The newest batch of a pipeline's replays, and how many letters of one table they have replayed."""

    batch: int = 0
    letters: int = 0


def replay_name(pipeline: str) -> str:
    """The name under which a pipeline's dead letters are replayed; its transactional id is made of it as any
    other's."""
    return pipeline + _SUFFIX


def is_replay(pipeline: str) -> bool:
    return pipeline.endswith(_SUFFIX)


def is_replay_topic(topic: str) -> bool:
    """Whether a source range counts replayed dead letters, so that no broker knows its topic."""
    return topic.startswith(_TOPIC)


def replay_range(table: str, start: int, end: int) -> SourceRange:
    """Letters [start, end) of a dead-letter table. Without a timestamp: a replay says nothing about how far time has
    come."""
    return SourceRange(_TOPIC + table, _TOPIC_ID, 0, start, end)


def replay_position(
    table: str, link: DataComplete | Heartbeat | None, recorded: Iterable[PipelineProgress | None]
) -> ReplayPosition:
    """Where the next replay goes on: behind everything that the log or any table reports of earlier ones.

    Either alone may be short of it: retention shortens the log, and a table holds only what was committed to it.
    """
    batches, dead_letters = [0], [0]
    if link is not None:
        batches.append(link.batch)
        dead_letters += [r.end for r in link.ranges if r.topic == _TOPIC + table]
    for progress in recorded:
        if progress is not None:
            batches.append(progress.batch)
            dead_letters += progress.offsets.get(_TOPIC + table, {}).values()
    return ReplayPosition(max(batches), max(dead_letters))
