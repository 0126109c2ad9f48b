"""What a JSON Schema says of columns: the types of its fields, which of them are required, and their descriptions.

In: a schema with those it refers to, as a registry holds it. Out: observed types by field, without those that it leaves
open or that mean more than one type: they are inferred from values, as without a schema. No record is refused here,
and a schema of any form costs a bounded time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from framework.record.model import ColumnDetail, ObservedType

_PLAIN = {"boolean": "boolean", "integer": "long", "number": "double", "string": "string"}
_TEXT = {"date-time": "timestamptz", "date": "date"}
References = tuple[tuple[str, str], ...]  # names and texts
_LARGEST_LONG = (1 << 63) - 1
# Schemas may refer to their own parts many times over: a few of them can stand for more fields than there are atoms.
_MOST_TYPES = 20_000
_MOST_LEVELS = 50


@dataclass(frozen=True, eq=False)
class DeclaredFields:
    """The fields that a schema gives a type, and the details of all whose path leads through such fields."""

    kinds: Mapping[str, ObservedType] = field(default_factory=dict)
    details: Mapping[str, ColumnDetail] = field(default_factory=dict)


NOTHING_DECLARED = DeclaredFields()


@lru_cache(maxsize=256)
def declared_fields(schema: str, references: References = ()) -> DeclaredFields:
    """The fields of records of this schema."""
    try:
        reading = _Reading(schema, references)
        root = reading.resolved(_Place(reading.root, ""))
        if root is None or root.node.get("type", "object") != "object":
            return NOTHING_DECLARED
        kind = reading.struct(root, (), "")
    except (ValueError, RecursionError, _Beyond):
        return NOTHING_DECLARED
    return DeclaredFields(fields_of(kind), reading.details)


@lru_cache(maxsize=256)
def declared_value(schema: str, references: References = ()) -> ObservedType | None:
    """The type of values of this schema that need not be objects."""
    try:
        reading = _Reading(schema, references)
        return reading.kind(_Place(reading.root, ""), (), "")
    except (ValueError, RecursionError, _Beyond):
        return None


def beside_key(
    value: DeclaredFields, key: DeclaredFields, of_key: ObservedType | None, prefix: str, column: str
) -> DeclaredFields:
    """The fields of a value and of its key under their prefix, or in one column; a key may be null, so none is
    required."""
    kinds = {prefix + name: kind for name, kind in key.kinds.items()}
    details = {prefix + path: ColumnDetail(detail.comment) for path, detail in key.details.items()}
    if not kinds and of_key is not None:
        kinds[column] = of_key
    return DeclaredFields({**kinds, **value.kinds}, {**details, **value.details})


def fields_of(kind: ObservedType | None) -> dict[str, ObservedType]:
    """The fields of a struct; none of anything else."""
    return {str(name): of_field for name, of_field in kind[1]} if isinstance(kind, list) and kind[0] == "struct" else {}


class _Beyond(Exception):
    """The schema says more than any table has columns for."""


@dataclass(frozen=True)
class _Place:
    """A part of a schema, and the name of the text that it stands in; the schema's own is the empty one."""

    node: Any
    text: str


class _Reading:
    def __init__(self, schema: str, references: References) -> None:
        self.details: dict[str, ColumnDetail] = {}
        self.root = json.loads(schema)
        self._texts = {"": self.root} | {name: json.loads(text) for name, text in references}
        ids = {each.get("$id"): name for name, each in self._texts.items() if isinstance(each, dict)}
        self._names = {name: name for name in self._texts} | {at: name for at, name in ids.items() if at}
        self._left = _MOST_TYPES

    def resolved(self, place: _Place) -> _Place | None:
        """The object that a place is or refers to; None for what says nothing."""
        for _ in range(_MOST_LEVELS):
            if not isinstance(place.node, dict):
                return None
            to = place.node.get("$ref")
            if to is None:
                return place
            found = self._referred(to, place.text) if isinstance(to, str) else None
            if found is None:
                return None
            place = found
        return None

    def _referred(self, to: str, text: str) -> _Place | None:
        name, _, pointer = to.partition("#")
        at = text if not name else self._names.get(name)
        if at is None or (pointer and not pointer.startswith("/")):
            return None
        node = self._texts[at]
        for step in pointer.split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(node, dict) or step not in node:
                return None
            node = node[step]
        return _Place(node, at)

    def kind(self, place: _Place, inside: tuple[int, ...], path: str) -> ObservedType | None:
        """The type of a part; `inside` are the parts around it, `path` is the dotted path of the field."""
        self._left -= 1
        if self._left < 0 or len(inside) > _MOST_LEVELS:
            raise _Beyond
        found = self.resolved(place)
        if found is None or id(found.node) in inside:
            return None  # one that holds itself has no end
        node, inside = found.node, (*inside, id(found.node))
        choices = [node[word] for word in ("anyOf", "oneOf", "allOf") if word in node]
        if choices and "type" not in node:
            branch = _only_branch(choices[0]) if len(choices) == 1 and "properties" not in node else None
            return None if branch is None else self.kind(_Place(branch, found.text), inside, path)
        named = _type_of(node)
        if named == "object":
            return self._object(found, inside, path)
        if named == "array":
            items = node.get("items")
            element = self.kind(_Place(items, found.text), inside, path) if isinstance(items, dict) else None
            return None if element is None or "prefixItems" in node else ["list", element]
        if named == "string":
            return _TEXT.get(str(node.get("format")), "string")
        if named == "integer" and any(_is_beyond_long(node.get(word)) for word in _BOUNDS):
            return None
        return _PLAIN.get(named)

    def _object(self, place: _Place, inside: tuple[int, ...], path: str) -> ObservedType | None:
        node = place.node
        if node.get("properties"):
            return self.struct(place, inside, path)
        others = node.get("additionalProperties")
        if not isinstance(others, dict) or "patternProperties" in node:
            return None
        value = self.kind(_Place(others, place.text), inside, f"{path}.value")
        return None if value is None else ["map", "string", value]

    def struct(self, place: _Place, inside: tuple[int, ...], path: str) -> ObservedType | None:
        """The fields of an object that have a type."""
        node = place.node
        properties, required = node.get("properties"), node.get("required")
        needed = frozenset(map(str, required)) if isinstance(required, list) else frozenset[str]()
        fields = []
        for name, part in properties.items() if isinstance(properties, dict) else ():
            here = f"{path}.{name}" if path else name
            kind = self.kind(_Place(part, place.text), inside or (id(node),), here)
            if kind is None:
                continue
            fields.append([name, kind])
            words = part.get("description") if isinstance(part, dict) else None
            is_needed = name in needed and not path and not self._may_be_null(_Place(part, place.text))
            self.details[here] = ColumnDetail(words if isinstance(words, str) else None, required=is_needed)
        return ["struct", fields] if fields else None

    def _may_be_null(self, place: _Place) -> bool:
        found = self.resolved(place)
        if found is None:
            return True
        named = found.node.get("type")
        branches = [each for word in ("anyOf", "oneOf", "allOf") for each in _listed(found.node.get(word))]
        return "null" in _listed(named) or any(_is_null(each) for each in branches)


_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_null(branch: Any) -> bool:
    return isinstance(branch, dict) and branch.get("type") == "null"


def _only_branch(branches: Any) -> Any:
    """The branch beside null; None where there are several, which may differ."""
    others = [each for each in _listed(branches) if not _is_null(each)]
    return others[0] if len(others) == 1 else None


def _type_of(node: Mapping[str, Any]) -> str:
    """The one type beside null; nothing where there are several, but for numbers, whose wider one holds both."""
    named = node.get("type")
    others = {str(each) for each in _listed(named) if each != "null"} if isinstance(named, list) else {str(named)}
    if others == {"integer", "number"}:
        return "number"
    return others.pop() if len(others) == 1 else ""


def _is_beyond_long(bound: Any) -> bool:
    return isinstance(bound, (int, float)) and not isinstance(bound, bool) and abs(bound) > _LARGEST_LONG
