"""The state of one block while it is processed: rows found so far, records still to be judged alone, needs and
failures.

In: what the steps of framework.record.process find. Out: the BlockResult. Keeps invariant 8: every record ends in
exactly one of written, dead-lettered and dropped, and is in all its tables or in none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import TypeVar

import numpy as np
import pyarrow as pa

from framework.config.names.metadata import HISTORY, OPERATION, metadata_column
from framework.config.spec import ErrorPolicy, FieldHint, NameCase, RouteMode, TablePolicy
from framework.errors import AccountingError
from framework.plan.model import Plan
from framework.record.arrays import Ints, Mask
from framework.record.convert.nested import fold
from framework.record.destination import Destination, deletes_of, rows_of
from framework.record.failure import RecordFailure
from framework.record.fit.infer_types import (
    NO_KEYS,
    apply_hints,
    merge_fields,
    observe_records,
    settle_fields,
)
from framework.record.fit.table_shape import TableShape, table_shape
from framework.record.gaps import REMEDY
from framework.record.model import (
    AlikeRows,
    BlockResult,
    ColumnDetail,
    ObservedType,
    RecordBlock,
    TableNeed,
    TableTarget,
    UpsertRows,
)
from framework.record.routing.route import routing_fields
from framework.record.rows.dictionary_text import together
from framework.record.state.metadata_values import MetadataValues
from framework.record.state.partition_bounds import least_values
from framework.record.upsert.key_types import KeyPaths, key_paths
from framework.record.upsert.rows import as_changes, no_value, without_value
from framework.record.upsert.tables import absent_columns, needed_columns, upsert_tables
from framework.record.value_buffer import with_value
from framework.table.columns.details import merge_details
from framework.table.policy.answers import Act
from framework.table.policy.delete_policy import delete_policy
from framework.table.policy.metadata_columns import metadata_columns, own_fields, spellings
from framework.table.policy.rules import TableRules, rules_of
from framework.table.schema.observed import observed_columns
from framework.table.schema.types import NANOSECONDS_SINCE, format_version, known_part, without_nanoseconds

_T = TypeVar("_T")
_NONE: Ints = np.empty(0, np.int64)
_NO_MATCH = RecordFailure("route", "FLOE-D201", "no rule of routes matches the record")


@dataclass(frozen=True)
class _Ask:
    """What the record at a place asks of a table."""

    at: int
    fields: Mapping[str, ObservedType]
    hinted: bool = True
    details: Mapping[str, ColumnDetail] | None = None
    others: Sequence[int] = ()  # places of further records that ask for the same


class BlockState:
    """Collects what becomes of the records of one block; positions are places in the block.

    `values` are the bytes that are parsed: those of the block, or what its wire format or envelope holds. With `encode`
    text may be given as dictionaries (framework.record.rows.dictionary_text); with `scatter` rows of tables that are
    alike may be given unsorted. Where tables are upserted (`keyed`), `tables` and `shapes` have their second
    targets too.
    """

    def __init__(
        self,
        block: RecordBlock,
        plan: Plan,
        tables: Mapping[str, TableTarget],
        encode: bool = False,
        scatter: bool = False,
    ) -> None:
        self.block = block
        self.encode = encode
        self.scatter = scatter
        self.values: Sequence[bytes | None] = block.values
        self.plan = plan
        self.keyed = upsert_tables(plan, tables)
        self.histories = {} if self.keyed is None else {own: of for of, own in self.keyed.histories.items()}
        """By history the table whose changes it has."""
        self.tables = {rows_of(name): target for name, target in tables.items()}
        if self.keyed is not None:
            self.tables |= self.keyed.targets
        self.shapes: dict[Destination, TableShape] = {
            to: table_shape(target, plan.decode.hints, self.metadata_names(to)) for to, target in self.tables.items()
        }
        self._least = {to: found for to, target in self.tables.items() if (found := least_values(target))}
        self.insensitive = plan.write.tables.defaults.case is NameCase.INSENSITIVE
        self.any_insensitive = self.insensitive or any(shape.insensitive for shape in self.shapes.values())
        self.alone: set[int] = set()
        self._rows: dict[Destination, list[tuple[Ints, pa.Table]]] = {}
        self._alike: list[tuple[Ints, AlikeRows]] = []
        self._showing: dict[Destination, list[int]] = {}
        self._asked: dict[str, list[_Ask]] = {}
        self._needs: dict[str, dict[str, ObservedType]] = {}
        self._optional: dict[str, set[tuple[str, ...]]] = {}
        self._failed: list[int] = []
        self._result = BlockResult()
        self._details: dict[str, dict[str, ColumnDetail]] = {}
        self._rules: dict[Destination, TableRules] = {}
        self._without_table: dict[str, Ints] = {}  # what records of keys are for, by table that must be created
        self._lacking_metadata: dict[Destination, dict[str, ObservedType]] = {}
        self._own_columns: dict[Destination, dict[str, ObservedType]] = {}
        named = plan.decode.metadata_columns
        also = HISTORY if self.histories else ()
        self._metadata = MetadataValues(block, (*named, *(name for name in also if name not in named)))

    # ---- what the steps report -----------------------------------------------------------------------------------

    def drop(self, records: int) -> None:
        """Records that a rule drops: tombstones, unrouted ones where `unrouted` says so."""
        self._result.dropped += records

    def judge_alone(self, positions: Iterable[int]) -> None:
        """These records are decided one by one at the end; rows they already have elsewhere are taken back."""
        self.alone.update(positions)

    def unrouted(self, positions: Iterable[int]) -> None:
        for position in positions:
            self.fail(position, _NO_MATCH, self.plan.route.unrouted)

    def fail(self, position: int, failure: RecordFailure, policy: ErrorPolicy | None = None) -> None:
        """A record that cannot be written; `policy` is the table's or that of the failure's stage unless given."""
        # Its frames hold the block and often the failure itself: such a ring would stay until the collector comes by.
        failure.__traceback__ = None
        self._failed.append(position)
        self._result.refused.add(self.block.offsets[position])
        policy = policy or failure.policy or self.plan.write.policy_at(failure.stage)
        if policy is ErrorPolicy.DROP:
            self._result.dropped += 1
            self._result.dropped_for[failure.code] += 1
            return
        letter = failure.dead_letter(self.block, position)
        self._result.dead_letters.append(letter)
        if policy is ErrorPolicy.FAIL and (self._result.failure is None or letter.offset < self._result.failure.offset):
            self._result.failure = letter

    def add_rows(self, to: Destination, positions: Ints, rows: pa.Table) -> None:
        if len(positions):
            self._rows.setdefault(to, []).append((positions, rows))

    def add_alike(self, positions: Ints, alike: AlikeRows) -> None:
        """Rows of several tables, the positions in order."""
        if len(positions):
            self._alike.append((positions, alike))

    def need(
        self,
        to: Destination,
        fields: Mapping[str, ObservedType],
        at: int,
        hinted: bool = True,
        details: Mapping[str, ColumnDetail] | None = None,
        others: Sequence[int] = (),
    ) -> None:
        """The table must gain these fields, or be created with them, for the record at this place, the first of those
        that ask for them; `hinted` puts declared types in their places. A delete asks for its key alone."""
        fields = self._of_key(to, fields) if to.is_delete else fields
        self._asked.setdefault(to.table, []).append(_Ask(at, fields, hinted, details, others))

    def need_metadata(self, to: Destination, at: int) -> None:
        """The table must gain the metadata columns that it has not, where it may, for the record at this place."""
        if lacking := self.lacking_metadata(to):
            self.need(to, lacking, at)

    def need_shown(self, to: Destination, positions: Iterable[int]) -> None:
        """The table must gain what these records show and it has not, or be created with it. A record that is judged
        alone asks for itself, or is refused and then asks for nothing."""
        self._showing.setdefault(to.in_table, []).extend(positions)

    def _settle_needs(self) -> None:
        """Records are looked at in order, whichever way each of them went: the first kind that is seen decides, and
        neither it nor the order of columns may depend on the way."""
        for table in dict.fromkeys((*(to.table for to in self._showing), *self._asked)):
            rows = rows_of(table)
            shown = self._shown(rows)
            deleting = self._shown(deletes_of(table))
            found = np.sort(np.concatenate([shown, deleting]))
            asked = sorted(self._asked.get(table, []), key=lambda each: each.at)
            ends = np.searchsorted(found, [ask.at for ask in asked]).tolist()
            begin = 0
            for end, ask in zip(ends, asked, strict=True):
                self._add_all_shown(table, found[begin:end], deleting)
                self._add_need(table, ask)
                begin = end
            self._add_all_shown(table, found[begin:], deleting)
            if rows not in self.tables and self._follows_key(rows):
                reported = [np.array([ask.at, *ask.others], np.int64) for ask in asked]
                self._without_table[table] = np.unique(np.concatenate([found, *reported])).astype(np.int64)

    def _shown(self, to: Destination) -> Ints:
        """The records that show a table what to be, without those that are judged alone."""
        if to not in self._showing:
            return _NONE
        return np.setdiff1d(np.array(self._showing[to], np.int64), list(self.alone)).astype(np.int64)

    def _add_all_shown(self, table: str, positions: Ints, deleting: Ints) -> None:
        if not len(deleting):
            self._add_shown(rows_of(table), positions.tolist())
            return
        for is_delete, run in groupby(
            zip(positions.tolist(), np.isin(positions, deleting).tolist(), strict=True), itemgetter(1)
        ):
            self._add_shown(deletes_of(table) if is_delete else rows_of(table), [position for position, _ in run])

    def _add_shown(self, to: Destination, positions: list[int]) -> None:
        if not positions:
            return
        table = rows_of(to.table)
        fields = observe_records([self.values[i] or b"" for i in positions], self.made_by(table))
        if table in self.tables:
            fields = self.shapes[table].lacking(fields, self.policy(table)).fields
        fields = self.own_fields(fields, table)
        fields = self._of_key(table, fields) if to.is_delete else fields
        if fields or table not in self.tables:
            self._add_need(to.table, _Ask(positions[0], fields))

    def made_by(self, to: Destination) -> KeyPaths:
        """What of a new table's columns cannot be of any type."""
        return NO_KEYS if to in self.tables else key_paths(self.plan.write.tables.policy_for(to.table))

    def _of_key(self, to: Destination, fields: Mapping[str, ObservedType]) -> dict[str, ObservedType]:
        return {name: fields[name] for name in fields if needed_columns([name], self.policy(to))}

    def _add_need(self, table: str, ask: _Ask) -> None:
        if ask.details is not None:
            known = self._details.get(table)
            self._details[table] = dict(ask.details) if known is None else merge_details(known, ask.details)
        to = rows_of(table)
        insensitive = self.policy(to).case is NameCase.INSENSITIVE
        wanted = self._needs.setdefault(table, {})
        current = self._columns_of_current(to)
        if not wanted and to not in self.tables:
            wanted.update(current.values())
        spelled = {fold(name, insensitive): name for name in wanted}
        hints = self.hints(insensitive) if ask.hinted else {}
        counted = self._counts_nanoseconds(to)
        for name, kind in settle_fields(apply_hints(ask.fields, hints, insensitive), self.policy(to)).items():
            _, kind = current.get(fold(name, insensitive), (name, kind))
            kind = kind if counted else without_nanoseconds(kind)
            merge_fields(wanted, {spelled.setdefault(fold(name, insensitive), name): kind})

    def _columns_of_current(self, history: Destination) -> dict[str, tuple[str, ObservedType]]:
        """By folded name the columns that the table has whose history this is: the history has them alike. A wider one of
        its own stays as it is."""
        current = self.tables.get(rows_of(self.histories.get(history.table, "")))
        if current is None:
            return {}
        insensitive = self.policy(history).case is NameCase.INSENSITIVE
        present = self.shapes[history].names if history in self.shapes else frozenset[str]()
        columns = self.own_fields(observed_columns(current.schema_json), history).items()
        folded = ((fold(name, insensitive), name, kind) for name, kind in columns)
        return {key: (name, kind) for key, name, kind in folded if key not in present}

    def relax(self, to: Destination, columns: Iterable[tuple[str, ...]]) -> None:
        """These columns of the table must become optional."""
        self._needs.setdefault(to.table, {})
        self._optional.setdefault(to.table, set()).update(columns)

    def _counts_nanoseconds(self, to: Destination) -> bool:
        """Whether the table may have columns of nanoseconds."""
        target = self.tables.get(to)
        version = target.format_version if target else format_version(self.policy(to).create.properties)
        return version >= NANOSECONDS_SINCE

    # ---- what the steps ask --------------------------------------------------------------------------------------

    def rules(self, to: Destination) -> TableRules:
        """What becomes of records for which the table lacks something."""
        found = self._rules.get(to)
        if found is None:
            target = self.tables.get(to)
            found = rules_of(target) if target else TableRules(self._policy_of_new(to))
            self._rules[to] = found
        return found

    def policy(self, to: Destination) -> TablePolicy:
        return self.rules(to).policy

    def _policy_of_new(self, to: Destination) -> TablePolicy:
        policy = self.plan.write.tables.policy_for(to.table)
        return delete_policy(policy) if to.is_delete else policy

    def _follows_key(self, to: Destination) -> bool:
        return self.keyed is not None and self.policy(rows_of(to.table)).write.is_upsert

    def gives_unsorted(self, destinations: Iterable[Destination]) -> bool:
        """Whether rows of these tables may be given unsorted: those of a key are distinguished from deletes, and some have
        values that no partition takes."""
        return self.scatter and not any(self._follows_key(to) or to in self._least for to in destinations)

    @cached_property
    def routing_paths(self) -> frozenset[str]:
        """The dotted paths that tell where a record goes, and whether it deletes there."""
        paths = routing_fields(self.plan.route)
        return paths if self.keyed is None else paths | self.keyed.fields

    @cached_property
    def takes_tombstones(self) -> bool:
        """Whether records without a value may delete; where they may not they are dropped."""
        return self.keyed is not None and self.keyed.takes_tombstones

    @cached_property
    def tombstones(self) -> Mask:
        """Which of the block's records have no value."""
        gone: Mask = np.ones(len(self.block), dtype=bool)
        gone[with_value(self.block.values)] = False
        return gone

    def hints(self, insensitive: bool) -> dict[str, FieldHint]:
        return {fold(hint.path, insensitive): hint for hint in self.plan.decode.hints}

    def metadata_names(self, to: Destination) -> tuple[str, ...]:
        """Kafka's names of the columns that floe fills itself."""
        is_history = to.table in self.histories
        return self.plan.metadata_columns_of(to.table) if is_history else self.plan.decode.metadata_columns

    def metadata_columns(self, to: Destination) -> dict[str, ObservedType]:
        """The columns floe fills itself, with their types."""
        found = self._own_columns.get(to)
        if found is None:
            found = self._own_columns[to] = metadata_columns(self.metadata_names(to))
        return found

    def own_fields(self, fields: dict[str, _T], to: Destination) -> dict[str, _T]:
        """A record's fields without those that are named like floe's metadata columns of the table."""
        return own_fields(fields, spellings(self.metadata_columns(to)))

    def lacking_metadata(self, to: Destination) -> dict[str, ObservedType]:
        """Metadata columns that were asked for and that the table has not, where the policy lets it gain them."""
        found = self._lacking_metadata.get(to)
        if found is None:
            may_gain = self.rules(to).missing_metadata_column().act is Act.CHANGE
            wanted = self.metadata_columns(to).items() if may_gain else ()
            found = {name: kind for name, kind in wanted if not self.shapes[to].has_column(name)}
            self._lacking_metadata[to] = found
        return found

    def metadata(self, positions: Ints, to: Destination) -> dict[str, pa.Array]:
        """The values of the metadata columns of a target for these records, by Kafka's name of the field."""
        found = self._metadata.at(positions, self.metadata_names(to))
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
        arrays = self._metadata.at(positions, self._routing_names)
        return {metadata_column(name): arrays[name] for name in self._routing_names}

    @cached_property
    def _routing_names(self) -> list[str]:
        roots = {fold(path.split(".")[0], self.insensitive) for path in self.routing_paths}
        names = self.plan.decode.metadata_columns
        return [name for name in names if fold(metadata_column(name), self.insensitive) in roots]

    # ---- the end ---------------------------------------------------------------------------------------------------

    def take_back_alone(self) -> None:
        """Rows of records that are judged alone leave every table they were put in."""
        if not self.alone or not (self.plan.route.mode is RouteMode.ALL_MATCH or self.histories):
            return
        self._take_back(np.fromiter(self.alone, dtype=np.int64))

    def _take_back(self, gone: Ints) -> None:
        for to, found in self._rows.items():
            kept = []
            for positions, rows in found:
                keep = ~np.isin(positions, gone)
                kept.append((positions, rows) if keep.all() else (positions[keep], rows.filter(pa.array(keep))))
            self._rows[to] = kept

    def _split_alike(self) -> None:
        """Some of these tables have other rows, too, or change first: theirs are looked at table by table."""
        for positions, alike in self._alike:
            for name, places, rows in alike.split():
                self.add_rows(rows_of(name), positions[places], rows)

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

    def _refuse_without_key(self) -> None:
        """Records without a value for a key column, or for the one that orders them, leave every table that they were put
        in."""
        failures: dict[int, RecordFailure] = {}
        for to, found in sorted(self._rows.items()):
            if not self._follows_key(to):
                continue
            for positions, rows in found:
                for column, missing in without_value(rows, self.policy(to)):
                    for position in positions[missing].tolist():
                        failures.setdefault(position, no_value(column, to.table, self.policy(rows_of(to.table))))
        for table, waiting in sorted(self._without_table.items()):
            new = rows_of(table)
            policy = self.policy(new)
            seen = [name for name, kind in self._needs[table].items() if known_part(kind) is not None]
            declared = [hint.path.split(".")[0] for hint in self.plan.hints_of_tables]
            absent = absent_columns([*seen, *declared, *self.metadata_columns(new)], policy)
            if absent:
                # None of its records has a key: such a table could not be made.
                del self._needs[table]
                if self.keyed is not None:
                    self._needs.pop(self.keyed.histories.get(table, ""), None)
                for position in waiting.tolist():
                    failures.setdefault(position, no_value(absent[0], table, policy))
        self._refuse(failures)

    def _refuse_without_partition(self) -> None:
        """Records with a value of which no partition can be made leave every table that they were put in."""
        failures: dict[int, RecordFailure] = {}
        for to, bounds in sorted(self._least.items()):
            for positions, rows in self._rows.get(to, ()):
                for bound in bounds:
                    if (found := bound.below(rows)) is not None:
                        for row in np.flatnonzero(found[0]).tolist():
                            failures.setdefault(int(positions[row]), bound.failure(found[1][row].as_py()))
        self._refuse(failures)

    def _refuse(self, failures: Mapping[int, RecordFailure]) -> None:
        for position in sorted(failures.keys() - set(self._failed)):
            self.fail(position, failures[position])
        if failures:
            self._take_back(np.fromiter(failures, dtype=np.int64))
            self._rows = {to: kept for to, found in self._rows.items() if (kept := [f for f in found if len(f[0])])}

    def _changes(self, table: str, found: Mapping[bool, tuple[Ints, pa.Table]]) -> UpsertRows:
        """`found` are a table's upserts (False) and deletes (True)."""
        upserts = found.get(False) or (_NONE, self.shapes[rows_of(table)].schema.empty_table())
        deletes = found.get(True) or (_NONE, self.shapes[deletes_of(table)].schema.empty_table())
        self._check_once(np.sort(np.concatenate([upserts[0], deletes[0]])), f"among the changes of {table}")
        return as_changes(upserts, deletes, np.asarray(self.block.offsets, np.int64))

    def _rows_by_table(self) -> dict[Destination, list[tuple[Ints, pa.Table]]]:
        """The rows with those of a history together, whatever their records did."""
        if not self.histories:
            return self._rows
        found: dict[Destination, list[tuple[Ints, pa.Table]]] = {}
        for to, rows in self._rows.items():
            found.setdefault(to.in_table, []).extend(rows)
        return found

    def result(self) -> BlockResult:
        self._settle_needs()
        if self.keyed is not None:
            self._refuse_without_key()
        if self._least:
            self._refuse_without_partition()
        result = self._result
        places: list[Ints] = [np.empty(0, np.int64)]
        if len(self._alike) == 1 and not self._rows and not self._needs:
            positions, alike = self._alike[0]
            self._check_once(positions, "in tables that are alike")
            result.alike = [alike]
            places.append(positions)
        else:
            self._split_alike()
        changes: dict[str, dict[bool, tuple[Ints, pa.Table]]] = {}
        for to, found in sorted(self._rows_by_table().items()):
            table = to.table
            if table in self._needs:
                continue
            positions, rows = found[0]
            if len(found) > 1:
                positions = np.concatenate([p for p, _ in found])
                rows = together([r for _, r in found])
            if (positions[1:] < positions[:-1]).any():
                order = np.argsort(positions, kind="stable")
                positions, rows = positions[order], rows.take(pa.array(order))
            self._check_once(positions, f"in {table}")
            if self._follows_key(to):
                changes.setdefault(table, {})[to.is_delete] = positions, rows
            else:
                result.rows[table] = rows
            places.append(positions)
        result.keyed = {table: self._changes(table, found) for table, found in changes.items()}
        written = np.zeros(len(self.block), dtype=bool)
        written[np.concatenate(places)] = True
        result.written = int(written.sum())
        failed = np.sort(np.array(self._failed, np.int64))
        self._check_once(failed, "among the failures")
        if written[failed].any():
            raise self._unsound(int(failed[written[failed]][0]), "both written and a failure")
        result.dead_letters.sort(key=lambda letter: letter.offset)
        result.needs = {
            table: TableNeed(
                table,
                tuple(fields.items()),
                tuple(self._details.get(table, {}).items()),
                frozenset(self._optional.get(table, ())),
            )
            for table, fields in sorted(self._needs.items())
        }
        return result
