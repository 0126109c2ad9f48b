"""Writes the table of docs/compatibility.md from the result files of test runs: what was run, on what, with which outcome.

In: JUnit files, each named after what it ran on, such as `python3.11-java17-spark4.1.4.xml`; several runs on the same
things may be told apart by a number, `...xml` and `...-2.xml`. Out: a Markdown table on standard output. A cell is `passed`,
`failed`, `skipped` or `not run`; a row is passed only if every test of it was run there and passed.

    python tests/servers/matrix.py RESULTS... > table.md
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

# What a person asks about, and the tests that answer: a part of the test's full name each.
ROWS = (
    ("Embedded broker and SQLite catalog, local Spark: the whole job", ("test_end_to_end::test_fan_out",)),
    ("Spark standalone, two workers: `floe run`", ("test_standalone_cluster::test_run_on_a_cluster",)),
    (
        "Spark standalone, two workers: `floe submit`, nothing of floe on the nodes",
        ("test_standalone_cluster::test_submit_ships", "test_standalone_cluster::test_the_printed_command"),
    ),
    ("Spark standalone: kill -9 of a worker in mid-batch", ("test_standalone_cluster::test_a_worker_lost",)),
    ("Spark standalone: SIGTERM drains a submitted driver", ("test_standalone_cluster::test_sigterm",)),
    ("YARN, Kubernetes: Spark's own parser takes the command; not run on a cluster", ("test_submit_command::",)),
    ("REST catalog (Iceberg's Java servlet): commits and conflicts", ("test_catalogs::test_c*[rest]",)),
    ("REST catalog: the whole job, killed in a commit", ("test_catalogs::test_exact*[rest]",)),
    ("SQL catalog on PostgreSQL: commits and conflicts", ("test_catalogs::test_c*[postgres]",)),
    ("SQL catalog on PostgreSQL: the whole job, killed in a commit", ("test_catalogs::test_exact*[postgres]",)),
    (
        "S3 store (moto), path style: commits and conflicts",
        ("test_catalogs::test_c*[s3]", "test_catalogs::test_c*[postgres-s3]"),
    ),
    (
        "S3 store (moto), path style: the whole job, killed in a commit",
        ("test_catalogs::test_exact*[s3]", "test_catalogs::test_exact*[postgres-s3]"),
    ),
    (
        "Kafka with TLS, SCRAM and client certificates, least grants",
        ("test_security::test_the_least_set", "test_security::test_each"),
    ),
    ("Kafka with TLS and SCRAM: the whole job", ("test_security::test_a_whole_run",)),
)


def outcomes(file: Path) -> dict[str, str]:
    """`module::test[parameters]` -> its outcome."""
    found: dict[str, str] = {}
    for case in ElementTree.parse(file).iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        kinds = {child.tag for child in case}
        found[name] = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
    return found


def cell(results: dict[str, str], patterns: tuple[str, ...]) -> str:
    """The worst outcome of the tests that the patterns name; each pattern must name one at least."""
    seen: list[str] = []
    for pattern in patterns:
        regex = re.compile(".*".join(map(re.escape, pattern.split("*"))))
        here = [outcome for name, outcome in results.items() if regex.match(name)]
        seen += here or ["not run"]
    return next(outcome for outcome in ("failed", "not run", "skipped", "passed") if outcome in seen)


def table(files: list[Path]) -> str:
    """The Markdown table, a column for each thing that was run on."""
    columns: dict[str, dict[str, str]] = {}
    for file in sorted(files):
        columns.setdefault(re.sub(r"-\d+$", "", file.stem).replace("-", ", "), {}).update(outcomes(file))
    lines = ["| | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    lines += [
        f"| {title} | " + " | ".join(cell(results, tests) for results in columns.values()) + " |"
        for title, tests in ROWS
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(table([Path(name) for name in sys.argv[1:]]))
