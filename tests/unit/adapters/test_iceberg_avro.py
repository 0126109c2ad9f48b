"""Manifests in large blocks: the same entries that PyIceberg's own writer makes, read by a library that is neither."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    MANIFEST_LIST_FILE_SCHEMAS,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestListWriter,
    ManifestWriter,
    PartitionFieldSummary,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField

from framework.adapters.iceberg.private.avro.blocks import (
    BLOCK_BYTES,
    BlockEncoder,
    ManifestListWriterV2,
    ManifestWriterV2,
)
from framework.adapters.iceberg.private.manifests import to_iceberg
from framework.adapters.iceberg.private.row_lineage import ManifestWriterV3
from framework.commit.events.event_types import DataFile

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "n", IntegerType(), required=False))
SPEC = PartitionSpec(spec_id=0)
FILES = 3_000


def announced(number: int) -> DataFile:
    sizes, nulls = {"1": 100 + number, "2": 70_000}, {"1": 0, "2": number % 10}
    bounds = {"1": "AAAAAAAAAAA=", "2": "/////w=="}
    path = f"file:///warehouse/shop/orders/data/part-{number:05}.parquet"
    return DataFile(path, 10, 1_000 + number, 0, (), sizes, {"1": 10, "2": 10}, nulls, {}, bounds, bounds, (4,))


def written(tmp_path: Path, name: str, make: Callable[..., ManifestWriter]) -> tuple[Path, ManifestWriter]:
    path = tmp_path / name
    with make(SPEC, SCHEMA, PyArrowFileIO().new_output(str(path)), 7, "gzip") as writer:
        for number in range(FILES):
            file = to_iceberg(announced(number), [])
            writer.add(ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=7, data_file=file))
    return path, writer


def pyiceberg_writer(*args: Any) -> ManifestWriter:
    return write_manifest(2, *args)


def records(path: Path) -> list[Any]:
    with path.open("rb") as file:
        return list(fastavro.reader(file))


def block_sizes(path: Path) -> list[int]:
    with path.open("rb") as file:
        return [block.num_records for block in fastavro.block_reader(file)]


def test_a_manifest_in_blocks_says_what_pyicebergs_says(tmp_path: Path) -> None:
    """Three thousand files are the same entries and the same counts as in PyIceberg's manifest, in a third of its
    bytes."""
    theirs, their_writer = written(tmp_path, "theirs.avro", pyiceberg_writer)
    ours, our_writer = written(tmp_path, "ours.avro", ManifestWriterV2)
    assert records(ours) == records(theirs)
    assert len(records(ours)) == FILES
    assert properties(ours) == properties(theirs)
    sizes = block_sizes(ours)
    assert 1 < len(sizes) < FILES / 100
    assert ours.stat().st_size < theirs.stat().st_size / 3
    mine, other = our_writer.to_manifest_file(), their_writer.to_manifest_file()
    assert mine.manifest_length == ours.stat().st_size
    mine[0], mine[1] = other[0], other[1]  # path and length
    assert mine == other


def listed(tmp_path: Path, name: str, make: Callable[..., ManifestListWriter], manifests: list[ManifestFile]) -> Path:
    path = tmp_path / name
    with make(PyArrowFileIO().new_output(str(path)), 7, 6, 3, "gzip") as writer:
        writer.add_manifests(manifests)
    return path


def test_a_manifest_list_says_what_pyicebergs_says(tmp_path: Path) -> None:
    """A list of manifests, with partitions and without, has the records and the properties of PyIceberg's list."""
    manifests = [written(tmp_path, f"m{number}.avro", ManifestWriterV2)[1].to_manifest_file() for number in range(2)]
    bounds = PartitionFieldSummary(True, False, b"\x01\x00\x00\x00", b"\xff\x00\x00\x00")
    place = [field.name for field in MANIFEST_LIST_FILE_SCHEMAS[2].fields].index("partitions")
    manifests[1][place] = [bounds]
    theirs = listed(tmp_path, "theirs.avro", partial(write_manifest_list, 2), manifests)
    ours = listed(tmp_path, "ours.avro", ManifestListWriterV2, manifests)
    assert len(records(ours)) == 2
    assert records(ours) == records(theirs)
    assert properties(ours) == properties(theirs)


def properties(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return dict(fastavro.reader(file).metadata)


def test_a_manifest_of_version_3_is_in_blocks_too(tmp_path: Path) -> None:
    """Tables of format version 3 have the same blocks, and no row ids of their own in new entries."""
    path, _ = written(tmp_path, "three.avro", ManifestWriterV3)
    found = records(path)
    assert [each["data_file"]["file_path"] for each in found] == [announced(number).path for number in range(FILES)]
    assert {each["data_file"]["first_row_id"] for each in found} == {None}
    assert len(block_sizes(path)) < FILES / 100


def test_no_block_is_much_larger_than_asked(tmp_path: Path) -> None:
    """A reader that skips from marker to marker, and a task that reads a part, find blocks of Avro's usual size."""
    path, _ = written(tmp_path, "sizes.avro", ManifestWriterV2)
    with path.open("rb") as file:
        sizes = [len(block.bytes_.getvalue()) for block in fastavro.block_reader(file)]
    assert max(sizes) < 2 * BLOCK_BYTES
    assert sum(block_sizes(path)) == FILES


def test_a_manifest_that_failed_is_not_ended(tmp_path: Path) -> None:
    """What was gathered when an error came is not written: nobody takes half a manifest for a whole one."""
    path = tmp_path / "half.avro"
    writer = ManifestWriterV2(SPEC, SCHEMA, PyArrowFileIO().new_output(str(path)), 7, "gzip")
    file = to_iceberg(announced(1), [])
    with suppress(ZeroDivisionError), writer:
        writer.add(ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=7, data_file=file))
        raise ZeroDivisionError
    assert not path.exists()


VALUES = st.one_of(
    st.tuples(st.just("write_int"), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just("write_bytes"), st.binary(max_size=300)),
    st.tuples(st.just("write_utf8"), st.text(max_size=100)),
    st.tuples(st.just("write_boolean"), st.booleans()),
    st.tuples(st.just("write_float"), st.floats(width=32)),
    st.tuples(st.just("write_double"), st.floats()),
    st.tuples(st.just("write_uuid"), st.uuids()),
)


@given(st.lists(VALUES))
def test_every_value_is_encoded_as_pyiceberg_encodes_it(values: list[tuple[str, Any]]) -> None:
    """The quick encoder writes the bytes that PyIceberg's writes, for every kind of value."""
    expected, quick = io.BytesIO(), BlockEncoder()
    usual = BinaryEncoder(expected)  # type: ignore[arg-type]
    for name, value in values:
        getattr(usual, name)(value)
        getattr(quick, name)(value)
    assert bytes(quick.block) == expected.getvalue()
