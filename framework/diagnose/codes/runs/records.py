"""FLOE-D: a record cannot be written. `errors.policy` says what happens to it (`routes.unrouted` for FLOE-D201)."""

# ruff: noqa: E501  (prose: one sentence is not cut by the width of a line)
from __future__ import annotations

from framework.diagnose.entry import CodeEntry as Code
from framework.diagnose.entry import Transcript

_RUN = "floe run orders.yaml -t prod"
# What helps where the record itself is wrong: no file and no replay can repair it.
_LETTER = (
    "# The record itself cannot be repaired. With `errors: {policy: dead_letter}` the run goes on without it:",
    _RUN,
    "floe dlq show orders.yaml orders-0@1042 -t prod",
)


def _stopped(stage: str, message: str, *repairs: str) -> Transcript:
    """A run that stops at the record, as `errors.policy: fail` says; the default keeps a dead letter instead."""
    return Transcript(
        "run orders.yaml -t prod",
        f"a record failed at stage {stage}: {message}",
        "orders-0 offset 1042",
        "fix the producer, or set errors.policy (or routes.unrouted) to dead_letter or drop; nothing of the batch was announced",
        repairs,
    )


def _again(code: str) -> tuple[str, ...]:
    """What helps where the file or what is around it can be repaired."""
    return (_RUN, "# If the record is a dead letter already:", f"floe dlq replay orders.yaml -t prod --code {code}")


ENTRIES = (
    Code(
        "FLOE-D101",
        "Not JSON",
        "The record's value is not JSON. The dead letter holds its bytes.",
        transcript=_stopped(
            "decode", "the record is not JSON: unexpected character at byte 17", "# Correct the producer.", *_LETTER
        ),
    ),
    Code(
        "FLOE-D102",
        "Not a JSON object",
        "The value is JSON, but a list or a single value, so it has no fields.",
        transcript=_stopped("decode", "the record is not a JSON object", "# Correct the producer.", *_LETTER),
    ),
    Code(
        "FLOE-D103",
        "A key occurs twice",
        "An object holds the same key twice, so it is not clear which value is meant.",
        transcript=_stopped("decode", "the key 'id' occurs twice in one object", "# Correct the producer.", *_LETTER),
    ),
    Code(
        "FLOE-D104",
        "Not UTF-8",
        "JSON is UTF-8; a byte sequence is not.",
        transcript=_stopped(
            "decode", "the record is not UTF-8: invalid start byte at byte 12", "# Correct the producer.", *_LETTER
        ),
    ),
    Code(
        "FLOE-D105",
        "Nested too deeply",
        "The value is nested more than 100 levels deep. Of an envelope, each part counts by itself.",
        transcript=_stopped(
            "decode", "the record is nested more than 100 levels deep", "# Correct the producer.", *_LETTER
        ),
    ),
    Code(
        "FLOE-D111",
        "Not in the registry's wire format",
        "The pipeline reads with a schema registry, but the record has no schema id: neither a zero byte and four bytes at its start, nor a header with a GUID.",
        transcript=_stopped(
            "decode",
            "the record is not in the schema registry's wire format: it begins with 7b 22 69 64 22, not with a zero byte and a schema id",
            "# Set `format` to what the producer writes: these bytes begin a JSON object. Then:",
            *_again("FLOE-D111"),
        ),
    ),
    Code(
        "FLOE-D112",
        "A schema that the registry does not have",
        "The registry has no schema with this id, and had none when floe asked again for a while (`unknown.schema.patience.ms`). The dead letter holds the record's bytes; once the schema is registered, replay it.",
        transcript=_stopped(
            "decode",
            "the registry has no schema 7: Schema 7 not found",
            "# Register the schema, or name the right registry in the target. Then:",
            *_again("FLOE-D112"),
        ),
    ),
    Code(
        "FLOE-D113",
        "A schema of another format",
        "The registry's schema is not of the format that the pipeline reads: protobuf where Avro is expected, for example.",
        transcript=_stopped(
            "decode",
            "schema 7 is PROTOBUF, and the pipeline reads AVRO",
            "# Set `format` to what the producer writes. Then:",
            *_again("FLOE-D113"),
        ),
    ),
    Code(
        "FLOE-D114",
        "A value that its own schema does not allow",
        "A decimal with more digits than its schema allows, a time of more than 24 hours, or a timestamp out of its type's range. A duration of days is no time: in Avro, give a `format.schema` to read with in which the field is a plain `long`.",
        transcript=_stopped(
            "decode", "total: the value is no decimal(6, 2): 12345.678", "# Correct the producer.", *_LETTER
        ),
    ),
    Code(
        "FLOE-D115",
        "Not data of its schema",
        "The bytes end too early or too late, or do not match the schema.",
        transcript=_stopped(
            "decode", "the record is not Avro of its schema: it ends too early", "# Correct the producer.", *_LETTER
        ),
    ),
    Code(
        "FLOE-D116",
        "A schema that cannot be used",
        "The writer's schema has an error, refers to a missing type, or the registry cannot return it in compiled form.",
        transcript=_stopped(
            "decode",
            "the writer's schema cannot be used: unknown type shop.Money",
            "# Register the schema with the types that it refers to. Then:",
            *_again("FLOE-D116"),
        ),
    ),
    Code(
        "FLOE-D117",
        "The writer's schema does not fit the reader's",
        "By Avro's rules of resolution a record of the writer's schema cannot be read with `format.schema`: a type changed, or a new field has no default.",
        transcript=_stopped(
            "decode",
            "the writer's schema does not fit the schema to read with: total is string, expected double",
            "# Give new fields of `format.schema` a default, or take the writer's type into it. Then:",
            *_again("FLOE-D117"),
        ),
    ),
    Code(
        "FLOE-D118",
        "Fields that the schema does not know",
        "A protobuf record has fields that its message does not declare. They would be lost, so the record is an error until the schema is brought up to date.",
        transcript=_stopped(
            "decode",
            "the record has fields that shop.Order does not know, which would be lost",
            "# Bring the message in `format` up to date with the producer's. Then:",
            *_again("FLOE-D118"),
        ),
    ),
    Code(
        "FLOE-D119",
        "An unexpected error in one record",
        "Processing the record raised an error that floe does not expect. The record is kept whole, and the records around it are written. Please report it, with the record if you may share it.",
        transcript=_stopped(
            "decode",
            "unexpected error in this record (ValueError: cannot convert)",
            "# A bug in floe: please report it, with the record if you may share it. A later version may read it:",
            "floe dlq show orders.yaml orders-0@1042 -t prod",
            "floe dlq replay orders.yaml -t prod --code FLOE-D119",
        ),
    ),
    Code(
        "FLOE-D120",
        "The record kills the process that reads it",
        "Tasks of the batch ended twice at the same offsets: the process crashed, or raised an unexpected error. floe then tried the records in smaller and smaller pieces, each in a process of its own. This record ends its process; all others were written. Please report it with the record's bytes, which the dead letter holds. `floe dlq replay` tries it again.",
        transcript=_stopped(
            "decode",
            "the record is not read: the process that read it was killed by signal 11",
            "# A bug in floe or in a library: please report it. A later version may read the record:",
            "floe dlq show orders.yaml orders-0@1042 -t prod",
            "floe dlq replay orders.yaml -t prod --code FLOE-D120",
        ),
    ),
    Code(
        "FLOE-D121",
        "Not a change of a row",
        "The pipeline reads Debezium's change events, and the record is something else: a change of the database's schema, a transaction's end, or no envelope at all.",
        transcript=_stopped(
            "decode",
            "the record is no change of a row: it has no field `op` (field op: expected c, u, d or r, got None)",
            "# Leave topics out that hold no changes of rows, or set `format` to what the topic holds. Then:",
            *_again("FLOE-D121"),
        ),
    ),
    Code(
        "FLOE-D122",
        "A change event without a row",
        "The event describes no row (a truncate, a message), or a delete does not hold the row as it was before.",
        transcript=_stopped(
            "decode",
            "the record is a delete without the old row; give the table a primary key or REPLICA IDENTITY FULL (field op: expected a row, got None)",
            "# In the database:  ALTER TABLE orders REPLICA IDENTITY FULL",
            *_LETTER,
        ),
    ),
    Code(
        "FLOE-D123",
        "transform.sql fails for the record",
        "An expression of `transform.sql` fails for a value of the record, as `CAST('x' AS INT)` does. The message names the column and the expression. All other records were written, however many fail so; `errors.max_ratio` bounds how many may. Use `try_cast` and similar functions where such values can occur, or fix the producer. Then replay the dead letters.",
        transcript=_stopped(
            "transform",
            "transform.sql fails for the record: number = CAST(code AS INT)",
            "# Use `try_cast` in `transform.sql`. Then:",
            "floe test orders.yaml",
            *_again("FLOE-D123"),
        ),
    ),
    Code(
        "FLOE-D124",
        "The record is too large",
        "Decompressed, the record with its key and headers has more bytes than `source.kafka.max_record_bytes` (32 MiB unless the file says otherwise). A few compressed bytes may stand for any number, so a worker would be out of memory. The record is not read: the dead letter has its offset and says its size, and neither its value nor its key. Kafka still has the record. To have it in a table, raise the setting, and read its range again.",
        transcript=_stopped(
            "fetch",
            "the record has 62,914,560 bytes with its key and headers, and is not read (expected 33,554,432 bytes at most, got 62,914,560 bytes)",
            "# Raise `source.kafka.max_record_bytes`, if such records are meant; or have their producer correct them. Then:",
            "floe validate orders.yaml",
        ),
    ),
    Code(
        "FLOE-D125",
        "The record's batch cannot be decompressed",
        "The producer sent the record in a batch that librdkafka cannot decompress: it is damaged, or decompresses to more than `receive.message.max.bytes` of the connection, which is 100 MB. All records of the batch are dead letters with their offsets, and without values. The records behind it are read.",
        transcript=_stopped(
            "fetch",
            "the batch that holds the record cannot be decompressed, and is not read",
            "# Set `receive.message.max.bytes` in the target's connection, if such batches are meant. Then:",
            "floe validate orders.yaml",
        ),
    ),
    Code(
        "FLOE-D126",
        "No array to explode",
        "`source.format.explode` makes a row of each element of an array, and the record has none there: the field is missing, or holds something else. An empty array, or null, is no error: such a record has no row, and is counted as dropped.",
        transcript=_stopped(
            "decode",
            "items: the record has no such array to explode (field items: expected array, got nothing)",
            "# Correct `source.format.explode`, or leave the topic's other records to a pipeline of their own. Then:",
            *_again("FLOE-D126"),
        ),
    ),
    Code(
        "FLOE-D127",
        "Too many elements for one record",
        "Each element of an exploded array becomes a row with what stands beside the array. Of this record that would be more than 256 MiB of JSON, more than a task should hold at once.",
        transcript=_stopped(
            "decode",
            "items: with what stands beside it the 40,000 elements have 512,034,112 bytes (field items: expected 268,435,456 bytes at most, got 512,034,112 bytes)",
            "# Have the producer write smaller records.",
            *_LETTER,
        ),
    ),
    Code(
        "FLOE-D128",
        "A text that is no JSON",
        "`source.schema` says `parse: json` of the field, so its text is to hold a JSON value, and does not.",
        transcript=_stopped(
            "decode",
            "payload: the text is no JSON, and `parse: json` is to give the value in it (field payload: expected JSON, got n/a)",
            "# Correct the producer, or declare the field a `string`. Then:",
            *_again("FLOE-D128"),
        ),
    ),
    Code(
        "FLOE-D201",
        "No rule matches",
        "No rule of `routes` takes the record; `routes.unrouted` says what happens to it.",
        transcript=_stopped(
            "route",
            "no rule of routes matches the record",
            "# Add a rule to `routes`, or set `routes.unrouted`. Then:",
            *_again("FLOE-D201"),
        ),
    ),
    Code(
        "FLOE-D202",
        "The table's name cannot be made",
        "A `{field}` of the table's name is missing in the record, is not text, a number or a boolean, or holds characters that a table name may not have.",
        transcript=_stopped(
            "route",
            "region: 'EU/West' cannot be part of a table name (field region: expected letters, digits, _ and -, got EU/West)",
            "# Take another field into the table's name, or correct the producer. Then:",
            *_again("FLOE-D202"),
        ),
    ),
    Code(
        "FLOE-D203",
        "The table is not allowed",
        "The record leads to a table name outside `allow_tables`, or to the dead-letter table, which holds no records.",
        transcript=_stopped(
            "route",
            "the table 'shop.orders_test' is outside routes.allow_tables",
            "# Widen `routes.allow_tables`, if the table is meant. Then:",
            *_again("FLOE-D203"),
        ),
    ),
    Code(
        "FLOE-D204",
        "The table may not be created",
        "The table does not exist, and `create.enabled` or `evolve.tables` forbids creating it.",
        transcript=_stopped(
            "route",
            "the table 'shop.orders' does not exist and may not be created",
            "# Create the table, or allow it: `create: {enabled: true}`, `evolve: {tables: evolve}`. Then:",
            *_again("FLOE-D204"),
        ),
    ),
    Code(
        "FLOE-D205",
        "The table cannot be written now",
        "Either the table does not exist and cannot be created: the records so far do not suffice, or `routes.max_new_tables_per_hour` tables were created within the last hour. Or the table exists and cannot be written: its metadata file is gone, it is encrypted, or it has a type that floe does not know. The dead letter says which. floe tries again every minute.",
        transcript=_stopped(
            "route",
            "the table 'shop.orders' cannot be written now: routes.max_new_tables_per_hour is 10, and that many were created within the last hour",
            "# Repair what the message names. floe tries again every minute. Then:",
            "floe status -t prod",
            *_again("FLOE-D205"),
        ),
    ),
    Code(
        "FLOE-D206",
        "The table belongs to another pipeline",
        "A table records in its property `floe.owner` how its rows are written and by which pipelines: those that made it, or that name it as a whole in their files with the same mode and key. The record leads to an upsert table, a history or a dead-letter table of another pipeline, where a row of this one would stand beside the owner's. The message names the owner. If both pipelines shall write the table, name it in both files, without a `{field}`, with the same `write:`. If the owner no longer writes it, unset the property: the next pipeline that names the table owns it.",
        transcript=_stopped(
            "route",
            "the table 'shop.customers' is not this pipeline's: it belongs to pipeline customers, which upserts it by id; pipeline shop would append to it",
            "# Let no glob of `routes.allow_tables` match the table, or name it in both files with the same `write:`.",
            "# If pipeline customers no longer writes it, in Spark:  ALTER TABLE shop.customers UNSET TBLPROPERTIES ('floe.owner')",
            *_again("FLOE-D206"),
        ),
    ),
    Code(
        "FLOE-D207",
        "The record may delete a row, and its file does not say so",
        '`delete_when` compares a field with a value of one kind, and the record has it in another: the text `"true"` for true, or 1 for `"1"`. They are never equal, and the row would stay. Debezium\'s `ExtractNewRecordState` writes `__deleted` as text; a declared type is then `string`.',
        transcript=_stopped(
            "route",
            '__deleted: the record has "true", and `delete_when` compares it with true, which it never equals',
            '# Write the value as the records have it: `delete_when: {field: __deleted, equals: "true"}`. Then:',
            *_again("FLOE-D207"),
        ),
    ),
    Code(
        "FLOE-D301",
        "The value is of another type",
        "The field's value does not have the column's type: text in a number column, a list in a text column.",
        transcript=_stopped(
            "convert",
            "total expects double, the record has a string (field total: expected double, got string nine)",
            "# Declare the field's type under `source.schema`, or correct the producer. Then:",
            *_again("FLOE-D301"),
        ),
    ),
    Code(
        "FLOE-D302",
        "The value is out of range",
        "The value is outside the range of the column's type. floe never cuts or wraps a value (invariant 9).",
        transcript=_stopped(
            "convert",
            "count: '3000000000' is out of range for int (field count: expected int, got 3000000000)",
            "# Widen the column (`evolve.data_type: evolve`), or correct the producer. Then:",
            *_again("FLOE-D302"),
        ),
    ),
    Code(
        "FLOE-D303",
        "The value would lose digits",
        "The value has more digits than the column keeps. floe never rounds a value (invariant 9).",
        transcript=_stopped(
            "convert",
            "total: '9.999' would lose digits as decimal(6, 2) (field total: expected decimal(6, 2), got 9.999)",
            "# Declare more digits under `source.schema` and widen the column, or correct the producer. Then:",
            *_again("FLOE-D303"),
        ),
    ),
    Code(
        "FLOE-D304",
        "The text cannot be read",
        "The text is not a date, time, uuid, number or encoding of the column's type.",
        transcript=_stopped(
            "convert",
            "placed: '03/01/2026' cannot be read as timestamptz (field placed: expected timestamptz, got 03/01/2026)",
            "# Declare the text's `format` under `source.schema`, or correct the producer. Then:",
            *_again("FLOE-D304"),
        ),
    ),
    Code(
        "FLOE-D305",
        "A required value is missing",
        "The column is required and the record has no value for it.",
        transcript=_stopped(
            "convert",
            "id is required and the record has no value for it (field id: expected long, got nothing)",
            "# Make the column optional (`evolve.nullability: evolve`), or correct the producer. Then:",
            *_again("FLOE-D305"),
        ),
    ),
    Code(
        "FLOE-D306",
        "Two fields for one column",
        "Two fields differ only in case, two keys of a map are the same, or two columns would have the same full name: `a.b` at the top, and `b` inside `a`. Or a field that is renamed, since no column can have its name, comes beside one of the new name: `_file` and `_file_`. `evolve.exclude` leaves one out.",
        transcript=_stopped(
            "convert",
            "ID: the record has two keys that differ only in case",
            "# Set `case: sensitive`, leave one out with `evolve.exclude`, or correct the producer. Then:",
            *_again("FLOE-D306"),
        ),
    ),
    Code(
        "FLOE-D307",
        "A new field, but columns are frozen",
        "`evolve.columns` is `freeze` and the table lacks the field.",
        transcript=_stopped(
            "convert",
            "note: shop.orders has no such column and its columns are frozen",
            "# Allow it (`evolve: {columns: evolve}`), or leave the field out with `evolve.exclude`. Then:",
            *_again("FLOE-D307"),
        ),
    ),
    Code(
        "FLOE-D308",
        "An ambiguous time",
        "A number without a declared `unit`, or text without a zone where none is declared.",
        transcript=_stopped(
            "convert",
            "placed: '1767225600' is a number without a declared unit for timestamptz (field placed: expected timestamptz, got 1767225600)",
            "# Declare `unit` or `zone` of the field under `source.schema`. Then:",
            *_again("FLOE-D308"),
        ),
    ),
    Code(
        "FLOE-D309",
        "A column that cannot be written",
        "The table has a column of a type that floe does not write.",
        transcript=_stopped(
            "convert",
            "place: 'POINT (1 2)' cannot be written: floe does not write columns of type geometry (field place: expected geometry, got POINT (1 2))",
            "# Leave the field out with `evolve.exclude`. Then:",
            *_again("FLOE-D309"),
        ),
    ),
    Code(
        "FLOE-D310",
        "The record asks for too many columns",
        "Its new fields would give the table more columns than its `evolve.max_columns` allows. Fields inside columns count too. Raise the limit, or leave fields out with `evolve.exclude`, and replay the dead letters.",
        transcript=_stopped(
            "convert",
            "shop.orders lacks fields of the record, and evolve.max_columns is 1000, and the table would have more",
            "# Raise `evolve.max_columns`, or leave fields out with `evolve.exclude`. Then:",
            *_again("FLOE-D310"),
        ),
    ),
    Code(
        "FLOE-D311",
        "A record without its key",
        "The table is written by its key (`write.key`), and the record has no value for a column of it: the field is missing, null, or left out because it does not fit its column. No row could be found by such a key, so neither a row nor a delete is written.",
        transcript=_stopped(
            "convert",
            "id: shop.orders is written by its key, and the record has no value for this column of it (field id: expected a value, got nothing)",
            "# Name another `write.key`, or correct the producer. Then:",
            *_again("FLOE-D311"),
        ),
    ),
    Code(
        "FLOE-D312",
        "A record without what orders it",
        "A column says which record of a key is newer (`write.order.field`), and the record has no value for it: the field is missing, null, or left out because it does not fit its column. It could be newer or older than the row that is there, so neither a row nor a delete is written.",
        transcript=_stopped(
            "convert",
            "updated_at: it says which record of a key in shop.orders is newer, and the record has no value for it (field updated_at: expected a value, got nothing)",
            "# Name another column in `write.order.field`, or correct the producer. Then:",
            *_again("FLOE-D312"),
        ),
    ),
    Code(
        "FLOE-D313",
        "A field whose name no column can have",
        "With a column of this name Spark could not read the table any more, or nobody could: Iceberg or floe keeps the name for itself (`_file`, `_row_id`), a partition field has it (`ts_day`), it is empty, or in files it is the same as that of a field beside it (`a.b` and `a_x2Eb`). `evolve.names` makes such a record an error. With `rename`, which is the default, the column has an underscore more.",
        transcript=_stopped(
            "convert",
            "_file: shop.orders cannot have such a column: Iceberg keeps this name for itself",
            "# Set `evolve: {names: rename}`, or leave the field out with `evolve.exclude`. Then:",
            *_again("FLOE-D313"),
        ),
    ),
    Code(
        "FLOE-D314",
        "A value that the database did not log",
        "A field of the record is Debezium's placeholder (`__debezium_unavailable_value`): the database did not log the value, since it did not change (a TOAST column of PostgreSQL, a LOB of Oracle). `write.unavailable: dead_letter` makes such a record an error. With `keep`, which is the default, the table keeps the value that it has.",
        transcript=_stopped(
            "convert",
            "bio: the record has no value for it, since the database logged none, and shop.orders takes no such record (field bio: expected a value, got Debezium's placeholder)",
            "# Set `write: {unavailable: keep}`; or in the database:  ALTER TABLE orders REPLICA IDENTITY FULL",
            *_LETTER,
        ),
    ),
    Code(
        "FLOE-D315",
        "An update without its row",
        "The record lacks values that the old row of its key is to give, and the table has no such row: the topic does not begin with all rows, or the row was deleted. A column that may be null is null then. This one is required (`evolve.nullability` does not relax it), so the record is not written.",
        transcript=_stopped(
            "convert",
            "bio: shop.orders requires a value, the record has none, and the table has no row of its key to take it from (field bio: expected a value, got nothing)",
            "# Take a snapshot of the source table with Debezium; or let the column be null: `evolve: {nullability: relax}`",
            *_LETTER,
        ),
    ),
)
