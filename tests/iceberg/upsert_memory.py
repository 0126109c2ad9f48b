"""One side of the exchange in a process of its own, whose memory is measured: `python -m tests.iceberg.upsert_memory`.

In: a pickle with a task's context, and how many changes of how many bytes. Out: on standard output the most memory that
the process had, in bytes, and how many changes it sent or wrote. What the sender sends lies in a file between them.
"""

from __future__ import annotations

import json
import pickle
import random
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from framework.adapters import waiting_pieces
from framework.record.model import BlockResult, UpsertRows
from framework.table.schema.arrow import arrow_schema, parse_schema
from framework.task.context import TaskContext
from framework.task.exchange import SENT_SCHEMA, Outbox, make_receiver
from framework.task.task_run import TaskRun
from framework.task.writer_tasks import exchange_numbers

BLOCK = 2_000


def block(schema: pa.Schema, first: int, bytes_each: int, pick: random.Random) -> UpsertRows:
    names = [pick.randbytes(bytes_each // 2).hex() for _ in range(BLOCK)]
    numbers = range(first, first + BLOCK)
    rows = {"shop": [1] * BLOCK, "code": [f"key {n}" for n in numbers], "day": [1] * BLOCK, "name": names}
    table = pa.Table.from_pydict(rows, schema)
    none = pa.Table.from_pylist([], pa.schema([schema.field("code"), schema.field("shop")]))
    return UpsertRows(table, np.arange(first, first + BLOCK), none, np.empty(0, np.int64))


def send(context: TaskContext, name: str, count: int, bytes_each: int, file: Path) -> int:
    """The task that reads: what goes to the first writer alone goes into the file."""
    schema = arrow_schema(parse_schema(context.tables[name].schema_json))
    pick, outbox = random.Random(1), Outbox(context.plan)
    run = TaskRun(context, outbox)
    for first in range(0, count, BLOCK):
        run.add(BlockResult(keyed={name: block(schema, first, bytes_each, pick)}), "events", 0)
    assert run.finish().sent_bytes > count * bytes_each
    own = exchange_numbers(context.plan.read.slices)[0]
    writer = None
    with file.open("wb") as stream:
        for batch in outbox.sent():
            if batch.column("place")[0].as_py() == own:
                writer = writer or pa.ipc.new_stream(stream, batch.schema)
                writer.write_batch(batch)
        assert writer is not None, SENT_SCHEMA
        writer.close()
    return count


def receive(context: TaskContext, file: Path) -> int:
    """The task that writes."""
    with file.open("rb") as stream:
        reports = [
            pickle.loads(each.column("report")[0].as_py())
            for each in make_receiver(context)(pa.ipc.open_stream(stream))
        ]
    return sum(part.inserted for report in reports for part in report.keyed.values())


def most_bytes() -> int:
    """Of this program alone: what `getrusage` says begins with the memory of the process that started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def main() -> None:
    given = pickle.loads(sys.stdin.buffer.read())
    waiting_pieces.MOST_BYTES = given["most_bytes"]
    if given["side"] == "send":
        done = send(given["context"], given["name"], given["count"], given["bytes_each"], given["file"])
    else:
        done = receive(given["context"], given["file"])
    print(json.dumps({"most": most_bytes(), "changes": done}))


if __name__ == "__main__":
    main()
