"""What a table lacks and is to be read again: the property `floe.missing` as values.

In: the property's text. Out: `Gap`s, and the text with others. A gap is written in the commit that rolls a table back
and taken out in the commit that says it is filled, each conditional like any other, so that nobody fills it twice.
What gaps say together is a set: nothing is lacking twice, and nothing that the table holds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from framework.commit.events.event_types import SourceRange
from framework.commit.machine.progress.recorded import MISSING_PROPERTY
from framework.commit.offset_ranges import NO_OFFSETS, OffsetRanges
from framework.errors import StateDisagreement

# Between a pipeline's name and the id of the gap that it fills.
REPLAY = ".replay."


@dataclass(frozen=True)
class Gap:
    """Source ranges of one pipeline that are not in the table. `gap_id` names the run that fills it, also when that run
    is killed and done again."""

    gap_id: str
    pipeline: str
    ranges: tuple[SourceRange, ...]

    @property
    def offsets(self) -> int:
        return sum(r.end - r.start for r in self.ranges)

    @property
    def replay_pipeline(self) -> str:
        """The name under which the gap is read: of its own, so that the pipeline's own chain and offsets stay as they
        are."""
        return f"{self.pipeline}{REPLAY}{self.gap_id}"


def gaps_from(lacking: Mapping[str, OffsetRanges], gap_id: str) -> tuple[Gap, ...]:
    """Gaps for what is lacking by pipeline: each can be read by one run. Their ids begin with `gap_id`."""
    parts = [(pipeline, layer) for pipeline, lacks in sorted(lacking.items()) for layer in lacks.layers()]
    return tuple(Gap(f"{gap_id}{number or ''}", pipeline, layer) for number, (pipeline, layer) in enumerate(parts))


def lacking_after(
    noted: Sequence[Gap],
    given_up: Mapping[str, OffsetRanges],
    read: Mapping[str, OffsetRanges],
    held: Mapping[str, OffsetRanges],
    gap_id: str,
) -> tuple[Gap, ...]:
    """What a table lacks once it has gone back: what it lacked before, and what is given up and wanted again.

    Args:
        noted: what it lacked until now. A gap stays as it is, with its id, unless the table holds some of it or some is
            given up again.
        given_up: what goes with the snapshots, by pipeline, and is to be read again; nothing, where it is not.
        read: what runs of the noted gaps have announced until now, by the gap's id: it is in the table, or will be,
            or goes with the snapshots.
        held: what the table holds afterwards, by pipeline.
    """
    kept: list[Gap] = []
    lacking = dict(given_up)
    for gap in noted:
        own, done = OffsetRanges.of(gap.ranges), read.get(gap.gap_id, NO_OFFSETS)
        here, wanted = held.get(gap.pipeline, NO_OFFSETS), given_up.get(gap.pipeline, NO_OFFSETS)
        # What its replay has read is no reason to change a gap: by its id nothing of that is read again, and verbs by other
        # control topics see by the list alone what is announced and will come.
        if own & (here | wanted):
            lacking[gap.pipeline] = lacking.get(gap.pipeline, NO_OFFSETS) | (own - done)
        else:
            kept.append(gap)
    for pipeline in lacking:
        lacking[pipeline] -= held.get(pipeline, NO_OFFSETS)
    return (*kept, *gaps_from(lacking, gap_id))


def gaps_of(property_text: str | None) -> tuple[Gap, ...]:
    """Raises StateDisagreement when the text is not floe's."""
    if property_text is None:
        return ()
    try:
        return tuple(
            Gap(
                str(gap["id"]),
                str(gap["pipeline"]),
                tuple(
                    SourceRange(str(topic), str(of["topic_id"]), int(partition), int(start), int(end))
                    for topic, of in sorted(gap["topics"].items())
                    for partition, (start, end) in sorted(of["partitions"].items(), key=lambda item: int(item[0]))
                ),
            )
            for gap in json.loads(property_text)
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StateDisagreement(
            f"what the table lacks cannot be read: {error}",
            place=MISSING_PROPERTY,
            remedy="only floe may write this property; put back its value from an earlier metadata file",
        ) from error


def gaps_text(gaps: Iterable[Gap]) -> str:
    """The property's text."""
    entries = []
    for gap in gaps:
        topics: dict[str, dict[str, object]] = {}
        for r in gap.ranges:
            of = topics.setdefault(r.topic, {"topic_id": r.topic_id, "partitions": {}})
            of["partitions"][str(r.partition)] = [r.start, r.end]  # type: ignore[index]
        entries.append({"id": gap.gap_id, "pipeline": gap.pipeline, "topics": topics})
    return json.dumps(entries, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
