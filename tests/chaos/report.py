"""Writes the table of docs/reliability.md: `python -m tests.chaos.report [JUNIT.xml ...]`, or `--check`.

In: `tests.chaos.failures`, the marks of the collected tests and, when given, JUnit files of test runs
(`pytest --junit-xml FILE`). Out: the table between the two comments of the document; exit code 1 when a failure has
neither a test nor a reason, when a named test does not exist, or, with `--check`, when the document is out of date.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from tests.chaos.failures import FAILURES, Failure

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- failures: begin -->", "<!-- failures: end -->"


class Collector:
    """A pytest plugin that keeps every test's id, without its parameters, and the failures it is marked with."""

    def __init__(self) -> None:
        self.marks: dict[str, list[str]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            found = self.marks.setdefault(item.nodeid.split("[")[0], [])
            for mark in item.iter_markers("failure"):
                found.extend(name for name in mark.args if name not in found)


def collect() -> dict[str, list[str]]:
    """Every test of the project -> the failures it is marked with."""
    collector = Collector()
    with contextlib.redirect_stdout(io.StringIO()) as output:
        code = pytest.main(["--collect-only", "-q", str(ROOT / "tests"), "--rootdir", str(ROOT)], plugins=[collector])
    if code:
        raise SystemExit(f"the tests cannot be collected:\n{output.getvalue()[-2000:]}")
    return collector.marks


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


def results(junit_files: Iterable[Path]) -> dict[str, str]:
    """Test id -> passed, failed or skipped, over all its parameters: the worst counts."""
    order = {"passed": 0, "skipped": 1, "failed": 2}
    found: dict[str, str] = {}
    for file in junit_files:
        for case in ElementTree.parse(file).iter("testcase"):
            name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name', '').split('[')[0]}"
            kinds = {child.tag for child in case}
            result = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
            found[name] = max(found.get(name, "passed"), result, key=lambda each: order[each])
    return found


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


def render(document: str, content: str) -> str:
    """The document with the part between the two comments replaced."""
    head, _, rest = document.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{content}{END}{tail}"


def without_results(document: str) -> str:
    """The document without its last column, which depends on a run."""
    return re.sub(r" \| [^|]*\|$", " |", document, flags=re.MULTILINE)


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    junit_files = [Path(argument) for argument in arguments if argument != "--check"]
    marks = collect()
    tests, problems = evidence(FAILURES, marks)
    for problem in problems:
        print(problem, file=sys.stderr)
    before = DOCUMENT.read_text(encoding="utf-8")
    after = render(before, table(FAILURES, tests, results(junit_files)))
    if check:
        if without_results(before) != without_results(after):
            print("docs/reliability.md is out of date; run: python -m tests.chaos.report", file=sys.stderr)
            return 1
        return 1 if problems else 0
    DOCUMENT.write_text(after, encoding="utf-8")
    print(f"{DOCUMENT.relative_to(ROOT)}: {len(FAILURES)} failures, {len(set().union(*tests.values()))} tests")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
