"""Avro schemas as trees of nodes, with names resolved and the logical types beside the physical ones.

In: a schema's JSON and the schemas it refers to. Out: a `Node`; the same schema without logical types, for a reader
that gives back the numbers and bytes as they were written; and a fault for what is no Avro schema. A named type that
holds itself is one node with a cycle through `items`, `branches` or `fields`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


class AvroFault(ValueError):
    """Why a text is no Avro schema."""


@dataclass
class Field:
    name: str
    node: Node
    doc: str | None
    raw: dict[str, Any]

    @cached_property
    def has_default(self) -> bool:
        """Whether it has a default that fits its type; looked at once, since defaults may be left to those inside."""
        return "default" in self.raw and _fits(self.node, self.raw["default"])


@dataclass(eq=False)
class Node:
    """One type. `raw` are the attributes as written; `name` is the full name of a named type."""

    kind: str
    raw: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    logical: str = ""
    fields: list[Field] = field(default_factory=list)
    items: Node | None = None
    branches: list[Node] = field(default_factory=list)

    def inner(self) -> list[Node]:
        """The types of its fields, its branches and its elements."""
        return [each.node for each in self.fields] + self.branches + ([self.items] if self.items else [])

    @property
    def connect_name(self) -> str:
        """The name that Kafka Connect gives a type of its own, such as `io.debezium.time.Timestamp`."""
        return str(self.raw.get("connect.name", ""))

    @property
    def parameters(self) -> dict[str, str]:
        found = self.raw.get("connect.parameters")
        return found if isinstance(found, dict) else {}


@lru_cache(maxsize=1024)
def parse_avro(text: str, references: tuple[tuple[str, str], ...] = ()) -> Node:
    """The tree of a schema.

    Raises:
        AvroFault: the text, or one of the references, is no Avro schema.
    """
    known: dict[str, Node] = {}
    for _, reference in references:
        _SchemaParser(known).read(_json(reference), "")
    return _SchemaParser(known).read(_json(text), "")


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        stripped = text.strip()
        if stripped in PRIMITIVES:
            return stripped
        raise AvroFault("it is not JSON") from None


class _SchemaParser:
    def __init__(self, known: dict[str, Node]) -> None:
        self.known = known

    def read(self, schema: Any, namespace: str) -> Node:
        if isinstance(schema, str):
            return self._named(schema, namespace)
        if isinstance(schema, list):
            return Node("union", branches=[self.read(branch, namespace) for branch in schema])
        if not isinstance(schema, dict) or "type" not in schema:
            raise AvroFault(f"{json.dumps(schema)[:60]} is no type")
        kind = schema["type"]
        if isinstance(kind, (dict, list)):
            return self.read(kind, namespace)
        logical = str(schema.get("logicalType", ""))
        if kind in PRIMITIVES:
            return Node(kind, schema, logical=logical)
        if kind == "array":
            return Node("array", schema, items=self.read(schema.get("items"), namespace))
        if kind == "map":
            return Node("map", schema, items=self.read(schema.get("values"), namespace))
        if kind in ("record", "error", "enum", "fixed"):
            return self._definition(schema, namespace, logical)
        return self._named(str(kind), namespace)

    def _named(self, name: str, namespace: str) -> Node:
        if name in PRIMITIVES:
            return Node(name)
        for full in (name,) if "." in name or not namespace else (f"{namespace}.{name}", name):
            if full in self.known:
                return self.known[full]
        raise AvroFault(f"the type {name!r} is not defined")

    def _definition(self, schema: dict[str, Any], namespace: str, logical: str) -> Node:
        name = schema.get("name")
        if not isinstance(name, str) or not name:
            raise AvroFault(f"a {schema['type']} has no name")
        space = str(schema.get("namespace", namespace) or "")
        full = name if "." in name or not space else f"{space}.{name}"
        kind = "record" if schema["type"] == "error" else schema["type"]
        node = self.known[full] = Node(kind, schema, full, logical)
        inner = full.rpartition(".")[0]
        if kind == "record":
            for item in schema.get("fields") or []:
                if not isinstance(item, dict) or not isinstance(item.get("name"), str) or "type" not in item:
                    raise AvroFault(f"a field of {full} has no name or no type")
                child = self.read(item["type"], inner)
                doc = item.get("doc")
                node.fields.append(Field(item["name"], child, doc if isinstance(doc, str) else None, item))
        elif kind == "fixed" and not isinstance(schema.get("size"), int):
            raise AvroFault(f"the fixed {full} has no size")
        elif kind == "enum" and not isinstance(schema.get("symbols"), list):
            raise AvroFault(f"the enum {full} has no symbols")
        return node


def physical(node: Node) -> Any:
    """The schema without logical types and comments, every named type defined where it is first met. A default that does
    not fit its type is left out: registries keep such schemas, a writer's defaults mean nothing, and a reader for whom one
    matters says that the field is missing."""
    return _physical(node, set())


def _physical(node: Node, seen: set[str]) -> Any:
    if node.kind == "union":
        return [_physical(branch, seen) for branch in node.branches]
    if node.kind in PRIMITIVES:
        return node.kind
    if node.kind in ("array", "map"):
        assert node.items is not None
        return {"type": node.kind, "items" if node.kind == "array" else "values": _physical(node.items, seen)}
    if node.name in seen:
        return node.name
    seen.add(node.name)
    schema: dict[str, Any] = {"type": node.kind, "name": node.name}
    if "." not in node.name:
        schema["namespace"] = ""
    schema |= {key: node.raw[key] for key in ("size", "symbols") if key in node.raw}
    if isinstance(node.raw.get("aliases"), list):
        schema["aliases"] = node.raw["aliases"]
    if node.kind == "enum" and node.raw.get("default") in node.raw["symbols"]:
        schema["default"] = node.raw["default"]
    if node.kind == "record":
        schema["fields"] = [
            {"name": item.name, "type": _physical(item.node, seen)}
            | ({"aliases": item.raw["aliases"]} if isinstance(item.raw.get("aliases"), list) else {})
            | ({"default": item.raw["default"]} if item.has_default else {})
            for item in node.fields
        ]
    return schema


_DEFAULTS: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "int": lambda value: type(value) is int and -(2**31) <= value < 2**31,
    "long": lambda value: type(value) is int and -(2**63) <= value < 2**63,
    "float": lambda value: type(value) in (int, float),
    "double": lambda value: type(value) in (int, float),
    "string": lambda value: isinstance(value, str),
    "bytes": lambda value: isinstance(value, str) and all(ord(each) < 256 for each in value),
}


def _fits(node: Node, default: Any) -> bool:
    """Whether a value of JSON is one of the type, as Avro writes defaults."""
    if node.kind in _DEFAULTS:
        return _DEFAULTS[node.kind](default)
    if node.kind == "union":
        return any(_fits(branch, default) for branch in node.branches)
    if node.kind == "enum":
        return default in node.raw["symbols"]
    if node.kind == "fixed":
        return _DEFAULTS["bytes"](default) and len(default) == node.raw["size"]
    if node.kind == "array" and node.items is not None:
        return isinstance(default, list) and all(_fits(node.items, each) for each in default)
    if not isinstance(default, dict):
        return False
    if node.kind == "map" and node.items is not None:
        return all(_fits(node.items, each) for each in default.values())
    return all(
        _fits(item.node, default[item.name]) if item.name in default else item.has_default for item in node.fields
    )


def without_null(node: Node) -> tuple[Node, bool]:
    """A union with null as its other part, and whether null is allowed."""
    if node.kind != "union":
        return node, node.kind == "null"
    others = [branch for branch in node.branches if branch.kind != "null"]
    nullable = len(others) < len(node.branches)
    if len(others) == 1:
        return others[0], nullable
    return (Node("union", branches=others) if others else Node("null")), nullable


def short(name: str) -> str:
    return name.rpartition(".")[2]


def names_of(nodes: Iterable[Node]) -> list[str]:
    """A field name for each branch of a union: the type's, or the full name's last part."""
    names = [short(node.name) if node.name else node.kind for node in nodes]
    return names if len(set(names)) == len(names) else [f"{name}_{i}" for i, name in enumerate(names)]
