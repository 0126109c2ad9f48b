"""What a table remembers of deleted keys, as its property says it: what a commit makes of it, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.commit.deleted_keys import (
    FAN_OUT,
    FORGET,
    MOST_KEYS,
    SUMMARY_DELETED_KEYS,
    Remembered,
    after_commit,
    deleted_keys_summary,
    expired,
    groups_to_merge,
    mark_of,
    parse,
    text_of,
)
from framework.commit.events.event_types import DeletedKeysChange, DeletedKeysFile, UpsertChanges
from framework.errors import StateDisagreement
from tests.protocol.strategies import tombstone_files


def file(name: str, keys: int = 1, newest_ms: int = 0) -> DeletedKeysFile:
    return DeletedKeysFile(name, keys, 100, newest_ms)


def batch(known: str = "", added: str = "", removed: str = "", order_id: int = 3) -> UpsertChanges:
    """Of files that have names of one letter."""
    return UpsertChanges(
        1, (2, 1), (), tombstones=DeletedKeysChange(order_id, tuple(known), tuple(map(file, added)), tuple(removed))
    )


HELD = Remembered(3, (2, 1), (file("a"), file("b")))
TEXT = text_of(HELD)


@given(st.builds(Remembered, st.integers(1, 99), st.just((2, 1)), st.lists(tombstone_files, max_size=4).map(tuple)))
def test_the_property_says_what_is_remembered(remembered: Remembered) -> None:
    """Whatever the names of files are."""
    assert parse(text_of(remembered)) == remembered


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", "3", '{"version": 1}', TEXT.replace("1", "9", 1), TEXT[:-1]])
def test_what_is_not_floes_is_no_memory(text: str) -> None:
    """It is refused, with what to do, and never taken for an empty one."""
    with pytest.raises(StateDisagreement) as caught:
        parse(text)
    assert FORGET in (caught.value.remedy or "")


def test_a_commit_adds_and_removes_files() -> None:
    """In the order in which they came; of batches without a word of deleted keys nothing changes."""
    assert parse(None) is None
    assert after_commit(None, [batch(added="c")]) == replace(HELD, files=(file("c"),))
    assert after_commit(TEXT, [batch("ab", "c", "a")]) == replace(HELD, files=(file("b"), file("c")))
    assert after_commit(TEXT, [batch("ab", "c"), batch("ab", "c", "b")]) == replace(HELD, files=(file("a"), file("c")))
    assert after_commit(TEXT, [replace(batch(), tombstones=None)]) is None


@pytest.mark.parametrize(
    ("text", "change", "words"),
    [
        (None, batch("a"), "no longer names a"),
        (TEXT, batch("abc"), "no longer names c"),
        (TEXT, batch("a", "c"), "it names b, with which"),
        (TEXT, batch("ab", order_id=4), "by other columns"),
        (TEXT, replace(batch("ab"), key_ids=(1, 2)), "by other columns"),
    ],
)
def test_a_batch_that_was_compared_with_something_else_is_refused(
    text: str | None, change: UpsertChanges, words: str
) -> None:
    """What it would have lost to may be among what is missing."""
    with pytest.raises(StateDisagreement, match=words):
        after_commit(text, [change])


def test_what_was_given_up_begins_anew() -> None:
    """Also for a batch that was compared with what a person gave up meanwhile."""
    assert parse(f" {FORGET}\n") is None
    assert after_commit(FORGET, [batch("ab", "c")]) == replace(HELD, files=(file("c"),))
    assert deleted_keys_summary(FORGET, []) == {}


def test_each_snapshot_has_a_mark_of_what_is_remembered() -> None:
    """Also of a commit without deletes; it is another one for other files and for fewer."""
    held = replace(HELD, files=(*HELD.files, file("c")))
    assert deleted_keys_summary(TEXT, []) == {SUMMARY_DELETED_KEYS: mark_of(HELD)}
    assert deleted_keys_summary(TEXT, [batch("ab", "c")]) == {SUMMARY_DELETED_KEYS: mark_of(held)}
    assert deleted_keys_summary(None, []) == deleted_keys_summary("damaged", []) == {}
    assert (
        deleted_keys_summary(None, [], "2 x")
        == deleted_keys_summary("damaged", [], "2 x")
        == {SUMMARY_DELETED_KEYS: "2 x"}
    )
    assert deleted_keys_summary(FORGET, [], "2 x") == {}
    others = [replace(HELD, files=files) for files in ((), (file("a"),), (file("a"), file("x")))]
    assert len({mark_of(each) for each in (HELD, held, *others)}) == 5


def test_files_are_forgotten_by_their_newest_key() -> None:
    """A file with one key that is still remembered stays."""
    files = [file("a", newest_ms=9), file("b", newest_ms=10)]
    assert [each.path for each in expired(files, 10)] == ["a"]


@given(st.lists(st.integers(1, 3 * MOST_KEYS), max_size=40))
def test_many_files_of_one_size_become_one(sizes: list[int]) -> None:
    """No file is in two groups, none becomes larger than a driver can sort, and few of one size stay as they are."""
    files = [file(str(n), keys) for n, keys in enumerate(sizes)]
    groups = groups_to_merge(files)
    named = [each.path for group in groups for each in group]
    assert len(named) == len(set(named))
    for group in groups:
        assert len(group) > 1
        assert sum(each.record_count for each in group) <= MOST_KEYS
    assert groups_to_merge([file(str(n)) for n in range(FAN_OUT - 1)]) == []
    assert groups_to_merge([file(str(n)) for n in range(FAN_OUT)]) == [tuple(file(str(n)) for n in range(FAN_OUT))]


def test_the_text_is_json_with_a_version() -> None:
    """So that another version can say that it is not its own."""
    assert json.loads(TEXT)["version"] == 1
