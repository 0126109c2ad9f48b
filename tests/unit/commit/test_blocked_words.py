"""Which tables a commit's word names as blocked: at once, since the first word, and no longer than that."""

from __future__ import annotations

from framework.commit.events.event_types import CommitComplete
from framework.commit.machine.reporting.blocked_words import BlockedTables, BlockedWord


def word(at_ms: int, more: int = 0, **blocked: str) -> CommitComplete:
    return CommitComplete("c", 0, at_ms, blocked=blocked, more_blocked=more)


def test_a_table_is_blocked_since_the_first_word_without_a_break() -> None:
    """Another reason keeps the beginning; a word that does not name it ends it, and so does a commit of it."""
    tables = BlockedTables()
    assert tables.hear(word(1, t="it is missing")) == {"t"}
    assert tables.hear(word(2, t="it is missing")) == frozenset()
    assert tables.hear(word(3, t="it was replaced")) == {"t"}
    assert tables.found == {"t": BlockedWord("it was replaced", 1)}
    assert tables.hear(word(4)) == {"t"}
    assert tables.hear(word(5, t="it is missing")) == {"t"}
    tables.committed("t")
    assert tables.found == {}
    assert tables.hear(word(6, t="it is missing")) == {"t"}
    assert tables.found["t"].since_ms == 6


def test_a_word_that_is_cut_ends_nothing() -> None:
    """Where more are blocked than it names, a table that it does not name is as it was."""
    tables = BlockedTables()
    tables.hear(word(1, a="it is missing", b="it is missing"))
    assert tables.hear(word(2, 1, a="it is missing")) == frozenset()
    assert set(tables.found) == {"a", "b"}
