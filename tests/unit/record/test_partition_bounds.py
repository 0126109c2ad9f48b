"""Values of which no partition can be made are dead letters; all others have one."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Context, Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.conversions import to_bytes
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import BucketTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import DecimalType, NestedField, StructType

from framework.config.spec import RouteRule
from framework.record.model import TableTarget
from framework.record.process import process_block
from framework.record.state.partition_bounds import least_values
from testbed.record_samples import block, plan, target


def truncated(columns: dict[str, object], width: int, source: int = 1, name: str = "ns.t") -> TableTarget:
    """A table partitioned by a truncated decimal."""
    spec = PartitionSpec(PartitionField(source, 1000, TruncateTransform(width), "part"))
    return replace(target(name, columns), spec_json=spec.model_dump_json())


@given(st.integers(1, 38).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p), st.integers(1, 10**min(p, 9)),
                                                      st.integers(-(10**p - 1), 10**p - 1))))  # fmt: skip
def test_a_value_has_a_partition_if_iceberg_can_write_it(found: tuple[int, int, int, int]) -> None:
    """What is refused is what PyIceberg cannot serialize, of decimals of any size and partitions of any width."""
    precision, scale, width, unscaled = found
    for number in {unscaled, -(10**precision - 1), -((10**precision - 1) // width) * width}:
        kind = DecimalType(precision, scale)
        value = Decimal(number).scaleb(-scale, Context(prec=76))
        part = TruncateTransform(width).transform(kind)(value)
        assert part is not None
        try:
            to_bytes(kind, part)
            fits = True
        except (ValueError, OverflowError):
            fits = False
        (bound,) = least_values(truncated({"amount": kind}, width))
        rows = pa.table({"amount": pa.array([None, value], pa.decimal128(precision, scale))})
        below = bound.below(rows)
        assert (below is None) == fits
        assert below is None or below[0].tolist() == [False, True]


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("alike", [False, True])
def test_it_is_a_dead_letter_among_rows(nested: bool, alike: bool) -> None:
    """The record alone, with a reason; in a struct too, and where several tables have like rows."""
    kind: object = DecimalType(5, 2)
    if nested:
        kind = StructType(NestedField(2, "net", kind, required=False))
    names = ["ns.t_a", "ns.t_b"] if alike else ["ns.t_a"]
    targets = {name: truncated({"amount": kind, "k": "string"}, 50, 2 if nested else 1, name) for name in names}
    values = ["-999.99", "-999.50", "999.99", "-999.51", None]
    records = [
        {"amount": {"net": value} if nested else value, "k": name[-1]} for value in values for name in sorted(names)
    ]
    made = plan([RouteRule("ns.t_{k}")])
    result = process_block(block(records), made, targets, encode=True, scatter=True)
    assert not result.needs
    bad = [
        at for at, record in enumerate(records) if "-999.99" in json.dumps(record) or "-999.51" in json.dumps(record)
    ]
    assert [letter.offset for letter in result.dead_letters] == bad
    assert {letter.code for letter in result.dead_letters} == {"FLOE-D302"}
    path = "amount.net" if nested else "amount"
    assert result.dead_letters[0].message == (
        f"{path}: '-999.99' has no partition: truncate[50] of it has more digits than decimal(5, 2)"
    )
    assert result.written == len(records) - len(bad)


@given(st.sampled_from([("int", 32), ("long", 64)]), st.integers(1, 10**9), st.integers(0, 2**63 - 1))
def test_a_whole_number_has_a_partition_below_which_it_is_not(kind: tuple[str, int], width: int, above: int) -> None:
    """What is refused is what wraps around: its partition would be above it, where no reader looks for it."""
    name, bits = kind
    lowest = -(1 << bits - 1)
    (bound,) = least_values(truncated({"n": name}, width))
    for number in {lowest, lowest + 1, lowest + width - 1, lowest + above % (1 << bits), -(-lowest // width) * width}:
        part = number - number % width
        arrow = pa.int32() if bits == 32 else pa.int64()
        below = bound.below(pa.table({"n": pa.array([None, number], arrow)}))
        assert (below is not None) == (part < lowest)
        assert below is None or below[0].tolist() == [False, True]


def test_the_least_long_is_a_dead_letter_among_rows() -> None:
    """The record alone; the least number that has a partition is a row."""
    table = truncated({"n": "long"}, 10)
    values = [{"n": -(2**63)}, {"n": -(2**63) + 8}, {"n": 5}, {"n": -(2**63) + 7}]
    result = process_block(block(values), plan(), {"ns.t": table})
    assert [(letter.offset, letter.code) for letter in result.dead_letters] == [(0, "FLOE-D302"), (3, "FLOE-D302")]
    assert result.dead_letters[0].message == (
        "n: '-9223372036854775808' has no partition: truncate[10] of it is below the least long"
    )
    assert [row["n"] for row in result.rows["ns.t"].to_pylist()] == [-(2**63) + 8, 5]


def test_tables_without_such_partitions_are_not_looked_at() -> None:
    """Other transforms, and truncated text, have a partition for every value."""
    kinds: list[tuple[object, object]] = [
        (DecimalType(5, 2), IdentityTransform()), ("long", BucketTransform(5)), ("string", TruncateTransform(1)),
    ]  # fmt: skip
    for kind, transform in kinds:
        spec = PartitionSpec(PartitionField(1, 1000, transform, "part"))
        assert least_values(replace(target("ns.t", {"c": kind}), spec_json=spec.model_dump_json())) == ()
