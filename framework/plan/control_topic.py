"""Whether a control topic's settings allow the protocol to keep its promises.

In: a topic's partitions, replicas and settings as the broker reports them. Out: what is wrong with one of them, with
the setting that fixes it, or what a person should know. Keeps the rule that the log is one partition (total order),
that no announcement is removed by compaction, and by retention only long after it should have been committed, and that
what was acknowledged stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

DAY_MS = 24 * 60 * 60 * 1000
# The log is small (some kilobytes a batch), and an announcement lost to retention means files that no table will ever
# show: so a created topic outlives a month without a coordinator.
RETENTION_MS = 30 * DAY_MS
# Below this an ordinary night without a coordinator could already lose announcements.
MIN_RETENTION_MS = DAY_MS
# At 5 kB a second, which is a busy log, this is two days.
MIN_RETENTION_BYTES = 1024 * 1024 * 1024
# A producer's batch is bounded by message.max.bytes (1,000,000) before compression, an event by 512 KiB.
MIN_MESSAGE_BYTES = 1_000_000
MESSAGE_BYTES = 1_048_588
# For topics that floe makes.
SETTINGS = {
    "cleanup.policy": "delete",
    "retention.ms": str(RETENTION_MS),
    "retention.bytes": "-1",
    "max.message.bytes": str(MESSAGE_BYTES),
    "unclean.leader.election.enable": "false",
}


@dataclass(frozen=True, slots=True)
class Wrong:
    """`reason` follows the topic's name; `setting` is what it must be altered to, empty where another topic is
    needed."""

    reason: str
    setting: str = ""
    otherwise: str = ""


def what_is_wrong(partitions: int, replicas: int, config: Mapping[str, str]) -> Wrong | None:
    """The first setting that the protocol cannot live with."""
    policy = config["cleanup.policy"]
    retention_ms, retention_bytes = int(config["retention.ms"]), int(config["retention.bytes"])
    if partitions != 1:
        return Wrong(
            f"has {partitions} partitions; the protocol needs exactly one, for a single order",
            otherwise="name another topic in commit.control_topic; partitions cannot be removed",
        )
    if policy != "delete":
        return Wrong(
            f"has cleanup.policy={policy}; compaction would remove announcements",
            "cleanup.policy=delete",
            "if it was compacted already, name another topic",
        )
    if 0 <= retention_ms < MIN_RETENTION_MS:
        return Wrong(
            f"keeps records for only {retention_ms} ms; after that, announcements are lost",
            f"retention.ms={RETENTION_MS}",
        )
    if 0 <= retention_bytes < MIN_RETENTION_BYTES:
        return Wrong(
            f"keeps only {retention_bytes} bytes (retention.bytes), however recent they are; older announcements are lost",
            "retention.bytes=-1",
        )
    if int(config["max.message.bytes"]) < MIN_MESSAGE_BYTES:
        return Wrong(
            f"takes {config['max.message.bytes']} bytes a message, not {MIN_MESSAGE_BYTES}",
            f"max.message.bytes={MESSAGE_BYTES}",
        )
    if replicas > 1 and config.get("unclean.leader.election.enable") == "true":
        return Wrong(
            "has unclean.leader.election.enable=true: a replica that lags may become its leader, and acknowledged "
            "announcements are then lost silently",
            "unclean.leader.election.enable=false",
        )
    return None


def what_is_weak(replicas: int, config: Mapping[str, str]) -> Wrong | None:
    """What the protocol lives with and a person should repair."""
    in_sync = int(config.get("min.insync.replicas", "1"))
    if replicas > 1 and in_sync < 2:
        return Wrong(
            f"has {replicas} replicas and min.insync.replicas={in_sync}: if that broker is lost, so is what only it "
            "has acknowledged",
            "min.insync.replicas=2" if replicas > 2 else "",
            ""
            if replicas > 2
            else "ask an administrator to raise the replication factor to 3 and min.insync.replicas to 2",
        )
    return None
