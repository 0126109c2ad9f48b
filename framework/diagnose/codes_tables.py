"""FLOE-T: a table is not created or changed as records ask. The records are dead letters, or the table waits."""

from __future__ import annotations

from framework.diagnose.entry import CodeEntry as Code

ENTRIES = (
    Code("FLOE-T101", "The table may not be created", "The table does not exist and `create.enabled` is false."),
    Code(
        "FLOE-T103",
        "A table without columns",
        "No record so far has a field with a value, and `source.schema` declares none.",
    ),
    Code("FLOE-T104", "Not a transform", "Iceberg has no such partition or sort transform, or its number is missing."),
    Code(
        "FLOE-T105",
        "A partition or sort column of unknown type",
        "The first records have no value for it, so its type is not known. Declare it under `source.schema`.",
    ),
    Code(
        "FLOE-T106",
        "A partition or sort transform does not fit the type",
        "The transform does not apply to the type that the records have. Declare another type, or choose another transform.",
    ),
    Code(
        "FLOE-T107",
        "An identifier field of unknown type",
        "The first records have no value for it, so its type is not known. Declare it under `source.schema`. The columns of "
        "`write.key` are identifier fields, too.",
    ),
    Code(
        "FLOE-T108",
        "A field that cannot identify rows",
        "Iceberg's identifier fields are single values, at the top or in structs, and neither `float` nor `double`. The columns "
        "of `write.key` are identifier fields, too; a number in JSON is a `double` where `source.schema` declares no other type.",
    ),
    Code(
        "FLOE-T109",
        "Two columns with the same full name",
        "A record has `a.b` at the top and `b` inside `a`, or the table has one and a record the other. Only one of "
        "them can exist, since Iceberg identifies columns by their full names. `evolve.exclude` leaves one out.",
    ),
    Code(
        "FLOE-T110",
        "More columns than the table may have",
        "Records need more columns than the table's `evolve.max_columns` allows. Fields inside columns count too. "
        "Those records are dead letters. Raise the limit, or leave the fields out with `evolve.exclude`.",
    ),
    Code(
        "FLOE-T111",
        "The table lacks a column of its key",
        "An upsert table finds rows by the columns of `write.key`, and the table that is there does not have one of them. Its "
        "rows have no value for it, so it cannot be added later. Choose columns that the table has.",
    ),
    Code(
        "FLOE-T112",
        "A column that cannot be part of a key",
        "A column of `write.key` is a `float`, a `double`, a list, a map or a struct in the table that is there. Choose another "
        "column.",
    ),
    Code(
        "FLOE-T113",
        "The table's format version has no such deletes",
        "Format version 1 knows no deletes, so such a table cannot be upserted; version 2 has position deletes, and version 3 "
        "deletion vectors. Upgrade the table (`ALTER TABLE ... SET TBLPROPERTIES ('format-version' = '3')`), or use "
        "`deletes: auto`.",
    ),
    Code("FLOE-T201", "The policy refuses a change", "`evolve` of this table does not allow what the record asks for."),
    Code("FLOE-T203", "An identifier field must stay required", "Iceberg's identifier fields cannot be made optional."),
)
