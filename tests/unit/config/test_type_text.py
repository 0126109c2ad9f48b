"""Texts of declared types: what is taken is written back the same, and what is not is refused with its reason."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.config.values.type_text import MOST_LEVELS, fields_inside, innermost, structure, text_of

PRIMITIVES = st.sampled_from(
    ["boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz", "timestamp_ns", "string",
     "timestamptz_ns", "uuid", "binary", "decimal(10, 2)", "decimal(38, 38)", "fixed[16]"]
)  # fmt: skip
FIELD_NAMES = st.text(
    st.characters(exclude_characters="`.", exclude_categories=("Cs",)), min_size=1, max_size=8
).filter(lambda name: name.strip() != "")
TYPES = st.recursive(
    PRIMITIVES,
    lambda inner: (
        st.builds(lambda element: ["list", element], inner)
        | st.builds(lambda key, value: ["map", key, value], PRIMITIVES, inner)
        | st.builds(
            lambda fields: ["struct", [[name, kind] for name, kind in fields]],
            st.lists(st.tuples(FIELD_NAMES, inner), min_size=1, max_size=3, unique_by=lambda field: field[0].lower()),
        )
    ),
    max_leaves=8,
)


@given(TYPES)
def test_a_type_is_read_as_it_is_written(kind: object) -> None:
    """Any structure of types has a text, and the text says that structure."""
    assert structure(text_of(kind)) == kind  # type: ignore[arg-type]


@given(st.text("listmapruc<>,: `x[]()0123decimal", max_size=40))
def test_any_text_is_a_type_or_is_refused(text: str) -> None:
    """No text raises anything but ValueError, and one that is taken is written back as itself."""
    try:
        kind = structure(text)
    except ValueError:
        return
    assert structure(text_of(kind)) == kind


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("list", "`list` must say what it holds"),
        ("list<>", "there is no type before `>`"),
        ("list<string", "`list<` has no closing `>`"),
        ("list<string>>", "`>` comes after the end"),
        ("list<varchar>", "`varchar` is not an Iceberg type"),
        ("list<decimal(3, 9)>", "is not a valid Iceberg decimal"),
        ("map<string>", "a `map` has a key and a value"),
        ("map<list<int>, int>", "the key of a `map` is a primitive"),
        ("struct<>", "no field's name"),
        ("struct<a>", "the field `a` has no type"),
        ("struct<a: int, A: int>", "in a struct twice"),
        ("struct<a.b: int>", "must not be empty or contain `.`"),
        ("struct<``: int>", "cannot name a field of a struct"),
        ("list<" * (MOST_LEVELS + 1) + "int" + ">" * (MOST_LEVELS + 1), "levels deep"),
        ("list<" * 100_000, "levels deep"),
        (f"struct<{', '.join(f'f{i}: int' for i in range(1001))}>", "at most 1,000 fields"),
        ("list<`int`>", "is not an Iceberg type"),
        ("", "there is no type at the end"),
        ("fixed[0]", "is not an Iceberg type"),
    ],
)
def test_what_is_no_type_is_refused_with_its_reason(text: str, reason: str) -> None:
    """The message names the part of the text that is wrong."""
    with pytest.raises(ValueError, match=re.escape(reason)):
        structure(text)


def test_paths_inside() -> None:
    """Lists and maps add nothing to a path."""
    text = "list<struct<a: long, m: map<string, struct<`b c`: list<double>>>>>"
    assert innermost(text) == "struct"
    assert innermost("list<map<string, double>>") == "double"
    assert fields_inside("x", text) == [
        ("x.a", "long"),
        ("x.m", "map<string, struct<`b c`: list<double>>>"),
        ("x.m.b c", "list<double>"),
    ]
