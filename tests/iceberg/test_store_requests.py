"""Requests to the object store: counted where files are opened, and equal to what the store's own log says."""

from __future__ import annotations

import inspect
import random
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io import FileIO

from framework.adapters.file_io import file_io
from framework.adapters.iceberg.files import list_files, missing_of
from framework.adapters.store.counted_files import CountedReader, native, parquet_file
from framework.adapters.store.counts import taken
from framework.metrics import store_requests
from framework.metrics.store_requests import StoreRequest, total
from testbed.servers.s3 import BUCKET, SECRET_KEY, S3Server
from testbed.servers.s3_log import S3Log
from tests.iceberg.conftest import POLICY, Lake
from tests.iceberg.test_compaction import compact
from tests.iceberg.test_grants import write_as_a_task

pytestmark = [pytest.mark.iceberg]
MIB = 1024 * 1024
PLACE = f"s3://{BUCKET}/shop/t"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    server = S3Server(tmp_path_factory.mktemp("s3"))
    yield server
    server.stop()


def is_figure(value: object) -> bool:
    """A function of the table that says how many requests something takes."""
    return inspect.isfunction(value) and value.__annotations__["return"] == "Requests"


class Both:
    """What the counter says and what the store says of the same work."""

    def __init__(self, server: S3Server) -> None:
        self.log = S3Log(server)
        taken()

    def counted(self) -> Counter[str]:
        return Counter({kind.value: count for kind, count in taken().items()})

    def agree(self, what: str) -> Counter[str]:
        counted, logged = self.counted(), self.log.new()
        assert counted == logged, what
        return logged


def operations(io: FileIO) -> dict[str, Callable[[], object]]:
    """Every way in which a file is opened, read, written, looked for, listed and removed."""
    place = f"{PLACE}/{uuid.uuid4()}"
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
            io.new_output(f"{place}/p").create(overwrite=True) as stream,
            pq.ParquetWriter(native(stream), rows.schema) as out,
        ):
            out.write_table(rows, 20_000)
        with io.new_output(f"{place}/wide").create(overwrite=True) as stream:
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

    return {
        **{
            f"write {size} by {step}": lambda size=size, step=step: write(f"{place}/f{size}", size, step)  # type: ignore[misc]
            for size in (0, 1, 10 * MIB - 1, 10 * MIB, 10 * MIB + 1, 20 * MIB, 25 * MIB)
            for step in (MIB, 7 * MIB + 3)
        },
        "create a new one": lambda: io.new_output(f"{place}/new").create(overwrite=False).close(),
        "read nothing": lambda: read(f"{place}/f0", None),
        "read all": lambda: read(f"{place}/f{25 * MIB}", None),
        "read parts": lambda: read(f"{place}/f{25 * MIB}", 10, 5 * MIB, None, None),
        "read as a stream": lambda: io.new_input(f"{place}/f{25 * MIB}").open(seekable=False).read(),
        "write Parquet": write_parquet,
        "read Parquet": lambda: parquet(f"{place}/p", None),
        "read columns": lambda: parquet(f"{place}/p", ["c1", "c4"]),
        "read row groups": lambda: parquet(f"{place}/p", ["c0"], one=True),
        "read a long footer": lambda: parquet(f"{place}/wide", ["column 7"]),
        "read batches": lambda: batches(f"{place}/p"),
        "length": lambda: len(io.new_input(f"{place}/p")),
        "look": lambda: missing_of(io, [f"{place}/p", f"{place}/none", f"{place}/nor this"]),
        "open none": lambda: not_opened(f"{place}/none"),
        "list": lambda: list_files(io, place),
        "list nothing": lambda: list_files(io, f"s3://{BUCKET}/nowhere"),
        "remove": lambda: io.delete(f"{place}/p"),
        "remove none": lambda: gone(f"{place}/p"),
        "in no folder": lambda: (write(f"s3://{BUCKET}/top", 1), io.delete(f"s3://{BUCKET}/top")),
    }  # fmt: skip


def of(store: S3Server) -> FileIO:
    return file_io(store.settings() | {"s3.secret-access-key": SECRET_KEY}, PLACE)


def test_each_operation_counts_what_the_store_gets(store: S3Server) -> None:
    """After each of them the counter and the store's log say the same, by kind."""
    both = Both(store)
    for what, operation in operations(of(store)).items():
        operation()
        both.agree(what)


@pytest.mark.parametrize("name", sorted(name for name, each in vars(store_requests).items() if is_figure(each)))
def test_a_figure_that_is_wrong_by_one_request_is_noticed(
    store: S3Server, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Each figure of the table is needed: none of them can be another one and still agree with the store."""
    right = getattr(store_requests, name)
    monkeypatch.setattr(
        store_requests, name, lambda *given, **named: total([right(*given, **named), {StoreRequest.GET: 1}])
    )
    both = Both(store)
    for operation in operations(of(store)).values():
        operation()
    assert both.counted() != both.log.new()


def test_a_listing_of_many_files_takes_a_request_for_each_thousand(store: S3Server) -> None:
    """More objects than one answer holds."""
    io = of(store)
    for number in range(1_001):
        io.new_output(f"s3://{BUCKET}/many/{number}").create(overwrite=True).close()
    both = Both(store)
    assert len(list_files(io, f"s3://{BUCKET}/many")) == 1_001
    assert both.agree("list")["list"] == 2


def test_a_small_file_is_written_with_one_request(store: S3Server) -> None:
    """Not with the three of an upload in parts, which cost three times as much and take three times as long."""
    io = of(store)
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
        taken()
        parquet_file(counted(path)).read_row_groups(rows, wanted, use_threads=False)
        assert taken() == {StoreRequest.GET: seen.reads}, (wanted, rows)
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


def test_a_commit_takes_as_many_requests_as_the_page_says(store: S3Server, tmp_path: Path) -> None:
    """However long the history of a table is, an append takes five, and one that merges ten manifests a few for each
    of those; compaction takes a few for each file that it reads."""
    settings = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "s3.secret-access-key": SECRET_KEY,
        **store.settings(),
    }
    lake = Lake(settings)
    name = lake.create("shop.requests")
    target = lake.tables.load_target(name, POLICY)
    assert target is not None
    both = Both(store)
    for number in range(1, 13):
        files = write_as_a_task(target, settings)
        assert both.agree("write") == {"put": 1}
        lake.tables.commit(lake.effect(name, files, number))
        merging = {"put": 1, "head": 10, "get": 10} if number == 11 else {}
        assert both.agree(f"commit {number}") == Counter({"put": 3, "head": 1, "list": 1}) + Counter(merging)
    compact(lake, name)
    assert both.agree("compact") == {"get": 36, "head": 26, "list": 2, "put": 5}
