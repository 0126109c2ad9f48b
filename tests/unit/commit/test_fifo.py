"""The queue that `step` keeps announcements in."""

from __future__ import annotations

import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.commit.machine.fifo import Fifo

operations = st.lists(st.tuples(st.integers(0, 200), st.integers(-40, 40), st.integers(0, 300)), max_size=60)


@given(operations)
def test_every_older_queue_stays_as_it_was(steps: list[tuple[int, int, int]]) -> None:
    """Appending to and dropping from any queue ever made gives the right new queue and changes no other."""
    made: list[tuple[Fifo[int], list[int]]] = [(Fifo(), [])]
    for which, change, value in steps:
        queue, content = made[which % len(made)]
        if change < 0:
            count = min(-change, len(content))
            made.append((queue.drop(count), content[count:]))
        else:
            for n in range(change):
                queue, content = queue.append(value + n), [*content, value + n]
            made.append((queue, content))
    for queue, content in made:
        assert list(queue) == content
        assert len(queue) == len(content)
        assert queue == Fifo(content)
        assert queue.first == (content[0] if content else None)
        assert [queue[n] for n in range(len(queue))] == content


def test_dropping_more_than_there_is_is_an_error() -> None:
    """An announcement that is not there cannot be dropped."""
    with pytest.raises(IndexError):
        Fifo([1]).drop(2)
    with pytest.raises(IndexError):
        Fifo([1])[1]


@given(st.lists(st.integers(-12, 12), max_size=60))
def test_what_was_dropped_is_not_kept_in_memory(changes: list[int]) -> None:
    """A queue keeps no more dropped items alive than it holds, and none at all once it is empty: a coordinator has one
    for each table, and each item may be kilobytes of announced files."""
    alive: weakref.WeakSet[_Item] = weakref.WeakSet()
    queue: Fifo[_Item] = Fifo()
    for change in changes:
        if change < 0:
            queue = queue.drop(min(-change, len(queue)))
        for _ in range(change):
            item = _Item()
            alive.add(item)
            queue = queue.append(item)
            del item
        assert len(queue) <= len(alive) <= 2 * len(queue)


class _Item:
    """Something that can be seen to be gone."""
