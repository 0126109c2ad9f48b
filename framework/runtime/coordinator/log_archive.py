"""The control log, kept for ever in an Iceberg table: what the topic's retention removes stays there.

In: the control topic, read by a thread of the coordinator's own. Out: one row a record, appended exactly once. How far the log
is archived is the table's recorded progress (invariant 3), which moves in the commit that adds the rows and is conditional on
the head that it was read from (invariant 4); so two coordinators at once, a killed one, and an answer that was lost add no row
twice. Commits of other tables never wait for it: whatever fails here is said, and tried again.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from framework.adapters.host.failpoints import failpoint
from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.log import ControlReader, RawRecord
from framework.adapters.kafka.control.topic import control_topic_there
from framework.adapters.parquet.files import TableWriter
from framework.commit.events.log_rows import COLUMNS, LogPlace, row_of, row_of_removed, schema_json
from framework.commit.machine.effects import CommitConflict, CommitTable, Committed, ExaminedTable, TableProgress
from framework.commit.machine.progress.recorded import CREATED_PROPERTY
from framework.config.names.table_names import catalog_of
from framework.config.spec import LogArchiveSpec, PartitionFieldSpec, TablePolicy
from framework.diagnose.counted import counted
from framework.diagnose.log_lines import Level, LogLine
from framework.errors import FloeError, TableBlocked
from framework.record.model import TableTarget
from framework.table.changes import CreateTable
from framework.table.owner import OWNER_PROPERTY, archive_owner
from framework.table.schema.arrow import arrow_schema, parse_schema

LOOK_S = 0.2
STOP_WITHIN_S = 20.0
# Rows of so many bytes, or so many, are one commit.
PIECE_BYTES = 32 * 1024 * 1024
PIECE_ROWS = 100_000
READ_OFFSETS = 50_000  # at a time
ATTEMPTS = 5  # maintenance, or the coordinator before this one, may be faster


@dataclass(frozen=True)
class _LogPiece:
    """Rows of all records below `end` that the table lacks. `leader_epoch` is the newest among them."""

    rows: Sequence[dict[str, object]]
    end: int
    leader_epoch: int | None


class LogArchive:
    """Of one coordinator, with a thread of its own.

    Args:
        is_owner: whether this process coordinates now: one archive at a time is enough.
        committed: hears of each commit to the table; it neither blocks nor raises.
    """

    def __init__(
        self,
        kafka: dict[str, str],
        control_topic: str,
        catalog: IcebergTables,
        spec: LogArchiveSpec,
        say: Callable[[str], None],
        is_owner: Callable[[], bool] = lambda: True,
        committed: Callable[[str], None] = lambda table: None,
    ) -> None:
        self._kafka = kafka
        self._topic = control_topic
        self._catalog = catalog
        self._spec = spec
        self._say = say
        self._committed = committed
        self._is_owner = is_owner
        self._failed = ""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log-archive", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End after a last round, which takes in what the coordinator said at last; a store that hangs is not waited for."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(STOP_WITHIN_S)

    def _run(self) -> None:
        due_at: float | None = None
        while not self._stopping.wait(LOOK_S):
            if not self._is_owner():
                continue
            due_at = self._first_due_at() if due_at is None else due_at
            if time.monotonic() >= due_at:
                self._try_round()
                due_at = time.monotonic() + self._spec.interval_ms / 1000
        if due_at is not None:
            self._try_round()

    def _first_due_at(self) -> float:
        """By the monotonic clock: an interval after the last commit, whoever made it, so that bounded runs by the minute make
        one commit each, and coordinators that never live for an interval archive all the same."""
        try:
            newest = self._catalog.snapshots(self._spec.table, limit=1)
        except Exception:  # the round says what is wrong
            newest = []
        age_ms = max(0, int(time.time() * 1000) - newest[0].timestamp_ms) if newest else 0
        return time.monotonic() + max(0, self._spec.interval_ms - age_ms) / 1000

    def _try_round(self) -> None:
        try:
            self.round()
            self._failed = ""
        except Exception as error:  # whatever it is, commits go on, and the next round tries again
            reason = error.message if isinstance(error, FloeError) else f"{type(error).__name__}: {error}"
            if reason != self._failed:
                self._failed = reason
                text = f"the control log is not archived for now: {reason}"
                self._say(LogLine(text, Level.WARNING, table=self._spec.table))

    def round(self) -> int:
        """Append what the table lacks; returns how many rows that was.

        Raises:
            FloeError: the broker, the catalog or the store cannot be asked now. TableBlocked: the table is no archive.
        """
        admin = KafkaAdmin(self._kafka)
        place = LogPlace(self._topic, control_topic_there(admin, self._topic).topic_id)
        view, target = self._table(place)
        rows = 0
        reader = ControlReader(self._kafka, self._topic)
        try:
            start, end = reader.start_offset(), reader.end_offset()
            begin = begin_of(view, end)
            if begin >= end:
                return 0
            records: Iterator[RawRecord] = iter(())
            if start < end:
                reader.seek(max(start, begin))
                records = reader.raw_until(end)
            for piece in _pieces(place, records, begin, start, end):
                if control_topic_there(admin, self._topic).topic_id != place.topic_id:
                    break  # the rows of another incarnation are read by the next round
                if piece.rows:
                    view = self._append(view, target, place, piece)
                    rows += len(piece.rows)
        finally:
            reader.close()
        if rows:
            self._say(LogLine(f"archived {counted(rows, 'record')} of the control log", table=self._spec.table))
            self._committed(self._spec.table)
        return rows

    def _table(self, place: LogPlace) -> tuple[ExaminedTable, TableTarget]:
        name = self._spec.table
        target = self._catalog.load_target(name, TablePolicy())
        if target is None:
            self._catalog.create_table(creation_of(name))
            target = self._catalog.load_target(name, TablePolicy())
        view = self._catalog.load_view(name, "main", place.topic_id)
        if target is None or view is None:
            raise FloeError(f"table {name} is gone again", code="FLOE-R135", place=name, remedy="floe status")
        _check_columns(target)
        return view, target

    def _append(self, view: ExaminedTable, target: TableTarget, place: LogPlace, piece: _LogPiece) -> ExaminedTable:
        """One commit; gives the table as it is with it.

        Raises:
            FloeError: it was not made, or nobody knows yet. The next round looks at the table first.
        """
        name = self._spec.table
        settings = self._catalog.with_lent(self._catalog.io_properties((catalog_of(name),)), (name,))
        writer = TableWriter(settings, "control-log", uuid.uuid4().hex[:12], 0, 2**40, 2**40)
        try:
            writer.add(target, _arrow(piece.rows, target))
            files = tuple(writer.finish().get(name, ()))
        except BaseException:
            writer.discard()
            raise
        failpoint("log-rows-written")
        known = None if view.progress is None else view.progress.leader_epoch
        progress = TableProgress(place.topic_id, piece.end, {}, _newer(known, piece.leader_epoch))
        commit_id = uuid.uuid4().hex
        begin = view.log_covered_below
        for _ in range(ATTEMPTS):
            outcome = self._catalog.commit(CommitTable(name, view, commit_id, files, progress, None))
            failpoint("log-archived")
            if isinstance(outcome, Committed):
                return outcome.view
            if not isinstance(outcome, CommitConflict):
                break
            now = self._catalog.load_view(name, "main", place.topic_id)
            if now is None or now.table_uuid != view.table_uuid or now.log_covered_below != begin:
                break  # another coordinator archived the same, or somebody went back: the rows are chosen anew
            view = now
        if isinstance(outcome, CommitConflict):
            writer.discard()
        raise FloeError(
            f"the commit to table {name} was not made: {getattr(outcome, 'reason', 'its files are gone')}",
            code="FLOE-R135",
            place=name,
            remedy="floe status",
        )


def read_archive(catalog: IcebergTables, table: str, topic_id: str, first: int, below: int) -> Iterator[dict[str, Any]]:
    """The rows of a control topic's records in [first, below), as far as the archive holds them, in order.

    Raises:
        FloeError: FLOE-R135, the table cannot be read.
    """
    for start in range(first, below, READ_OFFSETS):
        where = (
            ("topic_id", "=", topic_id),
            ("offset", ">=", start),
            ("offset", "<", min(below, start + READ_OFFSETS)),
        )
        found = catalog.read(table, ("offset", "type", "reason", "event", "bytes"), where)
        if found is None:
            return
        yield from found.sort_by("offset").to_pylist()


def begin_of(view: ExaminedTable, end: int) -> int:
    """The first offset of a log that ends at `end` which the archive lacks.

    Raises:
        TableBlocked: FLOE-R124, that is not known, or the archive holds more than the log.
    """
    begin = view.log_covered_below
    if begin is None:
        raise TableBlocked(
            f"nobody knows how much of the log table {view.table} holds: floe's record in it is gone",
            code="FLOE-R124",
            place=view.table,
            remedy="name another table under log.archive; this one keeps what it has",
        )
    if begin > end:
        raise TableBlocked(
            f"table {view.table} holds offsets below {begin:,}, and the control topic ends at {end:,}: its log was cut off",
            code="FLOE-R124",
            place=view.table,
            remedy="name another table under log.archive; this one keeps what it has",
        )
    return begin


def creation_of(table: str) -> CreateTable:
    """How the table is made."""
    return CreateTable(
        table=table,
        schema_json=schema_json(),
        partition_by=(PartitionFieldSpec("timestamp", "day"),),
        properties=(
            ("format-version", "2"),
            (OWNER_PROPERTY, archive_owner()),
            (CREATED_PROPERTY, f"log.archive {int(time.time() * 1000)}"),
        ),
    )


def check_archive(catalog: IcebergTables, table: str) -> None:
    """Refuse a table that was made for something else.

    Raises:
        TableBlocked: FLOE-R124; or it is of a kind that cannot be written.
    """
    target = catalog.load_target(table, TablePolicy())
    if target is not None:
        _check_columns(target)


def _check_columns(target: TableTarget) -> None:
    found = {field.name: str(field.field_type) for field in parse_schema(target.schema_json).fields}
    lacks = [name for name, kind, *_ in COLUMNS if found.get(name) != kind]
    if lacks or target.properties.get(OWNER_PROPERTY) != archive_owner():
        why = f"it lacks {', '.join(lacks)}" if lacks else "it was not made by `log.archive`"
        raise TableBlocked(
            f"table {target.name} is no archive of a control log: {why}",
            code="FLOE-R124",
            place=target.name,
            remedy="name a table under log.archive that does not exist yet; floe makes it",
        )


def _pieces(place: LogPlace, records: Iterator[RawRecord], begin: int, start: int, end: int) -> Iterator[_LogPiece]:
    """The records in parts of a bounded size, in order; the last one goes up to the log's end."""
    rows: list[dict[str, object]] = []
    size = 0
    epoch: int | None = None
    if 0 < begin < start:
        rows.append(row_of_removed(place, begin, start, int(time.time() * 1000)))
    last = max(begin, start)
    for record in records:
        rows.append(row_of(place, record.offset, record.timestamp_ms, record.value))
        size += len(record.value)
        epoch = _newer(epoch, record.leader_epoch)
        last = record.offset + 1
        if size >= PIECE_BYTES or len(rows) >= PIECE_ROWS:
            yield _LogPiece(rows, last, epoch)
            rows, size = [], 0
    yield _LogPiece(rows, max(last, end), epoch)


def _newer(one: int | None, other: int | None) -> int | None:
    return max((each for each in (one, other) if each is not None), default=None)


def _arrow(rows: Sequence[dict[str, object]], target: TableTarget) -> pa.Table:
    schema = arrow_schema(parse_schema(target.schema_json))
    return pa.Table.from_arrays(
        [pa.array([row.get(field.name) for row in rows], field.type) for field in schema], schema=schema
    )
