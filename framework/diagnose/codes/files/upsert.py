"""FLOE-C450 to C463: the words of upsert tables."""

# ruff: noqa: E501  (prose: one sentence is not cut by the width of a line)
from __future__ import annotations

from framework.diagnose.entry import CodeEntry as Code

_WRITE = "tables: {defaults: {write: {mode: upsert, key: [id]%s}}}"
_BESIDE = "tables: {defaults: {%s, write: {mode: upsert, key: [id]}}}"
_TWO = "metadata: {name: one}\n%s\n# file: other.yaml\nmetadata: {name: two}\n%s"
_UPSERT = "source: {kafka: {topics: [orders]}, key: {type: json}}\n"
_AVRO = 'source: {kafka: {topics: [orders]}, format: {type: avro, schema: \'{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}\'}}\n'

ENTRIES = (
    Code(
        "FLOE-C450",
        "An upsert table without a key",
        "An upsert finds the row that a record replaces by the key, so the key's columns must be named. There is no default: a wrong guess would delete rows.",
        "tables: {defaults: {write: {mode: upsert}}}",
        _WRITE % "",
    ),
    Code(
        "FLOE-C451",
        "A word of upsert tables on an append table",
        "`key`, `order`, `delete_when`, `deletes` and `history` mean something with `mode: upsert` only. Without it every record is a row. In the defaults they may stand for overrides that say `mode: upsert`.",
        "tables: {defaults: {write: {key: [id]}}}",
        _WRITE % "",
    ),
    Code(
        "FLOE-C452",
        "A column that cannot be part of a key",
        "A key's columns are at the top of the table and have values that are equal or not: no `float` or `double`, no list, map or struct. They must be columns that the table has.",
        _WRITE.replace("[id]", "[customer.id]") % "",
        _WRITE % "",
    ),
    Code(
        "FLOE-C453",
        "A column that cannot say which record is newer",
        "`order: {field: ...}` compares the values of a column, so the column is at the top of the table, is no part of the key, has a type with an exact order, and is declared where `source.schema` declares columns. Numbers in JSON are `double` where no other type is declared.",
        "source: {kafka: {topics: [orders]}, schema: {version: double}}\n" + _WRITE % ", order: {field: version}",
        _WRITE % ", order: source",
    ),
    Code(
        "FLOE-C454",
        "Deletes that the format version does not have",
        "Version 1 knows no deletes, so its tables cannot be upserted. Version 2 has position deletes, version 3 deletion vectors instead. `deletes: auto` takes what the version has; `deletes: deletion_vectors` without a `format-version` makes tables of version 3.",
        _BESIDE % 'create: {properties: {format-version: "1"}}',
        _BESIDE % 'create: {properties: {format-version: "3"}}',
    ),
    Code(
        "FLOE-C455",
        "An upsert table on another branch",
        "Upsert tables are written on `main`. What a branch holds of a key can differ from what `main` holds.",
        _BESIDE % "commit: {branch: audit}",
        _BESIDE % "commit: {branch: main}",
    ),
    Code(
        "FLOE-C456",
        "A table that cannot hold the history",
        "`history` names an append table that gets every change. It is the history of one table, in the catalog of that table and inside `routes.allow_tables`. It is not the table itself, and no rule, no other history and no dead letters may lead to it, of any pipeline. Its own columns are `_op` and `_kafka_topic`, `_kafka_partition`, `_kafka_offset`, `_kafka_timestamp`, which no declared field may be called.",
        _WRITE % ", history: shop.orders",
        _WRITE % "",
    ),
    Code(
        "FLOE-C457",
        "What deletes a row contradicts the source",
        "Debezium's envelope says which changes delete, so `delete_when` beside it would be a second answer. A tombstone has no value: with `delete_when: tombstone` the key is made of columns that the record's key gives (`source.key`, their names begin with its `prefix`), or it is `_kafka_key`; and a column that orders records comes from the record's key or is one of Kafka's, as `_kafka_timestamp`.",
        _WRITE % ", delete_when: tombstone",
        _UPSERT + _WRITE.replace("[id]", "[key_id]") % ", delete_when: tombstone",
    ),
    Code(
        "FLOE-C458",
        "SQL before an upsert table",
        "`transform.sql` gives rows without the place that each record had in its partition. Two rows of one key would have no order.",
        "transform: {sql: SELECT id FROM source}\n" + _WRITE % "",
        _WRITE % "",
    ),
    Code(
        "FLOE-C459",
        "The dead-letter table as an upsert table",
        "Each dead letter is a row of its own. A pattern or the defaults that say `upsert` do not mean the dead-letter table: it is always appended to. An override with its very name cannot say otherwise.",
        "errors: {dead_letter_table: shop.dead_letters}\ntables: {overrides: [{match: shop.dead_letters, write: {mode: upsert, key: [id]}}]}",
        "errors: {dead_letter_table: shop.dead_letters}\n" + _WRITE % "",
    ),
    Code(
        "FLOE-C460",
        "Identifier fields that are not the key",
        "The identifier fields of an upsert table are the columns of its key: they tell every reader what one row stands for. floe sets them for new tables, so `create.identifier_fields` need not be written.",
        _BESIDE % "create: {identifier_fields: [number]}",
        _WRITE % "",
    ),
    Code(
        "FLOE-C461",
        "More than one batch in flight before an upsert table",
        "A batch can say which rows it replaces only when the batch before it is in the tables. A pipeline with an upsert table therefore has one batch waiting at most; `commit.max_waiting_batches` need not be written.",
        "commit: {max_waiting_batches: 5}\n" + _WRITE % "",
        _WRITE % "",
    ),
    Code(
        "FLOE-C462",
        "An upsert table that two pipelines write",
        "The order of the source is the order within one pipeline's topics. Records of two pipelines have none between them, so which row stays would be chance. The same holds where a record may lead a template of another file to the table: let no glob of that file's `allow_tables` match it. Two templates, of which one upserts and the other appends, must not be able to make one name.",
        _TWO % (_WRITE % "", _WRITE % ""),
        _TWO % (_WRITE % "", "routes: {rules: [{table: shop.other}]}"),
    ),
    Code(
        "FLOE-C463",
        "Partial updates in a format with schemas",
        "`updates: partial` keeps the columns that an update does not name. Avro, protobuf and Kafka Connect's JSON with schemas name every column in every record, so a column that was left out and one that is null look the same. Debezium's placeholder for values that the database did not log needs no word: `unavailable` is for it, in every format.",
        _AVRO + _WRITE % ", updates: partial",
        _AVRO + _WRITE % "",
    ),
)
