"""The reports of tests as people and tools read them: text, JSON, annotations of GitHub and GitLab, JUnit XML.

In: file reports. Out: one text.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Sequence

from framework.diagnose.counted import counted
from framework.diagnose.diagnostic import Diagnostic
from framework.diagnose.render import as_dict, code_quality, github, text_of
from framework.testing.suite import CaseReport, FileReport

FORMATS = ("text", "json", "github", "gitlab", "junit")
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_GREEN, _RED, _END = "\x1b[32m", "\x1b[31m", "\x1b[0m"


def render(reports: Sequence[FileReport], format: str, colour: bool = False) -> str:
    """The reports in one of `FORMATS`."""
    if format == "json":
        return _json(reports)
    if format == "junit":
        return "\n".join(_junit(reports))
    if format == "github":
        return "\n".join([*map(github, _reported(reports)), summary(reports)])
    if format == "gitlab":
        return code_quality(_reported(reports))
    return "\n".join([*_report_lines(reports, colour), summary(reports)])


def summary(reports: Sequence[FileReport]) -> str:
    """The closing line: how many tests passed and failed, and how many files are wrong."""
    cases = [case for report in reports for case in report.cases]
    failed, wrong = sum(not case.passed for case in cases), sum(report.is_wrong for report in reports)
    reported = f"{counted(len(cases), 'test')} in {counted(len(reports), 'file')}"
    if not cases and not wrong and not any(report.findings for report in reports):
        return f"{reported}; `floe test FILE --record RECORDS` makes one from real records"
    if cases:
        reported += f": {len(cases) - failed} passed" + (f", {failed} failed" if failed else "")
    reported += f"; {counted(wrong, 'file')} cannot be tested" if wrong else ""
    left_out = sum(is_left_out(report) for report in reports)
    return reported + (f"; the tests of {counted(left_out, 'file')} were not run" if left_out else "")


def is_left_out(report: FileReport) -> bool:
    """Whether a file has tests that were not run, with a warning that says why."""
    return bool(report.findings) and not report.is_wrong


def _report_lines(reports: Sequence[FileReport], colour: bool) -> Iterator[str]:
    for report in reports:
        yield f"{report.file}{'' if report.cases or report.findings else ': no tests'}"
        for case in report.cases:
            word, style = ("ok  ", _GREEN) if case.passed else ("FAIL", _RED)
            yield f"  {f'{style}{word}{_END}' if colour else word}  {case.case.name}"
        for finding in [*report.findings, *(one for case in report.cases for one in case.differences)]:
            yield "\n" + text_of(finding, colour)
        yield ""


def _reported(reports: Sequence[FileReport]) -> list[Diagnostic]:
    """Everything that is wrong, and the warnings."""
    cases = (case for report in reports for case in report.cases)
    return [
        *(finding for report in reports for finding in report.findings),
        *(one for case in cases for one in case.differences),
    ]


def _json(reports: Sequence[FileReport]) -> str:
    cases = [case for report in reports for case in report.cases]
    document = {
        "ok": all(case.passed for case in cases) and not any(report.is_wrong for report in reports),
        "tests": len(cases),
        "failed": sum(not case.passed for case in cases),
        "files": [
            {
                "file": report.file,
                "findings": [as_dict(finding) for finding in report.findings],
                "tests": [_case(case) for case in report.cases],
            }
            for report in reports
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _case(report: CaseReport) -> dict[str, object]:
    return {
        "name": report.case.name,
        "line": report.case.span.line,
        "passed": report.passed,
        "differences": [as_dict(one) for one in report.differences],
    }


def _junit(reports: Sequence[FileReport]) -> Iterator[str]:
    cases = [case for report in reports for case in report.cases]
    failed, wrong = sum(not case.passed for case in cases), [report for report in reports if report.is_wrong]
    left_out = sum(is_left_out(report) for report in reports)
    counts = f'tests="{len(cases) + len(wrong) + left_out}" failures="{failed}" errors="{len(wrong)}"'
    yield f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites {counts}>'
    for report in reports:
        number, bad = len(report.cases) + bool(report.findings), sum(not case.passed for case in report.cases)
        skipped = int(is_left_out(report))
        name = _attribute(report.file)
        counts = f'tests="{number}" failures="{bad}" errors="{int(report.is_wrong)}" skipped="{skipped}"'
        yield f"  <testsuite name={name} {counts}>"
        for case in report.cases:
            head = f"    <testcase classname={name} name={_attribute(case.case.name)}"
            if case.passed:
                yield head + "/>"
                continue
            reported = "\n\n".join(text_of(one) for one in case.differences)
            message = _attribute(case.differences[0].message)
            yield f'{head}><failure type="FLOE-R401" message={message}>{_xml(reported)}</failure></testcase>'
        if skipped:
            message = _attribute(report.findings[0].message)
            yield f'    <testcase classname={name} name="the file"><skipped message={message}/></testcase>'
        elif report.findings:
            reported, first = "\n\n".join(text_of(one) for one in report.findings), report.findings[0]
            error = f"<error type={_attribute(first.code)} message={_attribute(first.message)}>{_xml(reported)}</error>"
            yield f'    <testcase classname={name} name="the file">{error}</testcase>'
        yield "  </testsuite>"
    yield "</testsuites>"


def _xml(text: str) -> str:
    return html.escape(_NOT_XML.sub("?", text), quote=False)


def _attribute(text: str) -> str:
    return f'"{html.escape(_NOT_XML.sub("?", text))}"'
