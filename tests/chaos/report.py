"""Writes the table of docs/reliability.md: `python -m tests.chaos.report [JUNIT.xml ...]`, or `--check`.

In: `tests.chaos.failures`, the marks of the collected tests and, when given, JUnit files of test runs
(`pytest --junit-xml FILE`). Out: the table between the two comments of the document; exit code 1 when a failure has
neither a test nor a reason, when a named test does not exist, or, with `--check`, when the document is out of date.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from tests import reports
from tests.chaos.failures import FAILURES, Failure
from tests.reports import ROOT

DOCUMENT = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- failures: begin -->", "<!-- failures: end -->"


def marked_tests() -> dict[str, list[str]]:
    """Every test of the project, without its parameters -> the failures it is marked with."""
    marks: dict[str, list[str]] = {}
    for test, names in reports.collect("failure").items():
        found = marks.setdefault(test.partition("[")[0], [])
        found.extend(name for name in names if name not in found)
    return marks


def evidence(failures: Mapping[str, Failure], marks: Mapping[str, list[str]]) -> tuple[dict[str, list[str]], list[str]]:
    """Failure -> the tests that show it; and what is wrong: a mark that names no failure, a named test that does not
    exist, a failure with neither a test nor a reason."""
    strays = {name for names in marks.values() for name in names} - set(failures)
    problems = [f"a mark names no known failure: {name}" for name in sorted(strays)]
    found: dict[str, list[str]] = {}
    for name, failure in failures.items():
        tests = [test for test, names in marks.items() if name in names]
        for wanted in failure.tests:
            matching = [test for test in marks if test == wanted or test.startswith(wanted + "::")]
            if not matching:
                problems.append(f"{name} names a test that does not exist: {wanted}")
            tests += [test for test in matching if test not in tests]
        if not tests and not failure.reason:
            problems.append(f"{name} has neither a test nor a reason")
        found[name] = tests
    return found, problems


def table(failures: Mapping[str, Failure], tests: Mapping[str, list[str]], ran: Mapping[str, str]) -> str:
    """The Markdown table. Without results the last column says how many tests there are."""
    lines = ["| | what users reported | here | shown by | result |", "|---|---|---|---|---|"]
    for name, failure in failures.items():
        shown = "<br>".join(f"`{test.removeprefix('tests/')}`" for test in tests[name])
        if failure.reason:
            shown = f"cannot occur: {failure.reason}" + (f"<br>{shown}" if shown else "")
        lines.append(f"| {name} | {failure.wrong} | {failure.answer} | {shown} | {_result(tests[name], ran)} |")
    return "\n".join(lines) + "\n"


def _result(tests: list[str], ran: Mapping[str, str]) -> str:
    if not tests:
        return "-"
    if not ran:
        return f"{len(tests)} tests" if len(tests) > 1 else "1 test"
    counts = {
        kind: sum(ran.get(test, "not run") == kind for test in tests)
        for kind in ("passed", "failed", "skipped", "not run")
    }
    return ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    runs = reports.read_runs(Path(argument) for argument in arguments if argument != "--check")
    tests, problems = evidence(FAILURES, marked_tests())
    for problem in problems:
        print(problem, file=sys.stderr)
    # A test that several runs hold counts as in the worst of them.
    found: dict[str, str] = {}
    for run in runs:
        for test, outcome in reports.without_parameters(run.outcomes).items():
            found[test] = reports.worst([outcome, found.get(test, outcome)])
    before = DOCUMENT.read_text(encoding="utf-8")
    after = reports.replace_part(before, BEGIN, END, table(FAILURES, tests, found))
    if check:
        if reports.without_last_column(before) != reports.without_last_column(after):
            print("docs/reliability.md is out of date; run: python -m tests.chaos.report", file=sys.stderr)
            return 1
        return 1 if problems else 0
    DOCUMENT.write_text(after, encoding="utf-8")
    print(f"{DOCUMENT.relative_to(ROOT)}: {len(FAILURES)} failures, {len(set().union(*tests.values()))} tests")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
