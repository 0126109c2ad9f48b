"""How long and how much a source topic must keep, so that an outage loses nothing, beside what it is set to keep.

In: what its partitions hold, how its retention is set, the longest outage and the commit interval, as values. Out: what is
needed in time and bytes, and whether the settings are short of it. Bytes are those of records as they are read, of which a
compressed topic stores fewer: the size is sure to be too small only where the broker has removed records so soon.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from framework.config.spec import TablesSpec
from framework.config.units import duration_text
from framework.diagnose.counted import counted, in_two_units, size_text
from framework.diagnose.shown import argument

DEFAULT_OUTAGE_MS = 86_400_000
# Records that came within less than this say nothing of a rate.
SPAN_LEAST_MS = 60_000
# What a remedy sets: more than is needed, since traffic grows; and never less than a week, Kafka's own default.
_SPARE = 2
_WEEK_MS = 7 * 86_400_000
_MIB = 1024 * 1024


class RetentionFit(str, Enum):
    """Whether a topic keeps what is needed. `MAYBE` is short by the size of records as they are read, `UNKNOWN` has a limit in
    bytes and no rate."""

    ENOUGH = "enough"
    MAYBE = "may be short"
    SHORT = "short"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class PartitionHeld:
    """Offsets, times of the first and the last record that is held, and how many bytes a record has, on average, of those that
    were looked at; None where none was."""

    log_start: int
    log_end: int
    first_ms: int | None
    last_ms: int | None
    record_bytes: float | None

    @property
    def records(self) -> int:
        return self.log_end - self.log_start

    @property
    def span_ms(self) -> int:
        return 0 if self.first_ms is None or self.last_ms is None else max(0, self.last_ms - self.first_ms)

    @property
    def kept_bytes(self) -> int | None:
        """What it holds; None where no record was looked at."""
        return None if self.record_bytes is None else math.ceil(self.records * self.record_bytes)

    def bytes_in(self, duration_ms: int) -> int | None:
        """What comes in a time; None where no rate is known."""
        if self.span_ms < SPAN_LEAST_MS or self.record_bytes is None:
            return None
        return math.ceil(self.records * self.record_bytes * duration_ms / self.span_ms)


@dataclass(frozen=True)
class TopicHeld:
    """A topic with the settings of its retention: -1 is no limit, and both limits are those of one partition."""

    topic: str
    partitions: tuple[PartitionHeld, ...]
    retention_ms: int
    retention_bytes: int
    only_compacted: bool = False


@dataclass(frozen=True)
class NeededRetention:
    """`settings` is what must be altered, empty where nothing must."""

    fit: RetentionFit
    text: str
    settings: str = ""


def needed_retention(held: TopicHeld, outage_ms: int, interval_ms: int) -> NeededRetention:
    """What a topic must keep: all that comes in an outage, and what tables may lack at its beginning, a commit interval."""
    if held.only_compacted:
        return NeededRetention(
            RetentionFit.ENOUGH, f"{held.topic}: compacted, no retention removes a key's newest record"
        )
    needed_ms = outage_ms + interval_ms
    by_size = _by_size(held, needed_ms)
    by_time = RetentionFit.SHORT if 0 <= held.retention_ms < needed_ms else RetentionFit.ENOUGH
    settings = []
    if by_time is RetentionFit.SHORT:
        settings.append(f"retention.ms={max(_WEEK_MS, _SPARE * needed_ms)}")
    if by_size is not RetentionFit.ENOUGH:
        most = max((size for each in held.partitions if (size := each.bytes_in(needed_ms)) is not None), default=None)
        settings.append(f"retention.bytes={-1 if most is None else math.ceil(_SPARE * most / _MIB) * _MIB}")
    found = by_time if by_time is RetentionFit.SHORT else by_size
    text = (
        f"{held.topic}: an outage of {duration_text(outage_ms)} and a commit interval of {duration_text(interval_ms)} need "
        f"{_needed_text(needed_ms)}{_bytes_text(held.partitions, needed_ms)}; it keeps {_kept_text(held)}{_why(found, by_size)}"
    )
    return NeededRetention(found, text, ",".join(settings))


def longest_interval_ms(tables: TablesSpec) -> int:
    """After so long at the latest each table has what was read."""
    return max(policy.commit.interval_ms for policy in (tables.defaults, *(policy for _, policy in tables.overrides)))


def alter_command(address: str, topic: str, settings: str) -> str:
    """The command of Kafka's tools that alters a topic.

    Args:
        settings: names and numbers.
    """
    where = f"kafka-configs.sh --bootstrap-server {argument(address)} --alter --topic {argument(topic)}"
    return f"{where} --add-config {argument(settings)}"


def _by_size(held: TopicHeld, needed_ms: int) -> RetentionFit:
    if held.retention_bytes < 0:
        return RetentionFit.ENOUGH
    fits = {_partition_by_size(each, held.retention_bytes, needed_ms) for each in held.partitions if each.records}
    order = (RetentionFit.SHORT, RetentionFit.MAYBE, RetentionFit.UNKNOWN, RetentionFit.ENOUGH)
    return next((fit for fit in order if fit in fits), RetentionFit.UNKNOWN)


def _partition_by_size(held: PartitionHeld, limit: int, needed_ms: int) -> RetentionFit:
    if held.span_ms >= needed_ms:  # it holds that much already
        return RetentionFit.ENOUGH
    needed = held.bytes_in(needed_ms)
    if needed is None:
        return RetentionFit.UNKNOWN
    if needed <= limit:
        return RetentionFit.ENOUGH
    return RetentionFit.SHORT if held.log_start > 0 else RetentionFit.MAYBE


def _bytes_text(partitions: Sequence[PartitionHeld], needed_ms: int) -> str:
    known = [(each, size) for each in partitions if (size := each.bytes_in(needed_ms)) is not None]
    if not known and any(each.records and each.record_bytes is None for each in partitions):
        return ""  # nobody looked at them
    if not known:
        return f" (no rate was measured: {counted(sum(each.records for each in partitions), 'record')})"
    most, total = max(size for _, size in known), sum(size for _, size in known)
    rate = sum(each.records * 1000 / each.span_ms for each, _ in known)
    over = in_two_units(max(each.span_ms for each, _ in known))
    return (
        f" and {size_text(most)} in the busiest partition, {size_text(total)} in all ({_rate_text(rate)} records/s and "
        f"{size_text(total * 1000 // needed_ms)}/s as they are read, over {over})"
    )


def _rate_text(rate: float) -> str:
    return f"{rate:,.1f}" if rate >= 1 else f"{rate:.2g}"


def _needed_text(needed_ms: int) -> str:
    """Rounded up to what is shown, so that who keeps that is not short of it."""
    unit_ms = 3_600_000 if needed_ms >= 86_400_000 else 60_000
    return in_two_units(-(-needed_ms // unit_ms) * unit_ms)


def _kept_text(held: TopicHeld) -> str:
    time = "no limit" if held.retention_ms < 0 else in_two_units(held.retention_ms)
    size = "no limit" if held.retention_bytes < 0 else f"{size_text(held.retention_bytes)} a partition"
    return f"{time} (retention.ms) and {size} (retention.bytes)"


def _why(found: RetentionFit, by_size: RetentionFit) -> str:
    if found is RetentionFit.MAYBE:
        return "; that may be too little, if records are not compressed"
    if found is RetentionFit.UNKNOWN:
        return "; whether that size is enough cannot be said"
    return "; such an outage would lose records" if found is RetentionFit.SHORT else ""
