"""What the records of one block ask of tables: to be made, or to gain, widen or relax columns.

In: for each record that asks, the fields it has, or that it shows them. Out: TableNeeds by table. Records are looked at in
order, whichever way each of them went: the first kind that is seen decides, and neither it nor the order of columns may
depend on the way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from framework.config.spec import NameCase
from framework.record.arrays import Ints
from framework.record.convert.nested import fold
from framework.record.destination import Destination, deletes_of, rows_of
from framework.record.fit.infer_types import apply_hints, merge_fields, observe_records, settle_fields
from framework.record.json.json_schema import DeclaredFields, fields_of
from framework.record.model import ColumnDetail, ObservedType, TableNeed
from framework.record.state.block_tables import BlockTables
from framework.table.columns.details import merge_details
from framework.table.schema.types import as_declared, known_part, within, without_nanoseconds

_NONE: Ints = np.empty(0, np.int64)


@dataclass(frozen=True)
class _Ask:
    """What the record at a place asks of a table."""

    at: int
    fields: Mapping[str, ObservedType]
    hinted: bool = True
    details: Mapping[str, ColumnDetail] | None = None
    others: Sequence[int] = ()  # places of further records that ask for the same
    is_delete: bool = False


class BlockNeeds:
    """Gathers asks, which `settle` makes needs of."""

    def __init__(self, tables: BlockTables) -> None:
        self._tables = tables
        self._showing: dict[Destination, list[int]] = {}
        self._asked: dict[str, list[_Ask]] = {}
        self._needs: dict[str, dict[str, ObservedType]] = {}
        self._optional: dict[str, set[tuple[str, ...]]] = {}
        self._details: dict[str, dict[str, ColumnDetail]] = {}
        self._declared: Sequence[DeclaredFields] = ()
        self.without_table: dict[str, Ints] = {}
        """By upsert table that must be created the records that it is for."""

    def __contains__(self, table: object) -> bool:
        return table in self._needs

    def __bool__(self) -> bool:
        return bool(self._needs)

    def add(
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
        fields = self._tables.of_key(to, fields) if to.is_delete else fields
        self._asked.setdefault(to.table, []).append(_Ask(at, fields, hinted, details, others, to.is_delete))

    def add_metadata(self, to: Destination, at: int) -> None:
        """The table must gain the metadata columns that it has not, where it may, for the record at this place."""
        if lacking := self._tables.lacking_metadata(to):
            self.add(to, lacking, at)

    def add_shown(self, to: Destination, positions: Iterable[int]) -> None:
        """The table must gain what these records show and it has not, or be created with it. A record that is judged
        alone asks for itself, or is refused and then asks for nothing."""
        self._showing.setdefault(to if to.is_delete else rows_of(to.table), []).extend(positions)

    def relax(self, to: Destination, columns: Iterable[tuple[str, ...]]) -> None:
        """These columns of the table must become optional."""
        self._needs.setdefault(to.table, {})
        self._optional.setdefault(to.table, set()).update(columns)

    def settle(
        self, values: Sequence[bytes | None], alone: Collection[int], declared: Sequence[DeclaredFields] = ()
    ) -> None:
        """Make needs of all that was asked; `alone` are the places of records that were judged alone, `declared` what the
        schemas of all of them say."""
        self._declared = declared
        for table in dict.fromkeys((*(to.table for to in self._showing), *self._asked)):
            shown = self._shown(rows_of(table), alone)
            deleting = self._shown(deletes_of(table), alone)
            found = np.sort(np.concatenate([shown, deleting]))
            asked = sorted(self._asked.get(table, []), key=lambda each: each.at)
            ends = np.searchsorted(found, [ask.at for ask in asked]).tolist()
            begin = 0
            for end, ask in zip(ends, asked, strict=True):
                self._settle_shown(table, found[begin:end], deleting, values)
                self._settle(table, ask)
                begin = end
            self._settle_shown(table, found[begin:], deleting, values)
            if rows_of(table) not in self._tables.targets and self._tables.is_upsert(rows_of(table)):
                reported = [np.array([ask.at, *ask.others], np.int64) for ask in asked]
                self.without_table[table] = np.unique(np.concatenate([found, *reported])).astype(np.int64)

    def _shown(self, to: Destination, alone: Collection[int]) -> Ints:
        """The records that show a table what to be, without those that are judged alone."""
        if to not in self._showing:
            return _NONE
        return np.setdiff1d(np.array(self._showing[to], np.int64), list(alone)).astype(np.int64)

    def _settle_shown(self, table: str, positions: Ints, deleting: Ints, values: Sequence[bytes | None]) -> None:
        tables, to = self._tables, rows_of(table)
        for (is_delete, _), run in groupby(
            zip(positions.tolist(), np.isin(positions, deleting).tolist(), strict=True),
            lambda shown: (shown[1], id(self._declared[shown[0]]) if self._declared else 0),
        ):
            places = [position for position, _ in run]
            fields = observe_records([values[i] or b"" for i in places], tables.made_by(to))
            if to in tables.targets:
                fields = tables.shapes[to].lacking(fields, tables.policy(to)).fields
            fields = tables.own_fields(fields, to)
            fields = tables.of_key(to, fields) if is_delete else fields
            if fields or to not in tables.targets:
                self._settle(table, _Ask(places[0], fields, is_delete=is_delete))

    def _settle(self, table: str, ask: _Ask) -> None:
        tables, to = self._tables, rows_of(table)
        ask = self._by_schema(to, ask)
        if ask.details is not None:
            known = self._details.get(table)
            self._details[table] = dict(ask.details) if known is None else merge_details(known, ask.details)
        insensitive = tables.policy(to).case is NameCase.INSENSITIVE
        wanted = self._needs.setdefault(table, {})
        current = tables.columns_of_current(to)
        if not wanted and to not in tables.targets:
            wanted.update(current.values())
        spelled = {fold(name, insensitive): name for name in wanted}
        hints = tables.hints(insensitive) if ask.hinted else {}
        counted = tables.counts_nanoseconds(to)
        for name, kind in settle_fields(apply_hints(ask.fields, hints, insensitive), tables.policy(to)).items():
            _, kind = current.get(fold(name, insensitive), (name, kind))
            kind = kind if counted else without_nanoseconds(kind)
            merge_fields(wanted, {spelled.setdefault(fold(name, insensitive), name): kind})

    def _by_schema(self, to: Destination, ask: _Ask) -> _Ask:
        """An ask with the types of the record's schema in the place of those that its values show; of a new table with all
        that the schema has, of a table that is there with what it lacks."""
        tables = self._tables
        if not self._declared or not ask.hinted or ask.details is not None:
            return ask
        schema = self._declared[ask.at]
        kinds = tables.own_fields(dict(schema.kinds), to)
        insensitive = tables.policy(to).case is NameCase.INSENSITIVE
        if to in tables.targets:
            shape, names = tables.shapes[to], {fold(name, insensitive): kind for name, kind in kinds.items()}
            fields = dict(ask.fields)
            for name, kind in ask.fields.items():
                if (own := names.get(fold(name, insensitive))) is not None:
                    has_it = shape.has_column(name)
                    fields[name] = within(own, kind) if has_it else as_declared(own, kind, insensitive, whole=False)
            return replace(ask, fields=fields, details=schema.details)
        seen = [[name, kind] for name, kind in ask.fields.items()]
        declared = ["struct", [[name, kind] for name, kind in kinds.items()]]
        kind = as_declared(declared, ["struct", seen], insensitive, whole=not ask.is_delete)
        return replace(ask, fields=tables.made_by(to).usable(fields_of(kind)), details=schema.details)

    def seen(self, table: str) -> list[str]:
        """The fields that the table must gain and of which records say something."""
        return [name for name, kind in self._needs[table].items() if known_part(kind) is not None]

    def withdraw(self, table: str) -> None:
        """Ask for nothing of the table, nor of its history: no record is left that it is for."""
        del self._needs[table]
        if self._tables.keyed is not None:
            self._needs.pop(self._tables.keyed.histories.get(table, ""), None)

    def by_table(self) -> dict[str, TableNeed]:
        return {
            table: TableNeed(
                table,
                tuple(fields.items()),
                tuple(self._details.get(table, {}).items()),
                frozenset(self._optional.get(table, ())),
            )
            for table, fields in sorted(self._needs.items())
        }
