"""One block by every way that a record can take, beside the oracle.

In: a block of documents. Out: how many values of each type were read by each way, and what was wrong: a value that is
not the oracle's, a row where a dead letter must be or the other way round, two ways that disagree, an exception that
nobody caught. The ways: record by record, in columns with the compiled parser, the same with Arrow's alone, and
unsorted with dictionaries.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from framework.config.spec import EvolveMode, RouteRule, TablePolicy, TextAsNumber, ValuesPolicy
from framework.plan.model import Plan
from framework.record.json import compiled as compiled_json
from framework.record.model import BlockResult, RecordBlock, TableTarget
from framework.record.process import process_block, process_with_sql
from framework.record.rows.dictionary_text import plain_table
from testbed.record_samples import alone, block, plan, policy, target
from tests.fuzz.documents import Block
from tests.fuzz.kinds import Shape
from tests.fuzz.oracle import judge, may_be_refused, same
from tests.fuzz.report import Landed, Report, plain_values
from tests.fuzz.strict import Refused

OFFSET = "_kafka_offset"
IGNORED = frozenset({OFFSET, "_kafka_timestamp"})
METADATA = {OFFSET: "long", "_kafka_timestamp": "timestamptz"}
ROUTES = "xyz"


@contextmanager
def without_compiled() -> Iterator[None]:
    """As where no C compiler was when floe was installed."""
    before = compiled_json.available
    compiled_json.available = lambda: False
    try:
        yield
    finally:
        compiled_json.available = before


def _by_arrow(records: RecordBlock, made: Plan, tables: dict[str, TableTarget]) -> BlockResult:
    with without_compiled():
        return process_block(records, made, tables)


def _unsorted(records: RecordBlock, made: Plan, tables: dict[str, TableTarget]) -> BlockResult:
    return process_block(records, made, tables, encode=True, scatter=True)


UNFORESEEN = "FLOE-D119"
Way = Callable[[RecordBlock, Plan, dict[str, TableTarget]], BlockResult]


def _by_sql(records: RecordBlock, made: Plan, tables: dict[str, TableTarget]) -> BlockResult:
    return process_with_sql(records, made, tables, lambda rows: rows)


WAYS: dict[str, Way] = {"alone": alone, "compiled": process_block, "arrow": _by_arrow, "unsorted": _unsorted}
SQL_WAY = {"sql": _by_sql}


def fixed_policy(shape: Shape) -> TablePolicy:
    """A value that does not fit is a dead letter; unknown fields are left out: nothing has to change first."""
    made = policy(
        EvolveMode.DISCARD_VALUE,
        data_type=EvolveMode.WIDEN if shape.empty_is_null else EvolveMode.FREEZE,
        nullability=EvolveMode.FREEZE,
        otherwise=EvolveMode.FREEZE,
    )
    return replace(
        made, values=ValuesPolicy(text_as_number=TextAsNumber.READ if shape.reads_text else TextAsNumber.REFUSE)
    )


def check_block(drawn: Block, seed: int, ways: dict[str, Way] | None = None) -> Report:
    """What became of a block by each way."""
    report = Report(documents=len(drawn.values))
    rules, names = [RouteRule("ns.t")], ["ns.t"]
    if drawn.routed:
        rules, names = [RouteRule("ns.t_{r}")], [f"ns.t_{name}" for name in ROUTES]
    metadata = [name.removeprefix("_kafka_") for name in METADATA]
    fixed = fixed_policy(drawn.shape)
    made = plan(rules, hints=drawn.shape.hints(), metadata=metadata, defaults=fixed, allow=names)
    schema = drawn.shape.schema(METADATA)
    tables = {name: target(name, schema=schema, table_policy=fixed) for name in names}
    records = block(drawn.values)
    wanted = [judged(data, drawn) for data in drawn.values]
    reported: dict[str, list[Any]] = {}
    by_sql = SQL_WAY if drawn.shape.sql_may_read and not drawn.routed else {}
    for way, process in (ways or WAYS | by_sql).items():
        try:
            result = process(records, made, tables)
            reported[way] = _reported(result, len(records), drawn.shape)
            report.landed = report.landed or [
                Landed("json", name, tables[name].schema_json, plain_table(rows)) for name, rows in result.rows.items()
            ]
        except Exception:
            report.uncaught += 1
            report.faults.append((f"uncaught {way}", seed, traceback.format_exc()))
            continue
        _compare(report, way, wanted, reported[way], drawn, seed)
    ways_told = iter(reported.items())
    first = next(ways_told, None)
    for way, found in ways_told:
        assert first is not None
        for at, (one, other) in enumerate(zip(first[1], found, strict=True)):
            # The codes of SQL's typed columns are its own.
            if not _agree(one, other) and not (way in SQL_WAY and isinstance(one, str) and isinstance(other, str)):
                report.disagreements += 1
                text = f"{drawn.values[at][:300]!r}\n  {first[0]}: {_cut(one)}\n  {way}: {_cut(other)}\n  {drawn.shape}"
                report.faults.append((f"disagreement {way}", seed, text))
                break
    return report


def _cut(value: object) -> str:
    return repr(value)[:400]


def judged(data: bytes, drawn: Block) -> Any:
    """The row that must be there, or Refused."""
    try:
        row = judge(data, drawn.shape, IGNORED)
        if drawn.routed:
            _route(data)
        return row
    except Refused as refused:
        return refused


def _route(data: bytes) -> None:
    from tests.fuzz.strict import Number, read

    fields = {name.lower(): value for name, value in read(data).items() if value is not None}
    value = fields.get("r")
    if not isinstance(value, str) or isinstance(value, Number) or value not in set(ROUTES):
        raise Refused("no such table")


def _reported(result: BlockResult, count: int, shape: Shape) -> list[Any]:
    """For each record its row or the code of its dead letter; exactly one of them."""
    assert not result.needs, result.needs
    found: list[Any] = [None] * count
    tables = [(name, plain_table(rows)) for name, rows in result.rows.items()]
    tables += [(name, plain_table(rows)) for alike in result.alike for name, _, rows in alike.split()]
    for _, rows in tables:
        rows.validate(full=True)
        columns = {name: plain_values(rows.column(name), kind) for name, kind in shape.columns.items()}
        for i, offset in enumerate(rows.column(OFFSET).to_pylist()):
            assert found[offset] is None, "a record is in two places"
            found[offset] = {name: values[i] for name, values in columns.items()}
    for letter in result.dead_letters:
        assert letter.code != UNFORESEEN, letter.message  # contained, and still an exception that nobody foresaw
        assert found[letter.offset] is None, "a record is in two places"
        found[letter.offset] = letter.code
    assert all(each is not None for each in found), "a record is nowhere"
    assert result.written + len(result.dead_letters) == count
    return found


def _compare(report: Report, way: str, wanted: list[Any], reported: list[Any], drawn: Block, seed: int) -> None:
    for at, (must, found) in enumerate(zip(wanted, reported, strict=True)):
        if isinstance(found, str):
            report.refused[way] += 1
            good = isinstance(must, Refused) or may_be_refused(must)
        else:
            report.rows[way] += 1
            for name, value in found.items():
                if value is not None:
                    report.values[way, drawn.shape.columns[name].family] += 1
            good = not isinstance(must, Refused) and same(must, found)
        if not good:
            report.wrong += 1
            if len(report.faults) < 20:
                shown = f"Refused({must})" if isinstance(must, Refused) else _cut(must)
                text = f"{drawn.values[at][:400]!r}\n  must be {shown}\n  is {_cut(found)}\n  {drawn.shape}"
                report.faults.append((f"wrong {way}", seed, text))


def _agree(one: Any, other: Any) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return bool(one == other)
    return same(one, other)
