"""FLOE-C4xx, C5xx and C8xx: rules between values, what is not supported yet, and SQL that Spark refuses."""

# ruff: noqa: E501  (prose: one sentence is not cut by the width of a line)
from __future__ import annotations

from framework.diagnose.entry import CodeEntry as Code

_SCHEMA = "source:\n  kafka: {topics: [orders]}\n  schema: {%s}"
_RULES = "routes:\n  rules:\n%s"
_DEFAULTS = "tables: {defaults: {create: {%s}}}"

ENTRIES = (
    Code(
        "FLOE-C401",
        "Undeclared connection",
        "A pipeline names a Kafka connection; the target declares it. So the same file runs against every target.",
        "source: {kafka: {connection: primary, topics: [orders]}}",
        "source: {kafka: {connection: main, topics: [orders]}}",
    ),
    Code(
        "FLOE-C402",
        "A rule is never used",
        "With `first_match` the first rule that takes a record ends the search, so a rule behind one without `when`, or with the same `when`, never sees a record.",
        _RULES % "    - {table: shop.orders}\n    - {when: {field: type, equals: refund}, table: shop.refunds}",
        _RULES % "    - {when: {field: type, equals: refund}, table: shop.refunds}\n    - {table: shop.orders}",
    ),
    Code(
        "FLOE-C403",
        "Records choose their table and nothing confines them",
        "Whoever can write to the topic decides what `{field}` holds. A literal namespace and `allow_tables` say how far a record can reach; beyond it records are dead letters.",
        _RULES % '    - {table: "shop.{kind}"}',
        _RULES % '    - {table: "shop.{kind}"}\n  allow_tables: ["shop.*"]',
    ),
    Code(
        "FLOE-C404",
        "A table is outside `allow_tables`",
        "No record could ever be written by this rule.",
        _RULES % '    - {table: sales.orders}\n  allow_tables: ["shop.*"]',
        _RULES % '    - {table: sales.orders}\n  allow_tables: ["shop.*", "sales.*"]',
    ),
    Code(
        "FLOE-C405",
        "Dead letters have no table",
        "`dead_letter` is the default for records that cannot be read, routed or converted. It needs `errors.dead_letter_table`; `drop` counts and forgets such records, `fail` stops at the first.",
        "errors: {policy: dead_letter}",
        "errors: {policy: dead_letter, dead_letter_table: shop.dead_letters}",
    ),
    Code(
        "FLOE-C406",
        "SQL without a declared schema",
        "SQL is checked against columns, and records have none before they are read. Declare each field that is used or kept.",
        "transform: {sql: SELECT * FROM source WHERE id > 5}",
        _SCHEMA % "id: long" + "\ntransform: {sql: SELECT * FROM source WHERE id > 5}",
    ),
    Code(
        "FLOE-C407",
        "Topics by name or by pattern",
        "A source has either `topics` or `topic_pattern`.",
        'source: {kafka: {topics: [orders], topic_pattern: "^orders"}}',
        'source: {kafka: {topic_pattern: "^orders"}}',
    ),
    Code(
        "FLOE-C408",
        "A condition is not whole",
        "A condition is `{field, equals}`, `{field, matches}` or `{topic}`.",
        _RULES % "    - {when: {field: type}, table: shop.orders}",
        _RULES % "    - {when: {field: type, equals: order}, table: shop.orders}",
    ),
    Code(
        "FLOE-C409",
        "`format`, `unit` or `zone` does not fit the type",
        "`format` reads text, `unit` reads numbers, `zone` is the zone of text that names none; all are for dates and times.",
        _SCHEMA % "id: {type: long, unit: ms}",
        _SCHEMA % "at: {type: timestamptz, unit: ms}",
    ),
    Code(
        "FLOE-C410",
        "Two fields differ in case alone",
        "Tables are not case sensitive by default, so the two would be one column.",
        _SCHEMA % "orderId: long, orderid: string",
        _SCHEMA % "orderId: long",
    ),
    Code(
        "FLOE-C411",
        "An override is never used",
        "The first override that matches a table wins.",
        'tables:\n  overrides:\n    - {match: "shop.*", case: sensitive}\n    - {match: shop.orders, commit: {interval: 10s}}',
        'tables:\n  overrides:\n    - {match: shop.orders, commit: {interval: 10s}}\n    - {match: "shop.o*", case: sensitive}',
    ),
    Code(
        "FLOE-C412",
        "Two pipelines with one name",
        "The name decides consumer group and transactional id: two pipelines with one name would fence each other.",
        "x-notes: first\n# file: other.yaml\nx-notes: second",
        "x-notes: first\n# file: other.yaml\nmetadata: {name: others}",
    ),
    Code(
        "FLOE-C413",
        "An override matches no table",
        "All tables of the routes have literal names and the pattern matches none of them.",
        "tables:\n  overrides:\n    - {match: shop.ordres, commit: {interval: 10s}}",
        "tables:\n  overrides:\n    - {match: shop.orders, commit: {interval: 10s}}",
    ),
    Code(
        "FLOE-C414",
        "A partition column does not exist",
        "Kafka's own fields are columns only when `source.metadata_columns` names them; with `SELECT *` over a declared schema every column is known.",
        _DEFAULTS % "partition_by: [day(_kafka_timestamp)]",
        "source: {kafka: {topics: [orders]}, metadata_columns: [timestamp]}\n"
        + _DEFAULTS % "partition_by: [day(_kafka_timestamp)]",
    ),
    Code(
        "FLOE-C415",
        "A partition transform does not fit the type",
        "year, month and day need a date or timestamp, hour a timestamp; bucket does not take floats and booleans; truncate takes whole numbers, decimals, text and binary.",
        _SCHEMA % "at: string" + "\n" + _DEFAULTS % "partition_by: [day(at)]",
        _SCHEMA % "at: timestamptz" + "\n" + _DEFAULTS % "partition_by: [day(at)]",
    ),
    Code(
        "FLOE-C416",
        "The dead-letter table is also a target of records",
        "Dead letters have columns of their own, so they need a table of their own.",
        "errors: {dead_letter_table: shop.orders}",
        "errors: {dead_letter_table: shop.dead_letters}",
    ),
    Code(
        "FLOE-C417",
        "A table property that floe keeps",
        "Properties that begin with `floe.` hold the progress of commits.",
        _DEFAULTS % "properties: {floe.progress: none}",
        _DEFAULTS % "properties: {write.parquet.compression-codec: zstd}",
    ),
    Code(
        "FLOE-C418",
        "A setting without effect",
        "`partition_by` and `properties` are used when a table is made; with `create.enabled: false` none is.",
        _DEFAULTS % "enabled: false, partition_by: [region]",
        _DEFAULTS % "enabled: true, partition_by: [region]",
    ),
    Code(
        "FLOE-C419",
        "A moment without a zone",
        "`timestamptz` is a moment. Text without a zone is a moment only together with the zone that the producer means, and floe does not guess it.",
        _SCHEMA % 'at: {type: timestamptz, format: "%Y-%m-%d %H:%M:%S"}',
        _SCHEMA % 'at: {type: timestamptz, format: "%Y-%m-%d %H:%M:%S", zone: UTC}',
    ),
    Code(
        "FLOE-C420",
        "SQL that is not projection and filter",
        "Every record must stay one row or none, so that each offset can be accounted for. Joins and aggregates belong behind the tables.",
        _SCHEMA % "id: long" + "\ntransform: {sql: SELECT id FROM source GROUP BY id}",
        _SCHEMA % "id: long" + "\ntransform: {sql: SELECT id FROM source WHERE id > 5}",
    ),
    Code(
        "FLOE-C421",
        "No topic can match",
        "The source names its topics, and the rule's expression is found in none of them. A warning: the rule is never used.",
        _RULES % '    - {when: {topic: "^refunds"}, table: shop.refunds}\n    - {table: shop.orders}',
        _RULES % '    - {when: {topic: "^orders"}, table: shop.orders}',
    ),
    Code(
        "FLOE-C422",
        "Two tests with one name",
        "Reports name tests, so names are unique within a file.",
        "tests:\n  - {name: one, input: [{value: {a: 1}}], expect: {}}\n  - {name: one, input: [{value: {a: 2}}], expect: {}}",
        "tests:\n  - {name: one, input: [{value: {a: 1}}], expect: {}}\n  - {name: two, input: [{value: {a: 2}}], expect: {}}",
    ),
    Code(
        "FLOE-C423",
        "One table, two policies",
        "Two pipelines write one table and give it different policies; which one holds would depend on who comes first.",
        "metadata: {name: one}\n# file: other.yaml\nmetadata: {name: two}\ntables: {defaults: {commit: {interval: 10s}}}",
        "metadata: {name: one}\n# file: other.yaml\nmetadata: {name: two}",
    ),
    Code(
        "FLOE-C430",
        "A pipeline with the coordinator's name",
        "A pipeline's safe offsets are kept in the consumer group `<prefix>-<name>`, and the coordinators' low-water mark in `<prefix>-coordinator`, or `<prefix>-coordinator-<control topic>`. Under one name each would move the other's offsets.",
        "metadata: {name: coordinator}",
        "metadata: {name: coordination}",
    ),
    Code(
        "FLOE-C431",
        "A key that means nothing for the format",
        "Each format has keys of its own under `format` and `key`; one of another format would be ignored, so it is refused.",
        "source: {kafka: {topics: [orders]}, format: {type: json, encoding: text}}",
        "source: {kafka: {topics: [orders]}, format: {type: raw, encoding: text}}",
    ),
    Code(
        "FLOE-C432",
        "Records without a schema",
        "Avro and protobuf cannot be read without their schema: a registry has it, or the file gives it.",
        "source: {kafka: {topics: [orders]}, format: {type: avro}}",
        'source: {kafka: {topics: [orders]}, format: {type: avro, schema: \'{"type": "record", "name": "Order", "fields": []}\'}}',
    ),
    Code(
        "FLOE-C433",
        "Not an Avro schema",
        "The text under `schema`, or the file that `schema_file` names, is not the JSON of an Avro schema.",
        "source: {kafka: {topics: [orders]}, format: {type: avro, schema: 'record Order'}}",
        'source: {kafka: {topics: [orders]}, format: {type: avro, schema: \'{"type": "record", "name": "Order", "fields": []}\'}}',
    ),
    Code(
        "FLOE-C434",
        "A schema file that cannot be read",
        "`schema_file` is a path relative to the pipeline file. Its text becomes part of the plan, so executors need no copy of it.",
        "source: {kafka: {topics: [orders]}, format: {type: avro, schema_file: missing.avsc}}",
        'source: {kafka: {topics: [orders]}, format: {type: avro, schema: \'{"type": "record", "name": "Order", "fields": []}\'}}',
    ),
    Code(
        "FLOE-C501",
        "Not supported yet",
        "The value is part of the file's form, but this version of floe does not do it. It is refused rather than ignored.",
        "source: {kafka: {topics: [orders]}, key: {type: raw}}",
        "source: {kafka: {topics: [orders]}, metadata_columns: [key]}",
    ),
    Code(
        "FLOE-C801",
        "SQL that Spark refuses or that does more than project and filter",
        "Found when the pipeline starts, since only Spark knows all of its SQL: a column that `source.schema` does not declare, a syntax error, or a plan with more than projection and filter.",
    ),
)
