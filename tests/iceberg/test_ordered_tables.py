"""Tables whose newest row a column decides: after each commit the table is the fold of all records by that column."""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from framework.adapters.iceberg.upsert import deleted_keys as tombstone_files
from framework.adapters.iceberg.upsert import row_versions
from framework.adapters.iceberg.upsert.deleted_keys import (
    DeletedKeys,
    UnusableDeletedKeys,
    read_deleted_keys,
    write_deleted_keys,
)
from framework.adapters.key_hash import KeyHashes
from framework.adapters.maintenance.tables import TableCare
from framework.commit.deleted_keys import DELETED_KEYS_PROPERTY, FAN_OUT
from framework.commit.events.event_types import DataWritten
from framework.commit.machine.effects import CommitFailed, Committed, FailureCause
from framework.config.spec import KeyIndexUse
from framework.config.values.maintenance import CompactionPolicy
from framework.errors import TableBlocked
from framework.record.model import UpsertRows
from framework.runtime.upsert.heads import UpsertHeads
from framework.table.upsert import key_index
from tests.conftest import Broker
from tests.iceberg.conftest import Lake
from tests.iceberg.filled_tables import Place, age_everything, local
from tests.iceberg.keyed_pipeline import SCHEMA, SPECS, UPSERT, Key, Pipeline

pytestmark = pytest.mark.iceberg
DAY_MS = 86_400_000
REMEMBERED_MS = 7 * DAY_MS
A, B = (1, "a"), (2, "b")


@dataclass(frozen=True)
class Change:
    """A record: the source's partition, its key, the value that orders it, and whether it deletes."""

    at: int
    key: Key
    order: Any
    deletes: bool = False
    name: str = ""


class OrderedPipeline(Pipeline):
    def keyed_rows(self, changes: Sequence[tuple[Key, Any]], first: int, schema: pa.Schema) -> UpsertRows:
        parts: list[tuple[pa.Table, np.ndarray[Any, Any]]] = []
        for deletes, columns in ((False, schema.names), (True, ["code", "shop", "day"])):
            own = [(n, key, change) for n, (key, change) in enumerate(changes, first) if change.deletes is deletes]
            rows = [{"shop": k[0], "code": k[1], "day": c.order, "name": c.name} for _, k, c in own]
            fields = pa.schema([schema.field(column) for column in columns])
            kept = [{column: row[column] for column in columns} for row in rows]
            parts.append((pa.Table.from_pylist(kept, fields), np.array([n for n, _, _ in own], np.int64)))
        return UpsertRows(*parts[0], *parts[1])


class Ordered:
    """A pipeline whose column `day` orders records, and a plain fold of them, which forgets deletes in time."""

    def __init__(
        self,
        lake: Lake,
        version: str = "2",
        index: KeyIndexUse = KeyIndexUse.NEVER,
        kind: IcebergType | None = None,
        spec: str = "unpartitioned",
    ) -> None:
        fields = [NestedField(3, "day", kind, required=False) if kind and f.name == "day" else f for f in SCHEMA.fields]
        schema = Schema(*fields, identifier_field_ids=SCHEMA.identifier_field_ids)
        name = lake.create(f"shop.t{uuid.uuid4().hex[:8]}", schema, SPECS[spec], format_version=version)
        self.lake, self.name, self.now_ms = lake, name, 100 * DAY_MS
        self.pipeline = OrderedPipeline(lake, name, index)
        self.pipeline.policy = replace(UPSERT, write=replace(self.pipeline.policy.write, order_field="day"))
        self.restart()
        # By key the value that orders its newest record, its name, None if it deletes, and when it came.
        self.newest: dict[Key, tuple[Any, str | None, int]] = {}
        self.count = 0

    def restart(self) -> None:
        self.pipeline.tables = UpsertHeads(self.pipeline.plan, self.lake.tables, now_ms=lambda: self.now_ms)

    def announce(self, *changes: Change) -> DataWritten:
        named = [replace(change, name=f"r{self.count + n}") for n, change in enumerate(changes)]
        self.count += len(named)
        for key, (_, name, at_ms) in list(self.newest.items()):
            if name is None and at_ms < self.now_ms - REMEMBERED_MS:
                del self.newest[key]
        for each in sorted(named, key=lambda change: change.at):
            if each.key not in self.newest or self.newest[each.key][0] <= each.order:
                self.newest[each.key] = each.order, None if each.deletes else each.name, self.now_ms
        return self.pipeline.announce([(each.at, each.key, each) for each in named])

    def commit(self, written: DataWritten) -> object:
        assert written.keyed is not None
        effect = replace(self.lake.effect(self.name, written.files, self.pipeline.batch), keyed=(written.keyed,))
        return self.lake.tables.commit(effect)

    def do(self, *changes: Change) -> None:
        assert isinstance(answer := self.commit(self.announce(*changes)), Committed), answer

    def compact(self) -> None:
        TableCare(self.lake.tables).compact(self.name, CompactionPolicy(min_input_files=2, delete_ratio=0.01), False)

    def held(self) -> list[tuple[Any, ...]]:
        found = self.lake.plain(self.name).scan().to_arrow().to_pylist()
        return sorted(((row["shop"], row["code"]), row["day"], row["name"]) for row in found)

    def check(self) -> None:
        live = ((key, order, name) for key, (order, name, _) in self.newest.items() if name is not None)
        assert self.held() == sorted(live)

    @property
    def named(self) -> str | None:
        return self.lake.plain(self.name).properties.get(DELETED_KEYS_PROPERTY)

    @property
    def files(self) -> list[Path]:
        """The files of deleted keys that the table names."""
        return [local(each["path"]) for each in json.loads(self.named or '{"files": []}')["files"]]

    def set_property(self, value: str | None) -> None:
        """As a person does, with another engine."""
        with self.lake.plain(self.name).transaction() as change:
            if value is None:
                change.remove_properties(DELETED_KEYS_PROPERTY)
            else:
                change.set_properties({DELETED_KEYS_PROPERTY: value})

    def blocked(self) -> TableBlocked:
        with pytest.raises(TableBlocked) as caught:
            self.pipeline.context()
        assert caught.value.code == "FLOE-R146"
        return caught.value


changes = st.builds(
    Change,
    st.integers(0, 1),
    st.tuples(st.integers(1, 2), st.sampled_from(["a", "b"])),
    st.integers(1, 6),
    st.booleans(),
)
acts = st.sampled_from(["", "", "restart", "compact", "compact before the commit", "wait"])
steps = st.lists(st.tuples(st.lists(changes, min_size=1, max_size=5), acts), min_size=1, max_size=7)


@pytest.mark.parametrize(
    ("version", "index", "spec"),
    [
        ("2", KeyIndexUse.NEVER, "unpartitioned"),
        ("3", KeyIndexUse.ALWAYS, "by a column that moves"),
    ],
)
@pytest.mark.timeout(600)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps)
def test_a_table_is_the_fold_by_the_column(
    lake: Lake,
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    index: KeyIndexUse,
    spec: str,
    steps: list[tuple[list[Change], str]],
) -> None:
    """Invariant 19, with disorder, deletes before and after older records, keys that come back, deletes that are
    forgotten in time, restarts and compaction: the newest record of each key by the column is in the table, and of
    equal ones the later."""
    monkeypatch.setattr(key_index, "LEAST_RUN_ROWS", 1)
    table = Ordered(lake, version, index, spec=spec)
    for own, act in steps:
        written = table.announce(*own)
        if act == "compact before the commit":
            table.compact()
        assert isinstance(answer := table.commit(written), Committed), answer
        table.check()
        if act == "restart":
            table.restart()
        if act == "compact":
            table.compact()
        if act == "wait":
            table.now_ms += 4 * DAY_MS


def _no_row(*_: object) -> object:
    return np.zeros(len(_[3]), np.bool_)  # type: ignore[arg-type]


def _no_delete(*_: object) -> object:
    return np.zeros(len(_[2]), np.bool_)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("module", "rule", "without", "deletes"),
    [
        pytest.param(row_versions, "older_than_rows", _no_row, False, id="the old row's order is not asked"),
        pytest.param(tombstone_files, "older_than_deletes", _no_delete, True, id="deleted keys are not asked"),
    ],
)
def test_an_older_record_that_wins_is_found_out(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, module: object, rule: str, without: object, deletes: bool
) -> None:
    """The mutations of invariant 19: without one of its two rules an older record replaces a row, or brings a deleted
    key back."""
    table = Ordered(lake)
    table.do(Change(0, A, 5, deletes))
    table.do(Change(0, A, 4))
    table.check()
    monkeypatch.setattr(module, rule, without)
    table.do(Change(0, A, 3))
    with pytest.raises(AssertionError):
        table.check()


def test_a_batch_that_does_not_keep_its_deletes_is_found_out(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The third mutation of invariant 19: a commit that names no file of its deletes."""
    from framework.adapters.iceberg.commits import commit

    monkeypatch.setattr(commit, "remembered_after", lambda *_: None)
    monkeypatch.setattr(commit, "deleted_keys_summary", lambda *_: {})
    table = Ordered(lake)
    table.do(Change(0, A, 5, True))
    table.do(Change(0, A, 4))
    with pytest.raises(AssertionError):
        table.check()


def _zoned(second: int) -> datetime.datetime:
    return datetime.datetime(1969, 12, 31, 23, 59, 59, second, datetime.UTC)


ORDERED: list[tuple[IcebergType, list[Any]]] = [
    (IntegerType(), [-(2**31), -1, 0, 2**31 - 1]),
    (LongType(), [-(2**63), -1, 0, 2**63 - 1]),
    (DecimalType(38, 10), [Decimal("-1e27"), Decimal("-0.0000000001"), Decimal(0), Decimal("9e27")]),
    (DecimalType(9, 2), [Decimal("-1.5"), Decimal("-0.01"), Decimal("0.99"), Decimal(1)]),
    (DateType(), [datetime.date(1, 1, 1), datetime.date(1969, 12, 31), datetime.date(1970, 1, 1), datetime.date.max]),
    (TimeType(), [datetime.time(0), datetime.time(0, 0, 0, 1), datetime.time(9), datetime.time.max]),
    (TimestampType(), [_zoned(n).replace(tzinfo=None) for n in (0, 1, 2, 999_999)]),
    (TimestamptzType(), [_zoned(n) for n in (0, 1, 2, 999_999)]),
    (TimestampNanoType(), [-(2**60), -1, 0, 2**60]),
    # By their UTF-8 bytes, also behind the sixteen characters that bounds are cut to.
    (StringType(), ["", "2026-01-01T10:00:00.1", "2026-01-01T10:00:00.2", "\N{GRINNING FACE}" * 20]),
]


@pytest.mark.parametrize(("kind", "values"), ORDERED, ids=[str(kind) for kind, _ in ORDERED])
def test_any_type_that_has_an_order_orders(lake: Lake, kind: IcebergType, values: list[Any]) -> None:
    """In a batch, against rows and against deleted keys, for values on both sides of zero: the smaller one loses."""
    if isinstance(kind, TimestampNanoType):
        values = pa.array(values, pa.timestamp("ns")).to_pylist()
    table = Ordered(lake, "3" if isinstance(kind, TimestampNanoType) else "2", kind=kind)
    first, second, third, fourth = values
    for older, newer in ((first, second), (second, third), (third, fourth)):
        table.do(Change(0, A, newer), Change(1, A, older), Change(0, B, newer, True), Change(1, B, older))
        assert table.newest[A][0] == newer
        table.check()
        table.do(Change(0, A, older), Change(0, B, older))
        table.check()
        table.do(Change(0, A, older, True), Change(0, B, newer))
        assert table.newest[B][1] is not None
        table.check()


def test_a_column_that_grew_is_compared_with_what_was_written_before(lake: Lake) -> None:
    """An `int` that became a `long`, in rows and in remembered deletes."""
    table = Ordered(lake, kind=IntegerType())
    table.do(Change(0, A, 5), Change(0, B, 5, True))
    with lake.plain(table.name).update_schema() as change:
        change.update_column("day", LongType())
    table.restart()
    table.do(Change(0, A, 4), Change(0, B, 4))
    table.check()
    table.do(Change(0, A, 2**40), Change(0, B, 2**40))
    table.check()


def test_a_row_without_a_value_is_older_than_every_record(lake: Lake) -> None:
    """As rows are that were there before the column."""
    table = Ordered(lake)
    plain = lake.plain(table.name)
    plain.append(pa.Table.from_pylist([{"shop": 1, "code": "a", "name": "old"}], plain.schema().as_arrow()))
    table.do(Change(0, A, -(2**63)))
    table.check()


def test_deleted_keys_are_remembered_as_long_as_the_file_says(lake: Lake) -> None:
    """Up to the last moment an older record of the key loses, and then it comes back; the file is no longer named and,
    when the commit is known, no longer there."""
    table = Ordered(lake)
    table.do(Change(0, A, 5, True))
    (file,) = table.files
    table.now_ms += REMEMBERED_MS
    table.do(Change(0, A, 4))
    table.check()
    assert (table.held(), table.files) == ([], [file])
    table.now_ms += 1
    table.do(Change(0, A, 3))
    table.check()
    assert [row[0] for row in table.held()] == [A]
    assert (table.files, file.exists()) == ([], True)
    table.do(Change(0, A, 4))
    assert not file.exists()


def test_files_of_deleted_keys_become_few(lake: Lake) -> None:
    """Many small commits leave few files; what they remember is the same, and those that were merged are removed."""
    table = Ordered(lake)
    written = set()
    for number in range(3 * FAN_OUT):
        table.do(Change(0, (number, "a"), 5, True))
        written |= set(table.files)
        assert len(table.files) <= FAN_OUT
    table.restart()
    table.do(*(Change(0, (number, "a"), 4) for number in range(3 * FAN_OUT)))
    assert table.held() == []
    assert sum(file.exists() for file in written) <= 2 * FAN_OUT


def test_files_that_nobody_announced_are_removed_by_the_next_run(lake: Lake) -> None:
    """Of a batch that died before its announcement, once they are old; what the table names stays."""
    table = Ordered(lake)
    table.do(Change(0, A, 5, True))
    table.announce(Change(0, B, 5, True))  # and no commit
    table.newest.pop(B)
    (named,) = table.files
    stray = next(file for file in named.parent.iterdir() if file != named)
    table.restart()
    table.pipeline.context()
    assert stray.exists()
    age_everything(lake, table.name)
    table.restart()
    table.pipeline.context()
    assert (stray.exists(), named.exists()) == (False, True)
    table.do(Change(0, A, 4), Change(0, B, 4))
    table.check()


def _gone(table: Ordered) -> None:
    table.files[0].unlink()


def _cut(table: Ordered) -> None:
    table.files[0].write_bytes(table.files[0].read_bytes()[:-1])


def _unset(table: Ordered) -> None:
    table.set_property(None)


def _unset_and_compacted(table: Ordered) -> None:
    table.compact()
    table.set_property(None)


def _emptied(table: Ordered) -> None:
    table.set_property(json.dumps({**json.loads(table.named or ""), "files": []}))


def _of_another_version(table: Ordered) -> None:
    table.set_property(json.dumps({**json.loads(table.named or ""), "version": 2}))


def _garbage(table: Ordered) -> None:
    table.set_property("what is this?")


def _other_column(table: Ordered) -> None:
    table.set_property(json.dumps({**json.loads(table.named or ""), "order_id": 1}))


def _other_key(table: Ordered) -> None:
    table.set_property(json.dumps({**json.loads(table.named or ""), "key_ids": [1]}))


LOSSES: list[tuple[Callable[[Ordered], None], str]] = [
    (_gone, "is gone"),
    (_cut, "bytes and not"),
    (_unset, "floe.tombstones is gone"),
    (_unset_and_compacted, "floe.tombstones is gone"),
    (_emptied, "is not what its newest commit made of it"),
    (_of_another_version, "its version is 2"),
    (_garbage, "cannot be read"),
    (_other_column, "they were ordered by column shop"),
    (_other_key, "of another key"),
]


@pytest.mark.parametrize(("loss", "words"), LOSSES, ids=[loss.__name__[1:] for loss, _ in LOSSES])
def test_lost_deletes_are_refused_by_name_until_they_are_back(
    lake: Lake, loss: Callable[[Ordered], None], words: str
) -> None:
    """No batch begins, in this run and in the next, and the message says what is lost and how to go on. When it is
    back, so are the deletes."""
    table = Ordered(lake)
    table.do(Change(0, A, 5, True), Change(0, B, 5))
    table.do(Change(0, B, 6))
    before, (file,) = table.named, table.files
    content = file.read_bytes()
    loss(table)
    for _ in range(2):
        error = table.blocked()
        assert words in error.message
        assert f"ALTER TABLE {table.name} SET TBLPROPERTIES ('floe.tombstones' = 'forget')" in (error.remedy or "")
        table.restart()
    file.write_bytes(content)
    table.set_property(before)
    table.do(Change(0, A, 4))
    table.check()


def test_an_older_property_is_found_out(lake: Lake) -> None:
    """It names files that are there, but not all."""
    table = Ordered(lake)
    table.do(Change(0, A, 5, True))
    before = table.named
    table.do(Change(0, B, 5, True))
    table.set_property(before)
    assert "is not what its newest commit made of it" in table.blocked().message


def test_files_elsewhere_are_never_read_or_removed(lake: Lake, tmp_path: Path) -> None:
    """Whoever may set the property cannot make floe remove a file that is not of this folder."""
    table = Ordered(lake)
    other = tmp_path / "other.arrow"
    other.write_text("of somebody else")
    file = {"path": f"file://{other}", "record_count": 1, "file_size_bytes": 16, "newest_ms": 0}
    held = {"version": 1, "order_id": 3, "key_ids": [2, 1], "files": [file]}
    table.set_property(json.dumps(held))
    assert "does not lie in" in table.blocked().message
    assert other.exists()


def test_a_damaged_file_is_refused_by_the_task_that_reads_it(lake: Lake) -> None:
    """Of the right size, so that the driver does not see it."""
    table = Ordered(lake)
    table.do(Change(0, A, 5, True))
    (file,) = table.files
    file.write_bytes(b"\0" * file.stat().st_size)
    with pytest.raises(TableBlocked, match="cannot be used") as caught:
        table.announce(Change(0, A, 4))
    assert caught.value.code == "FLOE-R146"


def test_a_table_that_is_asked_to_forget_begins_anew(lake: Lake) -> None:
    """After a loss: an older record brings a key back that was deleted before, and is remembered from then on."""
    table = Ordered(lake)
    table.do(Change(0, A, 5, True), Change(0, B, 5, True))
    for file in table.files:
        file.unlink()
    table.blocked()
    table.set_property("forget")
    table.newest.clear()
    table.do(Change(0, A, 4))
    table.check()
    table.do(Change(0, A, 6, True))
    table.do(Change(0, A, 5))
    table.check()
    table.restart()
    table.do(Change(0, A, 5))
    assert table.held() == []


def test_what_is_changed_before_the_commit_refuses_it(lake: Lake) -> None:
    """A batch was compared with files that the table no longer names: it waits, and is committed when they are back."""
    table = Ordered(lake)
    table.do(Change(0, A, 5, True))
    before = table.named
    written = table.announce(Change(0, A, 4), Change(0, B, 1))
    table.set_property(None)
    answer = table.commit(written)
    assert isinstance(answer, CommitFailed)
    assert answer.cause is FailureCause.REFUSED
    assert "floe.tombstones" in answer.reason
    table.set_property(before)
    assert isinstance(table.commit(written), Committed)
    table.check()


def test_the_cleaner_keeps_what_is_remembered(lake: Lake, broker: Broker) -> None:
    """Invariant 12 for files of deleted keys: those that the table names or that are announced stay; as long as the
    table does not say which it needs, all do; those that nobody names go."""
    place = Place(lake, broker)
    table = Ordered(lake)
    table.do(Change(0, A, 5, True))
    (named,) = table.files
    table.announce(Change(0, B, 5, True))  # and no commit
    stray = next(file for file in named.parent.iterdir() if file != named)
    run = named.parent.parent / "_floe_keys" / "a.arrow"
    run.parent.mkdir()
    run.write_bytes(b"a run of a key index, which its driver keeps")
    written = table.announce(Change(0, B, 6, True))
    assert written.keyed is not None
    assert written.keyed.tombstones is not None
    (announced,) = (local(each.path) for each in written.keyed.tombstones.added)
    place.publisher.publish((written,))
    # The table is of this control topic alone, so that the cleaner looks at it.
    place_of = lake.plain(table.name)
    progress = json.loads(place_of.properties["floe.progress"])
    with place_of.transaction() as change:
        change.set_properties({"floe.progress": json.dumps({place.topic_id: next(iter(progress.values()))})})
    age_everything(lake, table.name)
    before = table.named

    for lost in (None, "what is this?"):
        table.set_property(lost)
        place.clean(delete=True)
        assert all(file.exists() for file in (named, stray, run, announced))
    table.set_property(before)
    found = place.clean(delete=True)[table.name]
    assert stray in {local(file.location) for file in found.orphans}
    assert (named.exists(), stray.exists(), run.exists(), announced.exists()) == (True, False, True, True)
    table.set_property("forget")
    place.clean(delete=True)
    assert (named.exists(), announced.exists()) == (False, True)
    place.publisher.close()


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("high", pa.array([1.0, 2.0])),
        ("low", pa.array([1, 2], pa.int64())),
        ("deleted_ms", pa.array([None, 5], pa.int64())),
    ],
)
def test_deleted_keys_in_other_columns_are_not_searched(tmp_path: Path, column: str, values: pa.Array) -> None:
    """Words that are no hashes would find no key, and an older version would win against a delete."""
    io = PyArrowFileIO()
    words = np.array([1, 2], np.uint64)
    written = write_deleted_keys(
        io, str(tmp_path), DeletedKeys(KeyHashes(words, words), pa.array([7, 8]), words.astype(np.int64))
    )
    assert len(read_deleted_keys(io, written, pa.int64())) == 2
    with pa.ipc.open_file(written.path) as held:
        batch = held.get_batch(0)
    changed = batch.set_column(batch.schema.names.index(column), column, values)
    Path(written.path).unlink()
    with pa.ipc.new_file(written.path, changed.schema.with_metadata(batch.schema.metadata)) as writer:
        writer.write_batch(changed.replace_schema_metadata(batch.schema.metadata))
    size = Path(written.path).stat().st_size
    with pytest.raises(UnusableDeletedKeys, match=f"its column {column}"):
        read_deleted_keys(io, replace(written, file_size_bytes=size), pa.int64())
