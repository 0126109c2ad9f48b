"""What is true of a frozen run, counted by hand: nothing of floe is imported.

In: a broker, a catalog and names. Out: `Truth`, from the records of the source topic, which are judged here by what the
pipeline file says of them, from the JSON of the control topic, the offsets of the group, the manifests of the tables and
the Parquet files that were announced. Which commits were told in the control topic is read there: what waits is what
no told commit holds.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pyarrow.parquet as pq
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

Record = tuple[int, int, bytes | None]  # partition, offset, value


@dataclass(frozen=True)
class Waits:
    """Of one table."""

    announcements: int = 0
    rows: int = 0
    files: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Truth:
    """`safe` lacks partitions of which nothing was ever announced; `snapshots` are the newest that were told;
    `untold_rows`: in the tables, and not told yet."""

    ends: dict[int, int]
    safe: dict[int, int]
    totals: dict[str, int]
    batch: int
    waits: dict[str, Waits]
    snapshots: dict[str, int]
    log_end: int
    untold_rows: dict[str, int] = field(default_factory=dict)

    @property
    def lag(self) -> int:
        return sum(end - self.safe.get(partition, 0) for partition, end in self.ends.items())


def read_all(bootstrap_servers: str, topic: str) -> tuple[list[Record], dict[int, int]]:
    """Every record that a read_committed consumer sees now, and where it saw each partition end."""
    settings = {"bootstrap.servers": bootstrap_servers, "group.id": "frozen-checker", "enable.auto.commit": False}
    consumer = Consumer({**settings, "enable.partition.eof": True, "isolation.level": "read_committed"})
    try:
        partitions = list(consumer.list_topics(topic, timeout=20).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        found: list[Record] = []
        ends: dict[int, int] = {}
        while len(ends) < len(partitions):
            for message in consumer.consume(1_000, timeout=0.5):
                error = message.error()
                if error is None:
                    found.append((message.partition() or 0, message.offset() or 0, message.value()))
                elif error.code() == KafkaError._PARTITION_EOF:
                    ends[message.partition() or 0] = message.offset() or 0
                else:
                    raise KafkaException(error)
        return found, ends
    finally:
        consumer.close()


def committed_offsets(bootstrap_servers: str, prefix: str, topic: str) -> dict[int, int]:
    """What the one group of this prefix that reads the topic has committed; those of replays are no pipeline's own."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    groups = [
        g.group_id
        for g in admin.list_consumer_groups().result(20).valid
        if g.group_id.startswith(prefix) and "." not in g.group_id
    ]
    found: dict[int, int] = {}
    for group in groups:
        [result] = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
        for each in result.result(20).topic_partitions or ():
            if each.topic == topic and each.offset >= 0:
                assert each.partition not in found, f"two groups of {prefix} read {topic}"
                found[each.partition] = each.offset
    return found


def outcome_of(value: bytes | None) -> str:
    """What the pipeline file of these tests says that becomes of a record."""
    if value is None:
        return "dropped"
    try:
        document = json.loads(value)
    except ValueError:
        return "dead_lettered"
    has_route = isinstance(document, dict) and (document.get("type") == "refund" or "region" in document)
    return "written" if has_route else "dead_lettered"


def live_paths(table: Table, snapshot_id: int | None) -> set[str]:
    """The data files that a snapshot holds."""
    snapshot = table.snapshot_by_id(snapshot_id) if snapshot_id is not None else None
    manifests = snapshot.manifests(table.io) if snapshot is not None else ()
    return {
        entry.data_file.file_path
        for manifest in manifests
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    }


Position = tuple[int, int]  # partition, offset


def positions_of(paths: Iterable[str]) -> Iterator[Position]:
    """Partition and offset of each row of these files, of tables and of dead letters alike."""
    for path in paths:
        file = pq.read_table(local(path))
        prefix = "_kafka_" if "_kafka_offset" in file.column_names else ""
        yield from zip(
            file.column(f"{prefix}partition").to_pylist(), file.column(f"{prefix}offset").to_pylist(), strict=True
        )


def local(path: str) -> Path:
    return Path(urlparse(path).path)


@dataclass(frozen=True)
class Announced:
    """What one event of the log announced for a table. `is_own`: by the pipeline, not by a replay of it; `is_letters`: by a
    replay of dead letters, whose records are no others of the source."""

    offset: int
    paths: frozenset[str]
    is_own: bool
    is_letters: bool

    def is_in(self, visible: set[str], positions: set[Position]) -> bool:
        """Whether its rows are visible: in its own files, or in others that maintenance put them into. Only what is in a
        table is ever removed."""
        if self.paths <= visible or not all(local(path).exists() for path in self.paths):
            return True
        return self.is_own and set(positions_of(self.paths)) <= positions


def truth(
    bootstrap_servers: str,
    catalog: Catalog,
    prefix: str,
    topic: str,
    control_topic: str,
    outcome: Callable[[bytes | None], str] = outcome_of,
    dropped: Collection[str] = (),
) -> Truth:
    """Everything, counted once. What the parts say of one another is checked on the way: each record below the safe
    offsets that is to be in a file is in exactly one of those that are visible, wait or were given up.

    Args:
        outcome: what the pipeline file says that becomes of a record.
        dropped: tables that somebody dropped before anything was in them.
    """
    records, ends = read_all(bootstrap_servers, topic)
    log, log_ends = read_all(bootstrap_servers, control_topic)
    safe = committed_offsets(bootstrap_servers, prefix, topic)
    events: list[tuple[int, dict[str, Any]]] = [(offset, json.loads(value)) for _, offset, value in log if value]
    announced: dict[str, list[Announced]] = {}
    given_up: list[str] = []
    reported: dict[str, list[int]] = {}
    batch = 0
    for offset, event in events:
        is_own = "." not in event.get("pipeline", "")  # a replay's name is its pipeline's with a dot behind it
        if event["type"] == "DataWritten":
            paths = frozenset(file["path"] for file in event["files"])
            group = Announced(offset, paths, is_own, event["pipeline"].endswith(".replay"))
            announced.setdefault(event["table"], []).append(group)
        elif event["type"] == "Discarded":
            groups = announced[event["table"]]
            gone = [group for group in groups if event["first"] <= group.offset < event["below"]]
            given_up += [path for group in gone for path in group.paths]
            announced[event["table"]] = [group for group in groups if group not in gone]
            if not announced[event["table"]] and event["table"] not in reported:
                del announced[event["table"]]  # nothing is left of it
        elif event["type"] == "CommitToTable":
            reported.setdefault(event["table"], []).append(event["snapshot_id"])
        elif event["type"] in ("DataComplete", "Heartbeat", "OffsetsSet") and is_own:
            batch = max(batch, event["batch"])
    waits: dict[str, Waits] = {}
    untold: dict[str, int] = {}
    snapshots = {table: ids[-1] for table, ids in reported.items()}
    held: list[str] = []
    for name, groups in announced.items():
        visible, newest = (set[str](), set[str]()) if name in dropped else live_now(catalog, name, snapshots.get(name))
        of_letters = {path for group in groups if group.is_letters for path in group.paths}
        positions = set(positions_of(visible - of_letters))
        open_groups = [group for group in groups if not group.is_in(visible, positions)]
        paths = [path for group in open_groups for path in group.paths - visible]
        held += [
            *(visible - of_letters),
            *(path for group in open_groups if group.is_own for path in group.paths - visible),
        ]
        waits[name] = Waits(
            len(open_groups),
            sum(pq.read_metadata(local(path)).num_rows for path in paths),
            len(paths),
            sum(local(path).stat().st_size for path in paths),
        )
        ahead = {path for path in newest - visible if path in of_letters or not set(positions_of([path])) <= positions}
        assert ahead <= set(paths), f"{name} holds files that nobody announced"
        untold[name] = sum(pq.read_metadata(local(path)).num_rows for path in ahead)

    below = [(partition, offset, value) for partition, offset, value in records if offset < safe.get(partition, 0)]
    outcomes = Counter(outcome(value) for _, _, value in below)
    wanted = Counter((partition, offset) for partition, offset, value in below if outcome(value) != "dropped")
    found = Counter(positions_of([*held, *given_up]))
    assert found == wanted, "the files do not hold the records below the safe offsets, each once"
    totals = {name: outcomes[name] for name in ("written", "dead_lettered", "dropped")}
    totals.update(filtered=0, lost=0, holes=sum(safe.values()) - len(below))
    return Truth(ends, safe, totals, batch, waits, snapshots, log_ends[0], untold)


def live_now(catalog: Catalog, name: str, reported: int | None) -> tuple[set[str], set[str]]:
    """The live files of a table at the newest snapshot that was told, and at its newest. A snapshot that maintenance has let
    expire had the rows of the newest."""
    try:
        table = catalog.load_table(name)
    except NoSuchTableError as error:
        raise AssertionError(f"{name} is announced, and not there") from error
    current = table.current_snapshot()
    newest = live_paths(table, current.snapshot_id if current is not None else None)
    is_there = reported is None or table.snapshot_by_id(reported) is not None
    return (live_paths(table, reported) if is_there else newest), newest
