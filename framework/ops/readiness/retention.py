"""How long until a record is lost that waits, and whether topics keep what comes in the longest outage.

In: a pipeline under review, and how long everything may stand still, if somebody said so. Out: evidence for each partition of
the source, for each of its topics, and for the control topic.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from framework.adapters.kafka.control.topic import check_control_topic
from framework.adapters.kafka.fetch import RangeFetcher
from framework.adapters.kafka.held import topic_settings
from framework.commit.offsets import PartitionFacts, PartitionKey
from framework.config.names.table_names import catalog_of
from framework.diagnose.counted import counted, in_two_units
from framework.errors import TableBlocked
from framework.ops.preview.retention import judged_topics
from framework.ops.readiness.model import (
    Evidence,
    PartitionBacklog,
    failed,
    judge_retention,
    not_checked,
    passed,
    warned,
)
from framework.ops.readiness.review import Review
from framework.plan.topic_retention import RetentionFit, longest_interval_ms
from framework.record.model import TaskRange, timestamp_us
from framework.runtime.job import open_catalog

_LATE_INTERVALS = 3
_LOOK_RECORDS = 200  # the first of these that is there says how old what waits is


def source_retention(review: Review, outage_ms: int | None) -> Iterator[Evidence]:
    """Each partition of the source: how long until retention takes a record that is not read."""
    start = review.preview.start
    if start is None:
        yield not_checked("it is not known where a run would begin to read", f"floe plan {review.named}")
        return
    positions = {(each.topic, each.partition): each.start for each in start.partitions}
    now_ms, interval_ms = int(time.time() * 1000), longest_interval_ms(review.plan.write.tables)
    for key, position in sorted(positions.items()):
        waiting = _waiting(review, key, position, review.facts[key])
        # What the setting alone is short of is said topic by topic, by `kept_topics`.
        could = outage_ms if outage_ms is not None and waiting.retention_ms >= outage_ms + interval_ms else None
        yield judge_retention(waiting, now_ms, key[0], "read", review.admin.address, could)


def kept_topics(review: Review, outage_ms: int | None) -> Iterator[Evidence]:
    """Each topic of the source: whether it keeps what comes in the longest outage, in time and bytes."""
    for found in judged_topics(review.plan, outage_ms, review.kafka, review.facts, always_look=True):
        if found.fit is RetentionFit.SHORT:
            yield failed(found.text, found.remedy)
        elif found.fit is RetentionFit.MAYBE:
            yield warned(found.text, found.remedy)
        elif found.fit is RetentionFit.UNKNOWN:
            yield not_checked(found.text, found.remedy)
        else:
            yield passed(found.text)


def control_retention(review: Review, outage_ms: int | None) -> Iterator[Evidence]:
    """The control topic: how long until it loses an announcement that is not committed."""
    topic = review.plan.announce.control_topic
    if review.control_topic_id is None:
        yield passed(f"{topic} does not exist yet; the first run makes it with the settings that the protocol needs")
        return
    from framework.observe.status.read import read_status

    facts = check_control_topic(review.admin, topic)
    status = read_status(review.pipeline.target.name, review.pipeline.target.prefix, review.kafka, topic)
    if status.control.reason:
        yield failed(status.control.reason, status.control.remedy)
        return
    now = PartitionFacts(facts.topic_id, facts.log_start, facts.log_end)
    waits = any(table.pending.announcements for table in status.tables)
    position = status.control.low_water if waits else facts.log_end
    waiting = _waiting(review, (topic, 0), position, now)
    now_ms = int(time.time() * 1000)
    yield judge_retention(waiting, now_ms, topic, "committed in every table", review.admin.address, outage_ms)
    if facts.weakness:
        yield warned(facts.weakness, f"floe doctor {review.named}")


def archived_log(review: Review) -> Iterator[Evidence]:
    """The table that keeps the control log: how much of it, and whether retention may be faster."""
    from framework.runtime.coordinator.log_archive import begin_of, check_archive

    spec, topic = review.pipeline.target.log_archive, review.plan.announce.control_topic
    catalog = open_catalog(review.pipeline.target, (catalog_of(spec.table),))
    view = catalog.load_view(spec.table, "main", review.control_topic_id or "")
    if view is None or review.control_topic_id is None:
        yield passed(f"{spec.table} does not exist yet; the first coordinator makes it")
        return
    facts = check_control_topic(review.admin, topic)
    try:
        check_archive(catalog, spec.table)
        position = begin_of(view, facts.log_end)
    except TableBlocked as blocked:
        yield failed(f"{blocked.message} [{blocked.code}]", blocked.remedy)
        return
    (newest, *_) = (*catalog.snapshots(spec.table, limit=1), None)
    age_ms = 0 if newest is None else int(time.time() * 1000) - newest.timestamp_ms
    waits = facts.log_end - max(position, facts.log_start)
    said = f"{spec.table} holds {topic} below offset {position:,}; {counted(waits, 'offset waits', 'offsets wait')}"
    again = f"floe coordinator {review.in_control}"
    if 0 < position < facts.log_start:
        gone = f"{said}, and offsets {position:,} to {facts.log_start - 1:,} are gone from the topic"
        yield failed(gone, again)
    elif waits and age_ms > _LATE_INTERVALS * spec.interval_ms:
        yield warned(f"{said}, and nothing was archived for {in_two_units(age_ms)}", again)
    else:
        yield passed(said)


def _waiting(review: Review, key: PartitionKey, position: int, now: PartitionFacts) -> PartitionBacklog:
    settings = topic_settings(review.admin, [key[0]])[key[0]]
    return PartitionBacklog(
        f"{key[0]}-{key[1]}",
        position,
        now.log_start,
        now.log_end,
        _oldest_ms(review.kafka, key, max(position, now.log_start), now),
        int(settings["retention.ms"]),
        int(settings["retention.bytes"]),
        "compact" in settings["cleanup.policy"],
    )


def _oldest_ms(kafka: Mapping[str, str], key: PartitionKey, position: int, now: PartitionFacts) -> int | None:
    end = min(now.log_end, position + _LOOK_RECORDS)
    if position >= end:
        return None
    for block in RangeFetcher(kafka).fetch(TaskRange(key[0], now.topic_id, key[1], position, end)):
        return next((at // 1000 for each in block.timestamps_ms if (at := timestamp_us(each)) is not None), None)
    return None
