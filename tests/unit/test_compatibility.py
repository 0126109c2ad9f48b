"""The compatibility document: its tables are made of results alone, and no row names a test that is not there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import claims, reports
from tests.compatibility import FLIGHTS, places, versions

SUITE = """<testsuites><testsuite><properties>{platform}</properties>{cases}</testsuite></testsuites>"""
CASE = '<testcase classname="{module}" name="{name}" time="1">{inner}</testcase>'


def run(tmp_path: Path, cases: dict[str, str], **platform: str) -> reports.TestRun:
    """A result file with these tests, read back."""
    values = {"python": "3.11.7", "java": "17", "spark": "4.1.4", **platform}
    made = [
        CASE.format(module=name.partition(".py::")[0].replace("/", "."), name=name.partition("::")[2], inner=inner)
        for name, inner in cases.items()
    ]
    file = tmp_path / f"{len(list(tmp_path.iterdir()))}.xml"
    properties = "".join(f'<property name="{key}" value="{value}"/>' for key, value in values.items())
    file.write_text(SUITE.format(platform=properties, cases="".join(made)))
    return reports.read_runs([file])[0]


COUNTED = '<properties><property name="flights" value="336776"/><property name="tables" value="16"/></properties>'


def row(table: str, words: str) -> list[str]:
    """The cells of the one row that begins so."""
    (line,) = [line for line in table.splitlines() if line.startswith(f"| {words}")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_a_row_says_what_was_run_and_what_was_not(tmp_path: Path) -> None:
    """A passed test shows what it counted; a failure of one test is the row's; what no file holds is `not run`."""
    submitted = "tests/spark/test_standalone_cluster.py::test_submit_ships_all"
    printed = "tests/spark/test_standalone_cluster.py::test_the_printed_command_is"
    here = run(tmp_path, {f"{FLIGHTS}[embedded]": COUNTED, submitted: "", printed: "<failure/>"})
    other = run(tmp_path, {submitted: ""}, python="3.13.0")
    table = places([here, other])
    assert "| Python 3.11.7, Java 17, Spark 4.1.4 | Python 3.13.0, Java 17, Spark 4.1.4 |" in table
    assert row(table, "Embedded") == ["passed: 336,776 flights, 16 tables", "not run"]
    assert row(table, "Spark standalone: `floe submit`") == ["failed", "not run"]


def test_versions_that_were_not_run_say_so(tmp_path: Path) -> None:
    """Each pair of Spark and Python has a row, with the unit tests of any Java and the job of each."""
    unit = run(tmp_path, {"tests/unit/a.py::one": "", "tests/unit/a.py::two": "<skipped/>"}, flights="20000")
    job = run(tmp_path, {f"{FLIGHTS}[embedded]": COUNTED}, java="21", flights="20000")
    table = versions([unit, job])
    assert len(table.splitlines()) == 2 + 8
    assert row(table, "4.1.4 | 3.11.7") == [
        "3.11.7",
        "1 passed, 1 skipped",
        "not run",
        "passed: 336,776 flights, 16 tables",
        "refused by name (`FLOE-E021`)",
    ]
    assert row(table, "4.0 | 3.13")[1:4] == ["not run"] * 3


def test_every_row_names_tests_and_stands_in_the_document() -> None:
    """docs/compatibility.md has a row for each place, and each is shown by tests that exist."""
    command = [sys.executable, "-m", "tests.compatibility", "--check"]
    answer = subprocess.run(command, cwd=reports.ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert answer.returncode == 0, answer.stderr + answer.stdout


PAGE = """
| what | result | commit | command, after `pytest` |
|---|---|---|---|
| a server | passed: all | `{commit}` | `{command}` |
| another | not run: it does not resolve | | |

| other | table |
|---|---|
| that claims | nothing |
"""


@pytest.mark.parametrize(
    ("page", "results", "said"),
    [
        (PAGE.format(commit="abc", command="tests/a.py"), {"tests/a.py": ("abc", 3, 0)}, None),
        (PAGE.format(commit="abc", command="tests/a.py"), {}, "has no result: python -m tests.claims run tests/a.py"),
        (PAGE.format(commit="abc", command="tests/a.py"), {"tests/a.py": ("abc", 3, 1)}, "did not pass"),
        (PAGE.format(commit="abc", command="tests/a.py"), {"tests/a.py": ("abc", 0, 0)}, "did not pass"),
        (PAGE.format(commit="abd", command="tests/a.py"), {"tests/a.py": ("abc", 3, 0)}, "shows abd"),
        (PAGE.format(commit="abc", command=""), {}, "shows a commit and no command"),
        (PAGE.format(commit="", command=""), {}, "claims something that was not run"),
        (
            PAGE.format(commit="abc", command="tests/a.py"),
            {"tests/a.py": ("abc", 1, 0), "tests/b.py": ("abc", 1, 0)},
            "no row",
        ),
    ],
)
def test_a_claim_without_a_passed_run_is_noticed(
    page: str, results: dict[str, tuple[str, int, int]], said: str | None
) -> None:
    """A row with a command needs its result file, passed, of the commit that it shows; one without says that it was not run."""
    kept = {
        command: claims.ClaimResult(commit, "2026-01-31", passed, 0, failed, 1, {})
        for command, (commit, passed, failed) in results.items()
    }
    found = claims.problems(page, kept)
    assert (len(found), said is None or said in found[0]) == (0 if said is None else 1, True), found


def test_every_claim_of_the_page_has_its_result() -> None:
    """What stands in docs/compatibility.md agrees with the result files."""
    assert claims.problems(claims.DOCUMENT.read_text(encoding="utf-8"), claims.kept_results()) == []


def test_a_run_that_was_cut_off_is_no_result(tmp_path: Path) -> None:
    """Pytest writes such a run's test as passed."""
    file = tmp_path / "test_cut_off.py"
    file.write_text("def test_long():\n    raise KeyboardInterrupt\n")
    with pytest.raises(SystemExit, match=r"no result of .*: pytest ended with 2"):
        claims.run(f"{file} -p no:cacheprovider -c /dev/null")
