"""Slow tests in rotation: each run of CI takes one share of them beside the rest, chosen by the number of commits.

In: the collected tests that are marked slow, chaos or packaging, and `tests/slow_results.json`, which holds each one's
last result, duration and commit. Out: the shares, each test in exactly one; a run of one share; the table of
docs/reliability.md.

    python -m tests.shares list                 the shares and how long they take
    python -m tests.shares run [--share N]      one share, by default the one whose turn it is
    python -m tests.shares record JUNIT.xml ... results into the file and the document, by people: CI cannot commit
    python -m tests.shares check                every such test in one share, the document up to date
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tests import reports
from tests.reports import ROOT

DOCUMENT = ROOT / "docs" / "reliability.md"
RESULTS = ROOT / "tests" / "slow_results.json"
JUNIT = ROOT / "build" / "slow-share.xml"
BEGIN, END = "<!-- slow: begin -->", "<!-- slow: end -->"

MARKS = "slow or chaos or packaging"
# Two weeks of landings are about so many runs; what was never recorded counts two minutes, so fewer will do one day.
SHARES = 48
# What a test counts that was never recorded.
DEFAULT_S = 120.0
# One share has this long; with the rest of CI beside it, all stays within 40 minutes.
MINUTES = 20.0
# As many of the 200 kills as 8 minutes hold; outages under the interval for which their bound was measured. What each
# variable does stands in docs/reliability.md.
FORMS = {"FLOE_CHAOS_MINUTES": "8", "FLOE_CHAOS_NEIGHBOURS_MINUTES": "8", "FLOE_CHAOS_OUTAGE_S": "240"}
# In that form they take about so long, whatever they took when they were run whole.
FORM_S = {
    "tests/chaos/test_maintained_tables.py::test_tables_are_kept_healthy_through_deaths_and_beside_others": 500.0,
    "tests/chaos/test_neighbours.py::test_tables_among_neighbours_for_an_hour": 800.0,
    "tests/chaos/test_random_kills.py::test_two_hundred_random_kills": 600.0,
    "tests/chaos/test_long_outages.py::test_fifteen_intervals_without_catalog_broker_and_storage": 900.0,
}
# Folder of tests -> how long it takes to build what they start, where it was not built before: Kubernetes, etcd and Helm, on
# two cores. These tests are in so many shares, each of which builds.
PREPARATIONS_S = {"tests/kubernetes/": 550.0}
PARTS = 3
# Test, without its parameters -> why it is in no share.
EXCLUDED: dict[str, str] = {}


@dataclass(frozen=True)
class Result:
    """How a test ended when it last ran."""

    outcome: str
    seconds: float
    commit: str


def divide(
    tests: Iterable[str], seconds: Mapping[str, float], shares: int = SHARES, default: float = DEFAULT_S
) -> list[list[str]]:
    """Every test in exactly one share: the longest first, each into the share that is least full so far. Tests that are
    prepared for stay together, in `PARTS` of the shares."""
    alone = {(test,): seconds.get(test, default) for test in tests}
    units = {unit: took for unit, took in alone.items() if preparation_of(unit[0]) is None}
    for folder, preparation_s in PREPARATIONS_S.items():
        together = {unit: took for unit, took in alone.items() if preparation_of(unit[0]) == folder}
        parts = [tuple(part) for part in _evenly(together, PARTS) if part]
        units |= {part: preparation_s + sum(alone[(test,)] for test in part) for part in parts}
    return _evenly(units, shares)


def _evenly(units: Mapping[tuple[str, ...], float], count: int) -> list[list[str]]:
    found: list[list[str]] = [[] for _ in range(count)]
    full = [0.0] * count
    for unit in sorted(units, key=lambda unit: (-units[unit], unit)):
        least = full.index(min(full))
        found[least] += unit
        full[least] += units[unit]
    return [sorted(share) for share in found]


def preparation_of(test: str) -> str | None:
    """The folder of tests for which something is built."""
    return next((folder for folder in PREPARATIONS_S if test.startswith(folder)), None)


def takes_s(share: Iterable[str], seconds: Mapping[str, float]) -> float:
    """How long these tests take, with what is built for them."""
    tests = list(share)
    built = {folder for test in tests if (folder := preparation_of(test)) is not None}
    return sum(seconds.get(test, DEFAULT_S) for test in tests) + sum(PREPARATIONS_S[folder] for folder in built)


def read_results() -> dict[str, Result]:
    held = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}
    return {test: Result(**result) for test, result in held.items()}


def with_runs(
    results: Mapping[str, Result], runs: Iterable[reports.TestRun], tests: Iterable[str]
) -> dict[str, Result]:
    """The results of these tests, those of the runs over those that were known. A test that was skipped keeps its
    duration."""
    found = dict(results)
    wanted = set(tests)
    for run in runs:
        commit = run.platform.get("commit", "?")
        for test in sorted(wanted & set(run.outcomes)):
            outcome, known = run.outcomes[test], found.get(test)
            seconds = known.seconds if known is not None and outcome == "skipped" else round(run.seconds[test], 1)
            found[test] = Result(outcome, seconds, commit)
    return {test: found[test] for test in sorted(wanted & set(found))}


def table(tests: Iterable[str], results: Mapping[str, Result]) -> str:
    """The Markdown table: one line a test, its parameters together."""
    lines = ["| test | result | seconds | commit |", "|---|---|---|---|"]
    by_name: dict[str, list[str]] = {}
    for test in sorted(tests):
        by_name.setdefault(test.partition("[")[0], []).append(test)
    for name, group in by_name.items():
        known = [results[test] for test in group if test in results]
        counts = {
            kind: sum(results[test].outcome == kind if test in results else kind == "not run" for test in group)
            for kind in ("passed", "failed", "skipped", "not run")
        }
        said = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
        commits = ", ".join(sorted({f"`{result.commit}`" for result in known}))
        seconds = f"{sum(result.seconds for result in known):.0f}" if known else ""
        lines.append(f"| `{name.removeprefix('tests/')}` | {said} | {seconds} | {commits} |")
    lines += [f"| `{name.removeprefix('tests/')}` | in no share: {reason} | | |" for name, reason in EXCLUDED.items()]
    return "\n".join(lines) + "\n"


def slow_tests() -> list[str]:
    """Every test that is in no ordinary run, but for those that are in no share."""
    return [test for test in reports.collect(only=MARKS) if test.partition("[")[0] not in EXCLUDED]


def durations(results: Mapping[str, Result]) -> dict[str, float]:
    """How long tests take in a share."""
    return {test: FORM_S.get(test, result.seconds) for test, result in results.items()}


def commits() -> int:
    """The number of commits, by which it is a share's turn."""
    answer = subprocess.run(
        ["git", "rev-list", "--count", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return int(answer.stdout)


def fitting(share: list[str], seconds: Mapping[str, float], minutes: float, pace: float, first: int) -> list[str]:
    """What of a share fits into the time, on a machine that takes `pace` times as long as the one of the recorded
    durations. The beginning moves on with `first`, so that on a machine that is always slow each test has its turn."""
    begin = first % len(share) if share else 0
    taken: list[str] = []
    for test in (*share[begin:], *share[:begin]):
        if takes_s([*taken, test], seconds) * pace <= minutes * 60:
            taken.append(test)
    return sorted(taken)


def run(share: list[str], minutes: float, are_known: bool, junit: Path = JUNIT) -> int:
    """pytest's exit code; 1 when the time was over, after what was started has been stopped again.

    Args:
        are_known: False: how long some of these tests take was never recorded, and was guessed. Then a time that is over is no
            failure, where no test failed until then.
    """
    junit.parent.mkdir(exist_ok=True)
    junit.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", f"--junit-xml={junit}", *share]
    with subprocess.Popen(command, cwd=ROOT, env={**FORMS, **os.environ}) as process:
        try:
            return process.wait(minutes * 60)
        except subprocess.TimeoutExpired:
            print(f"the share of the slow tests took more than {minutes:.0f} minutes", file=sys.stderr, flush=True)
            process.send_signal(signal.SIGINT)
        try:
            process.wait(120)
        except subprocess.TimeoutExpired:
            process.kill()
        stopped_early = not are_known and junit.exists() and "failed" not in _outcomes_before_the_end(junit)
        return 0 if stopped_early else 1


def _outcomes_before_the_end(junit: Path) -> set[str]:
    return set(reports.read_runs([junit])[0].outcomes.values())


def problems(tests: list[str], results: Mapping[str, Result]) -> list[str]:
    """What is wrong with the shares or the document."""
    everything = reports.collect(only=MARKS)
    seconds = durations(results)
    shares = divide(tests, seconds)
    found = [f"in {count} shares: {test}" for test in tests if (count := sum(s.count(test) for s in shares)) != 1]
    names = {test.partition("[")[0] for test in everything}
    found += [f"{name} is in no share and does not exist" for name in EXCLUDED if name not in names]
    for number, share in enumerate(shares):
        took = takes_s(share, seconds)
        if took > MINUTES * 60:
            found.append(f"share {number} takes {took / 60:.0f} minutes: more than {MINUTES:.0f}")
    before = DOCUMENT.read_text(encoding="utf-8")
    if reports.replace_part(before, BEGIN, END, table(tests, results)) != before:
        found.append("docs/reliability.md is out of date; run: python -m tests.shares record")
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.shares", description=__doc__)
    parser.add_argument("what", choices=["list", "run", "record", "check"])
    parser.add_argument("junit", nargs="*", type=Path, help="of runs with --junit-xml")
    parser.add_argument("--share", type=int, help=f"0 to {SHARES - 1}")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="only what fits into them")
    parser.add_argument("--pace", type=float, default=1.0, help="how many times as long this machine takes")
    given = parser.parse_args(arguments)
    tests, results = slow_tests(), read_results()
    if given.what == "check":
        found = problems(tests, results)
        print("\n".join(found), file=sys.stderr)
        return 1 if found else 0
    if given.what == "record":
        results = with_runs(results, reports.read_runs(given.junit), tests)
        held = {test: asdict(result) for test, result in results.items()}
        RESULTS.write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")
        text = reports.replace_part(DOCUMENT.read_text(encoding="utf-8"), BEGIN, END, table(tests, results))
        DOCUMENT.write_text(text, encoding="utf-8")
        print(f"{len(results)} results of {len(tests)} tests")
        return 0
    seconds = durations(results)
    shares = divide(tests, seconds)
    count = commits()
    wanted = count % SHARES if given.share is None else given.share
    if given.what == "run":
        share = shares[wanted]
        taken = fitting(share, seconds, given.minutes, given.pace, count // SHARES)
        print(f"share {wanted} of {SHARES}: {len(taken)} of {len(tests)} slow tests", flush=True)
        for test in sorted(set(share) - set(taken)):
            print(f"  left for another run, does not fit into {given.minutes:.0f} minutes here: {test}", flush=True)
        # Half as long again: a machine may become slower meanwhile. Nothing to run is nothing that failed.
        return run(taken, 1.5 * given.minutes, set(taken) <= seconds.keys()) if taken else 0
    for number, share in enumerate(shares):
        took = takes_s(share, seconds)
        print(f"share {number}: {took / 60:.1f} minutes" + (", whose turn it is" if number == count % SHARES else ""))
        print("".join(f"  {test}\n" for test in share), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
