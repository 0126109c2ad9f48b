"""The daemon that forks Spark's workers."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import importlib, os
os.environ["OPENBLAS_NUM_THREADS"] = "1"
from framework.task.daemon import _IMPORTED_BY_TASKS
for name in _IMPORTED_BY_TASKS:
    importlib.import_module(name)
for task in os.listdir("/proc/self/task"):
    print(open(f"/proc/self/task/{task}/comm").read().strip())
"""


def test_what_is_imported_before_the_fork_starts_no_thread() -> None:
    """A thread, and a lock that it holds, would be missing in every worker; only the allocator's knows of forks."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    names = [name for name in done.stdout.split() if name != "jemalloc_bg_thd"]
    assert len(names) == 1
