"""Findings as people and tools read them: text with a caret, JSON, annotations of GitHub and GitLab, SARIF 2.1.0, JUnit XML.

In: diagnostics. Out: one text. No file is read and nothing is printed here; colour is a parameter.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from urllib.parse import quote

from framework.diagnose.counted import counted
from framework.diagnose.diagnostic import Diagnostic, Place, Span

FORMATS = ("text", "json", "github", "gitlab", "sarif", "junit")
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_RED, _YELLOW, _BLUE, _BOLD, _END = "\x1b[31m", "\x1b[33m", "\x1b[34m", "\x1b[1m", "\x1b[0m"


def render(diagnostics: Sequence[Diagnostic], format: str, files: Sequence[str] = (), colour: bool = False) -> str:
    """The findings in one of `FORMATS`.

    Args:
        files: all files that were looked at, in order; for the summary and for JUnit's cases.
        colour: whether `text` may use ANSI colours.
    """
    if format == "json":
        return _json(diagnostics, files)
    if format == "github":
        return "\n".join([*map(github, diagnostics), summary(diagnostics, files)])
    if format == "gitlab":
        return code_quality(diagnostics)
    if format == "sarif":
        return _sarif(diagnostics)
    if format == "junit":
        return _junit(diagnostics, files)
    return "\n".join([*(text_of(finding, colour) + "\n" for finding in diagnostics), summary(diagnostics, files)])


def text_of(finding: Diagnostic, colour: bool = False) -> str:
    """One finding: place, code, sentence; the line with a caret; hint and remedy."""

    def paint(style: str, text: str) -> str:
        return f"{style}{text}{_END}" if colour else text

    style = _RED if finding.is_error else _YELLOW
    place = f"{finding.span.start}: " if finding.span else ""
    times = f" ({finding.times} times)" if finding.times > 1 else ""
    lines = [
        f"{paint(_BOLD, place)}{paint(style, f'{finding.severity.value}[{finding.code}]')} {finding.message}{times}"
    ]
    bar = paint(_BLUE, "|")

    def marked(at: Place) -> list[str]:
        if not at.excerpt or not at.excerpt.strip():
            return []
        number, (shown, caret) = str(at.span.line), _caret(at.span, at.excerpt)
        return [
            f"  {paint(_BLUE, number)} {bar} {shown}",
            f"  {' ' * len(number)} {bar} {paint(style, caret)}",
        ]

    if finding.span:
        lines += marked(Place(finding.span, finding.excerpt))
    if finding.template:
        lines += [f"  {finding.template.span.start}: the template uses it here", *marked(finding.template)]
    if finding.hint:
        lines.append(f"  hint: {finding.hint}")
    if finding.remedy:
        lines.append(f"  remedy: {finding.remedy}")
    return "\n".join(lines)


def _caret(span: Span, excerpt: str) -> tuple[str, str]:
    excerpt = excerpt.replace("\t", " ")
    start = span.column - 1
    end = span.end_column - 1 if span.end_line == span.line else len(excerpt)
    cut = max(0, start - 80) if len(excerpt) > 120 else 0
    shown = ("..." if cut else "") + excerpt[cut : cut + 120] + ("..." if len(excerpt) > cut + 120 else "")
    offset = start - cut + (3 if cut else 0)
    width = max(1, min(end - start, len(excerpt.rstrip()) - start, len(shown) - offset))
    return shown.rstrip(), " " * offset + "^" * width


def trouble(subject: str, reason: str, remedy: str) -> list[str]:
    """Why something is not as it should be, and what to do, as `floe status` shows it.

    Args:
        subject: what it is about, its state and for how long: `shop.orders: BLOCKED for 4m 12s`.
    """
    return [f"  {subject}: {reason}", *([f"    remedy: {remedy}"] if remedy else [])]


def refused_table(table: str, reason: str, code: str) -> str:
    """A table that is not created or changed, as `floe plan` shows it."""
    return f"{table}: is refused: {reason}  [{code}]"


def summary(diagnostics: Sequence[Diagnostic], files: Sequence[str]) -> str:
    """The closing line: how many findings, in how many files."""
    errors = sum(finding.is_error for finding in diagnostics)
    warnings = len(diagnostics) - errors
    if not diagnostics:
        return f"{counted(len(files), 'file')} checked, nothing to report"
    parts = [counted(number, word) for number, word in ((errors, "error"), (warnings, "warning")) if number]
    hit = len({finding.span.file for finding in diagnostics if finding.span is not None})
    among = f"{hit} of {counted(len(files), 'file')}" if 0 < hit < len(files) else counted(max(hit, len(files)), "file")
    where = f" in {among}" if files else ""
    return f"found {' and '.join(parts)}{where}"


def as_dict(finding: Diagnostic) -> dict[str, object]:
    """One finding as JSON: keys with nothing to say are left out."""
    result: dict[str, object] = {"code": finding.code, "severity": finding.severity.value, "message": finding.message}
    if finding.span:
        result |= _place_json(finding.span)
    extra = {"path": finding.path, "hint": finding.hint, "remedy": finding.remedy, "excerpt": finding.excerpt}
    result |= {key: value for key, value in extra.items() if value}
    if finding.times > 1:
        result["times"] = finding.times
    if finding.template:
        shown = {"excerpt": finding.template.excerpt} if finding.template.excerpt else {}
        result["template"] = {**_place_json(finding.template.span), **shown}
    return result


def _place_json(span: Span) -> dict[str, object]:
    return {
        "file": span.file,
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
    }


def _json(diagnostics: Sequence[Diagnostic], files: Sequence[str]) -> str:
    errors = sum(finding.is_error for finding in diagnostics)
    document = {
        "ok": errors == 0,
        "files": list(files),
        "errors": errors,
        "warnings": len(diagnostics) - errors,
        "diagnostics": [as_dict(finding) for finding in diagnostics],
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def code_quality(diagnostics: Sequence[Diagnostic]) -> str:
    """The report that GitLab shows beside the changed lines of a merge request."""
    return json.dumps(
        [
            {
                "description": _sentence(finding),
                "check_name": finding.code,
                "fingerprint": _fingerprint(finding),
                "severity": "major" if finding.is_error else "minor",
                "location": {
                    "path": finding.span.file if finding.span else ".",
                    "lines": {"begin": finding.span.line if finding.span else 1},
                },
            }
            for finding in diagnostics
        ],
        indent=2,
        ensure_ascii=False,
    )


def _fingerprint(finding: Diagnostic) -> str:
    """The same while the finding is, so that GitLab can tell new ones from old ones when lines above it change."""
    file = finding.span.file if finding.span else ""
    reported = "\0".join((finding.code, file, finding.path, finding.message, finding.excerpt or ""))
    return hashlib.sha256(reported.encode("utf-8", "replace")).hexdigest()


def github(finding: Diagnostic) -> str:
    """One finding as an annotation of GitHub's, at its line."""

    def data(text: str) -> str:
        return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

    def prop(text: str) -> str:
        return data(text).replace(":", "%3A").replace(",", "%2C")

    properties = [f"title={prop(finding.code)}"]
    if finding.span:
        span = finding.span
        properties = [
            f"file={prop(span.file)}",
            f"line={span.line}",
            f"col={span.column}",
            f"endLine={span.end_line}",
            *properties,
        ]
    return f"::{finding.severity.value} {','.join(properties)}::{data(_sentence(finding))}"


def _sentence(finding: Diagnostic) -> str:
    used = finding.template and f"{finding.template.span.start}: the template uses it here"
    hint, remedy = finding.hint and f"hint: {finding.hint}", finding.remedy and f"remedy: {finding.remedy}"
    parts = [finding.message, used, hint, remedy]
    return "\n".join(part for part in parts if part)


def _sarif(diagnostics: Sequence[Diagnostic]) -> str:
    rules = sorted({finding.code for finding in diagnostics})
    results = []
    for finding in diagnostics:
        # A result without a location is refused by common readers, so one about no file points to the first line of
        # nothing.
        span = finding.span
        region = (
            {"startLine": span.line, "startColumn": span.column, "endLine": span.end_line, "endColumn": span.end_column}
            if span
            else {"startLine": 1}
        )
        location = {
            "physicalLocation": {
                "artifactLocation": {"uri": quote(span.file) if span else "command-line"},
                "region": region,
            }
        }
        results.append(
            {
                "ruleId": finding.code,
                "ruleIndex": rules.index(finding.code),
                "level": finding.severity.value,
                "message": {"text": _sentence(finding)},
                "locations": [location],
            }
        )
    driver = {"name": "floe", "rules": [{"id": code} for code in rules]}
    document = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}],
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _junit(diagnostics: Sequence[Diagnostic], files: Sequence[str]) -> str:
    places = list(
        dict.fromkeys([*files, *(finding.span.file if finding.span else "command line" for finding in diagnostics)])
    )
    lines = []
    failures = 0
    for place in places:
        mine = [finding for finding in diagnostics if (finding.span.file if finding.span else "command line") == place]
        lines.append(f'  <testcase classname="floe validate" name={_attribute(place)}>')
        for finding in mine:
            reported = _xml(text_of(finding))
            if finding.is_error:
                failures += 1
                lines.append(
                    f"    <failure type={_attribute(finding.code)} message={_attribute(finding.message)}>{reported}</failure>"
                )
            else:
                lines.append(f"    <system-out>{reported}</system-out>")
        lines.append("  </testcase>")
    counts = f'tests="{len(places)}" failures="{failures}" errors="0"'
    head = f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuite name="floe validate" {counts}>'
    return "\n".join([head, *lines, "</testsuite>"])


def _xml(text: str) -> str:
    from html import escape

    return escape(_NOT_XML.sub("?", text), quote=False)


def _attribute(text: str) -> str:
    from html import escape

    return f'"{escape(_NOT_XML.sub("?", text))}"'
