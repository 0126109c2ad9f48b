"""What the documents that are made from tests share: the collected tests, the results of runs, the part to be replaced.

In: the project's tests, JUnit files of test runs (`pytest --junit-xml FILE`), a document. Out: tests with their marks,
`TestRun`s, and the document with the part between two comments made anew. `tests.chaos.report` and
`tests.compatibility` say what stands in that part.
"""

from __future__ import annotations

import contextlib
import io
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# From good to bad: of several outcomes the last one counts.
OUTCOMES = ("passed", "skipped", "not run", "failed")


@dataclass(frozen=True)
class TestRun:
    """One run: what it ran on (`record_testsuite_property`), and each test's outcome and own properties, by full id."""

    __test__ = False

    platform: Mapping[str, str]
    outcomes: Mapping[str, str]
    properties: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)


def read_runs(junit_files: Iterable[Path]) -> list[TestRun]:
    """The runs in the order of the files."""
    return [_read_run(file) for file in junit_files]


def _read_run(file: Path) -> TestRun:
    root = ElementTree.parse(file).getroot()
    outcomes: dict[str, str] = {}
    properties: dict[str, dict[str, str]] = {}
    seconds: dict[str, float] = {}
    for case in root.iter("testcase"):
        name = _full_id(case.get("classname", ""), case.get("name", ""))
        kinds = {child.tag for child in case}
        outcomes[name] = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        properties[name] = _properties(case.find("properties"))
        seconds[name] = float(case.get("time", 0))
    return TestRun(_properties(root.find(".//testsuite/properties")), outcomes, properties, seconds)


def _full_id(class_name: str, name: str) -> str:
    """`tests.a.test_b.TestC`, `runTest` -> `tests/a/test_b.py::TestC::runTest`: classes are named with a capital."""
    parts = class_name.split(".")
    modules = [part for part in parts if not part[:1].isupper()]
    return "::".join([f"{'/'.join(modules)}.py", *parts[len(modules) :], name])


def _properties(found: ElementTree.Element | None) -> dict[str, str]:
    return {} if found is None else {each.get("name", ""): each.get("value", "") for each in found}


def worst(outcomes: Iterable[str]) -> str:
    """The outcome that counts for several tests; of none it is `not run`."""
    return max(outcomes, key=OUTCOMES.index, default="not run")


def without_parameters(outcomes: Mapping[str, str]) -> dict[str, str]:
    """Test -> its outcome over all its parameters."""
    found: dict[str, list[str]] = {}
    for name, outcome in outcomes.items():
        found.setdefault(name.partition("[")[0], []).append(outcome)
    return {name: worst(each) for name, each in found.items()}


class _Collector:
    """A pytest plugin that keeps every test's id, and the arguments of one kind of mark."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self.tests: dict[str, list[str]] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            found = self.tests.setdefault(item.nodeid, [])
            for mark in item.iter_markers(self._mark):
                found.extend(name for name in mark.args if name not in found)


@cache
def collect(mark: str = "", folders: tuple[str, ...] = ("tests",), only: str = "") -> dict[str, list[str]]:
    """Every test in these folders, by its full id -> what it is marked with by `mark`. `only` is as pytest's `-m`."""
    collector = _Collector(mark)
    words = ["--collect-only", "-q", *(str(ROOT / folder) for folder in folders), "--rootdir", str(ROOT), "-m", only]
    with contextlib.redirect_stdout(io.StringIO()) as output:
        code = pytest.main(words, plugins=[collector])
    if code:
        raise SystemExit(f"the tests cannot be collected:\n{output.getvalue()[-2000:]}")
    return collector.tests


def replace_part(document: str, begin: str, end: str, content: str) -> str:
    """The document with what stands between the two comments replaced."""
    head, _, rest = document.partition(begin)
    _, _, tail = rest.partition(end)
    return f"{head}{begin}\n{content}{end}{tail}"


def without_last_column(document: str) -> str:
    """The document without the last column of its tables, which depends on a run."""
    return re.sub(r" \| [^|]*\|$", " |", document, flags=re.MULTILINE)
