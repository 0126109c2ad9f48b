"""What may be given to an engine that backtracks: nothing for which it tries ways without end."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.config.names.backtracking import backtracks, like_backtracks
from tests.unit.config.test_patterns import DEADLY

PARTS = st.recursive(
    st.sampled_from(["a", "b", "[ab]", ".", "ab", r"\w", "[^b]"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,9}", "{3,}", "*?"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
        st.tuples(st.sampled_from(["a", "[ab]", ".", r"\w"]), st.sampled_from(["*", "+", "?", "{2}"])).map("".join),
    ),
    max_leaves=5,
)


@settings(max_examples=500, deadline=None)
@given(pattern=PARTS)
def test_what_is_taken_ends_soon(pattern: str) -> None:
    """Python's engine tries one way after the other, too: of what is taken none holds it for a value of 30
    characters."""
    if backtracks(pattern) is not None:
        return
    found = re.compile(pattern + "z")
    began = time.process_time()
    for text in ("a" * 30, "ab" * 15, "aab" * 10):
        found.search(text)
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize(
    "pattern", [*DEADLY, "(?:a|b|ab)*", "(a?){30}", "((ab?)c)+", "(|a)+", "(a|A)+", "(a{1,2})+", "(?:(a|ab))*"]
)
def test_what_may_take_for_ever_is_refused(pattern: str) -> None:
    """Repetitions of repetitions, of choices that begin alike, and many `.*`."""
    assert backtracks(pattern) is not None


@pytest.mark.parametrize(
    "pattern", [r"\Q(a+)+\E", "[a[b]c](a+)+", "[a-z&&[^b]]", "[[:alpha:]]", "(?=a)", r"(a)\1", "a*+", r"[a\]&&b]"]
)
def test_what_two_engines_read_in_two_ways_is_refused(pattern: str) -> None:
    """A pattern that RE2 reads as harmless must not be another one to Java."""
    assert backtracks(pattern) is not None


@pytest.mark.parametrize(
    "pattern",
    ["^ab+c$", r"^(\d+)\.(\d+)\.(\d+)$", "(foo|bar)+", r"[^/]+/[^/]+/[^/]+", "(?i)^error: (.*)$", ".*a.*", r"\(a+\)+", "(ab){3}",
     "[(a+)+]", "[]a]+", "(a{2}){3}", r"(?P<x>ab)*", "a{", r"\x{41}+", r"\p{L}+", ",", "", "a|b|ab", "(a|ab)?"],
)  # fmt: skip
def test_what_people_write_is_taken(pattern: str) -> None:
    """Groups, classes, choices that begin differently, and a `.*` here and there."""
    assert pattern == "" or backtracks(pattern) is None


def test_like_has_a_bound() -> None:
    """`%` is `.*` to the engine."""
    assert like_backtracks("%a%b%c%d%") is None
    assert like_backtracks("%a%b%c%d%e%") is not None
