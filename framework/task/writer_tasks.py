"""Which task behind Spark's exchange writes a row, and the number by which Spark sends it there.

In: what must be written together, and how many tasks there are. Out: the number of a task; and for each task a number
for the column that `repartition(tasks, column)` goes by. Spark sends a row where the column's hash says, so of a few
names several would meet in one task, and others have nothing to do: with two tasks every second table that follows its
keys had one writer instead of two. `repartitionById` says it outright, from Spark 4.1 on; once 4.0 is not supported any
more, this module can go. `test_each_writer_is_a_task_of_its_own` fails if Spark's hash is another one.
"""

from __future__ import annotations

import itertools
from functools import lru_cache

import mmh3

# Of Spark's `Murmur3Hash`, which `HashPartitioning` takes modulo the tasks.
_SPARK_SEED = 42


def task_of(name: str, tasks: int) -> int:
    """The task for everything of this name: the same wherever it is asked for."""
    return mmh3.hash(name.encode(), signed=False) % tasks


@lru_cache(maxsize=16)
def exchange_numbers(tasks: int) -> tuple[int, ...]:
    """For each task a number that Spark sends to it, as a column of type `int`."""
    found: dict[int, int] = {}
    for number in itertools.count():
        found.setdefault(mmh3.hash(number.to_bytes(4, "little"), _SPARK_SEED) % tasks, number)
        if len(found) == tasks:
            return tuple(found[task] for task in range(tasks))
    raise AssertionError("itertools.count ends")
