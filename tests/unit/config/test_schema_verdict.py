"""A document that passes the fast check is right by jsonschema too; one that is right passes it."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from framework.config.schema.document_schema import _is_regex, _validator, _verdict
from framework.config.schema.verdict import verdict
from framework.config.text import SourceText
from framework.config.tree import parse, plain

ROOT = Path(__file__).parents[3]
SCHEMAS = ("pipeline", "target", "template")
ODD: list[Any] = [
    None, True, False, 0, 1, -1, 1.0, 1.5, 1e400, "", "x", "3m", "auto", "true", "1", "floe/v1", [], ["a"], ["a", "a"], [1, 1],
    [True, 1], {}, {"type": "x"}, {"x-a": 1}, [[]], "a.b", "(", "day(a)", 10**30, {"name": 1}, {"a": {"b": {}}},
]  # fmt: skip
KEYS = ["type", "x-mine", "name", "topics+", "a", "commit", "", "when", "tombstone", "include+"]


def _documents() -> Iterator[tuple[str, Any]]:
    """Every YAML file of the examples and of the golden cases that is one mapping, under each of the three schemas."""
    for path in sorted([*ROOT.glob("pipelines/**/*.yaml"), *ROOT.glob("tests/acceptance/cases/**/*.yaml")]):
        tree, findings = parse(SourceText(path.name, path.read_text("utf-8", errors="replace")))
        if tree is not None and not findings:
            for name in SCHEMAS:
                yield name, plain(tree)


DOCUMENTS = list(_documents())


def _places(value: Any) -> Iterator[Any]:
    """Each mapping and list inside of a document."""
    if isinstance(value, (dict, list)):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _places(inner)


def _changed(document: Any, chance: random.Random) -> Any:
    """A copy with one value exchanged, added or taken away."""
    document = copy.deepcopy(document)
    place = chance.choice(list(_places(document)) or [[]])
    value = copy.deepcopy(chance.choice(ODD))
    if isinstance(place, dict):
        key = chance.choice([*place, *KEYS])
        if chance.random() < 0.2:
            place.pop(key, None)
        else:
            place[key] = value
    elif place and chance.random() < 0.7:
        place[chance.randrange(len(place))] = value
    else:
        place.append(value)
    return document


def _agrees(name: str, document: Any) -> bool:
    """Whether both say the same; also False where the fast way takes what jsonschema refuses."""
    fast, slow = _verdict(name, None)(document), next(_validator(name).iter_errors(document), None) is None
    assert slow or not fast, (name, document)
    return fast == slow


def test_the_files_of_this_repository_are_judged_alike() -> None:
    """Each example and each golden case is right by both ways, or by neither."""
    assert len(DOCUMENTS) > 900
    assert all(_agrees(name, document) for name, document in DOCUMENTS)


@settings(max_examples=60, deadline=None)
@given(st.integers())
def test_nothing_passes_that_jsonschema_refuses(seed: int) -> None:
    """A file with values exchanged, added or taken away never passes the fast way if jsonschema refuses it; where the fast
    way is unsure of a right file, jsonschema is asked, which happens for few."""
    chance = random.Random(seed)
    unsure = 0
    for _ in range(20):
        name, document = chance.choice(DOCUMENTS)
        for _ in range(chance.choice((1, 1, 2, 3))):
            document = _changed(document, chance)
        unsure += not _agrees(name, document)

    assert unsure < 10


@pytest.mark.parametrize(
    "schema",
    [
        True, False, {}, {"type": "integer"}, {"type": ["string", "null"]}, {"enum": ["a", 1, None, True]}, {"const": 0},
        {"minimum": 1, "maximum": 2}, {"minLength": 1}, {"minItems": 1, "uniqueItems": True}, {"items": {"type": "string"}},
        {"required": ["a"]}, {"minProperties": 1}, {"propertyNames": {"pattern": "^a"}}, {"format": "regex"},
        {"properties": {"a": {"type": "object"}}, "patternProperties": {"^x-": {}}, "additionalProperties": False},
        {"properties": {"x-a": {"const": 1}}, "patternProperties": {"^x-": {"type": "integer"}, "a$": {"minimum": 1}}},
        {"if": {"type": "string"}, "then": {"minLength": 1}, "else": {"type": "integer"}},
        {"if": {"required": ["a"]}, "else": {"type": "array"}}, {"patternProperties": {"": {"type": "string"}}},
        {"not": {"type": "string"}}, {"anyOf": [{"type": "string"}]}, {"oneOf": [{"type": "string"}]}, {"format": "uri"},
        {"items": [{"type": "string"}]}, {"contains": {}}, {"exclusiveMinimum": 0}, {"multipleOf": 2}, {"maxLength": 0},
        {"dependencies": {"a": ["b"]}}, {"$ref": "#/definitions/a", "definitions": {"a": {"type": "null"}}},
    ],
    ids=str,
)  # fmt: skip
def test_each_keyword_is_judged_as_jsonschema_judges(schema: Any) -> None:
    """For each keyword, also one that the fast way does not know, nothing passes that jsonschema refuses."""
    fast, slow = (
        verdict(schema, _is_regex),
        Draft7Validator(schema, format_checker=_validator("pipeline").format_checker),
    )
    passed = [value for value in [*ODD, {"a": 1}, {"a": {}}, {"x-a": 2}, {"b": 1}] if fast(value)]

    assert all(slow.is_valid(value) for value in passed)
