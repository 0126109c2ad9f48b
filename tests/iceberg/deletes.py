"""Commits that delete rows, and a check of what they leave: read as the specification says from manifest lists,
manifests and Puffin files, with fastavro and pyroaring alone, which share nothing with the writer but the bitmap's
library."""

from __future__ import annotations

import struct
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFile as Entry
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AssertRefSnapshotId
from pyroaring import BitMap64

from framework.adapters.iceberg.catalog import IcebergCatalog
from framework.adapters.iceberg.commits.new_snapshot import branch_updates, snapshot_of
from framework.adapters.iceberg.private.deletes import row_deletes
from framework.adapters.iceberg.private.live_files import LiveFiles, live_files
from framework.adapters.iceberg.private.manifests import SnapshotFiles, to_iceberg
from framework.adapters.iceberg.private.row_lineage import read_manifests
from framework.adapters.iceberg.private.snapshot_id import new_snapshot_id
from framework.adapters.iceberg.private.spec_schemas import partition_types, schema_for_spec
from framework.commit.events.event_types import DataFile
from tests.iceberg.conftest import Lake
from tests.iceberg.lineage import avro, local, raw

PATH_ID = 2147483546
Deleted = dict[str, set[int]]


class Deleter:
    """Commits data files and deletes together, in one snapshot, conditional on the head."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self._catalog, self._commits = IcebergCatalog(lake.settings, lake.name).open()

    def table(self, name: str) -> Table:
        """The table in a catalog that writes metadata of version 3, which PyIceberg's own does not."""
        return self._catalog.load_table(name)

    def live(self, name: str) -> LiveFiles:
        """What floe finds in the table now."""
        table = self._catalog.load_table(name)
        head = table.current_snapshot()
        manifests = read_manifests(table.io, head.manifest_list) if head else ()
        return live_files(table.io, manifests, table.metadata.format_version)

    def commit(
        self,
        name: str,
        deletes: Mapping[str, Iterable[int]],
        files: Sequence[DataFile] = (),
        live: LiveFiles | None = None,
        writing: Callable[[SnapshotFiles], object] = lambda files: None,
    ) -> Snapshot:
        """`writing` is shown the writer before it writes."""
        table = self._catalog.load_table(name)
        metadata, head = table.metadata, table.current_snapshot()
        manifests = read_manifests(table.io, head.manifest_list) if head else ()
        specs = metadata.specs()
        added = [
            to_iceberg(each, partition_types(specs[each.spec_id], schema_for_spec(metadata, specs[each.spec_id])))
            for each in files
        ]
        positions = {path: np.array(sorted(each), np.int64) for path, each in deletes.items()}
        snapshot_id = new_snapshot_id()
        writer = SnapshotFiles(metadata, table.io, snapshot_id)
        writing(writer)
        written = writer.write(head.snapshot_id if head else None, manifests, added, positions, live)
        snapshot = snapshot_of(metadata, snapshot_id, head, written, added, {})
        requirement = AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=head.snapshot_id if head else None)
        self._commits.apply(table, (requirement,), branch_updates(metadata, MAIN_BRANCH, snapshot))
        assert all(local(path).exists() for path in writer.written), "a path is remembered that was not written"
        return snapshot


@dataclass
class State:
    """One snapshot: live data files with partition, data sequence number and rows; live delete entries; deleted
    entries."""

    data: dict[str, tuple[int, str, int, int]] = field(default_factory=dict)
    deletes: dict[tuple[str, int | None], dict[str, Any]] = field(default_factory=dict)
    removed: dict[tuple[str, int | None], dict[str, Any]] = field(default_factory=dict)


def state(manifest_list: str, snapshot_id: int) -> State:
    found = State()
    for manifest in avro(manifest_list):
        counts: Counter[int] = Counter()
        rows: Counter[int] = Counter()
        live_numbers = []
        for entry in avro(manifest["manifest_path"]):
            file, status = entry["data_file"], entry["status"]
            counts[status] += 1
            rows[status] += file["record_count"]
            number = entry["sequence_number"]
            if number is None:
                assert status == 1, "only an added entry inherits its sequence number"
                number = manifest["sequence_number"]
            if status != 2:
                live_numbers.append(number)
            partition = str(sorted((key, str(value)) for key, value in file["partition"].items()))
            key = (file["file_path"], file.get("content_offset"))
            full = {
                **file,
                "number": number,
                "file_number": entry["file_sequence_number"] or number,
                "snapshot": entry["snapshot_id"] or manifest["added_snapshot_id"],
                "place": (manifest["partition_spec_id"], partition),
            }
            if manifest["content"] == 0:
                if status != 2:
                    found.data[file["file_path"]] = (*full["place"], number, file["record_count"])
                continue
            assert file["content"] == 1
            assert manifest["content"] == 1
            if status != 2:
                assert key not in found.deletes, "an entry stands in two manifests"
                found.deletes[key] = full
            elif full["snapshot"] == snapshot_id:
                found.removed[key] = full
        names = {1: "added", 0: "existing", 2: "deleted"}
        for status, word in names.items():
            assert manifest[f"{word}_files_count"] == counts[status]
            assert manifest[f"{word}_rows_count"] == rows[status]
        if live_numbers:
            assert manifest["min_sequence_number"] == min(live_numbers)
    return found


def vector_positions(file: Mapping[str, Any]) -> set[int]:
    """The positions of a deletion vector, and that footer, frame and entry say the same of it."""
    content = local(file["file_path"]).read_bytes()
    assert content[:4] == content[-4:] == b"PFA1"
    assert len(content) == file["file_size_in_bytes"]
    blob = content[file["content_offset"] :][: file["content_size_in_bytes"]]
    checked = blob[4:-4]
    assert struct.unpack(">i", blob[:4])[0] == len(checked)
    assert checked[:4] == bytes.fromhex("d1d33964")
    assert struct.unpack(">I", blob[-4:])[0] == zlib.crc32(checked)
    return set(BitMap64.deserialize(checked[4:]))


def file_positions(file: Mapping[str, Any]) -> Deleted:
    """By data file, the positions of a position delete file."""
    table = pq.read_table(local(file["file_path"]))
    found: Deleted = defaultdict(set)
    for path, position in zip(table["file_path"].to_pylist(), table["pos"].to_pylist(), strict=True):
        found[path].add(position)
    assert sum(map(len, found.values())) == file["record_count"]
    return dict(found)


def named_file(file: Mapping[str, Any]) -> str | None:
    if file.get("referenced_data_file") is not None:
        return str(file["referenced_data_file"])
    bounds = [
        {each["key"]: each["value"] for each in file[name] or ()} if isinstance(file[name], list) else file[name] or {}
        for name in ("lower_bounds", "upper_bounds")
    ]
    lower, upper = (each.get(PATH_ID) for each in bounds)
    return lower.decode() if lower and lower == upper else None


def deleted_in(found: State) -> Deleted:
    """By live data file, the rows that are deleted, by the specification's rules; each vector is checked."""
    vectors: dict[str, set[int]] = {}
    for file in found.deletes.values():
        if file["file_format"].upper() != "PUFFIN":
            continue
        path = file["referenced_data_file"]
        assert path not in vectors, f"{path} has two deletion vectors"
        vectors[path] = vector_positions(file)
        assert len(vectors[path]) == file["record_count"]
        if path in found.data:
            spec_id, partition, number, rows = found.data[path]
            assert file["place"] == (spec_id, partition), "a vector lies in another partition than its data file"
            assert file["number"] >= number
            assert vectors[path] <= set(range(rows))
    deleted = {path: vectors.get(path, set()) for path in found.data}
    for file in found.deletes.values():
        if file["file_format"].upper() == "PUFFIN":
            continue
        named = named_file(file)
        for path, positions in file_positions(file).items():
            assert named in (None, path)
            if path not in found.data or path in vectors:
                continue
            spec_id, partition, number, _ = found.data[path]
            if file["number"] >= number and (named == path or file["place"] == (spec_id, partition)):
                deleted[path] |= positions
    return deleted


def check(table: Table) -> Deleted:
    """Checks every snapshot beside its parent; gives what is deleted at the head.

    What is live in a parent is live with the same numbers or removed by the snapshot; totals are those of what is live;
    no row that was deleted comes back while its file stays.
    """
    metadata = raw(table)
    states = {each["snapshot-id"]: state(each["manifest-list"], each["snapshot-id"]) for each in metadata["snapshots"]}
    deleted = {snapshot_id: deleted_in(each) for snapshot_id, each in states.items()}
    for snapshot in metadata["snapshots"]:
        now, before = states[snapshot["snapshot-id"]], states.get(snapshot.get("parent-snapshot-id"))
        if before is not None:
            check_steps(before, now, snapshot["snapshot-id"])
            for path, positions in deleted[snapshot["parent-snapshot-id"]].items():
                assert path not in now.data or positions <= deleted[snapshot["snapshot-id"]][path]
        check_totals(now, snapshot["summary"])
    return deleted.get(metadata["current-snapshot-id"], {})


def check_steps(before: State, now: State, snapshot_id: int) -> None:
    for key, file in before.deletes.items():
        assert (key in now.deletes) != (key in now.removed), f"{key} is lost, or both live and removed"
        kept = now.deletes.get(key) or now.removed[key]
        assert [kept[name] for name in ("number", "file_number", "record_count", "place")] == [
            file[name] for name in ("number", "file_number", "record_count", "place")
        ]
        if key in now.deletes:
            assert kept["snapshot"] == file["snapshot"]
    assert now.removed.keys() <= before.deletes.keys()
    assert all(now.deletes[key]["snapshot"] == snapshot_id for key in now.deletes.keys() - before.deletes.keys())


def check_totals(now: State, summary: Mapping[str, str]) -> None:
    rows = sum(rows for *_, rows in now.data.values())
    expected = {
        "total-data-files": len(now.data),
        "total-records": rows,
        "total-delete-files": len(now.deletes),
        "total-position-deletes": sum(file["record_count"] for file in now.deletes.values()),
        "total-equality-deletes": 0,
    }
    assert {key: summary.get(key) for key in expected} == {key: str(value) for key, value in expected.items()}


def ids_left(lake: Lake, name: str, deleted: Mapping[str, Iterable[int]], files: Sequence[str]) -> list[int]:
    """The ids of these data files without the rows deleted, sorted."""
    found: list[int] = []
    for path in files:
        ids = pq.read_table(local(path), columns=["id"])["id"].to_pylist()
        gone = set(deleted.get(path, ()))
        found += [each for place, each in enumerate(ids) if place not in gone]
    return sorted(found)


def as_equality_deletes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our next delete file is entered as another engine enters one of equality deletes."""

    def entered(*args: object, **others: object) -> Entry:
        return original(*args, **others, content=DataFileContent.EQUALITY_DELETES, equality_ids=[1])  # type: ignore[arg-type]

    original = row_deletes.delete_file
    monkeypatch.setattr(row_deletes, "delete_file", entered)
