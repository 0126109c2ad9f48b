"""The independent checker: what was produced against what is in the tables, through PyIceberg and the broker alone.

In: a PyIceberg catalog, table names, the topics' own records as read by a plain consumer. Out: an assertion that names
the first records that are lost or there twice, and the first file path that is live twice. Nothing of floe is imported;
invariants 1 to 5 show here as one sentence: the set is exact, each once, each path once. Invariant 8 is checked on the
figures that `floe status --json` prints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import AlwaysTrue

Position = tuple[str, int, int]
POSITION_COLUMNS = ("_kafka_topic", "_kafka_partition", "_kafka_offset")


@dataclass(frozen=True)
class Verdict:
    """Positions by finding; all three empty means exact. `paths_twice` are data files that are live more than once."""

    lost: tuple[Position, ...]
    twice: tuple[Position, ...]
    unknown: tuple[Position, ...]
    paths_twice: tuple[str, ...]
    rows: int

    @property
    def exact(self) -> bool:
        return not (self.lost or self.twice or self.unknown or self.paths_twice)

    def __str__(self) -> str:
        def some(items: Sequence[object]) -> str:
            return f"{len(items)} {list(items[:5])}"

        return (
            f"{self.rows} rows; lost: {some(self.lost)}; twice: {some(self.twice)}; "
            f"never produced: {some(self.unknown)}; paths live twice: {some(self.paths_twice)}"
        )


def all_tables(catalog: Catalog, namespaces: Iterable[str]) -> list[str]:
    """Every table of the namespaces; a namespace that does not exist has none."""
    known = {name[0] for name in catalog.list_namespaces()}
    return sorted(".".join(t) for n in namespaces if n in known for t in catalog.list_tables(n))


def produced_positions(bootstrap_servers: str, topics: Iterable[str]) -> set[Position]:
    """The position of every record that a read_committed consumer finds in the topics now."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "checker",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    try:
        metadata = consumer.list_topics(timeout=20)
        partitions = [TopicPartition(t, p, 0) for t in topics for p in metadata.topics[t].partitions]
        consumer.assign(partitions)
        found: set[Position] = set()
        open_ends = {(p.topic, p.partition) for p in partitions}
        while open_ends:
            for message in consumer.consume(5000, timeout=0.2):
                error = message.error()
                if error is None:
                    found.add((message.topic() or "", message.partition() or 0, message.offset() or 0))
                elif error.code() == KafkaError._PARTITION_EOF:
                    open_ends.discard((message.topic(), message.partition()))
                else:
                    raise KafkaException(error)
        return found
    finally:
        consumer.close()


def landed_positions(catalog: Catalog, tables: Iterable[str]) -> Counter[Position]:
    """How often each position stands in the tables, by their metadata columns."""
    counts: Counter[Position] = Counter()
    for name in tables:
        rows = catalog.load_table(name).scan(selected_fields=POSITION_COLUMNS).to_arrow()
        counts.update(zip(*(rows.column(c).to_pylist() for c in POSITION_COLUMNS), strict=True))
    return counts


def paths_live_twice(catalog: Catalog, tables: Iterable[str]) -> list[str]:
    """Invariant 5: data file paths with more than one live entry, over the manifests of each current snapshot."""
    twice: list[str] = []
    for name in tables:
        table = catalog.load_table(name)
        snapshot = table.current_snapshot()
        if snapshot is None:
            continue
        live: Counter[str] = Counter()
        for manifest in snapshot.manifests(table.io):
            live.update(e.data_file.file_path for e in manifest.fetch_manifest_entry(table.io, discard_deleted=True))
        twice += [path for path, count in live.items() if count > 1]
        # Every live file can be read: a commit that deleted what it names would show here.
        assert table.scan(row_filter=AlwaysTrue()).count() >= 0
    return twice


def check(
    catalog: Catalog, bootstrap_servers: str, topics: Iterable[str], namespaces: Iterable[str], *, copies: int = 1
) -> Verdict:
    """Compare; `copies` is how many tables each record belongs in (more than one under `all_match`)."""
    tables = all_tables(catalog, namespaces)
    produced = produced_positions(bootstrap_servers, topics)
    landed = landed_positions(catalog, tables)
    return Verdict(
        lost=tuple(sorted(p for p in produced if landed[p] < copies)),
        twice=tuple(sorted(p for p, count in landed.items() if count > copies)),
        unknown=tuple(sorted(set(landed) - produced)),
        paths_twice=tuple(sorted(paths_live_twice(catalog, tables))),
        rows=sum(landed.values()),
    )


def assert_exact(
    catalog: Catalog,
    bootstrap_servers: str,
    topics: Iterable[str],
    namespaces: Iterable[str] = ("shop",),
    **kwargs: int,
) -> Verdict:
    """Every record is in the tables exactly once, and every live file once."""
    verdict = check(catalog, bootstrap_servers, topics, namespaces, **kwargs)
    assert verdict.exact, str(verdict)
    return verdict


def assert_sum_holds(status: Mapping[str, Any], pipeline: str, offsets: int) -> None:
    """Invariant 8 over the whole life of a pipeline, from `floe status --json`: the sum holds and covers `offsets`."""
    totals = next(p for p in status["pipelines"] if p["pipeline"] == pipeline)["totals"]
    parts = ("written", "filtered", "dead_lettered", "dropped", "holes")
    assert totals["offsets"] == sum(totals[part] for part in parts), totals
    assert totals["offsets"] == offsets, totals
