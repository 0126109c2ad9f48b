"""How long until a record is lost that waits, whether topics keep what comes in the longest outage, and whether what is kept for
a rebuild is all there.

In: a pipeline under review, and how long everything may stand still, if somebody said so. Out: evidence for each partition of
the source, for each of its topics, for the control topic and its archive, and for what the file would be rebuilt from.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from operator import attrgetter

from framework.adapters.iceberg.snapshots import read_ends
from framework.adapters.kafka.control.topic import check_control_topic
from framework.adapters.kafka.fetch import RangeFetcher
from framework.adapters.kafka.held import held_topics, topic_facts, topic_settings
from framework.adapters.secrets import first_line
from framework.commit.offsets import PartitionFacts, PartitionKey
from framework.config.names.table_names import catalog_of
from framework.diagnose.counted import counted, in_two_units, moment_text
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
from framework.plan.topic_retention import RetentionFit, alter_command, longest_interval_ms
from framework.record.model import TaskRange, timestamp_us
from framework.runtime.job import open_catalog

_LATE_INTERVALS = 3
_FIRST_MS, _LAST_MS = attrgetter("first_ms"), attrgetter("last_ms")
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


def rebuild_paths(review: Review) -> Iterator[Evidence]:
    """The topic and the table that the file names: read at both ends, and held against the first records of the source. What lies
    between an archive's end and the source's beginning is nowhere."""
    source = review.pipeline.spec.source
    held = held_topics(review.kafka, review.admin, review.facts, True)
    begins_ms = min(
        (each.first_ms for topic in held for each in topic.partitions if each.first_ms is not None), default=None
    )
    if source.rebuild_topic:
        yield _rebuild_topic(review, source.rebuild_topic, begins_ms)
    if source.rebuild_table:
        yield _rebuild_table(review, source.rebuild_table, begins_ms)


def _rebuild_topic(review: Review, topic: str, begins_ms: int | None) -> Evidence:
    facts = topic_facts(review.admin, topic)
    where = f"correct `source.rebuild_from.topic` in {review.pipeline.file}"
    if not facts:
        return failed(f"there is no topic {topic} to rebuild from", where)
    [held] = held_topics(review.kafka, review.admin, facts, True)
    first, last = ([at for each in held.partitions if (at := end(each)) is not None] for end in (_FIRST_MS, _LAST_MS))
    if not first:
        return failed(f"topic {topic} holds no record to rebuild from", where)
    records = sum(each.records for each in held.partitions)
    said = (
        f"topic {topic} holds {counted(records, 'record')} from {moment_text(min(first))} to {moment_text(max(last))}"
    )
    if begins_ms is not None and max(last) < begins_ms:
        return failed(
            f"{said}; the source begins at {moment_text(begins_ms)}, and what lies between is in neither", where
        )
    keep_all = alter_command(review.admin.address, topic, "retention.ms=-1,retention.bytes=-1")
    if gone := sum(each.log_start for each in held.partitions):
        return warned(f"{said}; {counted(gone, 'offset')} before the first are gone", keep_all)
    if not held.only_compacted and max(held.retention_ms, held.retention_bytes) >= 0:
        return warned(f"{said}; its retention removes records", keep_all)
    return passed(said)


def _rebuild_table(review: Review, name: str, begins_ms: int | None) -> Evidence:
    tables = open_catalog(review.pipeline.target, (catalog_of(name),))
    where = f"correct `source.rebuild_from.table` in {review.pipeline.file}"
    loaded, _ = tables.opened(name)
    if loaded is None:
        return failed(f"there is no table {name} to rebuild from", where)
    try:
        ends = read_ends(loaded)
    except Exception as error:  # each store and file has exceptions of its own
        lost = f"a file of table {name} cannot be read: {type(error).__name__}: {first_line(error)}"
        return failed(lost, "check that the store answers and that these credentials may read it")
    if ends is None:
        return failed(f"table {name} holds no row to rebuild from", where)
    rows = "" if ends.rows is None else f" {counted(ends.rows, 'row')},"
    said = f"table {name} holds{rows} the last of {moment_text(ends.last_ms)}; its first and its last file are readable"
    if begins_ms is not None and ends.last_ms < begins_ms:
        return failed(
            f"{said}; the source begins at {moment_text(begins_ms)}, and what lies between is in neither", where
        )
    return passed(said)


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
