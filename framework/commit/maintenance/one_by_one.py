"""Work on many tables of which one may be in trouble.

In: tables, what is to be done to each, and what to say of one that it cannot be done to. Out: one answer for each
table, in their order. Keeps invariant 10: a fault of one table, of its store or of its catalog is that table's alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from framework.errors import FloeError

T = TypeVar("T")
R = TypeVar("R")


def one_by_one(tables: Iterable[T], do: Callable[[T], R], skip: Callable[[T, FloeError], R]) -> Iterator[R]:
    """What `do` gives for each table, or `skip` where it fails."""
    for table in tables:
        try:
            done = do(table)
        except FloeError as error:
            done = skip(table, error)
        yield done
