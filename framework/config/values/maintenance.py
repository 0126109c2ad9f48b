"""How tables are kept healthy, as frozen values: what is done for a table, and within which limits of a target.

In: nothing; `framework.config.filled.build` and `framework.config.target` make these from YAML, with every default filled in.
Out: values with units in their names. The rules in `framework.config.rules.operation.maintenance` keep the promise that what a
rollback or a reader may still ask for stays longer than it is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

MIB = 1024**2
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
# A file is young while the batch that wrote it may still be under way, or its announcement on the way to its readers.
ORPHAN_SAFETY_AGE_MS = DAY_MS


class MaintenanceMode(str, Enum):
    """Which tables are maintained: those that floe created, those of others as well, or none."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True)
class CompactionPolicy:
    """Small files of a partition become files of about `target_file_bytes` once there are `min_input_files` of them. A
    file goes also when its deletes reach `delete_ratio` of its rows. `sort`: in the table's own sort order."""

    enabled: bool = True
    target_file_bytes: int = 128 * MIB
    min_input_files: int = 5
    delete_ratio: float = 0.3
    sort: bool = True


@dataclass(frozen=True)
class ExpirePolicy:
    """A snapshot expires when it is older than `max_snapshot_age_ms` or one of more than `max_snapshots`, but never
    sooner than `rollback_window_ms` and `reader_lease_ms` after a newer one came."""

    enabled: bool = True
    max_snapshot_age_ms: int = 5 * DAY_MS
    max_snapshots: int = 1_000
    rollback_window_ms: int = 6 * HOUR_MS
    reader_lease_ms: int = HOUR_MS


@dataclass(frozen=True)
class OrphansPolicy:
    enabled: bool = True
    older_than_ms: int = 3 * DAY_MS


@dataclass(frozen=True)
class ManifestsPolicy:
    """Manifests are merged once a snapshot lists `min_count` of one partition spec that are small."""

    enabled: bool = True
    min_count: int = 100


@dataclass(frozen=True)
class MaintenancePolicy:
    """What is done for one table."""

    mode: MaintenanceMode = MaintenanceMode.AUTO
    compaction: CompactionPolicy = field(default_factory=CompactionPolicy)
    expire: ExpirePolicy = field(default_factory=ExpirePolicy)
    orphans: OrphansPolicy = field(default_factory=OrphansPolicy)
    manifests: ManifestsPolicy = field(default_factory=ManifestsPolicy)

    def covers(self, created_by_floe: bool) -> bool:
        """Whether a table is maintained without being asked for."""
        if self.mode is MaintenanceMode.AUTO:
            return created_by_floe
        return self.mode is MaintenanceMode.ALWAYS

    def rewrites(self, others_do: bool) -> bool:
        """Whether a table's files and manifests are rewritten without being asked for: not beside another engine that
        does it, unless the file says that floe does."""
        return self.mode is MaintenanceMode.ALWAYS or not others_do


NOTHING_IS_DONE = MaintenancePolicy(
    MaintenanceMode.NEVER,
    CompactionPolicy(enabled=False),
    ExpirePolicy(enabled=False),
    OrphansPolicy(enabled=False),
    ManifestsPolicy(enabled=False),
)


@dataclass(frozen=True)
class MaintenanceLimits:
    """What maintenance may take on a target. `window` is the first and the last minute of the day (UTC) in which it
    begins something, None: at any time; `max_bytes_per_hour` counts the bytes that compaction reads; `max_cpu_share` is of
    one core, for each table that is maintained at the same time."""

    enabled: bool = True
    window: tuple[int, int] | None = None
    max_bytes_per_hour: int = 20 * 1024 * MIB
    max_tables: int = 1
    max_cpu_share: float = 1.0

    def is_open(self, minute_of_day: int) -> bool:
        """Whether the window holds a minute of the day (UTC); it may go past midnight."""
        if self.window is None:
            return True
        begin, end = self.window
        if begin <= end:
            return begin <= minute_of_day < end
        return minute_of_day >= begin or minute_of_day < end
