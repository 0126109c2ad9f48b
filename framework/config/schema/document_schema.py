"""Checks a tree against one of the JSON Schemas in `schemas/`, with findings in plain words.

In: a tree whose references are resolved. Out: the tree with quoted numbers and booleans turned into what the schema
asks for, and a diagnostic per violation. The published schemas also accept references and template expressions, so that
editors do not complain about them; this module checks against the same schema without those alternatives.
"""

from __future__ import annotations

import json
import re
from functools import cache
from operator import is_
from pkgutil import get_data
from typing import Any

from jsonschema import Draft7Validator, FormatChecker

from framework.config.names.patterns import unfit
from framework.config.schema.echoes import Violation, without_echoes
from framework.config.schema.words import explain
from framework.config.tree import Mapping, Node, Path, Scalar, Sequence, plain
from framework.diagnose.diagnostic import Diagnostic

_REFERENCE = "|\\$\\{|\\{\\{"
_QUOTED = {"integer", "number", "boolean"}
_QUOTED_VALUE = re.compile(r"[0-9]{1,18}(\.[0-9]+)?\Z|(true|false)\Z")


def _is_regex(value: object) -> bool:
    return not isinstance(value, str) or unfit(value) is None


@cache
def published(name: str) -> Any:
    """The schema `schemas/<name>.v1.schema.json` as it is published."""
    return json.loads(get_data("schemas", f"{name}.v1.schema.json") or b"")


@cache
def resolved(name: str) -> Any:
    """The schema for values whose references are resolved."""
    schema = published(name)
    if name == "template":  # what it says of `pipeline` refuses nothing, and is for editors
        body = {key: value for key, value in schema["properties"]["pipeline"].items() if key != "properties"}
        schema = {**schema, "properties": {**schema["properties"], "pipeline": body}}
    return _without_references(schema)


@cache
def _validator(name: str) -> Draft7Validator:
    formats = FormatChecker(formats=())
    formats.checks("regex")(_is_regex)
    return Draft7Validator(resolved(name), format_checker=formats)


def _without_references(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_references(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: _without_references(value) for key, value in schema.items()}
    if isinstance(result.get("pattern"), str):
        result["pattern"] = result["pattern"].removesuffix(_REFERENCE)
    branches = result.get("anyOf")
    if isinstance(branches, list) and branches[-1:] == [{"$ref": "#/definitions/reference"}]:
        result.pop("anyOf")
        result.update(branches[0])
    if result.get("x-floe-kind") in _QUOTED and isinstance(result.get("type"), list):
        result["type"] = result["x-floe-kind"]
        result.pop("pattern", None)
    return result


def check(
    tree: Node, name: str, skip: frozenset[Path] = frozenset(), below: str | None = None
) -> tuple[Node, list[Diagnostic]]:
    """The tree with quoted numbers and booleans turned into values, and what the schema says against it.

    Args:
        skip: leaves whose reference could not be resolved; nothing is said about their values.
        below: the one key at the top whose value is asked about, where the rest of the file is not there.
    """
    checked, _, found = check_document(tree, name, skip, below)
    return checked, [one.finding for one in found]


def check_document(
    tree: Node, name: str, skip: frozenset[Path] = frozenset(), below: str | None = None
) -> tuple[Node, Any, list[Violation]]:
    """As `check`, with the values of the tree that it gives (`tree.plain`) between the two, and what each finding stands
    for."""
    schema = resolved(name)
    if _may_change(tree):
        tree = _coerce(tree, schema)
    document = plain(tree)
    found: list[Violation] = []
    for error in _validator(name).iter_errors(document):
        if below is not None and (not error.absolute_path or error.absolute_path[0] != below):
            continue
        if tuple(error.absolute_path) not in skip:
            found.extend(explain(error, tree, schema, _validator(name).evolve(schema=error.schema)))
    return tree, document, without_echoes(found)


# ---- quoted numbers ------------------------------------------------------------------------------------------------


def _may_change(node: Node) -> bool:
    """Whether anything in a tree looks like what `_coerce` replaces; in most files nothing does."""
    if isinstance(node, Scalar):
        return _looks_quoted(node)
    for value in [value for _, _, value in node.entries] if isinstance(node, Mapping) else node.items:
        if _looks_quoted(value) if value.__class__ is Scalar else _may_change(value):
            return True
    return False


def _looks_quoted(node: Scalar) -> bool:
    value, _, plain, _ = node
    if plain or value.__class__ is not str:
        return value.__class__ is float and value.is_integer()
    return _QUOTED_VALUE.match(value) is not None


def _coerce(node: Node, schema: Any) -> Node:
    if not isinstance(schema, dict):
        return node
    if isinstance(node, Mapping):
        properties, others = schema.get("properties", {}), schema.get("additionalProperties")
        entries = tuple([
            entry if (value := _coerce(entry.value, properties.get(entry.key, others))) is entry.value
            else type(entry)(entry.key, entry.key_span, value)
            for entry in node.entries
        ])  # fmt: skip
        return node if _same(entries, node.entries) else Mapping(entries, node.span)
    if isinstance(node, Sequence):
        items = tuple(_coerce(item, schema.get("items")) for item in node.items)
        return node if _same(items, node.items) else Sequence(items, node.span)
    kinds = schema["type"] if isinstance(schema.get("type"), list) else [schema.get("type")]
    if "integer" in kinds and "number" not in kinds and isinstance(node.value, float) and node.value.is_integer():
        return Scalar(int(node.value), node.span, node.plain, node.text)  # JSON Schema counts 1e3 as a whole number
    # Only where the published schema takes text, too: an editor and the loader say the same.
    if isinstance(node.value, str) and not node.plain and schema.get("x-floe-kind") in _QUOTED:
        if schema.get("type") == "integer" and re.match(r"[0-9]{1,18}\Z", node.value):
            return Scalar(int(node.value), node.span, plain=False)
        if schema.get("type") == "number" and re.match(r"[0-9]{1,18}(\.[0-9]+)?\Z", node.value):
            return Scalar(float(node.value), node.span, plain=False)
        if schema.get("type") == "boolean" and node.value in ("true", "false"):
            return Scalar(node.value == "true", node.span, plain=False)
    return node


def _same(new: tuple[object, ...], old: tuple[object, ...]) -> bool:
    """Whether nothing was replaced. Not by value: to Python 90.0 equals 90."""
    return all(map(is_, new, old))
