"""Keys of an Iceberg sink of Kafka Connect that a pipeline file cannot express, and why; keys that only the target
needs.

In: a key. Out: a sentence. `framework.config.connector.translate` has already handled all keys that a pipeline file can
express.
"""

from __future__ import annotations

import re

from framework.config.rules.connections import OWN_KAFKA

_OWN_PACE = "floe needs none: the coordinator waits for no answers, and each table commits by itself"
_SMT = "single message transforms have no equivalent; `transform.sql` projects and filters"
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
    (r"iceberg\.control\.group-id-prefix|iceberg\.coordinator\.transactional\.prefix|iceberg\.connect\.group-id", True,
     "groups and transactional ids begin with the target's `prefix`; set that, and the ACLs for it"),
    (r"iceberg\.catalog", False, "floe writes to the catalog that the target names `default`"),
    (r"iceberg\.hadoop-conf-dir|iceberg\.hadoop\..+", True,
     "there is no Hadoop configuration; give storage settings (`s3.*`, `adls.*`, `gcs.*`, `hdfs.*`) in the target's catalog"),
    (r"iceberg\.catalog\.(type|catalog-impl)", True,
     "PyIceberg has no such catalog; most (Nessie, Polaris, Unity) have a REST address: set `type: rest` and its `uri`"),
    (r"iceberg\.catalog\.jdbc\..+", True,
     "PyIceberg has no settings for JDBC; the user and the password are part of the catalog's `uri`, in the target"),
    (r"iceberg\.catalog\..+", True, "the catalog belongs in the target; `--target-file` writes one"),
    (r"(consumer|producer|admin)\.override\..+|iceberg\.kafka\..+", True,
     "settings of Kafka clients belong in the target's `connections.kafka`, with librdkafka's names"),
    (r"tasks\.max", False, "Spark sets the parallelism: the target's `spark.master` and `spark.conf`"),
    (r"key\.converter(\..+)?|header\.converter(\..+)?", False, "keys and headers stay bytes"),
    (r"value\.converter(\..+)?", False, "the values are read as JSON objects"),
    (r"transforms(\..+)?|predicates(\..+)?", True, _SMT),
    (r"errors\.(log|retry|deadletterqueue)\..+", False,
     "dead letters are rows of a table, with reason and position; errors that can pass are tried again"),
    (r"config\.action\.reload|plugin\.version|.+\.plugin\.version", False, "only Connect needs it"),
)  # fmt: skip
# The sink's own transforms, by the name of their class.
SMT_REASONS = {
    "CopyValue": "`transform.sql` copies a field: `SELECT *, a AS b FROM source`, with the fields under `source.schema`",
    "DebeziumTransform": "floe unpacks Debezium's messages itself: write `format: {type: json, envelope: debezium}`; its "
    "columns have other names, and each change stays a row",
    "MongoDebeziumTransform": "floe does not parse the documents inside Debezium's MongoDB messages; they stay text",
    "DmsTransform": "floe does not unpack the messages of AWS DMS: `data` and `metadata` stay structs",
    "JsonToMapTransform": "floe makes structs of JSON objects; `format: {type: raw, encoding: text}` keeps a record whole",
}
# Settings of Kafka clients that only tune the Java client.
_TUNING = re.compile(
    r"(max\.poll\.records|(max\.partition\.)?fetch\.(max|min)\.(bytes|wait\.ms)|max\.partition\.fetch\.bytes"
    r"|receive\.buffer\.bytes|send\.buffer\.bytes|linger\.ms|batch\.size|buffer\.memory|compression\.type)\Z"
)


def why_not(key: str) -> tuple[bool, str]:
    """Whether something is lost without the key, and the reason why it has no home in the pipeline file."""
    client = client_setting(key)
    if client is not None and (_TUNING.match(client) or client in OWN_KAFKA):
        return False, "floe itself sets how its clients fetch and send"
    for pattern, lost, reason in _REASONS:
        if re.fullmatch(pattern, key):
            return lost, reason
    if key.startswith("iceberg."):
        return True, "floe does not know this key of the sink"
    return True, "floe does not know this key"


def client_setting(key: str) -> str | None:
    """The Kafka client's own key inside a key of the sink, such as `max.poll.records`."""
    found = re.match(r"(?:(?:consumer|producer|admin)\.override|iceberg\.kafka)\.(.+)", key)
    return found[1] if found else None


def passes_to_client(setting: str) -> bool:
    """Whether a setting means the same in librdkafka and is one that a target may give."""
    return bool(
        re.match(r"bootstrap\.servers\Z|security\.protocol\Z|sasl\.mechanism\Z|client\.id\Z|client\.rack\Z", setting)
    )
