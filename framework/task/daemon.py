"""Spark's Python daemon, with what every task imports already imported when it forks its workers.

In: the command line that Spark gives its own daemon. Out: workers that start in milliseconds, share the pages of the
libraries, and whose collector does not walk through them after every task. For local masters only, where this package
is installed beside Spark. Nothing here may start a thread: threads do not survive a fork.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys

_TASKS = "pyspark.worker"
_IMPORTED_BY_TASKS = (
    "pandas",
    "pyarrow.json",
    "pyspark.sql.pandas.serializers",
    "framework.adapters.kafka.fetch",
    "framework.adapters.parquet.files",
    "framework.task.blocks",
    "framework.task.stage",
    "framework.record.dead_letters.dead_letter",
    "framework.record.process",
    "framework.table.evolve",
)


def main() -> None:
    # NumPy's linear algebra, which nothing here uses, starts a thread for each core when it is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if sys.argv[1:] == [_TASKS]:  # the planner's helpers come as other modules, and need none of this
        for name in _IMPORTED_BY_TASKS:
            importlib.import_module(name)
    from pyspark.daemon import manager

    gc.collect()
    gc.freeze()
    # A task makes many objects and next to no rings of them: to look for some after each 700 objects took a hundredth
    # of its CPU.
    gc.set_threshold(20_000, 20, 20)
    manager()


if __name__ == "__main__":
    main()
