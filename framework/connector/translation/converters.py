"""Which format a converter of Kafka Connect reads, and what becomes of each of its settings.

In: the connector's settings. Out: the format in a pipeline file's words, the registry's connection for the target, and the
settings that are needless, lost or cannot be said. The lists hold every setting of the converters that are known by the
name of their class; any other class and any other setting is refused by name, since it may decide what a record is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from framework.connector.translation.untranslatable import PARTIAL, Untranslatable
from framework.diagnose.suggest import did_you_mean

KEY = "value.converter"
_PREFIX = f"{KEY}."
JSON = "org.apache.kafka.connect.json.JsonConverter"
_APICURIO = "io.apicurio.registry.utils.converter.AvroConverter"
# By the whole name of a class: other makers have classes of the same short names that read other bytes.
_BEHIND_A_REGISTRY = {
    "io.confluent.connect.avro.AvroConverter": "avro",
    "io.confluent.connect.protobuf.ProtobufConverter": "protobuf",
    "io.confluent.connect.json.JsonSchemaConverter": "json",
    _APICURIO: "avro",
}
_NO_FIELDS = re.compile(
    r"org\.apache\.kafka\.connect\.(storage\.StringConverter"
    r"|converters\.(ByteArray|Boolean|Double|Float|Integer|Long|Short)Converter)"
)
_OTHER_BYTES = (
    (r"com\.amazonaws\..+", "floe reads the values of AWS Glue's registry (`type: glue`), but does not translate this converter"),
    (r"io\.apicurio\..+ExtJsonConverter", "the values are JSON whose schema Apicurio keeps in Connect's own form"),
    (r"com\.blueapron\..+", "the values are protobuf without the id of a schema"),
)  # fmt: skip

# ---- settings --------------------------------------------------------------------------------------------------------

_CACHED = "only the Java converter caches"
# Patterns of settings that change nothing in what a sink reads, and why.
_NEEDLESS_JSON = (
    (r"schemas\.cache\.size", _CACHED),
    (r"(decimal\.format|replace\.null\.with\.default)", "it is about values with a schema, and these have none"),
    (r"converter\.(type|encoding)", "Connect sets it itself"),
)
_NEEDLESS = (
    (r"schemas\.cache\.(config|size)|max\.schemas\.per\.subject|latest\.cache\.(size|ttl\.sec)"
     r"|missing\.(id|schema|version)\.cache\.ttl\.sec", _CACHED),
    (r"auto\.register\.schemas|normalize\.schemas|id\.compatibility\.strict|use\.schema\.id|connect\.meta\.data"
     r"|allow\.optional\.map\.keys|scrub\.invalid\.names|avro\.remove\.java\.properties|propagate\.schema\.tags"
     r"|object\.additional\.properties|(key|value)\.schema\.id\.serializer", "it is for writing, and a sink reads"),
    (r"(key\.|value\.)?subject\.name\.strategy|latest\.compatibility\.strict", "a schema is found by the id in the record"),
    (r"discard\.type\.doc\.default", "floe uses no defaults of a schema"),
    (r"json\.fail\.(invalid\.schema|unknown\.properties)", "floe does not ask whether JSON keeps to its schema"),
    (r"http\.(connect|read)\.timeout\.ms|max\.retries|retries\.(wait|max\.wait)\.ms", "floe has a retry policy of its own"),
    (r"converter\.type", "Connect sets it itself"),
)  # fmt: skip
_NEEDLESS_APICURIO = (
    (r"apicurio\.registry\.(auto-register(\..+)?|find-latest|artifact-resolver-strategy|artifact\..+|dereference-schema"
     r"|check-period-ms|retry-.+|use-latest.*|fallback\..+|converter\.(serializer|persist-schema).*)",
     "it is for writing, or tunes Apicurio's client"),
)  # fmt: skip
# Settings that decide what a record is, the values that floe reads alike, and what the others do.
_DECIDE: Mapping[str, tuple[tuple[str, ...], str]] = {
    "enhanced.avro.schema.support": (("false",), "fields of a union get the whole names of their types"),
    "enhanced.protobuf.schema.support": (("false",), "messages and enums get their whole names"),
    "generalized.sum.type.support": (("false",), "fields of a union are numbered"),
    "flatten.singleton.unions": (("true",), "a union of one type becomes an object"),
    "flatten.unions": (("false",), "the fields of a union stand beside the others"),
    "generate.index.for.unions": (("true",), "a union has another name"),
    "generate.struct.for.nulls": (("false",), "null becomes an object"),
    "ignore.default.for.nullables": (("true",), "null becomes the default that the schema has for the field"),
    "int.for.enums": (("false",), "an enum becomes its number"),
    "optional.for.nullables": (("false",), "which fields may be null is said otherwise"),
    "optional.for.proto2": (("true",), "which fields may be null is said otherwise"),
    "use.optional.for.nonrequired": (("false", "true"), ""),
    "wrapper.for.nullables": (("false",), "a wrapper is an object"),
    "wrapper.for.raw.primitives": (("true",), "a wrapper is an object"),
    "decimal.format": (("NUMERIC",), "decimals are text in base64"),
    "json.decimal.format": (("NUMERIC",), "decimals are text in base64"),
    "use.latest.version": (("false",), "each record is read with the newest schema of its subject"),
    "use.latest.with.metadata": (("",), "each record is read with a schema that metadata choose"),
    "context.name.strategy": (
        ("io.confluent.kafka.serializers.context.NullContextNameStrategy",),
        "ids belong to a context of the registry",
    ),
    "rule.service.loader.enable": (("false",), "rules of the registry change or decrypt values"),
    "avro.use.logical.type.converters": (("false",), "logical types are read otherwise"),
    "avro.reflection.allow.null": (("false",), "records are read by reflection"),
    "schema.reflection": (("false",), "records are read by reflection"),
    "specific.avro.reader": (("false",), "records are read by generated classes"),
    "value.schema.id.deserializer": (
        tuple(f"io.confluent.kafka.serializers.schema.id.{kind}SchemaIdDeserializer" for kind in ("Dual", "Prefix")),
        "the id of the schema is not in the record",
    ),
    "apicurio.registry.as-confluent": (("true",), "the id of the schema has eight bytes, and floe reads Confluent's four"),
    "apicurio.registry.enable-confluent-id-handler": (("true",), "the id of the schema has eight bytes"),
    "apicurio.registry.headers.enabled": (("false",), "the id of the schema is in a header of Apicurio's"),
    "apicurio.registry.enable-headers": (("false",), "the id of the schema is in a header of Apicurio's"),
    "apicurio.registry.id-handler": (
        ("io.apicurio.registry.serde.Legacy4ByteIdHandler", "io.apicurio.registry.serde.Default4ByteIdHandler"),
        "the id of the schema is not written as Confluent does",
    ),
}  # fmt: skip
_SAY_FOUR_BYTES = tuple(name for name in _DECIDE if re.search(r"as-confluent|confluent-id|id-handler", name))
_RULES = re.compile(r"rule\.(executors|actions)(\..+)?")
_LOST = (
    (r"(schema\.registry\.)?ssl\..+", "floe reads PEM files: `ssl.ca.location`, `ssl.certificate.location`"),
    (r"bearer\.auth\..+|(sasl|oauth)\..+", "floe has `bearer.auth.token` and `basic.auth.user.info` for registries"),
    (r"(schema\.registry\.)?proxy\..+|request\.header\..+|client\.namespace", "floe has no such setting for registries"),
    (r"apicurio\.(registry\.)?(auth|request|tls|ssl|client|truststore|keystore)\..+", "give the credentials in floe's words"),
    (r"apicurio\.registry\.use-id", "the registry must answer `/schemas/ids/ID` for the ids that the records have"),
)  # fmt: skip
_URL = ("schema.registry.url", "apicurio.registry.url")
_SECRETS = {
    "basic.auth.user.info": "basic.auth.user.info",
    "schema.registry.basic.auth.user.info": "basic.auth.user.info",
    "bearer.auth.token": "bearer.auth.token",
}
# Where a secret comes from, in words of the settings above.
_SOURCES = {"basic.auth.credentials.source": ("USER_INFO", "URL"), "bearer.auth.credentials.source": ("STATIC_TOKEN",)}


@dataclass(frozen=True)
class Converted:
    """What becomes of a converter's settings: the registry of the target, the keys that are in it, (key, whether
    something is lost, sentence) of those that are not, and what cannot be said."""

    registry: dict[str, str]
    used: frozenset[str]
    notes: tuple[tuple[str, bool, str], ...]
    refused: tuple[Untranslatable, ...]


def format_of(converter: str) -> str | None:
    """The format of a converter that reads with a schema registry."""
    return _BEHIND_A_REGISTRY.get(converter.strip())


def unreadable(converter: str) -> str | None:
    """Why floe cannot read what a converter reads; None where it can, or where none is given."""
    name = converter.strip()
    if not name or name == JSON or name in _BEHIND_A_REGISTRY:
        return None
    if _NO_FIELDS.fullmatch(name):
        return f"the values are read with {name}, which gives no fields"
    other = next((reason for pattern, reason in _OTHER_BYTES if re.fullmatch(pattern, name)), None)
    return other or f"floe does not know what records {name} makes of the values"


def converted(settings: Mapping[str, str]) -> Converted:
    """What becomes of each setting of the values' converter."""
    name = settings.get(KEY, "").strip()
    registry: dict[str, str] = {}
    used: set[str] = set()
    notes: list[tuple[str, bool, str]] = []
    refused: list[Untranslatable] = []
    for key, value in settings.items():
        if not key.startswith(_PREFIX):
            continue
        option = key.removeprefix(_PREFIX)
        if not name:
            notes.append((key, True, f"without `{KEY}` Connect takes the worker's converter, and passes over this"))
        elif name == JSON:
            _json(key, option, value, notes, refused)
        elif name in _BEHIND_A_REGISTRY and (found := _connection(option, value)) is not None:
            registry |= found
            used.add(key)
        else:
            _behind_a_registry(key, option, value, notes, refused)
    if name == _APICURIO and not any(_PREFIX + each in settings for each in _SAY_FOUR_BYTES):
        message = "Apicurio's ids have eight bytes by default, and floe reads Confluent's four"
        remedy = (
            f"if the records begin with four, say so: `{_PREFIX}apicurio.registry.as-confluent: true`, or: {PARTIAL}"
        )
        refused.append(Untranslatable(KEY, message, remedy))
    return Converted(registry, frozenset(used), tuple(notes), tuple(refused))


def _json(key: str, option: str, value: str, notes: list[tuple[str, bool, str]], refused: list[Untranslatable]) -> None:
    if option == "schemas.enable":
        if value.strip().lower() == "false":
            notes.append((key, False, "the values are read as JSON objects"))
        return  # otherwise the whole file is refused
    if option == "schema.content":
        refused.append(Untranslatable(key, "it gives the values a schema, and floe reads them without one", PARTIAL))
    elif found := _reason(option, _NEEDLESS_JSON):
        notes.append((key, False, found))
    else:
        refused.append(_unknown(key, option, ("schemas.enable", "schemas.cache.size", "decimal.format")))


def _behind_a_registry(
    key: str, option: str, value: str, notes: list[tuple[str, bool, str]], refused: list[Untranslatable]
) -> None:
    if option in _DECIDE:
        alike, does = _DECIDE[option]
        if value.strip().lower() in map(str.lower, alike):
            notes.append((key, False, "floe reads the values alike"))
        else:
            refused.append(Untranslatable(key, f"with this setting {does}; floe does otherwise", PARTIAL))
    elif _RULES.fullmatch(option):
        refused.append(Untranslatable(key, "rules of the registry change or decrypt values; floe runs none", PARTIAL))
    elif option in _SOURCES:
        notes.append((key, True, f"floe has no credentials from `{value}` for registries"))
    elif found := _reason(option, _LOST):
        notes.append((key, True, found))
    elif found := _reason(option, (*_NEEDLESS, *_NEEDLESS_APICURIO)):
        notes.append((key, False, found))
    else:
        refused.append(_unknown(key, option, (*_DECIDE, *_SECRETS, *_SOURCES, *_URL)))


def _connection(option: str, value: str) -> dict[str, str] | None:
    """What the target's registry has of a setting; None for one that is not of the connection."""
    if option in _URL:
        # A reference of Connect's providers, or a password in the address, is not copied.
        if "${" in value or "@" in value:
            return {"url": "${env:SCHEMA_REGISTRY_URL}"}
        return {"url": re.sub(r"/apis/registry/v[0-9]+", "/apis/ccompat/v7", value)}
    if option in _SECRETS:
        name = _SECRETS[option]
        variable = name.rpartition(".")[0].replace(".", "_").upper()
        return {name: f"${{secret:env:SCHEMA_REGISTRY_{variable}}}"}
    if value.strip().upper() in _SOURCES.get(option, ()):
        return {}
    return None


def _reason(option: str, reasons: tuple[tuple[str, str], ...]) -> str | None:
    return next((reason for pattern, reason in reasons if re.fullmatch(pattern, option)), None)


def _unknown(key: str, option: str, known: tuple[str, ...]) -> Untranslatable:
    hint = did_you_mean(option, known)
    message = "as far as floe knows the converter has no such setting"
    return Untranslatable(key, message, f"{f'{hint} If not, ' if hint else ''}remove it, or: {PARTIAL}")
