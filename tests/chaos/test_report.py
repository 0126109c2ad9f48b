"""The reliability document says what the tests show, and no reported failure is left out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.chaos.failures import FAILURES
from tests.chaos.report import ROOT
from tests.reports import read_runs


def test_every_failure_has_a_test_or_a_reason_and_the_document_says_so() -> None:
    """F01 to F123: each has tests that exist, or a reason why it cannot occur, and docs/reliability.md lists them."""
    assert list(FAILURES) == [f"F{number:02}" for number in range(1, 124)]
    command = [sys.executable, "-m", "tests.chaos.report", "--check"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert answer.returncode == 0, answer.stderr + answer.stdout


def test_a_test_in_a_class_is_found_in_the_results(tmp_path: Path) -> None:
    """A result of a test in a class has the id by which the test is collected."""
    file = tmp_path / "results.xml"
    case = '<testcase classname="tests.protocol.test_histories.TestProtocol" name="runTest" time="1"/>'
    file.write_text(f"<testsuites><testsuite>{case}</testsuite></testsuites>")
    [run] = read_runs([file])
    assert run.outcomes == {"tests/protocol/test_histories.py::TestProtocol::runTest": "passed"}
