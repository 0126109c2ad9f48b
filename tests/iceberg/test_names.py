"""Fields whose names no column can have: their tables are read by Spark and by Iceberg's Java library, whatever comes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone

import pytest

from framework.adapters.iceberg.views import definition_of
from framework.config.column_names import RESERVED_BY_FLOE, RESERVED_BY_ICEBERG
from framework.config.spec import (
    Case,
    CreatePolicy,
    EvolveMode,
    EvolvePolicy,
    FieldHint,
    PartitionFieldSpec,
    TablePolicy,
)
from framework.record.process import process_block
from framework.table.readable import faults
from testbed.record_samples import alone
from testbed.servers.spark_reader import java_read
from tests.fuzz.definitions import TWINS
from tests.iceberg.conftest import Lake
from tests.iceberg.landing import Landing

pytestmark = [pytest.mark.iceberg]

TS = "2024-01-04T10:00:00Z"
HINTS = (FieldHint("ts", "timestamptz"), FieldHint("meta.ts", "timestamptz"))


def policy_of(
    partition_by: Sequence[PartitionFieldSpec] = (), version: str = "2", names: EvolveMode = EvolveMode.RENAME
) -> TablePolicy:
    create = CreatePolicy(partition_by=tuple(partition_by), properties=(("format-version", version),))
    return TablePolicy(create=create, evolve=replace(EvolvePolicy(), names=names), case=Case.INSENSITIVE)


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
