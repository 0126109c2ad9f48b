"""The regular expressions of pipeline files: linear in the text, beside Python's, and what is said of those that are
refused."""

from __future__ import annotations

import random
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.config.names.patterns import NOT_ONE, NOT_RUN, compiled, unfit
from framework.errors import ConfigError

# Letters whose case folds in one way everywhere, digits, and what people write between them.
LETTERS = "abzAZ019_- .:/äÖßéжЖΩ漢\U0001f600\n"
ATOMS = st.sampled_from(
    ["a", "b", "Z", "0", "9", "_", "-", "é", "ж", "漢", ".", r"\.", r"\-", "[a-z]", "[^a]", "[0-9a-f]", "[é-ж]", "[]a]", r"[\].]",
     r"\d", r"\w", r"\s", r"\D", r"\W", r"\S", r"[\d.]", r"[^\w]", r"\x41", "^", "$", r"\b"]
)  # fmt: skip
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{0,2}", "{1,}", "{2}", "*?", "+?"])).map(
            lambda pair: f"({pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=6,
)
# One of each kind that brought backtracking engines down.
DEADLY = [
    "(a+)+b", "(a*)*b", "(a|a)*b", "(a|aa)+b", "(.*a){12}b", "(a?){30}a{30}b", "([a-z]+)*[0-9]", "(a+){10}b", "(x+x+)+y",
    r"^(\w+\s?)*$", "(.*)(.*)(.*)(.*)(.*)(.*)(.*)z", "((a+)b?)+c", "(?i)(A+)+b",
]  # fmt: skip


@settings(max_examples=1000, deadline=None)
@given(pattern=PATTERNS, flag=st.sampled_from(["", "(?i)", "(?s)", "(?m)"]), text=st.text(LETTERS, max_size=8))
def test_ordinary_patterns_mean_what_they_mean_in_python(pattern: str, flag: str, text: str) -> None:
    """Two things differ, and are documented: classes such as `\\d` and `\\b` are ASCII's, and `$` stands at the end alone."""
    theirs = re.sub(r"\$", r"\\Z", pattern) if flag != "(?m)" else pattern
    python = re.compile(
        flag + theirs.replace(r"\s", "[ \t\n\f\r]").replace(r"\S", "[^ \t\n\f\r]"), re.ASCII if not flag else 0
    )
    if flag and re.search(r"\\[dDwWb]", pattern) and not text.isascii():
        return
    assert compiled(flag + pattern).is_all_of(text) == (python.fullmatch(text) is not None)
    assert compiled(flag + pattern).is_within(text) == (python.search(text) is not None)


@pytest.mark.parametrize("pattern", DEADLY)
def test_no_value_holds_a_worker(pattern: str) -> None:
    """Of the patterns with nested quantifiers each is done with a value of a megabyte within a second."""
    found = compiled(pattern)
    began = time.process_time()
    for text in ("a" * 60 + "!", "a" * 1_000_000 + "!", "ab" * 500_000 + "!", "x" * 1_000_000):
        found.is_all_of(text)
        found.is_within(text)
    assert time.process_time() - began < 4


def test_the_largest_pattern_that_is_taken_ends_in_time() -> None:
    """A pattern whose states do not fit into memory is stepped through, and its size is bounded for that."""
    pattern = "|".join(f"[ab]*a[ab]{{{100 + i}}}c" for i in range(30))
    assert unfit(pattern) is None
    assert unfit(f"{pattern}|{pattern}") is not None
    text = "".join(random.Random(1).choices("ab", k=100_000))
    began = time.process_time()
    compiled(pattern).is_all_of(text)
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("pattern", "code", "said"),
    [
        ("", NOT_ONE, "empty"),
        ("[a-", NOT_ONE, "unterminated character set at its character 1"),
        ("*a", NOT_ONE, "nothing to repeat"),
        ("a{99999999999}", NOT_ONE, "too large"),
        ("a{1001}", NOT_RUN, "invalid repetition size"),
        (r"\pL{300}", NOT_RUN, "too large"),
        ("(?=a)b", NOT_RUN, "ahead or behind"),
        ("(?<!a)b", NOT_RUN, "ahead or behind"),
        (r"(a)\1", NOT_RUN, "refers back"),
        ("(?P<x>a)(?P=x)", NOT_RUN, "refers back"),
        ("(a)?(?(1)b)", NOT_RUN, "conditional"),
        ("(?x) a", NOT_RUN, "verbose"),
        ("(?#why)a", NOT_RUN, "comments"),
        ("(?a)a", NOT_RUN, "flag"),
        (r"a\Z", NOT_RUN, r"`\Z`"),
        (r"\u00e9", NOT_RUN, "by its number"),
        ("a{,3}", NOT_RUN, "no beginning"),
        ("\ud800", NOT_RUN, "surrogate"),
    ],
)
def test_what_is_refused_is_named(pattern: str, code: str, said: str) -> None:
    """Each kind has its words and a remedy, and nothing of it is run."""
    found = unfit(pattern)
    assert found is not None
    assert (found.code, bool(found.remedy)) == (code, True)
    assert said in found.reason
    with pytest.raises(ConfigError, match="cannot be run"):
        compiled(pattern)


@pytest.mark.parametrize(
    "pattern", ["[{,3}]", r"\{,3}", r"a\x{10000}", r"\\{2}", "[(?=]", r"[\]{,3}]", "{", "x{a}", r"\pL+"]
)
def test_what_only_looks_like_it_is_taken(pattern: str) -> None:
    """Inside of a class or behind a backslash such characters are themselves."""
    assert unfit(pattern) is None


def test_any_text_may_be_asked_for() -> None:
    """A lone surrogate, which no encoding has, is one character; a NUL is one, too."""
    assert compiled("a.b").is_all_of("a\ud800b")
    assert compiled("a[^x]b").is_all_of("a\x00b")
