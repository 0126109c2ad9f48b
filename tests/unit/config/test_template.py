"""Findings in templates point to the line that a person wrote."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.config.filled.origin import marked, strip_markers
from framework.config.templates.render import is_template, render
from framework.config.text import SourceText
from framework.diagnose.diagnostic import Diagnostic, Span
from tests.unit.config.in_memory import load


def rendered(
    text: str, files: dict[str, str] | None = None, **variables: object
) -> tuple[str | None, list[Diagnostic], object]:
    def read(name: str) -> str:
        try:
            return (files or {})[name]
        except KeyError:
            raise FileNotFoundError(name) from None

    result, findings = render(SourceText("a.yaml", text), {"var": variables}, read)
    return (result.text.text if result else None), findings, (result.origin if result else None)


def place(fragment: str, code: str, files: dict[str, str] | None = None) -> list[str]:
    result = load(fragment, files=files)
    return [f.span.start for f in result.diagnostics if f.code == code and f.span]


def test_a_file_without_marks_is_no_template() -> None:
    """Braces of YAML and comments do not make a template."""
    assert not is_template("a: {b: {c: d}}\n# %x\nb: '#% for'\n")
    assert is_template("#% set a = 1\n")
    assert is_template('a: "{{ b }}"\n')


def test_a_finding_behind_an_expression_keeps_its_column() -> None:
    """Text behind `{{ }}` on one line is found where it was written, whatever the expression gave."""
    text = 'x: "{{ var.long }}" # {{ var.long }} here'

    _, _, origin = rendered(text, long="l" * 50)

    assert origin is not None
    assert origin.locate(Span("a.yaml", 1, 57 + 53, 1, 57 + 57)).column == text.index("here") + 1


def test_a_finding_in_a_loop_points_to_the_loop_s_line_once() -> None:
    """A mistake in a loop is told once, with how often it came up."""
    fragment = (
        "variables: {names: [a, b, c]}\nroutes:\n  rules:\n#% for name in var.names\n"
        '    - {when: {field: x, equals: "{{ name }}"}, tabel: "s.{{ name }}"}\n#% endfor'
    )

    result = load(fragment)

    (finding,) = result.diagnostics
    assert finding.span is not None
    assert (finding.span.line, finding.times) == (10, 3)
    assert finding.excerpt is not None
    assert finding.excerpt[finding.span.column - 1 : finding.span.end_column - 1] == "tabel"


def test_a_finding_in_an_included_file_points_into_it() -> None:
    """Includes of includes are followed to the file and line that is wrong."""
    files = {"p/one.yaml": '#% include "two.yaml"\n', "p/two.yaml": "# a comment\ntrigger: {every: 5}\n"}

    assert place('#% include "p/one.yaml"', "FLOE-C205", files) == ["p/two.yaml:2:18"]


def test_a_finding_in_a_macro_points_into_the_macro() -> None:
    """Lines that a macro makes belong to the macro."""
    files = {"m.yaml": "#% macro trigger(every)\ntrigger: {every: {{ every }}}\n#% endmacro\n"}
    fragment = '#% from "m.yaml" import trigger\n#% insert trigger(5)\n'

    assert place(fragment, "FLOE-C205", files) == ["m.yaml:2:18"]


def test_a_template_that_measures_itself_gets_no_wrong_place() -> None:
    """Where marks would change what a template makes, no line is claimed."""
    text = "#% set text\nabc\n#% endset\n#% if text | length == 4\na: 1\n#% else\nb: 2\n#% endif\n"

    made, findings, origin = rendered(text)

    assert (made, findings) == ("a: 1\n", [])
    assert origin is None


@pytest.mark.parametrize(
    "expression",
    [
        "var.a.__class__",
        "().__class__.__bases__",
        "range.__globals__",
        "cycler",
        "lipsum",
        "self.__init__",
        "var.a.append(1)",
        "'%s' | format(1)",
        "'a' * 100000000",
        "9 ** 9 ** 9",
    ],
)
def test_templates_reach_nothing_but_their_values(expression: str) -> None:
    """Neither Python's inside nor endless work can be reached from a template."""
    made, findings, _ = rendered(f'a: "{{{{ {expression} }}}}"\n', a=[1])

    assert made is None
    assert [finding.code[:7] for finding in findings] == ["FLOE-C6"]


@pytest.mark.parametrize(
    "value", ['a"b', "a'b", "a\\b", "a\nb", "a\tb", "a\u2028b", "a\x00", "\ue000", [1], None, {"a": 1}]
)
def test_a_value_cannot_leave_its_quotes(value: object) -> None:
    """A value that could end the quotes around it is refused."""
    made, findings, _ = rendered('a: "{{ var.value }}"\n', value=value)

    assert made is None
    assert [finding.code for finding in findings] == ["FLOE-C608"]


def test_parameters_may_have_any_name() -> None:
    """`var.values` and `var.items` are variables, whatever Python calls its methods."""
    made, findings, _ = rendered(
        '#% for v in var.values\n- "{{ v }}{{ var.items }}"\n#% endfor\n', values=["a"], items="b"
    )

    assert findings == []
    assert made == '- "ab"\n'


LINE = st.sampled_from(
    ["a: 1", "  b: 2", "#% if true", "#% endif", 'x: "{{ 1 }}"', "", "# c", 'y: "{{ 1 }}-{{ 2 }}" # z']
)


@settings(deadline=None)
@given(st.lists(LINE, max_size=12), st.booleans())
def test_marks_leave_no_trace(lines: list[str], ends: bool) -> None:
    """A text with marks that is stripped of them is the text."""
    text = "\n".join(lines) + ("\n" if ends else "")
    source = SourceText("a.yaml", text)

    clean, origin = strip_markers(marked(text, 0), (source,))

    assert clean == text
    for number, line in enumerate(lines, 1):
        if line and not line.startswith("#%"):
            assert origin.locate(Span("a.yaml", number, 1, number, 2)).line == number
