"""Tests of the usual run that take turns: each runs in one of four, chosen by the number of commits.

In: `tests/long_tests.txt`, a test a line: what took over five seconds in a run. Out: which tests a run with `--turn N` leaves
to other turns. Without the option nothing is left out. The fastest way to see a mistake stays in every run: `ALWAYS`.

    python -m tests.turns JUNIT.xml ...   the list made anew from results (`pytest --junit-xml`)
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests import reports

TURNS = 4
LONG_S = 5.0
LIST = Path(__file__).with_name("long_tests.txt")
# A table is filled, and filled through kills, and read by Spark: in every run.
ALWAYS = (
    "tests/chaos/test_crashes.py::test_killed_at_every_point_of_its_first_batch",
    "tests/iceberg/test_spark_reads.py::",
    "tests/spark/test_end_to_end.py::",
)


def long_tests() -> list[str]:
    return LIST.read_text(encoding="utf-8").splitlines()


def of_other_turns(long: Iterable[str], turn: int) -> frozenset[str]:
    """The long tests that run in another turn than this one. They are dealt out in their order, so that those of one
    file, which are alike, are in different turns."""
    return frozenset(test for at, test in enumerate(sorted(long)) if at % TURNS != turn % TURNS)


def found_long(seconds: Mapping[str, float], candidates: Iterable[str]) -> list[str]:
    """Which of these tests took long; one that was not run is as it was."""
    known = set(long_tests())
    return sorted(
        test
        for test in candidates
        if (seconds[test] >= LONG_S if test in seconds else test in known) and not test.startswith(ALWAYS)
    )


def main(junit: list[str]) -> int:
    seconds: dict[str, float] = {}
    for run in reports.read_runs(Path(file) for file in junit):
        seconds.update(run.seconds)
    long = found_long(seconds, reports.collect(only="not (slow or chaos or packaging)"))
    LIST.write_text("".join(f"{test}\n" for test in long), encoding="utf-8")
    print(f"{len(long)} tests take turns")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
