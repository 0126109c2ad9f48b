"""The target of an imported sink: its catalog and Kafka settings in PyIceberg's and librdkafka's words.

In: settings of the sink. Out: plain values of a target file, and the keys that are in it. No secret is ever copied: its place
is taken by a reference to an environment variable.
"""

from __future__ import annotations

import re
from typing import Any

from framework.config.connection_rules import is_clear_secret
from framework.config.connector_keys import client_setting, passes_to_client
from framework.config.text import start_of
from framework.config.tree import Scalar

_KINDS = {
    "GlueCatalog": "glue",
    "BigQueryMetastoreCatalog": "bigquery",
    "DynamoDbCatalog": "dynamodb",
    "RESTCatalog": "rest",
    "HiveCatalog": "hive",
    "JdbcCatalog": "sql",
}
_TYPES = {"jdbc": "sql", **{kind: kind for kind in _KINDS.values()}}
# PyIceberg knows these by itself, or has no use for them.
_UNUSED = ("io-impl", "s3.staging-dir", "s3.path-style-access", "include-credentials", "ref")
_CATALOG = "iceberg.catalog."


def target_of(settings: dict[str, str]) -> tuple[dict[str, Any], set[str]]:
    """A target file's values, and the settings that it holds or makes needless.

    A catalog whose kind PyIceberg does not have (Nessie's own, a class of somebody's) is left for a person to fill in.
    """
    used: set[str] = set()
    kafka: dict[str, str] = {}
    catalog: dict[str, str] = {}
    named, class_name = settings.get(f"{_CATALOG}type", "").lower(), settings.get(f"{_CATALOG}catalog-impl", "")
    kind = _TYPES.get(named) or _KINDS.get(class_name.rpartition(".")[2])
    catalog["type"] = kind or "${env:ICEBERG_CATALOG_TYPE}"
    for key, value in settings.items():
        setting = client_setting(key)
        if setting is not None and passes_to_client(setting):
            kafka[setting] = value
            used.add(key)
        elif setting == "sasl.jaas.config" and re.search(r"(Plain|Scram)LoginModule", value):
            # librdkafka has the user's name and the password by themselves; neither is copied.
            kafka |= {"sasl.username": "${secret:env:KAFKA_USERNAME}", "sasl.password": "${secret:env:KAFKA_PASSWORD}"}
            used.add(key)
        elif key.startswith(_CATALOG):
            name = key.removeprefix(_CATALOG)
            if name == "type" or (name == "catalog-impl" and kind) or name in _UNUSED:
                used.add(key)
            elif name != "catalog-impl":
                catalog[name] = _safe(name, value)
                used.add(key)
    kafka.setdefault("bootstrap.servers", "${env:KAFKA_BOOTSTRAP_SERVERS}")
    values = {
        "apiVersion": "floe/v1",
        "kind": "Target",
        "metadata": {"name": "imported"},
        "prefix": "floe",
        "connections": {"kafka": {"main": kafka}, "catalog": {"default": catalog}},
    }
    return values, used


def _safe(name: str, value: str) -> str:
    """The value, or a reference where it is a secret or comes from Connect's own providers."""
    path = ("connections", "catalog", "default", name)
    variable = "ICEBERG_CATALOG_" + re.sub(r"[^A-Z0-9]+", "_", name.upper())
    if is_clear_secret(path, Scalar(value, start_of(""))):
        return f"${{secret:env:{variable}}}"
    # JDBC addresses are Java's; SQLAlchemy writes them otherwise.
    return f"${{env:{variable}}}" if "${" in value or value.startswith("jdbc:") else value
