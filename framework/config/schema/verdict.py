"""Says fast whether a document is surely right by a JSON Schema; what is wrong with the others jsonschema says.

In: a schema, once. Out: a function from a document to True (it is valid) or False (it may not be). Invariant: it never
says True of a document that jsonschema refuses. A schema with a keyword that is not listed here is never surely right.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Verdict = Callable[[Any], bool]
# Words of a schema that say nothing about a document by themselves. `then` and `else` are read with `if`.
_SILENT = frozenset(
    {"$schema", "$id", "title", "description", "default", "examples", "definitions", "x-floe-kind", "then", "else"}
)
_OBJECT = frozenset({"properties", "patternProperties", "additionalProperties"})
_READ_ELSEWHERE = _SILENT | _OBJECT
_TYPES: dict[str, Verdict] = {
    "object": lambda value: type(value) is dict,
    "array": lambda value: type(value) is list,
    "string": lambda value: type(value) is str,
    "integer": lambda value: type(value) is int or (type(value) is float and value.is_integer()),
    "number": lambda value: type(value) is int or type(value) is float,
    "boolean": lambda value: type(value) is bool,
    "null": lambda value: value is None,
}


def _never(value: Any) -> bool:
    return False


def _always(value: Any) -> bool:
    return True


def verdict(schema: Any, is_regex: Verdict) -> Verdict:
    """The function for one schema.

    Args:
        is_regex: what the format `regex` asks of a value.
    """
    if isinstance(schema, bool):
        return _always if schema else _never
    checks = [_check(keyword, schema, is_regex) for keyword in schema if keyword not in _READ_ELSEWHERE]
    if not _OBJECT.isdisjoint(schema):
        checks.append(_members(schema, is_regex))
    if len(checks) == 1:
        return checks[0]
    if len(checks) == 2:
        one, other = checks
        return lambda value: one(value) and other(value)

    def every(value: Any) -> bool:
        for check in checks:  # noqa: SIM110  # a generator for each value takes twice as long
            if not check(value):
                return False
        return True

    return every


def _check(keyword: str, schema: Any, is_regex: Verdict) -> Verdict:
    """What one keyword asks of a value. A value of a type that the keyword is not about is always right."""
    asked = schema[keyword]
    if keyword == "type":
        return _of_type(asked)
    if keyword in ("enum", "const"):
        return _one_of(asked if keyword == "enum" else [asked])
    if keyword == "pattern":
        search = _search(asked)
        return lambda value: type(value) is not str or search(value) is not None
    if keyword == "format":
        return is_regex if asked == "regex" else _never
    if keyword in ("minimum", "maximum"):
        sign = 1 if keyword == "minimum" else -1
        return lambda value: type(value) not in (int, float) or sign * value >= sign * asked
    if keyword in ("minLength", "minItems", "minProperties"):
        kind = {"minLength": str, "minItems": list, "minProperties": dict}[keyword]
        return lambda value: type(value) is not kind or len(value) >= asked
    if keyword == "uniqueItems":
        return (lambda value: type(value) is not list or _all_differ(value)) if asked else _always
    if keyword == "required":
        needed = frozenset(asked)
        return lambda value: type(value) is not dict or needed <= value.keys()
    if keyword == "items" and not isinstance(asked, list):
        each = verdict(asked, is_regex)
        return lambda value: type(value) is not list or all(map(each, value))
    if keyword == "propertyNames":
        each = verdict(asked, is_regex)
        return lambda value: type(value) is not dict or all(map(each, value))
    if keyword == "if":
        asks, then, other = (verdict(schema.get(word, True), is_regex) for word in ("if", "then", "else"))
        # Where the condition is not surely right it may hold or not: only what is right either way is surely right.
        return lambda value: then(value) and (asks(value) or other(value))
    return _never


def _search(pattern: str) -> Callable[[str], object]:
    """The search for a pattern, which is compiled when it is first asked: most files need few of them."""
    if pattern[:1] == "^" and pattern[1:].replace("-", "").isalnum():
        beginning = pattern[1:]
        return lambda text: text.startswith(beginning) or None
    compiled: re.Pattern[str] | None = None

    def search(text: str) -> object:
        nonlocal compiled
        if compiled is None:
            compiled = re.compile(pattern)
        return compiled.search(text)

    return search


def _search_for_any(patterns: list[str]) -> Callable[[str], object] | None:
    if len(patterns) < 2:
        return _search(patterns[0]) if patterns else None
    return _search("|".join(f"(?:{pattern})" for pattern in patterns))


def _of_type(asked: Any) -> Verdict:
    if isinstance(asked, str):
        return _TYPES[asked]
    kinds = [_TYPES[kind] for kind in asked]
    return lambda value: any(kind(value) for kind in kinds)


def _one_of(allowed: list[Any]) -> Verdict:
    """Whether a value is among some texts and the like; 1, 1.0 and true are told apart, and lists are never sure."""
    known = frozenset((type(each), each) for each in allowed if isinstance(each, (str, int, bool, type(None))))
    return lambda value: isinstance(value, (str, int, type(None))) and (type(value), value) in known


def _all_differ(values: list[Any]) -> bool:
    """Whether some texts differ from one another; of a list with anything else in it that is not sure."""
    return len(values) < 2 or (all(type(value) is str for value in values) and len(set(values)) == len(values))


def _members(schema: Any, is_regex: Verdict) -> Verdict:
    """What a schema asks of each value of a mapping, by its key."""
    named = {key: verdict(each, is_regex) for key, each in schema.get("properties", {}).items()}
    patterns = {pattern: verdict(each, is_regex) for pattern, each in schema.get("patternProperties", {}).items()}
    searches = [(_search(pattern), each) for pattern, each in patterns.items()]
    has_any = _search_for_any(list(patterns))
    others = verdict(schema.get("additionalProperties", True), is_regex)

    def members(value: Any) -> bool:
        if type(value) is not dict:
            return True
        for key, member in value.items():
            check = named.get(key)
            if has_any is not None and has_any(key):
                if not all(each(member) for search, each in searches if search(key)):
                    return False
                if check is not None and not check(member):
                    return False
            elif not (check or others)(member):
                return False
        return True

    return members
