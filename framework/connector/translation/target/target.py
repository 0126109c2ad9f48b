"""The target of an imported sink: its catalog and Kafka settings in PyIceberg's and librdkafka's words.

In: settings of the sink. Out: plain values of a target file, the keys that are in it, and what becomes of others. No
secret is ever copied: a reference to an environment variable takes its place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from framework.config.rules.target.connections import is_clear_secret
from framework.config.text import start_of
from framework.config.tree import Scalar
from framework.connector.translation.converters import converted
from framework.connector.translation.target.catalog_properties import PropertyOutcome, property_of
from framework.connector.translation.target.kafka_login import login_of
from framework.connector.translation.target.keys import client_setting, passes_to_client
from framework.connector.translation.untranslatable import PARTIAL, Untranslatable

_KINDS = {
    "GlueCatalog": "glue",
    "BigQueryMetastoreCatalog": "bigquery",
    "DynamoDbCatalog": "dynamodb",
    "RESTCatalog": "rest",
    "HiveCatalog": "hive",
    "JdbcCatalog": "sql",
}
_TYPES = {"jdbc": "sql", **{kind: kind for kind in _KINDS.values()}}
_CATALOG = "iceberg.catalog."
_OF_JAVA = (
    "Java's address: set the variable to SQLAlchemy's, such as `postgresql+psycopg2://user:password@host/db` for "
    "`jdbc:postgresql://host/db`"
)


@dataclass(frozen=True)
class ImportedTarget:
    """A target file's values, the settings that it holds, (key, whether something is lost, sentence) of those that it
    does not, and what cannot be said."""

    values: dict[str, Any]
    used: frozenset[str]
    notes: tuple[tuple[str, bool, str], ...]
    refused: tuple[Untranslatable, ...]


def target_of(settings: dict[str, str]) -> ImportedTarget:
    """The target of a sink.

    A catalog whose kind PyIceberg does not have (Nessie's own, a class of somebody's) is left for a person to fill in.
    """
    notes: list[tuple[str, bool, str]] = []
    refused: list[Untranslatable] = []
    used: set[str] = set()
    kafka: dict[str, Any] = {}
    login, said = login_of({client: value for key, value in settings.items() if (client := client_setting(key))})
    catalog: dict[str, str] = {}
    named, class_name = settings.get(f"{_CATALOG}type", "").lower(), settings.get(f"{_CATALOG}catalog-impl", "")
    kind = _TYPES.get(named) or _KINDS.get(class_name.rpartition(".")[2])
    catalog["type"] = kind or "${env:ICEBERG_CATALOG_TYPE}"
    for key, value in settings.items():
        setting = client_setting(key)
        if setting is not None and passes_to_client(setting):
            kafka[setting] = value
            used.add(key)
        elif setting is not None and setting in said:
            used.add(key)
        elif key.startswith(_CATALOG):
            name = key.removeprefix(_CATALOG)
            if name in ("type", "catalog-impl"):
                if kind is not None or name == "type":
                    used.add(key)
                continue
            found = property_of(name, value)
            if found.fate is PropertyOutcome.KEPT:
                catalog[found.name] = _safe(found.name, found.value)
                used.add(key)
                if found.value.startswith("jdbc:"):
                    notes.append((key, True, _OF_JAVA))
            elif found.fate is PropertyOutcome.REFUSED:
                refused.append(Untranslatable(key, found.reason, f"remove it, or: {PARTIAL}"))
            else:
                notes.append((key, found.fate is PropertyOutcome.LOST, found.reason))
    if kind == "sql":
        # Rows of the database carry the name that the sink gives its catalog.
        catalog["catalog-name"] = settings.get("iceberg.catalog", "iceberg")
        used.add("iceberg.catalog")
    values_of = converted(settings)
    used |= values_of.used
    notes += values_of.notes
    refused += values_of.refused
    registry = values_of.registry
    kafka |= login
    kafka.setdefault("bootstrap.servers", "${env:KAFKA_BOOTSTRAP_SERVERS}")
    values = {
        "apiVersion": "floe/v1",
        "kind": "Target",
        "metadata": {"name": "imported"},
        "prefix": "floe",
        "connections": {"kafka": {"main": kafka}, "catalog": {"default": catalog}}
        | ({"registry": {"main": registry}} if registry else {}),
    }
    return ImportedTarget(values, frozenset(used), tuple(notes), tuple(refused))


def _safe(name: str, value: str) -> str:
    """The value, or a reference where it is a secret or comes from Connect's own providers."""
    path = ("connections", "catalog", "default", name)
    variable = "ICEBERG_CATALOG_" + re.sub(r"[^A-Z0-9]+", "_", name.upper())
    if is_clear_secret(path, Scalar(value, start_of(""))):
        return f"${{secret:env:{variable}}}"
    # JDBC addresses are Java's; SQLAlchemy writes them otherwise.
    return f"${{env:{variable}}}" if "${" in value or value.startswith("jdbc:") else value
