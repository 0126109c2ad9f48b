"""What a table records of a pipeline, under whatever control topic, and how that is filed under another one.

In: the text of the table property `floe.progress`. Out: what the table holds as plain values, and the text after a
pipeline was taken over. Keeps invariants 5 and 11: what a table holds stays on record, once, under the present control
topic's id.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from framework.commit.machine.effects import PipelineProgress, TableProgress
from framework.commit.machine.progress.recorded import merge, parse, topic_ids_of
from framework.commit.offsets import PartitionKey

Ends = Mapping[PartitionKey, int]


@dataclass(frozen=True)
class HeldBy:
    """What one table records of the pipeline: by which control topics, and the newest batch of all; None: nothing."""

    table: str
    control_topic_ids: tuple[str, ...]
    newest: PipelineProgress | None

    @property
    def ends(self) -> dict[PartitionKey, int]:
        return ends_of(self.newest) if self.newest is not None else {}


def ends_of(progress: PipelineProgress) -> dict[PartitionKey, int]:
    """Recorded source offsets by partition."""
    return {(topic, int(p)): end for topic, ends in progress.offsets.items() for p, end in ends.items()}


def offsets_of(ends: Ends) -> dict[str, dict[str, int]]:
    """The inverse of `ends_of`."""
    offsets: dict[str, dict[str, int]] = {}
    for (topic, partition), end in sorted(ends.items()):
        offsets.setdefault(topic, {})[str(partition)] = end
    return offsets


def held_by(table: str, property_text: str | None, pipeline: str) -> HeldBy:
    """What a table's property `floe.progress` says of the pipeline, under whatever control topic."""
    found: dict[str, PipelineProgress] = {}
    for topic_id in topic_ids_of(property_text):
        entry = parse(property_text, topic_id)
        if entry is not None and pipeline in entry.pipelines:
            found[topic_id] = entry.pipelines[pipeline]
    newest = max(found.values(), key=lambda each: each.batch, default=None)
    return HeldBy(table, tuple(sorted(found)), newest)


def recorded_of(property_text: str | None, control_topic_id: str, pipeline: str) -> PipelineProgress | None:
    """What a table records of a pipeline under this control topic. Raises StateDisagreement: the text is not floe's."""
    here = parse(property_text, control_topic_id)
    return here.pipelines.get(pipeline) if here is not None else None


def held_ends(
    property_text: str | None, control_topic_id: str, pipeline: str, base_batch: int
) -> dict[PartitionKey, int]:
    """Up to where a table holds the pipeline, for `next_cut`; nothing where offsets were moved by hand since."""
    progress = recorded_of(property_text, control_topic_id, pipeline)
    return ends_of(progress) if progress is not None and progress.batch >= base_batch else {}


def next_cut(positions: Ends, recorded: Iterable[Ends]) -> dict[PartitionKey, int] | None:
    """Where the next batch has to end at the latest, since some table holds everything up to there; None: nowhere.

    Invariant 5: a batch is dropped by a table that holds all of it and added by one that holds none of it. One that
    lies half in what a table holds could be neither. Tables lie ahead of a pipeline only after it was taken over.
    """
    ahead = [ends for ends in recorded if any(ends.get(key, 0) > at for key, at in positions.items())]
    if not ahead:
        return None
    nearest = min(ahead, key=lambda ends: sum(max(0, ends.get(key, 0) - at) for key, at in positions.items()))
    return {key: max(at, nearest.get(key, at)) for key, at in positions.items()}


def taken_over(
    property_text: str | None,
    pipeline: str,
    control_topic_id: str,
    after: PipelineProgress,
    log_epoch: int | None = None,
) -> TableProgress:
    """The table's progress under the present control topic with the pipeline in it: its control offset as it was, 0 in
    a topic that is new to the table, since every announcement below 0 is in it.

    Args:
        log_epoch: the newest leader epoch of the log, where the log was cut off below the table's progress: then it
            begins at 0 again, and what the table holds already is known by its source offsets.
    """
    here = parse(property_text, control_topic_id)
    pipelines = dict(here.pipelines) if here is not None else {}
    if here is None or log_epoch is not None:
        return TableProgress(control_topic_id, 0, {**pipelines, pipeline: after}, log_epoch)
    return TableProgress(control_topic_id, here.control_offset, {**pipelines, pipeline: after}, here.leader_epoch)


def without_elsewhere(property_text: str | None, pipeline: str, progress: TableProgress) -> str:
    """The property's new text: `progress`, and no other control topic has the pipeline. Entries of other topics stay,
    also without pipelines: what they say of their own announcements remains true."""
    text = merge(property_text, progress)
    entries = json.loads(text)
    for topic_id, entry in entries.items():
        if topic_id != progress.control_topic_id:
            entry["pipelines"].pop(pipeline, None)
    return json.dumps(entries, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
