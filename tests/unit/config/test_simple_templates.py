"""What is rendered without Jinja is exactly what Jinja would make of it; everything else is left to Jinja."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jinja2 import TemplateError

from framework.config.templates.render import _run
from framework.config.templates.sandbox import TooMuch, UnsafeValue
from framework.config.templates.simple import rendered_simply
from framework.config.text import SourceText

SHIPPED = Path(__file__).parents[3] / "pipelines" / "templates"
PARAMETERS: dict[str, Any] = {
    "topics": ["a.b", "c-d"], "kinds": ["Refund", "order", ""], "none": [], "numbers": [0, 1, 2.5], "rate": 0, "big": 1000,
    "flag": True, "off": False, "name": "Shop", "odd": 'a"b', "values": "v", "nothing": None, "nested": [["x"], ["y"]],
}  # fmt: skip
PATHS = st.sampled_from(
    [
        *(f"param.{name}" for name in PARAMETERS),
        "param",
        "kind",
        "x",
        "param.missing",
        "loop",
        "loop.index",
        "range",
        "none",
    ]
)
LITERALS = st.sampled_from(['"a"', "'b'", '""', "0", "1", "7", "007", '"é"', '"a\\n"', "1.5", "none", "true"])
FILTERS = st.sampled_from(
    ["", " | lower", "|upper", " | replace('.', '_')", " | replace('e', '')", " | replace('', 'x')", " | replace('a', 'aaaa')",
     " | replace('e', '', 1)", " | length", " | lower | upper", " | default('x')", " | lower()", " | title"]
)  # fmt: skip
SPACES = st.sampled_from(["", " ", "  "])
ENDS = st.sampled_from(["\n", "\n\n", "\n \n", "  \n", "\n\t\n  "])


def _lists() -> st.SearchStrategy[str]:
    return st.one_of(PATHS, st.lists(LITERALS, max_size=3).map(lambda items: f"[{', '.join(items)}]"))


def _outputs() -> st.SearchStrategy[str]:
    braces = st.sampled_from(["{{%s%s%s%s}}", "{{-%s%s%s%s}}", "{{%s%s%s%s}}}", "{{{%s%s%s%s}}"])
    return st.tuples(braces, SPACES, PATHS, FILTERS, SPACES).map(lambda parts: parts[0] % parts[1:])


def _lines() -> st.SearchStrategy[str]:
    words = st.sampled_from(["a: ", "  - b", "#", "# %", " #% ", "}}", "{ {", "é", " ", ": 1", "{%", "x#% if y"])
    return st.lists(st.one_of(words, _outputs()), max_size=4).map("".join)


def _statement(begin: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    marks = st.sampled_from(["#% ", "#%", "  #%  ", "\t#% ", "#%- "])
    return st.tuples(marks, begin, ENDS).map("".join)


def _blocks(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    compare = st.one_of(
        st.just(""), st.tuples(st.sampled_from([" == ", "!=", " > ", "<", " >= ", "<="]), LITERALS).map("".join)
    )
    heads = st.tuples(st.sampled_from(["if ", "if not ", "if  "]), PATHS, compare).map("".join)
    names = st.sampled_from(["kind", "x", "param", "loop", "in"])
    loops = st.tuples(st.just("for "), names, st.just(" in "), _lists()).map("".join)
    otherwise = st.one_of(st.just(""), st.tuples(_statement(st.just("else")), inner).map("".join))
    return st.one_of(
        st.tuples(_statement(loops), inner, _statement(st.just("endfor"))).map("".join),
        st.tuples(_statement(heads), inner, otherwise, _statement(st.just("endif"))).map("".join),
    )


def _more(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(_blocks(inner), st.lists(inner, min_size=1, max_size=3).map("".join))


TEXTS = st.recursive(st.tuples(_lines(), ENDS).map("".join), _more, max_leaves=8)


def by_jinja(text: str) -> str | None:
    """What the sandbox makes of a text; None where it refuses it."""
    try:
        return _run(SourceText("a.yaml", text), {"param": PARAMETERS}, _nothing, None)
    except (TemplateError, UnsafeValue, TooMuch, TypeError, ValueError, ArithmeticError, LookupError, AttributeError):
        return None


def _nothing(name: str) -> str:
    raise FileNotFoundError(name)


@settings(max_examples=400, deadline=None)
@given(TEXTS)
@example("#% for x in param.kinds\n\n\n  a: {{ x }}\n#% endfor\n\n  b\n")
@example('#% for x in ["a", "b",]\n{{ x }}\n#% endfor\n')
@example("#% for x in param.topics\n#% for x in x\n{{ x }}\n#% endfor\n#% endfor\n")
@example("#% for kind in []\n{{{param.topics}}\n#% endfor\n")
@example("a\r\n{{ param.name }}\r\n")
@example("{{ param.name }}" + "\n#% if param.flag" * 30 + "\n#% endif" * 30)
def test_what_is_rendered_simply_is_what_jinja_makes(text: str) -> None:
    """A text that the simple way gives is Jinja's to the last character; where Jinja refuses, the simple way gives none."""
    found = rendered_simply(text, {"param": PARAMETERS})

    assert found is None or found == by_jinja(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#% for kind in param.kinds\n- {{ kind | lower }}\n#% endfor\n", "- refund\n- order\n- \n"),
        ("#% if param.rate > 0\na\n#% else\nb\n#% endif\n", "b\n"),
        ('#% for x in ["a", 2]\n{{ x }}\n#% endfor\n', "a\n2\n"),
        ("{{ param.flag }} {{ param.big }} {{ param.topics }}", None),
        ("{{ param.odd }}", None),
        ("{{ param.missing }}", None),
        ("#% for x in range(3)\n#% endfor\n", None),
        ("#% set x = 1\n", None),
    ],
)
def test_which_templates_are_simple(text: str, expected: str | None) -> None:
    """Loops over lists, conditions and names are rendered without Jinja; a mistake, a list in a text and other statements
    are left to it."""
    assert rendered_simply(text, {"param": PARAMETERS}) == expected
    assert expected is None or by_jinja(text) == expected


def test_the_shipped_templates_that_loop_are_simple() -> None:
    """Most templates that come with floe are rendered without Jinja; this one calls a filter with a parameter."""
    values: dict[str, Any] = {
        "known_values": ["a"],
        "time_field": "at",
        "key_buckets": 4,
        "topics": ["t"],
        "strip": "x",
    }
    context = {"param": {**dict.fromkeys(("namespace", "prefix", "field", "value_type"), "n"), **values}}
    simple = [
        path.name for path in SHIPPED.glob("*.yaml") if rendered_simply(path.read_text("utf-8"), context) is not None
    ]

    assert sorted(simple) == ["change-log.yaml", "fan-out-by-field.yaml"]


def test_too_much_is_left_to_jinja() -> None:
    """A template that makes more steps or text than any pipeline needs is not rendered simply, so that Jinja refuses it."""
    many = {"param": {"topics": list(range(200))}}
    loop = "#% for a in param.topics\n#% for b in param.topics\nx\n#% endfor\n#% endfor\n"

    assert rendered_simply(loop, many) is None
    assert rendered_simply("#% for a in param.topics\n" + "x" * 10_000 + "\n#% endfor\n", many) is None
