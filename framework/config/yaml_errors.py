"""What is wrong with text that is no YAML, in words of whoever wrote it.

In: the error that libyaml or PyYAML raised, and the text. Out: a diagnostic at the place of the mistake: what the parser
says, what it means and what to do.
"""

from __future__ import annotations

import yaml

from framework.config.text import SourceText, start_of
from framework.diagnose.diagnostic import Diagnostic


def syntax_error(source: SourceText, error: yaml.YAMLError) -> Diagnostic:
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or error).strip()
    context = str(getattr(error, "context", None) or "")
    problem_mark, context_mark = getattr(error, "problem_mark", None), getattr(error, "context_mark", None)
    mark = problem_mark or context_mark
    if mark is None:
        return Diagnostic(
            "FLOE-C102",
            f"the text is not YAML: {problem}",
            start_of(source.file),
            remedy="remove the character",
        )
    message, remedy, at_start = _explain_syntax(problem, context)
    if at_start and context_mark is not None:
        mark = context_mark
    span = source.at(mark.line + 1, mark.column + 1)
    if "\t" in source.line(mark.line + 1)[: mark.column + 1] or "\\t" in problem:
        return Diagnostic("FLOE-C104", "a tab is used for indentation", span, remedy="indent with spaces")
    return Diagnostic("FLOE-C103", message, span, remedy=remedy)


# What libyaml and PyYAML say, what it means, what to do, and whether the mistake is where the construct began.
_SYNTAX = (
    (
        "mapping values are not allowed",
        "a second `key:` on one line, a line indented too far, or no `:` on the line before",
        "put quotes around text that holds `: `, correct the indentation, or add the `:`",
        False,
    ),
    ("could not find expected ':'", "this line has no `: ` after its key", "write `key: value`", True),
    ("end of stream", "a quote or bracket is opened and never closed", "close it", True),
    ("expected ',' or", "a `,` or a closing bracket is missing", "close every `[` and `{` that is opened", True),
    (
        "cannot start any token",
        "a value begins with a character that YAML reserves",
        "put quotes around the value",
        False,
    ),
    (
        "expected alphabetic",
        "a value begins with `*` or `&`, which YAML reserves",
        "put quotes around it",
        False,
    ),
    (
        "undefined alias",
        "`*` marks a YAML alias, and there is no alias of that name",
        "put quotes around it",
        False,
    ),
    (
        "unknown escape",
        "`\\` begins an escape inside double quotes, and this is not a valid one",
        "use single quotes",
        False,
    ),
)
_INDENTATION = ("expected <block end>", "did not find expected '-' indicator", "did not find expected key")


def _explain_syntax(problem: str, context: str) -> tuple[str, str, bool]:
    for words, message, remedy, at_start in _SYNTAX:
        if words in problem:
            return message, remedy, at_start
    if any(words in problem for words in _INDENTATION):
        message = "the indentation does not match the lines before it, or a quote is closed too early"
        return (
            message,
            "indent keys of one level by the same number of spaces, and close quotes where their text ends",
            False,
        )
    return f"the text is not YAML: {f'{problem} {context}'.strip()}", "correct the line", False
