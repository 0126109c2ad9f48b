"""A table's recorded progress and the property and snapshot summary that hold it.

In: a `TableProgress`, and the text of the table property `floe.progress`. Out: the new text, with the entries of other
control topics kept as they are (invariant 11: an offset means nothing without the topic id it is filed under), and the
entries of the snapshot summary. The property outlives `expire_snapshots`; the summary shows rollbacks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from framework.commit.effects import PipelineProgress, TableProgress
from framework.errors import StateDisagreement

PROGRESS_PROPERTY = "floe.progress"
SUMMARY_CONTROL_OFFSET = "floe.control-offset"
SUMMARY_CONTROL_TOPIC_ID = "floe.control-topic-id"
SUMMARY_COMMIT_ID = "floe.commit-id"
SUMMARY_VALID_THROUGH = "floe.valid-through-ts"


def merge(property_text: str | None, progress: TableProgress) -> str:
    """The property's new text: the entry of this control topic replaced, every other one kept.

    Raises StateDisagreement when the old text is not ours or when progress would move backwards (invariant 3).
    """
    entries = _entries(property_text)
    before = parse(property_text, progress.control_topic_id)
    if before is not None and progress.control_offset < before.control_offset:
        raise StateDisagreement(
            f"recorded progress would move back from {before.control_offset} to {progress.control_offset}",
            place=PROGRESS_PROPERTY,
            remedy="another coordinator was faster; load the table again",
        )
    entries[progress.control_topic_id] = {
        "control_offset": progress.control_offset,
        "pipelines": {
            name: {"batch": p.batch, "offsets": p.offsets, "topic_ids": p.topic_ids}
            for name, p in sorted(progress.pipelines.items())
        },
    }
    return json.dumps(entries, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def parse(property_text: str | None, control_topic_id: str) -> TableProgress | None:
    """This control topic's progress; None when the property is absent or has no entry for it. Raises StateDisagreement."""
    entry = _entries(property_text).get(control_topic_id)
    if entry is None:
        return None
    try:
        return TableProgress(
            control_topic_id=control_topic_id,
            control_offset=_natural(entry["control_offset"]),
            pipelines={
                name: PipelineProgress(
                    batch=_natural(p["batch"]),
                    offsets={
                        topic: {partition: _natural(offset) for partition, offset in offsets.items()}
                        for topic, offsets in p["offsets"].items()
                    },
                    topic_ids={topic: str(topic_id) for topic, topic_id in p["topic_ids"].items()},
                )
                for name, p in entry["pipelines"].items()
            },
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise _unreadable(str(error)) from error


def summary(progress: TableProgress, commit_id: str, valid_through_ms: int | None) -> dict[str, str]:
    """What the snapshot's summary says beside Iceberg's own counters. Timestamps are milliseconds since 1970."""
    entries = {
        SUMMARY_CONTROL_OFFSET: str(progress.control_offset),
        SUMMARY_CONTROL_TOPIC_ID: progress.control_topic_id,
        SUMMARY_COMMIT_ID: commit_id,
    }
    if valid_through_ms is not None:
        entries[SUMMARY_VALID_THROUGH] = str(valid_through_ms)
    return entries


def summary_control_offset(entries: Mapping[str, str], control_topic_id: str) -> int | None:
    """The control offset that a snapshot of ours was made at; None when the snapshot is foreign or of another topic."""
    offset = entries.get(SUMMARY_CONTROL_OFFSET)
    if offset is None or entries.get(SUMMARY_CONTROL_TOPIC_ID) != control_topic_id:
        return None
    try:
        return _natural(int(offset))
    except ValueError as error:
        raise _unreadable(f"{SUMMARY_CONTROL_OFFSET} is {offset!r}") from error


def _entries(property_text: str | None) -> dict[str, Any]:
    if property_text is None:
        return {}
    try:
        entries = json.loads(property_text)
    except ValueError as error:
        raise _unreadable(str(error)) from error
    if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
        raise _unreadable("it is not an object of objects")
    return entries


def _natural(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no offset")
    return value


def _unreadable(reason: str) -> StateDisagreement:
    return StateDisagreement(
        f"the table's recorded progress cannot be read: {reason}",
        place=PROGRESS_PROPERTY,
        remedy="only floe may write this property; put back its value from an earlier metadata file",
    )
