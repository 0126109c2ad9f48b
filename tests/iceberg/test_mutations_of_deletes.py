"""Each rule of deletes, taken out: the tests of deletes notice. What they notice it with is
`tests.iceberg.deletes.check`, since PyIceberg reads most of these tables without a word."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date
from typing import Any

import pytest
from pyiceberg.manifest import DataFile, ManifestEntry, ManifestEntryStatus
from pyiceberg.typedef import Record

from framework.adapters.iceberg.commits import new_snapshot
from framework.adapters.iceberg.private.avro.blocks import ManifestWriterV2
from framework.adapters.iceberg.private.deletes import row_deletes
from framework.adapters.iceberg.private.deletes.deletion_vectors import Positions, united
from framework.adapters.iceberg.private.entry_fields import FILE_FIELDS
from framework.commit.machine.effects import Committed
from tests.iceberg.conftest import Lake
from tests.iceberg.deletes import Deleter, check, ids_left, state
from tests.iceberg.lineage import upgrade
from tests.iceberg.test_manifests import by_day

pytestmark = pytest.mark.iceberg

Mutate = Callable[[pytest.MonkeyPatch], object]


def scenario(lake: Lake, version: str) -> None:
    """Two days with two files each; deletes from three of them, then from one of these and the fourth, then from
    all."""
    first = "2" if version == "2, upgraded" else version
    name = by_day(lake, format_version=first, **{"commit.manifest.min-count-to-merge": "2"})
    deleter = Deleter(lake)
    files = []
    for offset in (1, 2):
        rows = [{"id": 100 * offset + each, "day": date(2024, 1, 1 + each % 2)} for each in range(12)]
        files += lake.files(name, rows)
        assert isinstance(lake.tables.commit(lake.effect(name, files[-2:], offset)), Committed)
    paths = [file.path for file in files]
    expected: dict[str, set[int]] = {path: set() for path in paths}
    steps: list[dict[str, set[int]]] = [
        {paths[0]: {0}, paths[1]: {1, 2}, paths[2]: {3}},
        {paths[0]: {2}, paths[3]: {1}},
        {path: {4, 5} for path in paths},
    ]
    for number, step in enumerate(steps):
        if number == 1 and version == "2, upgraded":
            upgrade(lake, name)
            deleter = Deleter(lake)
        deleter.commit(name, step)
        for path, positions in step.items():
            expected[path] |= positions
    assert check(lake.plain(name)) == expected
    assert lake.rows(name) == ids_left(lake, name, expected, paths)
    head = lake.plain(name).current_snapshot()
    assert head is not None
    assert len(state(head.manifest_list, head.snapshot_id).deletes) == len(paths), "one entry for each data file"


def changed(mutate: Callable[[DataFile], object]) -> Mutate:
    """Entries of new deletion vectors, one of which is another."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        original = row_deletes.write_vector_files

        def write(*args: Any) -> list[DataFile]:
            files = original(*args)
            mutate(files[-1])
            return files

        monkeypatch.setattr(row_deletes, "write_vector_files", write)

    return patch


def set_field(name: str, value: Callable[[Any], object]) -> Mutate:
    def mutate(file: DataFile) -> None:
        place = FILE_FIELDS.index(name)
        file[place] = value(file[place])

    return changed(mutate)


def replacing(owner: object, name: str, other: Callable[..., object]) -> Mutate:
    return lambda monkeypatch: monkeypatch.setattr(owner, name, other)


def two_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    original = row_deletes.write_vector_files

    def write(io: Any, new_path: Any, deletes: Any) -> list[DataFile]:
        deletes = list(deletes)
        return [*original(io, new_path, deletes), *original(io, new_path, deletes[:1])]

    monkeypatch.setattr(row_deletes, "write_vector_files", write)


def added_again(self: ManifestWriterV2, entry: ManifestEntry) -> ManifestWriterV2:
    self.add_entry(ManifestEntry(ManifestEntryStatus.ADDED, self._snapshot_id, None, None, entry.data_file))
    return self


def live_still(self: ManifestWriterV2, entry: ManifestEntry) -> ManifestWriterV2:
    self.existing(entry)
    return self


def last_alone(parts: Iterable[Positions]) -> Positions:
    return united(list(parts)[-1:])


MUTATIONS: dict[str, Mutate] = {
    "two vectors for one file": two_vectors,
    "the old entry is not removed": replacing(row_deletes, "_replaced", lambda *_: ()),
    "the old entry stays live": replacing(ManifestWriterV2, "delete", live_still),
    "siblings are lost": replacing(ManifestWriterV2, "existing", lambda self, entry: self),
    "siblings count as new": replacing(ManifestWriterV2, "existing", added_again),
    "a wrong record count": set_field("record_count", lambda count: count + 1),
    "a wrong partition": set_field("partition", lambda partition: Record(partition[0] + 1)),
    "a wrong offset": set_field("content_offset", lambda offset: offset + 1),
    "a wrong length": set_field("content_size_in_bytes", lambda size: size - 1),
    "the size of the vector for the file's": set_field("file_size_in_bytes", lambda size: size - 1),
    "another data file": set_field("referenced_data_file", lambda path: path + "x"),
    "old positions are left out": replacing(row_deletes, "united", last_alone),
    "counters of removed vectors are left out": replacing(
        new_snapshot, "counters", lambda added, new, old, original=new_snapshot.counters: original(added, new)
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_rule_that_is_taken_out_is_missed(lake: Lake, monkeypatch: pytest.MonkeyPatch, mutation: str) -> None:
    """Commits that break one rule of deletion vectors do not pass."""
    MUTATIONS[mutation](monkeypatch)
    with pytest.raises((AssertionError, ValueError)):
        scenario(lake, "3")


OF_MANIFESTS = [
    "the old entry is not removed",
    "the old entry stays live",
    "siblings are lost",
    "siblings count as new",
    "old positions are left out",
]


@pytest.mark.parametrize("version", ["2", "2, upgraded"])
@pytest.mark.parametrize("mutation", OF_MANIFESTS)
def test_a_rule_that_is_taken_out_is_missed_in_older_tables(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, mutation: str, version: str
) -> None:
    """The same of position delete files, and of the first vectors after an upgrade."""
    MUTATIONS[mutation](monkeypatch)
    with pytest.raises((AssertionError, ValueError)):
        scenario(lake, version)


@pytest.mark.parametrize("version", ["2", "2, upgraded", "3"])
def test_without_a_change_it_passes(lake: Lake, version: str) -> None:
    """The same commits as they are pass."""
    scenario(lake, version)
