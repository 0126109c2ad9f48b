"""Which tables a coordinator's newest word on a commit names as blocked, since when, and why.

In: each `CommitComplete` of a control log, in its order. Out: the reasons by table. It comes with every commit, while a
table's `StateChanged` comes at a bounded rate: who looks goes by the newer of the two.
"""

from __future__ import annotations

from dataclasses import dataclass

from framework.commit.events.event_types import CommitComplete


@dataclass(frozen=True)
class BlockedWord:
    """`since_ms`: the time of the first word without a break that named the table."""

    reason: str
    since_ms: int


class BlockedTables:
    """By the name under which a table is announced. One thread at a time."""

    def __init__(self) -> None:
        self.found: dict[str, BlockedWord] = {}

    def committed(self, table: str) -> None:
        """It was blocked no longer."""
        self.found = {name: word for name, word in self.found.items() if name != table}

    def hear(self, event: CommitComplete) -> frozenset[str]:
        """The newest word; returns the tables of which it says something else. It may be cut: then a table that it does not
        name is as it was."""
        before = self.found
        left = {name: word for name, word in before.items() if name not in event.blocked} if event.more_blocked else {}
        named = {
            name: BlockedWord(reason, before[name].since_ms if name in before else event.timestamp_ms)
            for name, reason in event.blocked.items()
        }
        self.found = {**left, **named}
        return frozenset(name for name in {*before, *self.found} if before.get(name) != self.found.get(name))
