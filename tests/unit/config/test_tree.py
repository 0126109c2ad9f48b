"""YAML 1.2's core schema, and nothing that surprises."""

from __future__ import annotations

import pytest

from framework.config.text import SourceText
from framework.config.tree import ScalarValue, find, parse, plain


def value_of(text: str) -> object:
    tree, findings = parse(SourceText("a.yaml", f"a: {text}\n"))
    assert tree is not None
    assert findings == []
    return plain(tree)["a"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("2024-01-04", "2024-01-04"),
        ("0x1F", 31),
        ("010", 10),
        ("0o10", 8),
        ("1e3", 1000.0),
        ("-5", -5),
        ("true", True),
        ("True", True),
        ("~", None),
        ("", None),
        ("'5'", "5"),
        ('"true"', "true"),
        ("=", "="),
    ],
)
def test_scalars_follow_the_core_schema(text: str, value: ScalarValue) -> None:
    """Plain scalars are read by YAML 1.2, whatever YAML 1.1 makes of them; quoted ones are text."""
    found = value_of(text)

    assert found == value
    assert type(found) is type(value)


def test_places_count_from_one_and_hold_the_value() -> None:
    """A span begins at the value's first character and ends behind its last."""
    tree, _ = parse(SourceText("a.yaml", "a:\n  b: [x, yellow]\n"))
    assert tree is not None

    node = find(tree, ("a", "b", 1))

    assert node is not None
    assert (node.span.start, node.span.end_line, node.span.end_column) == ("a.yaml:2:10", 2, 16)


def test_places_count_characters_not_bytes() -> None:
    """Text before a value may hold any character."""
    tree, _ = parse(SourceText("a.yaml", 'a: ["äöü€😀", b]\n'))
    assert tree is not None

    node = find(tree, ("a", 1))

    assert node is not None
    assert node.span.column == 14


def test_a_block_ends_on_its_last_line() -> None:
    """A mapping's span does not reach into what follows it."""
    tree, _ = parse(SourceText("a.yaml", "a:\n  b: 1\n  c: 2\nd: 3\n"))
    assert tree is not None

    node = find(tree, ("a",))

    assert node is not None
    assert node.span.end_line == 3
