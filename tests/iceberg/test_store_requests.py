"""Requests to the object store: counted where files are opened, and equal to what the store's own log says."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from framework.adapters.file_io import file_io
from framework.adapters.iceberg.files import list_files, missing_of
from framework.adapters.store.counted_files import CountedReader, native, parquet_file
from framework.adapters.store.counts import OWN
from framework.metrics.store_requests import StoreRequest
from testbed.servers.s3 import BUCKET, SECRET_KEY, S3Server
from testbed.servers.s3_log import S3Log

pytestmark = [pytest.mark.iceberg]
MIB = 1024 * 1024
PLACE = f"s3://{BUCKET}/shop/t"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    server = S3Server(tmp_path_factory.mktemp("s3"))
    yield server
    server.stop()


class Both:
    """What the counter says and what the store says of the same work."""

    def __init__(self, server: S3Server) -> None:
        self.log = S3Log(server)
        OWN.take()

    def counted(self) -> Counter[str]:
        return Counter({kind.value: count for kind, count in OWN.take().items()})

    def agree(self, what: str) -> Counter[str]:
        counted, logged = self.counted(), self.log.new()
        assert counted == logged, what
        return logged


def test_each_operation_counts_what_the_store_gets(store: S3Server) -> None:
    """Every way in which a file is opened, read, written, looked for, listed and removed."""
    both = Both(store)
    io = file_io(store.settings() | {"s3.secret-access-key": SECRET_KEY}, PLACE)
    rows = pa.table({f"c{n}": pa.array([f"{n * 7919 * i}" for i in range(60_000)]) for n in range(5)})

    def write(path: str, size: int, step: int = MIB) -> None:
        with io.new_output(path).create(overwrite=True) as stream:
            for start in range(0, size, step):
                stream.write(b"x" * min(step, size - start))

    def read(path: str, *sizes: int | None) -> None:
        with io.new_input(path).open() as stream:
            for size in sizes:
                stream.read(size)  # type: ignore[arg-type]

    def parquet(path: str, columns: list[str] | None, one: bool = False) -> None:
        with io.new_input(path).open() as stream:
            opened = parquet_file(stream)
            if one:
                opened.read_row_group(1, columns)
                opened.read_row_groups([0, 2], columns)
            else:
                opened.read(columns, use_threads=False)

    def write_parquet() -> None:
        with (
            io.new_output(f"{PLACE}/p").create(overwrite=True) as stream,
            pq.ParquetWriter(native(stream), rows.schema) as out,
        ):
            out.write_table(rows, 20_000)
        with io.new_output(f"{PLACE}/wide").create(overwrite=True) as stream:
            pq.write_table(pa.table({f"column {n}": [n] for n in range(1_500)}), stream)

    def gone(path: str) -> None:
        with pytest.raises(FileNotFoundError):
            io.delete(path)

    def not_opened(path: str) -> None:
        with pytest.raises(FileNotFoundError):
            io.new_input(path).open()

    def batches(path: str) -> None:
        with io.new_input(path).open() as stream:
            assert sum(len(batch) for batch in parquet_file(stream).iter_batches(1_000, columns=["c0", "c3"])) == 60_000

    steps: dict[str, Callable[[], object]] = {
        **{
            f"write {size} by {step}": lambda size=size, step=step: write(f"{PLACE}/f{size}", size, step)  # type: ignore[misc]
            for size in (0, 1, 10 * MIB - 1, 10 * MIB, 10 * MIB + 1, 20 * MIB, 25 * MIB)
            for step in (MIB, 7 * MIB + 3)
        },
        "create a new one": lambda: io.new_output(f"{PLACE}/new").create(overwrite=False).close(),
        "read nothing": lambda: read(f"{PLACE}/f0", None),
        "read all": lambda: read(f"{PLACE}/f{25 * MIB}", None),
        "read parts": lambda: read(f"{PLACE}/f{25 * MIB}", 10, 5 * MIB, None, None),
        "read as a stream": lambda: io.new_input(f"{PLACE}/f{25 * MIB}").open(seekable=False).read(),
        "write Parquet": write_parquet,
        "read Parquet": lambda: parquet(f"{PLACE}/p", None),
        "read columns": lambda: parquet(f"{PLACE}/p", ["c1", "c4"]),
        "read row groups": lambda: parquet(f"{PLACE}/p", ["c0"], one=True),
        "read a long footer": lambda: parquet(f"{PLACE}/wide", ["column 7"]),
        "read batches": lambda: batches(f"{PLACE}/p"),
        "length": lambda: len(io.new_input(f"{PLACE}/p")),
        "look": lambda: missing_of(io, [f"{PLACE}/p", f"{PLACE}/none", f"{PLACE}/nor this"]),
        "open none": lambda: not_opened(f"{PLACE}/none"),
        "list": lambda: list_files(io, PLACE),
        "list nothing": lambda: list_files(io, f"s3://{BUCKET}/nowhere"),
        "remove": lambda: io.delete(f"{PLACE}/p"),
        "remove none": lambda: gone(f"{PLACE}/p"),
        "in no folder": lambda: (write(f"s3://{BUCKET}/top", 1), io.delete(f"s3://{BUCKET}/top")),
    }  # fmt: skip
    for what, step in steps.items():
        step()
        both.agree(what)


def test_a_listing_of_many_files_takes_a_request_for_each_thousand(store: S3Server) -> None:
    """More objects than one answer holds."""
    io = file_io(store.settings() | {"s3.secret-access-key": SECRET_KEY}, PLACE)
    for number in range(1_001):
        io.new_output(f"s3://{BUCKET}/many/{number}").create(overwrite=True).close()
    both = Both(store)
    assert len(list_files(io, f"s3://{BUCKET}/many")) == 1_001
    assert both.agree("list")["list"] == 2


def test_a_small_file_is_written_with_one_request(store: S3Server) -> None:
    """Not with the three of an upload in parts, which cost three times as much and take three times as long."""
    io = file_io(store.settings() | {"s3.secret-access-key": SECRET_KEY}, PLACE)
    both = Both(store)
    with io.new_output(f"{PLACE}/small").create(overwrite=True) as stream:
        stream.write(b"x" * MIB)
    assert both.agree("write") == {"put": 1}


def test_reads_side_by_side_are_counted_as_pyarrow_makes_them(tmp_path: Path) -> None:
    """Whatever columns and row groups are read, the count is that of the reads which PyArrow makes of a file behind Python."""
    chosen = random.Random(7)
    path = str(tmp_path / "p.parquet")
    most = 0
    for _ in range(30):
        width, groups = chosen.randint(1, 8), chosen.randint(1, 5)
        columns = {
            f"c{n}": [f"{'x' * chosen.randint(0, 40)}{i * n}" for i in range(500 * groups)] for n in range(width)
        }
        nested = pa.array([{"a": i, "b": str(i)} for i in range(500 * groups)])
        pq.write_table(pa.table({**columns, "s": nested}), path, row_group_size=500, compression="none")
        wanted = chosen.sample([*columns, "s"], chosen.randint(1, width + 1))
        rows = chosen.sample(range(groups), chosen.randint(1, groups))
        seen = Seen(path)
        pq.ParquetFile(pa.PythonFile(seen, "r")).read_row_groups(rows, wanted, use_threads=False)
        OWN.take()
        parquet_file(counted(path)).read_row_groups(rows, wanted, use_threads=False)
        assert OWN.take() == {StoreRequest.GET: seen.reads}, (wanted, rows)
        most = max(most, seen.reads)
    assert most > 3  # the footer, and several ranges


def counted(path: str) -> object:
    return CountedReader(pa.OSFile(path))


class Seen:
    """A file that counts the reads of it."""

    closed = False

    def __init__(self, path: str) -> None:
        self._file = pa.OSFile(path)
        self.reads = 0

    def read_buffer(self, size: int) -> pa.Buffer:
        self.reads += 1
        return self._file.read_buffer(size)

    def read(self, size: int) -> bytes:
        return bytes(self.read_buffer(size))

    def seek(self, *place: int) -> int:
        return int(self._file.seek(*place))

    def tell(self) -> int:
        return int(self._file.tell())

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
