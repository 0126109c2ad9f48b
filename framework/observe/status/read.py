"""One view of where everything stands: safe offsets, announcements that wait, visible snapshots, who coordinates.

In: a target's control topic and its groups, and only where somebody asks for it a catalog; nothing is changed. Out: the
Status that `framework.observe.status.judge` makes of them. Without a catalog no table is loaded, and nothing of Iceberg is
imported: the time does not depend on what the tables hold.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.record_time import record_time_ms, record_times_ms
from framework.commit.dead_letter_replay import is_replay_topic
from framework.commit.maintenance.health import TableHealth
from framework.commit.offsets import PartitionKey, SafeOffset, decode_metadata, recreated_topics
from framework.commit.risks import Held, nearest_to_retention
from framework.config.values.maintenance import MaintenancePolicy
from framework.diagnose.whole_commands import ReaderPlace
from framework.errors import FloeError, StateDisagreement
from framework.observe.liveness import live_members
from framework.observe.status.control_log import ControlLog, read_latest_event
from framework.observe.status.judge import (
    BrokerView,
    PipelineSeen,
    StatusInput,
    TableLook,
    newest_link,
    pipeline_names,
    status_of,
    table_names,
    template_of,
)
from framework.observe.status.model import (
    TROUBLE,
    CommitStatus,
    ControlStatus,
    LatestEvent,
    PartitionStatus,
    PauseStatus,
    PendingStatus,
    PipelineStatus,
    Status,
    TableStatus,
    filtered,
)
from framework.observe.waiting_since import UnreadPart, open_transactions, waiting_since, with_times
from framework.plan.compile import coordinator_group, group_id

if TYPE_CHECKING:
    from framework.adapters.iceberg.tables import IcebergTables

__all__ = [
    "TROUBLE",
    "CommitStatus",
    "ControlStatus",
    "LatestEvent",
    "PartitionStatus",
    "PauseStatus",
    "PendingStatus",
    "PipelineStatus",
    "Status",
    "TableStatus",
    "filtered",
    "read_status",
    "template_of",
]

# Requests to the broker at once, where there are many pipelines.
AT_ONCE = 8


def read_status(
    target_name: str,
    prefix: str,
    kafka: dict[str, str],
    control_topic: str,
    catalog: IcebergTables | None = None,
    with_health: bool = False,
    connection: str = "",
) -> Status:
    """Read everything once.

    Args:
        connection: whose `kafka` is, where the target has others, too.
        catalog: look at the tables, too, and say where they differ from what the log says; None: the log's word counts.
        with_health: also read the manifests of every table, and say what maintenance would gain.

    Raises:
        SetupError: the broker or the catalog cannot be reached, or the control topic does not exist.
    """
    admin = KafkaAdmin(kafka)
    group = coordinator_group(prefix, control_topic)
    admin.check()  # one time-out where no broker answers, and not that of each question that is asked beside others
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="status") as pool:
        members = pool.submit(admin.group_members, group)
        log, looked_log = read_latest_event(admin, kafka, control_topic, group, catalog)
        names = pipeline_names(log)
        pipelines = dict(
            zip(names, pool.map(lambda name: _pipeline(admin, kafka, prefix, name, log), names), strict=True)
        )
        pipelines = _with_waiting(kafka, pipelines)
        owner = next((m.client_id for m in members.result() if (control_topic, 0) in m.partitions), None)
    looked = None
    if catalog is not None and looked_log is not None:
        written = {name: state.branch for name, state in log.state.tables.items()}
        tables = {
            name: _look(name, catalog, written.get(name, "main"), name in log.commits, with_health)
            for name in table_names(log)
        }
        looked = StatusInput(looked_log, tables)
    place = ReaderPlace(target_name, control_topic, connection, kafka.get("bootstrap.servers", ""))
    return status_of(place, log, BrokerView(owner, pipelines), int(time.time() * 1000), looked)


def _pipeline(admin: KafkaAdmin, kafka: dict[str, str], prefix: str, name: str, log: ControlLog) -> PipelineSeen:
    group: dict[PartitionKey, SafeOffset] = {}
    foreign = ""
    for key, value in admin.group_offsets(group_id(prefix, name)).items():
        try:
            group[key] = decode_metadata(value.offset, value.metadata, f"{key[0]}-{key[1]}")
        except StateDisagreement as error:
            foreign = f"{error.place}: {error.message}"
    link = newest_link(log, name)
    topics = sorted({r.topic for r in link.ranges} if link else {topic for topic, _ in group})
    topics = [topic for topic in topics if not is_replay_topic(topic)]
    found = admin.topics(topics) if topics else {}
    keys = [(topic, partition) for topic, facts in found.items() for partition in facts.partitions]
    ends = admin.end_offsets(keys) if keys else {}
    starts = admin.start_offsets(keys) if keys else {}
    return PipelineSeen(
        group,
        foreign,
        tuple(member.run for member in live_members(admin, prefix, name) if member.run),
        tuple(topic for topic in topics if topic not in found),
        ends,
        starts,
        _held(kafka, {key: start for key, start in starts.items() if key in group}, ends, group),
        recreated_topics(group, link.ranges if link else (), {topic: facts.topic_id for topic, facts in found.items()}),
        transactions=open_transactions(ends, admin.end_offsets(keys, committed=False)),
    )


def _with_waiting(kafka: dict[str, str], pipelines: Mapping[str, PipelineSeen]) -> dict[str, PipelineSeen]:
    """The pipelines with since when their oldest unread record waits, and since when transactions hide some."""
    unread = {}
    for name, seen in pipelines.items():
        starts = {(each.topic, each.partition): each.log_start for each in seen.held}
        unread[name] = tuple(
            UnreadPart(key, max(safe.offset, starts.get(key, 0)), seen.ends.get(key, 0) - safe.offset)
            for key, safe in seen.group.items()
        )
    since_ms = waiting_since(partial(record_times_ms, kafka), unread)
    hiding = with_times(
        partial(record_times_ms, kafka, committed=False), {name: seen.transactions for name, seen in pipelines.items()}
    )
    return {
        name: replace(seen, waits_since_ms=since_ms.get(name), transactions=hiding[name])
        for name, seen in pipelines.items()
    }


def _held(
    kafka: dict[str, str],
    starts: Mapping[PartitionKey, int],
    ends: Mapping[PartitionKey, int],
    group: Mapping[PartitionKey, SafeOffset],
) -> tuple[Held, ...]:
    """What topics hold of the partitions of which something was announced; the worst one with since when its records wait,
    where retention is near them."""
    found = tuple(Held(*key, start, ends[key], group[key].offset) for key, start in starts.items())
    worst = nearest_to_retention(found)
    if worst is None:
        return found
    since_ms = record_time_ms(kafka, worst.topic, worst.partition, max(worst.log_start, worst.safe_offset))
    return (replace(worst, waits_since_ms=since_ms),)


def _look(name: str, catalog: IcebergTables, branch: str, is_committed: bool, with_health: bool) -> TableLook:
    total: int | None = None
    unreadable = ""
    health: TableHealth | None = None
    if with_health:
        from framework.adapters.maintenance.tables import TableCare

        try:
            health = TableCare(catalog).health(name, MaintenancePolicy(), branch=branch)
        except FloeError as error:
            unreadable = error.message
    if is_committed:
        try:
            newest = catalog.snapshots(name, limit=1)
            total = newest[-1].total_rows if newest else None
            if not newest:
                unreadable = f"the log has a commit of table {name}, and the catalog has no such table, or an empty one"
        except FloeError as error:
            unreadable = error.message
    return TableLook(total, health, unreadable)
