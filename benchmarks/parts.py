"""Which part of a deployment ends first as it grows, by what each was measured to cost.

In: records a second, tables, partitions and the commit interval of today. Out: for today and for 10, 100 and 1,000 times
that, what each part has to do beside what one of it can; where that is more than one, how many are needed. Arithmetic alone: the
figures that it rests on are named with their commits, and nothing is run.

    python -m benchmarks.parts --records-per-s 10000 --tables 100 --partitions 12 --interval-s 60
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

FACTORS = (1, 10, 100, 1_000)


@dataclass(frozen=True)
class Load:
    """`tables` are committed once each `interval_s`; records are spread evenly."""

    records_per_s: float
    tables: int
    partitions: int
    interval_s: float

    def grown(self, factor: int, tables: bool) -> Load:
        """More records, from more partitions, for as many tables or for more."""
        more = replace(self, records_per_s=self.records_per_s * factor, partitions=self.partitions * factor)
        return replace(more, tables=self.tables * factor) if tables else more


@dataclass(frozen=True)
class Part:
    """What a part must do, and what one of it can, in one unit.
    `cure` is what helps."""

    name: str
    needed: float
    one_can: float
    unit: str
    source: str
    cure: str = ""

    @property
    def count(self) -> int:
        return max(1, math.ceil(self.needed / self.one_can))


# CPU seconds for a million records: one table, and a thousand that are committed each minute (docs/scaling.md).
CPU_S_PER_MILLION, CPU_S_PER_MILLION_OF_MANY = 1.1, 1.3
# Commits a second of one coordinator on two cores that it shares with broker and catalog: the least seen (docs/scaling.md).
COMMITS_PER_S = 45.0
# Bytes of a file in an announcement, ten columns with bounds; a batch names each partition once.
FILE_BYTES, PARTITION_BYTES = 1_100, 40
# What one partition of a topic takes in a second, by a broker on a disk of these machines: a cautious round figure, not measured.
LOG_BYTES_PER_S = 10_000_000.0
MOST_FILES_OF_A_BATCH = 25_000  # docs/decisions/0066-batch-size.md
MOST_PARTITIONS = 5_000  # of a pipeline, the most that was run (f2914b5b)


def parts(load: Load) -> Iterator[Part]:
    per_million = CPU_S_PER_MILLION if load.tables < 100 else CPU_S_PER_MILLION_OF_MANY
    cores = load.records_per_s * per_million / 1e6
    tasks = max(1, math.ceil(cores))
    commits_per_s = load.tables / load.interval_s
    files = load.tables * tasks
    control = (files * FILE_BYTES + load.partitions * PARTITION_BYTES) / load.interval_s
    yield Part("executors", cores, 1.0, "cores", "docs/scaling.md", "more cores; tasks share nothing")
    yield Part(
        "driver", files, MOST_FILES_OF_A_BATCH, "files a batch", "decision 0066",
        "distribution: hash writes one file for each table, not one for each task; or several pipelines",
    )  # fmt: skip
    yield Part(
        "partitions of a pipeline", load.partitions, MOST_PARTITIONS, "partitions", "f2914b5b",
        "several pipelines",
    )  # fmt: skip
    yield Part(
        "coordinator", commits_per_s, COMMITS_PER_S, "commits/s", "1f4c1b48",
        "a longer interval, or several control topics with a coordinator each",
    )  # fmt: skip
    yield Part(
        "control topic", control, LOG_BYTES_PER_S, "bytes/s", "1.1 kB a file",
        "distribution: hash, a longer interval, or several control topics",
    )  # fmt: skip


def table(load: Load, grow_tables: bool) -> Iterator[str]:
    yield f"| part | {' | '.join(f'{factor:,} times' for factor in FACTORS)} | what helps |"
    yield f"|---|{'---|' * len(FACTORS)}---|"
    by_factor = [list(parts(load.grown(factor, grow_tables))) for factor in FACTORS]
    for row in zip(*by_factor, strict=True):
        cells = [
            f"{_figure(each.needed)} of {_figure(each.one_can)}" + (f", {each.count:,}" if each.count > 1 else "")
            for each in row
        ]
        yield f"| {row[0].name}, {row[0].unit} | {' | '.join(cells)} | {row[0].cure} |"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def first_to_end(load: Load, grow_tables: bool) -> str | None:
    """The part that is the first of which one is not enough, executors aside, of which nobody has one alone."""
    for factor in FACTORS:
        over = [each for each in parts(load.grown(factor, grow_tables)) if each.count > 1 and each.name != "executors"]
        if over:
            worst = max(over, key=lambda each: each.needed / each.one_can)
            return f"{worst.name}, at {factor:,} times"
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--records-per-s", type=float, default=10_000)
    parser.add_argument("--tables", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=12)
    parser.add_argument("--interval-s", type=float, default=60)
    options = parser.parse_args()
    load = Load(options.records_per_s, options.tables, options.partitions, options.interval_s)
    for grow_tables, words in ((False, "more records for the same tables"), (True, "as many more tables")):
        print(f"With {words}, the first to end is: {first_to_end(load, grow_tables) or 'none'}.\n")
        print("\n".join(table(load, grow_tables)), end="\n\n")


if __name__ == "__main__":
    main()
