"""What a message guesses was meant can be written in its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.config.schema.document_schema import _validator, resolved
from framework.config.schema.words import _bad_leaf, _values_of
from framework.config.text import start_of
from framework.config.tree import Scalar
from framework.config.values.value_kinds import EXPLAINERS

SCHEMAS = ("pipeline", "target", "template")
GUESS = re.compile(r"did you mean `(.*)`\?", re.DOTALL)
# Close to what each kind takes, and wrong: too large, too small, in other units, with another word or form.
NUMBERS = st.sampled_from(
    ["0", "1", "5", "007", "90", "101", "1.5", "0.1", "1e3", "-3", "1_000", "9" * 9, "9" * 11, "9" * 400]
)
WORDS = st.sampled_from(
    ["", "ms", "s", " minutes", "min", "d", "kb", " GB", "TiB", "%", " percent", "true", "Yes", "on", "string", "varchar(10)",
     "decimal(40, 2)", "timestamp", "day", "days(", "bucket(", ", id)", "shop.", "orders", "Topic", "offsets", "a b", "x'y", "*"]
)  # fmt: skip
TEXTS = st.lists(NUMBERS | WORDS, min_size=1, max_size=3).map("".join) | st.text(max_size=12)


def leaves(schema: Any) -> Iterator[Any]:
    if isinstance(schema, dict):
        if schema.get("x-floe-kind") in EXPLAINERS:
            yield schema
        for value in schema.values():
            yield from leaves(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from leaves(value)


RULES = {
    (leaf["x-floe-kind"], str(leaf)): _validator(name).evolve(schema=leaf)
    for name in SCHEMAS
    for leaf in leaves(resolved(name))
}


def test_every_kind_of_value_is_tried() -> None:
    """Each kind that has words of its own stands in a schema."""
    assert {kind for kind, _ in RULES} == set(EXPLAINERS)


@given(st.sampled_from(sorted(RULES)), TEXTS | st.integers(-1, 10**30) | st.booleans() | st.floats(allow_nan=False))
def test_a_guess_is_taken(place: tuple[str, str], value: str | float | bool) -> None:
    """A file with the guess in the value's place has no such error any more."""
    rule = RULES[place]
    for error in rule.iter_errors(value):
        hint = _bad_leaf(Scalar(value, start_of("x")), ("x",), rule, str(error.validator)).hint
        guess = GUESS.fullmatch(hint or "")
        if guess is not None:
            assert any(rule.is_valid(each) for each in _values_of(guess[1])), hint


@pytest.mark.parametrize("written", ["99999999999d", "9999999999s", "12345678901 minutes"])
def test_a_duration_without_bounds_is_not_guessed(written: str) -> None:
    """It was once guessed to be itself."""
    rule = next(rule for (kind, _), rule in RULES.items() if kind == "duration")
    assert _bad_leaf(Scalar(written, start_of("x")), ("x",), rule, "pattern").hint is None
