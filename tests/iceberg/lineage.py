"""Row ids of a table of format version 3, read as the specification says from metadata, manifest lists and manifests,
with json and fastavro alone, which share nothing with the writer; and changes to metadata as only another engine makes
them."""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import fastavro
from pyiceberg.table import Table

from framework.commit.events.event_types import DataFile
from tests.iceberg.conftest import Lake


def local(location: str) -> Path:
    return Path("/" + location.removeprefix("file:").lstrip("/"))  # Java writes one slash, PyIceberg three


def avro(location: str) -> list[dict[str, Any]]:
    with local(location).open("rb") as stream:
        return list(fastavro.reader(stream))  # type: ignore[arg-type]


def raw(table: Table) -> dict[str, Any]:
    """The table's metadata as the file has it."""
    return dict(json.loads(local(table.metadata_location).read_text()))


@dataclass(frozen=True)
class Lineage:
    """By snapshot, the row ids of each live data file as its first one and how many rows it has."""

    next_row_id: int
    files: dict[int, dict[str, tuple[int, int]]]


def lineage(table: Table) -> Lineage:
    """Read as the specification says, and checked: ids are unique in each snapshot, below the table's next row id, a
    file keeps them from each snapshot to the next on its branch, and each snapshot begins where the one before it
    ended."""
    metadata = raw(table)
    assert metadata["format-version"] == 3
    found: dict[int, dict[str, tuple[int, int]]] = {}
    free = 0
    for snapshot in metadata["snapshots"]:
        if "first-row-id" not in snapshot:
            continue  # from before the table was upgraded
        assert snapshot["first-row-id"] == free
        free += snapshot["added-rows"]
        found[snapshot["snapshot-id"]] = files = {}
        for manifest in avro(snapshot["manifest-list"]):
            if manifest["content"] != 0:
                assert manifest["first_row_id"] is None
                continue
            following = manifest["first_row_id"]
            assert following is not None, "a data manifest without a first row id"
            for entry in avro(manifest["manifest_path"]):
                file = entry["data_file"]
                if entry["status"] == 2:
                    continue
                first = file.get("first_row_id")
                if first is None:
                    first, following = following, following + file["record_count"]
                files[file["file_path"]] = (first, file["record_count"])
        ranges = sorted(files.values())
        assert all(one + rows <= other for (one, rows), (other, _) in pairwise(ranges))
        assert all(first + rows <= free for first, rows in ranges)
    assert metadata["next-row-id"] == free
    for snapshot in metadata["snapshots"]:
        parent = found.get(snapshot.get("parent-snapshot-id"), {})
        for path, ids in found.get(snapshot["snapshot-id"], {}).items():
            assert parent.get(path, ids) == ids, f"the row ids of {path} changed"
    return Lineage(free, found)


def upgrade(lake: Lake, name: str) -> None:
    """What every engine does to upgrade a table: the version, and the first free row id."""
    change(lake, name, lambda metadata: metadata.update({"format-version": 3, "next-row-id": 0}))


def some_files(sizes: list[int]) -> tuple[DataFile, ...]:
    return tuple(DataFile(f"file:///never/read/{uuid.uuid4()}.parquet", rows, 10, spec_id=0) for rows in sizes)


def change(lake: Lake, name: str, changed: Callable[[dict[str, Any]], object]) -> str:
    """Another engine's change of the table's metadata; gives the new file. PyIceberg could not read some of them."""
    location = lake.plain(name).metadata_location
    text = json.loads(local(location).read_text())
    changed(text)
    new = location.replace("/metadata/", f"/metadata/9{uuid.uuid4().hex[:4]}")
    local(new).write_text(json.dumps(text))
    namespace, _, table = name.rpartition(".")
    with closing(sqlite3.connect(lake.settings["uri"].removeprefix("sqlite:///"))) as database, database:
        database.execute(
            "UPDATE iceberg_tables SET metadata_location = ? WHERE table_namespace = ? AND table_name = ?",
            (new, namespace, table),
        )
    return new
