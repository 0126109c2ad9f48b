"""A table's recorded progress and the property and snapshot summary that hold it.

In: a `TableProgress`, and the text of the table property `floe.progress`. Out: the new text, with the entries of other
control topics kept as they are (invariant 11: an offset means nothing without the topic id it is filed under), and the
entries of the snapshot summary. The property outlives `expire_snapshots`; the summary shows rollbacks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from framework.commit.machine.effects import PipelineProgress, TableProgress
from framework.errors import StateDisagreement

PROGRESS_PROPERTY = "floe.progress"
MISSING_PROPERTY = "floe.missing"
CREATED_PROPERTY = "floe.created"  # by which pipeline, and when in ms since 1970: "orders 1790000000000"
# With a control topic's id behind it: runs announce files for the table there, from before the first one on. Who cannot
# read these announcements cannot tell which files are nobody's.
FILLED_FROM_PROPERTY = "floe.filled-from."
SUMMARY_CONTROL_OFFSET = "floe.control-offset"
SUMMARY_CONTROL_TOPIC_ID = "floe.control-topic-id"
SUMMARY_COMMIT_ID = "floe.commit-id"
SUMMARY_VALID_THROUGH = "floe.valid-through-ts"
SUMMARY_MAINTENANCE = "floe.maintenance"  # on a snapshot that holds the rows of the one before it in other files
# On a snapshot of changes by key, and on those of maintenance after it: the field ids of the key.
SUMMARY_KEY = "floe.key-ids"
SUMMARY_RECOVERY = "floe.recovery"  # on a snapshot that a verb of recovery made: which one


def filled_from(properties: Mapping[str, str]) -> frozenset[str]:
    """The ids of the control topics whose announcements may name files of a table."""
    reported = {key.removeprefix(FILLED_FROM_PROPERTY) for key in properties if key.startswith(FILLED_FROM_PROPERTY)}
    return frozenset({*_entries(properties.get(PROGRESS_PROPERTY)), *reported})


def merge(property_text: str | None, progress: TableProgress) -> str:
    """The property's new text: the entry of this control topic replaced, every other one kept.

    Raises StateDisagreement when the old text is not ours or when progress would move backwards (invariant 3).
    """
    entries = _entries(property_text)
    before = parse(property_text, progress.control_topic_id)
    if before is not None and _position(progress) < _position(before):
        raise StateDisagreement(
            f"recorded progress would move back from {before.control_offset} to {progress.control_offset}",
            place=PROGRESS_PROPERTY,
            remedy="another coordinator was faster; the table is loaded again",
        )
    epoch = {} if progress.leader_epoch is None else {"leader_epoch": progress.leader_epoch}
    number = entries.get(progress.control_topic_id, {}).get("sequence_number")
    entries[progress.control_topic_id] = {
        "control_offset": progress.control_offset,
        **epoch,
        **({} if number is None else {"sequence_number": number}),
        "pipelines": {
            name: {"batch": p.batch, "offsets": p.offsets, "topic_ids": p.topic_ids}
            for name, p in sorted(progress.pipelines.items())
        },
    }
    return json.dumps(entries, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _position(progress: TableProgress) -> tuple[int, int]:
    """Invariant 3: where progress stands in its log. Under a later leader epoch the log may have been written anew from
    an earlier offset on; only a person lets progress begin there (`floe rebase`)."""
    return (-1 if progress.leader_epoch is None else progress.leader_epoch), progress.control_offset


def parse(property_text: str | None, control_topic_id: str) -> TableProgress | None:
    """This control topic's progress; None when the property is absent or has no entry for it. Raises
    StateDisagreement."""
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
            leader_epoch=_natural(entry["leader_epoch"]) if entry.get("leader_epoch") is not None else None,
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise _unreadable(str(error)) from error


def made_in(property_text: str, control_topic_id: str, sequence_number: int) -> str:
    """The property's text that says in which snapshot of main this control topic's record is made: by its sequence number,
    of which a table has each once."""
    entries = _entries(property_text)
    entries[control_topic_id]["sequence_number"] = sequence_number
    return json.dumps(entries, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def made_at(property_text: str | None, control_topic_id: str) -> int | None:
    """The sequence number of the snapshot in which this control topic's record was made; None where none is noted. Raises
    StateDisagreement."""
    made = _entries(property_text).get(control_topic_id, {}).get("sequence_number")
    try:
        return None if made is None else _natural(made)
    except ValueError as error:
        raise _unreadable(str(error)) from error


def is_off_line(property_text: str | None, control_topic_id: str, line: Iterable[int | None]) -> bool:
    """Whether a branch is not built on the snapshot in which this control topic's record was made: somebody moved it back,
    or onto another line. It shows by the sequence numbers that are left, also where all that floe ever made has expired;
    not where the line's own snapshots from then on have.

    Args:
        line: the sequence numbers of the head and of its ancestors, newest first.

    Raises StateDisagreement.
    """
    wanted = made_at(property_text, control_topic_id)
    if wanted is None:
        return False  # an older version of floe made it
    reached = next((number for number in (each or 0 for each in line) if number <= wanted), wanted)
    return reached != wanted


def topic_ids_of(property_text: str | None) -> tuple[str, ...]:
    """The control topics by which the table was filled. Raises StateDisagreement."""
    return tuple(sorted(_entries(property_text)))


def topic_ids_in_use(property_text: str | None) -> tuple[str, ...]:
    """Those by which some pipeline fills it still: `floe rebase` leaves the entry of the former topic without any. All,
    where none has a pipeline. Raises StateDisagreement."""
    entries = _entries(property_text)
    return tuple(sorted(name for name, entry in entries.items() if _pipelines_of(entry))) or tuple(sorted(entries))


def pipelines_of(property_text: str | None) -> frozenset[str]:
    """The pipelines whose records are in the table, by whatever control topic. Raises StateDisagreement."""
    return frozenset(str(name) for entry in _entries(property_text).values() for name in _pipelines_of(entry))


def elsewhere(property_text: str | None, control_topic_id: str) -> dict[str, str]:
    """Pipelines whose records are in the table by announcements of another control topic, with that topic's id.

    Two control topics may well fill one table, each with pipelines of its own. But one pipeline's source offsets are
    recorded under one of them: under two, nobody could tell which records of it the table holds. Raises
    StateDisagreement.
    """
    return {
        str(name): topic_id
        for topic_id, entry in sorted(_entries(property_text).items())
        if topic_id != control_topic_id
        for name in _pipelines_of(entry)
    }


def check_recorded_here(
    pipeline: str, control_topic: str, control_topic_id: str, properties: Mapping[str, str | None], first_run: bool
) -> None:
    """Invariant 11, before anything is read: what the tables record of the pipeline belongs to this very control topic.

    Args:
        properties: by table, the text of its property `floe.progress`.
        first_run: neither the consumer group nor the control topic knows the pipeline.

    Raises:
        StateDisagreement: FLOE-R320, a table holds its records by another control topic: of another cluster, or
            recreated; FLOE-R321, it would begin anew, and a table holds records of it.
    """
    for table, text in sorted(properties.items()):
        other = elsewhere(text, control_topic_id).get(pipeline)
        if other is not None:
            raise StateDisagreement(
                recorded_elsewhere(f"table {table}", pipeline, other, control_topic_id),
                code="FLOE-R320",
                place=table,
                remedy=f"check bootstrap.servers first; if the control topic {control_topic} was recreated, or the cluster "
                f"was replaced, `floe rebase FILE` takes over; if this is another pipeline, give it its own name",
            )
        here = parse(text, control_topic_id)
        recorded = here.pipelines.get(pipeline) if here is not None and first_run else None
        if recorded is not None:
            ends = ", ".join(f"{t}-{p} up to {end}" for t, of in recorded.offsets.items() for p, end in of.items())
            raise StateDisagreement(
                f"neither the consumer group nor the control topic {control_topic} knows pipeline {pipeline}, but table "
                f"{table} holds its batch {recorded.batch} ({ends}): beginning anew would add records again",
                code="FLOE-R321",
                place=table,
                remedy="`floe rebase FILE` goes on from what the tables hold; if this is another pipeline, give it a name of "
                "its own",
            )


def recorded_elsewhere(table: str, pipeline: str, other_topic_id: str, control_topic_id: str) -> str:
    """Both values, in one sentence."""
    return (
        f"{table} holds records of pipeline {pipeline} that were announced in control topic {other_topic_id}, and they are "
        f"announced in {control_topic_id} now: they may be the same records"
    )


def key_text(key_ids: Sequence[int]) -> str:
    """A key as a snapshot's summary names it."""
    return ",".join(map(str, key_ids))


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


def _pipelines_of(entry: dict[str, Any]) -> dict[str, Any]:
    pipelines = entry.get("pipelines")
    if not isinstance(pipelines, dict):
        raise _unreadable("an entry has no pipelines")
    return pipelines


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
