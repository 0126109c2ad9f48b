"""What a table lacks and is to be read again: the property `floe.missing` as values.

In: the property's text. Out: `Gap`s, and the text with one more or one less. A gap is written in the commit that rolls
a table back and taken out in the commit that says it is filled, each conditional like any other, so that nobody fills
it twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from framework.commit.events.event_types import SourceRange
from framework.commit.machine.progress import MISSING_PROPERTY
from framework.errors import StateDisagreement


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
        return f"{self.pipeline}.replay.{self.gap_id}"


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
