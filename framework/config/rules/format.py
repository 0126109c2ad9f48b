"""Rules about how bytes are read: which keys fit a format, whether a schema is one, and the registry it comes from.

In: a pipeline's tree. Out: a diagnostic per violation. A schema's own text is checked where it stands, so that a
mistake in it is found before anything is read.
"""

from __future__ import annotations

from collections.abc import Iterator

from framework.config.names.metadata import INDEX
from framework.config.rules.rules import Document, Rule, at
from framework.config.schema_files import avro_fault
from framework.config.tree import Mapping, Path
from framework.config.values.envelopes import ENVELOPES
from framework.diagnose.diagnostic import Diagnostic
from framework.diagnose.suggest import did_you_mean, listed

_SOURCES = (("source", "format"), ("source", "key"))
# Which keys mean something for a format, beside `type`.
_KEYS = {
    "json": ("registry", "envelope", "envelope_fields", "on_truncate", "explode"),
    "avro": ("registry", "schema", "schema_file", "envelope", "envelope_fields", "on_truncate", "column"),
    "protobuf": ("registry", "schema", "schema_file", "message"),
    "raw": ("column", "encoding"),
}
_ALWAYS = ("type", "prefix")


def _type(document: Document, path: Path) -> str | None:
    if document.entry(*path, "type") is None:
        return "json"
    kind = document.text(*path, "type")
    return kind if kind in _KEYS else None


def keys_fit_format(document: Document) -> Iterator[Diagnostic]:
    """Each key under `format` and `key` has a meaning for the format."""
    for path in _SOURCES:
        kind = _type(document, path)
        for entry in document.mapping(*path) if kind else ():
            if kind is None or entry.key in (*_ALWAYS, *_KEYS[kind]) or entry.key.startswith("x-"):
                continue
            fitting = [name for name, keys in _KEYS.items() if entry.key in keys]
            if fitting:
                message = f"`{entry.key}` does not apply to `{kind}`"
                remedy = f"remove it; it is for {listed(fitting)}"
                if entry.key == "explode" and kind != "raw":
                    remedy = "remove it, and explode the list downstream, on the table; `explode` is for `json`"
                yield at("FLOE-C431", message, entry, (*path, entry.key), remedy)


def schema_is_known(document: Document) -> Iterator[Diagnostic]:
    """Avro and protobuf have a schema: from a registry, or in the file."""
    for path in _SOURCES:
        kind, entry = _type(document, path), document.entry(*path)
        if entry is None or kind not in ("avro", "protobuf"):
            continue
        given = [key for key in ("schema", "schema_file") if document.entry(*path, key)]
        if len(given) > 1:
            yield at("FLOE-C432", "`schema` and `schema_file` are both given", document.entry(*path, "schema_file") or entry,
                     (*path, "schema_file"), "keep one of them")  # fmt: skip
        elif not given and not document.entry(*path, "registry"):
            yield at(
                "FLOE-C432",
                f"`{kind}` has no schema",
                document.node(*path, "type") or entry,
                (*path, "type"),
                "name a `registry`, or give the schema with `schema` or `schema_file`",
            )


def schema_is_sound(document: Document) -> Iterator[Diagnostic]:
    """An Avro schema in the file is JSON that names a type."""
    for path in _SOURCES:
        text, node = document.text(*path, "schema"), document.node(*path, "schema")
        if text is None or node is None or _type(document, path) != "avro":
            continue
        if fault := avro_fault(text):
            remedy = 'begin with `{"type": "record", "name": ..., "fields": [...]}`'
            yield at("FLOE-C433", f"this is not an Avro schema: {fault}", node, (*path, "schema"), remedy)


def declared_registry(document: Document) -> Iterator[Diagnostic]:
    """A registry is one that the target declares; values and keys may have different ones."""
    for path in _SOURCES:
        name, node = document.text(*path, "registry"), document.node(*path, "registry")
        if name is None or node is None:
            continue
        if document.target is not None and name not in document.target.registries:
            known = sorted(document.target.registries)
            remedy = f"use {listed(known)}" if known else "declare it under `connections.registry`"
            message = f"the target `{document.target.name}` declares no registry `{name}`"
            yield at("FLOE-C401", message, node, (*path, "registry"), remedy, did_you_mean(name, known))


def key_fits_value(document: Document) -> Iterator[Diagnostic]:
    """The fields of a key become columns beside those of the value; JSON keys go with JSON values, others with
    others."""
    entry = document.entry("source", "key")
    key, value = _type(document, ("source", "key")), _type(document, ("source", "format"))
    if entry is None or key is None or value is None:
        return
    if (key == "json") != (value == "json"):
        path = ("source", "key", "type")
        node = document.node(*path) or entry
        remedy = "use `metadata_columns: [key]` or `[key_text]` for the key as it is"
        yield at("FLOE-C501", f"keys in `{key}` beside values in `{value}` are not supported", node, path, remedy)
    elif value == "json" and document.text("source", "format", "envelope") == "debezium":
        remedy = "remove `key`; the row holds the key's fields too"
        yield at("FLOE-C501", "`key` beside Debezium's JSON is not supported", entry, ("source", "key"), remedy)
    elif value == "json" and document.text("source", "format", "envelope") == "connect":
        remedy = "use `metadata_columns: [key_text]` for the key as it is"
        yield at(
            "FLOE-C501", "`key` beside Connect's JSON with schemas is not supported", entry, ("source", "key"), remedy
        )


def words_fit_envelope(document: Document) -> Iterator[Diagnostic]:
    """Debezium's envelope alone has further fields, and truncates; Connect's is one of JSON."""
    path = ("source", "format")
    envelope = document.text(*path, "envelope")
    for word in ("envelope_fields", "on_truncate"):
        entry = document.entry(*path, word)
        if entry is not None and envelope != "debezium" and (*path, "envelope") not in document.unresolved:
            message = f"`{word}` is for Debezium's envelope, and this format has none"
            yield at("FLOE-C431", message, entry, (*path, word), "add `envelope: debezium`, or remove it")
    node = document.node(*path, "envelope")
    if envelope == "connect" and node is not None and _type(document, path) == "avro":
        message = "`envelope: connect` is for JSON: Avro has its schema in the registry"
        yield at("FLOE-C431", message, node, (*path, "envelope"), "remove it")
    elif node is not None and _type(document, path) == "avro" and is_described(document):
        message = "an envelope that is described by its fields is for JSON"
        yield at("FLOE-C431", message, node, (*path, "envelope"), "remove it")


def is_described(document: Document) -> bool:
    """Whether the values' envelope is one of change events that floe knows by its paths alone."""
    node = document.node("source", "format", "envelope")
    return isinstance(node, Mapping) or document.text("source", "format", "envelope") in ENVELOPES


def operations_differ(document: Document) -> Iterator[Diagnostic]:
    """A word of an envelope means one thing."""
    path: Path = ("source", "format", "envelope")
    seen: dict[str, str] = {}
    for place, what in ((("operations", "c"), "c"), (("operations", "u"), "u"), (("operations", "d"), "d"),
                        (("operations", "r"), "r"), (("ignore",), "ignore")):  # fmt: skip
        for at_, word in document.texts(*path, *place):
            node, first = document.node(*at_), seen.setdefault(word.lower(), what)
            if first != what and node is not None:
                message = f"`{word}` stands under `{first}` and under `{what}`"
                yield at("FLOE-C435", message, node, at_, "keep one of them")


def explode_stands_alone(document: Document) -> Iterator[Diagnostic]:
    """What makes several rows of a record does so before everything that knows records alone."""
    path = ("source", "format", "explode")
    entry = document.entry(*path)
    if entry is None:
        asked = ((at_, item) for at_, item in document.items("source", "metadata_columns"))
        for place, item in asked:
            if document.text(*place) == INDEX and ("source", "format") not in document.unresolved:
                message = "`index` is that of an element in its record, and the records hold one document each"
                yield at("FLOE-C431", message, item, place, "remove it, or add `explode` to `source.format`")
        return
    if (node := document.node("source", "format", "envelope")) is not None and not is_described(document):
        envelope = document.text("source", "format", "envelope")
        if envelope not in (None, "none"):
            message = f"`explode` beside the envelope `{envelope}` is not supported"
            yield at("FLOE-C501", message, node, ("source", "format", "envelope"), "remove one of them")
    if (sql := document.entry("transform", "sql")) is not None:
        message = "`transform.sql` beside `explode` is not supported: it takes a record for one row"
        remedy = "remove it, and select the columns downstream, on the table"
        yield at("FLOE-C501", message, sql, ("transform", "sql"), remedy)


def parsed_texts_are_json(document: Document) -> Iterator[Diagnostic]:
    """JSON inside a text is looked for in JSON, and becomes no text again."""
    for entry in document.mapping("source", "schema"):
        path = ("source", "schema", entry.key)
        parse, kind = document.entry(*path, "parse"), document.text(*path, "type")
        if parse is None:
            continue
        if _type(document, ("source", "format")) not in (None, "json"):
            message = "`parse: json` is for texts in JSON; this format has types of its own"
            yield at("FLOE-C431", message, parse, (*path, "parse"), "declare a `type` instead")
        elif kind in ("string", "binary"):
            message = f"`parse: json` gives the value inside the text, and `{entry.key}` is declared `{kind}`"
            yield at(
                "FLOE-C409",
                message,
                parse,
                (*path, "parse"),
                "remove `type`, or declare the type of the value inside: `struct<...>`, for example",
            )


RULES: tuple[Rule, ...] = (
    operations_differ,
    explode_stands_alone,
    parsed_texts_are_json,
    keys_fit_format,
    schema_is_known,
    schema_is_sound,
    declared_registry,
    key_fits_value,
    words_fit_envelope,
)
