"""The independent checker: what was produced against what is in the tables, through PyIceberg and the broker alone.

In: a PyIceberg catalog, table names, the topics' own records as read by a plain consumer. Out: an assertion that names
the first records that are lost or there twice, the first file path that is live twice, and every live file whose rows
cannot be read or are not as many as its manifest says. Nothing of floe is imported; invariants 1 to 5 show here as one
sentence: the set is exact, each once, each path once. Invariant 8 is checked on the figures that `floe status --json`
prints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from pyiceberg.catalog import Catalog
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

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


def live_files(table: Table) -> Iterator[DataFile]:
    """Every live entry for a data file in the manifests of the current snapshot; one that is live twice comes twice."""
    snapshot = table.current_snapshot()
    for manifest in snapshot.manifests(table.io) if snapshot is not None else ():
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            if entry.data_file.content.name == "DATA":
                yield entry.data_file


def paths_live_twice(catalog: Catalog, tables: Iterable[str]) -> list[str]:
    """Invariant 5: data file paths with more than one live entry."""
    counts = [Counter(file.file_path for file in live_files(catalog.load_table(name))) for name in tables]
    return [path for count in counts for path, times in count.items() if times > 1]


def damaged_files(catalog: Catalog, tables: Iterable[str]) -> list[str]:
    """Live files that cannot be read to the end, or hold other rows than their manifest says: a commit that deleted
    what it names, or named what was not yet whole, would show here. Rows are decoded, not looked up in a footer."""
    found: list[str] = []
    for name in tables:
        table = catalog.load_table(name)
        for path, expected in {file.file_path: file.record_count for file in live_files(table)}.items():
            try:
                rows = rows_in(table.io, path)
            except (OSError, pa.ArrowException) as error:
                found.append(f"{path}: {error}")
            else:
                if rows != expected:
                    found.append(f"{path}: {rows} rows, and its manifest says {expected}")
    return found


def rows_in(io: FileIO, path: str) -> int:
    """How many rows a file gives when all its columns are read."""
    with io.new_input(path).open() as stream, pq.ParquetFile(stream) as file:
        return sum(batch.num_rows for batch in file.iter_batches())


def check(
    catalog: Catalog, bootstrap_servers: str, topics: Iterable[str], namespaces: Iterable[str], *, copies: int = 1
) -> Verdict:
    """Compare; `copies` is how many tables each record belongs in (more than one under `all_match`)."""
    tables = all_tables(catalog, namespaces)
    damaged = damaged_files(catalog, tables)
    assert not damaged, f"live files that cannot be read: {damaged[:5]}"
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
    """Every record is in the tables exactly once, and every live file once and whole."""
    verdict = check(catalog, bootstrap_servers, topics, namespaces, **kwargs)
    assert verdict.exact, str(verdict)
    assert verdict.rows, "nothing was produced, so nothing is shown"
    return verdict


def assert_sum_holds(status: Mapping[str, Any], pipeline: str, offsets: int) -> None:
    """Invariant 8 over the whole life of a pipeline, from `floe status --json`: the sum holds and covers `offsets`."""
    totals = next(p for p in status["pipelines"] if p["pipeline"] == pipeline)["totals"]
    parts = ("written", "filtered", "dead_lettered", "dropped", "holes")
    assert totals["offsets"] == sum(totals[part] for part in parts), totals
    assert totals["offsets"] == offsets, totals
