"""FLOE-T: a table is not created or changed as records ask. The records are dead letters, or the table waits."""

# ruff: noqa: E501  (prose: one sentence is not cut by the width of a line)
from __future__ import annotations

from framework.diagnose.entry import CodeEntry as Code
from framework.diagnose.entry import ShownAs, Transcript


def _refused(reason: str, *repairs: str) -> Transcript:
    """A table that a plan refuses."""
    return Transcript("plan orders.yaml -t prod", reason, "shop.orders", "", repairs, ShownAs.PLAN)


def _dead_letter(printed: str, message: str, remark: str) -> Transcript:
    """Only records show what such a table lacks, so a run says it as the failure of a record."""
    return Transcript(
        "run orders.yaml -t prod",
        message,
        "orders-0 offset 1042",
        "fix the producer, or set errors.policy (or routes.unrouted) to dead_letter or drop; nothing of the batch was announced",
        (
            remark,
            "floe run orders.yaml -t prod",
            "# If records are dead letters already:",
            f"floe dlq replay orders.yaml -t prod --code {printed}",
        ),
        printed=printed,
    )


ENTRIES = (
    Code(
        "FLOE-T101",
        "The table may not be created",
        "The table does not exist and `create.enabled` is false.",
        transcript=_dead_letter(
            "FLOE-D204",
            "a record failed at stage route: the table 'shop.orders' does not exist and may not be created",
            "# Create the table, or set `create: {enabled: true}`. Then:",
        ),
    ),
    Code(
        "FLOE-T103",
        "A table without columns",
        "No record so far has a field with a value, and `source.schema` declares none.",
        transcript=_dead_letter(
            "FLOE-D205",
            "a record failed at stage route: the table 'shop.orders' cannot be written now: no record so far has a field with a value, and none is declared",
            "# Declare fields under `source.schema`, or wait for a record that has some. Then:",
        ),
    ),
    Code(
        "FLOE-T104",
        "Not a transform",
        "Iceberg has no such partition or sort transform, or its number is missing.",
        transcript=_refused(
            "month_of(placed) is not an Iceberg transform",
            "# Name a transform of Iceberg, such as `day(placed)` or `bucket(16, id)`. Then:",
            "floe plan orders.yaml -t prod",
        ),
    ),
    Code(
        "FLOE-T105",
        "A partition or sort column of unknown type",
        "The first records have no value for it, so its type is not known. Declare it under `source.schema`.",
        transcript=_dead_letter(
            "FLOE-D205",
            "a record failed at stage route: the table 'shop.orders' cannot be written now: placed: the table is partitioned by day(placed), but no record so far has a value for placed; declare its type under source.schema",
            "# Declare the type:  source: {schema: {placed: timestamptz}}",
        ),
    ),
    Code(
        "FLOE-T106",
        "A partition or sort transform does not fit the type",
        "The transform does not apply to the type that the records have. Declare another type, or choose another transform.",
        transcript=_refused(
            "day(note) cannot take the type string; declare another type under source.schema or choose another transform",
            "# Declare another type under `source.schema`, or choose another transform. Then:",
            "floe plan orders.yaml -t prod",
        ),
    ),
    Code(
        "FLOE-T107",
        "An identifier field of unknown type",
        "The first records have no value for it that can identify rows: a float, a list or an object cannot. So its type is not known. Declare it under `source.schema`. The columns of `write.key` are identifier fields, too.",
        transcript=_dead_letter(
            "FLOE-D205",
            "a record failed at stage route: the table 'shop.orders' cannot be written now: id: rows are identified by id, but no record so far has a value for it that can, such as text or a whole number; declare it under source.schema",
            "# Declare the type:  source: {schema: {id: long}}",
        ),
    ),
    Code(
        "FLOE-T108",
        "A field that cannot identify rows",
        "Iceberg's identifier fields are single values, at the top or in structs, and neither `float` nor `double`. The columns of `write.key` are identifier fields, too. Where nothing is declared, whole numbers in JSON are `long` in such a column, and a record with a fraction is refused alone.",
        transcript=_refused(
            "id is double, and in Iceberg floats, and fields inside lists or maps, cannot identify rows",
            "# Declare another type (`source: {schema: {id: long}}`), or name other columns. Then:",
            "floe plan orders.yaml -t prod",
        ),
    ),
    Code(
        "FLOE-T109",
        "Two columns with the same full name",
        "A record has `a.b` at the top and `b` inside `a`, or the table has one and a record the other. Only one of them can exist, since Iceberg identifies columns by their full names. `evolve.exclude` leaves one out.",
        transcript=_refused(
            "its columns do not have different names",
            "# Leave one out with `evolve.exclude`. Then:",
            "floe plan orders.yaml -t prod",
        ),
    ),
    Code(
        "FLOE-T110",
        "More columns than the table may have",
        "Records need more columns than the table's `evolve.max_columns` allows. Fields inside columns count too. Those records are dead letters. Raise the limit, or leave the fields out with `evolve.exclude`.",
        transcript=_refused(
            "column note: evolve.max_columns is 1000, and the table would have more",
            "# Raise `evolve.max_columns`, or leave fields out with `evolve.exclude`. Then:",
            "floe plan orders.yaml -t prod",
            "floe dlq replay orders.yaml -t prod --code FLOE-D310",
        ),
    ),
    Code(
        "FLOE-T111",
        "The table lacks a column of its key",
        "An upsert table finds rows by the columns of `write.key`, and the table that is there does not have one of them. Its rows have no value for it, so it cannot be added later. Choose columns that the table has.",
        transcript=_refused(
            "the table has no column id, which is in its key",
            "# Name columns in `write.key` that the table has. Then:",
            "floe plan orders.yaml -t prod",
        ),
    ),
    Code(
        "FLOE-T112",
        "A column that cannot be part of a key",
        "A column of `write.key` is a `float`, a `double`, a list, a map or a struct in the table that is there. Choose another column.",
        transcript=_refused(
            "column id is double, which cannot be part of a key",
            "# Name another column in `write.key`. Then:",
            "floe plan orders.yaml -t prod",
        ),
    ),
    Code(
        "FLOE-T113",
        "The table's format version has no such deletes",
        "Format version 1 knows no deletes, so such a table cannot be upserted; version 2 has position deletes, and version 3 deletion vectors. Upgrade the table (`ALTER TABLE ... SET TBLPROPERTIES ('format-version' = '3')`), or use `deletes: auto`.",
        transcript=_refused(
            "its format version is 2, which has no deletion vectors",
            "# In Spark:  ALTER TABLE shop.orders SET TBLPROPERTIES ('format-version' = '3')",
            "floe plan orders.yaml -t prod",
        ),
    ),
    Code(
        "FLOE-T114",
        "A column that cannot order the table's records",
        "`order: {field: ...}` needs a column at the top of the table whose values have an exact order: a whole number, a decimal, a date, a time, a timestamp or a text.",
        transcript=_refused(
            "column version is double, which says of no two records for certain which is newer",
            "# Name another column in `write.order.field`, or let a new table have one of another type. Then:",
            "floe plan orders.yaml -t prod",
        ),
    ),
    Code(
        "FLOE-T115",
        "A definition that Iceberg's Java library cannot read",
        "Spark, and every other reader that is built on Iceberg's Java library, would refuse the table: for the name of a column, a partition of `fixed` values, or another rule of the library that the message names. floe makes no such table, and changes none into one.",
        transcript=_refused(
            "column hash: the table is partitioned by it, and Iceberg's Java library cannot read fixed[4] in manifests",
            "# Choose another transform, such as bucket, or leave the field out with `evolve.exclude`. Then:",
            "floe plan orders.yaml -t prod",
        ),
    ),
    Code(
        "FLOE-T201",
        "The policy refuses a change",
        "`evolve` of this table does not allow what the record asks for.",
        transcript=_refused(
            "column count: widening int to long is refused by evolve.data_type: freeze",
            "# Set the key that the message names to `evolve`, or take the change out of `source.schema`. Then:",
            "floe plan orders.yaml -t prod",
        ),
    ),
    Code(
        "FLOE-T203",
        "An identifier field must stay required",
        "Iceberg's identifier fields cannot be made optional.",
        transcript=_refused(
            "column id: an identifier field must stay required",
            "# Leave the field required, or take it out of the table's identifier fields (ALTER TABLE ... DROP IDENTIFIER FIELDS id). Then:",
            "floe plan orders.yaml -t prod",
        ),
    ),
)
