"""Keys of an Iceberg sink of Kafka Connect that a pipeline file cannot express, and why; keys that only the target
needs.

In: a key. Out: a sentence, or nothing for a key that is not known, which is then refused. The list holds every key of
Connect and of both sinks that `framework.connector.translation.translate` does not carry over.
"""

from __future__ import annotations

import re

from framework.config.rules.target.connections import OWN_KAFKA

_OWN_PACE = "floe needs none: the coordinator waits for no answers, and each table commits by itself"
# Patterns of whole keys, the first that matches; whether something is lost, and the sentence.
_REASONS: tuple[tuple[str, bool, str], ...] = (
    (r"iceberg\.tables\.default-id-columns|iceberg\.table\..+\.id-columns", False,
     "the sink needs them only for updates, and `iceberg.tables.upsert-mode-enabled` is not true"),
    (r"iceberg\.tables\.schema-force-optional", False, "floe makes every column optional that no declared field requires"),
    (r"iceberg\.tables\.replace-null-with-default", False, "JSON has no defaults, so null stays null"),
    (r"iceberg\.control\.commit\.(timeout-ms|threads)", False, _OWN_PACE),
    (r"iceberg\.coordinator-executor-keep-alive-timeout-ms", False, _OWN_PACE),
    (r"iceberg\.control\.commit\.max-consecutive-failures", False,
     "only a table that cannot be committed is blocked, and `floe status` shows it; the others go on"),
    (r"iceberg\.control\.group-id(-prefix)?|iceberg\.coordinator\.transactional\.prefix|iceberg\.connect\.group-id", True,
     "groups and transactional ids begin with the target's `prefix`; set that, and the ACLs for it"),
    (r"iceberg\.catalog", False, "floe writes to the catalog that the target names `default`"),
    (r"iceberg\.hadoop-conf-dir|iceberg\.hadoop\..+", True,
     "there is no Hadoop configuration; give storage settings (`s3.*`, `adls.*`, `gcs.*`, `hdfs.*`) in the target's catalog"),
    (r"iceberg\.catalog\.(type|catalog-impl)", True,
     "PyIceberg has no such catalog; most (Nessie, Polaris, Unity) have a REST address: set `type: rest` and its `uri`"),
    (r"iceberg\.catalog\.jdbc\..+", True,
     "PyIceberg has no settings for JDBC; the user and the password are part of the catalog's `uri`, in the target"),
    (r"iceberg\.catalog\..+", True, "the catalog belongs in the target; `--target-file` writes one"),
    (r"iceberg\.tables\.(auto-create-props|write-props)\..+", True, "it is a property of tables"),
    (r"iceberg\.table\..+\.(commit-branch|partition-by|route-regex)", False, "`iceberg.tables` does not name the table"),
    (r"iceberg\.table\.write-props\..+", True, "set it on the tables: ALTER TABLE ... SET TBLPROPERTIES"),
    (r"consumer\.override\.isolation\.level", False, "floe never reads records of transactions that were aborted"),
    (r"(consumer|producer|admin)\.override\..+|iceberg\.kafka\..+", True,
     "settings of Kafka clients belong in the target's `connections.kafka`, with librdkafka's names"),
    (r"tasks\.max(\.enforce)?", False, "Spark sets the parallelism: the target's `spark.master` and `spark.conf`"),
    (r"(key|header)\.converter(\..+)?", False,
     "keys and headers stay bytes, so floe also writes records whose key or header the converter cannot read"),
    (r"value\.converter", False, "the values are read as JSON objects"),
    (r"transforms(\..+)?|predicates(\..+)?", False, "no transform that `transforms` lists uses it"),
    (r"errors\.(log\.(enable|include\.messages)|retry\.(timeout|delay\.max\.ms)"
     r"|deadletterqueue\.(topic\.(name|replication\.factor)|context\.headers\.enable))", False,
     "dead letters are rows of a table, with reason and position; errors that can pass are tried again"),
    (r"config\.action\.reload|plugin\.version|.+\.plugin\.version", False, "only Connect needs it"),
)  # fmt: skip
# Settings of Kafka clients that only tune the Java client.
_TUNING = re.compile(
    r"(max\.poll\.records|(max\.partition\.)?fetch\.(max|min)\.(bytes|wait\.ms)|max\.partition\.fetch\.bytes"
    r"|receive\.buffer\.bytes|send\.buffer\.bytes|linger\.ms|batch\.size|buffer\.memory|compression\.type)\Z"
)


# What one of the two sinks has and the other one passes over.
_OF_TABULAR = frozenset(
    {
        "iceberg.tables.upsert-mode-enabled",
        "iceberg.tables.cdc-field",
        "iceberg.tables.cdc.field",
        "iceberg.control.group-id",
    }
)
_OF_APACHE = frozenset(
    {
        "iceberg.control.group-id-prefix",
        "iceberg.control.commit.max-consecutive-failures",
        "iceberg.coordinator.transactional.prefix",
        "iceberg.coordinator-executor-keep-alive-timeout-ms",
        "iceberg.tables.replace-null-with-default",
    }
)
_WRITE_PROPS_OF_TABULAR, _WRITE_PROPS_OF_APACHE = "iceberg.table.write-props.", "iceberg.tables.write-props."
# The keys of the sinks that have one name, for a hint at a misspelt one.
NAMES = (
    "iceberg.catalog",
    "iceberg.connect.group-id",
    "iceberg.control.commit.interval-ms",
    "iceberg.control.commit.threads",
    "iceberg.control.commit.timeout-ms",
    "iceberg.control.topic",
    "iceberg.hadoop-conf-dir",
    "iceberg.tables",
    "iceberg.tables.auto-create-enabled",
    "iceberg.tables.default-commit-branch",
    "iceberg.tables.default-id-columns",
    "iceberg.tables.default-partition-by",
    "iceberg.tables.dynamic-enabled",
    "iceberg.tables.evolve-schema-enabled",
    "iceberg.tables.route-field",
    "iceberg.tables.schema-case-insensitive",
    "iceberg.tables.schema-force-optional",
    "errors.tolerance",
    "topics",
    "topics.regex",
    "transforms",
    "predicates",
    "value.converter",
    *sorted(_OF_TABULAR | _OF_APACHE),
)


def is_passed_over(key: str, connector_class: str) -> bool:
    """Whether the sink of this class has no such key, and the other one has."""
    if connector_class.startswith("org.apache."):
        return key in _OF_TABULAR or key.startswith(_WRITE_PROPS_OF_TABULAR)
    return key in _OF_APACHE or key.startswith(_WRITE_PROPS_OF_APACHE)


def why_not(key: str) -> tuple[bool, str] | None:
    """Whether something is lost without the key, and the reason why it has no home in the pipeline file; None for a key
    that is not on the list of what Connect and the sinks have."""
    client = client_setting(key)
    if client is not None and client != "isolation.level" and (_TUNING.match(client) or client in OWN_KAFKA):
        return False, "floe itself sets how its clients fetch and send"
    return next(((lost, reason) for pattern, lost, reason in _REASONS if re.fullmatch(pattern, key)), None)


def client_setting(key: str) -> str | None:
    """The Kafka client's own key inside a key of the sink, such as `max.poll.records`."""
    found = re.match(r"(?:(?:consumer|producer|admin)\.override|iceberg\.kafka)\.(.+)", key)
    return found[1] if found else None


def passes_to_client(setting: str) -> bool:
    """Whether a setting means the same in librdkafka and is one that a target may give."""
    return bool(re.match(r"bootstrap\.servers\Z|security\.protocol\Z|client\.id\Z|client\.rack\Z", setting))
