"""FLOE-D: a record cannot be written. What becomes of it is `errors.policy` (`routes.unrouted` for FLOE-D201)."""

# ruff: noqa: E501  (prose: one sentence is not cut by the width of a line)
from __future__ import annotations

from framework.diagnose.entry import CodeEntry as Code

ENTRIES = (
    Code("FLOE-D101", "Not JSON", "The record's value is not JSON. The dead letter holds its bytes."),
    Code("FLOE-D102", "Not a JSON object", "The value is JSON, but a list or a single value, so it has no fields."),
    Code(
        "FLOE-D103",
        "A key occurs twice",
        "One object holds one key two times, and which value is meant cannot be known.",
    ),
    Code("FLOE-D104", "Not UTF-8", "JSON is UTF-8; a byte sequence is not."),
    Code(
        "FLOE-D105",
        "Nested too deeply",
        "The value is nested more than 100 levels deep, deeper than any table's columns.",
    ),
    Code(
        "FLOE-D111",
        "Not in the registry's wire format",
        "The pipeline reads with a schema registry, and the record begins with no schema id: a zero byte and four bytes, or a header that holds a GUID.",
    ),
    Code(
        "FLOE-D112",
        "A schema that the registry does not have",
        "The registry was asked again for a while (`unknown.schema.patience.ms`) and has no schema of this id. The dead letter holds the record's bytes; once the schema is there, it can be read again.",
    ),
    Code(
        "FLOE-D113",
        "A schema of another format",
        "The registry's schema is not of the format that the pipeline reads: protobuf where Avro is expected, for example.",
    ),
    Code(
        "FLOE-D114",
        "A value that its own schema does not allow",
        "A decimal with more digits than its schema says, a time beyond a day, or a moment too far away for its type.",
    ),
    Code(
        "FLOE-D115", "Not data of its schema", "The bytes end too early, too late, or cannot be what the schema says."
    ),
    Code(
        "FLOE-D116",
        "A schema that cannot be used",
        "The writer's schema is faulty, refers to a type that is not there, or the registry gives it in no compiled form.",
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
        "Nobody foresaw such a record",
        "Processing the record raised an error that floe has no rule for; it is kept whole, and its neighbours are written. Please report it with the record, if it can be shown.",
    ),
    Code(
        "FLOE-D121",
        "Not a change of a row",
        "The pipeline reads Debezium's change events, and the record is something else: a change of the database's schema, a transaction's end, or no envelope at all.",
    ),
    Code(
        "FLOE-D122",
        "A change event without a row",
        "The event is about no row (a truncate, a message), or a delete does not hold the row before it.",
    ),
    Code(
        "FLOE-D121",
        "transform.sql fails for the record",
        "An expression of `transform.sql` fails for a value of the record, as `CAST('x' AS INT)` does. The record was found by halving the batch; all others went through. Use `try_cast` and its like where such values come, or mend the producer, and replay the dead letters.",
    ),
    Code(
        "FLOE-D120",
        "The record ends the process that reads it",
        "Tasks of the batch ended twice at the same offsets, by a crash of the process or an error that nobody foresaw. The records were then tried apart from each other, each piece in a process of its own, and this one ends it, while all others are rows. Report it with the record's bytes, which the dead letter holds; `floe dlq replay` tries it again.",
    ),
    Code(
        "FLOE-D201",
        "No rule matches",
        "No rule of `routes` takes the record; `routes.unrouted` says what becomes of it.",
    ),
    Code(
        "FLOE-D202",
        "The table's name cannot be made",
        "A `{field}` of the table's name is missing in the record or is not plain text, a number or a boolean, or it holds characters that no table's name may.",
    ),
    Code("FLOE-D203", "The table is not allowed", "The name that the record makes is outside `allow_tables`."),
    Code(
        "FLOE-D204",
        "The table may not be created",
        "The table does not exist, and `create.enabled` or `evolve.tables` forbids to make it.",
    ),
    Code(
        "FLOE-D205",
        "The table cannot be written now",
        "The table does not exist, and it cannot be created from what was seen, or `routes.max_new_tables_per_hour` tables were created within the last hour. Or it exists and cannot be written: its metadata file is gone, it is encrypted, or has a type that is not known here. The reason is in the dead letter; each minute it is tried again.",
    ),
    Code(
        "FLOE-D301",
        "The value is of another type",
        "The field's value cannot be the column's type: text for a number, a list for text.",
    ),
    Code(
        "FLOE-D302",
        "The value is out of range",
        "The value does not fit the column's type, and it is never cut or wrapped (invariant 9).",
    ),
    Code(
        "FLOE-D303",
        "The value would lose digits",
        "The value has more digits than the column keeps, and it is never rounded (invariant 9).",
    ),
    Code(
        "FLOE-D304",
        "The text cannot be read",
        "The text is not a date, time, uuid, number or encoding of the column's type.",
    ),
    Code("FLOE-D305", "A required value is missing", "The column is required and the record has no value for it."),
    Code(
        "FLOE-D306",
        "Two fields are one column",
        "Two fields differ in case alone, two keys of a map are the same, or two columns would have one full name: `a.b` at the top, and `b` inside of `a`. `evolve.exclude` leaves one out.",
    ),
    Code("FLOE-D307", "A new field and frozen columns", "`evolve.columns` is `freeze` and the table lacks the field."),
    Code(
        "FLOE-D308",
        "A time that cannot be told",
        "A number without a declared `unit`, or text without a zone where none is declared.",
    ),
    Code("FLOE-D309", "A column that cannot be written", "The table has a column of a type that floe does not write."),
    Code(
        "FLOE-D310",
        "The record asks for too many columns",
        "With its new fields the table would have more columns than `evolve.max_columns` of the table lets it have, fields inside of columns counted. Raise the bound, or leave fields out by `evolve.exclude`, and replay the dead letters.",
    ),
    Code(
        "FLOE-D311",
        "A record without its key",
        "The table is written by its key (`write.key`), and the record has no value for a column of it: the field is missing, null, or left out because it does not fit its column. No row could be found by such a key, so neither a row nor a delete is written.",
    ),
)
