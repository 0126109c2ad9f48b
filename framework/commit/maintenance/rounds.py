"""Whose turn it is to be maintained, and how much may be read for it.

In: what the coordinator has committed to each table since its last round, what tables say of the time before this
process, the target's limits and the time. Out: the table whose round is due, or none; and the bytes that are left of an
hour's allowance. Pure: a table that gets no commits is left alone, a busy one has a round after some commits, and one
that failed waits. Processes may come and go: all of this holds of them together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from zlib import crc32

from framework.config.values.maintenance import DAY_MS, HOUR_MS, MaintenanceLimits

COMMITS_BETWEEN = 20
LEAST_MS = 60_000
MOST_MS = HOUR_MS
AFTER_FAILURE_MS = 600_000


@dataclass(frozen=True)
class TableRounds:
    """One table: its commits since the last round, when that ended (or, before the first, when its first commit was
    seen), and whether it failed. `learned`: whether what was before this process is in these."""

    commits: int
    since_ms: int
    learned: bool = False
    failed: bool = False
    running: bool = False

    def is_due(self, now_ms: int) -> bool:
        waited_ms = now_ms - self.since_ms
        if self.running or waited_ms < (AFTER_FAILURE_MS if self.failed else LEAST_MS):
            return False
        return self.commits >= COMMITS_BETWEEN or (self.commits > 0 and waited_ms >= MOST_MS)


@dataclass(frozen=True)
class Rounds:
    """All tables of one coordinator, since when it is there, and what was read for compaction: when, and how many
    bytes."""

    started_ms: int
    tables: Mapping[str, TableRounds] = field(default_factory=dict)
    read: tuple[tuple[int, int], ...] = ()

    def committed(self, table: str, now_ms: int) -> Rounds:
        found = self.tables.get(table, TableRounds(0, now_ms))
        return self._with(table, replace(found, commits=found.commits + 1))

    def unknown_table(self) -> str | None:
        """A table that got commits, and of which it is not known when it had its last round."""
        return min((name for name, each in self.tables.items() if not each.learned), default=None)

    def learned(self, table: str, commits: int, since_ms: int | None) -> Rounds:
        """`commits` are those since the last round, whoever had it, and `since_ms` is when that was; None: not known."""
        found = self.tables[table]
        known = found.since_ms if since_ms is None else min(found.since_ms, since_ms)
        return self._with(table, replace(found, commits=max(found.commits, commits), since_ms=known, learned=True))

    def next_table(self, limits: MaintenanceLimits, now_ms: int) -> str | None:
        """The due table with the most commits; None outside of the window or at the limits."""
        running = sum(each.running for each in self.tables.values())
        if not limits.enabled or running >= limits.max_tables or not limits.is_open(now_ms // 60_000 % 1440):
            return None
        due = [(-each.commits, name) for name, each in self.tables.items() if each.is_due(now_ms)]
        return min(due)[1] if due else None

    def allowance_bytes(self, limits: MaintenanceLimits, now_ms: int) -> int:
        """What may be read now. A new process has an hour's bytes after an hour: the one before it may have used them."""
        grown = limits.max_bytes_per_hour * min(max(now_ms - self.started_ms, 0), HOUR_MS) // HOUR_MS
        return max(0, grown - sum(size for at_ms, size in self.read if now_ms - at_ms < HOUR_MS))

    def began(self, table: str) -> Rounds:
        return self._with(table, replace(self.tables[table], running=True, commits=0))

    def ended(self, table: str, read_bytes: int, failed: bool, now_ms: int) -> Rounds:
        """A failed round counts as one that had nothing to do: its commits wait for the next."""
        found = self.tables[table]
        commits = max(found.commits, COMMITS_BETWEEN) if failed else found.commits
        kept = tuple(each for each in self.read if now_ms - each[0] < HOUR_MS)
        read = (*kept, (now_ms, read_bytes)) if read_bytes else kept
        return replace(self._with(table, TableRounds(commits, now_ms, True, failed)), read=read)

    def _with(self, table: str, found: TableRounds) -> Rounds:
        return replace(self, tables={**self.tables, table: found})


def are_orphans_due(table: str, limits: MaintenanceLimits, since_ms: int, now_ms: int) -> bool:
    """Whether the table's minute of the day, which is one of the window, has come since `since_ms`: so processes that
    each live for hours look for orphans once a day together, and not all tables at once."""
    begin, end = limits.window or (0, 0)
    minute = (begin + crc32(table.encode()) % ((end - begin) % 1440 or 1440)) % 1440
    at_ms = now_ms - now_ms % DAY_MS + minute * 60_000
    return since_ms < (at_ms if at_ms <= now_ms else at_ms - DAY_MS)


def rest_s(worked_s: float, limits: MaintenanceLimits) -> float:
    """How long to rest after so much CPU time, so that both together keep to the share of a core."""
    return worked_s * (1 / limits.max_cpu_share - 1)
