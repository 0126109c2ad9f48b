"""What a drill has to itself: topics, consumer groups, a namespace, and the files of its tables.

In: a target's connections and the names of a drill. Out: records in the topic, rows of the tables as PyIceberg alone reads them,
and in the end nothing. Invariant: removed is what the name of a drill stands on, and of files only those of its tables.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import urlparse

from pyiceberg.catalog import Catalog

from framework.adapters.file_io_guard import open_catalog
from framework.adapters.iceberg.files import list_files, path_key
from framework.adapters.kafka import small_topics
from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.log import ControlReader
from framework.adapters.secrets import resolve
from framework.commit.events.event_types import CommitComplete, ControlEvent, DataWritten
from framework.config.names.table_names import full_name
from framework.config.spec import TargetSpec
from framework.ops.doctor.scratch import LEFT_AFTER_S, ScratchPrefix, made_at, remove_table, scratch_namespace
from framework.ops.drill.model import KINDS, PARTITIONS, DrillNames, Row, made_at_s


@dataclass(frozen=True)
class DrillWorld:
    """Where drills of a target run: one Kafka connection and one catalog. `named`: the target's name or path, by which the
    processes of a drill find it."""

    target: TargetSpec
    connection: str
    catalog: str
    named: str = ""

    @cached_property
    def kafka(self) -> dict[str, str]:
        return resolve(self.target.kafka[self.connection])

    @cached_property
    def admin(self) -> KafkaAdmin:
        return KafkaAdmin(self.kafka)

    def opened(self) -> Catalog:
        """The catalog, by PyIceberg alone."""
        return open_catalog(self.catalog, resolve(self.target.catalogs[self.catalog]), self.target.allow_locations)

    def new_names(self) -> DrillNames:
        return DrillNames(self.target.prefix, scratch_namespace(ScratchPrefix.DRILL))

    # ---- a drill's own -------------------------------------------------------------------------------------------------

    def make(self, names: DrillNames) -> None:
        """The topic, and a namespace for the tables.

        Raises:
            SetupError: the broker does not make the topic.
        """
        small_topics.ensure_topic(self.admin, names.topic, PARTITIONS, {})
        self.opened().create_namespace(names.namespace)

    def produce(self, names: DrillNames, rows: list[Row]) -> None:
        values = [
            (identifier // len(KINDS) % PARTITIONS, json.dumps({"id": identifier, "kind": kind, "note": note}).encode())
            for identifier, kind, note in rows
        ]
        small_topics.write(self.kafka, names.topic, values)

    def table(self, names: DrillNames, kind: str) -> str:
        """The full name of the table of a kind of records."""
        return full_name(self.catalog, f"{names.namespace}.{kind}")

    def rows(self, names: DrillNames) -> list[Row]:
        """What the tables hold now. Each row names the table that it is in."""
        opened, found = self.opened(), list[Row]()
        for identifier in opened.list_tables(names.namespace):
            rows = opened.load_table(identifier).scan().to_arrow()
            columns = (rows.column(name).to_pylist() for name in ("id", "kind", "note"))
            table = identifier[-1]
            found += [
                (i, kind if kind == table else f"{kind} in {table}", note)
                for i, kind, note in zip(*columns, strict=True)
            ]
        return found

    def head(self, names: DrillNames, kind: str) -> int:
        """The id of a table's newest snapshot."""
        snapshot = self.opened().load_table(f"{names.namespace}.{kind}").current_snapshot()
        return snapshot.snapshot_id if snapshot is not None else 0

    def announced(self, names: DrillNames) -> int:
        """How many rows announcements in the control topic name."""
        return sum(event.rows for _, event in self._events(names) if isinstance(event, DataWritten))

    def is_settled(self, names: DrillNames) -> bool:
        """Whether a coordinator has said that every announcement is in its table."""
        events = self._events(names)
        last = max((offset for offset, event in events if isinstance(event, DataWritten)), default=-1)
        return any(isinstance(event, CommitComplete) and event.low_water > last for _, event in events)

    def _events(self, names: DrillNames) -> list[tuple[int, ControlEvent | None]]:
        if not self.admin.topics([names.control_topic]):
            return []
        reader = ControlReader(self.kafka, names.control_topic)
        try:
            reader.seek(reader.start_offset())
            return list(reader.read_until(reader.end_offset()))
        finally:
            reader.close()

    def forget_offsets(self, names: DrillNames) -> list[str]:
        """Delete the pipeline's consumer group; returns its name if it stays."""
        return small_topics.remove(self.admin, (), {names.topic})

    # ---- the end -------------------------------------------------------------------------------------------------------

    def remove(self, names: DrillNames) -> list[str]:
        """Remove everything of this drill; returns what stays."""
        whose = f"-{names.pipeline}"
        return [*self._remove_namespace(names.namespace), *self._remove_from_broker(lambda name, _: whose in name)]

    def remove_left(self, age_s: float = LEFT_AFTER_S) -> list[str]:
        """Remove everything of drills that began so long ago; returns what stays."""
        before = int(time.time() - age_s)
        kept = list[str]()
        with suppress(Exception):
            for (namespace,) in [each for each in self.opened().list_namespaces() if len(each) == 1]:
                began = made_at(namespace)
                if namespace.startswith(ScratchPrefix.DRILL.value) and began is not None and began <= before:
                    kept += self._remove_namespace(namespace)
        return kept + self._remove_from_broker(lambda _, began: began <= before)

    def _remove_from_broker(self, is_meant: Callable[[str, int], bool]) -> list[str]:
        def is_ours(name: str) -> bool:
            began = made_at_s(name, self.target.prefix)
            return began is not None and is_meant(name, began)

        topics, groups = small_topics.topics_and_groups(self.admin, "-drill-")
        return small_topics.remove(self.admin, filter(is_ours, topics), set(filter(is_ours, groups)))

    def _remove_namespace(self, namespace: str) -> list[str]:
        opened = self.opened()
        with suppress(Exception):
            for identifier in opened.list_tables(namespace):
                _remove_table(opened, namespace, ".".join(identifier))
        with suppress(Exception):
            opened.drop_namespace(namespace)
        with suppress(Exception):
            return [namespace] if (namespace,) in opened.list_namespaces() else []
        return [namespace]


def _remove_table(opened: Catalog, namespace: str, name: str) -> None:
    """The table with its files, also those that no snapshot names, where its location is known to be its own by its name. What
    the table is known by goes last: whoever is killed before finds the rest by it."""
    table = opened.load_table(name)
    location, newest = table.metadata.location, table.metadata_location
    if not any(part.removesuffix(".db") == namespace for part in location.split("/")):
        remove_table(opened, name)
        return
    try:
        paths = [file.location for file in list_files(table.io, location)]
    except NotImplementedError:
        remove_table(opened, name)
        return
    for path in paths:
        if path_key(path) != path_key(newest):
            with suppress(Exception):
                table.io.delete(path)
    opened.drop_table(name)
    with suppress(Exception):
        table.io.delete(newest)
    if location.startswith("file:"):
        _remove_empty(Path(urlparse(location).path), namespace)


def _remove_empty(folder: Path, namespace: str) -> None:
    """Folders of a local store, as far as nothing is in them."""
    folders = [Path(found) for found, _, _ in os.walk(folder, topdown=False)]
    folders += [folder.parent] if folder.parent.name.removesuffix(".db") == namespace else []
    for each in folders:
        with suppress(OSError):
            each.rmdir()
