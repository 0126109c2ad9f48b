"""The state of one block while it is processed: records still to be judged alone, failures, and its rows and needs.

In: what the steps of framework.record.process find. Out: the BlockResult. Keeps invariant 8: every record ends in
exactly one of written, dead-lettered and dropped, and is in all its tables or in none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from framework.config.names.metadata import OPERATION, metadata_column
from framework.config.spec import ErrorPolicy, RouteMode
from framework.errors import AccountingError
from framework.record.arrays import Ints, Mask, no_rows
from framework.record.destination import Destination, RecordOperation, deletes_of, partial_rows_of, rows_of
from framework.record.failure import RecordFailure
from framework.record.gaps import REMEDY
from framework.record.json.json_schema import DeclaredFields
from framework.record.model import BlockResult, PartialRows, RecordBlock, UpsertRows
from framework.record.rows.dictionary_text import plain_table
from framework.record.state.block_needs import BlockNeeds
from framework.record.state.block_rows import BlockRows
from framework.record.state.block_tables import BlockTables
from framework.record.state.elements import Elements
from framework.record.state.metadata_values import MetadataValues
from framework.record.upsert.lacking import LackingRecords, envelope_columns, kept_ids
from framework.record.upsert.rows import Placed, as_changes, no_value
from framework.record.upsert.tables import absent_columns
from framework.record.value_buffer import with_value

_NONE: Ints = np.empty(0, np.int64)
_NO_MATCH = RecordFailure("route", "FLOE-D201", "no rule of routes matches the record")
# Of several reasons of one record: what stops the run counts first, then what is kept as a dead letter.
_SEVERITY = {ErrorPolicy.FAIL: 0, ErrorPolicy.DEAD_LETTER: 1, ErrorPolicy.DROP: 2}


@dataclass(frozen=True, order=True)
class _Failed:
    """An element that failed; the order is that in which a record's reasons count."""

    severity: int
    position: int
    failure: RecordFailure = field(compare=False)
    policy: ErrorPolicy = field(compare=False)


class BlockState:
    """Collects what becomes of the records of one block; positions are places in the block.

    `values` are the bytes that are parsed: those of the block, or what its wire format or envelope holds; `declared` is
    what their schemas say, where they have some. With `encode`
    text may be given as dictionaries (framework.record.rows.dictionary_text); with `scatter` rows of tables that are
    alike may be given unsorted. `tables` answers what the steps ask; they report rows to `rows` and needs to `needs`.
    With `elements` the block has a place for each element of its records: each step does with them as with records, and
    `result` counts records, each of which lands with all its elements or is one failure.
    """

    def __init__(
        self,
        block: RecordBlock,
        tables: BlockTables,
        encode: bool = False,
        scatter: bool = False,
        elements: Elements | None = None,
    ) -> None:
        self.block = block
        self.elements = elements
        self.encode = encode
        self.scatter = scatter
        self.values: Sequence[bytes | None] = block.values
        self.declared: Sequence[DeclaredFields] = ()
        self.plan = tables.plan
        self.tables = tables
        self.needs = BlockNeeds(self.tables)
        self.rows = BlockRows(self.tables)
        self.alone: set[int] = set()
        self.lacking: LackingRecords | None = None  # where records of the block may lack values
        self._failed: list[int] = []
        self._failures: list[_Failed] = []  # of elements, until all of their records are known
        self._left_out: list[int] = []
        self._result = BlockResult()
        self._metadata = MetadataValues(block, self.tables.all_metadata, None if elements is None else elements.indexes)

    # ---- what becomes of records that are no row -----------------------------------------------------------------

    def drop(self, records: int) -> None:
        """Records that a rule drops: tombstones, unrouted ones where `unrouted` says so."""
        self._result.dropped += records

    def judge_alone(self, positions: Iterable[int]) -> None:
        """These records are decided one by one at the end; rows they already have elsewhere are taken back."""
        self.alone.update(positions)

    def take_back_alone(self) -> None:
        """Rows of records that are judged alone leave every table they were put in."""
        if self.alone and (self.plan.route.mode is RouteMode.ALL_MATCH or self.tables.histories):
            self.rows.take_back(self.alone)

    def unrouted(self, positions: Iterable[int]) -> None:
        if self.elements is not None and self.plan.route.unrouted is ErrorPolicy.DROP:
            self._left_out.extend(positions)  # rules choose among elements, so one that none takes is no bad one
            return
        for position in positions:
            self.fail(position, _NO_MATCH, self.plan.route.unrouted)

    def fail(self, position: int, failure: RecordFailure, policy: ErrorPolicy | None = None) -> None:
        """A record that cannot be written; `policy` is the table's or that of the failure's stage unless given."""
        # Its frames hold the block and often the failure itself: such a ring would stay until the collector comes by.
        failure.__traceback__ = None
        self._failed.append(position)
        policy = policy or failure.policy or self.plan.write.policy_at(failure.stage)
        if self.elements is None:
            self._refuse_record(position, failure, policy)
        else:
            self._failures.append(
                _Failed(_SEVERITY[policy], position, self.elements.located(failure, position), policy)
            )

    def _refuse_record(self, position: int, failure: RecordFailure, policy: ErrorPolicy) -> None:
        self._result.refused.add(self.block.offsets[position])
        if policy is ErrorPolicy.DROP:
            self._result.dropped += 1
            self._result.dropped_for[failure.code] += 1
            return
        dead_letter = failure.dead_letter(self.block, position)
        self._result.dead_letters.append(dead_letter)
        if policy is ErrorPolicy.FAIL and (
            self._result.failure is None or dead_letter.offset < self._result.failure.offset
        ):
            self._result.failure = dead_letter

    # ---- what the steps ask of the block -------------------------------------------------------------------------

    def gives_unsorted(self, destinations: Iterable[Destination]) -> bool:
        """Whether rows of these tables may be given unsorted: those of a key are distinguished from deletes, and some have
        values that no partition takes."""
        tables = self.tables
        return self.scatter and not any(tables.is_upsert(to) or to in tables.least for to in destinations)

    @cached_property
    def tombstones(self) -> Mask:
        """Which of the block's records have no value."""
        gone: Mask = np.ones(len(self.block), dtype=bool)
        gone[with_value(self.block.values)] = False
        return gone

    def metadata(self, positions: Ints, to: Destination) -> dict[str, pa.Array]:
        """The values of the metadata columns of a target for these records, by Kafka's name of the field."""
        found = self._metadata.at(positions, self.tables.metadata_names(to))
        if operation := to.in_history:
            found[OPERATION] = pa.repeat(pa.scalar(operation), len(positions))
        return found

    def refuse_unreadable_metadata(self, positions: Ints) -> Ints:
        """The positions without those whose key or header is to be a column of text and is no text."""
        bad = self._metadata.unreadable(positions)
        for position, failure in bad.items():
            self.fail(position, failure)
        return positions[~np.isin(positions, list(bad))] if bad else positions

    def routing_metadata(self, positions: Ints) -> dict[str, pa.Array]:
        """The metadata columns that rules look at, by the column's name."""
        arrays = self._metadata.at(positions, self.tables.routing_metadata)
        return {metadata_column(name): array for name, array in arrays.items()}

    # ---- the end ---------------------------------------------------------------------------------------------------

    def result(self) -> BlockResult:
        self.needs.settle(self.values, self.alone, self.declared)
        if self.tables.keyed is not None:
            self._refuse(self.rows.without_key() | self._of_tables_without_key())
        if self.tables.least:
            self._refuse(self.rows.without_partition())
        if self.elements is not None:
            self._keep_whole(self.elements)
        result = self._result
        places: list[Ints] = [_NONE]
        if (unsorted := self.rows.unsorted()) is not None and not self.needs:
            positions, alike = unsorted
            self._check_once(positions, "in tables that are alike")
            result.alike = [alike]
            places.append(positions)
        else:
            changes: dict[str, dict[RecordOperation, Placed]] = {}
            for to, positions, rows in self.rows.by_table(self.needs):
                self._check_once(positions, f"in {to.table}")
                if self.tables.is_upsert(to):
                    changes.setdefault(to.table, {})[to.operation] = positions, rows
                else:
                    result.rows[to.table] = rows
                places.append(positions)
            result.keyed = {table: self._changes(table, found) for table, found in changes.items()}
        written = np.zeros(len(self.block), dtype=bool)
        written[np.concatenate(places)] = True
        result.written = int(written.sum()) if self.elements is None else len(np.unique(self.elements.records[written]))
        failed = np.sort(np.array(self._failed, np.int64))
        self._check_once(failed, "among the failures")
        if written[failed].any():
            raise self._unsound(int(failed[written[failed]][0]), "both written and a failure")
        result.dead_letters.sort(key=lambda dead_letter: dead_letter.offset)
        result.needs = self.needs.by_table()
        return result

    def _keep_whole(self, elements: Elements) -> None:
        """Records of which an element failed leave every table, each for one reason; those of which nothing is left are
        dropped.

        Raises:
            AccountingError: an element is nowhere.
        """
        landed, dropped, self._result.dropped = self.rows.places(), self._result.dropped, 0
        found = len(landed) + len(self._failed) + len(self._left_out) + dropped
        if not self.needs and found != len(self.block):
            raise self._unsound(
                0, f"first of a block of {len(self.block):,} elements, of which {found:,} are accounted for"
            )
        gone = elements.are_of(self._failed)
        self.rows.refuse(np.flatnonzero(gone).tolist())
        refused: set[int] = set()
        for each in sorted(self._failures):
            record = int(elements.records[each.position])
            if record not in refused:
                refused.add(record)
                self._refuse_record(each.position, each.failure, each.policy)
        left = np.ones(elements.count, dtype=bool)
        left[elements.records[landed]] = False
        left[list(refused)] = False
        self._result.dropped += int(left.sum())
        unrouted = np.unique(elements.records[self._left_out]).tolist()
        starts = np.searchsorted(elements.records, unrouted).tolist()
        for record, start in zip(unrouted, starts, strict=True):
            if left[record]:
                self._result.dropped_for[_NO_MATCH.code] += 1
                self._result.refused.add(self.block.offsets[start])

    def _of_tables_without_key(self) -> dict[int, RecordFailure]:
        """The records of new upsert tables of which none has a key: such a table could not be made."""
        failures: dict[int, RecordFailure] = {}
        for table, waiting in sorted(self.needs.without_table.items()):
            policy = self.tables.policy(rows_of(table))
            declared = [hint.path.split(".")[0] for hint in self.plan.hints_of_tables]
            filled = self.tables.metadata_columns(rows_of(table))
            if absent := absent_columns([*self.needs.seen(table), *declared, *filled], policy):
                self.needs.withdraw(table)
                for position in waiting.tolist():
                    failures.setdefault(position, no_value(absent[0], table, policy))
        return failures

    def _refuse(self, failures: Mapping[int, RecordFailure]) -> None:
        """These records leave every table that they were put in."""
        for position in sorted(failures.keys() - set(self._failed)):
            self.fail(position, failures[position])
        if failures:
            self.rows.refuse(failures)

    def _changes(self, table: str, found: Mapping[RecordOperation, Placed]) -> UpsertRows:
        """`found` are a table's upserts, partial ones and deletes."""
        shapes = self.tables.shapes
        upserts = found.get(RecordOperation.WRITE) or (_NONE, no_rows(shapes[rows_of(table)].schema))
        deletes = found.get(RecordOperation.DELETE) or (_NONE, no_rows(shapes[deletes_of(table)].schema))
        partial = found.get(RecordOperation.WRITE_PARTIAL)
        places = [upserts[0], deletes[0]] if partial is None else [upserts[0], deletes[0], partial[0]]
        self._check_once(np.sort(np.concatenate(places)), f"among the changes of {table}")
        offsets = np.asarray(self.block.offsets, np.int64)
        indexes = None if self.elements is None else self.elements.indexes
        return as_changes(upserts, deletes, offsets, partial and self._partial(table, partial, offsets), indexes)

    def _partial(self, table: str, placed: Placed, offsets: Ints) -> PartialRows:
        places, rows = placed
        to = partial_rows_of(table)
        columns, policy = self.tables.shapes[to].fields_of_columns, self.tables.policy(to)
        known: dict[object, str] = {}
        kept = []
        of_envelope = envelope_columns(self.plan.decode.format)
        assert self.lacking is not None, "a row is partial for what its record lacks"
        for place in places.tolist():
            lacking = self.lacking.by_place[place]
            if lacking not in known:
                known[lacking] = ",".join(map(str, kept_ids(lacking, columns, policy, of_envelope)))
            kept.append(known[lacking])
        rows, indexes = (
            plain_table(rows).combine_chunks(),
            None if self.elements is None else self.elements.indexes[places],
        )
        return PartialRows(rows, offsets[places], pa.array(kept, pa.string()), indexes)

    def _check_once(self, positions: Ints, where: str) -> None:
        """Invariant 8: one record that is lost and one that comes twice are no sound sum."""
        if len(positions) > 1:
            twice = positions[1:][positions[1:] <= positions[:-1]]
            if len(twice):
                raise self._unsound(int(twice[0]), f"{where} more than once")

    def _unsound(self, position: int, what: str) -> AccountingError:
        block = self.block
        place = f"{block.topic}-{block.partition}"
        return AccountingError(
            f"the record at offset {block.offsets[position]} of {place} is {what}", place=place, remedy=REMEDY
        )
