"""Rules about tables: what is created, how it is partitioned, which override applies, and what is not supported yet."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from framework.config.metadata import NAMES, PREFIX, is_metadata, metadata_column, metadata_type
from framework.config.rules import Document, Rule, at
from framework.config.tree import Mapping, Path, Scalar
from framework.config.units import partition_field, partition_text
from framework.diagnose.diagnostic import Diagnostic
from framework.diagnose.suggest import did_you_mean, listed

_DATES, _TIMES = ("date", "timestamp", "timestamptz"), ("timestamp", "timestamptz")
_SOURCES = {"year": _DATES, "month": _DATES, "day": _DATES, "hour": _TIMES}
_TRUNCATED = ("int", "long", "string", "binary", "decimal")
_NOT_BUCKETED = ("boolean", "float", "double")
_METADATA_TYPES = {metadata_column(name): str(metadata_type(name)) for name in NAMES}


def _policies(document: Document) -> Iterator[Path]:
    yield ("tables", "defaults")
    for path, _ in document.items("tables", "overrides"):
        yield path


def supported_evolution(document: Document) -> Iterator[Diagnostic]:
    """What a table may not do yet is refused by its name."""
    supported = {
        "tables": ("evolve",),
        "columns": ("evolve", "ignore", "freeze"),
        "data_type": ("widen",),
        "nullability": ("relax",),
    }
    for policy in _policies(document):
        for key, words in supported.items():
            value, node = document.text(*policy, "evolve", key), document.node(*policy, "evolve", key)
            if value is not None and node is not None and value not in words:
                yield at(
                    "FLOE-C501",
                    f"`{key}: {value}` is not supported yet",
                    node,
                    (*policy, "evolve", key),
                    f"use {listed(words)}",
                )


def partition_columns(document: Document) -> Iterator[Diagnostic]:
    """A partition transform fits its column's declared type, and a field is not partitioned the same way twice."""
    declared = {entry.key: _declared_type(document, entry.key) for entry in document.mapping("source", "schema")}
    metadata = [str(item.value) for _, item in document.items("source", "metadata_columns") if isinstance(item, Scalar)]
    present = {metadata_column(name): metadata_type(name) for name in metadata if is_metadata(name)}
    for policy in _policies(document):
        seen: set[str] = set()
        for path, item in document.items(*policy, "create", "partition_by"):
            text = document.text(*path)
            field = partition_field(text) if text is not None else None
            if field is None:
                continue
            if partition_text(field) in seen:
                yield at("FLOE-C218", f"`{partition_text(field)}` is given twice", item, path, "keep one of them")
            seen.add(partition_text(field))
            if field.column.startswith(PREFIX) and field.column not in present:
                name = field.column.removeprefix(PREFIX)
                known = [column.removeprefix(PREFIX) for column in _METADATA_TYPES]
                remedy = (
                    f"add `{name}` to `source.metadata_columns`"
                    if name in known
                    else f"Kafka's columns are {listed(_METADATA_TYPES)}"
                )
                yield at(
                    "FLOE-C414",
                    f"there is no column `{field.column}`",
                    item,
                    path,
                    remedy,
                    None if name in known else did_you_mean(field.column, _METADATA_TYPES),
                )
                continue
            kind = (declared.get(field.column) or _plain(present.get(field.column)) or "").split("(")[0].split("[")[0]
            near = did_you_mean(field.column, declared) if not kind and _all_declared(document) else None
            if not kind and _all_declared(document):
                yield at(
                    "FLOE-C414",
                    f"`transform.sql` and `source.schema` give no column `{field.column}`",
                    item,
                    path,
                    "declare it under `source.schema`",
                    near,
                )
            fits = _SOURCES.get(field.transform)
            if kind and fits and kind not in fits:
                yield at(
                    "FLOE-C415",
                    f"`{field.transform}` needs {listed(fits)}, but `{field.column}` is `{kind}`",
                    item,
                    path,
                    "declare another type, or choose another transform",
                )
            elif kind and (
                (field.transform == "truncate" and kind not in _TRUNCATED)
                or (field.transform == "bucket" and kind in _NOT_BUCKETED)
            ):
                yield at(
                    "FLOE-C415",
                    f"Iceberg cannot apply `{field.transform}` to `{kind}`",
                    item,
                    path,
                    "choose another transform",
                )


def _plain(kind: object) -> str | None:
    """A metadata column's type by its first word: `list` for one that is no plain type."""
    return str(kind[0]) if isinstance(kind, list) else str(kind) if kind else None


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


def overrides_apply(document: Document) -> Iterator[Diagnostic]:
    """Of two overrides with the same `match`, or behind one that matches more, the later is never used."""
    seen: list[tuple[str, int]] = []
    for path, item in document.items("tables", "overrides"):
        glob = document.text(*path, "match")
        if glob is None:
            continue
        covering = next(
            (
                (earlier, line)
                for earlier, line in seen
                if earlier == glob or ("?" not in glob and fnmatchcase(glob, earlier))
            ),
            None,
        )
        if covering:
            yield at(
                "FLOE-C411",
                f"this override is never used: `{covering[0]}` on line {covering[1]} matches first",
                item,
                path,
                "put the narrower pattern first, or join the two",
            )
        seen.append((glob, item.span.line))


def overrides_are_meant(document: Document) -> Iterator[Diagnostic]:
    """An override matches at least one table of the routes, where all their names are literal."""
    tables = [document.text(*path, "table") for path, _ in document.items("routes", "rules")]
    names = [table for table in tables if table and "{" not in table]
    if not tables or len(names) != len(tables):
        return
    for path, _ in document.items("tables", "overrides"):
        glob, node = document.text(*path, "match"), document.node(*path, "match")
        if glob and node is not None and not any(fnmatchcase(name, glob) for name in names):
            yield at(
                "FLOE-C413",
                f"no route leads to a table that `{glob}` matches",
                node,
                path,
                f"the tables are {listed(names[:6])}",
                did_you_mean(glob, names),
            )


def table_properties(document: Document) -> Iterator[Diagnostic]:
    """Table properties that floe keeps for itself, and format versions that it cannot write."""
    for policy in _policies(document):
        for entry in document.mapping(*policy, "create", "properties"):
            path = (*policy, "create", "properties", entry.key)
            if entry.key.startswith("floe."):
                yield at("FLOE-C417", f"`{entry.key}` is kept by floe itself", entry, path, "remove it")
            elif (
                entry.key == "format-version"
                and isinstance(entry.value, Scalar)
                and str(entry.value.value) not in ("1", "2")
                and path not in document.unresolved
            ):
                yield at(
                    "FLOE-C501",
                    f"format version {entry.value.value} is not supported yet",
                    entry.value,
                    path,
                    'use `format-version: "2"`',
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


def create_is_used(document: Document) -> Iterator[Diagnostic]:
    """`partition_by` and `properties` say how a table is made, so they need creation to be on."""
    for policy in _policies(document):
        enabled = document.node(*policy, "create", "enabled")
        other = document.entry(*policy, "create", "partition_by") or document.entry(*policy, "create", "properties")
        if isinstance(enabled, Scalar) and enabled.value is False and other:
            yield at(
                "FLOE-C418",
                f"`{other.key}` has no effect while `create.enabled` is false",
                other,
                (*policy, "create", other.key),
                "remove it, or enable creation",
            )


def tests_are_named_once(document: Document) -> Iterator[Diagnostic]:
    """Two tests of a file have two names."""
    seen: dict[str, int] = {}
    for path, item in document.items("tests"):
        name, node = document.text(*path, "name"), document.node(*path, "name")
        if name is not None and node is not None and isinstance(item, Mapping):
            if name in seen:
                yield at(
                    "FLOE-C422",
                    f"the test on line {seen[name]} has the same name",
                    node,
                    (*path, "name"),
                    "give each test its own name",
                )
            seen.setdefault(name, node.span.line)


RULES: tuple[Rule, ...] = (
    supported_evolution,
    partition_columns,
    overrides_apply,
    overrides_are_meant,
    table_properties,
    create_is_used,
    tests_are_named_once,
)
