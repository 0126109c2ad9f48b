"""How much memory a process has in use, as the kernel counts it.

In: a process id. Out: bytes; None where the system does not say, or the process is gone.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def resident_bytes(pid: int) -> int | None:
    """Linux alone shows it this way."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def java_pid() -> int | None:
    """The JVM that this driver started; None where Spark is not loaded, or the JVM was there before."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    return process.pid if process is not None else None
