"""What must hold over a whole history, checked by facts of the simulated world alone.

In: each commit to a table, each removal of a file, and what people give up or ask for by name. Out: a `Fault` at the
first thing that must not be. Nothing here asks a decision of floe's: records are bits of whole numbers, files are names,
and times are true ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from framework.config.values.maintenance import MaintenanceMode, MaintenancePolicy
from tests.simulator.catalog import MAIN, Catalog, Metadata, Snapshot
from tests.simulator.ports import Log, Positions, Store, Time


class Fault(AssertionError):
    """Something that must not be."""


@dataclass
class Truth:
    """What is true of one table, by its uuid.

    `announced`: records that were announced for it. `waiting`: announced files that are in no snapshot yet, with their
    records. `given_up`: records that a person gave up by name; `consented`: those that a person wanted again although
    the table may hold them. `unsettled`: somebody else moved its branch, and nobody has settled that.
    """

    announced: int = 0
    waiting: dict[str, int] = field(default_factory=dict)
    given_up: int = 0
    consented: int = 0
    had: int = 0  # while unsettled: what was in it before, and its heads then
    had_heads: list[int] = field(default_factory=list)
    either: int = 0  # given up with what came by another control topic, where it may be wanted again
    deleted: int = 0  # by others
    unsettled: bool = False
    fillers: dict[str, int] = field(default_factory=dict)  # pipelines whose records are in it, and since when
    added: dict[int, int] = field(default_factory=dict)  # by floe: in which snapshot, which records
    parents: dict[int, int | None] = field(default_factory=dict)  # of all snapshots that ever were
    born_ms: dict[int, int] = field(default_factory=dict)  # of snapshots, true times
    left_ms: dict[int, int] = field(default_factory=dict)  # when they ceased to be head
    unsure: set[int] = field(default_factory=set)  # what replaced them was dated by a clock that was behind
    tags: dict[str, Snapshot] = field(default_factory=dict)  # that people set and did not remove
    shared_since_ms: int | None = None  # gc.enabled is false
    fewest_since_ms: tuple[int, int] | None = None  # min-snapshots-to-keep: since when, and how many

    @property
    def under_way(self) -> int:
        found = 0
        for rows in self.waiting.values():
            found |= rows
        return found


@dataclass
class Work:
    """What floe is doing to a table now: since when, and who."""

    began_ms: int
    known: frozenset[str]  # pipelines whose plans are known to whoever does it
    orphans: bool = False
    lost: list[Snapshot] = field(default_factory=list)  # whose tags went with them in one of its commits


def writer_of(path: str) -> str:
    """The pipeline that wrote a file, by its name."""
    return path.rpartition("/")[2].split("-")[1].partition(".")[0]


class Oracle:
    """`policies` are what pipelines say of maintenance; `lacking` reads a table's own list of what it lacks."""

    def __init__(
        self,
        time: Time,
        catalog: Catalog,
        store: Store,
        positions: Positions,
        logs: Mapping[str, Log],
        policies: Mapping[str, MaintenancePolicy],
        lacking: Callable[[Metadata], int],
        unread: Callable[[], int],
    ) -> None:
        self.time, self.catalog, self.store, self.positions = time, catalog, store, positions
        self.logs, self.policies, self.lacking, self.unread = logs, policies, lacking, unread
        self.truths: dict[str, Truth] = {}
        self.clones: dict[str, tuple[str, int]] = {}  # by name: the uuid that they share, and since when
        self.work: Work | None = None
        self._protected: tuple[int, set[str]] = (-1, set())

    def truth(self, uuid: str) -> Truth:
        found = self.truths.get(uuid)
        if found is None:
            found = self.truths[uuid] = Truth()
        return found

    # ---- commits

    def committed(self, name: str, before: Metadata, after: Metadata, by_floe: bool) -> None:
        truth = self.truth(after.uuid)
        for number in after.snapshots.keys() - before.snapshots.keys():
            self._made(name, truth, before, after.snapshots[number], by_floe)
        if gone := before.snapshots.keys() - after.snapshots.keys():
            self._expired(name, truth, before, gone, by_floe)
        old, new = before.refs.get(MAIN), after.refs.get(MAIN)
        if old is not None and new is not None and old.snapshot_id != new.snapshot_id:
            truth.left_ms[old.snapshot_id] = self.time.now_ms
            if after.log[-1][1] < self.time.now_ms - 60_000:
                truth.unsure.add(old.snapshot_id)
            else:
                truth.unsure.discard(old.snapshot_id)

    def _made(self, name: str, truth: Truth, before: Metadata, snapshot: Snapshot, by_floe: bool) -> None:
        truth.born_ms[snapshot.snapshot_id] = self.time.now_ms
        truth.parents[snapshot.snapshot_id] = snapshot.parent_id
        for path in snapshot.live:
            if not self.store.holds(path):
                raise Fault(f"{name}: snapshot {snapshot.snapshot_id} names {path}, which is not in the store")
        if not by_floe:
            return
        parent = before.snapshots.get(snapshot.parent_id) if snapshot.parent_id is not None else None
        added = snapshot.live - (parent.live if parent is not None else frozenset())
        rows = 0
        for path in added:
            if path in truth.waiting:
                rows |= truth.waiting.pop(path)
                truth.fillers.setdefault(writer_of(path), self.time.now_ms)
        # Also what counts as waiting no more, since a person let it be read again: it was committed before that.
        rows |= snapshot.rows & ~(parent.rows if parent is not None else 0)
        truth.added[snapshot.snapshot_id] = rows
        if truth.unsettled:
            truth.had |= rows
        if snapshot.operation == "replace" and parent is not None and parent.rows != snapshot.rows:
            raise Fault(f"{name}: a compaction changed {self.positions.names(parent.rows ^ snapshot.rows)}")
        if twice := snapshot.twice & ~truth.consented:
            raise Fault(f"{name}: twice in snapshot {snapshot.snapshot_id}: {self.positions.names(twice)}")

    def _expired(self, name: str, truth: Truth, before: Metadata, gone: Collection[int], by_floe: bool) -> None:
        if not by_floe:
            return
        work = self.work
        assert work is not None
        now, fillers = self.time.now_ms, {each for each, since in truth.fillers.items() if since < work.began_ms}
        policies = [self.policies[each] for each in fillers]
        if not fillers <= work.known:
            raise Fault(f"{name}: snapshots expired although {fillers - work.known} may want to keep them")
        if any(p.mode is MaintenanceMode.NEVER or not p.expire.enabled for p in policies):
            raise Fault(f"{name}: snapshots expired although a pipeline says that they stay")
        if truth.shared_since_ms is not None and truth.shared_since_ms < work.began_ms:
            raise Fault(f"{name}: snapshots expired although gc.enabled is false")
        if any(uuid == before.uuid and since < work.began_ms for uuid, since in self.clones.values()):
            raise Fault(f"{name}: snapshots expired although another table is registered with its files")
        strict = [p.expire for p in policies]
        lease = max((max(p.reader_lease_ms, p.rollback_window_ms) for p in strict), default=0)
        # A branch's own word is stronger than the table's.
        branches = [
            before.line(ref.snapshot_id)
            for ref in before.refs.values()
            if ref.is_branch and ref.min_snapshots_to_keep is None
        ]
        fewest = truth.fewest_since_ms
        for number in gone:
            since = max(truth.born_ms[number], truth.left_ms.get(number, 0))
            if number not in truth.unsure and now - since < lease - 120_000:
                raise Fault(
                    f"{name}: snapshot {number} expired {(now - since) // 1000} s after it was head; {lease} ms are left"
                )
            if fewest is None or fewest[0] >= work.began_ms:
                continue
            if any(number in [each.snapshot_id for each in line[: fewest[1]]] for line in branches):
                raise Fault(f"{name}: snapshot {number} expired, and {fewest[1]} are to be kept")
        for tag in [tag for tag, kept in truth.tags.items() if kept.snapshot_id in gone]:
            if self.catalog.checks_here:
                raise Fault(f"{name}: tag {tag} vanished with its snapshot {truth.tags[tag].snapshot_id}")
            work.lost.append(truth.tags.pop(tag))

    # ---- files

    def removing(self, name: str, path: str, why: str) -> None:
        """A file is removed by floe."""
        if path in self._needed(why):
            raise Fault(f"{name}: {path} is removed, and it is needed ({self._who_needs(path)})")
        if why == "orphan" and self.work is not None and self.work.orphans:
            self._orphan_policy(name)

    def _orphan_policy(self, name: str) -> None:
        metadata, work = self.catalog.tables.get(name), self.work
        if metadata is None or work is None:
            return
        known = self.truth(metadata.uuid).fillers
        fillers = {each for each, since in known.items() if since < work.began_ms}
        if any(not self.policies[each].orphans.enabled for each in fillers) or not fillers <= work.known:
            raise Fault(f"{name}: orphans are removed although a pipeline may want to keep them")

    def _needed(self, why: str) -> set[str]:
        if self._protected[0] != self.catalog.versions:
            found: set[str] = set()
            for metadata in self.catalog.tables.values():
                for snapshot in metadata.snapshots.values():
                    found |= snapshot.reach
            self._protected = self.catalog.versions, found
        found = self._protected[1]
        for truth in self.truths.values():
            if truth.waiting:
                found = found | truth.waiting.keys()
        if why == "expired" and self.work is not None:
            # A server took the tag away: for as long as no orphans are looked for, it can be registered again.
            for snapshot in self.work.lost:
                found = found | snapshot.reach
        return found

    def _who_needs(self, path: str) -> str:
        for name, metadata in self.catalog.tables.items():
            for number, snapshot in metadata.snapshots.items():
                if path in snapshot.reach:
                    return f"snapshot {number} of {name}"
        for truth in self.truths.values():
            if path in truth.waiting:
                return "an announcement"
        return "a tag that its owner did not remove"

    # ---- each step

    def check(self) -> None:
        """What must hold between two acts."""
        for name, metadata in self.catalog.tables.items():
            head = metadata.head
            truth = self.truths.get(metadata.uuid)
            if truth is None or truth.unsettled or name in self.clones:
                continue
            rows = 0 if head is None else head.rows
            if back := rows & truth.given_up & ~(truth.consented | truth.either):
                raise Fault(f"{name}: given up, and there again: {self.positions.names(back)}")
            missing = truth.announced & ~(rows | truth.given_up | truth.either)
            if missing:
                missing &= ~truth.under_way
            if missing:
                missing &= ~self.lacking(metadata)
            if missing:
                missing &= ~self.unread()
            if missing:
                raise Fault(f"{name}: lost: {self.positions.names(missing)}")

    def line(self, uuid: str, snapshot_id: int | None) -> list[int]:
        """A snapshot and all of its ancestors, whether they have expired or not."""
        found: list[int] = []
        while snapshot_id is not None:
            found.append(snapshot_id)
            snapshot_id = self.truth(uuid).parents.get(snapshot_id)
        return found

    def whole(self, name: str, never: int) -> None:
        """After everything was settled: each record that was announced is in the table, unless it was given up, or is
        one of those that can `never` be read again."""
        metadata = self.catalog.tables[name]
        truth = self.truth(metadata.uuid)
        rows = 0 if metadata.head is None else metadata.head.rows
        if missing := truth.announced & ~(rows | truth.given_up | truth.either | never):
            raise Fault(f"{name}: never came into it: {self.positions.names(missing)}")
