"""Writes the tables of docs/compatibility.md: `python -m tests.compatibility JUNIT.xml ...`, or `--check`.

In: JUnit files of test runs, which say what they ran on (tests/conftest.py); those of `tests.versions` took fewer
flights. Out: what was run in which place, and on which versions, between the two comments of the document. A row has
passed only if every test of it was run and passed; what no file holds is `not run`. `--check`: exit code 1 when a row
names no test, or the document lacks it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests import reports
from tests.reports import ROOT, TestRun

DOCUMENT = ROOT / "docs" / "compatibility.md"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
FOLDERS = ("tests/spark", "tests/kafka/test_security.py", "tests/iceberg/test_catalogs.py")
FLIGHTS = "tests/spark/test_flights.py::test_every_flight_lands_once"
CLUSTER = "tests/spark/test_standalone_cluster.py::"
CATALOGS = "tests/iceberg/test_catalogs.py::"
SECURITY = "tests/kafka/test_security.py::"
EXACT = "every flight once, read back by PyIceberg, Spark and Java"

# What a person asks about, and the tests that answer: the beginning of a test's id, or the id up to `*` and behind it.
ROWS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (f"Embedded broker, SQLite, local Spark: {EXACT}", (f"{FLIGHTS}[embedded]",)),
    (f"Spark standalone, two workers, `floe submit`: {EXACT}", (f"{FLIGHTS}[cluster]",)),
    (
        f"REST catalog (Iceberg's Java servlet) with S3 store (moto), partitions by month: {EXACT}",
        (f"{FLIGHTS}[rest_s3]",),
    ),
    (f"SQL catalog on PostgreSQL: {EXACT}", (f"{FLIGHTS}[postgres]",)),
    (f"Kafka with TLS, SCRAM and the least grants: {EXACT}", (f"{FLIGHTS}[secured]",)),
    ("Spark standalone: `floe run`, the nodes' own Python", (f"{CLUSTER}test_run_on_a_cluster",)),
    (
        "Spark standalone: `floe submit`, nothing of floe on the nodes",
        (f"{CLUSTER}test_submit_ships", f"{CLUSTER}test_the_printed_command"),
    ),
    ("Spark standalone: kill -9 of a worker in mid-batch", (f"{CLUSTER}test_a_worker_lost",)),
    ("Spark standalone: SIGTERM drains a submitted driver", (f"{CLUSTER}test_sigterm",)),
    ("`floe deploy` of a folder: new, changed, gone", ("tests/spark/test_deploy.py::",)),
    (
        "Kubernetes in cluster mode: Spark's own parser takes the command; not run on a cluster",
        ("tests/spark/test_submit_command.py::",),
    ),
    *(
        (f"{place}: {what}", tuple(f"{CATALOGS}test_{test}*[{name}]" for name in names))
        for place, names in (
            ("REST catalog", ("rest", "rest-s3")),
            ("SQL catalog on PostgreSQL", ("postgres",)),
            ("S3 store (moto), path style", ("s3", "rest-s3")),
        )
        for what, test in (("commits and conflicts", "c"), ("killed in a commit, then exact", "exact"))
    ),
    (
        "Kafka with TLS, SCRAM and client certificates: each grant is needed, teams are kept apart",
        tuple(f"{SECURITY}test_{name}" for name in ("the_least_set", "each", "a_replay_needs", "two_teams")),
    ),
)
PYTHONS, JAVAS, SPARKS = ("3.10", "3.11", "3.12", "3.13"), ("17", "21", "25"), ("4.0", "4.1")
REFUSED_JAVAS = {"25": "refused by name (`FLOE-E021`)"}


def matching(pattern: str, tests: Iterable[str]) -> list[str]:
    regex = re.compile(".*".join(map(re.escape, pattern.split("*"))))
    return [test for test in tests if regex.match(test)]


def problems(tests: Sequence[str], document: str) -> list[str]:
    """Rows that name no test, and rows that the document lacks."""
    found = [f"no test is {each}" for _, patterns in ROWS for each in patterns if not matching(each, tests)]
    return found + [f"docs/compatibility.md lacks: {title}" for title, _ in ROWS if f"| {title} |" not in document]


# ---- places ---------------------------------------------------------------------------------------------------------


def places(runs: Sequence[TestRun]) -> str:
    """A column for each platform; runs on the same platform are one, and the later file of two holds."""
    columns: dict[str, list[TestRun]] = {}
    for run in runs:
        columns.setdefault(platform_text(run.platform), []).append(run)
    lines = ["| | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    lines += [
        f"| {title} | " + " | ".join(_cell(patterns, _merged(of)) for of in columns.values()) + " |"
        for title, patterns in ROWS
    ]
    return "\n".join(lines) + "\n"


def platform_text(platform: Mapping[str, str]) -> str:
    return f"Python {platform['python']}, Java {platform['java']}, Spark {platform['spark']}"


def _merged(runs: Iterable[TestRun]) -> TestRun:
    outcomes: dict[str, str] = {}
    properties: dict[str, Mapping[str, str]] = {}
    for run in runs:
        outcomes.update(run.outcomes)
        properties.update(run.properties)
    return TestRun({}, outcomes, properties)


def _cell(patterns: Sequence[str], run: TestRun) -> str:
    """The worst outcome of the tests that the patterns name, each of which must name one; and what a test counted."""
    named = [matching(pattern, run.outcomes) for pattern in patterns]
    outcome = reports.worst(run.outcomes[test] for tests in named for test in tests) if all(named) else "not run"
    counted = [run.properties.get(test, {}) for tests in named for test in tests]
    return outcome + _counts(counted[0]) if outcome == "passed" and len(counted) == 1 else outcome


def _counts(properties: Mapping[str, str]) -> str:
    if "flights" not in properties:
        return ""
    return f": {int(properties['flights']):,} flights, {properties['tables']} tables"


# ---- versions -------------------------------------------------------------------------------------------------------


def versions(runs: Sequence[TestRun]) -> str:
    """A row for each Spark and Python, with the unit tests and, for each Java, the job."""
    lines = [
        "| Spark | Python | unit tests | " + " | ".join(f"the job, Java {java}" for java in JAVAS) + " |",
        "|---|---|---|" + "---|" * len(JAVAS),
    ]
    for spark in SPARKS:
        for python in PYTHONS:
            of = [run for run in runs if (_minor(run, "spark"), _minor(run, "python")) == (spark, python)]
            jobs = [REFUSED_JAVAS.get(java) or _job(of, java) for java in JAVAS]
            lines.append(
                f"| {_exact(of, 'spark', spark)} | {_exact(of, 'python', python)} | {_unit(of)} | {' | '.join(jobs)} |"
            )
    return "\n".join(lines) + "\n"


def _minor(run: TestRun, name: str) -> str:
    return ".".join(run.platform[name].split(".")[:2])


def _exact(runs: Sequence[TestRun], name: str, otherwise: str) -> str:
    return next((run.platform[name] for run in runs), otherwise)


def _job(runs: Sequence[TestRun], java: str) -> str:
    return _cell([f"{FLIGHTS}[embedded]"], _merged(run for run in runs if run.platform["java"] == java))


def _unit(runs: Sequence[TestRun]) -> str:
    outcomes = [o for test, o in _merged(runs).outcomes.items() if test.startswith("tests/unit/")]
    counts = ((each, outcomes.count(each)) for each in reports.OUTCOMES)
    return ", ".join(f"{count:,} {outcome}" for outcome, count in counts if count) or "not run"


def main(arguments: list[str]) -> int:
    before = DOCUMENT.read_text(encoding="utf-8")
    if "--check" in arguments:
        found = problems(list(reports.collect(folders=FOLDERS)), before)
        print("\n".join(found), file=sys.stderr)
        return 1 if found else 0
    runs = reports.read_runs(map(Path, arguments))
    unknown = [
        file for file, run in zip(arguments, runs, strict=True) if not {"python", "java", "spark"} <= set(run.platform)
    ]
    if unknown:
        raise SystemExit(f"these files do not say what they were made on: {', '.join(unknown)}")
    whole = [run for run in runs if "flights" not in run.platform]
    some = [run for run in runs if "flights" in run.platform]
    taken = ", ".join(sorted({f"{int(run.platform['flights']):,}" for run in some}))
    first = f", with the first {taken} records of each topic" if taken else ""
    content = f"{places(whole)}\nOn other versions{first}:\n\n{versions(some)}"
    DOCUMENT.write_text(reports.replace_part(before, BEGIN, END, content), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
