"""An exception that nobody foresaw is the dead letter of the record that causes it; its neighbours are rows."""

from __future__ import annotations

import json
from collections.abc import Callable

import pyarrow as pa
import pytest

from framework.config.spec import ErrorPolicy
from framework.errors import AccountingError
from framework.record.blocks import block as block_module
from framework.record.blocks import landed_needs as shaping
from framework.record.blocks.bisect_failures import MOST_RECORDS
from framework.record.destination import rows_of
from framework.record.formats.typed_rows import TypedRows
from framework.record.model import BlockResult, TableNeed, TableTarget
from framework.record.process import process_block, process_transformed
from framework.record.sql import transform as transformed
from framework.record.state.block_state import BlockState
from testbed.record_samples import block, plan, policy, target

TABLES = {"ns.t": target(columns={"a": "long", "b": "string"}, table_policy=policy())}


@pytest.fixture
def raises(monkeypatch: pytest.MonkeyPatch) -> Callable[[set[int], Exception], None]:
    """Processing a block with one of these numbers in field `a` raises."""
    real = block_module.process_json

    def install(numbers: set[int], error: Exception) -> None:
        def process(state, positions) -> None:  # type: ignore[no-untyped-def]
            if any(json.loads(state.values[p])["a"] in numbers for p in positions):
                raise error
            real(state, positions)

        monkeypatch.setattr(block_module, "process_json", process)

    return install


def run(records: int, errors: ErrorPolicy = ErrorPolicy.DEAD_LETTER) -> BlockResult:
    values = [{"a": n, "b": f"text {n % 7}"} for n in range(records)]
    return process_block(block(values), plan(defaults=policy(), errors=errors), TABLES, encode=True, scatter=True)


def numbers(result: BlockResult) -> list[int]:
    found = [n for table in result.rows.values() for n in table.column("a").to_pylist()]
    return found + [n for alike in result.alike for n in alike.rows.column("a").to_pylist()]


@pytest.mark.parametrize("bad", [{0}, {999}, {500}, {3, 4, 998}, set(range(100, 100 + MOST_RECORDS))])
def test_each_record_that_raises_is_a_dead_letter_and_no_other(
    raises: Callable[[set[int], Exception], None], bad: set[int]
) -> None:
    """Rows come in offset order, letters too, with the exception's words, and the sum holds."""
    raises(bad, RecursionError("maximum recursion depth exceeded"))
    result = run(1_000)
    assert numbers(result) == [n for n in range(1_000) if n not in bad]
    assert [letter.offset for letter in result.dead_letters] == sorted(bad)
    assert {letter.code for letter in result.dead_letters} == {"FLOE-D119"}
    assert "RecursionError: maximum recursion depth" in result.dead_letters[0].message
    assert result.written + len(result.dead_letters) == 1_000


def test_the_policy_for_bad_records_holds(raises: Callable[[set[int], Exception], None]) -> None:
    """`drop` counts it, `fail` stops at it, as with any bad record."""
    raises({5}, ValueError("?"))
    assert run(10, ErrorPolicy.DROP).dropped == 1
    failure = run(10, ErrorPolicy.FAIL).failure
    assert failure is not None
    assert failure.offset == 5


def test_an_error_that_meets_every_record_is_not_theirs(raises: Callable[[set[int], Exception], None]) -> None:
    """An error of floe's own must not make dead letters of a whole stream: it goes on as it is."""
    raises(set(range(1_000)), KeyError("our own"))
    with pytest.raises(KeyError, match="our own"):
        run(1_000)


@pytest.mark.parametrize("error", [MemoryError(), OSError("disk full"), AccountingError("off")])
def test_what_no_record_causes_goes_on(raises: Callable[[set[int], Exception], None], error: Exception) -> None:
    """Memory, files and our own checks are nothing that a single record is to blame for."""
    raises({5}, error)
    with pytest.raises(type(error)):
        run(10)


def test_a_record_that_raises_only_in_the_changed_table_is_a_dead_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception while the changes of a table are tried is its record's, too, and what it asked for is left out."""
    real = block_module.process_json

    def process(state, positions) -> None:  # type: ignore[no-untyped-def]
        if state.tables.shapes[rows_of("ns.t")].has_column("new") and any(
            json.loads(state.values[p])["a"] == 3 for p in positions
        ):
            raise RecursionError("only now")
        real(state, positions)

    monkeypatch.setattr(block_module, "process_json", process)
    values = [{"a": n} | ({"new": 1} if n in (3, 5) else {}) for n in range(8)]
    result = process_block(block(values), plan(defaults=policy()), TABLES)
    assert [name for name, _ in result.needs["ns.t"].fields] == ["new"]
    assert not [letter for letter in result.dead_letters if letter.offset != 3]


def test_a_change_of_a_table_that_cannot_be_planned_is_one_record_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where what one record asks of a table raises, it is a dead letter, and what its neighbours ask for is asked
    for."""
    real = shaping.plan_evolution

    def cursed(found: TableTarget, need: TableNeed) -> object:
        if any(name == "cursed" for name, _ in need.fields):
            raise ValueError("no such thing")
        return real(found, need)

    monkeypatch.setattr(shaping, "plan_evolution", cursed)
    values = [{"a": 1}, {"a": 2, "new": "x"}, {"a": 3, "cursed": 1}, {"a": 4, "other": 2.5}]
    result = process_block(block(values), plan(defaults=policy()), TABLES)
    assert [(letter.offset, letter.code) for letter in result.dead_letters] == [(2, "FLOE-D119")]
    assert {name for name, _ in result.needs["ns.t"].fields} == {"new", "other"}


@pytest.mark.parametrize("gone", [(), (0, 6)], ids=["all came out", "some were filtered"])
def test_what_raises_behind_the_sql_is_one_record_s(monkeypatch: pytest.MonkeyPatch, gone: tuple[int, ...]) -> None:
    """A row whose value raises after `transform.sql` is the dead letter of its record; filtered records stay
    filtered."""
    real = transformed.route_and_convert

    def cursed(state: BlockState, typed: TypedRows) -> None:
        if 5 in typed.columns.column("a").to_pylist():
            raise OverflowError("too much")
        real(state, typed)

    monkeypatch.setattr(transformed, "route_and_convert", cursed)
    records = block([{"a": n, "b": "x"} for n in range(10)])
    places = [n for n in range(10) if n not in gone]
    rows = pa.table(
        {"a": pa.array(places, pa.int64()), "b": ["x"] * len(places), "__floe": pa.array(places, pa.int32())}
    )
    result = process_transformed(records, rows, plan(defaults=policy()), TABLES)
    assert [(letter.offset, letter.code) for letter in result.dead_letters] == [(5, "FLOE-D119")]
    assert numbers(result) == [n for n in places if n != 5]
    assert (result.written, result.filtered) == (len(places) - 1, len(gone))
