"""FLOE-C424 to C426 and FLOE-R4xx: tests of pipeline files, dead letters, files made from other tools'
configuration."""

# ruff: noqa: E501  (prose: one sentence is not cut by the width of a line)
from __future__ import annotations

from framework.diagnose.entry import CodeEntry as Code

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
    ),
    Code(
        "FLOE-R402",
        "Tests cannot be written into this file",
        "`--fix` and `--record` change only text whose place is certain. They do not change template files, tests from a shared template or a target, or values that are references.",
    ),
    Code(
        "FLOE-R403",
        "No test can be made of these records",
        "`floe test --record` takes a file with one record a line, `--record-topic` the newest records of a topic that the pipeline reads. Either makes one test of them. There may be few records, none of them large, none with a schema that only a registry has, and, with `--mask`, none that cannot be masked.",
    ),
    Code(
        "FLOE-R404",
        "Not a connector's configuration",
        "`floe import-connector` reads the configuration of an Iceberg sink of Kafka Connect: JSON, alone or under `config`, or a properties file.",
    ),
    Code(
        "FLOE-R405",
        "The connector's configuration cannot be translated",
        "A pipeline file cannot express the configuration, or the configuration contradicts itself. The message names the key.",
    ),
    Code(
        "FLOE-R406",
        "A test's record that its schema does not allow",
        "`floe test` encodes `value` and `key_value` with the schema that the file reads with, or that the test's `given` states. If a value has the wrong type, a field is unknown or a schema is missing, no test of the file is run.",
    ),
    Code(
        "FLOE-R407",
        "Tests that need Spark were not run",
        "The file has `transform.sql`, which only Spark can run. `floe test` starts Spark on this machine for it, unless you pass `--no-spark`, for example in a commit hook that must be quick.",
    ),
    Code(
        "FLOE-R408",
        "An imported file writes other rows than the sink",
        "`floe import-connector --sample` runs records through the new pipeline file and compares its rows with those that the connector's sink writes. They differ, so nothing was written. The message shows the rows.",
    ),
)
