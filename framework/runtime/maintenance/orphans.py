"""Finds the orphan files of tables, and removes them when a person says so.

In: the control topics that feed the tables, a catalog, and how old a file must be. Out: a report for each table; with
`delete`, the files are gone. Keeps invariant 12 by the order in which it looks: files first, then the log, then the
tables, so that a file which is announced or committed meanwhile is seen; and by looking at log and table again before
it removes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from framework.adapters.iceberg.files import moment, path_key
from framework.adapters.iceberg.tables import IcebergTables, TablePlace
from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.log import ControlReader
from framework.adapters.kafka.control.topic import check_control_topic
from framework.commit.events.event_types import DataWritten, Deployed
from framework.commit.file_ages import now_for_orphans_ms
from framework.commit.maintenance.one_by_one import one_by_one
from framework.commit.recovery.orphans import StoredFile, inside, sort_out
from framework.commit.recovery.path_keys import PathKeys
from framework.config.names.table_names import name_matches
from framework.diagnose.counted import counted
from framework.errors import FloeError
from framework.plan.deployed_policies import published_tables

Say = Callable[[str], None]
# What is announced is read again after so long, by any clock, while files are removed.
LOOK_AGAIN_MS = 5_000


@dataclass(frozen=True)
class TableOrphans:
    """`spared` counts the files that were left, by reason. `skipped` says why the table was not looked at ("" if it
    was)."""

    table: str
    orphans: tuple[StoredFile, ...] = ()
    spared: dict[str, int] = field(default_factory=dict)
    removed: int = 0
    skipped: str = ""

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.orphans)


class Announced:
    """The files that announcements of the control topics name, from each log's first record to its end.

    `plans`: by pipeline, the newest plan that a run published there.
    """

    def __init__(self, kafka: dict[str, str], control_topics: Sequence[str]) -> None:
        admin = KafkaAdmin(kafka)
        facts = [check_control_topic(admin, name) for name in control_topics]
        self.control_topic_ids = frozenset(each.topic_id for each in facts)
        self.keys = PathKeys()
        self.plans: dict[str, dict[str, object]] = {}
        self._readers = [ControlReader(kafka, name) for name in control_topics]
        for reader, each in zip(self._readers, facts, strict=True):
            reader.seek(each.log_start)

    def read_on(self) -> PathKeys:
        """Everything that is announced by now."""
        for reader in self._readers:
            for _, event in reader.read_until(reader.end_offset()):
                if isinstance(event, DataWritten):
                    self.keys.add(path_key(path) for path in event.paths)
                elif isinstance(event, Deployed):
                    self.plans[event.pipeline] = event.plan
        return self.keys

    def branches(self, table: str) -> dict[str, str]:
        """By pipeline the branch of a table that it writes, as far as its plan is known."""
        known = {name: published_tables(plan) for name, plan in self.plans.items()}
        return {name: spec.policy_for(table).commit.branch for name, spec in known.items() if spec is not None}

    def close(self) -> None:
        for reader in self._readers:
            reader.close()


def clean(
    kafka: dict[str, str],
    control_topics: Sequence[str],
    catalog: IcebergTables,
    patterns: Sequence[str],
    older_than_ms: int,
    delete: bool,
    say: Say,
) -> list[TableOrphans]:
    """Look at every table that floe fills and that a pattern names (all, without one). A table that cannot be looked at,
    and a catalog that does not answer, are skipped.

    Raises:
        FloeError: the broker, or no catalog at all, answers; nothing is removed.
    """
    announced = Announced(kafka, control_topics)
    try:
        known, silent = catalog.places()
        if silent and not known:
            raise next(iter(silent.values()))
        where = "catalogs" if len(catalog.catalogs) > 1 else "catalog"
        say(f"{counted(len(known) + len(silent), 'table')} in the {where}")
        wanted = [
            name
            for name, place in known.items()
            if place.control_topic_ids and (not patterns or any(name_matches(name, p) for p in patterns))
        ]
        reports = [TableOrphans(name, skipped=error.message) for name, error in silent.items()]

        def look_at(numbered: tuple[int, str]) -> TableOrphans:
            number, name = numbered
            say(f"{name} ({number} of {len(wanted)})")
            if skipped := why_not(name, known, announced.control_topic_ids):
                return TableOrphans(name, skipped=skipped)
            return look(name, catalog, known[name], announced, older_than_ms, delete, say)

        def skip(numbered: tuple[int, str], error: FloeError) -> TableOrphans:
            return TableOrphans(numbered[1], skipped=error.message)

        # Whatever is wrong with a table's store or its manifests: the others have theirs.
        reports += one_by_one(enumerate(wanted, start=1), look_at, skip)
        return reports
    finally:
        announced.close()


def why_not(name: str, known: Mapping[str, TablePlace], control_topic_ids: frozenset[str]) -> str:
    """Why a table's orphans cannot be distinguished from files in use; "" when they can."""
    if others := known[name].filled_from - control_topic_ids:
        return describe_topics(others)
    for other, place in known.items():
        roots = [(path_key(mine), path_key(theirs)) for mine in known[name].roots for theirs in place.roots]
        if other != name and any(inside(mine, theirs) for mine, theirs in roots):
            return f"table {other} has files inside its location"
    return ""


def describe_topics(others: Iterable[str]) -> str:
    return (
        f"control topic {', '.join(sorted(others))} fills it too, and its announcements may name these files: "
        "add that topic with another --control-topic"
    )


def look(
    name: str,
    catalog: IcebergTables,
    before: TablePlace,
    announced: Announced,
    older_than_ms: int,
    delete: bool,
    say: Say,
) -> TableOrphans:
    """The orphans of one table that can be distinguished from files in use; with `delete` they are gone.

    Raises:
        FloeError: broker, catalog or store do not answer; nothing more is removed.
    """
    now_ms: int | None = moment().wall_ms
    assert now_ms is not None
    if delete:  # a dry run writes nothing
        now_ms = now_for_orphans_ms(now_ms, catalog.store_now_ms(name))
        if now_ms is None:
            return TableOrphans(
                name, skipped="its store does not tell when a file was written, so none is known to be old"
            )
    # Invariant 12: whatever is announced or committed after the files were listed is seen by what is read after it.
    files = catalog.stored_files(name, before.roots)
    if (shared := catalog.foreign_metadata(name, files)) is not None:
        reason = (
            f"{shared} is the metadata of another table, perhaps in another catalog, or of one that was here before"
        )
        return TableOrphans(name, skipped=f"{reason}: whose files lie here cannot be determined")
    found = _judged(name, catalog, before, files, announced, now_ms, older_than_ms)
    if not delete or not found.orphans:
        return found
    # A commit may still be under way whose announcement a person gave up and the log dropped: it fits no longer after a
    # snapshot of the same files, and the table then names none that is gone.
    catalog.outdate_requests(name, announced.branches(name))
    again = _judged(name, catalog, before, found.orphans, announced, now_ms, older_than_ms)
    catalog.forget_places()  # a table that was made inside this one's location a moment ago has its files there
    removed = 0
    for removed, _ in enumerate(catalog.remove_files(name, _still_nobodys(again.orphans, announced)), start=1):
        if removed % 100 == 0:
            say(f"{name}: {removed:,} of {len(again.orphans):,} files removed")
    return TableOrphans(name, again.orphans, found.spared, removed, again.skipped)


def _still_nobodys(orphans: Iterable[StoredFile], announced: Announced) -> Iterator[str]:
    """Those that are not announced meanwhile: to remove many takes long, and a process may sleep between two."""
    looked = moment()
    for file in orphans:
        if looked.elapsed_ms(moment()) > LOOK_AGAIN_MS:
            looked = moment()
            announced.read_on()
        if file.key not in announced.keys:
            yield file.location


def _judged(
    name: str,
    catalog: IcebergTables,
    before: TablePlace,
    files: Iterable[StoredFile],
    announced: Announced,
    now_ms: int,
    older_than_ms: int,
) -> TableOrphans:
    keys = announced.read_on()
    references = catalog.references(name)
    if references is None or references.table_uuid != before.table_uuid:
        return TableOrphans(name, skipped="it was dropped or replaced in the meantime")
    if others := references.filled_from - announced.control_topic_ids:  # since the place was looked at
        return TableOrphans(name, skipped=describe_topics(others))
    result = sort_out(files, references.paths, keys, now_ms, older_than_ms, references.kept_folder)
    return TableOrphans(name, result.orphans, result.spared)
