"""What a plan says of tables and offsets: the decisions of the run itself, asked before it happens."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform
from pyiceberg.types import ListType, LongType, NestedField, StringType, StructType, TimestamptzType

from framework.commit.events.event_types import Accounting, Heartbeat, SourceRange
from framework.commit.machine.progress.recorded import CREATED_PROPERTY
from framework.commit.offsets import PartitionFacts, SafeOffset
from framework.config.spec import (
    CreatePolicy,
    ErrorPolicy,
    EvolveMode,
    EvolvePolicy,
    FieldHint,
    PartitionFieldSpec,
    TablePolicy,
    WriteMode,
    WritePolicy,
)
from framework.config.values.maintenance import MaintenanceMode, MaintenancePolicy
from framework.errors import StateDisagreement
from framework.ops.preview.decisions import holding_tables, preview_start, preview_table
from framework.ops.preview.model import Action, PartitionStart, PipelinePreview, Problem
from framework.ops.preview.text import pipeline_lines, summary
from framework.plan.compile import compile_plan
from framework.plan.model import Plan
from framework.table.model import TableTarget
from tests.unit.plan.test_submit import loaded

BY_DAY = (PartitionFieldSpec("at", "day"),)
AT = FieldHint("at", "timestamptz")


def plan(policy: TablePolicy | None = None, *hints: FieldHint) -> Plan:
    made = compile_plan(loaded())
    tables = replace(made.write.tables, defaults=policy or TablePolicy())
    return replace(made, write=replace(made.write, tables=tables), decode=replace(made.decode, hints=hints))


def policy(**create: Any) -> TablePolicy:
    return TablePolicy(create=CreatePolicy(**create))


def table(policy: TablePolicy | None = None, properties: dict[str, str] | None = None) -> TableTarget:
    """A table of `id` and `at`, partitioned by day."""
    schema = Schema(
        NestedField(1, "id", LongType(), required=False), NestedField(2, "At", TimestamptzType(), required=False)
    )
    spec = PartitionSpec(PartitionField(2, 1000, DayTransform(), "at_day"))
    return TableTarget(
        "shop.orders",
        "uuid",
        "file:///t",
        schema.model_dump_json(),
        0,
        spec.model_dump_json(),
        0,
        0,
        2,
        {CREATED_PROPERTY: "orders 0", **(properties or {})},
        policy or TablePolicy(),
    )


def test_a_missing_table_is_made_of_what_is_declared() -> None:
    """Declared columns, partitions and properties are shown; the rest comes from the data."""
    shown = preview_table(plan(policy(partition_by=BY_DAY), AT), "shop.orders", None)
    assert (shown.action, shown.columns, shown.partition_by) == (Action.CREATE, ("at timestamptz",), ("day(at)",))
    assert dict(shown.properties)["format-version"] == "2"
    assert shown.notes == ("further columns come from the data",)


def test_format_versions_are_shown_as_they_will_be() -> None:
    """What is declared in nanoseconds is shown as the version of the table has it; a table of an older version than new
    ones get says so; the table of dead letters keeps its own."""
    declared = FieldHint("at", "timestamptz_ns")
    for version, kind in (("2", "timestamptz"), ("3", "timestamptz_ns")):
        made = plan(policy(properties=(("format-version", version),)), declared)
        assert preview_table(made, "shop.orders", None).columns == (f"at {kind}",)
    older = preview_table(made, "shop.orders", table())
    assert older.notes == ("its format version is 2, not 3; it is left as it is",)
    newer = preview_table(made, "shop.orders", replace(table(), format_version=3))
    assert newer.notes == ("column At is timestamptz, the file declares timestamptz_ns; values must fit the column",)
    made = replace(made, write=replace(made.write, dead_letter_table="shop.letters"))
    letters = preview_table(made, "shop.letters", None)
    assert dict(letters.properties)["format-version"] == "2"


def test_a_partition_that_nobody_declared_waits_for_a_record() -> None:
    """A table whose partition column is not declared is made when a record shows it; that is no refusal."""
    shown = preview_table(plan(policy(partition_by=BY_DAY), FieldHint("id", "long")), "shop.orders", None)
    assert (shown.action, shown.columns) == (Action.CREATE, ("id long",))
    assert "no record so far has a value for at" in shown.notes[0]


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (plan(policy(enabled=False)), "FLOE-T101"),
        (plan(TablePolicy(evolve=EvolvePolicy(tables=EvolveMode.FREEZE))), "FLOE-D204"),
        (plan(policy(partition_by=BY_DAY), FieldHint("at", "string")), "FLOE-T106"),
    ],
)
def test_a_table_that_cannot_be_made_is_refused_with_its_code(made: Plan, code: str) -> None:
    """What the run would refuse is refused in the plan, with the same code."""
    shown = preview_table(made, "shop.orders", None)
    assert (shown.action, shown.code) == (Action.REFUSE, code)
    assert shown.notes[0]


def test_a_declared_column_is_added_to_a_table() -> None:
    """Columns that are declared and missing are shown; those that are there, in other letters too, are not."""
    shown = preview_table(plan(None, AT, FieldHint("tip", "decimal(10, 2)")), "shop.orders", table())
    assert (shown.action, shown.columns) == (Action.ALTER, ("tip decimal(10, 2)",))
    assert preview_table(plan(None, AT), "shop.orders", table()).action is Action.KEEP


def test_frozen_columns_refuse_a_declared_one() -> None:
    """A column that the policy forbids is refused, by name."""
    frozen = TablePolicy(evolve=EvolvePolicy(columns=EvolveMode.FAIL))
    shown = preview_table(plan(frozen, FieldHint("tip", "double")), "shop.orders", table(frozen))
    assert (shown.action, shown.code) == (Action.REFUSE, "FLOE-T201")
    assert shown.notes[0].startswith("column tip: ")


def test_what_an_existing_table_has_otherwise_is_said() -> None:
    """Partitions, properties and types of a table that exists are left as they are, and the plan says so."""
    wanted = policy(partition_by=(PartitionFieldSpec("at", "hour"),), properties=(("owner", "me"),))
    shown = preview_table(plan(wanted, FieldHint("id", "string")), "shop.orders", table(wanted, {"owner": "you"}))
    assert shown.action is Action.KEEP
    assert shown.notes == (
        "it is partitioned by day(at), not by hour(at); it is left as it is",
        "its property owner is you, not me; it is left as it is",
        "column id is long, the file declares string; values must fit the column",
    )


FACTS = {("t", 0): PartitionFacts("id", 5, 100), ("t", 1): PartitionFacts("id", 0, 50)}
GROUP = {("t", 0): SafeOffset(40, "id", 7, Accounting())}


def test_each_partition_says_where_it_begins_and_by_whom() -> None:
    """A first run begins by starting_offsets, a known partition at the group's offset, a new one at its beginning."""
    first = preview_start(plan(), FACTS, {}, None)
    assert first.partitions == (
        PartitionStart("t", 0, 5, 100, "starting_offsets"),
        PartitionStart("t", 1, 0, 50, "starting_offsets"),
    )
    later = preview_start(
        plan(), FACTS, GROUP, Heartbeat("p", "r", 3, (SourceRange("t", "id", 0, 30, 40),), Accounting())
    )
    assert (later.first_run, later.batch) == (False, 7)
    assert later.partitions == (
        PartitionStart("t", 0, 40, 100, "group"),
        PartitionStart("t", 1, 0, 50, "new partition"),
    )


def test_a_start_that_would_be_refused_is_refused_here() -> None:
    """The plan raises the very error of the run: the announced end and the group's offset disagree."""
    with pytest.raises(StateDisagreement) as raised:
        preview_start(plan(), FACTS, GROUP, Heartbeat("p", "r", 3, (SourceRange("t", "id", 0, 30, 41),), Accounting()))
    assert Problem.of(raised.value).exit_code == 5


def test_lines_for_people() -> None:
    """The whole preview as it is read, to the letter."""
    made = plan(policy(partition_by=BY_DAY), AT)
    made = replace(made, write=replace(made.write, errors=ErrorPolicy.FAIL))
    shown = PipelinePreview(
        made,
        "sha256:0",
        Action.START,
        None,
        (),
        preview_start(made, FACTS, {}, None),
        (
            preview_table(made, "shop.refunds", None),
            preview_table(made, "shop.orders", table(properties={"format-version": "2"})),
        ),
        (Problem("FLOE-E103", "not granted: Read on topic t", "kafka-acls.sh ...", 3),),
    )
    assert "\n".join(map(str, pipeline_lines(shown, (), False))) == (
        "! pipeline pizzas on target prod (a.yaml): starts for the first time\n"
        "    ! not granted: Read on topic t  [FLOE-E103]\n"
        "        remedy: kafka-acls.sh ...\n"
        "    first run\n"
        "      t, 2 partitions (starting_offsets): 145 offsets to read\n"
        "    tables\n"
        "      shop.orders: unchanged, at file:///t\n"
        "    + shop.refunds: is created, partitioned by day(at)\n"
        "        + at timestamptz\n"
        "          (further columns come from the data)\n"
        "          properties commit.manifest.min-count-to-merge=10, format-version=2, "
        "write.metadata.delete-after-commit.enabled=true, write.metadata.previous-versions-max=20"
    )
    assert summary([shown]) == (
        "Plan: 1 to start, 0 to restart, 0 unchanged; tables: 1 to create, 0 to change, 0 refused"
    )
    json.dumps(shown.to_json())


def test_a_column_of_another_kind_is_no_change() -> None:
    """A nested column is compared as a whole and asked for once."""
    schema = Schema(NestedField(1, "name", StringType(), required=False))
    found = replace(table(), schema_json=schema.model_dump_json(), spec_json=PartitionSpec().model_dump_json())
    shown = preview_table(plan(None, FieldHint("customer.zip", "string")), "shop.orders", found)
    assert shown.columns == ("customer struct<zip: string>",)


def test_where_files_lie_is_in_the_plan() -> None:
    """What a reviewer must see: the location and the properties that a file asks for, and those that a table has."""
    asks = policy(location="s3://lake/{namespace}/{table}", properties=(("owner", "me"),))
    made = preview_table(plan(asks), "shop.orders", None)
    assert made.location == "s3://lake/shop/orders"
    assert ("owner", "me") in made.properties
    there = preview_table(plan(), "shop.orders", table(None, {"owner": "you", "floe.progress": "{}"}))
    assert there.location == table().location
    assert there.properties == (("owner", "you"),)


def test_the_mode_of_each_table_is_in_the_plan() -> None:
    """An upsert table is shown with its key, whether it is made or there; other tables have no such word."""
    keyed = plan(TablePolicy(write=WritePolicy(WriteMode.UPSERT, ("id",))), FieldHint("id", "long"), AT)
    made = preview_table(keyed, "shop.orders", None)
    assert (made.action, made.columns, made.upserted_by) == (
        Action.CREATE,
        ("id long required", "at timestamptz"),
        ("id",),
    )
    there = preview_table(keyed, "shop.orders", table())
    assert there.action is Action.KEEP
    assert there.notes == ("id is part of the key and optional: records without it are dead letters",)
    shown = PipelinePreview(keyed, "sha256:0", Action.START, None, (), tables=(made, there))
    assert json.dumps(shown.to_json()).count('"upserted_by": ["id"]') == 2
    assert "shop.orders: is created, upserted by id" in "\n".join(map(str, pipeline_lines(shown, (), False)))
    appended = replace(shown, plan=plan(), tables=(preview_table(plan(), "shop.orders", table()),))
    assert "upserted_by" not in json.dumps(appended.to_json())


@pytest.mark.parametrize(
    ("key", "version", "code"), [("id", 1, "FLOE-T113"), ("number", 2, "FLOE-T111"), ("id", 2, "")]
)
def test_a_table_that_cannot_be_upserted_is_refused(key: str, version: int, code: str) -> None:
    """What a table lacks for upserts is found before a run, with its code and nothing done."""
    keyed = plan(TablePolicy(write=WritePolicy(WriteMode.UPSERT, (key,))))
    shown = preview_table(keyed, "shop.orders", replace(table(), format_version=version))
    assert (shown.code, shown.action is Action.REFUSE) == (code, code != "")
    problems = list(holding_tables(keyed, [shown]))
    assert [(each.code, each.exit_code, code in each.remedy) for each in problems] == [("FLOE-R144", 6, True)][
        : bool(code)
    ]
    assert not list(holding_tables(plan(), [replace(shown, action=Action.REFUSE)]))


def test_maintenance_is_offered_for_tables_of_others() -> None:
    """A table that floe did not create is left to others, and the plan says which word changes that; a table of floe's
    own, or one that the file speaks of, needs no word."""
    theirs = replace(table(), properties={})
    assert preview_table(plan(TablePolicy()), "shop.orders", table()).notes == ()
    (offer,) = preview_table(plan(TablePolicy()), "shop.orders", theirs).notes
    assert "`maintenance: {mode: always}`" in offer
    for mode in (MaintenanceMode.ALWAYS, MaintenanceMode.NEVER):
        said = TablePolicy(maintenance=MaintenancePolicy(mode))
        assert preview_table(plan(said), "shop.orders", theirs).notes == ()


def test_types_are_compared_also_inside_columns() -> None:
    """A field of a struct or a list that has another type than the file declares is named with both, without ids; fields
    that the file does not know are the records' own."""
    inner = StructType(
        NestedField(7, "at", StringType(), required=False), NestedField(8, "own", StringType(), required=False)
    )
    schema = Schema(NestedField(1, "lines", ListType(9, inner, element_required=False), required=False))
    found = replace(table(), schema_json=schema.model_dump_json(), spec_json=PartitionSpec().model_dump_json())
    shown = preview_table(plan(None, FieldHint("lines", "list<struct<at: timestamptz>>")), "shop.orders", found)

    assert shown.other_types == (
        "column lines.element.at is string, the file declares timestamptz; values must fit the column",
    )
