"""The fuzzer as a command: `python -m tests.fuzz.run --documents 1000000 --seed 1`."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from pyiceberg.schema import Schema

from framework.adapters.parquet.files import TableWriter
from framework.table.schema.arrow import parse_schema
from testbed.record_samples import target
from tests.fuzz.documents import Writer
from tests.fuzz.evolve import check_evolve
from tests.fuzz.report import Report
from tests.fuzz.streams.connect import check_connect
from tests.fuzz.streams.envelopes import check_enveloped
from tests.fuzz.streams.landed import SparkReader, in_tables
from tests.fuzz.streams.names import check_names
from tests.fuzz.streams.wrapped import check_wrapped
from tests.fuzz.typed import check_typed
from tests.fuzz.ways import check_block

# Of each twenty blocks of documents so many are of other kinds.
OTHERS: dict[int, Callable[[int, int], Report]] = {
    3: check_connect,
    7: partial(check_typed, "avro"),
    10: partial(check_typed, "avro"),
    13: partial(check_typed, "protobuf"),
    5: check_evolve,
    15: check_evolve,
    14: check_names,
    9: check_wrapped,
    16: check_wrapped,
    2: check_enveloped,
    12: check_enveloped,
    18: check_enveloped,
}
DOCUMENT = Path(__file__).parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- fuzz: begin -->", "<!-- fuzz: end -->"


def run(documents: int, seed: int, most: int = 1000, show: bool = False, spark: SparkReader | None = None) -> Report:
    """Blocks until there are so many documents; block n has the seed `seed + n`. Spark reads the tables of one block in fifty of
    each family."""
    report, number, began, reported = Report(), 0, time.monotonic(), 0.0
    while report.documents < documents:
        # What matters is how many tables there are as much as how many records stand beside each other.
        wide = most if number % 10 == 0 else min(most, 40)
        most_now, own = min(wide, documents - report.documents), seed + number
        known = len(report.faults)
        kind = number % 20
        block = OTHERS[kind](own, most_now) if kind in OTHERS else check_block(Writer(own).block(most_now), own)
        report.add(block)
        report.add(written(block, own))
        if spark is not None and block.is_clean and spark.is_due(family_of(block, kind)):
            report.add(spark.check(block, own))
        number += 1
        for what, its_seed, text in (
            report.faults[known:] if show else ()
        ):  # as soon as it is found: a run takes its time
            print(f"--- {what}, seed {its_seed}\n{text}", flush=True)
        if show and time.monotonic() - reported > 10:
            reported = time.monotonic()
            print(
                f"{report.documents:,} documents in {number:,} blocks, {reported - began:.0f} s: {report.wrong} wrong,"
                f" {report.disagreements} disagreements, {report.uncaught} uncaught",
                file=sys.stderr,
                flush=True,
            )
    return report


def written(block: Report, seed: int) -> Report:
    """The rows of a block's tables as files: none of them stops the task that writes them."""
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        for landed in block.landed:
            fields = in_tables(parse_schema(landed.schema_json).fields)
            table = target(landed.table, schema=Schema(*fields))
            writer = TableWriter({"default": {}}, "p", "run", 1, 1 << 28, 1 << 28)
            try:
                writer.add(
                    replace(table, location=f"file://{folder}"), landed.rows.select([each.name for each in fields])
                )
                files = writer.finish().get(landed.table, [])
                assert sum(file.record_count for file in files) == len(landed.rows)
            except Exception:
                report.uncaught += 1
                report.faults.append((f"uncaught files of {landed.family}", seed, traceback.format_exc()))
    return report


def family_of(block: Report, kind: int) -> str:
    names = [*(each.family for each in block.landed), *(each.name for each in block.streams)]
    return names[0] if names else f"nothing of {kind}"


def summary(report: Report, seed: int, commit: str) -> str:
    """The report as Markdown."""
    ways = list(report.rows)
    kinds = sorted({kind for _, kind in report.values})
    lines = [
        f"{report.documents:,} documents, seed {seed}, commit {commit}: {report.wrong} wrong, "
        f"{report.disagreements} disagreements, {report.uncaught} uncaught.",
        *_read_back(report),
        "",
        "| values of type | " + " | ".join(ways) + " |",
        "|---|" + "---|" * len(ways),
        *(f"| `{kind}` | " + " | ".join(f"{report.values[way, kind]:,}" for way in ways) + " |" for kind in kinds),
        "| rows | " + " | ".join(f"{report.rows[way]:,}" for way in ways) + " |",
        "| dead letters | " + " | ".join(f"{report.refused[way]:,}" for way in ways) + " |",
    ]
    return "\n".join(lines)


def _read_back(report: Report) -> list[str]:
    if not report.read_back:
        return []
    families = ", ".join(f"{name} {count:,}" for name, count in sorted(report.read_back.items()))
    return ["", f"Spark read {report.read_back.total():,} tables of them back: {families}."]


def commit() -> str:
    """The commit that is run, with `+` where files differ from it."""
    said = [
        subprocess.run(["git", *words], cwd=DOCUMENT.parent, capture_output=True, text=True).stdout.strip()
        for words in (("rev-parse", "--short", "HEAD"), ("status", "--porcelain", "--untracked-files=no"))
    ]
    return said[0] + ("+" if said[1] else "")


def record(report: Report, seed: int, head: str) -> None:
    """Put the report into the document, between its marks."""
    before, _, rest = DOCUMENT.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    DOCUMENT.write_text(f"{before}{BEGIN}\n{summary(report, seed, head)}\n{END}{after}")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--documents", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true", help="write the report into docs/reliability.md")
    parser.add_argument("--most", type=int, default=1000)
    parser.add_argument("--spark", action="store_true", help="let Spark read the tables of one block in fifty")
    given = parser.parse_args()
    began, head = time.monotonic(), commit()
    if given.spark:
        with tempfile.TemporaryDirectory() as folder, SparkReader(Path(folder)) as spark:
            report = run(given.documents, given.seed, given.most, show=True, spark=spark)
    else:
        report = run(given.documents, given.seed, given.most, show=True)
    print(
        f"{report.documents} documents, {time.monotonic() - began:.0f} s, wrong {report.wrong}, "
        f"disagreements {report.disagreements}, uncaught {report.uncaught}, "
        f"refused {dict(report.refused)}, rows {dict(report.rows)}, read by Spark {dict(report.read_back)}"
    )
    if given.record:
        record(report, given.seed, head)
    return 0 if report.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
