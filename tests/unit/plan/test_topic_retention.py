"""What a topic must keep, beside what it keeps: in time, in bytes, and where that cannot be said."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.config.spec import CommitPolicy, TablePolicy, TablesSpec
from framework.plan.topic_retention import (
    PartitionHeld,
    RetentionFit,
    TopicHeld,
    alter_command,
    longest_interval_ms,
    needed_retention,
)

HOUR = 3_600_000
DAY = 24 * HOUR
MIB = 1024 * 1024
# 1 record a second of 1,000 bytes, over ten hours.
STEADY = PartitionHeld(0, 36_000, 0, 10 * HOUR, 1_000.0)
GONE = replace(STEADY, log_start=500, log_end=36_500)
IDLE = PartitionHeld(9, 9, None, None, None)
A_DAY_OF_IT = 86_400 * 1_000


@pytest.mark.parametrize(
    ("partitions", "retention_ms", "retention_bytes", "fit", "settings"),
    [
        ([STEADY], -1, -1, RetentionFit.ENOUGH, ""),
        ([STEADY], 7 * DAY, -1, RetentionFit.ENOUGH, ""),
        ([STEADY], DAY, -1, RetentionFit.ENOUGH, ""),
        ([STEADY], DAY - 1, -1, RetentionFit.SHORT, f"retention.ms={7 * DAY}"),
        ([STEADY], 7 * DAY, A_DAY_OF_IT, RetentionFit.ENOUGH, ""),
        ([STEADY], 7 * DAY, A_DAY_OF_IT - 1, RetentionFit.MAYBE, f"retention.bytes={165 * MIB}"),
        ([GONE], 7 * DAY, A_DAY_OF_IT - 1, RetentionFit.SHORT, f"retention.bytes={165 * MIB}"),
        ([IDLE, STEADY, GONE], 7 * DAY, 5 * MIB, RetentionFit.SHORT, f"retention.bytes={165 * MIB}"),
        ([GONE], HOUR, 5 * MIB, RetentionFit.SHORT, f"retention.ms={7 * DAY},retention.bytes={165 * MIB}"),
        ([replace(GONE, last_ms=2 * DAY)], 7 * DAY, MIB, RetentionFit.ENOUGH, ""),
        ([IDLE], 7 * DAY, -1, RetentionFit.ENOUGH, ""),
        ([IDLE], 7 * DAY, MIB, RetentionFit.UNKNOWN, "retention.bytes=-1"),
        ([replace(STEADY, last_ms=50_000)], 7 * DAY, MIB, RetentionFit.UNKNOWN, "retention.bytes=-1"),
        ([replace(STEADY, last_ms=None)], 7 * DAY, MIB, RetentionFit.UNKNOWN, "retention.bytes=-1"),
    ],
)
def test_settings_are_judged_by_what_an_outage_needs(
    partitions: list[PartitionHeld], retention_ms: int, retention_bytes: int, fit: RetentionFit, settings: str
) -> None:
    """Time is judged exactly; size by the busiest partition, surely only where records went so soon, never where the
    partition holds that long already, and not at all without a rate. The remedy sets twice what is needed, and only what is
    short."""
    found = needed_retention(TopicHeld("orders", tuple(partitions), retention_ms, retention_bytes), DAY - HOUR, HOUR)
    assert (found.fit, found.settings) == (fit, settings), found.text


def test_the_numbers_are_said() -> None:
    """Outage, interval, what they need in time and bytes by partition and in all, the rates and the settings."""
    held = TopicHeld("orders", (STEADY, replace(STEADY, log_end=72_000)), 2 * DAY, 10 * MIB)
    assert needed_retention(held, 3 * DAY, HOUR // 2).text == (
        "orders: an outage of 3d and a commit interval of 30m need 3 d 1 h and 497.8 MiB in the busiest partition, 746.7 MiB in "
        "all (3.0 records/s and 2.9 KiB/s as they are read, over 10 h); it keeps 2 d (retention.ms) and 10.0 MiB a partition "
        "(retention.bytes); such an outage would lose records"
    )
    idle = needed_retention(TopicHeld("orders", (IDLE,), -1, -1), 3 * DAY, HOUR // 2)
    assert idle.text.endswith(
        "(no rate was measured: 0 records); it keeps no limit (retention.ms) and no limit (retention.bytes)"
    )


def test_compaction_alone_has_no_time() -> None:
    """Where `cleanup.policy` is `compact`, neither limit removes anything."""
    held = TopicHeld("orders", (STEADY,), HOUR, MIB, only_compacted=True)
    assert needed_retention(held, 3 * DAY, HOUR).fit is RetentionFit.ENOUGH


@given(
    st.integers(1, 10**7),
    st.integers(60_000, 10**10),
    st.floats(0, 1e6),
    st.integers(1, 10**10),
    st.integers(1, 10**13),
)
def test_what_the_remedy_sets_is_enough(records: int, span_ms: int, size: float, outage_ms: int, limit: int) -> None:
    """Whoever sets it is not told again."""
    held = TopicHeld("orders", (PartitionHeld(7, 7 + records, 0, span_ms, size),), outage_ms // 2, limit)
    found = needed_retention(held, outage_ms, 60_000)
    assert found.fit is RetentionFit.SHORT
    wanted = dict(setting.split("=") for setting in found.settings.split(","))
    ours = replace(
        held, retention_ms=int(wanted["retention.ms"]), retention_bytes=int(wanted.get("retention.bytes", limit))
    )
    assert needed_retention(ours, outage_ms, 60_000).fit is RetentionFit.ENOUGH


def test_a_topics_name_is_one_word_of_the_command() -> None:
    """Whatever the broker and the topic are called."""
    words = shlex.split(alter_command("b:9092; rm x", "a b", "retention.ms=1,retention.bytes=2"))
    assert words[2] == "b:9092; rm x"
    assert words[5:] == ["a b", "--add-config", "retention.ms=1,retention.bytes=2"]


def test_the_longest_interval_counts() -> None:
    """A table that is committed by the hour lacks an hour's records when an outage begins."""
    defaults = TablePolicy()
    slow = replace(defaults, commit=CommitPolicy(interval_ms=HOUR))
    assert longest_interval_ms(TablesSpec(defaults)) == defaults.commit.interval_ms
    assert longest_interval_ms(TablesSpec(defaults, (("a.*", slow), ("b.*", defaults)))) == HOUR
