"""The table commit: files and progress into one Iceberg snapshot, conditional on what was examined.

In: a `CommitTable` effect. Out: `Committed`, `CommitConflict` or `CommitFailed`. Keeps invariants 3, 4 and 7: progress
moves only in the commit that adds the files; the catalog is given uuid, branch head and schema id to compare; and
whatever exception comes, the table is read back before anything is said or removed.
Updates and requirements go to `Catalog.commit_table` directly. PyIceberg's transaction would refresh and retry blindly,
and after a 409 for a commit that had been applied it deletes the live manifest list.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, NoSuchTableError
from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCurrentSchemaId,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

from framework.adapters.host.failpoints import failpoint
from framework.adapters.iceberg.commits.conditions import (
    is_copied,
    numbering,
    remembered_after,
    why_changed,
    why_unsupported,
)
from framework.adapters.iceberg.commits.manifest_lists import ManifestLists
from framework.adapters.iceberg.commits.new_snapshot import (
    branch_updates,
    iceberg_files,
    kinds_of,
    parent_of,
    snapshot_of,
)
from framework.adapters.iceberg.files import missing_of, moment
from framework.adapters.iceberg.private.deletes.deletion_vectors import Positions
from framework.adapters.iceberg.private.live_files import (
    LiveFiles,
    UnreadFiles,
    UnsupportedDeletes,
    check_formats,
    live_files,
)
from framework.adapters.iceberg.private.manifests import SnapshotFiles, WrittenSnapshot, to_iceberg
from framework.adapters.iceberg.private.replaced_files import ReplacedFiles
from framework.adapters.iceberg.private.snapshot_id import new_snapshot_id
from framework.adapters.iceberg.supported_tables import unreadable, unwritable
from framework.adapters.iceberg.upsert.order import mark_at_head
from framework.adapters.iceberg.upsert.rows_to_delete import rows_to_delete
from framework.adapters.iceberg.upsert.target import remedy_for_deletes, remedy_for_files, unread_deletes
from framework.adapters.iceberg.views import head_of, view_of
from framework.adapters.secrets import hidden
from framework.commit.deleted_keys import (
    DELETED_KEYS_PROPERTY,
    deleted_keys_summary,
    text_of,
)
from framework.commit.events.event_types import DataFile as CommittedFile
from framework.commit.file_ages import ClockReading, stood_still
from framework.commit.machine.effects import (
    OUTCOME_UNKNOWN,
    CommitConflict,
    CommitFailed,
    CommitTable,
    Committed,
    FailureCause,
    FilesGone,
    RecoverTable,
)
from framework.commit.machine.progress.recorded import (
    PROGRESS_PROPERTY,
    SUMMARY_COMMIT_ID,
    SUMMARY_KEY,
    key_text,
    made_in,
    merge,
    summary,
)
from framework.config.names.table_names import identifier_of

log = logging.getLogger(__name__)
# What a rollback's commit sets and takes away again on the snapshot that it builds on.
_HELD = "floe.held"

# Writes anew, without the rows at these positions, the live data files that hold them; the last word names the commit.
Copies = Callable[
    [FileIO, TableMetadata, str, Mapping[str, str], LiveFiles, Mapping[str, Positions], str], Iterable[CommittedFile]
]
# What no store raises: Python's errors of programs, of which Arrow's for what it cannot do are some.
_OF_FLOE = (TypeError, AttributeError, LookupError, NotImplementedError, AssertionError, NameError, ArithmeticError)
Outcome = Committed | CommitConflict | FilesGone | CommitFailed


@dataclass(frozen=True)
class _Attempt:
    """One snapshot, written but not yet committed; `paths` are all its files of metadata. `began` is before the first of its
    files, of metadata or of data, was written or looked for."""

    snapshot: Snapshot
    written: WrittenSnapshot
    paths: tuple[str, ...]
    began: ClockReading


class TableCommits:
    """Commits to the tables of one catalog. Safe for threads; two commits to one table are settled by the catalog."""

    def __init__(
        self, catalog: Catalog, io_properties: Callable[[Table], Mapping[str, str]] = lambda table: {}
    ) -> None:
        """`io_properties` gives what data files of a table are written with."""
        self._catalog = catalog
        self._io_properties = io_properties
        self.lists = ManifestLists()

    def commit(self, effect: CommitTable, examined: Table | None = None, copies: Copies | None = None) -> Outcome:
        """Append the effect's files and record its progress, or say for certain, after reading back, why not.

        Args:
            examined: the table from which the effect's view was taken, where it is still at hand.
            copies: needed where rows go by copies of their files.
        """
        began = moment()
        try:
            table = examined or self._catalog.load_table(identifier_of(effect.table))
            settled = self._settled(effect, table.metadata, None)
            if settled is not None:
                return settled
            if (reason := unwritable(table.metadata, self._catalog)) is not None:
                return CommitFailed(effect.table, effect.commit_id, reason, FailureCause.REFUSED)
            if effect.view.branch != MAIN_BRANCH and head_of(table.metadata, MAIN_BRANCH) is None:
                table = self._with_main(table)
        except NoSuchTableError:
            return CommitConflict(effect.table, effect.commit_id, "the table does not exist")
        except Exception as error:  # nothing of this commit was sent yet: it is certainly not in the table
            said = unreadable(error) or f"the table cannot be loaded: {_words(error)}"
            return CommitFailed(effect.table, effect.commit_id, said)
        reason = why_unsupported(effect, table.metadata)
        if reason is not None:
            return CommitFailed(effect.table, effect.commit_id, reason, FailureCause.REFUSED)
        try:
            # Without its keys a batch cannot be committed at all, so they are looked for however young they are.
            looked_for = dict.fromkeys((*effect.examine, *(path for one in effect.keyed for path in one.paths)))
            missing = missing_of(table.io, looked_for)
        except Exception as error:  # each store has exceptions of its own, and nothing was sent yet
            said = f"it is unclear whether its files exist: {_words(error)}"
            return CommitFailed(effect.table, effect.commit_id, said, FailureCause.STORE)
        if missing:
            return FilesGone(effect.table, effect.commit_id, missing)
        snapshot_id = new_snapshot_id()
        files = ReplacedFiles(table.metadata, table.io, snapshot_id)
        try:
            attempt = self._write(effect, table, files, snapshot_id, copies, began)
        except UnsupportedDeletes as error:  # another engine's, since the batch looked
            self.remove(table.io, files.written)
            said = f"{unread_deletes(error)}; {remedy_for_deletes(effect.table)}"
            return CommitFailed(effect.table, effect.commit_id, said, FailureCause.REFUSED)
        except UnreadFiles as error:  # as well
            self.remove(table.io, files.written)
            said = f"{error}; {remedy_for_files(effect.table)}"
            return CommitFailed(effect.table, effect.commit_id, said, FailureCause.REFUSED)
        except Exception as error:  # the catalog has heard of none of these files: they can go
            self.remove(table.io, files.written)
            if examined is not None and (settled := self._settled_now(effect)) is not None:
                return settled
            if isinstance(error, _OF_FLOE):
                said = f"floe failed to make the commit, which is no fault of the store: {_words(error)}"
                return CommitFailed(effect.table, effect.commit_id, said, FailureCause.FLOE)
            said = f"metadata could not be written: {_words(error)}"
            return CommitFailed(effect.table, effect.commit_id, said, FailureCause.STORE)
        failpoint("manifests-written")
        return self._send(effect, table, attempt)

    def apply(
        self,
        table: Table,
        requirements: Sequence[TableRequirement],
        updates: Sequence[TableUpdate],
        began: ClockReading | None = None,
    ) -> Table:
        """`Catalog.commit_table`, then the old metadata files that the table's own limits no longer keep are removed.

        Args:
            began: before the files that it adds, of data and of metadata, were looked for or written.

        Raises:
            CommitFailedException: the catalog was not asked, since some of these files may be gone by now.
            CommitStateUnknownException: the catalog answers that it committed, with a table that lacks the snapshot.
            Exception: whatever the catalog raises; the outcome is then unknown to the caller (invariant 7).
        """
        # Invariant 12: nobody refers to these files yet, so a process that slept for days finds them removed as orphans.
        if began is not None and stood_still(began, moment()):
            raise CommitFailedException("this process stood still until its files may have gone as orphans")
        response = self._catalog.commit_table(table, tuple(requirements), tuple(updates))
        added = {each.snapshot.snapshot_id for each in updates if isinstance(each, AddSnapshotUpdate)}
        if not added <= {each.snapshot_id for each in response.metadata.snapshots}:
            # Some servers swallow an error of their own, and answer with the table as it was.
            raise CommitStateUnknownException("it answered that it did, without the snapshot")
        if isinstance(self._catalog, MetastoreCatalog):
            # A direct commit keeps all old files. Only entries that have left the metadata log go, and only after a
            # commit that is certain. A REST server does this by itself.
            self._catalog._delete_old_metadata(table.io, table.metadata, response.metadata)
        return Table(table.name(), response.metadata, response.metadata_location, table.io, self._catalog, table.config)

    # ---- before the commit ------------------------------------------------------------------------------------------

    def _with_main(self, table: Table) -> Table:
        """A table with a main branch. A first commit to another branch of an empty table is refused, so main comes
        first, with an empty snapshot; another writer may do the same at the same time, which serves as well."""
        snapshot_id, began = new_snapshot_id(), moment()
        files = SnapshotFiles(table.metadata, table.io, snapshot_id)
        written = files.write(None, (), ())
        snapshot = snapshot_of(table.metadata, snapshot_id, None, written, (), {})
        try:
            requirements = (
                AssertTableUUID(uuid=table.metadata.table_uuid),
                AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=None),
            )
            table = self.apply(table, requirements, branch_updates(table.metadata, MAIN_BRANCH, snapshot), began)
        except Exception:  # invariant 7: whatever it was, what counts is whether main is there now
            again = self._catalog.load_table(table.name())
            if head_of(again.metadata, MAIN_BRANCH) is None:
                raise
            return again
        self.lists.remember(table.metadata, MAIN_BRANCH, written)
        return table

    def _write(
        self,
        effect: CommitTable,
        table: Table,
        files: ReplacedFiles,
        snapshot_id: int,
        copies: Copies | None,
        began: ClockReading,
    ) -> _Attempt:
        metadata = table.metadata
        added = iceberg_files(effect, metadata)
        parent = parent_of(effect, metadata)
        listed = self.lists.of(table, parent, effect.view.branch) if parent else ()
        live, deletes = None, None
        if effect.keyed:
            live = live_files(
                table.io, listed, metadata.format_version, {each for one in effect.keyed for each in one.key_ids}
            )
            check_formats(live)
            deletes = rows_to_delete(table.io, metadata, effect.view.branch, live, effect.keyed)
        if live is not None and deletes is not None and parent is not None and is_copied(effect):
            assert copies is not None
            for file in copies(
                table.io, metadata, effect.table, self._io_properties(table), live, deletes, effect.commit_id
            ):
                files.written.append(file.path)  # as the manifests: they go where the commit is refused
                added.append(to_iceberg(file, kinds_of(metadata, file.spec_id)))
            replaced = {path: live.by_path[path] for path in deletes}
            written = files.write_replacement(parent.snapshot_id, listed, added, replaced)
        else:
            written = files.write(parent.snapshot_id if parent else None, listed, added, deletes, live)
        own = summary(effect.progress, effect.commit_id, effect.valid_through_ms)
        mark = mark_at_head(metadata, effect.view.branch)
        own |= deleted_keys_summary(metadata.properties.get(DELETED_KEYS_PROPERTY), effect.keyed, mark)
        if effect.keyed:
            own[SUMMARY_KEY] = key_text(effect.keyed[0].key_ids)
        if isinstance(effect, RecoverTable):
            own |= effect.notes
        snapshot = snapshot_of(metadata, snapshot_id, parent, written, added, own)
        return _Attempt(snapshot, written, tuple(files.written), began)

    # ---- the commit and its outcome ---------------------------------------------------------------------------------

    def _send(self, effect: CommitTable, table: Table, attempt: _Attempt) -> Outcome:
        metadata = table.metadata
        # Invariant 4: the table, the branch head (also "none yet") and the schema that the decision was made from.
        requirements = (
            AssertTableUUID(uuid=metadata.table_uuid),
            AssertRefSnapshotId(ref=effect.view.branch, snapshot_id=effect.view.snapshot_id),
            AssertCurrentSchemaId(current_schema_id=effect.view.schema_id),
        )
        # Invariant 3: progress moves in the same commit that adds the files.
        properties = {PROGRESS_PROPERTY: merge(metadata.properties.get(PROGRESS_PROPERTY), effect.progress)}
        # What is remembered of deleted keys changes in the commit that deletes them.
        if (remembered := remembered_after(effect, metadata)) is not None:
            properties[DELETED_KEYS_PROPERTY] = text_of(remembered)
        if isinstance(effect, RecoverTable):
            properties |= effect.properties
        binds = effect.view.branch == MAIN_BRANCH and (not isinstance(effect, RecoverTable) or effect.binds)
        if binds and (number := attempt.snapshot.sequence_number):
            text = properties[PROGRESS_PROPERTY]
            properties[PROGRESS_PROPERTY] = made_in(text, effect.progress.control_topic_id, number)
        updates: tuple[TableUpdate, ...] = (
            *branch_updates(metadata, effect.view.branch, attempt.snapshot),
            SetPropertiesUpdate(updates=properties),
        )
        if isinstance(effect, RecoverTable) and effect.onto is not None:
            # Catalogs take a snapshot whose parent has expired, with its files, and refuse a tag on one that is gone.
            held = SetSnapshotRefUpdate(
                ref_name=_HELD,
                type=SnapshotRefType.TAG,
                snapshot_id=effect.onto,
                max_ref_age_ms=None,
                max_snapshot_age_ms=None,
                min_snapshots_to_keep=None,
            )
            updates = (held, RemoveSnapshotRefUpdate(ref_name=_HELD), *updates)
        try:
            after = self.apply(table, requirements, updates, attempt.began)
        except Exception as error:  # invariant 7: whatever it was, the table says what came of it
            return self._read_back(effect, table, attempt, error)
        # Nothing refers to files of keys, and whoever else tries this commit is refused before it reads them.
        self.remove(table.io, _key_paths(effect))
        self.lists.remember(metadata, effect.view.branch, attempt.written)
        return _committed(effect, after.metadata, attempt.snapshot)

    def _read_back(self, effect: CommitTable, before: Table, attempt: _Attempt, error: Exception) -> Outcome:
        """Invariant 7: whatever the exception says, look for the snapshot first; until then no file goes."""
        try:
            now = self._catalog.load_table(identifier_of(effect.table))
        except NoSuchTableError:
            return CommitConflict(effect.table, effect.commit_id, "the table does not exist")
        except Exception as second:  # unknown for now, which is said as it is
            reason = f"{OUTCOME_UNKNOWN} ({_words(error)}) and the table cannot be read back now ({_words(second)})"
            return CommitFailed(effect.table, effect.commit_id, reason, FailureCause.UNKNOWN)
        settled = self._settled(effect, now.metadata, attempt.snapshot.snapshot_id)
        # Refused, not found, and its conditions hold no longer: this attempt can never appear, so its files may go.
        refused = isinstance(settled, CommitConflict) and isinstance(error, CommitFailedException)
        if refused and not self._in_use(attempt.paths, before.metadata, now, effect.view.branch):
            self.remove(before.io, attempt.paths)
        if settled is not None:
            return settled
        if numbering(now.metadata) != numbering(before.metadata):
            reason = "the table was changed while its branch stayed or came back: snapshots are numbered anew"
            return CommitConflict(effect.table, effect.commit_id, reason)
        said = f"the catalog did not commit: {_words(error)}"
        return CommitFailed(effect.table, effect.commit_id, said, FailureCause.REFUSED)

    def _settled(self, effect: CommitTable, metadata: TableMetadata, snapshot_id: int | None) -> Outcome | None:
        """What the table says about this commit: it is in, or its conditions are gone; None when it may go on."""
        reason = why_changed(effect, metadata)
        if reason is None:
            return None
        for snapshot in reversed(metadata.snapshots):
            own = snapshot.summary.additional_properties.get(SUMMARY_COMMIT_ID) if snapshot.summary else None
            if snapshot.snapshot_id == snapshot_id or own == effect.commit_id:
                return _committed(effect, metadata, snapshot)
        return CommitConflict(effect.table, effect.commit_id, reason)

    def _settled_now(self, effect: CommitTable) -> Outcome | None:
        """What the table itself says, where the one at hand names files that are gone since; None if it is as it was, or
        cannot be asked."""
        try:
            return self._settled(effect, self._catalog.load_table(identifier_of(effect.table)).metadata, None)
        except Exception as error:  # each catalog has exceptions of its own, and the first error is the one to report
            log.info("table %s could not be looked at again: %s", effect.table, error)
            return None

    def _in_use(self, written: Sequence[str], before: TableMetadata, now: Table, branch: str) -> bool:
        """Whether a snapshot that came meanwhile lists one of these manifests: then our commit did land, was built
        upon, and has been expired already."""
        known = {snapshot.snapshot_id for snapshot in before.snapshots}
        new = [snapshot for snapshot in now.metadata.snapshots if snapshot.snapshot_id not in known]
        try:
            listed = {manifest.manifest_path for each in new for manifest in self.lists.of(now, each, branch)}
        except Exception as error:  # what cannot be found out counts as in use
            log.warning("metadata files of a refused commit to %s were not removed: %s", ".".join(now.name()), error)
            return True
        return not listed.isdisjoint(written)

    @staticmethod
    def remove(io: FileIO, paths: Sequence[str]) -> None:
        """Remove files that nothing can refer to. One that stays is a mere orphan, so a failure is only reported."""
        for path in paths:
            try:
                io.delete(path)
            except FileNotFoundError:
                continue  # it was named, and writing it failed
            except Exception as error:  # each store has exceptions of its own
                log.warning("metadata file %s of a refused commit was not removed: %s", path, error)


def _key_paths(effect: CommitTable) -> list[str]:
    return [file.path for one in effect.keyed for file in one.keys]


def _committed(effect: CommitTable, metadata: TableMetadata, snapshot: Snapshot) -> Committed:
    view = view_of(effect.table, metadata, effect.view.branch, effect.progress.control_topic_id)
    return Committed(effect.table, effect.commit_id, view, snapshot.snapshot_id, snapshot.timestamp_ms)


def _words(error: Exception) -> str:
    """An exception in one line: SQLAlchemy's carry the statement and a link on further lines."""
    first = (str(error).strip() or "no further words").splitlines()[0]
    return hidden(f"{type(error).__name__}: {first}")
