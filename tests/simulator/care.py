"""Maintenance over the simulated lake: what `TableCare` and the cleaner do, with floe's own decisions.

In: tables, and the functions that decide. Out: new snapshots, expired ones, and files that are removed. Between a look
and its commit, and between a commit and the removal of files, others may act.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from framework.adapters.iceberg.commits.expiry import ExpiryFacts
from framework.adapters.maintenance.tables import Compacted, Expired, MaintainedTable
from framework.commit import file_ages
from framework.commit.file_ages import ClockReading, FilePresence
from framework.commit.machine.progress.recorded import (
    PROGRESS_PROPERTY,
    SUMMARY_CONTROL_TOPIC_ID,
    pipelines_of,
    topic_ids_in_use,
)
from framework.commit.maintenance import expire as expiry_rules
from framework.commit.maintenance import removed_files
from framework.commit.maintenance.compaction import LiveFileFacts, plan_compaction
from framework.commit.maintenance.expire import Expiry, Reference, SnapshotAge
from framework.commit.maintenance.removed_files import ExpiringSnapshot, ListedFile, ListedManifest
from framework.config.values.maintenance import CompactionPolicy, ManifestsPolicy
from framework.errors import FloeError
from tests.simulator.catalog import (
    MAIN,
    Asserted,
    Metadata,
    Refused,
    Snapshot,
    Update,
    known_topics,
    progress_said,
    view_of,
)
from tests.simulator.lake import CONFLICTS, Lake
from tests.simulator.world import World


class Care:
    """Stands in for `TableCare`."""

    def __init__(self, lake: Lake) -> None:
        self.tables = lake
        self._reach: Callable[[str], None] = lake.witness.reach

    def look(self, table: str) -> MaintainedTable | None:
        loaded = self.tables.load(table)
        if loaded is None:
            return None
        text = loaded.properties.get(PROGRESS_PROPERTY)
        views = [view_of(table, loaded, topic_id) for topic_id in known_topics(text)]
        behind = frozenset({MAIN} if any(view.is_behind for view in views) else ())
        owns = loaded.properties.get("gc.enabled", "true") != "false"
        return MaintainedTable(
            loaded.uuid, True, pipelines_of(text), behind, len(loaded.snapshots), 0, None, None, owns
        )

    def merge_manifests(
        self, table: str, policy: ManifestsPolicy, dry_run: bool, branch: str = MAIN
    ) -> tuple[int, int] | None:
        return None if self.tables.load(table) is None else (0, 0)

    def compact(
        self,
        table: str,
        policy: CompactionPolicy,
        dry_run: bool,
        max_bytes: int | None = None,
        goes_on: Callable[[], bool] = lambda: True,
        branch: str = MAIN,
    ) -> Compacted | None:
        loaded = self.tables.load(table)
        if loaded is None:
            return None
        head = loaded.head
        live = sorted(head.live) if head is not None else []
        facts = [LiveFileFacts(path, "", 10, 1, 0, number) for number, path in enumerate(live)]
        for group in plan_compaction(facts, policy):
            self._rewrite(table, loaded, group.paths)
        return Compacted()

    def _rewrite(self, table: str, loaded: Metadata, old: Sequence[str]) -> None:
        lake = self.tables
        begun = lake.machine.moment()
        rows = 0
        for path in old:
            if not lake.store.holds(path):
                raise FloeError(f"{path} cannot be read", code="FLOE-R380", place=table, remedy="")
            rows |= lake.rows[path]
        new = lake.store.write(loaded.location, "compacted.parquet")
        lake.rows[new] = rows
        self._reach("rewritten")
        for _ in range(CONFLICTS):
            now = lake.load(table)
            if now is None or now.uuid != loaded.uuid or now.head is None:
                return
            if not self._is_there(begun, new) or not now.head.live.issuperset(old):
                return
            began = lake.machine.moment()
            said = {"floe.maintenance": "compaction", **progress_said(now)}
            made = lake.new_snapshot(now, now.head, {new: rows}, {p: lake.rows[p] for p in old}, "replace", said)
            self._reach("manifests written")
            asserted = Asserted(now.uuid, {MAIN: now.head.snapshot_id}, now.schema_id)
            try:
                lake.apply(table, asserted, Update(made), began)
            except Refused:
                continue
            return

    def _is_there(self, begun: ClockReading, path: str) -> bool:
        known = file_ages.presence_of_unnamed(begun, self.tables.machine.moment())
        if known is FilePresence.UNCLEAR:
            return self.tables.store.holds(path)
        return known is FilePresence.THERE

    def expire(self, table: str, decide: Callable[[ExpiryFacts], Expiry], dry_run: bool) -> Expired | None:
        for _ in range(CONFLICTS):
            loaded = self.tables.load(table)
            if loaded is None:
                return None
            expiry = decide(facts_of(loaded))
            left = len(loaded.snapshots) - len(expiry.expired)
            if not expiry.expired:
                return Expired(expiry, (), left)
            self._reach("expiry decided")
            try:
                after = self.tables.apply(
                    table, expiry_conditions(loaded, expiry), Update(remove_snapshots=expiry.expired), None
                )
            except Refused:
                continue
            paths = went_with(loaded, after, expiry)
            self._reach("snapshots expired")
            return Expired(expiry, tuple(paths), len(after.snapshots), took_references(loaded, after))
        raise FloeError("it changed all the time", code="FLOE-R380", place=table, remedy="")

    def remove(self, table: str, paths: tuple[str, ...]) -> int:
        removed = 0
        for _ in self.tables.remove_files(table, paths, "expired"):
            removed += 1
            self._reach("file removed")
        return removed


def _age(snapshot: Snapshot) -> SnapshotAge:
    topic_id = snapshot.summary.get(SUMMARY_CONTROL_TOPIC_ID)
    return SnapshotAge(
        snapshot.snapshot_id, snapshot.parent_id, snapshot.timestamp_ms, topic_id, operation=snapshot.operation
    )


def facts_of(metadata: Metadata) -> ExpiryFacts:
    """What an expiry is decided from, as the adapter reads it from metadata."""
    said = metadata.properties.get("history.expire.min-snapshots-to-keep")
    references = [
        Reference(name, ref.snapshot_id, ref.is_branch, None, ref.min_snapshots_to_keep)
        for name, ref in metadata.refs.items()
    ]
    return ExpiryFacts(
        expiry_rules.with_left_ms([_age(each) for each in metadata.snapshots.values()], metadata.log),
        expiry_rules.with_words_of_table(references, None, None if said is None else int(said)),
        tuple(topic_ids_in_use(metadata.properties.get(PROGRESS_PROPERTY))),
    )


def expiry_conditions(look: Metadata, expiry: Expiry) -> Asserted:
    """What the commit of an expiry is conditional on, as the adapter asks for it."""
    refs = {name: ref.snapshot_id for name, ref in look.refs.items()}
    return Asserted(look.uuid, refs, as_seen=(frozenset(look.refs), frozenset(expiry.expired)))


def went_with(look: Metadata, after: Metadata, expiry: Expiry) -> list[str]:
    """The files that went with the commit which made the metadata `after`; `look` is what was decided from."""
    before = after.before
    if before is None or after.uuid != look.uuid:
        return []
    references = {name: ref.snapshot_id for name, ref in before.refs.items()}
    every = [expiring(each) for each in before.snapshots.values()]
    gone, stays = removed_files.gone_and_stays(every, after.snapshots.keys(), references, after.refs.keys())
    return removed_files.only_theirs(gone, stays, Files(before), ())


def took_references(look: Metadata, after: Metadata) -> bool:
    before = after.before
    return before is None or after.uuid != look.uuid or not before.refs.keys() <= after.refs.keys()


def expiring(snapshot: Snapshot) -> ExpiringSnapshot:
    said = snapshot.summary
    is_own = ("floe.commit-id" in said or "floe.maintenance" in said) and "floe.recovery" not in said
    return ExpiringSnapshot(_age(snapshot), is_own, snapshot.manifest_list, snapshot.manifest_list)


class Files:
    """What the snapshots of some metadata list."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._files = {m.path: m.files for each in metadata.snapshots.values() for m in each.manifests}

    def manifests(self, snapshot_id: int) -> Iterable[ListedManifest]:
        for each in self._metadata.snapshots[snapshot_id].manifests:
            may_remove = any(file.removed_by is not None for file in each.files)
            yield ListedManifest(each.path, each.added_by, may_remove, False)

    def entries(self, manifest: ListedManifest) -> Iterable[ListedFile]:
        return (ListedFile(file.path, file.removed_by) for file in self._files[manifest.path])


__all__ = ["Care", "World", "expiring", "expiry_conditions", "facts_of", "went_with"]
