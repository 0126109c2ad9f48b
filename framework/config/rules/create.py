"""Rules about how tables are created: the columns they are partitioned, sorted and identified by, properties and
locations."""

from __future__ import annotations

import re
from collections.abc import Iterator

from framework.config.names.metadata import NAMES, PREFIX, is_metadata, metadata_column, metadata_type
from framework.config.names.table_names import DEFAULT_CATALOG
from framework.config.rules.permitted import PROPERTIES, is_below, is_property_allowed, never_a_property
from framework.config.rules.rules import Document, Rule, at, table_policies
from framework.config.spec import KeySpec, PartitionFieldSpec
from framework.config.tree import Node, Path, Scalar
from framework.config.units import COLUMN, partition_field, partition_text, sort_field
from framework.config.values.transforms import NESTED_TYPES, TRANSFORMS
from framework.diagnose.diagnostic import Diagnostic
from framework.diagnose.suggest import did_you_mean, is_one_letter_away, listed

_NANOSECONDS = ("timestamp_ns", "timestamptz_ns")
_METADATA_TYPES = {metadata_column(name): str(metadata_type(name)) for name in NAMES}
_CODECS = ("zstd", "snappy", "gzip", "lz4", "brotli", "uncompressed")
_COUNTS = (
    "write.target-file-size-bytes",
    "write.parquet.row-group-size-bytes",
    "write.parquet.row-group-limit",
    "write.parquet.page-size-bytes",
    "write.parquet.page-row-limit",
    "write.parquet.dict-size-bytes",
    "write.metadata.previous-versions-max",
    "write.metadata.metrics.max-inferred-column-defaults",
    "commit.manifest.min-count-to-merge",
    "commit.manifest.target-size-bytes",
)
_FLAGS = (
    "write.object-storage.enabled",
    "write.object-storage.partitioned-paths",
    "write.metadata.delete-after-commit.enabled",
    "commit.manifest-merge.enabled",
)
_METRICS = ("write.metadata.metrics.default", "write.metadata.metrics.column.")


def partition_columns(document: Document) -> Iterator[Diagnostic]:
    """A partition or sort transform fits its column's declared type, no column is used the same way twice, and every
    column that tables are made with can be there."""
    for policy in table_policies(document):
        seen: set[str] = set()
        for path, item in document.items(*policy, "create", "partition_by"):
            field = partition_field(document.text(*path) or "")
            if field is None:
                continue
            if partition_text(field) in seen:
                yield at("FLOE-C218", f"`{partition_text(field)}` is given twice", item, path, "keep one of them")
            seen.add(partition_text(field))
            yield from _transformed_column(document, field, item, path)
            if field.transform == "identity" and (kind := column_kind(document, field.column)) in _NANOSECONDS:
                message = f"a table cannot be partitioned by the plain values of `{field.column}`, which is `{kind}`"
                yield at("FLOE-C415", message, item, path, f"write `day({field.column})`, or another transform")
        seen = set()
        for path, item in document.items(*policy, "create", "sort_by"):
            order = sort_field(document.text(*path) or "")
            if order is None:
                continue
            if partition_text(order.by) in seen:
                message = f"rows are sorted by `{partition_text(order.by)}` already"
                yield at("FLOE-C218", message, item, path, "keep one of them")
            seen.add(partition_text(order.by))
            yield from _transformed_column(document, order.by, item, path)
        for path, item in document.items(*policy, "create", "identifier_fields"):
            column = document.text(*path)
            if column is None or not is_column(column):
                continue
            yield from missing_column(document, column, item, path)
            kind = column_kind(document, column)
            if kind in ("float", "double"):
                message = f"`{column}` is `{kind}`, and in Iceberg a float cannot identify rows"
                yield at("FLOE-C415", message, item, path, "declare another type, or choose another column")
            elif kind in NESTED_TYPES:
                message = f"`{column}` is a `{kind}`, and in Iceberg only plain values can identify rows"
                yield at("FLOE-C415", message, item, path, "choose another column")


def _transformed_column(document: Document, field: PartitionFieldSpec, item: Node, path: Path) -> Iterator[Diagnostic]:
    missing = list(missing_column(document, field.column, item, path))
    if missing:
        yield from missing
        return
    kind, transform = column_kind(document, field.column), TRANSFORMS[field.transform]
    fits = transform.takes if transform.is_of_time else ()
    if kind and fits and kind not in fits:
        message = f"`{field.transform}` needs {listed(fits)}, but `{field.column}` is `{kind}`"
        yield at("FLOE-C415", message, item, path, "declare another type, or choose another transform")
    elif not kind and fits and _is_plain_json(document):
        # JSON has no times of its own, so a column that is not declared is text.
        message = f"`{field.transform}` needs {listed(fits)}, and `source.schema` declares no `{field.column}`"
        remedy = f"declare it: `source: {{schema: {{{field.column}: timestamptz}}}}`"
        yield at("FLOE-C414", message, item, path, remedy, _meant(document, field.column))
    elif kind and not transform.fits(kind):
        message = f"Iceberg cannot apply `{field.transform}` to `{kind}`"
        yield at("FLOE-C415", message, item, path, "choose another transform")


def missing_column(document: Document, column: str, item: Node, path: Path) -> Iterator[Diagnostic]:
    """The finding where no table can have the column: one of Kafka's that is not asked for, or one that SQL does not
    give."""
    if column.startswith(PREFIX) and column not in _metadata(document):
        name = column.removeprefix(PREFIX)
        known = [each.removeprefix(PREFIX) for each in _METADATA_TYPES]
        remedy = (
            f"add `{name}` to `source.metadata_columns`"
            if name in known
            else f"Kafka's columns are {listed(_METADATA_TYPES, 'and')}"
        )
        hint = None if name in known else did_you_mean(column, _METADATA_TYPES)
        yield at("FLOE-C414", f"there is no column `{column}`", item, path, remedy, hint)
    elif not column_kind(document, column) and _all_declared(document):
        declared = [entry.key for entry in document.mapping("source", "schema")]
        message = f"`transform.sql` and `source.schema` give no column `{column}`"
        hint = did_you_mean(column, declared)
        yield at("FLOE-C414", message, item, path, "declare it under `source.schema`", hint)
    elif not column_kind(document, column) and (hint := _mistyped(document, column)):
        message = f"`source.schema` declares no column `{column}`"
        yield at("FLOE-C414", message, item, path, "correct the name, or declare the column, too", hint)


def _meant(document: Document, column: str) -> str | None:
    """The declared column that was probably meant, as a hint."""
    return did_you_mean(column, [entry.key for entry in document.mapping("source", "schema")])


def _mistyped(document: Document, column: str) -> str | None:
    """The hint for a column that is one letter away from a declared one. Records may bring columns that the file does
    not declare, so no other name is a mistake."""
    declared = [entry.key for entry in document.mapping("source", "schema")]
    prefix = document.text("source", "key", "prefix") or KeySpec.prefix
    if document.entry("source", "key") is not None and column.lower().startswith(prefix.lower()):
        return None
    near = [name for name in declared if is_one_letter_away(column.lower(), name.lower())]
    return f"did you mean `{near[0]}`?" if near else None


def _is_plain_json(document: Document) -> bool:
    """Whether records are JSON without a schema, whose fields have the types that JSON has."""
    place = ("source", "format")
    others = (document.entry(*place, "registry"), document.entry(*place, "envelope"), document.entry(*place, "schema"))
    return (
        document.text(*place, "type") in (None, "json") and not any(others) and not document.entry("transform", "sql")
    )


def column_kind(document: Document, column: str) -> str:
    """The declared type of a column without its numbers; "" when it is not declared."""
    folded = column.lower()
    declared = next((e.key for e in document.mapping("source", "schema") if e.key.lower() == folded), column)
    kind = _declared_type(document, declared) or _plain(_metadata(document).get(column)) or ""
    return re.split(r"[(\[<]", kind)[0].strip()


def _metadata(document: Document) -> dict[str, object]:
    """Kafka's fields that the file asks for, by column, with their types."""
    names = document.texts("source", "metadata_columns")
    return {metadata_column(name): metadata_type(name) for _, name in names if is_metadata(name)}


def _plain(kind: object) -> str | None:
    """A metadata column's type by its first word: `list` for one that is no plain type."""
    return str(kind[0]) if isinstance(kind, list) else str(kind) if kind else None


def is_column(text: str) -> bool:
    return re.fullmatch(COLUMN, text) is not None


def _declared_type(document: Document, name: str) -> str:
    return document.text("source", "schema", name, "type") or document.text("source", "schema", name) or ""


def _all_declared(document: Document) -> bool:
    """Whether `source.schema` must name every column: with `SELECT *` over a declared source."""
    sql = document.text("transform", "sql")
    return (
        sql is not None
        and re.match(r"\s*SELECT\s+\*\s+FROM\b", sql, re.I) is not None
        and bool(document.mapping("source", "schema"))
    )


def table_properties(document: Document) -> Iterator[Diagnostic]:
    """Table properties that floe keeps for itself, and format versions that it cannot write."""
    for policy in table_policies(document):
        for entry in document.mapping(*policy, "create", "properties"):
            path = (*policy, "create", "properties", entry.key)
            if entry.key.startswith("floe."):
                yield at("FLOE-C417", f"`{entry.key}` is set by floe itself", entry, path, "remove it")
            elif isinstance(entry.value, Scalar) and not is_property_allowed(
                entry.key, document.target.allow_properties if document.target else ("*",)
            ):
                never = never_a_property(entry.key)
                message = f"`{entry.key}` is not a table property that pipeline files may set"
                remedy = (
                    "remove it" if never else f"remove it, or add `{entry.key}` to `allow.properties` of the target"
                )
                hint = None if never else did_you_mean(entry.key, PROPERTIES)
                yield at("FLOE-C445", message, entry, path, remedy, hint)
            elif (
                entry.key == "format-version"
                and isinstance(entry.value, Scalar)
                and str(entry.value.value) not in ("1", "2", "3")
                and path not in document.unresolved
            ):
                yield at(
                    "FLOE-C501",
                    f"format version {entry.value.value} is not supported",
                    entry.value,
                    path,
                    'use `format-version: "2"` or `"3"`',
                )
            elif (
                entry.key == "write.format.default"
                and isinstance(entry.value, Scalar)
                and str(entry.value.value).lower() != "parquet"
            ):
                yield at(
                    "FLOE-C501",
                    f"`{entry.value.value}` files are not supported yet",
                    entry.value,
                    path,
                    "use `parquet`, or remove the key",
                )
            elif isinstance(entry.value, Scalar) and path not in document.unresolved:
                wanted = _wanted(entry.key, str(entry.value.value).lower())
                if wanted is not None:
                    message = f"`{entry.value.value}` is not a value of `{entry.key}`"
                    yield at("FLOE-C441", message, entry.value, path, f"use {wanted}")


def nanoseconds_have_a_place(document: Document) -> Iterator[Diagnostic]:
    """A type that counts nanoseconds is declared only where some tables have the format version that knows it."""
    versions = {document.text(*policy, "create", "properties", "format-version") for policy in table_policies(document)}
    numbers = [document.node(*policy, "create", "properties", "format-version") for policy in table_policies(document)]
    versions |= {str(node.value) for node in numbers if isinstance(node, Scalar)}
    places = [(*policy, "create", "properties") for policy in table_policies(document)]
    if "3" in versions or any(
        (*place, "format-version") in document.unresolved or not document.sound(*place) for place in places
    ):
        return
    for entry in document.mapping("source", "schema"):
        for path in (("source", "schema", entry.key, "type"), ("source", "schema", entry.key)):
            text, node = document.text(*path), document.node(*path)
            if text in _NANOSECONDS and node is not None:
                yield at(
                    "FLOE-C444",
                    f"`{text}` needs tables of Iceberg format version 3, and this file has none",
                    node,
                    path,
                    'set `create: {properties: {format-version: "3"}}`, '
                    f"or declare `{text.removesuffix('_ns')}`, which has microseconds",
                )


def _wanted(key: str, value: str) -> str | None:
    """What a property's value must be, in words; None where it is that, or where the property is not one that floe
    reads."""
    if key == "write.parquet.compression-codec" and value not in _CODECS:
        return listed(_CODECS)
    if key == "write.parquet.compression-level" and not re.fullmatch(r"-?[0-9]{1,2}", value):
        return "a whole number"
    if key in _COUNTS and not re.fullmatch(r"[1-9][0-9]{0,17}", value):
        return "a whole number above 0, without a unit"
    if key in _FLAGS and value not in ("true", "false"):
        return "`true` or `false`"
    if key.startswith(_METRICS) and not re.fullmatch(r"none|counts|full|truncate\([1-9][0-9]{0,4}\)", value):
        return "`none`, `counts`, `truncate(16)` or `full`"
    return None


def locations(document: Document) -> Iterator[Diagnostic]:
    """A location of its own for each table: a pattern that several tables share names `{namespace}` and `{table}`."""
    for policy in table_policies(document):
        path = (*policy, "create", "location")
        text, node = document.text(*path), document.node(*path)
        if text is None or node is None:
            continue
        unknown = [name for name in re.findall(r"\{([^{}]*)\}", text) if name not in ("namespace", "table")]
        if unknown:
            message = f"a location has no `{{{unknown[0]}}}`"
            yield at("FLOE-C443", message, node, path, "use `{namespace}` and `{table}`")
            continue
        namespace, _, table = (document.text(*policy, "match") or "*.*").rpartition(".")
        lacking = [
            name
            for name, match in (("{namespace}", namespace), ("{table}", table))
            if name not in text and re.search(r"[*?]", match or "*")
        ]
        if lacking:
            yield at(
                "FLOE-C443",
                f"several tables would share this location: it has no {' and no '.join(f'`{name}`' for name in lacking)}",
                node,
                path,
                "write a pattern such as `s3://lake/{namespace}/{table}`",
            )
            continue
        yield from _place_allowed(document, policy, text, node)


def _place_allowed(document: Document, policy: Path, text: str, node: Node) -> Iterator[Diagnostic]:
    """A location lies below the warehouse of its catalog, or below one that the target names."""
    if document.target is None:
        return
    catalog = document.text(*policy, "catalog") or document.text("tables", "defaults", "catalog") or DEFAULT_CATALOG
    warehouse = document.target.catalogs.get(catalog, {}).get("warehouse")
    known = [*document.target.allow_locations, *([warehouse] if isinstance(warehouse, str) else [])]
    if any("${" in root for root in known) or is_below(text, known):
        return  # what is not known here is checked where the pipeline runs
    roots = [root for root in known if "/" in root]
    message = f"the target does not allow the location `{text}`"
    remedy = f"write one below {listed(roots)}" if roots else "remove it: the catalog then chooses the place"
    yield at(
        "FLOE-C446",
        message,
        node,
        (*policy, "create", "location"),
        f"{remedy}, or add it to `allow.locations` of the target",
    )


def create_is_used(document: Document) -> Iterator[Diagnostic]:
    """All else under `create` says how a table is made, so it needs creation to be on."""
    for policy in table_policies(document):
        enabled = document.node(*policy, "create", "enabled")
        others = [entry for entry in document.mapping(*policy, "create") if entry.key != "enabled"]
        if isinstance(enabled, Scalar) and enabled.value is False and others:
            yield at(
                "FLOE-C418",
                f"`{others[0].key}` has no effect while `create.enabled` is false",
                others[0],
                (*policy, "create", others[0].key),
                "remove it, or enable creation",
            )


RULES: tuple[Rule, ...] = (partition_columns, table_properties, nanoseconds_have_a_place, locations, create_is_used)
