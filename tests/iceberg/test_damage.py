"""Damaged files of key indexes and of deleted keys: nothing of them is believed. The index is made anew, deleted keys that
cannot be read are said, and after each batch the table is what a fold of its changes holds.

    FLOE_DAMAGES=20000 .venv/bin/python -m pytest -s -m "" tests/iceberg/test_damage.py -k "through_the_fold and many"
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from framework.adapters.iceberg.upsert import hash_files
from framework.adapters.iceberg.upsert.deleted_keys import (
    DeletedKeys,
    UnusableDeletedKeys,
    older_than_deletes,
    write_deleted_keys,
)
from framework.adapters.iceberg.upsert.index_runs import Entries, UnusableRun, find, read_run, write_run
from framework.adapters.key_hash import KeyHashes, hash_keys
from framework.commit.machine.effects import Committed
from framework.config.spec import KeyIndexUse
from framework.errors import TableBlocked
from framework.table.upsert import key_index
from tests.iceberg.conftest import Lake
from tests.iceberg.filled_tables import local
from tests.iceberg.keyed_pipeline import _in_this_process
from tests.iceberg.test_ordered_tables import Change, Ordered

pytestmark = pytest.mark.iceberg

DAMAGES = int(os.environ.get("FLOE_DAMAGES", "20000"))
# A table has so many before there is a new one: its metadata grows with each commit.
OF_ONE_TABLE = 20
IO = PyArrowFileIO()


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of any size, of several blocks each."""
    monkeypatch.setattr(key_index, "LEAST_RUN_ROWS", 1)
    monkeypatch.setattr(hash_files, "BLOCK_ROWS", 4)


# ---- what may become of bytes -------------------------------------------------------------------------------------------


def bits(data: bytearray, pick: random.Random, _: list[bytes]) -> None:
    for _n in range(pick.choice((1, 1, 2, 8))):
        data[pick.randrange(len(data))] ^= 1 << pick.randrange(8)


def a_block(data: bytearray, pick: random.Random, _: list[bytes]) -> None:
    length = min(pick.choice((8, 64, 512, 4096)), len(data))
    start = pick.randrange(0, len(data) - length + 1, 8)
    other = pick.choice((b"\0" * length, b"\xff" * length, pick.randbytes(length)))
    data[start : start + length] = other


def a_swap(data: bytearray, pick: random.Random, _: list[bytes]) -> None:
    length = pick.choice((8, 32, 64))
    if len(data) < 2 * length:
        return
    one, two = (pick.randrange(0, len(data) - length + 1, 8) for _n in range(2))
    if abs(one - two) >= length:
        data[one : one + length], data[two : two + length] = data[two : two + length], data[one : one + length]


def another(data: bytearray, pick: random.Random, others: list[bytes]) -> None:
    """The bytes of another file, or of an older one: of the same size, if there is any."""
    same = [each for each in others if len(each) == len(data) and each != data]
    if found := (same or others):
        data[:] = pick.choice(found)


def a_cut(data: bytearray, pick: random.Random, _: list[bytes]) -> None:
    del data[pick.randrange(len(data)) :]


WAYS: tuple[Callable[[bytearray, random.Random, list[bytes]], None], ...] = (
    bits,
    bits,
    a_block,
    a_swap,
    another,
    another,
    a_cut,
)


def damage(path: Path, pick: random.Random, others: list[bytes]) -> bytes:
    """Damage a file; gives what it held. Whoever has mapped it keeps what it was."""
    before = path.read_bytes()
    changed = bytearray(before)
    if changed:
        pick.choice(WAYS)(changed, pick, others)
    path.unlink()
    path.write_bytes(changed)
    return before


# ---- one file -----------------------------------------------------------------------------------------------------------


def a_run(folder: Path, pick: random.Random) -> tuple[Entries, object, np.ndarray]:
    count = pick.choice((1, 5, 40, 400))
    numbers = np.array([pick.randrange(1000) for _ in range(count)])
    ids = None if pick.random() < 0.5 else np.arange(count) * 7
    entries = Entries(hash_keys([pa.array(numbers, pa.int64())]), np.zeros(count, np.int64), np.arange(count), ids)
    return entries, write_run(IO, str(folder), entries, ["a"], [count]), numbers


def test_a_search_in_a_damaged_run_finds_what_is_there_or_says_so(tmp_path: Path) -> None:
    """Two thousand damages: for keys that are looked for, the very rows of the run as it was written, or no run."""
    pick, outcomes, others = random.Random(1), Counter[str](), list[bytes]()
    for number in range(2_000):
        folder = tmp_path / str(number % 50)
        folder.mkdir(exist_ok=True)
        _, run, numbers = a_run(folder, pick)
        wanted = np.array(sorted({pick.randrange(1000) for _ in range(pick.choice((1, 3, 30)))}))
        hashes = hash_keys([pa.array(wanted, pa.int64())])
        order = np.argsort(hashes.high)
        before = damage(Path(run.path), pick, others)
        others = [*others[-20:], before]
        try:
            held = read_run(IO, run, hashes.high[order])
        except UnusableRun:
            outcomes["said"] += 1
            continue
        keys, at = find(held.hashes, hashes.high[order], hashes.low[order])
        found = sorted(
            (int(wanted[order][key]), int(held.positions[entry])) for key, entry in zip(keys, at, strict=True)
        )
        assert found == sorted((int(n), place) for place, n in enumerate(numbers) if n in set(wanted.tolist()))
        outcomes["no matter"] += 1
    assert outcomes["said"] > 1_000
    assert outcomes["no matter"] > 50, outcomes


def test_deleted_keys_in_a_damaged_file_are_those_that_were_written_or_said(tmp_path: Path) -> None:
    """The same of deleted keys, ordered by numbers and by texts."""
    pick, outcomes, others = random.Random(2), Counter[str](), list[bytes]()
    for _ in range(1_000):
        count = pick.choice((1, 5, 40))
        numbers = pick.sample(range(60), count)
        by_text = pick.random() < 0.5
        values = [pick.randrange(9) for _n in numbers]
        order = pa.array([str(v) for v in values]) if by_text else pa.array(values, pa.int64())
        deleted = DeletedKeys(hash_keys([pa.array(numbers, pa.int64())]), order, np.ones(count, np.int64))
        file = write_deleted_keys(IO, str(tmp_path), deleted)
        before = damage(Path(file.path), pick, others)
        others = [*others[-20:], before]
        asked = list(range(60))
        records = pa.array(["4"] * 60) if by_text else pa.array([4] * 60, pa.int64())
        try:
            older = older_than_deletes(IO, [file], hash_keys([pa.array(asked, pa.int64())]), records, 0)
        except UnusableDeletedKeys:
            outcomes["said"] += 1
            continue
        held = dict(zip(numbers, values, strict=True))
        assert older.tolist() == [held.get(each, 0) > 4 for each in asked]
        outcomes["no matter"] += 1
    assert outcomes["said"] > 500
    assert outcomes["no matter"] > 20, outcomes


def test_blocks_that_nobody_asks_for_are_not_read(tmp_path: Path) -> None:
    """Of a large run a small batch compares the blocks of its keys, and finds each of them: at the ends of blocks, equal
    hashes across several, and hashes before the first and behind the last."""
    words = np.sort(np.array([5] * 3 + [7] * 11 + list(range(100, 400, 3)), np.uint64))
    entries = Entries(KeyHashes(words, words), np.zeros(len(words), np.int64), np.arange(len(words)), None)
    run = write_run(IO, str(tmp_path), entries, ["a"], [len(words)])
    for wanted in ([0], [5], [7], [5, 7], [100], [101], [397], [398], [2**63], [103, 104, 199], [0, 6, 2**64 - 1]):
        high = np.array(wanted, np.uint64)
        hash_files._compared.clear()
        held = read_run(IO, run, high)
        _, at = find(held.hashes, high, high)
        assert sorted(held.positions[at].tolist()) == [n for n, word in enumerate(words.tolist()) if word in wanted]
        assert len(held) < len(words)
    (known,) = hash_files._compared.values()
    assert not known.all()


def test_a_damaged_copy_of_a_store_s_file_is_copied_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy on this machine is compared by what is in it, not by its size."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(hash_files, "_local", lambda path: None)
    _, run, numbers = a_run(tmp_path, random.Random(3))
    assert len(read_run(IO, run)) == len(numbers)
    ((copy,),) = ((*folder.iterdir(),) for folder in (tmp_path / "tmp").iterdir())
    for change in (lambda data: bytes(len(data)), lambda data: data[:-1], lambda data: data[::-1]):
        data = copy.read_bytes()
        copy.unlink()
        copy.write_bytes(change(data))
        assert sorted(read_run(IO, run).positions.tolist()) == list(range(len(numbers)))
    Path(run.path).write_bytes(bytes(run.file_size_bytes))
    copy.unlink()
    with pytest.raises(UnusableRun):
        read_run(IO, run)


# ---- through the fold ---------------------------------------------------------------------------------------------------


class Damaged:
    """A table with its fold, whose files are damaged between batches."""

    def __init__(self, lake: Lake, pick: random.Random) -> None:
        self.table = Ordered(lake, pick.choice(("2", "3")), KeyIndexUse.ALWAYS)
        self.pick = pick
        self.restart()
        location = lake.plain(self.table.name).location()
        self.folders = [local(location) / name for name in ("_floe_keys", "_floe_tombstones")]
        self.others: list[bytes] = []
        self.lost: dict[Path, bytes] = {}  # files of deleted keys that were damaged, as they were
        for _ in range(3):
            self.table.do(*self.changes())

    def restart(self) -> None:
        self.table.restart()
        self.table.pipeline.tables.indexes._do_work = _in_this_process

    def changes(self) -> list[Change]:
        pick = self.pick
        keys = [(shop, code) for shop in range(1, 9) for code in ("a", "b", "c", "d")]
        return [
            Change(pick.randrange(2), pick.choice(keys), pick.randrange(1, 9), pick.random() < 0.4)
            for _ in range(pick.randrange(1, 30))
        ]

    def step(self) -> str:
        """Damage a file, and do a batch; gives what came of it."""
        pick, table = self.pick, self.table
        files = sorted(path for folder in self.folders if folder.exists() for path in folder.iterdir())
        path = pick.choice(files)
        kind = "deleted keys" if path.parent == self.folders[1] else "index"
        if kind == "index" and len(self.others) > 40:
            del self.others[:20]
        held = damage(path, pick, self.others)
        self.others.append(held)
        if kind == "deleted keys":
            self.lost.setdefault(path, held)
        if pick.random() < 0.4 or path.suffix == ".json":
            self.restart()
        before = dict(table.newest), table.count, dict(table.pipeline.offsets), table.pipeline.batch
        changes = self.changes()
        blocked = self.blocked_by(changes)
        if blocked is not None:
            assert (blocked.code, bool(self.lost)) == ("FLOE-R146", True), "an index holds nobody"
            for one, whole in self.lost.items():
                one.write_bytes(whole)
            self.lost.clear()
            table.newest, table.count, table.pipeline.offsets, table.pipeline.batch = before
            assert self.blocked_by(changes) is None
        table.check()
        return f"{kind}: {'said' if blocked else 'made anew, or no matter'}"

    def blocked_by(self, changes: list[Change]) -> TableBlocked | None:
        """Do a batch; gives what held it."""
        try:
            answer = self.table.commit(self.table.announce(*changes))
        except TableBlocked as error:
            return error
        assert isinstance(answer, Committed), answer
        return None


def damaged(lake: Lake, count: int, seed: int) -> Counter[str]:
    pick, outcomes = random.Random(seed), Counter[str]()
    while sum(outcomes.values()) < count:
        table = Damaged(lake, pick)
        for _ in range(OF_ONE_TABLE):
            outcomes[table.step()] += 1
    return outcomes


@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("count", [40, pytest.param(DAMAGES, marks=pytest.mark.slow, id="many")])
def test_damages_through_the_fold(lake: Lake, count: int) -> None:
    """After each damage and batch the table holds what the fold holds."""
    seed = random.randrange(2**32) if count > 1000 else 7
    outcomes = damaged(lake, count, seed)
    print(f"\n{sum(outcomes.values()):,} damages, seed {seed}: 0 wrong, {dict(outcomes)}")
    assert outcomes["deleted keys: said"]


@pytest.mark.parametrize(
    "look",
    [
        test_a_search_in_a_damaged_run_finds_what_is_there_or_says_so,
        test_deleted_keys_in_a_damaged_file_are_those_that_were_written_or_said,
    ],
)
def test_damages_are_found_out_where_checksums_are_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look: Callable[[Path], None]
) -> None:
    """The mutation: without the comparison of blocks some damage is believed."""
    monkeypatch.setattr(hash_files, "_checksum", lambda *_: 0)
    with pytest.raises((AssertionError, IndexError)):
        look(tmp_path)
