"""A first-in first-out queue that is a value: appending gives a new queue and leaves the old one as it was.

In: items, appended at the end and dropped from the front. Out: queues that share one list, so that both cost amortised
O(1) although `step` keeps every older state intact. A queue sees only its own window of the shared list, in front of
which are never more dropped items than in it; appending to a queue that is not the newest owner of its list's end
copies first. One thread steps a state; two threads that append to one and the same queue at once are not foreseen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Fifo(Generic[T]):
    """An immutable queue. Compared by its contents; not hashable, like the list it stands for."""

    __hash__ = None  # type: ignore[assignment]
    __slots__ = ("_items", "_start", "_stop")

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._items: list[T] = list(items)
        self._start = 0
        self._stop = len(self._items)

    def append(self, item: T) -> Fifo[T]:
        """A queue with one more item at its end."""
        items, start = self._items, self._start
        if len(items) != self._stop:  # somebody else appended behind our window: leave that list to them
            items, start = items[start : self._stop], 0
        items.append(item)
        return self._window(items, start, len(items))

    def drop(self, count: int) -> Fifo[T]:
        """A queue without its first `count` items (0 <= count <= len)."""
        if not 0 <= count <= len(self):
            raise IndexError(f"cannot drop {count} of {len(self)} items")
        start = self._start + count
        if start * 2 > self._stop:  # more is dropped than held: as many steps ago as items are copied now
            return self._window(self._items[start : self._stop], 0, self._stop - start)
        return self._window(self._items, start, self._stop)

    @staticmethod
    def _window(items: list[T], start: int, stop: int) -> Fifo[T]:
        queue: Fifo[T] = Fifo.__new__(Fifo)
        queue._items, queue._start, queue._stop = items, start, stop
        return queue

    @property
    def first(self) -> T | None:
        return self._items[self._start] if self._stop > self._start else None

    def __getitem__(self, index: int) -> T:
        if not 0 <= index < len(self):
            raise IndexError(f"no item {index} among {len(self)}")
        return self._items[self._start + index]

    def __len__(self) -> int:
        return self._stop - self._start

    def __iter__(self) -> Iterator[T]:
        for index in range(self._start, self._stop):
            yield self._items[index]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Fifo)
            and len(self) == len(other)
            and all(a == b for a, b in zip(self, other, strict=True))
        )

    def __repr__(self) -> str:
        return f"Fifo({list(self)!r})"
