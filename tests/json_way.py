"""The way of a JSON record, in figures: `python -m tests.json_way`, and as part of `python -m tests.house`.

In: blocks of JSON records for a table that has their columns. Out: the modules of `framework` that code runs in from
the bytes of a block to rows that a writer takes ("rooms"), and how often control comes back from one module to
another ("returns"). Blocks before the measured one fill what is remembered between blocks, as in any running task.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import count
from types import CodeType, FrameType
from typing import Any

from pyiceberg.types import IcebergType

from framework.config.spec import RouteRule
from framework.record.model import RecordBlock
from framework.record.value_buffer import join
from framework.task.blocks import BlockProcessor
from framework.task.context import TaskContext
from framework.task.task_run import TaskRun
from testbed.record_samples import block, plan, policy, target

# A table of its own each time: what is remembered of an equal plan would be compared with it.
NUMBERS = count()
COLUMNS: dict[str, str | IcebergType] = {"id": "long", "name": "string", "price": "double", "ok": "boolean"}
# A number where the column is text, and a whole number written as a float: the strict parser decides, record by record.
PLAIN: dict[str, object] = {"id": 1, "name": "x", "price": 1.5, "ok": True}
STRICT: dict[str, object] = PLAIN | {"id": 1.0, "name": 7}


@dataclass
class Way:
    """What a block came through. `steps` are the returns by the two modules between which they happened."""

    rooms: Counter[str] = field(default_factory=Counter)
    steps: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def returns(self) -> int:
        return self.steps.total()


class _Trace:
    """A profiler that follows Python's frames; code of libraries between two frames of the framework does not count."""

    def __init__(self) -> None:
        self.way = Way()
        self._stack: list[str | None] = []
        self._names: dict[CodeType, str | None] = {}

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            name = self._name(frame)
            self._stack.append(name)
            if name is not None:
                self.way.rooms[name] += 1
        elif event == "return" and self._stack:
            left = self._stack.pop()
            below = next((name for name in reversed(self._stack) if name is not None), None)
            if left is not None and below is not None and left != below:
                self.way.steps[left, below] += 1

    def _name(self, frame: FrameType) -> str | None:
        if frame.f_code not in self._names:
            name = str(frame.f_globals.get("__name__"))
            self._names[frame.f_code] = name if name.startswith("framework.") else None
        return self._names[frame.f_code]


def way_of(record: dict[str, object], records: int = 3) -> Way:
    """The way of a block of such records, the third of its kind."""
    table, fixed = f"ns.way_{next(NUMBERS)}", policy()
    made = plan((RouteRule(table),), defaults=fixed)
    tables = {table: target(table, COLUMNS, table_policy=fixed)}
    context = TaskContext(made, {}, {"default": {}}, tables, {}, "run", 1)
    processor, run = BlockProcessor(context, scatter=True), TaskRun(context)
    given = [_block(record, records) for _ in range(3)]
    for each in given[:-1]:
        _process(processor, run, each)
    trace = _Trace()
    before = sys.getprofile()
    sys.setprofile(trace)
    try:
        _process(processor, run, given[-1])
    finally:
        sys.setprofile(before)
    assert run.rows == {table: 3 * records}
    run.writer.discard()
    return trace.way


def _block(record: dict[str, object], records: int) -> RecordBlock:
    """As the compiled reader, which is the default, gives it."""
    values = [json.dumps(record).encode() for _ in range(records)]
    return replace(block(values), values=replace(join(values), is_braced=True, is_ascii=True))


def _process(processor: BlockProcessor, run: TaskRun, given: RecordBlock) -> None:
    for result in processor.results(given):
        run.add(result)


def show(with_steps: bool = False) -> None:
    for name, record in {"plain": PLAIN, "strict": STRICT}.items():
        way = way_of(record)
        print(f"way of a block of JSON, {name}: {len(way.rooms)} rooms, {way.returns} returns")
        if with_steps:
            for (left, below), count in way.steps.most_common():
                print(f"  {count:3} {left.removeprefix('framework.')} -> {below.removeprefix('framework.')}")


if __name__ == "__main__":
    show("--steps" in sys.argv)
