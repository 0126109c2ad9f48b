"""The slow tests run in rotation, and none is forgotten."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import reports, turns
from tests.reports import ROOT, TestRun
from tests.shares import PREPARATIONS_S, Result, divide, fitting, run, table, takes_s, with_runs

names = st.lists(st.text("abcdef", min_size=1, max_size=4), max_size=60)


@given(names, st.dictionaries(st.text("abcdef", min_size=1, max_size=4), st.floats(0, 900)), st.integers(1, 20))
def test_every_test_is_in_exactly_one_share(tests: list[str], seconds: dict[str, float], shares: int) -> None:
    """Whatever the durations are, no test is forgotten and none runs twice."""
    divided = divide(tests, seconds, shares)
    assert len(divided) == shares
    assert sorted(test for share in divided for test in share) == sorted(set(tests))


@given(names, st.dictionaries(st.text("abcdef", min_size=1, max_size=4), st.floats(1, 900)), st.integers(1, 20))
def test_no_share_is_much_longer_than_another(tests: list[str], seconds: dict[str, float], shares: int) -> None:
    """Two shares differ by one test at most: the fullest without its shortest test is no fuller than any other."""
    took = [sorted(seconds.get(test, 120.0) for test in share) for share in divide(tests, seconds, shares)]
    fullest = max(took, key=sum)
    assert sum(fullest[1:]) <= min(map(sum, took)) + 1e-6


@given(names, st.integers(0, 30), st.floats(0, 60), st.floats(1, 4))
def test_a_slow_machine_takes_what_fits(tests: list[str], first: int, minutes: float, pace: float) -> None:
    """What is taken fits into the time at the machine's pace, and with time for all of it nothing is left."""
    share, seconds = sorted(set(tests)), dict.fromkeys(tests, 100.0)
    taken = fitting(share, seconds, minutes, pace, first)
    assert set(taken) <= set(share)
    assert len(taken) * 100.0 * pace <= minutes * 60 + 1e-6
    assert fitting(share, seconds, len(share) * 100.0 / 60 + 1, 1.0, first) == share


def test_each_test_of_a_share_has_its_turn() -> None:
    """Where one of three fits, three turns take all three."""
    share = ["a", "b", "c"]
    assert [fitting(share, dict.fromkeys(share, 60.0), 1.0, 1.0, first) for first in (5, 6, 7)] == [["c"], ["a"], ["b"]]


def test_the_longest_come_first_and_an_unknown_one_counts_the_default() -> None:
    """Two shares: the longest alone, the others together; a test that never ran is not taken for a short one."""
    assert divide(["a", "b", "c"], {"a": 300, "b": 100}, 2, default=150) == [["a"], ["b", "c"]]
    assert divide(["a", "b", "c"], {"a": 300, "b": 100}, 2, default=1_000) == [["c"], ["a", "b"]]


def test_what_is_built_for_tests_is_built_in_few_shares() -> None:
    """Tests of one folder that start what takes minutes to build stay in a few shares; what is built is counted once in each,
    and on a machine where it does not fit none of them is taken."""
    built = {f"tests/kubernetes/test_a.py::test_{number}": 60.0 for number in range(9)}
    others = {f"tests/spark/test_b.py::test_{number}": 100.0 for number in range(40)}
    shares = divide([*built, *others], built | others, 8)
    with_built = [share for share in shares if built.keys() & set(share)]
    assert [len(built.keys() & set(share)) for share in with_built] == [3, 3, 3]
    assert takes_s(with_built[0], built | others) >= PREPARATIONS_S["tests/kubernetes/"] + 180
    minutes = (PREPARATIONS_S["tests/kubernetes/"] + 120) / 60
    assert len(fitting([*built], built, minutes, 1.0, 0)) == 2
    assert fitting([*built], built, minutes / 2, 1.0, 0) == []


def test_the_newest_result_holds_and_a_test_that_is_gone_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run's results replace older ones; a skipped test keeps how long it takes; what is no slow test is left out. A test
    that is in no share stands last, with the reason."""
    monkeypatch.setattr("tests.shares.EXCLUDED", {"tests/t.py::z": "of a reason"})
    before = {
        "t.py::a": Result("passed", 7, "1"),
        "t.py::b": Result("passed", 8, "1"),
        "t.py::gone": Result("failed", 9, "1"),
    }
    outcomes = {"t.py::a": "failed", "t.py::b": "skipped", "t.py::quick": "passed"}
    newer = TestRun({"commit": "2"}, outcomes, {}, dict.fromkeys(outcomes, 2.61))
    after = with_runs(before, [newer], ["t.py::a", "t.py::b", "t.py::new"])
    assert after == {"t.py::a": Result("failed", 2.6, "2"), "t.py::b": Result("skipped", 8, "2")}
    assert table(["t.py::a", "t.py::new"], after).splitlines()[2:] == [
        "| `t.py::a` | 1 failed | 3 | `2` |",
        "| `t.py::new` | 1 not run |  |  |",
        "| `t.py::z` | in no share: of a reason | | |",
    ]


def test_every_slow_test_is_in_one_share_and_stands_in_the_document() -> None:
    """Each test marked slow, chaos or packaging runs in one share, no share is too long, docs/reliability.md lists
    all."""
    command = [sys.executable, "-m", "tests.shares", "check"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert answer.returncode == 0, answer.stderr + answer.stdout


@given(names, st.integers(0, 1_000))
def test_every_long_test_has_its_turn(tests: list[str], first: int) -> None:
    """In as many runs as there are turns each long test runs once."""
    every = set(tests)
    runs = [every - turns.of_other_turns(every, first + at) for at in range(turns.TURNS)]
    assert sorted(test for run in runs for test in run) == sorted(every)


def test_the_list_of_long_tests_names_tests_of_the_usual_run() -> None:
    """No line is about a test that is gone, or slow by its own mark."""
    assert set(turns.long_tests()) <= set(reports.collect(only="not (slow or chaos or packaging)"))


@pytest.mark.parametrize(
    ("first", "are_known", "code"),
    [("pass", False, 0), ("pass", True, 1), ("assert False", False, 1), ("assert False", True, 1)],
)
def test_a_guessed_duration_that_was_too_short_is_no_failure(
    tmp_path: Path, first: str, are_known: bool, code: int
) -> None:
    """What was never recorded may take longer than the share has; what failed until then failed, and a test that takes twice as
    long as recorded is one that hangs."""
    file = tmp_path / "test_slow.py"
    file.write_text(f"import time\n\ndef test_first():\n    {first}\n\ndef test_second():\n    time.sleep(60)\n")
    options = ["-p", "no:cacheprovider", "-c", "/dev/null"]
    assert run([*options, str(file)], 0.25, are_known, tmp_path / "results.xml") == code
