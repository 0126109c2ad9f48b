"""FLOE-D: a record cannot be written. `errors.policy` says what happens to it (`routes.unrouted` for FLOE-D201)."""

# ruff: noqa: E501  (prose: one sentence is not cut by the width of a line)
from __future__ import annotations

from framework.diagnose.entry import CodeEntry as Code

ENTRIES = (
    Code("FLOE-D101", "Not JSON", "The record's value is not JSON. The dead letter holds its bytes."),
    Code("FLOE-D102", "Not a JSON object", "The value is JSON, but a list or a single value, so it has no fields."),
    Code(
        "FLOE-D103",
        "A key occurs twice",
        "An object holds the same key twice, so it is not clear which value is meant.",
    ),
    Code("FLOE-D104", "Not UTF-8", "JSON is UTF-8; a byte sequence is not."),
    Code(
        "FLOE-D105",
        "Nested too deeply",
        "The value is nested more than 100 levels deep.",
    ),
    Code(
        "FLOE-D111",
        "Not in the registry's wire format",
        "The pipeline reads with a schema registry, but the record has no schema id: neither a zero byte and four bytes at its start, nor a header with a GUID.",
    ),
    Code(
        "FLOE-D112",
        "A schema that the registry does not have",
        "The registry has no schema with this id, and had none when floe asked again for a while (`unknown.schema.patience.ms`). The dead letter holds the record's bytes; once the schema is registered, replay it.",
    ),
    Code(
        "FLOE-D113",
        "A schema of another format",
        "The registry's schema is not of the format that the pipeline reads: protobuf where Avro is expected, for example.",
    ),
    Code(
        "FLOE-D114",
        "A value that its own schema does not allow",
        "A decimal with more digits than its schema allows, a time of more than 24 hours, or a timestamp out of its type's range.",
    ),
    Code("FLOE-D115", "Not data of its schema", "The bytes end too early or too late, or do not match the schema."),
    Code(
        "FLOE-D116",
        "A schema that cannot be used",
        "The writer's schema has an error, refers to a missing type, or the registry cannot return it in compiled form.",
    ),
    Code(
        "FLOE-D117",
        "The writer's schema does not fit the reader's",
        "By Avro's rules of resolution a record of the writer's schema cannot be read with `format.schema`: a type changed, or a new field has no default.",
    ),
    Code(
        "FLOE-D118",
        "Fields that the schema does not know",
        "A protobuf record has fields that its message does not declare. They would be lost, so the record is an error until the schema is brought up to date.",
    ),
    Code(
        "FLOE-D119",
        "An unexpected error in one record",
        "Processing the record raised an error that floe does not expect. The record is kept whole, and the records around it are written. Please report it, with the record if you may share it.",
    ),
    Code(
        "FLOE-D121",
        "Not a change of a row",
        "The pipeline reads Debezium's change events, and the record is something else: a change of the database's schema, a transaction's end, or no envelope at all.",
    ),
    Code(
        "FLOE-D122",
        "A change event without a row",
        "The event describes no row (a truncate, a message), or a delete does not hold the row as it was before.",
    ),
    Code(
        "FLOE-D123",
        "transform.sql fails for the record",
        "An expression of `transform.sql` fails for a value of the record, as `CAST('x' AS INT)` does. The batch was halved until this record was found; all others were written. Use `try_cast` and similar functions where such values can occur, or fix the producer. Then replay the dead letters.",
    ),
    Code(
        "FLOE-D120",
        "The record kills the process that reads it",
        "Tasks of the batch ended twice at the same offsets: the process crashed, or raised an unexpected error. floe then tried the records in smaller and smaller pieces, each in a process of its own. This record ends its process; all others were written. Please report it with the record's bytes, which the dead letter holds. `floe dlq replay` tries it again.",
    ),
    Code(
        "FLOE-D201",
        "No rule matches",
        "No rule of `routes` takes the record; `routes.unrouted` says what happens to it.",
    ),
    Code(
        "FLOE-D202",
        "The table's name cannot be made",
        "A `{field}` of the table's name is missing in the record, is not text, a number or a boolean, or holds characters that a table name may not have.",
    ),
    Code("FLOE-D203", "The table is not allowed", "The record leads to a table name outside `allow_tables`."),
    Code(
        "FLOE-D204",
        "The table may not be created",
        "The table does not exist, and `create.enabled` or `evolve.tables` forbids creating it.",
    ),
    Code(
        "FLOE-D205",
        "The table cannot be written now",
        "Either the table does not exist and cannot be created: the records so far do not suffice, or `routes.max_new_tables_per_hour` tables were created within the last hour. Or the table exists and cannot be written: its metadata file is gone, it is encrypted, or it has a type that floe does not know. The dead letter says which. floe tries again every minute.",
    ),
    Code(
        "FLOE-D301",
        "The value is of another type",
        "The field's value does not have the column's type: text in a number column, a list in a text column.",
    ),
    Code(
        "FLOE-D302",
        "The value is out of range",
        "The value is outside the range of the column's type. floe never cuts or wraps a value (invariant 9).",
    ),
    Code(
        "FLOE-D303",
        "The value would lose digits",
        "The value has more digits than the column keeps. floe never rounds a value (invariant 9).",
    ),
    Code(
        "FLOE-D304",
        "The text cannot be read",
        "The text is not a date, time, uuid, number or encoding of the column's type.",
    ),
    Code("FLOE-D305", "A required value is missing", "The column is required and the record has no value for it."),
    Code(
        "FLOE-D306",
        "Two fields for one column",
        "Two fields differ only in case, two keys of a map are the same, or two columns would have the same full name: `a.b` at the top, and `b` inside `a`. `evolve.exclude` leaves one out.",
    ),
    Code(
        "FLOE-D307",
        "A new field, but columns are frozen",
        "`evolve.columns` is `freeze` and the table lacks the field.",
    ),
    Code(
        "FLOE-D308",
        "An ambiguous time",
        "A number without a declared `unit`, or text without a zone where none is declared.",
    ),
    Code("FLOE-D309", "A column that cannot be written", "The table has a column of a type that floe does not write."),
    Code(
        "FLOE-D310",
        "The record asks for too many columns",
        "Its new fields would give the table more columns than its `evolve.max_columns` allows. Fields inside columns count too. Raise the limit, or leave fields out with `evolve.exclude`, and replay the dead letters.",
    ),
    Code(
        "FLOE-D311",
        "A record without its key",
        "The table is written by its key (`write.key`), and the record has no value for a column of it: the field is missing, null, or left out because it does not fit its column. No row could be found by such a key, so neither a row nor a delete is written.",
    ),
)
