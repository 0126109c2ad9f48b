"""Gives memory back to the system at the end of a task after which others may be long in coming.

In: nothing. Out: nothing; what Arrow and the C library keep for later is released. A worker that waits for its next task
would otherwise hold what its largest one needed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import pyarrow as pa


def release_memory() -> None:
    """Costs some milliseconds."""
    pa.default_memory_pool().release_unused()
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Callable[[int], Any] | None:
    """glibc's; other C libraries have none."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
