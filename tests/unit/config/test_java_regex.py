"""Expressions of connectors in RE2's words; tests/acceptance/test_connect_sink.py compares both on made-up ones."""

from __future__ import annotations

import pytest

from framework.config.names.patterns import compiled
from framework.connector.translation.java_regex import Differs, translated

SAME = [
    "order",
    "order|reorder",
    r"shop\.people",
    "[a-z]+",
    r"[\w.-]{2,5}",
    "^(a|b)$|c$",
    r"\d+\D*?",
    "(?:x)?",
    "",
    "[a&b]",
    "[-a]|[a-]",
]
OTHERWISE = {
    "re.*": r"re[^\n\r\x{85}\x{2028}\x{2029}]*",
    "(?s)re.*": "re(?s:.)*",
    r"\s": r"[\t\n\x0B\f\r ]",
    r"\S": r"[^\t\n\x0B\f\r ]",
    r"[\s,]": r"[\t\n\x0B\f\r ,]",
    "(?i)a1": "[aA]1",
    "(?i:a)b": "(?:[aA])b",
    "x(?i)a|b": "x[aA]|[bB]",
    "(x(?i)a)b": "(x[aA])b",
    "(?i)[a-f_x]": "[a-fA-F_xX]",
    r"\Qa.b\E.": r"a\.b[^\n\r\x{85}\x{2028}\x{2029}]",
    r"\x41": r"\x{41}",
    "(?<name>a)": "(a)",
    "(?i)ä": "ä",
}
REFUSED = [
    "[a[b]]",
    "[a-z&&[^o]]",
    "[]a]",
    "[a",
    r"\b",
    r"\v",
    r"\h",
    r"\R",
    r"\z",
    r"\p{L}",
    r"\1",
    r"\u0041",
    r"[\S]",
    r"[\d-z]",
    "[a-[b]]",
    "a*+",
    "a{2}{3}",
    "a{x}",
    "(?=a)",
    "(?>a)",
    "(?m)a",
    "(?U)a",
    "a$b",
    "(a$)",
    "(?i)[A-z]",
    "\\",
]


@pytest.mark.parametrize("pattern", SAME)
def test_what_both_say_alike_stays_as_it_is(pattern: str) -> None:
    """An expression that means the same to RE2 is carried over letter by letter."""
    assert translated(pattern) == pattern


@pytest.mark.parametrize("pattern", OTHERWISE)
def test_what_java_means_is_written_out(pattern: str) -> None:
    """Line ends, blanks and letters without regard to case are written out, and RE2 compiles them."""
    assert translated(pattern) == OTHERWISE[pattern]
    compiled(translated(pattern))


@pytest.mark.parametrize("pattern", REFUSED)
def test_what_means_something_else_is_refused(pattern: str) -> None:
    """What RE2 lacks or takes for something else is refused with a reason."""
    with pytest.raises(Differs, match=r"\w"):
        translated(pattern)


def test_names_of_topics_need_less() -> None:
    """Topics have no blanks and no line ends in their names, so a dot may stay a dot."""
    assert translated(r"db\.(.*)\s?", of_topics=True) == r"db\.(.*)\s?"
