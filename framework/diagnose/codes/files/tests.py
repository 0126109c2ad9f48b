"""FLOE-C424 to C426 and FLOE-R4xx: tests of pipeline files, dead letters, files made from other tools'
configuration."""

# ruff: noqa: E501  (prose: one sentence is not cut by the width of a line)
from __future__ import annotations

from framework.diagnose.entry import CodeEntry as Code
from framework.diagnose.entry import ShownAs, Transcript

_ERRORS = "errors: {dead_letter_table: shop.dead_letters, %s}"
_TEST = "tests:\n  - {name: one, input: [%s], expect: {}}"

ENTRIES = (
    Code(
        "FLOE-C424",
        "A test's record needs one value",
        "`value` is a mapping that becomes JSON, text that is used as it is, or null for a tombstone. `raw` is the bytes themselves, as text or as `{base64: ...}`. A record has exactly one of the two.",
        _TEST % "{key: a}",
        _TEST % "{key: a, value: {id: 1}}",
    ),
    Code(
        "FLOE-C425",
        "A test's record comes from another topic",
        "The pipeline would never read such a record. With `topic_pattern`, each record of a test must name its topic.",
        _TEST % "{topic: refunds, value: {id: 1}}",
        _TEST % "{topic: orders, value: {id: 1}}",
    ),
    Code(
        "FLOE-C426",
        "A dead-letter topic that cannot be fed",
        "The topic gets what the dead-letter table gets, so name both. It must not be a topic that the pipeline reads: reading its own dead letters would never end.",
        _ERRORS % "dead_letter_topic: orders",
        _ERRORS % "dead_letter_topic: orders-dead",
    ),
    Code(
        "FLOE-R401",
        "A test of a file does not pass",
        "The records of a test became something else than the test expects. The position shown is that of the expectation. If the actual result is right, `floe test --fix` writes it into the file.",
        transcript=Transcript(
            "test orders.yaml",
            "shop.orders has a row that is not expected: {id: 1, total: 9.5}",
            "orders.yaml:14:9",
            "",
            (
                "# The file is wrong: correct it. The result is right: let floe write it into the test.",
                "floe test orders.yaml --fix",
            ),
            ShownAs.FINDING,
        ),
    ),
    Code(
        "FLOE-R402",
        "Tests cannot be written into this file",
        "`--fix` and `--record` change only text whose place is certain. They do not change template files, tests from a shared template or a target, or values that are references.",
        transcript=Transcript(
            "test orders.yaml --fix",
            "the file is a template, so positions in it are not those of its tests",
            "orders.yaml",
            "change the expectation by hand; nothing was written",
            (
                "# Write the expectation by hand, then:",
                "floe test orders.yaml",
            ),
        ),
    ),
    Code(
        "FLOE-R403",
        "No test can be made of these records",
        "`floe test --record` takes a file with one record a line, `--record-topic` the newest records of a topic that the pipeline reads. Either makes one test of them. There may be few records, none of them large, none with a schema that only a registry has, and, with `--mask`, none that cannot be masked.",
        transcript=Transcript(
            "test orders.yaml --record records.jsonl",
            "there are 5000 records, but a test takes 1 to 200",
            "records.jsonl",
            "give only the few records that matter",
            (
                "head -n 20 records.jsonl > few.jsonl",
                "floe test orders.yaml --record few.jsonl",
            ),
        ),
    ),
    Code(
        "FLOE-R404",
        "Not a connector's configuration",
        "`floe import-connector` reads the configuration of an Iceberg sink of Kafka Connect: JSON, alone or under `config`, or a properties file.",
        transcript=Transcript(
            "import-connector source.json",
            "`connector.class` is `io.debezium.connector.mysql.MySqlConnector`",
            "source.json",
            "give the configuration of a connector of class org.apache.iceberg.connect.IcebergSinkConnector",
            ("floe import-connector sink.json -o orders.yaml",),
        ),
    ),
    Code(
        "FLOE-R405",
        "The connector's configuration cannot be translated",
        "A pipeline file cannot express the configuration, or the configuration contradicts itself. The message names the key.",
        transcript=Transcript(
            "import-connector sink.json -o orders.yaml",
            "`iceberg.catalog.type`: a Hadoop catalog cannot commit safely from two writers",
            "",
            "move to another catalog",
            (
                "# Change the key that the message names in a copy of the configuration, then:",
                "floe import-connector sink.json -o orders.yaml",
                "# For keys that can be left out, with a TODO in the file:",
                "floe import-connector sink.json -o orders.yaml --allow-partial",
            ),
        ),
    ),
    Code(
        "FLOE-R406",
        "A test's record that its schema does not allow",
        "`floe test` encodes `value` and `key_value` with the schema that the file reads with, or that the test's `given` states. If a value has the wrong type, a field is unknown or a schema is missing, no test of the file is run.",
        transcript=Transcript(
            "test orders.yaml",
            "the record cannot be encoded: the file gives no schema (`schema`, `schema_file`, or `given` of the test)",
            "orders.yaml:12:18",
            "give a value that the schema allows; `raw` takes bytes as they are",
            (
                "# Give the schema in the file or under `given` of the test, then:",
                "floe test orders.yaml",
            ),
            ShownAs.FINDING,
        ),
    ),
    Code(
        "FLOE-R407",
        "Tests that need Spark were not run",
        "The file has `transform.sql`, which only Spark can run. `floe test` starts Spark on this machine for it, unless you pass `--no-spark`, for example in a commit hook that must be quick.",
        transcript=Transcript(
            "test orders.yaml --no-spark",
            "2 tests were not run: only Spark can run `transform.sql`",
            "orders.yaml:6:13",
            "run `floe test` without `--no-spark`",
            ("floe test orders.yaml",),
            ShownAs.WARNING,
        ),
    ),
    Code(
        "FLOE-R408",
        "An imported file writes other rows than the sink",
        "`floe import-connector --sample` runs records through the new pipeline file and compares its rows with those that the connector's sink writes. They differ, so nothing was written. The message shows the rows.",
        transcript=Transcript(
            "import-connector sink.json --sample 50 -o orders.yaml",
            "the pipeline file writes other rows than the sink, so it was not written: shop.orders has a row that is not expected: {id: 1, total: 9.5}",
            "orders.yaml",
            "check `--fields` against the values of the records, or write the pipeline file by hand",
            ("floe import-connector sink.json --fields fields.yaml --sample 50 -o orders.yaml",),
        ),
    ),
)
