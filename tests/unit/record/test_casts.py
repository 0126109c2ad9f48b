"""Arrow's casts: every place that has one, and why no value becomes another there.

Arrow's `safe=True` promises less than it says: decimals of a larger scale run over in silence. So each cast is listed
here with the family that it belongs to, and each family is proven against Python's whole numbers. A cast that is not
listed fails; whoever writes one looks for its family first.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from framework.record.arrays import cast_decimals

ROOT = Path(__file__).parents[3]


class Family(Enum):
    """What a cast is from and to."""

    COUNT = "dates, times and moments as the whole numbers that they are kept as, and back"
    WIDER = "whole numbers to a type that holds all of them; booleans to 0 and 1"
    NARROWER = "whole numbers, decimals of whole numbers and doubles to whole numbers: Arrow checks these"
    UNIT = "dates, times and moments to those of another unit or zone: Arrow checks these"
    WHOLE_DECIMAL = "whole numbers to decimals with room for all of them"
    DECIMAL = "decimals to others: only by cast_decimals"
    PROMOTED = "a column to the type that Iceberg promotes its type to, which holds all its values"
    LAYOUT = "the same values with longer offsets, or under another name of their type"
    TEXT = "text to what it says, or whole numbers and booleans to their text; the fuzzer judges these"
    NEAREST = "whole numbers and doubles to the nearest float; what must not be rounded is compared afterwards"
    COMPARED = "a decimal to one that is only compared with bounds"
    SPARK = "not Arrow's: a column of Spark"


F = Family
CASTS: dict[str, tuple[Family, ...]] = {
    "adapters/iceberg/tables.py:read": (F.LAYOUT,),
    "adapters/iceberg/upsert/search.py:read_key_columns": (F.PROMOTED,),
    "adapters/iceberg/upsert/search.py:__init__": (F.COUNT, F.WIDER, F.COUNT),
    "adapters/parquet/key_places.py:_hash": (F.WIDER,),
    "adapters/parquet/partition.py:_microseconds": (F.COUNT, F.COUNT),
    "adapters/parquet/partition.py:_plain": (F.COUNT, F.COUNT),
    "adapters/iceberg/project_by_id.py:_as": (F.LAYOUT,),
    "adapters/iceberg/project_by_id.py:_promoted": (F.PROMOTED, F.PROMOTED),
    "adapters/iceberg/project_by_id.py:as_now": (F.PROMOTED,),
    "adapters/maintenance/rewrite_files.py:_with_lineage": (F.WIDER, F.WIDER),
    "adapters/maintenance/rewrite_files.py:_cast": (F.LAYOUT, F.LAYOUT),
    "adapters/iceberg/upsert/row_versions.py:upper_bound": (F.COUNT, F.COUNT),
    "adapters/spark/expressions_apart.py:first_of": (F.SPARK,),
    "adapters/iceberg/upsert/deleted_keys.py:read_deleted_keys": (F.PROMOTED,),
    "adapters/value_bytes.py:bytes_of": (F.WIDER,),
    "adapters/value_bytes.py:plain": (F.LAYOUT, F.LAYOUT),
    "cli/repair/dlq.py:_read": (F.COUNT,),
    "ops/compare/row_words.py:_leaves": (F.WIDER,),
    "ops/compare/row_words.py:_without_nulls": (F.COUNT,),
    "ops/readiness/replay.py:_through_scratch": (F.LAYOUT,),
    "ops/readiness/replay.py:_python": (F.COUNT,),
    "ops/shown_dead_letters.py:_plain": (F.COUNT,),
    "record/arrays.py:cast_decimals": (F.DECIMAL,),
    "record/convert/format_times.py:parse_texts": (F.COUNT, F.TEXT),
    "record/convert/nested.py:select_column": (F.WIDER, F.WIDER),
    "record/convert/numbers.py:array": (F.NARROWER,),
    "record/convert/numbers.py:plausible": (F.COMPARED,),
    "record/fit/parsed_columns.py:from_python": (F.LAYOUT,),
    "record/convert/text.py:_spread": (F.WIDER,),
    "record/convert/times.py:_distinct": (F.NARROWER, F.COUNT),
    "record/convert/times.py:_units_from_numbers": (F.NARROWER,),
    "record/convert/times.py:prepared_times": (F.COUNT, F.COUNT, F.COUNT),
    "record/convert/times.py:within_calendar": (F.COUNT,),
    "record/convert/times.py:_array": (F.COUNT, *[F.TEXT] * 6),
    "record/convert/times.py:_in_zone": (F.COUNT, F.COUNT, F.COUNT, F.COUNT, F.COUNT),
    "record/convert/times.py:_assumed": (F.UNIT,),
    "record/convert/times.py:array": (F.TEXT, F.TEXT, F.UNIT),
    "record/convert/times.py:_unscaled": (F.NARROWER,),
    "record/fit/typed_columns.py:plain_value": (F.COUNT,),
    "record/fit/typed_columns.py:_converted": (F.LAYOUT, F.NEAREST, F.LAYOUT, F.LAYOUT, F.WHOLE_DECIMAL, F.UNIT),
    "record/fit/typed_columns.py:_counts": (F.NARROWER, F.WHOLE_DECIMAL),
    "record/fit/typed_columns.py:holds_nothing": (F.LAYOUT,),
    "record/fit/typed_columns.py:_map": (F.LAYOUT,),
    "record/blocks/decoded.py:_values": (F.COUNT,),
    "record/formats/columns.py:build": (F.COUNT, F.UNIT, F.COUNT, F.UNIT, F.COUNT),
    "record/formats/debezium.py:_reported": (F.COUNT, F.UNIT),
    "record/formats/present_values.py:rows_with_value": (F.LAYOUT,),
    "record/json/arrow.py:_by_way_of_decimals": (F.NARROWER,),
    "record/dead_letters/dead_letter.py:dead_letter_messages": (F.COUNT,),
    "record/dead_letters/replay.py:dead_letter_blocks": (F.COUNT,),
    "record/sql/transform.py:decode_block": (F.LAYOUT,),
    "task/upsert/filled_rows.py:filled_rows": (F.LAYOUT,),
    "task/upsert/writer.py:_finish": (F.LAYOUT,),
    "task/sql/stage.py:carry": (F.LAYOUT,),
    "testing/values.py:_python": (F.COUNT,),
}


def casts(tree: ast.AST, function: str = "") -> Iterator[str]:
    """The function that each call of a method `cast` stands in."""
    for node in ast.iter_child_nodes(tree):
        inside = node.name if isinstance(node, ast.FunctionDef) else function
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "cast":
            yield inside
        yield from casts(node, inside)


def test_each_cast_has_a_family() -> None:
    """A new cast is listed with the reason that no value becomes another by it, or it is not written."""
    found: Counter[str] = Counter()
    for path in sorted((ROOT / "framework").rglob("*.py")):
        name = path.relative_to(ROOT / "framework").as_posix()
        found.update(f"{name}:{function}" for function in casts(ast.parse(path.read_text())))
    assert found == {place: len(families) for place, families in CASTS.items()}


def test_decimals_are_cast_in_one_place() -> None:
    """Nothing but `cast_decimals` casts a decimal to another: Arrow's own cast would wrap."""
    assert [place for place, families in CASTS.items() if F.DECIMAL in families] == ["record/arrays.py:cast_decimals"]


# ---- the families, against Python
# --------------------------------------------------------------------------------------


@st.composite
def decimal_types(draw: st.DrawFn, most: int = 76) -> Any:
    precision = draw(st.integers(1, most))
    scale = draw(st.integers(0, precision))
    return (
        pa.decimal128(precision, scale) if precision <= 38 and draw(st.booleans()) else pa.decimal256(precision, scale)
    )


@st.composite
def decimals_and_targets(draw: st.DrawFn) -> tuple[Any, list[int | None], Any]:
    """A type, unscaled values of it, and another type."""
    source, target = draw(decimal_types()), draw(decimal_types())
    limit = 10**source.precision - 1
    near = 10 ** max(0, min(source.precision, target.precision - target.scale + source.scale))
    value = st.integers(-limit, limit) | st.sampled_from([near, near - 1, -near, 1 - near]).map(
        lambda each: max(-limit, min(limit, each))
    )
    return source, draw(st.lists(st.none() | value, max_size=4)), target


def unscaled(values: pa.Array) -> list[int | None]:
    """The whole numbers that an array of decimals is kept as."""
    width = values.type.bit_width // 8
    data = memoryview(values.buffers()[1])
    return [
        int.from_bytes(data[at * width : (at + 1) * width], "little", signed=True) if each.is_valid else None
        for at, each in enumerate(values, start=values.offset)
    ]


def decimal_array(kind: Any, numbers: list[int | None]) -> pa.Array:
    width = kind.bit_width // 8
    data = b"".join((number or 0).to_bytes(width, "little", signed=True) for number in numbers)
    mask = pa.array([number is not None for number in numbers], pa.bool_()).buffers()[1]
    return pa.Array.from_buffers(kind, len(numbers), [mask, pa.py_buffer(data)])


@given(decimals_and_targets())
@example((pa.decimal128(38, 0), [400000000000000000000], pa.decimal128(38, 18)))
@example((pa.decimal128(20, 0), [2**64 - 1], pa.decimal128(38, 20)))
@example((pa.decimal128(15, 0), [-102766802438481], pa.decimal128(38, 25)))
def test_decimals_keep_each_digit_or_are_refused(drawn: tuple[Any, list[int | None], Any]) -> None:
    """A decimal in another type is the same number, or the cast says that it has no room for it."""
    source, numbers, target = drawn
    wanted: list[int | None] | None = []
    for number in numbers:
        scaled = None if number is None else Decimal(0)
        if number is not None:
            whole, lost = divmod(number * 10**target.scale, 10**source.scale)
            scaled = None if lost or abs(whole) >= 10**target.precision else Decimal(whole)
            if scaled is None:
                wanted = None
                break
        assert wanted is not None
        wanted.append(None if scaled is None else whole)
    try:
        found: list[int | None] | None = unscaled(cast_decimals(decimal_array(source, numbers), target))
    except pa.ArrowInvalid:
        found = None
    assert found == wanted


WHOLE = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())


def bounds(kind: Any) -> tuple[int, int]:
    bits, signed = kind.bit_width, pa.types.is_signed_integer(kind)
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


@given(st.sampled_from(WHOLE), st.sampled_from(WHOLE), st.data())
def test_whole_numbers_are_checked(source: Any, target: Any, data: st.DataObject) -> None:
    """A whole number in a type of fewer bits, or without a sign, is the same number or refused."""
    low, high = bounds(source)
    number = data.draw(st.integers(low, high) | st.sampled_from([low, high, 0]))
    least, most = bounds(target)
    assert cast_or_none(pa.array([number], source), target) == (number if least <= number <= most else None)


@given(st.sampled_from(WHOLE), st.data())
def test_whole_numbers_have_room_in_the_decimal_that_is_meant_for_them(source: Any, data: st.DataObject) -> None:
    """Every whole number of up to 64 bits is the same decimal of twenty digits, and one of 64 bits with a sign the same
    in the type that numbers with a unit are parsed to."""
    low, high = bounds(source)
    number = data.draw(st.integers(low, high) | st.sampled_from([low, high]))
    assert pa.array([number], source).cast(pa.decimal256(20, 0))[0].as_py() == number
    if pa.types.is_signed_integer(source):
        assert pa.array([number], source).cast(pa.decimal128(29, 9))[0].as_py() == number


@given(decimal_types(), st.sampled_from((pa.int32(), pa.int64())), st.data())
def test_decimals_become_whole_numbers_or_are_refused(source: Any, target: Any, data: st.DataObject) -> None:
    """A decimal is the same whole number, or refused for its fraction or its size."""
    limit = 10**source.precision - 1
    number = data.draw(st.integers(-limit, limit) | st.sampled_from([1 << 63, -(1 << 63), (1 << 63) - 1, 1 << 31]))
    number = max(-limit, min(limit, number))
    whole, lost = divmod(number, 10**source.scale)
    least, most = bounds(target)
    found = cast_or_none(decimal_array(source, [number]), target)
    assert found == (whole if not lost and least <= whole <= most else None)


@given(st.floats(width=64), st.sampled_from((pa.int32(), pa.int64())))
@example(2.0**63, pa.int64())
@example(-(2.0**63), pa.int64())
@example(2.0**31, pa.int32())
def test_doubles_become_whole_numbers_or_are_refused(number: float, target: Any) -> None:
    """A double is the same whole number, or refused."""
    least, most = bounds(target)
    is_whole = number == number and abs(number) != float("inf") and number == int(number)
    wanted = int(number) if is_whole and least <= int(number) <= most else None
    assert cast_or_none(pa.array([number], pa.float64()), target) == wanted


PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@given(
    st.sampled_from(list(PER_SECOND)),
    st.sampled_from(list(PER_SECOND)),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.booleans(),
)
def test_moments_of_another_unit_are_checked(source: str, target: str, count: int, zoned: bool) -> None:
    """A moment counted in another unit is the same moment, or refused: for its size, or for what it would lose."""
    zone = "UTC" if zoned else None
    found = cast_or_none(
        pa.array([count], pa.int64()).cast(pa.timestamp(source, zone)), pa.timestamp(target, zone), pa.int64()
    )
    exact, lost = divmod(count * PER_SECOND[target], PER_SECOND[source])
    assert found == (exact if not lost and -(1 << 63) <= exact < 1 << 63 else None)


@given(st.sampled_from(("us", "ns")), st.sampled_from(("us", "ns")), st.integers(0, 86_400 * 10**9 - 1))
def test_times_of_another_unit_are_checked(source: str, target: str, count: int) -> None:
    """A time of day counted in another unit is the same time, or refused."""
    count //= 10**9 // PER_SECOND[source]
    found = cast_or_none(pa.array([count], pa.int64()).cast(pa.time64(source)), pa.time64(target), pa.int64())
    exact, lost = divmod(count * PER_SECOND[target], PER_SECOND[source])
    assert found == (None if lost else exact)


COUNTED = (
    pa.date32(),
    pa.time64("us"),
    pa.time64("ns"),
    *(pa.timestamp(unit, zone) for unit in PER_SECOND for zone in (None, "UTC")),
)


@pytest.mark.parametrize("kind", COUNTED, ids=str)
@given(st.data())
def test_dates_and_moments_are_their_counts(kind: Any, data: st.DataObject) -> None:
    """The whole number that a date or moment is kept as goes there and back unchanged."""
    whole = pa.int32() if kind.bit_width == 32 else pa.int64()
    number = data.draw(st.integers(*bounds(whole)))
    assert pa.array([number], whole).cast(kind).cast(whole).to_pylist() == [number]


PROMOTIONS: tuple[tuple[Any, Any, Callable[[int], Any]], ...] = (
    (pa.int32(), pa.int64(), int),
    (pa.float32(), pa.float64(), float),
    (pa.decimal128(9, 2), pa.decimal128(38, 2), lambda number: Decimal(number).scaleb(-2)),
)


@pytest.mark.parametrize(("source", "target", "made"), PROMOTIONS, ids=["int", "float", "decimal"])
@given(st.integers(-(10**7), 10**7))
def test_what_iceberg_promotes_is_the_same_value(
    source: Any, target: Any, made: Callable[[int], Any], number: int
) -> None:
    """The type that a column is promoted to holds every value of the type before."""
    values = pa.array([made(number)], source)
    assert values.cast(target).to_pylist() == values.to_pylist()


def cast_or_none(values: pa.Array, target: Any, read_as: Any = None) -> Any:
    try:
        found = values.cast(target)
    except pa.ArrowInvalid:
        return None
    return (found if read_as is None else found.cast(read_as))[0].as_py()
