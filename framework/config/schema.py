"""A tree against one of the JSON Schemas in `schemas/`, with findings in plain words.

In: a tree whose references are resolved. Out: the tree with quoted numbers and booleans turned into what the schema asks
for, and a diagnostic per violation. The published schemas also accept references and template expressions, so that an
editor has nothing to say about them; what is checked here is the same schema without those alternatives.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from jsonschema import Draft7Validator, FormatChecker
from jsonschema.exceptions import ValidationError

from framework.config.kinds import EXPLAINERS, show
from framework.config.tree import Mapping, Node, Path, Scalar, Sequence, dotted, find, nearest_span, plain
from framework.diagnose.diagnostic import Diagnostic, Span
from framework.diagnose.suggest import did_you_mean, listed, nearest

_REFERENCE = "|\\$\\{|\\{\\{"
_CORRUPT_NUMBER = {"integer", "number", "boolean"}
_TYPE_WORDS = {
    "object": "a mapping", "array": "a list", "string": "text", "integer": "a whole number", "number": "a number",
    "boolean": "`true` or `false`", "null": "nothing",
}  # fmt: skip
_FORMATS = FormatChecker(formats=())


@_FORMATS.checks("regex", raises=(re.error, OverflowError, RecursionError))
def _is_regex(value: object) -> bool:
    return not isinstance(value, str) or re.compile(value) is not None


@cache
def published(name: str) -> Any:
    """The schema `schemas/<name>.v1.schema.json` as it is published."""
    return json.loads(files("schemas").joinpath(f"{name}.v1.schema.json").read_text(encoding="utf-8"))


@cache
def resolved(name: str) -> Any:
    """The schema for values whose references are resolved."""
    return _without_references(published(name))


@cache
def _validator(name: str) -> Draft7Validator:
    return Draft7Validator(resolved(name), format_checker=_FORMATS)


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
    if result.get("x-floe-kind") in _CORRUPT_NUMBER and isinstance(result.get("type"), list):
        result["type"] = result["x-floe-kind"]
        result.pop("pattern", None)
    return result


def check(tree: Node, name: str, skip: frozenset[Path] = frozenset()) -> tuple[Node, list[Diagnostic]]:
    """The tree with quoted numbers and booleans turned into values, and what the schema says against it.

    Args:
        skip: leaves whose reference could not be resolved; nothing is said about their values.
    """
    schema = resolved(name)
    tree = _coerce(tree, schema)
    findings: list[Diagnostic] = []
    for error in _validator(name).iter_errors(plain(tree)):
        findings.extend(_explain(error, tree, schema, skip))
    return tree, findings


# ---- quoted numbers ------------------------------------------------------------------------------------------------


def _coerce(node: Node, schema: Any) -> Node:
    if not isinstance(schema, dict):
        return node
    if isinstance(node, Mapping):
        properties, others = schema.get("properties", {}), schema.get("additionalProperties")
        entries = tuple(
            entry if (value := _coerce(entry.value, properties.get(entry.key, others))) is entry.value
            else type(entry)(entry.key, entry.key_span, value)
            for entry in node.entries
        )  # fmt: skip
        return node if entries == node.entries else Mapping(entries, node.span)
    if isinstance(node, Sequence):
        items = tuple(_coerce(item, schema.get("items")) for item in node.items)
        return node if items == node.items else Sequence(items, node.span)
    if isinstance(node.value, str) and not node.plain:
        if schema.get("type") == "integer" and re.match(r"[0-9]{1,18}\Z", node.value):
            return Scalar(int(node.value), node.span, plain=False)
        if schema.get("type") == "number" and re.match(r"[0-9]{1,18}(\.[0-9]+)?\Z", node.value):
            return Scalar(float(node.value), node.span, plain=False)
        if schema.get("type") == "boolean" and node.value in ("true", "false"):
            return Scalar(node.value == "true", node.span, plain=False)
    return node


# ---- words -----------------------------------------------------------------------------------------------------------


def _explain(error: ValidationError, tree: Node, root: Any, skip: frozenset[Path]) -> Iterator[Diagnostic]:
    path: Path = tuple(error.absolute_path)
    if path in skip:
        return
    node = find(tree, path) or tree
    schema: Any = error.schema
    keyword = str(error.validator)
    if keyword == "additionalProperties" and isinstance(node, Mapping):
        yield from _unknown_keys(node, path, schema, root)
    elif keyword == "required":
        yield _missing(error, node, path)
    elif keyword == "propertyNames" or (error.parent is None and "propertyNames" in error.schema_path):
        yield from _bad_key(error, tree, path)
    elif isinstance(node, Scalar):
        yield _bad_leaf(node, path, schema, keyword)
    else:
        yield _bad_shape(node, path, schema, keyword)


def _unknown_keys(node: Mapping, path: Path, schema: Any, root: Any) -> Iterator[Diagnostic]:
    known = schema.get("properties", {})
    for entry in node.entries:
        if entry.key in known or re.search("^x-", entry.key):
            continue
        place = f"in `{dotted(path)}`" if path else "at the top of the file"
        hint = did_you_mean(entry.key, [key for key in known if key not in node.keys] or known)
        homes = _homes(root, entry.key) if hint is None else []
        if homes:
            hint = f"`{entry.key}` belongs in {listed(homes[:3])}"
        remedy = (
            f"use {listed(known)}, or begin a key of your own with `x-`"
            if len(known) <= 8
            else "remove it, or begin a key of your own with `x-`"
        )
        yield Diagnostic(
            "FLOE-C201",
            f"unknown key `{entry.key}` {place}",
            entry.key_span,
            path=dotted((*path, entry.key)),
            hint=hint,
            remedy=remedy,
        )


def _homes(schema: Any, key: str, path: str = "") -> list[str]:
    """Where in the schema a key exists, to tell people who indented it wrongly."""
    found: list[str] = []
    if not isinstance(schema, dict):
        return found
    for name, child in schema.get("properties", {}).items():
        if name == key:
            found.append(path or "the top of the file")
        found.extend(_homes(child, key, f"{path}.{name}" if path else name))
    found.extend(_homes(schema.get("items"), key, f"{path}[]"))
    return found


def _missing(error: ValidationError, node: Node, path: Path) -> Diagnostic:
    assert isinstance(error.instance, dict)
    wanted = error.validator_value if isinstance(error.validator_value, list) else []
    key = next((name for name in wanted if f"'{name}' is a required property" == error.message), str(wanted[:1]))
    place = f"`{dotted(path)}`" if path else "the file"
    keys = node.keys if isinstance(node, Mapping) else ()
    similar = nearest(key, keys)
    hint = f"is `{similar}` meant to be `{key}`?" if similar else None
    first = node.entries[0].key_span if isinstance(node, Mapping) and node.entries else node.span
    span = first if not path else _head(node.span)
    return Diagnostic(
        "FLOE-C202", f"{place} has no `{key}`", span, path=dotted((*path, key)), hint=hint, remedy=f"add `{key}:`"
    )


def _bad_key(error: ValidationError, tree: Node, path: Path) -> Iterator[Diagnostic]:
    node = find(tree, path)
    entry = node.entry(str(error.instance)) if isinstance(node, Mapping) else None
    span = entry.key_span if entry else nearest_span(tree, path)
    remedy = "use letters, digits and `_`, beginning with a letter"
    yield Diagnostic(
        "FLOE-C209",
        f"`{error.instance}` cannot be a name here",
        span,
        path=dotted((*path, str(error.instance))),
        remedy=remedy,
    )


def _bad_leaf(node: Scalar, path: Path, schema: Any, keyword: str) -> Diagnostic:
    value, where = node.value, dotted(path)
    allowed = schema.get("enum")
    if value is None and keyword in ("type", "enum", "const"):
        return Diagnostic(
            "FLOE-C203", f"`{where}` has no value", node.span, path=where, remedy=_expected(schema, "give it")
        )
    if keyword == "const":
        hint = f"did you mean `{schema['const']}`?"
        return Diagnostic(
            "FLOE-C204",
            f"`{where}` is {show(value)}",
            node.span,
            path=where,
            hint=hint,
            remedy=f"write `{schema['const']}`",
        )
    if keyword == "enum" and allowed:
        words = [str(word) for word in allowed]
        return Diagnostic(
            "FLOE-C204",
            f"{show(value)} is not one of the values of `{where}`",
            node.span,
            path=where,
            hint=did_you_mean(str(value), words),
            remedy=f"use {listed(words)}",
        )
    if keyword in ("minimum", "maximum"):
        side = "at least" if keyword == "minimum" else "at most"
        return Diagnostic(
            "FLOE-C210",
            f"`{where}` must be {side} {schema[keyword]}, not {show(value)}",
            node.span,
            path=where,
            remedy=f"write a number of {side} {schema[keyword]}",
        )
    kind = schema.get("x-floe-kind")
    if kind in EXPLAINERS and (keyword in ("pattern", "format", "minLength") or _is_plain_kind(schema, value)):
        told = EXPLAINERS[kind](value)
        return Diagnostic(told.code, told.message, node.span, path=where, hint=told.hint, remedy=told.remedy)
    if keyword == "minLength":
        return Diagnostic(
            "FLOE-C203", f"`{where}` is empty", node.span, path=where, remedy="give it a value, or remove the key"
        )
    if keyword == "pattern":
        return Diagnostic(
            "FLOE-C215",
            f"{show(value)} does not have the form of `{where}`",
            node.span,
            path=where,
            remedy=_described(schema),
        )
    types = _types(schema)
    if types == ["string"]:
        return Diagnostic(
            "FLOE-C203",
            f"{show(value)} is read as {_word(value)}, but `{where}` is text",
            node.span,
            path=where,
            remedy="put quotes around it",
        )
    if types == ["array"]:
        return Diagnostic("FLOE-C203", f"`{where}` must be a list", node.span, path=where, remedy=f"write `[{value}]`")
    return Diagnostic(
        "FLOE-C203",
        f"`{where}` must be {_kinds(types)}, not {show(value)}",
        node.span,
        path=where,
        remedy=_expected(schema, "write"),
    )


def _bad_shape(node: Node, path: Path, schema: Any, keyword: str) -> Diagnostic:
    where, span = dotted(path) or "the file", _head(node.span)
    if keyword == "minItems":
        return Diagnostic(
            "FLOE-C213", f"`{where}` is empty", span, path=where, remedy="give at least one item, or remove the key"
        )
    if keyword == "minProperties":
        return Diagnostic(
            "FLOE-C213",
            f"`{where}` is empty",
            span,
            path=where,
            remedy=f"use {listed(schema['properties'])}" if "properties" in schema else "give at least one",
        )
    if keyword == "uniqueItems" and isinstance(node, Sequence):
        seen: list[Any] = []
        for item in node.items:
            if plain(item) in seen:
                return Diagnostic(
                    "FLOE-C218",
                    f"`{where}` holds the same item twice",
                    item.span,
                    path=where,
                    remedy="keep one of them",
                )
            seen.append(plain(item))
    given = "a mapping" if isinstance(node, Mapping) else "a list"
    return Diagnostic(
        "FLOE-C203",
        f"`{where}` must be {_kinds(_types(schema))}, not {given}",
        span,
        path=where,
        remedy=_expected(schema, "write"),
    )


def _is_plain_kind(schema: Any, value: object) -> bool:
    """Whether a wrong type is best explained in the kind's own words: a duration without a unit, `no` for a boolean."""
    return schema["x-floe-kind"] in (*_CORRUPT_NUMBER, "duration", "duration-or-auto", "size") and not isinstance(
        value, (dict, list)
    )


def _types(schema: Any) -> list[str]:
    types = schema.get("type", [])
    return [types] if isinstance(types, str) else list(types)


def _kinds(types: list[str]) -> str:
    words = [_TYPE_WORDS[name] for name in types]
    return " or ".join(words) or "something else"


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "a boolean"
    return "a number" if isinstance(value, (int, float)) else "nothing"


def _expected(schema: Any, verb: str) -> str:
    if "const" in schema:
        return f"{verb} `{schema['const']}`"
    if "enum" in schema:
        return f"{verb} {listed(str(word) for word in schema['enum'])}"
    examples = schema.get("examples") or ([schema["default"]] if "default" in schema else [])
    if examples:
        return f"{verb} {_kinds(_types(schema))}, such as `{json.dumps(examples[0], ensure_ascii=False)}`"
    if _types(schema) == ["object"] and schema.get("properties"):
        return f"{verb} {_kinds(['object'])} with {listed(schema['properties'])}"
    return f"{verb} {_kinds(_types(schema))}"


def _described(schema: Any) -> str:
    return str(schema.get("description", "see the reference")).rstrip(".")


def _head(span: Span) -> Span:
    """The first line of a span, for messages about a whole block."""
    if span.end_line == span.line:
        return span
    return Span(span.file, span.line, span.column, span.line, span.column + 1)
