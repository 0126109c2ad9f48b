"""The simulated catalog: tables as immutable metadata, and conditional commits to them.

In: what floe's adapters and other engines send to a catalog. Out: the new metadata, or a refusal, as the SQL catalog and
Iceberg's Java library give them. A commit swaps the whole metadata or nothing. `Snapshot` knows by itself what it can
reach and which records it holds, from how it was made: no decision of floe's is asked for that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from framework.commit.machine.effects import ExaminedTable, TableProgress
from framework.commit.machine.progress.recorded import (
    PROGRESS_PROPERTY,
    SUMMARY_CONTROL_OFFSET,
    SUMMARY_CONTROL_TOPIC_ID,
    elsewhere,
    is_off_line,
    parse,
    topic_ids_of,
)

MAIN = "main"
progress_of: Callable[[str | None, str], TableProgress | None] = lru_cache(4_096)(parse)
known_topics: Callable[[str | None], tuple[str, ...]] = lru_cache(4_096)(topic_ids_of)
held_elsewhere: Callable[[str | None, str], dict[str, str]] = lru_cache(4_096)(elsewhere)


class Refused(Exception):
    """The catalog did not commit."""


@dataclass(frozen=True, slots=True)
class File:
    """An entry of a manifest: ADDED or EXISTING where it is live, DELETED where `removed_by` is a snapshot."""

    path: str
    added_by: int
    removed_by: int | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    path: str
    added_by: int
    files: tuple[File, ...]

    @property
    def live(self) -> tuple[File, ...]:
        return tuple(each for each in self.files if each.removed_by is None)


@dataclass(frozen=True)
class Snapshot:
    """`rows` are the records in it and `twice` those that are in it more than once. `reach` is every file that a reader
    of it opens."""

    snapshot_id: int
    parent_id: int | None
    timestamp_ms: int
    operation: str
    manifest_list: str
    manifests: tuple[Manifest, ...]
    live: frozenset[str]
    reach: frozenset[str]
    rows: int
    twice: int
    added_rows: int = 0
    sequence: int = 1
    summary: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Ref:
    snapshot_id: int
    is_branch: bool
    min_snapshots_to_keep: int | None = None


@dataclass(frozen=True)
class Metadata:
    """`before` is the metadata that the newest commit replaced, as the metadata log names it."""

    uuid: str
    location: str
    properties: Mapping[str, str] = field(default_factory=dict)
    snapshots: Mapping[int, Snapshot] = field(default_factory=dict)
    refs: Mapping[str, Ref] = field(default_factory=dict)
    log: tuple[tuple[int, int], ...] = ()
    last_updated_ms: int = 0
    last_sequence: int = 0
    schema_id: int = 0
    before: Metadata | None = field(default=None, repr=False, compare=False)

    @property
    def head(self) -> Snapshot | None:
        ref = self.refs.get(MAIN)
        return None if ref is None else self.snapshots[ref.snapshot_id]

    def line(self, snapshot_id: int | None) -> list[Snapshot]:
        """A snapshot and its ancestors, newest first, as far as they are left."""
        found: list[Snapshot] = []
        while snapshot_id is not None and (each := self.snapshots.get(snapshot_id)) is not None:
            found.append(each)
            snapshot_id = each.parent_id
        return found


@dataclass(frozen=True)
class Update:
    """What a commit changes: a new snapshot with the branch that gets it, references set or removed, snapshots removed,
    properties set or removed. `wall_ms` is when, by the clock of whoever makes the metadata."""

    snapshot: Snapshot | None = None
    branch: str = MAIN
    set_refs: Mapping[str, Ref] = field(default_factory=dict)
    remove_refs: Collection[str] = ()
    remove_snapshots: Collection[int] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    remove_properties: Collection[str] = ()
    wall_ms: int = 0


@dataclass(frozen=True)
class Asserted:
    """What a commit is conditional on; what is None is not asked. `as_seen` holds names of references and ids of
    snapshots: nobody has set other references, and each of these snapshots is there."""

    uuid: str | None = None
    refs: Mapping[str, int | None] = field(default_factory=dict)
    schema_id: int | None = None
    as_seen: tuple[frozenset[str], frozenset[int]] | None = None


class Catalog:
    """`checks_here`: requirements are checked in the committing process, so that it can have ones of its own, and ids of
    snapshots that are gone are refused; else a server does, which accepts them and knows Iceberg's alone.
    `forgets_parents`: an heir of expired snapshots has no parent afterwards, as PyIceberg leaves it, and not Java."""

    def __init__(self, checks_here: bool, forgets_parents: bool) -> None:
        self.checks_here, self.forgets_parents = checks_here, forgets_parents
        self.tables: dict[str, Metadata] = {}
        self.versions = 0

    def commit(self, name: str, asserted: Asserted, update: Update) -> Metadata:
        """The table after the commit.

        Raises:
            Refused: a condition does not hold, or the update does not fit.
        """
        before = self.tables.get(name)
        if before is None:
            raise Refused(f"there is no table {name}")
        self._check(before, asserted, update)
        self.versions += 1
        after = self.tables[name] = _updated(before, update, self.forgets_parents)
        return after

    def _check(self, now: Metadata, asserted: Asserted, update: Update) -> None:
        if asserted.uuid is not None and now.uuid != asserted.uuid:
            raise Refused("the table has another uuid")
        if asserted.schema_id is not None and now.schema_id != asserted.schema_id:
            raise Refused("the table has another schema")
        for name, snapshot_id in asserted.refs.items():
            ref = now.refs.get(name)
            if (None if ref is None else ref.snapshot_id) != snapshot_id:
                raise Refused(f"reference {name} has moved")
        if self.checks_here and asserted.as_seen is not None:
            names, ids = asserted.as_seen
            if not now.refs.keys() <= names or not ids <= now.snapshots.keys():
                raise Refused("references or snapshots have changed")
        if self.checks_here and not set(update.remove_snapshots) <= now.snapshots.keys():
            raise Refused("a snapshot that is to go is not there")
        is_java = not self.checks_here and not self.forgets_parents
        if is_java and len(set(update.remove_snapshots)) > len(now.snapshots):
            raise Refused("more snapshots than there are")  # by accident: it makes room for as many as are left
        for ref in update.set_refs.values():
            if ref.snapshot_id not in now.snapshots:
                raise Refused("a reference to a snapshot that is not there")


def _updated(before: Metadata, update: Update, forgets_parents: bool) -> Metadata:
    snapshots, refs, log = before.snapshots, before.refs, before.log
    updated_ms = before.last_updated_ms
    if update.remove_snapshots:
        gone = set(update.remove_snapshots)
        snapshots = {number: each for number, each in snapshots.items() if number not in gone}
        for number, each in list(snapshots.items()) if forgets_parents else ():
            if each.parent_id in gone:
                snapshots[number] = replace(each, parent_id=None)
        refs = {name: ref for name, ref in refs.items() if ref.snapshot_id not in gone}
        log = tuple(each for each in log if each[0] not in gone)
    if update.snapshot is not None:
        made = update.snapshot
        snapshots = {**snapshots, made.snapshot_id: made}
        old = refs.get(update.branch)
        refs = {**refs, update.branch: Ref(made.snapshot_id, True, old.min_snapshots_to_keep if old else None)}
        updated_ms = max(updated_ms, made.timestamp_ms)
        if update.branch == MAIN:
            log = (*log, (made.snapshot_id, made.timestamp_ms))
    for name, ref in update.set_refs.items():
        refs = {**refs, name: ref}
        if name == MAIN:
            updated_ms = max(updated_ms, update.wall_ms)
            log = (*log, (ref.snapshot_id, updated_ms))
    if update.remove_refs:
        refs = {name: ref for name, ref in refs.items() if name not in update.remove_refs}
    properties = before.properties
    if update.properties or update.remove_properties:
        properties = {**properties, **update.properties}
        for key in update.remove_properties:
            properties.pop(key, None)
    return replace(
        before,
        snapshots=snapshots,
        refs=refs,
        log=log,
        properties=properties,
        last_updated_ms=updated_ms,
        last_sequence=before.last_sequence + (update.snapshot is not None),
        before=replace(before, before=None),
    )


def view_of(name: str, metadata: Metadata, topic_id: str) -> ExaminedTable:
    """What is examined of a table, as the adapter shows it."""
    text = metadata.properties.get(PROGRESS_PROPERTY)
    ref = metadata.refs.get(MAIN)
    offset, topics, is_older = _newest_mark(metadata, topic_id)
    known = known_topics(text)
    return ExaminedTable(
        table=name,
        table_uuid=metadata.uuid,
        branch=MAIN,
        snapshot_id=None if ref is None else ref.snapshot_id,
        schema_id=metadata.schema_id,
        progress=progress_of(text, topic_id),
        snapshot_control_offset=offset,
        elsewhere=held_elsewhere(text, topic_id),
        unrecorded=next((each for each in topics if each not in known), None),
        is_older=(is_older and topic_id in known) or is_moved(metadata, topic_id),
    )


def is_moved(metadata: Metadata, topic_id: str) -> bool:
    """Whether main is not built on the snapshot in which a control topic's record was made."""
    line = metadata.line(metadata.refs[MAIN].snapshot_id) if MAIN in metadata.refs else []
    return is_off_line(metadata.properties.get(PROGRESS_PROPERTY), topic_id, (each.sequence for each in line))


def made_by_topic(metadata: Metadata) -> dict[str, int]:
    """By control topic, in which snapshot the table's record was made: its sequence number."""
    entries = json.loads(metadata.properties.get(PROGRESS_PROPERTY, "{}"))
    return {topic_id: entry["sequence_number"] for topic_id, entry in entries.items() if "sequence_number" in entry}


def seen_of(view: ExaminedTable) -> tuple[object, ...]:
    """What a view shows of where the branch stands."""
    progress = view.progress
    return progress and progress.control_offset, view.snapshot_control_offset, view.unrecorded, view.is_older


def mark_of(snapshot: Snapshot) -> tuple[str, int] | None:
    """The control topic and offset that a snapshot was made at; None where floe did not make it."""
    topic_id = snapshot.summary.get("floe.control-topic-id")
    return None if topic_id is None else (topic_id, int(snapshot.summary["floe.control-offset"]))


def _newest_mark(metadata: Metadata, topic_id: str) -> tuple[int | None, list[str], bool]:
    topics: list[str] = []
    line = metadata.line(metadata.refs[MAIN].snapshot_id) if MAIN in metadata.refs else []
    for snapshot in line:
        mark = mark_of(snapshot)
        if mark is None:
            continue
        if mark[0] not in topics:
            topics.append(mark[0])
        if mark[0] == topic_id:
            return mark[1], topics, False
    is_whole = not line or line[-1].parent_id is None
    beside = [mark for each in metadata.snapshots.values() if (mark := mark_of(each)) is not None] if is_whole else []
    topics += [each for each, _ in beside if each not in topics]
    is_first = not line or line[-1].sequence == 1 or any(each == topic_id for each, _ in beside)
    return (0 if is_first else None), topics, is_first


def made_snapshot(
    metadata: Metadata,
    snapshot_id: int,
    parent: Snapshot | None,
    wall_ms: int,
    added: Mapping[str, int],
    removed: Mapping[str, int],
    write: Callable[[str], str],
    operation: str,
    summary: Mapping[str, str],
) -> Snapshot:
    """A new snapshot on top of another: files with the records that they add, and those that go with theirs. Manifests
    that lose a file are written anew; those without a live file are left out of the next snapshot."""
    manifests: list[Manifest] = []
    for each in parent.manifests if parent is not None else ():
        live = each.live
        if not live:
            continue
        if removed and any(file.path in removed for file in live):
            files = tuple(replace(f, removed_by=snapshot_id) if f.path in removed else f for f in live)
            manifests.append(Manifest(write("m.avro"), snapshot_id, files))
        else:
            manifests.append(each)
    if added:
        files = tuple(File(path, snapshot_id) for path in added)
        manifests.append(Manifest(write("m.avro"), snapshot_id, files))
    manifest_list = write("snap.avro")
    rows, twice = (parent.rows, parent.twice) if parent is not None else (0, 0)
    for mask in removed.values():
        rows &= ~mask | twice
    for mask in added.values():
        twice |= rows & mask
        rows |= mask
    live_paths = ((parent.live if parent is not None else frozenset()) - removed.keys()) | added.keys()
    return Snapshot(
        snapshot_id,
        None if parent is None else parent.snapshot_id,
        max(wall_ms, metadata.last_updated_ms),
        operation,
        manifest_list,
        tuple(manifests),
        live_paths,
        live_paths | {each.path for each in manifests} | {manifest_list},
        rows,
        twice,
        sum(mask.bit_count() for mask in added.values()),
        metadata.last_sequence + 1,
        summary,
    )


def all_reach(tables: Iterable[Metadata]) -> set[str]:
    """Every file that any snapshot of these tables can reach."""
    found: set[str] = set()
    for metadata in tables:
        for snapshot in metadata.snapshots.values():
            found |= snapshot.reach
    return found


def progress_said(metadata: Metadata) -> dict[str, str]:
    """What the newest of floe's snapshots says of the progress of main."""
    for snapshot in metadata.line(metadata.refs[MAIN].snapshot_id):
        if SUMMARY_CONTROL_TOPIC_ID in snapshot.summary:
            return {key: snapshot.summary[key] for key in (SUMMARY_CONTROL_TOPIC_ID, SUMMARY_CONTROL_OFFSET)}
    return {}
