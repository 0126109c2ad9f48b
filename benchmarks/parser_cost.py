"""What each parser of JSON costs, in processor seconds for a million records: the strict one alone, Arrow's, the compiled
one, and the compiled one where the strict one takes all that it leaves.

`python -m benchmarks.parser_cost [--records N] [--repeats N]` prints the least of the repeats. One process and one core;
neither Kafka nor a table is involved. The ways take turns, so that what else the machine does meets all of them.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pyarrow as pa
from pyiceberg.types import IcebergType

from framework.config.spec import EvolveMode
from framework.plan.model import Plan
from framework.record.arrays import Ints
from framework.record.json import compiled as compiled_json
from framework.record.json import maps
from framework.record.json.framing import JoinedRecords, ParsedRows
from framework.record.model import BlockResult, RecordBlock, TableTarget
from framework.record.process import process_block
from testbed.record_samples import alone, block, plan, policy, target

Tables = dict[str, TableTarget]
Way = Callable[[RecordBlock, Plan, Tables], BlockResult]
Columns = dict[str, str | IcebergType]
COLUMNS: Columns = {"id": "long", "store": "long", "name": "string", "price": "double", "paid": "boolean"}


def by_arrow(records: RecordBlock, made: Plan, tables: Tables) -> BlockResult:
    with mock.patch.object(compiled_json, "available", return_value=False):
        return process_block(records, made, tables)


@contextmanager
def _left_to_the_strict_one() -> Iterator[None]:
    def left(
        framed: JoinedRecords, plain: tuple[pa.Table, Ints] | None, *others: object
    ) -> tuple[list[ParsedRows], list[int]]:
        if plain is None:
            return [], framed.positions.tolist()
        table, odd = plain
        parts = [ParsedRows(np.delete(framed.positions, odd), table)] if len(table) else []
        return parts, framed.positions[odd].tolist()

    # However many records the compiled parser leaves, there is none between the two that could take the block.
    with mock.patch.object(maps, "parse_left", left), mock.patch.object(maps, "most_odd", lambda records: records):
        yield


def without_arrow(records: RecordBlock, made: Plan, tables: Tables) -> BlockResult:
    with _left_to_the_strict_one():
        return process_block(records, made, tables)


WAYS: dict[str, Way] = {
    "strict": alone,
    "arrow": by_arrow,
    "compiled": process_block,
    "without arrow": without_arrow,
}


def cases(count: int) -> dict[str, tuple[list[bytes], EvolveMode, Columns]]:
    """By name the records, what becomes of a field without a column, and the table's columns."""
    rows: list[dict[str, object]] = [
        {"id": i, "store": i % 500, "name": f"pizza {i % 7}", "price": i % 3000 / 100, "paid": i % 9 > 0}
        for i in range(count)
    ]
    plain = [_text(row) for row in rows]
    new = [_text(row | {"note": "extra", "rank": i}) for i, row in enumerate(rows)]
    rare = [new[i] if i % 100 == 0 else plain[i] for i in range(count)]
    whole = [_text(row | {"price": 3, "id": float(i)}) for i, row in enumerate(rows)]
    leave_out, evolve = EvolveMode.DISCARD_VALUE, EvolveMode.EVOLVE
    return {
        "plain": (plain, evolve, COLUMNS),
        "two fields ignored in each": (new, leave_out, COLUMNS),
        "two fields ignored in 1 %": (rare, leave_out, COLUMNS),
        "two new fields in each": (new, evolve, COLUMNS),
        "a float column": (plain, evolve, COLUMNS | {"price": "float"}),
        "1.0 for a whole number": (whole, evolve, COLUMNS),
    }


def _text(row: dict[str, object]) -> bytes:
    return json.dumps(row, separators=(",", ":")).encode()


def costs(values: list[bytes], columns: Columns, mode: EvolveMode, repeats: int) -> dict[str, float]:
    """Processor seconds for a million records by way."""
    chosen = policy(mode)
    made = plan(defaults=chosen)
    tables = {"ns.t": target(columns=columns, table_policy=chosen)}
    times: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(repeats + 1):  # the first warms up
        for name, way in WAYS.items():
            records = block(values)
            begun = time.process_time()
            way(records, made, tables)
            times[name].append(time.process_time() - begun)
    return {name: min(found[1:]) / len(values) * 1e6 for name, found in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    pa.set_cpu_count(1)
    made = cases(given.records)
    gc.freeze()  # what is kept for the measurement is no part of it
    print(f"{'CPU s per million records':<28}" + "".join(f"{name:>15}" for name in WAYS))
    for name, (values, mode, columns) in made.items():
        found = costs(values, columns, mode, given.repeats)
        print(f"{name:<28}" + "".join(f"{found[way]:>15.2f}" for way in WAYS), flush=True)


if __name__ == "__main__":
    main()
