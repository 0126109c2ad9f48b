"""The queue that `step` keeps announcements in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.commit.fifo import Fifo

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
