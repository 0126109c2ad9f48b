"""Fields whose names no column can have: their tables are read by Spark and by Iceberg's Java library, whatever comes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.update import AddSchemaUpdate, SetCurrentSchemaUpdate
from pyiceberg.transforms import DayTransform
from pyiceberg.types import LongType, NestedField, StructType, TimestamptzType

from framework.adapters.iceberg.views import definition_of
from framework.config.names.column_names import RESERVED_BY_FLOE, RESERVED_BY_ICEBERG
from framework.config.spec import (
    CreatePolicy,
    EvolveMode,
    EvolvePolicy,
    FieldHint,
    NameCase,
    PartitionFieldSpec,
    TablePolicy,
)
from framework.errors import TableBlocked
from framework.ops.doctor import catalog as doctor_catalog
from framework.ops.doctor.model import CheckState
from framework.record.process import process_block
from framework.table.changes import AlterTable, CreateTable, Refusal
from framework.table.create import plan_create
from framework.table.evolve import plan_evolution
from framework.table.model import TableNeed
from framework.table.readable import faults
from testbed.record_samples import alone
from testbed.servers.spark_reader import java_read
from tests.fuzz.definitions import TWINS
from tests.iceberg.conftest import Lake
from tests.iceberg.landing import Landing
from tests.project import Project

pytestmark = [pytest.mark.iceberg]

TS = "2024-01-04T10:00:00Z"
HINTS = (FieldHint("ts", "timestamptz"), FieldHint("meta.ts", "timestamptz"))


def policy_of(
    partition_by: Sequence[PartitionFieldSpec] = (), version: str = "2", names: EvolveMode = EvolveMode.RENAME
) -> TablePolicy:
    create = CreatePolicy(partition_by=tuple(partition_by), properties=(("format-version", version),))
    return TablePolicy(create=create, evolve=replace(EvolvePolicy(), names=names), case=NameCase.INSENSITIVE)


@dataclass(frozen=True)
class Story:
    """Batches of records for one table, and the rows that must be there, in order, as Spark gives them as JSON."""

    batches: tuple[tuple[object, ...], ...]
    rows: tuple[dict[str, object], ...]
    partition_by: tuple[PartitionFieldSpec, ...] = ()
    hints: tuple[FieldHint, ...] = ()
    drops: str = ""  # a partition field that somebody removes after the first batch
    version: str = "2"


DAY = PartitionFieldSpec("ts", "day")
SHOWN = "2024-01-04T10:00:00.000Z"


def _twice(first: object, second: object) -> tuple[tuple[object, ...], ...]:
    return (first,), (second,)


def _stories() -> Iterator[tuple[str, Story]]:
    plain = {"id": 1.0}
    for version in "123":
        rows = ({"ts": SHOWN}, {"ts": SHOWN, "ts_day_": 5.0})
        batches = _twice({"ts": TS}, {"ts": TS, "ts_day": 5})
        yield f"partition {version}", Story(batches, rows, (DAY,), HINTS[:1], version=version)
        if version != "3":  # PyIceberg, which changes the spec here, writes no metadata of version 3
            yield f"old spec {version}", Story(batches, rows, (DAY,), HINTS[:1], drops="ts_day", version=version)
    yield (
        "partition at creation",
        Story((({"ts": TS, "ts_day": 5},),), ({"ts": SHOWN, "ts_day": 5.0},), (DAY,), HINTS[:1]),
    )
    bucket = PartitionFieldSpec("id", "bucket", 4)
    yield (
        "bucket",
        Story(_twice({"id": 7}, {"id": 7, "id_bucket": "b"}), ({"id": 7}, {"id": 7, "id_bucket_": "b"}), (bucket,)),
    )
    cut = PartitionFieldSpec("x", "truncate", 3)
    yield (
        "truncate",
        Story(
            _twice({"x": "abcd"}, {"x": "abcd", "x_trunc": 1}), ({"x": "abcd"}, {"x": "abcd", "x_trunc_": 1.0}), (cut,)
        ),
    )
    kept = PartitionFieldSpec("_file", "identity")
    yield "a renamed column", Story(_twice({"_file": "a"}, {"_file": "b"}), ({"_file_": "a"}, {"_file_": "b"}), (kept,))
    meta = PartitionFieldSpec("meta.ts", "day")
    yield (
        "partition of a field inside",
        Story(
            _twice({"meta": {"ts": TS}}, {"meta": {"ts": TS, "ts_day": 5}}),
            ({"meta": {"ts": SHOWN}}, {"meta": {"ts": SHOWN, "ts_day_": 5.0}}),
            (meta,),
            HINTS[1:],
        ),
    )
    yield (
        "a dotted name at the top",
        Story(
            _twice({"meta": {"ts": TS}}, {"meta": {"ts": TS}, "meta.ts_day": 5}),
            ({"meta": {"ts": SHOWN}}, {"meta": {"ts": SHOWN}, "meta.ts_day_": 5.0}),
            (meta,),
            HINTS[1:],
        ),
    )
    for version in "23":
        for name in (*RESERVED_BY_ICEBERG, "_FILE", "_Pos", *(RESERVED_BY_FLOE if version == "2" else ())):
            odd = {"id": 1, name: 7}
            yield (
                f"later {name} {version}",
                Story(_twice({"id": 1}, odd), (plain, {**plain, f"{name}_": 7.0}), version=version),
            )
            if name == "_file":
                yield f"first {name} {version}", Story(((odd,),), ({**plain, f"{name}_": 7.0},), version=version)
    yield (
        "inside they are free",
        Story((({"s": {"_file": 1, "__floe_offset": 2}},),), ({"s": {"_file": 1.0, "__floe_offset": 2.0}},)),
    )
    yield "empty at the top", Story(_twice({"id": 1}, {"id": 1, "": 4}), (plain, {**plain, "_": 4.0}))
    yield "empty at creation", Story((({"id": 1, "": 4},),), ({**plain, "_": 4.0},))
    yield "empty in a struct", Story(_twice({"id": 1}, {"id": 1, "s": {"": 4}}), (plain, {**plain, "s": {"_": 4.0}}))
    yield (
        "empty in a struct that is there",
        Story(_twice({"s": {"a": 1}}, {"s": {"": 4}}), ({"s": {"a": 1.0}}, {"s": {"_": 4.0}})),
    )
    yield "empty in a list", Story(_twice({"id": 1}, {"id": 1, "l": [{"": 4}]}), (plain, {**plain, "l": [{"_": 4.0}]}))
    yield "empty alone", Story((({"": 4},), ({"": {"": 5}},)), ({"_": 4.0},))
    for number, (one, other) in enumerate(TWINS):
        renamed = f"{other}_"
        yield f"twins {number} at once", Story((({one: 1, other: 2},),), ({one: 1.0, renamed: 2.0},))
        yield f"twins {number} one after the other", Story(_twice({one: 1}, {other: 2}), ({one: 1.0}, {renamed: 2.0}))
        yield f"twins {number} turned", Story(_twice({other: 2}, {one: 1}), ({other: 2.0}, {f"{one}_": 1.0}))
        inside = Story(_twice({"s": {one: 1}}, {"s": {other: 2}}), ({"s": {one: 1.0}}, {"s": {renamed: 2.0}}))
        yield f"twins {number} inside", inside


STORIES = dict(_stories())


def landed(lake: Lake, name: str, story: Story, way: object = process_block) -> Landing:
    landing = Landing(lake, name, policy_of(story.partition_by, story.version), story.hints, way)  # type: ignore[arg-type]
    landing.take(*story.batches[0])
    if story.drops:
        with lake.plain(name).update_spec() as update:
            update.remove_field(story.drops)
    for batch in story.batches[1:]:
        landing.take(*batch)
    return landing


@pytest.mark.parametrize("way", [process_block, alone], ids=["in columns", "alone"])
def test_the_tables_are_sound_by_every_way_of_a_record(lake: Lake, way: object) -> None:
    """Each story's table has nothing that Java would refuse, a column for each field, and the values in it."""
    for number, (title, story) in enumerate(STORIES.items()):
        name = f"ns.t{number}"
        landing = landed(lake, name, story, way)
        table = lake.plain(name)
        assert faults(definition_of(table.metadata)) == (), title
        wanted = 1 if title == "empty alone" else 0  # the second record has a struct where a number is
        assert (len(landing.letters), landing.refusals) == (wanted, []), title
        rows = [without_nulls(row) for row in lake.plain(name).scan().to_arrow().to_pylist()]
        assert sorted(map(str, rows)) == sorted(map(str, story.rows)), title


def without_nulls(value: object) -> object:
    """A row as its JSON would be."""
    if isinstance(value, dict):
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return SHOWN if value == datetime(2024, 1, 4, 10, tzinfo=timezone.utc) else value


@pytest.mark.spark
def test_spark_and_java_read_every_table(lake: Lake) -> None:
    """Of each story: all columns by Spark SQL, and as many records by Iceberg's Java library without Spark."""
    names = {f"ns.t{number}": story for number, story in enumerate(STORIES.values())}
    for name, story in names.items():
        landed(lake, name, story)
    queries = [f"SELECT to_json(struct(*)) AS row FROM `default`.{name}" for name in names]
    found = java_read(lake.settings, queries, list(names))
    for (name, story), rows in zip(names.items(), found.rows, strict=True):
        shown = [json.loads(str(row["row"])) for row in rows]
        assert sorted(map(str, shown)) == sorted(map(str, story.rows)), (name, story)
    assert found.counts == {name: len(story.rows) for name, story in names.items()}


# Tables as floe 0.x made them, or as others still may: the columns that are added, and what they are called in the end.
BROKEN: dict[str, tuple[PartitionFieldSpec | None, NestedField, str]] = {
    "partition": (DAY, NestedField(9, "ts_day", LongType(), required=False), "ts_day_"),
    "own": (None, NestedField(9, "_file", LongType(), required=False), "_file_"),
    "changelog": (None, NestedField(9, "_change_type", LongType(), required=False), "_change_type_"),
    "empty": (None, NestedField(9, "", LongType(), required=False), "_"),
    "empty_inside": (
        None,
        NestedField(9, "s", StructType(NestedField(10, "", LongType(), required=False)), required=False),
        "s._",
    ),
    "twin": (None, NestedField(9, "_1", LongType(), required=False), "_1_"),
}
_BASE = Schema(NestedField(1, "ts", TimestamptzType(), required=False), NestedField(2, "1", LongType(), required=False))


def break_(lake: Lake, name: str, added: NestedField) -> None:
    """What no door of floe does any more."""
    table, commits = lake.tables.opened(name)
    assert table is not None
    schema = Schema(*table.schema().fields, added, schema_id=table.schema().schema_id + 1)
    commits.apply(table, (), (AddSchemaUpdate(schema_=schema), SetCurrentSchemaUpdate(schema_id=-1)))


@pytest.mark.spark
def test_doctor_finds_broken_tables_and_its_remedy_makes_them_readable(lake: Lake) -> None:
    """Each is an error with a command of its own; after it later records find the column, and Spark and Java read all."""
    landings = {}
    for title, (by, added, _) in BROKEN.items():
        landing = Landing(lake, f"ns.{title}", policy_of([by] if by else []), HINTS[:1])
        lake.create(landing.name, _BASE, [by] if by else [])
        landing.take({"ts": TS, "1": 1})
        break_(lake, landing.name, added)
        landings[title] = landing
        if title in ("empty", "empty_inside", "twin"):
            with pytest.raises(TableBlocked) as refused:
                landing.take({"ts": TS})
            assert (refused.value.code, f"floe doctor --repair {landing.name}" in refused.value.remedy) == (
                "FLOE-R148",
                True,
            )
    lake.create("ns.sound", _BASE)
    found = list(doctor_catalog.unreadable_tables(lake.tables, "default", "prod"))
    broken = {finding.check: finding.remedy for finding in found if finding.state is CheckState.ERROR}
    assert broken == {f"table ns.{title}": f"floe doctor --repair ns.{title} -t prod" for title in BROKEN}
    assert found[-1].message == "1 table can be read by Spark and Iceberg's Java library"

    for title, (_, added, wanted) in BROKEN.items():
        (reported,) = doctor_catalog.repair(lake.tables, f"ns.{title}")
        assert (reported.state, wanted in landings[title].columns()) == (CheckState.OK, True), reported
        (again,) = doctor_catalog.repair(lake.tables, f"ns.{title}")
        assert "nothing was changed" in again.message
        value: object = {"": 7} if title == "empty_inside" else 7
        landings[title].take({"ts": TS, added.name: value})
        assert not landings[title].letters
    found = list(doctor_catalog.unreadable_tables(lake.tables, "default", "prod"))
    assert [finding.state for finding in found] == [CheckState.OK]
    queries = [
        f"SELECT max({'.'.join(f'`{part}`' for part in wanted.split('.'))}) AS seen FROM `default`.ns.{title}"
        for title, (_, _, wanted) in BROKEN.items()
    ]
    java = java_read(lake.settings, queries, [f"ns.{title}" for title in BROKEN])
    assert [rows[0]["seen"] for rows in java.rows] == [7] * len(BROKEN)
    assert set(java.counts.values()) == {2}


def test_the_last_look_in_front_of_the_catalog(lake: Lake) -> None:
    """What was decided before somebody changed the table's partitions is not made: the table stays readable, and the next
    try sees it as it is."""
    name = lake.create("ns.t", _BASE)
    policy = policy_of()
    decided = lake.tables.load_target(name, policy)
    assert decided is not None
    change = plan_evolution(decided, TableNeed(name, (("ts_day", "long"),)))
    assert isinstance(change, AlterTable)
    with lake.plain(name).update_spec() as update:
        update.add_field("ts", DayTransform(), "ts_day")
    with pytest.raises(TableBlocked) as refused:
        lake.tables.alter_table(change)
    assert refused.value.code == "FLOE-R147"
    landing = Landing(lake, name, policy, HINTS[:1])
    landing.take({"ts": TS, "ts_day": 5})
    assert landing.columns() == ["ts", "1", "ts_day_"]
    assert lake.plain(name).scan().to_arrow()["ts_day_"].to_pylist() == [5.0]


def test_a_broken_table_is_changed_beside_what_is_broken(lake: Lake) -> None:
    """A column that keeps Spark from reading the table is nothing that another change is to blame for."""
    name = lake.create("ns.t", _BASE)
    break_(lake, name, NestedField(9, "_file", LongType(), required=False))
    landing = Landing(lake, name, policy_of(), HINTS[:1])
    landing.take({"ts": TS, "_file": 3, "new": "x"})
    assert (landing.letters, landing.refusals) == ({}, [])
    assert landing.columns() == ["ts", "1", "_file", "new"]


def test_a_table_that_would_be_unreadable_is_not_made(lake: Lake) -> None:
    """By its code, before a catalog is asked; a bucket of the same column will do."""
    hints = (FieldHint("hash", "fixed[4]"),)
    need = TableNeed("ns.t", (("hash", "fixed[4]"),))
    refused = plan_create(need, policy_of([PartitionFieldSpec("hash")]), hints, ())
    assert isinstance(refused, Refusal)
    assert (refused.code, refused.path) == ("FLOE-T115", ("hash",))
    assert isinstance(plan_create(need, policy_of([PartitionFieldSpec("hash", "bucket", 4)]), hints, ()), CreateTable)


def test_the_remedy_works_as_typed(tmp_path: Path) -> None:
    """`floe doctor --repair TABLE -t TARGET` renames the column and says so, and once more it changes nothing; a table that is
    not there is an error."""
    project = Project(tmp_path, "127.0.0.1:1")
    lake = Lake(project.catalog_settings)
    lake.create("ns.t", _BASE)
    break_(lake, "ns.t", NestedField(9, "_file", LongType(), required=False))
    output = project.run("doctor", "--repair", "ns.t")
    assert "ok       table ns.t: column '_file' is now called '_file_'" in output
    assert list(lake.plain("ns.t").schema().column_names) == ["ts", "1", "_file_"]
    assert "nothing was changed" in project.run("doctor", "--repair", "ns.t")
    assert "there is no such table" in project.run("doctor", "--repair", "ns.other", code=3)
