"""What is wrong with text that is no YAML, in words of whoever wrote it.

In: the error that libyaml or PyYAML raised, and the text. Out: a diagnostic at the place of the mistake: what the parser
says, what it means and what to do.
"""

from __future__ import annotations

import re

import yaml

from framework.config.text import SourceText, start_of
from framework.diagnose.diagnostic import Diagnostic, Span


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
    if "undefined alias" in problem and (
        word := re.match(r"\*([^\s,\]}]*)", source.line(mark.line + 1)[mark.column :])
    ):
        is_pattern = re.search(r"(?:matches|topic|topic_pattern): $", source.line(mark.line + 1)[: mark.column])
        remedy = f'put quotes around it: `"{"." if is_pattern else ""}{word[0]}"`'
    if "mapping values are not allowed" in problem:
        return _no_key_here(source, span)
    if "expected '-'" in problem and context_mark is not None:
        message = f"the list that begins on line {context_mark.line + 1} is not at its end, and this line has no `- `"
        remedy = "indent the list further than the key that it belongs to, or begin the line with `- `"
    elif any(words in problem for words in _INDENTATION):
        message = _steps(source, span) or message
    return Diagnostic("FLOE-C103", message, span, remedy=remedy)


_KEY = re.compile(r"[ -]*(?:\"[^\"]*\"|'[^']*'|[^\s#'\":\[{-][^:#]*):(?: |$)")


def _no_key_here(source: SourceText, span: Span) -> Diagnostic:
    """A `: ` where no key can be: the second on its line, or on a line that goes on the value before it."""
    line = source.line(span.line)
    key = _KEY.match(line)
    if key is None or key.end() <= span.column - 1:
        message = "a second `: ` on one line"
        return Diagnostic(
            "FLOE-C103", message, span, remedy="put quotes around text that holds `: `, or begin a new line"
        )
    before = _content_above(source, span.line)
    if before and not _KEY.match(source.line(before)):
        text = source.line(before)
        start = len(text) - len(text.lstrip(" -"))
        place = source.at(before, start + 1, len(text.rstrip()) - start)
        return Diagnostic("FLOE-C103", "this line has no `: ` after its key", place, remedy="write `key: value`")
    than = f"line {before}, which has a value already" if before else "the lines before it"
    at = source.at(span.line, len(line) - len(line.lstrip()) + 1)
    message = f"this line is indented further than {than}"
    return Diagnostic("FLOE-C103", message, at, remedy="indent keys of one level by the same number of spaces")


def _steps(source: SourceText, span: Span) -> str:
    """How a line does not fit to the ones above it; "" where its indentation is not what is wrong."""
    depth = _depth(source, span.line)
    if depth != span.column - 1:
        return ""
    number, deeper = _content_above(source, span.line), 0
    while number and _depth(source, number) > depth:
        deeper = number if not deeper or _depth(source, number) <= _depth(source, deeper) else deeper
        number = _content_above(source, number)
    if deeper:
        beside = _depth(source, deeper)
        return f"this line is indented by {depth}, and what stands beside it on line {deeper} by {beside}"
    while number and _depth(source, number) >= depth:
        number = _content_above(source, number)
    return f"this line does not go on the block that begins on line {number}" if number else ""


def _depth(source: SourceText, number: int) -> int:
    line = source.line(number)
    return len(line) - len(line.lstrip())


def _content_above(source: SourceText, number: int) -> int:
    """The next line above that says something; 0 where there is none."""
    above = range(number - 1, 0, -1)
    return next(
        (each for each in above if source.line(each).strip() and not source.line(each).lstrip().startswith("#")), 0
    )


# What libyaml and PyYAML say, what it means, what to do, and whether the mistake is where the construct began.
_SYNTAX = (
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
