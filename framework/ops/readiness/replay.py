"""A bounded range of the source, read again, written into scratch tables, and compared with what the tables hold.

In: a review, and how many offsets to read. Out: evidence for each table. The records go through the run's own code with the
tables as they are; the scratch tables are made with PyIceberg's own door in a namespace of their own, read back, and removed.
Of a difference only positions are reported, never a value.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from framework.adapters.iceberg.catalog import IcebergCatalog
from framework.adapters.kafka.fetch import RangeFetcher
from framework.adapters.registry import resolved_registries
from framework.adapters.secrets import resolve
from framework.commit.offsets import PartitionKey
from framework.config.names.table_names import catalog_of, identifier_of
from framework.diagnose.counted import counted
from framework.diagnose.shown import argument
from framework.ops.doctor.scratch import NoScratch, ScratchPrefix, scratch_table
from framework.ops.readiness.model import Evidence, failed, not_checked, passed, warned
from framework.ops.readiness.review import Review
from framework.ops.tap.model import Tap, tables_now
from framework.record.model import RecordBlock, TaskRange
from framework.record.process import Sql
from framework.testing.values import shown

_TOPIC, _PARTITION, _OFFSET = "_kafka_topic", "_kafka_partition", "_kafka_offset"
_REPORTED = 3


@dataclass
class Range:
    """`begins` and `ends` are of what is read again; `recorded` says by table how far its record reaches."""

    begins: dict[PartitionKey, int] = field(default_factory=dict)
    ends: dict[PartitionKey, int] = field(default_factory=dict)
    recorded: dict[str, dict[PartitionKey, int]] = field(default_factory=dict)


def replayed(review: Review, offsets: int, sql: Sql | None) -> Iterator[Evidence]:
    """Each table's rows of the range, beside those that the same records give now."""
    if review.plan.transform is not None and sql is None:
        yield not_checked("the pipeline has SQL, which only Spark can run", "leave out --no-spark")
        return
    chosen = _range(review, offsets)
    if not chosen.ends:
        yield not_checked(
            "no table has recorded anything of this pipeline yet", f"floe run {review.named} --until-caught-up"
        )
        return
    blocks = list(_blocks(review, chosen))
    target = review.pipeline.target
    registries = resolved_registries(target, review.plan.decode)
    rows = Tap(review.plan, tables_now(review.plan, review.catalog), registries, sql).rows(blocks)
    ranges = ", ".join(f"{t}-{p} [{chosen.begins[t, p]}, {end})" for (t, p), end in sorted(chosen.ends.items()))
    yield passed(f"{counted(sum(map(len, blocks)), 'record')} read again: {ranges}")
    for table in review.tables:
        if table != review.plan.write.dead_letter_table:
            yield from _compared(review, table, rows.get(table), chosen)


def _range(review: Review, offsets: int) -> Range:
    """The newest offsets that some table records, as many as asked for, evenly from all partitions."""
    found = Range()
    for table in review.tables:
        view = review.catalog.load_view(table, "main", review.control_topic_id or "")
        progress = view.progress.pipelines.get(review.plan.pipeline) if view and view.progress else None
        for topic, ends in progress.offsets.items() if progress is not None else ():
            for partition, end in ends.items():
                key = topic, int(partition)
                facts = review.facts.get(key)
                # Invariant 11: what is recorded of another topic of this name says nothing of this one.
                if facts is None or progress is None or progress.topic_ids.get(topic) != facts.topic_id:
                    continue
                found.recorded.setdefault(table, {})[key] = end
                found.ends[key] = max(end, found.ends.get(key, 0))
    share = max(1, -(-offsets // max(1, len(found.ends))))
    for key, end in list(found.ends.items()):
        begin = max(review.facts[key].log_start, end - share)
        if begin >= end:  # retention has taken all of it
            del found.ends[key]
        else:
            found.begins[key] = begin
    return found


def _blocks(review: Review, chosen: Range) -> Iterator[RecordBlock]:
    fetcher = RangeFetcher(review.kafka)
    for (topic, partition), end in sorted(chosen.ends.items()):
        topic_id = review.facts[topic, partition].topic_id
        yield from fetcher.fetch(TaskRange(topic, topic_id, partition, chosen.begins[topic, partition], end))


def _compared(review: Review, table: str, rows: pa.Table | None, chosen: Range) -> Iterator[Evidence]:
    policy = review.plan.write.tables.policy_for(table)
    if policy.write.is_upsert or review.plan.write.tables.whose_history(table) is not None:
        yield not_checked(f"{table} is an upsert table: what it holds depends on all records before these")
        return
    ends = {
        key: min(end, chosen.ends[key]) for key, end in chosen.recorded.get(table, {}).items() if key in chosen.ends
    }
    target, catalog = review.pipeline.target, catalog_of(table)
    settings = resolve(target.catalogs[catalog])
    opened = IcebergCatalog(settings, catalog, locations=target.allow_locations).open()[0]
    live = opened.load_table(identifier_of(table))
    needed = {_PARTITION, _OFFSET} | ({_TOPIC} if len({topic for topic, _ in chosen.ends}) > 1 else set())
    if missing := sorted(needed - {column.name for column in live.schema().fields}):
        remedy = "add `metadata_columns: [topic, partition, offset]` to `source`"
        yield not_checked(
            f"{table} has no column {', '.join(missing)}: which rows are of the range cannot be determined", remedy
        )
        return
    has_topic = _TOPIC in needed or _TOPIC in {column.name for column in live.schema().fields}
    held = _held(live, {key: (chosen.begins[key], end) for key, end in ends.items()}, has_topic)
    wanted = [] if rows is None else [row for row in _plain(rows) if _is_recorded(row, ends, has_topic)]
    if rows is not None:
        try:
            wanted = _through_scratch(opened, live, rows, wanted)
        except NoScratch as raised:
            yield not_checked(f"no scratch table could be made for {table}: {raised}", "allow it to create a namespace")
            return
    yield _judged(review, table, wanted, held)


def _through_scratch(
    opened: Catalog, live: Table, rows: pa.Table, wanted: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The rows as a table of the same schema gives them back; those that the live table does not record are left out."""
    with scratch_table(opened, live.schema(), ScratchPrefix.READINESS, live.metadata.format_version) as scratch:
        known = set(live.schema().column_names)
        columns = [column for column in rows.column_names if column in known]
        plain = pa.schema([_without_id(rows.schema.field(column)) for column in columns])
        scratch.append(rows.select(columns).cast(plain))
        back = Counter(map(_key, _plain(opened.load_table(scratch.name()).scan().to_arrow())))
        return [row for row in wanted if back[_key(row)] > 0]


def _without_id(field: pa.Field) -> pa.Field:
    """The field without the ids of the live table's columns, on any level: the scratch table numbers its own."""
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_without_id(kind.field(i)) for i in range(kind.num_fields)])
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        kind = pa.list_(_without_id(kind.value_field))
    elif pa.types.is_map(kind):
        kind = pa.map_(_without_id(kind.key_field), _without_id(kind.item_field))
    return pa.field(field.name, kind, field.nullable)


def _held(live: Table, ranges: Mapping[PartitionKey, tuple[int, int]], has_topic: bool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for (topic, partition), (begin, end) in sorted(ranges.items()):
        # Kafka's own rules leave no quote in a topic's name.
        of_topic = f"{_TOPIC} = '{topic}' and " if has_topic else ""
        where = f"{of_topic}{_PARTITION} = {partition} and {_OFFSET} >= {begin} and {_OFFSET} < {end}"
        found += _plain(live.scan(row_filter=where).to_arrow())
    return found


def _plain(rows: pa.Table) -> list[dict[str, Any]]:
    columns = {name: [shown(value) for value in _python(rows.column(name))] for name in rows.column_names}
    return [{name: values[i] for name, values in columns.items()} for i in range(len(rows))]


def _python(column: pa.ChunkedArray) -> list[Any]:
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):  # Python has no dates beyond the years 1 to 9999
        return list(column.cast(pa.int64()).to_pylist())


def _is_recorded(row: Mapping[str, Any], ends: Mapping[PartitionKey, int], has_topic: bool) -> bool:
    for (topic, partition), end in ends.items():
        if row[_PARTITION] == partition and (not has_topic or row.get(_TOPIC) == topic):
            return bool(row[_OFFSET] < end)
    return False


def _key(row: Mapping[str, Any]) -> str:
    """A row without its nulls, since the table may have gained columns."""
    return json.dumps({name: value for name, value in sorted(row.items()) if value is not None}, default=str)


def _judged(review: Review, table: str, wanted: list[dict[str, Any]], held: list[dict[str, Any]]) -> Evidence:
    ours, theirs = Counter(map(_key, wanted)), Counter(map(_key, held))
    if ours == theirs:
        if not held:
            return not_checked(f"{table} has no row of the range")
        return passed(
            f"{table}: {counted(len(held), 'row')} of the range, the same in the scratch table and in the table"
        )
    only_ours = [row for row in wanted if theirs[_key(row)] < ours[_key(row)]]
    only_theirs = [row for row in held if ours[_key(row)] < theirs[_key(row)]]
    places = [f"{row[_PARTITION]}@{row[_OFFSET]}" for row in (*only_ours, *only_theirs)]
    reported = ", ".join(dict.fromkeys(places[:_REPORTED])) + (" and more" if len(places) > _REPORTED else "")
    text = (
        f"{table}: {counted(len(only_ours), 'row')} only when read again, {counted(len(only_theirs), 'row')} only in the "
        f"table, at partition@offset {reported}"
    )
    if review.preview.changes:
        return warned(f"{text}; the file differs from what was deployed", f"floe diff {review.named}")
    first = next(iter((*only_ours, *only_theirs)))
    topic = first.get(_TOPIC) or next(topic for topic, _ in review.facts)
    return failed(
        text, f"floe tap {review.named} --from {argument(topic)}-{first[_PARTITION]}@{first[_OFFSET]} --limit 1"
    )
