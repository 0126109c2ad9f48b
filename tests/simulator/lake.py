"""Tables as floe's adapters show them: the simulated catalog and store behind the methods that decisions are carried out
by.

In: effects and questions of floe's own code. Out: what `framework.adapters.iceberg` answers, with outcomes that stay
unknown where the act says so. Whoever asks does so by the clock of the machine that is at work.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from framework.adapters.iceberg.files import TablePlace, TableReferences
from framework.adapters.iceberg.snapshots import EXPIRED
from framework.commit.events.event_types import SourceRange
from framework.commit.file_ages import ClockReading, stood_still
from framework.commit.machine.effects import (
    CommitConflict,
    CommitFailed,
    CommitTable,
    Committed,
    ExaminedTable,
    FilesGone,
    RecordedTable,
    RecoverTable,
)
from framework.commit.machine.progress.recorded import (
    MISSING_PROPERTY,
    PROGRESS_PROPERTY,
    filled_from,
    made_at,
    made_in,
    merge,
    summary,
)
from framework.commit.recovery.orphans import StoredFile
from framework.commit.recovery.rollback import RollbackFacts, SnapshotFacts
from framework.errors import FloeError, StateDisagreement
from tests.simulator.catalog import (
    MAIN,
    Asserted,
    Catalog,
    Metadata,
    Refused,
    Snapshot,
    Update,
    is_moved,
    known_topics,
    made_snapshot,
    mark_of,
    progress_of,
    progress_said,
    view_of,
)
from tests.simulator.ports import Machine, Store, root_of

PLACES_FOR_MS = 300_000
CONFLICTS = 5
Outcome = Committed | CommitConflict | CommitFailed | FilesGone


class Witness(Protocol):
    """Who sees what happens to tables and files, and says what must not be."""

    def committed(self, name: str, before: Metadata, after: Metadata, by_floe: bool) -> None: ...

    def removing(self, name: str, path: str, why: str) -> None: ...

    def reach(self, where: str) -> None: ...


@dataclass(frozen=True)
class Late:
    """A request whose sender heard nothing of it, and which may still be applied until `until_ms`."""

    effect: CommitTable
    until_ms: int


class Lake:
    """`rows` are the records of each data file; `unloadable` are names of tables whose metadata cannot be read now."""

    catalogs = ("default",)

    def __init__(self, catalog: Catalog, store: Store, witness: Witness, rows: dict[str, int]) -> None:
        self.catalog, self.store, self.witness, self.rows = catalog, store, witness, rows
        self.unloadable: set[str] = set()
        self.tells_time = True
        self.machine = Machine(store.time)
        self.late: list[Late] = []
        self._numbers = 0
        self._places: tuple[int, dict[str, TablePlace]] = (-PLACES_FOR_MS, {})

    # ---- what is asked

    def load(self, name: str) -> Metadata | None:
        """Raises FloeError where the table cannot be loaded now."""
        if name in self.unloadable:
            raise FloeError(f"table {name} cannot be loaded", code="FLOE-R135", place=name, remedy="wait")
        return self.catalog.tables.get(name)

    def load_view(self, table: str, branch: str, control_topic_id: str) -> ExaminedTable | None:
        loaded = self.load(table)
        return None if loaded is None else view_of(table, loaded, control_topic_id)

    def load_recorded(self, table: str, branch: str, control_topic_id: str) -> RecordedTable | None:
        loaded = self.load(table)
        if loaded is None:
            return None
        properties = loaded.properties
        view = view_of(table, loaded, control_topic_id)
        return RecordedTable(view, properties.get(PROGRESS_PROPERTY), properties.get(MISSING_PROPERTY))

    def load_history(self, table: str, branch: str, control_topic_id: str) -> RollbackFacts | None:
        loaded = self.load(table)
        if loaded is None:
            return None
        line = loaded.line(loaded.head.snapshot_id) if loaded.head is not None else []
        ids = {each.snapshot_id for each in line}
        headed = {snapshot_id: (at, ms) for at, (snapshot_id, ms) in enumerate(loaded.log)}
        return RollbackFacts(
            table,
            control_topic_id,
            progress_of(loaded.properties.get(PROGRESS_PROPERTY), control_topic_id),
            tuple(_facts(each, headed.get(each.snapshot_id)) for each in line),
            tuple(_facts(e, headed.get(e.snapshot_id)) for e in loaded.snapshots.values() if e.snapshot_id not in ids),
            not line or _parent_of(line[-1]) is None,
            loaded.uuid,
            is_moved(loaded, control_topic_id),
            made_at=made_at(loaded.properties.get(PROGRESS_PROPERTY), control_topic_id),
        )

    def list_tables(self, catalogs: Collection[str] = ()) -> list[str]:
        return sorted(self.catalog.tables)

    def added_paths(self, table: str, snapshot_ids: Collection[int]) -> frozenset[str]:
        loaded = self.load(table)
        snapshots = loaded.snapshots if loaded is not None else {}
        return frozenset(
            file.path
            for number in snapshot_ids
            if (snapshot := snapshots.get(number)) is not None
            for manifest in snapshot.manifests
            if manifest.added_by == number
            for file in manifest.live
            if file.added_by == number
        )

    def rows_in(self, table: str, ranges: Collection[SourceRange], snapshot_id: int | None = None) -> int | None:
        """Answered by whoever knows the pipelines; see `counts`."""
        loaded = self.load(table)
        seen = None if loaded is None else loaded.head if snapshot_id is None else loaded.snapshots.get(snapshot_id)
        return 0 if seen is None else (seen.rows & self.wanted(table, ranges)).bit_count()

    wanted: Callable[[str, Collection[SourceRange]], int] = staticmethod(lambda table, ranges: 0)

    def missing_files(self, table: str, paths: Iterable[str]) -> tuple[str, ...]:
        self.load(table)
        return tuple(path for path in paths if not self.store.holds(path))

    # ---- places and files

    def place(self, table: str) -> TablePlace | None:
        loaded = self.load(table)
        return None if loaded is None else self.place_of(loaded)

    def place_of(self, metadata: Metadata) -> TablePlace:
        filled = filled_from(metadata.properties)
        topics = frozenset(known_topics(metadata.properties.get(PROGRESS_PROPERTY)))
        return TablePlace(metadata.uuid, (metadata.location,), topics, filled)

    def places(self) -> tuple[dict[str, TablePlace], dict[str, FloeError]]:
        found, silent = {}, {}
        for name in sorted(self.catalog.tables):
            try:
                loaded = self.load(name)
            except FloeError as error:
                silent[name] = error
            else:
                found.update({name: self.place_of(loaded)} if loaded is not None else {})
        return found, silent

    def references(self, table: str) -> TableReferences | None:
        loaded = self.load(table)
        if loaded is None:
            return None
        found: set[str] = set()
        for snapshot in loaded.snapshots.values():
            found |= snapshot.reach
            for manifest in snapshot.manifests:
                found.update(f.path for f in manifest.files if f.removed_by in loaded.snapshots)
        return TableReferences(loaded.uuid, frozenset(found), "", filled_from(loaded.properties))

    def stored_files(self, table: str, locations: Collection[str]) -> list[StoredFile]:
        self.load(table)
        return [file for root in locations for file in self.store.files(root)]

    def foreign_metadata(self, table: str, files: Iterable[StoredFile]) -> str | None:
        return None

    def store_now_ms(self, table: str) -> int | None:
        return self.store.time.now_ms if self.tells_time else None

    def forget_places(self) -> None:
        self._places = (-PLACES_FOR_MS, {})

    def outdate_requests(self, table: str, branches: Mapping[str, str]) -> None:
        """As the adapter, where all pipelines write main: a new head with the same files."""
        for _ in range(CONFLICTS):
            loaded = self.load(table)
            if loaded is None or loaded.head is None or not (said := progress_said(loaded)):
                return
            own = {"floe.maintenance": "manifests", **said}
            made = self.new_snapshot(loaded, loaded.head, {}, {}, "replace", own)
            asserted = Asserted(loaded.uuid, {MAIN: loaded.head.snapshot_id}, loaded.schema_id)
            try:
                self.apply(table, asserted, Update(made), self.machine.moment())
            except Refused:
                continue
            return
        raise FloeError("it changed all the time", code="FLOE-R371", place=table, remedy="")

    def remove_files(self, table: str, locations: Iterable[str], why: str = "orphan") -> Iterator[str]:
        """As the adapter: files that lie in another table's place, too, stay."""
        loaded = self.load(table)
        if loaded is None:
            return
        if self.store.time.now_ms - self._places[0] > PLACES_FOR_MS:
            self._places = self.store.time.now_ms, self.places()[0]
        shared = any(name != table and loaded.location in place.roots for name, place in self._places[1].items())
        for path in locations:
            if shared or root_of(path) != loaded.location:
                continue
            self.witness.removing(table, path, why)
            try:
                self.store.remove(path)
            except FileNotFoundError:
                continue
            yield path

    # ---- commits

    def new_snapshot(
        self,
        metadata: Metadata,
        parent: Snapshot | None,
        added: dict[str, int],
        removed: dict[str, int],
        operation: str,
        said: dict[str, str],
    ) -> Snapshot:
        self._numbers += 1
        root = metadata.location
        write = lambda name: self.store.write(root, name)  # noqa: E731
        return made_snapshot(
            metadata, self._numbers, parent, self.machine.wall_ms, added, removed, write, operation, said
        )

    def apply(
        self, name: str, asserted: Asserted, update: Update, began: ClockReading | None, by_floe: bool = True
    ) -> Metadata:
        """One request to the catalog.

        Raises:
            Refused: it was not made.
        """
        if began is not None and stood_still(began, self.machine.moment()):
            raise Refused("this process stood still")
        self.store.time.now_ms += 1
        before = self.catalog.tables.get(name)
        after = self.catalog.commit(name, asserted, update)
        assert before is not None
        self.witness.committed(name, before, after, by_floe)
        return after

    def commit(self, effect: CommitTable, outcome: str = "sound") -> Outcome:
        """`outcome`: sound; lost (made, and it cannot be read back); late (perhaps made later); failed (not made)."""
        name, commit_id, began = effect.table, effect.commit_id, self.machine.moment()
        try:
            loaded = self.load(name)
        except FloeError as error:
            return CommitFailed(name, commit_id, error.message)
        if loaded is None:
            return CommitConflict(name, commit_id, "the table does not exist")
        if (settled := self._settled(effect, loaded)) is not None:
            return settled
        if isinstance(effect, RecoverTable) and effect.onto is not None and effect.onto not in loaded.snapshots:
            return CommitFailed(name, commit_id, "it no longer has the snapshot")
        if missing := self.missing_files(name, effect.examine):
            return FilesGone(name, commit_id, missing)
        if outcome == "failed":
            return CommitFailed(name, commit_id, "503")
        self.witness.reach("files looked for")
        if outcome == "late":
            self.late.append(Late(effect, self.store.time.now_ms + 600_000))
            return CommitFailed(name, commit_id, "no answer")
        try:
            self._send(effect, loaded, began)
        except Refused as error:
            now = self.catalog.tables.get(name)
            settled = self._settled(effect, now) if now is not None else CommitConflict(name, commit_id, "gone")
            return settled or CommitFailed(name, commit_id, str(error))
        except StateDisagreement as error:
            return CommitFailed(name, commit_id, error.message)
        if outcome == "lost":
            return CommitFailed(name, commit_id, "outcome unknown")
        now = self.catalog.tables[name]
        return self._settled(effect, now) or CommitFailed(name, commit_id, "not there")

    def arrive(self, number: int) -> None:
        """A request that was under way reaches the catalog; after some minutes nobody waits for it any more."""
        late = self.late.pop(number)
        loaded = self.catalog.tables.get(late.effect.table)
        if loaded is None or late.until_ms < self.store.time.now_ms or self._settled(late.effect, loaded) is not None:
            return
        try:
            self._send(late.effect, loaded, None)
        except (Refused, StateDisagreement):
            return

    def _send(self, effect: CommitTable, loaded: Metadata, began: ClockReading | None) -> None:
        view = effect.view
        parent = loaded.head
        said = summary(effect.progress, effect.commit_id, effect.valid_through_ms)
        text = merge(loaded.properties.get(PROGRESS_PROPERTY), effect.progress)
        properties = {PROGRESS_PROPERTY: text}
        now = self.catalog.tables[effect.table]
        if isinstance(effect, RecoverTable) and effect.onto is not None and effect.onto not in now.snapshots:
            raise Refused("the branch cannot be set to a snapshot that is not there")
        if isinstance(effect, RecoverTable):
            parent = loaded.snapshots[effect.onto] if effect.onto is not None else parent
            said |= effect.notes
            properties |= effect.properties
        added = {file.path: self.rows[file.path] for file in effect.files}
        snapshot = self.new_snapshot(loaded, parent, added, {}, "append", said)
        if not isinstance(effect, RecoverTable) or effect.binds:
            text = made_in(properties[PROGRESS_PROPERTY], effect.progress.control_topic_id, snapshot.sequence)
            properties[PROGRESS_PROPERTY] = text
        asserted = Asserted(view.table_uuid, {MAIN: view.snapshot_id}, view.schema_id)
        self.apply(effect.table, asserted, Update(snapshot, properties=properties), began)

    def _settled(self, effect: CommitTable, now: Metadata) -> Outcome | None:
        view, head = effect.view, now.refs.get(MAIN)
        progress = progress_of(now.properties.get(PROGRESS_PROPERTY), effect.progress.control_topic_id)
        if (
            now.uuid == view.table_uuid
            and (None if head is None else head.snapshot_id) == view.snapshot_id
            and now.schema_id == view.schema_id
            and progress == view.progress
        ):
            return None
        for snapshot in now.snapshots.values():
            if snapshot.summary.get("floe.commit-id") == effect.commit_id:
                after = view_of(effect.table, now, effect.progress.control_topic_id)
                return Committed(effect.table, effect.commit_id, after, snapshot.snapshot_id, snapshot.timestamp_ms)
        return CommitConflict(effect.table, effect.commit_id, "it has changed")


def _parent_of(snapshot: Snapshot) -> int | None:
    return EXPIRED if snapshot.parent_id is None and snapshot.sequence > 1 else snapshot.parent_id


def _facts(snapshot: Snapshot, headed: tuple[int, int] | None) -> SnapshotFacts:
    mark = mark_of(snapshot)
    said = snapshot.summary
    return SnapshotFacts(
        snapshot.snapshot_id,
        _parent_of(snapshot),
        snapshot.timestamp_ms,
        snapshot.operation,
        snapshot.added_rows,
        None if mark is None else mark[1],
        None if mark is None else mark[0],
        said.get("floe.recovery") or said.get("floe.maintenance"),
        None if headed is None else headed[1],
        -1 if headed is None else headed[0],
        snapshot.sequence,
    )


def outcome_of(chance: int) -> str:
    """Most commits end well."""
    return ("lost", "late", "failed", *("sound",) * 12)[chance % 15]
