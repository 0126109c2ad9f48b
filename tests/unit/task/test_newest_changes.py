"""The newest change of each key in a batch, beside a plain fold in Python."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from framework.task.upsert.newest import Positions, count, newest, newest_by_hash, number_of_topic, order_of, row_ids

# A key, its topic and partition, the offset is the change's place; whether it deletes.
change = st.tuples(st.integers(0, 6), st.integers(0, 1), st.integers(0, 2), st.booleans())
changes_of = st.lists(change, max_size=40).flatmap(st.permutations)


def positions(topics: list[int], partitions: list[int], offsets: list[int]) -> Positions:
    return Positions(*(np.array(values, np.int64) for values in (topics, partitions, offsets)))


@given(changes_of, st.sets(st.integers(0, 6)), st.randoms())
def test_the_newest_change_of_a_key_wins_in_whatever_order_changes_arrive(changes, live, random) -> None:  # type: ignore[no-untyped-def]
    """The winners are those of a fold by (topic, partition, offset), and the counts add up to the changes."""
    placed = [
        (topic, partition, offset, key, deletes) for offset, (key, topic, partition, deletes) in enumerate(changes)
    ]
    expected = {key: (topic, partition, offset, deletes) for topic, partition, offset, key, deletes in sorted(placed)}
    random.shuffle(placed)
    codes = np.array([each[3] for each in placed], np.int64)

    at = positions(*([each[i] for each in placed] for i in range(3)))
    winners = newest(codes, at)

    # By hashes too, of which several keys share one word.
    words = codes.astype(np.uint64)
    for high, low in ((words // np.uint64(3), words % np.uint64(3)), (words, words * np.uint64(0))):
        assert newest_by_hash(high, low, at, np.argsort(high)).tolist() == winners.tolist()
    assert winners.tolist() == sorted(winners.tolist())
    assert {placed[i][3]: (*placed[i][:3], placed[i][4]) for i in winners} == expected
    assert len(winners) == len(expected)

    is_winner = np.zeros(len(placed), np.bool_)
    is_winner[winners] = True
    is_live = np.array([placed[i][3] in live for i in winners], np.bool_)
    counts = count(np.array([each[4] for each in placed], np.bool_), is_winner, is_live)
    kept = {key for key, (_, _, _, deletes) in expected.items() if not deletes}
    assert counts.changes == len(changes)
    assert counts.superseded == len(changes) - len(expected)
    assert (counts.inserted, counts.updated) == (len(kept - live), len(kept & live))
    assert (counts.deleted, counts.ignored) == (
        len((expected.keys() - kept) & live),
        len(expected.keys() - kept - live),
    )


def test_a_later_offset_of_another_partition_is_not_newer() -> None:
    """A key that comes from two partitions: the higher partition wins, and of two topics the later name."""
    same = np.zeros(3, np.int64)
    assert newest(same, positions([0, 0, 0], [1, 0, 1], [3, 900, 4])).tolist() == [2]
    assert newest(same, positions([1, 0, 0], [0, 7, 7], [0, 5, 6])).tolist() == [0]
    assert [number_of_topic(topic, ("orders", "archive")) for topic in ("archive", "orders")] == [0, 1]


def test_a_row_keeps_the_id_of_the_row_that_it_replaces() -> None:
    """Keys without a live row have no id, nor have rows that the table gave none; of several rows the oldest gives its
    id."""
    ids = row_ids(4, np.array([2, 0, 2, 3]), np.array([70, 0, 60, -1]))
    assert ids.to_pylist() == [0, None, 60, None]
    assert ids.type == pa.int64()


@given(st.lists(st.integers(0, 2**64 - 1), max_size=40), st.randoms())
def test_the_order_of_some_sorts_them_as_the_order_of_all_does(words, random) -> None:  # type: ignore[no-untyped-def]
    """Winners in any order, and any number of them, are sorted by the hashes without sorting again."""
    high = np.array(words, np.uint64)
    some = random.sample(range(len(words)), random.randint(0, len(words)))
    order = order_of(np.array(some, np.int64), np.argsort(high))
    assert sorted(order.tolist()) == list(range(len(some)))
    assert [words[some[place]] for place in order] == sorted(words[place] for place in some)
