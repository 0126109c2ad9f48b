"""The transforms of a connector in the order in which Connect applies them, with their predicates.

In: the connector's settings. Out: steps; each knows its class, whether it works on the key, and all its options by
name. A class that nobody judged, or an option that its class does not have, is refused: nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from framework.connector.translation.untranslatable import PARTIAL, Untranslatable, refused
from framework.diagnose.suggest import did_you_mean

_KAFKA = "org.apache.kafka.connect.transforms."
_SINKS = ("org.apache.iceberg.connect.transforms.", "io.tabular.iceberg.connect.transforms.")
_DEBEZIUM = "io.debezium.transforms."
_PREDICATES = "org.apache.kafka.connect.transforms.predicates."
_DEFAULTS = "replace.null.with.default"
# Each transform and its options, as its own documentation lists them.
KAFKA_TRANSFORMS: Mapping[str, frozenset[str]] = {
    "Cast": frozenset({"spec", _DEFAULTS}),
    "DropHeaders": frozenset({"headers"}),
    "ExtractField": frozenset({"field", "field.syntax.version", _DEFAULTS}),
    "Filter": frozenset(),
    "Flatten": frozenset({"delimiter"}),
    "HeaderFrom": frozenset({"fields", "headers", "operation", _DEFAULTS}),
    "HoistField": frozenset({"field"}),
    "InsertField": frozenset(
        {
            "topic.field",
            "partition.field",
            "offset.field",
            "timestamp.field",
            "static.field",
            "static.value",
            _DEFAULTS,
        }
    ),
    "InsertHeader": frozenset({"header", "value.literal"}),
    "MaskField": frozenset({"fields", "replacement", _DEFAULTS}),
    "RegexRouter": frozenset({"regex", "replacement"}),
    "ReplaceField": frozenset({"exclude", "include", "renames", "blacklist", "whitelist", _DEFAULTS}),
    "SetSchemaMetadata": frozenset({"schema.name", "schema.version", _DEFAULTS}),
    "TimestampConverter": frozenset({"field", "target.type", "format", "unix.precision", _DEFAULTS}),
    "TimestampRouter": frozenset({"topic.format", "timestamp.format"}),
    "ValueToKey": frozenset({"fields", _DEFAULTS}),
}
# Kafka's classes that are only there as `NAME$Key` and `NAME$Value`.
_OF_KEY_OR_VALUE = frozenset(
    {
        "Cast",
        "ExtractField",
        "Flatten",
        "HeaderFrom",
        "HoistField",
        "InsertField",
        "MaskField",
        "ReplaceField",
        "SetSchemaMetadata",
        "TimestampConverter",
    }
)
SINK_TRANSFORMS: Mapping[str, frozenset[str]] = {
    "CopyValue": frozenset({"source.field", "target.field"}),
    "DebeziumTransform": frozenset({"cdc.target.pattern"}),
    "DmsTransform": frozenset(),
    "JsonToMapTransform": frozenset({"json.root"}),
    "KafkaMetadataTransform": frozenset({"field_name", "nested", "external_field"}),
    "MongoDebeziumTransform": frozenset({"array_handling_mode"}),
}
DEBEZIUM_TRANSFORMS: Mapping[str, frozenset[str]] = {
    "ByLogicalTableRouter": frozenset(
        {
            "topic.regex",
            "topic.replacement",
            "key.field.regex",
            "key.field.replacement",
            "key.field.name",
            "key.enforce.uniqueness",
            "schema.name.adjustment.mode",
            "logical.table.cache.size",
        }
    ),
    "ExtractNewRecordState": frozenset(
        {
            "delete.tombstone.handling.mode",
            "delete.handling.mode",
            "drop.tombstones",
            "add.fields",
            "add.fields.prefix",
            "add.headers",
            "add.headers.prefix",
            "route.by.field",
            "drop.fields.header.name",
            "drop.fields.from.key",
            "drop.fields.keep.schema.compatible",
            _DEFAULTS,
        }
    ),
}
_PREDICATE_OPTIONS: Mapping[str, frozenset[str]] = {
    "TopicNameMatches": frozenset({"pattern"}),
    "RecordIsTombstone": frozenset(),
    "HasHeaderKey": frozenset({"name"}),
}


@dataclass(frozen=True)
class Predicate:
    """A condition of Kafka's on a record; `options` are its own."""

    name: str
    kind: str
    options: Mapping[str, str]


@dataclass(frozen=True)
class ConnectTransform:
    """One transform. `kind` is its class without package and form; `predicate` is None where it takes every record."""

    name: str
    kind: str
    is_of_key: bool
    options: Mapping[str, str]
    predicate: Predicate | None = None
    is_negated: bool = False

    def key(self, option: str = "type") -> str:
        """The property of the connector that an option is."""
        return f"transforms.{self.name}.{option}"

    def flag(self, option: str) -> bool:
        return self.options.get(option, "false").strip().lower() == "true"

    def listed(self, *options: str) -> list[str]:
        """The parts of the first option that is given."""
        text = next((self.options[option] for option in options if self.options.get(option)), "")
        return [part.strip() for part in text.split(",") if part.strip()]

    def refuse(self, option: str, message: str, remedy: str = "") -> NoReturn:
        raise Untranslatable(self.key(option), message, f"{remedy}, or: {PARTIAL}" if remedy else PARTIAL)


def step_names(settings: Mapping[str, str]) -> list[str]:
    return _listed(settings.get("transforms", ""))


def check_names(settings: Mapping[str, str]) -> None:
    """Raises ConfigError for lists of names with which Connect does not start the connector."""
    for key in ("transforms", "predicates"):
        names = _listed(settings.get(key, ""))
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise refused(key, f"it names `{twice}` twice, and Connect starts no such connector", "keep one of them")


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def step_of(name: str, settings: Mapping[str, str]) -> ConnectTransform:
    """One of the transforms that `transforms` lists.

    Raises:
        Untranslatable: its class, one of its options or its predicate is not known.
    """
    prefix = f"transforms.{name}."
    options = {key.removeprefix(prefix): value for key, value in settings.items() if key.startswith(prefix)}
    full = options.pop("type", "")
    predicate, negated = options.pop("predicate", ""), options.pop("negate", "false")
    if not full:
        raise Untranslatable(
            f"{prefix}type", "the transform has no class", "name its class, or take it out of `transforms`"
        )
    kind, form, known = _known(full)
    if known is None:
        raise Untranslatable(
            f"{prefix}type",
            f"`{full}` is not a transform that floe knows",
            f"apply it before the records reach the topic, or: {PARTIAL}",
        )
    if unknown := sorted(set(options) - known):
        hint = did_you_mean(unknown[0], known)
        raise Untranslatable(
            f"{prefix}{unknown[0]}",
            f"`{kind}` has no option `{unknown[0]}`",
            f"{hint or 'remove it'}, or: {PARTIAL}",
        )
    forms = ("Key", "Value") if kind in _OF_KEY_OR_VALUE and full.startswith(_KAFKA) else ("",)
    if form not in forms:
        raise Untranslatable(
            f"{prefix}type",
            f"there is no class `{full}`, so Connect starts no such connector",
            f"name it as `{kind}{'$Value' if forms[0] else ''}`, or: {PARTIAL}",
        )
    negates = negated.strip().lower() == "true"
    return ConnectTransform(name, kind, form == "Key", options, _predicate(name, predicate, settings), negates)


def _known(full: str) -> tuple[str, str, frozenset[str] | None]:
    kind, _, form = full.rpartition(".")[2].partition("$")
    package = full.removesuffix(full.rpartition(".")[2])
    if package == _KAFKA:
        return kind, form, KAFKA_TRANSFORMS.get(kind)
    if package in _SINKS:
        return kind, form, SINK_TRANSFORMS.get(kind)
    return kind, form, DEBEZIUM_TRANSFORMS.get(kind) if package == _DEBEZIUM else None


def _predicate(step: str, name: str, settings: Mapping[str, str]) -> Predicate | None:
    if not name:
        return None
    if name not in _listed(settings.get("predicates", "")):
        message = f"the transform `{step}` names the condition `{name}`, which `predicates` does not list"
        raise Untranslatable(f"transforms.{step}.predicate", message, f"add it to `predicates`, or: {PARTIAL}")
    prefix = f"predicates.{name}."
    options = {key.removeprefix(prefix): value for key, value in settings.items() if key.startswith(prefix)}
    full = options.pop("type", "")
    kind = full.removeprefix(_PREDICATES)
    known = _PREDICATE_OPTIONS.get(kind) if full.startswith(_PREDICATES) else None
    if known is None or set(options) - known:
        raise Untranslatable(
            f"predicates.{name}.type" if known is None else f"predicates.{name}.{min(set(options) - known)}",
            f"the transform `{step}` has a condition that floe does not know",
            f"use a predicate of Kafka's own, or: {PARTIAL}",
        )
    return Predicate(name, kind, options)
