"""Framed JSON records to Arrow tables; one bad record costs a few small parses, not the block.

In: framed records, the schema of the fields whose parse type is known, and whether other fields are inferred. Out:
parsed parts with the position of every row, and the positions of records Arrow could not take. A part is trusted only
if it has as many rows as records (see framework.record.json.framing).
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from framework.record.arrays import Ints, Mask, cast_decimals
from framework.record.json.arrow_screen import far_rows, may_lose, unfit_rows, unsure_rows
from framework.record.json.arrow_suspects import suspect_patterns, suspects
from framework.record.json.compiled import most_odd, parse_plain
from framework.record.json.framing import JoinedRecords, ParsedRows, only, record_starts, runs, without
from framework.record.json.mixed_kinds import Leniency, rewrite

_BLOCK_BYTES = 2 * 1024 * 1024
_WINDOW_RECORDS = 8192
_FEW = 8
_SPARE_SCALE = 20
_MOST_DIGITS = 76
_ROW = re.compile(r"in row (\d+)$")
_MIXED = re.compile(r"Column\(/([^/]+)\) changed from (?:number|string|boolean) to (?:number|string|boolean) in row")
_MANY = 16
_MOST_SCANS = 8


@dataclass(frozen=True)
class _Stopped:
    """Arrow gave up: at this row, about this top-level field, where it says so; `said` is its whole message."""

    row: int | None = None
    field: str | None = None
    said: str = ""


def parse_framed(
    framed: JoinedRecords, schema: pa.Schema, infer: bool, leniency: Leniency | None = None
) -> tuple[list[ParsedRows], list[int]]:
    """Parse all records: parts whose tables differ only where inferred fields do, and positions to be judged alone.

    `leniency` says which fields may be brought to one kind when many records have another (none without it).
    """
    if len(framed.positions) == 0:
        return [], []
    records = len(framed.positions)
    plain = parse_plain(framed.data, records, schema, most_odd(records))
    if plain is not None and not len(plain[1]):
        return [ParsedRows(framed.positions, plain[0])], []
    return parse_left(framed, plain, schema, infer, leniency)


def parse_left(
    framed: JoinedRecords,
    plain: tuple[pa.Table, Ints] | None,
    schema: pa.Schema,
    infer: bool,
    leniency: Leniency | None = None,
) -> tuple[list[ParsedRows], list[int]]:
    """As `parse_framed`, behind the compiled parser: `plain` are its table and the rows that it left, some at least."""
    table, odd = plain if plain is not None else (None, np.arange(len(framed.positions)))
    few = framed if table is None else only(framed, record_starts(framed.data), odd)
    few, left = _screened(few, schema, leniency is None or leniency.reads_text)
    while True:
        parts, alone = _by_arrow(few, schema, infer, leniency) if table is None else _few_by_arrow(few, schema, infer)
        rows = [part.positions[unsure_rows(part.table, schema)] for part in parts]
        found = np.flatnonzero(np.isin(few.positions, np.concatenate([np.empty(0, np.int64), *rows])))
        starts = record_starts(few.data)
        unsure = np.array(
            [row for row in found.tolist() if may_lose(few.data[starts[row] : starts[row + 1]])], np.int64
        )
        if not len(unsure):
            break
        # The others are parsed again: rows of inferred columns, which Arrow may make wrongly, are never copied.
        left += few.positions[unsure].tolist()
        few = without(few, starts, unsure)
    if table is not None and len(table):
        parts = _joined([ParsedRows(np.delete(framed.positions, odd), table), *parts])
    return parts, left + alone


def _screened(framed: JoinedRecords, schema: pa.Schema, reads_text: bool) -> tuple[JoinedRecords, list[int]]:
    """The records without those that Arrow must not see, and these."""
    starts = record_starts(framed.data)
    rows = unfit_rows(framed.data, starts, schema, reads_text)
    if not len(rows):
        return framed, []
    return without(framed, starts, rows), framed.positions[rows].tolist()


def _by_arrow(
    framed: JoinedRecords, schema: pa.Schema, infer: bool, leniency: Leniency | None
) -> tuple[list[ParsedRows], list[int]]:
    records = len(framed.positions)
    if not records:
        return [], []
    table = _parse(framed.data, records, _options(schema, infer), max(_BLOCK_BYTES, 2 * framed.longest))
    if isinstance(table, pa.Table):
        return [ParsedRows(framed.positions, table)], []
    framed, left, table = _without_suspects(framed, schema, infer, table)
    if isinstance(table, pa.Table):
        return [ParsedRows(framed.positions, table)], left
    parser = _WindowParser(framed, schema, infer, leniency)
    records = len(framed.positions)
    for start in range(0, records, _WINDOW_RECORDS):
        parser.parse(start, min(start + _WINDOW_RECORDS, records))
    return _joined(parser.parts), left + parser.alone


def _few_by_arrow(few: JoinedRecords, schema: pa.Schema, infer: bool) -> tuple[list[ParsedRows], list[int]]:
    """The few records that are not plain by Arrow, where it takes them all: fields that are new, as a rule. Else they
    are judged alone, which costs less than a search for those among them that Arrow would take."""
    if not len(few.positions):
        return [], []
    found = _parse(few.data, len(few.positions), _options(schema, infer), len(few.data) + 1)
    if isinstance(found, pa.Table):
        return [ParsedRows(few.positions, found)], []
    return [], few.positions.tolist()


def _without_suspects(
    framed: JoinedRecords, schema: pa.Schema, infer: bool, stopped: _Stopped
) -> tuple[JoinedRecords, list[int], pa.Table | _Stopped]:
    """Leave out the records that have what Arrow stopped at, field after field, while they are few; the last result
    too."""
    left: list[int] = []
    tried: set[bytes] = set()
    result: pa.Table | _Stopped = stopped
    while isinstance(result, _Stopped):
        patterns = [each for each in suspect_patterns(result.said, schema) if each not in tried]
        if not patterns or len(tried) > _MOST_SCANS:
            break
        tried.update(patterns)
        starts = record_starts(framed.data)
        rows = suspects(framed.data, starts, patterns)
        if not 0 < len(rows) * _MANY <= len(framed.positions):
            break
        left += framed.positions[rows].tolist()
        framed = without(framed, starts, rows)
        result = _parse(
            framed.data, len(framed.positions), _options(schema, infer), max(_BLOCK_BYTES, 2 * framed.longest)
        )
    return framed, left, result


def _options(schema: pa.Schema, infer: bool) -> object:
    return pyarrow.json.ParseOptions(
        explicit_schema=schema, unexpected_field_behavior="infer" if infer else "ignore", newlines_in_values=False
    )


def _parse(data: object, records: int, options: object, block_bytes: int) -> pa.Table | _Stopped:
    try:
        table = pyarrow.json.read_json(
            pa.BufferReader(data),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=block_bytes),
            parse_options=options,
        )
    except pa.ArrowInvalid as error:
        row, field = _ROW.search(str(error)), _MIXED.search(str(error))
        return _Stopped(int(row.group(1)) if row else None, field.group(1) if field else None, str(error))
    return table if table.num_rows == records else _Stopped()


class _WindowParser:
    """Parses a block window by window; within a window, bad records are found and left out, the others parsed at once.

    Arrow names the row it failed at for what is no JSON or of another kind than the column, and stops there: going on
    behind it finds all such records at the cost of one more parse. A number that its column cannot hold exactly fails
    the window as a whole: a second parse, to wide decimals, shows which rows it was.
    """

    def __init__(self, framed: JoinedRecords, schema: pa.Schema, infer: bool, leniency: Leniency | None) -> None:
        self._data = pa.py_buffer(framed.data)
        self._starts = record_starts(framed.data)
        self._positions = framed.positions
        self._leniency = leniency
        self._unified: set[str] = set()
        self._schema = schema
        self._options = _options(schema, infer)
        numbers = leniency.number if leniency else frozenset()
        exact = {f.name for f in schema if pa.types.is_integer(f.type) or pa.types.is_decimal(f.type)}
        self._wide = sorted(exact & numbers)
        wide = [f.with_type(_wide_type(f.type)) if f.name in self._wide else f for f in schema]
        self._wide_options = _options(pa.schema(wide), infer)
        self._sent = framed.data, self._starts
        self.parts: list[ParsedRows] = []
        self.alone: list[int] = []

    @cached_property
    def _far(self) -> Ints:
        return far_rows(*self._sent, self._schema, self._leniency is None or self._leniency.reads_text)

    def parse(self, first: int, end: int) -> None:
        """Parse the records [first, end) of the block."""
        rows = np.arange(first, end)
        bad: list[int] = []
        mixed: Counter[str | None] = Counter()
        start = 0
        while start < len(rows):
            result = self._try(rows[start:])
            if isinstance(result, pa.Table) or result.row is None or start + result.row >= len(rows):
                # A record that is two documents shifts Arrow's row numbers; the search by halves finds it.
                break
            mixed[result.field] += 1
            if start + result.row < _MANY * mixed[result.field] >= _MANY * _MANY and self._unify(result.field):
                bad, start = [], 0
                mixed.clear()
                continue
            bad.append(start + result.row)
            start += result.row + 1
        self._leave(rows[bad])
        if not bad and isinstance(result, pa.Table):
            self.parts.append(ParsedRows(self._positions[rows], result))
        else:
            self._parse_clean(np.delete(rows, bad))

    def _unify(self, name: str | None) -> bool:
        """Bring a field that is of mixed kinds in many records to one kind, once, in all records of the block."""
        if name is None or name in self._unified or self._leniency is None:
            return False
        self._unified.add(name)
        rule = self._leniency.rule(name, self._schema)
        if rule is None:
            return False
        data = rewrite(self._data.to_pybytes(), [(name, rule)])
        self._data = pa.py_buffer(data)
        self._starts = record_starts(data)
        return True

    def _parse_clean(self, rows: Ints) -> None:
        """Records without known bad ones: one parse, or a search for the numbers that do not fit."""
        result = self._try(rows)
        if not isinstance(result, pa.Table):
            rows, result = self._by_way_of_decimals(rows)
        if isinstance(result, pa.Table):
            self.parts.append(ParsedRows(self._positions[rows], result))
        elif len(rows) <= _FEW:
            self._leave(rows)
        else:
            middle = len(rows) // 2
            self._parse_clean(rows[:middle])
            self._parse_clean(rows[middle:])

    def _by_way_of_decimals(self, rows: Ints) -> tuple[Ints, pa.Table | _Stopped]:
        """The rows whose numbers fit their columns, in the columns' types; the others are left to be judged alone.

        Arrow takes `1.0` for no integer and `1.50` for no decimal of one digit; wide decimals hold both exactly.
        """
        if not self._wide:
            return rows, _Stopped()
        far = np.intersect1d(rows, self._far)
        self._leave(far)
        rows = np.setdiff1d(rows, far)
        table = self._try(rows, self._wide_options)
        if isinstance(table, pa.Table):
            misfits = np.zeros(len(rows), dtype=bool)
            for name in self._wide:
                misfits |= _misfitting(table.column(name).combine_chunks(), self._schema.field(name).type)
            if misfits.any():
                self._leave(rows[misfits])
                rows = rows[~misfits]
                table = self._try(rows, self._wide_options)
        if isinstance(table, pa.Table):
            for name in self._wide:
                at, kind = table.schema.get_field_index(name), self._schema.field(name).type
                is_whole = pa.types.is_integer(kind)
                exact = cast_decimals(table.column(at), pa.decimal256(_MOST_DIGITS, 0) if is_whole else kind)
                table = table.set_column(at, pa.field(name, kind), exact.cast(kind) if is_whole else exact)
        return rows, table

    def _try(self, rows: Ints, options: object = None) -> pa.Table | _Stopped:
        pieces = [self._data.slice(s := int(self._starts[f]), int(self._starts[e]) - 1 - s) for f, e in runs(rows)]
        if not pieces:
            return _Stopped()
        data = pieces[0] if len(pieces) == 1 else pa.py_buffer(b"\n".join(memoryview(piece) for piece in pieces))
        # One block only, so that the row number in an error counts from the first record.
        return _parse(data, len(rows), options or self._options, data.size + 1)

    def _leave(self, rows: Ints) -> None:
        self.alone += self._positions[rows].tolist()


def _wide_type(kind: pa.DataType) -> pa.DataType:
    """The decimal that holds every number `kind` does and 20 digits behind the point (see decimal_parse_type)."""
    scale = _SPARE_SCALE if pa.types.is_integer(kind) else max(_SPARE_SCALE, kind.scale)
    return pa.decimal256(_MOST_DIGITS - scale, scale)


def _misfitting(values: pa.Array, kind: pa.DataType) -> Mask:
    """Which wide decimals are no values of type `kind`."""
    if pa.types.is_integer(kind):
        scale, limit = 0, Decimal(1 << 63)
    else:
        scale, limit = kind.scale, Decimal(10) ** (kind.precision - kind.scale)
    # Arrow puts zeros behind a number without looking whether its digits still fit; it only never runs over.
    limit = min(limit, Decimal(10) ** (values.type.precision - values.type.scale))
    bound = pa.scalar(limit, pa.decimal256(_MOST_DIGITS, values.type.scale))
    inside = pc.and_(pc.less(values, bound), pc.greater(values, pc.negate(bound))).fill_null(True)
    within = pc.if_else(inside, values, pa.scalar(None, values.type))
    fits = pc.and_(inside, pc.equal(pc.round(within, scale, "towards_zero"), within).fill_null(True))
    misfits: Mask = pc.invert(fits).to_numpy(zero_copy_only=False)
    return misfits


def _joined(parts: list[ParsedRows]) -> list[ParsedRows]:
    """Neighbours and others of one schema put together, in order of their first record."""
    groups: dict[str, list[ParsedRows]] = {}
    for part in parts:
        groups.setdefault(part.table.schema.to_string(show_field_metadata=False), []).append(part)
    return [
        group[0]
        if len(group) == 1
        else ParsedRows(
            np.concatenate([part.positions for part in group]),
            pa.concat_tables([part.table for part in group]),
        )
        for group in groups.values()
    ]
