"""What a worker keeps of its memory between blocks of records."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from framework.adapters.host import memory
from framework.adapters.host.memory import MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES, RECORDS_OF_A_BUSY_TASK, release_after

_PROGRAM = """
import resource
from framework.adapters.host.memory import keep_large_blocks

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        bytes(60_000_000)[:-1]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

as_started = faults()
keep_large_blocks()
faults()
print(as_started, faults())
"""


def _faults(threshold: int) -> tuple[int, int]:
    sizes = {MMAP_THRESHOLD: str(threshold), "MALLOC_TRIM_THRESHOLD_": str(128 * 1024 * 1024)}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], env={**os.environ, **sizes}, capture_output=True, text=True, check=True
    )
    as_started, kept = map(int, done.stdout.split())
    return as_started, kept


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or tuple(map(int, platform.libc_ver()[1].split(".")[:2])) < (2, 35),
    reason="only glibc from 2.35 on can be told to keep so large a block",
)
def test_the_room_of_a_large_block_is_kept_for_the_next_one() -> None:
    """A block of 60 MB that follows another one takes no new pages, once a task has begun."""
    as_started, kept = _faults(MMAP_THRESHOLD_BYTES)
    assert kept < as_started / 10


def test_a_threshold_that_a_target_sets_holds() -> None:
    """What `spark.executorEnv` says of glibc's threshold is not overruled."""
    as_started, kept = _faults(MMAP_THRESHOLD_BYTES // 2)
    assert kept > as_started / 2


def test_memory_is_given_back_once_tasks_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is busy keeps what its next large task needs, whatever small ones come in between."""
    released: list[int] = []
    monkeypatch.setattr(memory, "release_memory", lambda: released.append(1))
    memory._recent.clear()
    small = RECORDS_OF_A_BUSY_TASK - 1
    for records in (RECORDS_OF_A_BUSY_TASK, small, 0, RECORDS_OF_A_BUSY_TASK, small, 0, small):
        release_after(records)
    assert not released
    release_after(small)
    assert released
