"""The reference pages of the files, made from their JSON Schemas, so that they cannot differ from them.

In: a published schema. Out: Markdown with every key, its type, its default and its meaning.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from framework.config.schema.document_schema import published, resolved

_TYPES = {"object": "mapping", "array": "list", "string": "text", "integer": "whole number", "boolean": "true or false"}
_KINDS = {
    "duration": "duration (`90s`, `3m`)",
    "percent": "percentage (`99.9%`)",
    "duration-or-auto": "`auto` or a duration",
    "size": "size (`512MiB`)",
    "regex": "regular expression",
    "partition": "partition field",
    "sort": "sort field",
    "iceberg-type": "Iceberg type",
    "table": "table",
    "table-template": "table",
    "glob": "pattern",
    "name": "name",
    "topic": "topic",
    "column": "field",
}
_INTRODUCTIONS = {
    "pipeline": "A pipeline file says which Kafka topics are read, how, and which Iceberg tables they fill.",
    "target": "A target file says what pipelines run against: Kafka clusters, the catalog, Spark, and what differs there.",
    "template": "A template file makes the part of pipeline files that many have in common.",
}
_RULES = """\
Values are read by YAML 1.2: `no`, `on` and `1:30` are text. Duplicate and unknown keys are errors; keys that begin with
`x-` are free. Durations are a whole number and `ms`, `s`, `m`, `h` or `d`; sizes a number of bytes or a whole number and
`KiB`, `MiB`, `GiB`, `kB`, `MB`, `GB`. In values, `${var.NAME}` is a variable, `${env:NAME}` an environment variable,
`${local:NAME}` a value of the embedded stack, and `$${` a literal `${`; `${secret:env:NAME}` and `${secret:file:/path}`
are for a target's connections only."""


def page(name: str) -> str:
    """The page of `pipeline`, `target` or `template` files."""
    parts = [
        f"# The {name} file",
        "",
        f"<!-- Made from schemas/{name}.v1.schema.json by `floe schema {name} --format markdown`; change that file. -->",
        "",
        _INTRODUCTIONS[name],
        "",
        _RULES,
        *_section(resolved(name), "", published(name).get("required", [])),
    ]
    return "\n".join(parts) + "\n"


def _section(schema: Any, path: str, required: list[str]) -> Iterator[str]:
    yield ""
    if path:
        yield f"## `{path}`"
        yield ""
        yield schema["description"]
        yield ""
    yield "| key | value | default | meaning |"
    yield "|---|---|---|---|"
    deeper = []
    for key, child in schema["properties"].items():
        yield _row(key, child, key in required)
        nested, suffix = _nested(child)
        if nested is not None:
            deeper.append((nested, f"{path}.{key}{suffix}" if path else f"{key}{suffix}"))
    for nested, nested_path in deeper:
        yield from _section(nested, nested_path, nested.get("required", []))


def _nested(schema: Any) -> tuple[Any | None, str]:
    """The mapping inside a value that deserves a section of its own, and how its path goes on."""
    if "properties" in schema:
        return schema, ""
    items, others = schema.get("items"), schema.get("additionalProperties")
    if isinstance(items, dict) and "properties" in items:
        return items, "[]"
    if isinstance(others, dict) and "properties" in others:
        return others, ".NAME"
    if isinstance(others, dict) and isinstance(others.get("additionalProperties"), dict):
        return None, ""
    return None, ""


def _row(key: str, schema: Any, required: bool) -> str:
    default = f"`{_default_text(schema['default'])}`" if "default" in schema else ("required" if required else "")
    return f"| `{key}` | {_value(schema)} | {default} | {_cell(schema.get('description', ''))} |"


def _value(schema: Any) -> str:
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"] if word is not None)
    if schema.get("x-floe-kind") in _KINDS and schema.get("type") != ["object", "string"]:
        return _KINDS[schema["x-floe-kind"]]
    types = schema.get("type", [])
    words = [_TYPES.get(kind, kind) for kind in ([types] if isinstance(types, str) else types)]
    items = schema.get("items")
    if (
        types == "array"
        and isinstance(items, dict)
        and "properties" not in items
        and ("enum" in items or "type" in items)
    ):
        return f"list of {_value(items)}"
    return " or ".join(words) or "anything"


def _default_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
