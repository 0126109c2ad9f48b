"""What a million records cost from bytes to rows of a table, in processor seconds: clean ones, and 1 % bad ones of each
kind.

`python -m benchmarks.decode_cost [--records N] [--repeats N]` prints medians and ratios to the clean run. One process
and one core; neither Kafka nor a table is involved. Processor time, so that a busy machine shows less.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import time
from collections.abc import Callable

import pyarrow as pa
from pyiceberg.types import IcebergType, LongType, MapType, StringType

from framework.config.spec import FieldHint
from framework.record.process import process_block
from testbed.record_samples import block, plan, target

Record = dict[str, object]
ISO = FieldHint("at", "timestamptz", format="%Y-%m-%d %H:%M:%S", zone="UTC")
LOCAL = FieldHint("at", "timestamptz", format="%d/%b/%Y:%H:%M:%S %z")
COLUMNS: dict[str, str | IcebergType] = {
    "id": "long",
    "store": "int",
    "at": "timestamptz",
    "name": "string",
    "price": "decimal(8, 2)",
    "paid": "boolean",
}
MAP = MapType(106, StringType(), 107, LongType(), value_required=False)
SHARE = 0.01


def records(count: int) -> list[Record]:
    made = random.Random(1)
    return [
        {
            "id": i,
            "store": made.randrange(500),
            "at": f"2024-01-{made.randrange(1, 29):02} {made.randrange(24):02}:{i % 60:02}:{made.randrange(60):02}",
            "name": made.choice(["margherita", "funghi", "salami"]),
            "price": made.randrange(500, 3000) / 100,
            "paid": made.random() < 0.9,
        }
        for i in range(count)
    ]


def with_bad(rows: list[Record], spoil: Callable[[Record], bytes]) -> list[bytes]:
    chosen = random.Random(2)
    return [spoil(dict(row)) if chosen.random() < SHARE else text(row) for row in rows]


def text(row: Record) -> bytes:
    return json.dumps(row, separators=(",", ":")).encode()


def cases(count: int) -> dict[str, tuple[list[bytes], FieldHint, dict[str, str | IcebergType]]]:
    rows = records(count)
    clean = [text(row) for row in rows]
    spoilers: dict[str, Callable[[Record], bytes]] = {
        "1 % text for a number": lambda row: text(row | {"id": "abc"}),
        "1 % a list for text": lambda row: text(row | {"name": [1]}),
        "1 % text for a boolean": lambda row: text(row | {"paid": "maybe"}),
        "1 % too many digits": lambda row: text(row | {"price": 1.005}),
        "1 % no date": lambda row: text(row | {"at": "yesterday"}),
        "1 % cut off": lambda row: text(row)[:-1],
        "1 % broken inside": lambda row: text(row).replace(b",", b" ", 1),
        "1 % no UTF-8": lambda row: text(row).replace(b"margherita", b"\xff").replace(b"funghi", b"\xff"),
    }
    found = {"clean": (clean, ISO, COLUMNS), "one bad in a block": ([*clean[:-1], clean[-1][:-1]], ISO, COLUMNS)}
    found |= {name: (with_bad(rows, spoil), ISO, COLUMNS) for name, spoil in spoilers.items()}
    stamped = [
        row | {"at": f"{i % 28 + 1:02}/Jan/2024:{i // 3600 % 24:02}:00:{i % 60:02} +0100"} for i, row in enumerate(rows)
    ]
    found["times of a declared format"] = ([text(row) for row in stamped], LOCAL, COLUMNS)
    mapped = [row | {"m": {"a": 1, "b": i, f"c{i % 7}": 3}} for i, row in enumerate(rows)]
    found["a map column"] = ([text(row) for row in mapped], ISO, COLUMNS | {"m": MAP})
    return found


def cost(
    values: list[bytes], hint: FieldHint, columns: dict[str, str | IcebergType], repeats: int
) -> tuple[float, int]:
    """Processor seconds for a million records (the median), and how many became dead letters."""
    tables, pipeline = {"ns.t": target(columns=columns)}, plan(hints=[hint])
    times = []
    for _ in range(repeats + 1):  # the first warms up
        made = block(values)
        begun = time.process_time()
        result = process_block(made, pipeline, tables)
        times.append(time.process_time() - begun)
    return statistics.median(times[1:]) / len(values) * 1e6, len(result.dead_letters)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    pa.set_cpu_count(1)
    clean = 0.0
    made = cases(given.records)
    gc.freeze()  # what is kept for the measurement is no part of it
    for name, (values, hint, columns) in made.items():
        seconds, letters = cost(values, hint, columns, given.repeats)
        clean = clean or seconds
        print(f"{name:<28} {seconds:6.2f} s/M  {seconds / clean:5.2f}x  {letters:>6,} dead letters of {len(values):,}")


if __name__ == "__main__":
    main()
