"""How much memory a worker keeps: room for a large block while it works, and little while it may wait for long.

In: nothing. Out: nothing; the C library learns what to keep, or what it and Arrow keep for later is released.
Otherwise a worker that waits for its next task would hold as much as its largest task needed.
"""

from __future__ import annotations

import ctypes
import os
from collections import deque
from collections.abc import Callable
from functools import cache

import pyarrow as pa

from framework.record.rows.scatter import release_scattered

MMAP_THRESHOLD = "MALLOC_MMAP_THRESHOLD_"
# Workers begin with this; more is accepted by glibc from 2.35 on only, and not by name, or an older one would refuse it
# and keep nothing at all.
MMAP_THRESHOLD_BYTES = 32 * 1024 * 1024
# Above the largest block of records, which is 64 MiB and what came last.
_LARGE_BLOCK_BYTES = 96 * 1024 * 1024
_M_MMAP_THRESHOLD = -3


@cache
def keep_large_blocks() -> None:
    """Memory of a large block is kept for the next one: fetched anew with each, its pages cost a twentieth of the CPU.

    Once in a process; where a target's own settings say another threshold, that one holds.
    """
    if os.environ.get(MMAP_THRESHOLD) == str(MMAP_THRESHOLD_BYTES) and (set_option := _of_libc("mallopt")) is not None:
        set_option(_M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)


# After a task of so many records another one follows at once, as a rule, and needs the same memory: to give it back and
# to fetch it again takes a tenth of the CPU and more. A pipeline that has caught up has smaller tasks.
RECORDS_OF_A_BUSY_TASK = 200_000
# Not every task of a busy pipeline is a large one: tables differ, and an exchange may send a task little.
_TASKS_OF_A_BATCH = 4
_recent: deque[int] = deque(maxlen=_TASKS_OF_A_BATCH)


def release_after(records: int) -> None:
    """For the end of a task of so many records: memory stays while one of this worker's last tasks was a large one."""
    _recent.append(records)
    if max(_recent) < RECORDS_OF_A_BUSY_TASK:
        release_memory()


def release_memory() -> None:
    """Costs some milliseconds."""
    release_scattered()
    pa.default_memory_pool().release_unused()
    trim = _of_libc("malloc_trim")
    if trim is not None:
        trim(0)


@cache
def _of_libc(name: str) -> Callable[..., int] | None:
    """A function of glibc's; other C libraries have none of this name."""
    try:
        return getattr(ctypes.CDLL(None), name)  # type: ignore[no-any-return]
    except (OSError, AttributeError):
        return None
