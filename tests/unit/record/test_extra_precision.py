"""Times with more digits than their column holds, and PostgreSQL's infinities: an error unless the file says what they
are."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.config.spec import ExtraPrecision, FieldHint, InfiniteTimes
from framework.record.process import process_transformed
from testbed.record_samples import alone, block, plan, processed, target

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def landed(values: list[object], kind: str, required: bool = False, **words: Any) -> list[Any]:
    """Of each value what lands, or the code of its dead letter, the same by all ways. Bytes are JSON as it stands."""
    made = plan(hints=[FieldHint("at", kind, **words)])
    columns: dict[str, Any] = {"n": "long", "at": kind}
    tables = {"ns.t": target(columns=columns, required=["at"] if required else [])}
    texts = [value if isinstance(value, bytes) else json.dumps(value).encode() for value in values]
    records = block([b'{"n": %d, "at": %s}' % (n, text) for n, text in enumerate(texts)])
    results = [way(records, made, tables) for way in (processed, alone)]
    found = []
    for result in results:
        assert not result.needs
        rows = result.rows["ns.t"].to_pylist() if "ns.t" in result.rows else []
        by_offset: dict[int, Any] = {row["n"]: row["at"] for row in rows}
        by_offset |= {letter.offset: letter.code for letter in result.dead_letters}
        assert all(letter.field_path == "at" for letter in result.dead_letters)
        found.append([by_offset[n] for n in range(len(values))])
    assert found[0] == found[1]
    return found[0]


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


CUT = {"on_extra_precision": ExtraPrecision.TRUNCATE}


def test_digits_beyond_the_column_are_an_error_unless_they_are_cut_off() -> None:
    """Seven digits of SQL Server's `datetimeoffset`, nine of nanoseconds, and more; before 1970 as well."""
    texts: list[object] = [
        "2024-01-02 03:04:05.1234567 +02:00",
        "2024-01-02T03:04:05.123456789Z",
        "1969-12-31T23:59:59.999999999Z",
        "2024-01-02T03:04:05.1234560Z",
        "2024-01-02T03:04:05,123456789123Z",
        "2024-01-02T03:04:05.5Z",
    ]
    wanted = [
        at("2024-01-02T01:04:05.123456+00:00"),
        at("2024-01-02T03:04:05.123456+00:00"),
        at("1969-12-31T23:59:59.999999+00:00"),
        at("2024-01-02T03:04:05.123456+00:00"),
        at("2024-01-02T03:04:05.123456+00:00"),
        at("2024-01-02T03:04:05.5+00:00"),
    ]
    assert landed(texts, "timestamptz", **CUT) == wanted
    assert landed(texts, "timestamptz") == [*["FLOE-D303"] * 3, wanted[3], "FLOE-D304", wanted[5]]


def test_a_count_of_more_digits_than_arrow_expects_is_no_other_moment() -> None:
    """21 digits before the point beside others, as found by the fuzzer: rounded in columns it was 0, so 1970."""
    counts: list[object] = [b"112987470939000000000.000001", b"1754763564000000000.5"]
    wanted = [datetime(5550, 6, 7, 8, 35, 39), datetime(2025, 8, 9, 18, 19, 24)]
    assert landed(counts, "timestamp", unit="ns", **CUT) == wanted


def test_a_count_as_text_is_cut_off_once_it_is_a_time() -> None:
    """Of days, the digits behind the ninth are nanoseconds: as found by the fuzzer."""
    counts: list[object] = ["0.99999999999999999999", b"0.99999999999999999999"]
    assert landed(counts, "timestamp", unit="d", **CUT) == [datetime(1970, 1, 1, 23, 59, 59, 999999)] * 2


def test_midnight_at_the_end_of_a_day_is_the_next_day() -> None:
    """24:00 in a column of days, before 1970 and at the end of a year as well: as found by the fuzzer."""
    texts: list[object] = [
        "2000-02-29T24:00:00",
        "1969-12-31 24:00",
        "2023-12-31T24:00:00+02:00",
        "2000-02-29T23:59:59",
    ]
    wanted = [date(2000, 3, 1), date(1970, 1, 1), date(2024, 1, 1), date(2000, 2, 29)]
    assert landed(texts, "date", **CUT) == wanted
    assert landed(["9999-12-31T24:00:00"], "date", **CUT) == ["FLOE-D302"]


def test_a_declared_format_is_cut_off_as_well() -> None:
    """Also of texts that Arrow does not read."""
    words = {"format": "%d.%m.%Y %H:%M:%S.%f", "zone": "Europe/Berlin", **CUT}
    texts: list[object] = ["02.01.2024 03:04:05.123456789", "02.01.2024 03:04:05.1"]
    assert landed(texts, "timestamptz", **words) == [
        at("2024-01-02T02:04:05.123456+00:00"),
        at("2024-01-02T02:04:05.1+00:00"),
    ]


@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_counts_are_cut_off_towards_the_past(unit: str, data: st.DataObject) -> None:
    """A count of any unit, whole or with a fraction, is the last microsecond that is not behind it."""
    nanoseconds = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}[unit]
    counts = data.draw(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=6))
    values: list[object] = []
    for count in counts:
        whole, rest = divmod(count // 4, nanoseconds)
        digits = len(str(nanoseconds)) - 1
        values.append(str(whole).encode() if unit == "ns" else _number(whole, rest, digits))
    wanted = [EPOCH + timedelta(microseconds=count // 4 // 1_000) for count in counts]
    assert landed(values, "timestamptz", unit=unit, **CUT) == wanted


def _number(whole: int, rest: int, digits: int) -> bytes:
    sign, size = ("-", -whole * 10**digits - rest) if whole < 0 else ("", whole * 10**digits + rest)
    return f"{sign}{size // 10**digits}.{size % 10**digits:0{digits}d}".encode()


def test_no_digit_of_a_long_number_is_rounded() -> None:
    """Cut off is cut off, however many nines there are, and however small a number below zero is."""
    values: list[object] = [b"0." + b"9" * 60, b"-0." + b"0" * 60 + b"1", b"1e-999999999", b"-1e-999999999", b"-0.0"]
    before = EPOCH - timedelta(microseconds=1)
    assert landed(values, "timestamptz", unit="s", **CUT) == [
        EPOCH + timedelta(microseconds=999_999),
        before,
        EPOCH,
        before,
        EPOCH,
    ]


def test_dates_and_times_of_day_are_cut_off() -> None:
    """A date has no time of day, a time no nanoseconds; what is no date stays an error."""
    assert landed(["2024-01-02T23:59:59Z", "2024-01-02", "2024-01-02Tx"], "date", **CUT) == [
        date(2024, 1, 2),
        date(2024, 1, 2),
        "FLOE-D304",
    ]
    assert landed([-1, 86_400_001], "date", unit="ms", **CUT) == [date(1969, 12, 31), date(1970, 1, 2)]
    assert landed(["03:04:05.1234567", "24:00:01.1"], "time", **CUT) == [time(3, 4, 5, 123_456), "FLOE-D304"]
    assert landed([1_999, 86_400_000_000_000, -1], "time", unit="ns", **CUT) == [
        time(0, 0, 0, 1),
        "FLOE-D302",
        "FLOE-D302",
    ]


INFINITE = ["infinity", "-infinity", "Infinity", "+294247-01-10T04:00:25.200Z", "-290308-12-21T19:59:27.600000Z"]


@pytest.mark.parametrize("kind", ["timestamptz", "timestamp", "date"])
def test_infinity_is_an_error_or_null(kind: str) -> None:
    """As PostgreSQL and Debezium write it; where null is forbidden it stays an error."""
    values: list[object] = [*INFINITE, "infinite"]
    null = {"infinity": InfiniteTimes.NULL, **({"zone": "UTC"} if kind == "timestamptz" else {})}
    assert landed(values, kind, **null) == [*[None] * len(INFINITE), "FLOE-D304"]
    assert landed(values, kind) == ["FLOE-D304"] * len(values)
    assert landed(values, kind, required=True, **null) == ["FLOE-D304"] * len(values)


@pytest.mark.parametrize("unit", ["us", "ms"])
def test_debeziums_counts_of_infinity_are_known(unit: str) -> None:
    """They are numbers of no moment, however their digits are written, as text too; those beside them stay errors."""
    by = {"us": 1, "ms": 1_000}[unit]
    most, least = 9_223_372_036_825_200_000 // by, -9_223_372_036_832_400_000 // by
    infinite: list[object] = [most, least, b"%d.0" % most, b"%de2" % (least // 100), str(most), f"{least}.00"]
    words = {"unit": unit, "infinity": InfiniteTimes.NULL}
    assert landed([*infinite, 0, most - 1], "timestamptz", **words) == [*[None] * 6, EPOCH, "FLOE-D302"]


def test_typed_times_are_cut_off_and_may_be_infinite() -> None:
    """Those of Avro, protobuf and Connect, whose schemas say nanoseconds or microseconds."""
    made = plan(hints=[FieldHint("at", "timestamptz", on_extra_precision=ExtraPrecision.TRUNCATE)])
    tables = {"ns.t": target(columns={"n": "long", "at": "timestamptz"})}
    records = block([{}, {}, {}])

    def given(values: pa.Array) -> list[Any]:
        rows = pa.table({"n": [0, 1, 2], "at": values, "__floe": pa.array([0, 1, 2], pa.int32())})
        result = process_transformed(records, rows, made, tables)
        found = {row["n"]: row["at"] for row in result.rows["ns.t"].to_pylist()}
        return [found.get(n) for n in range(3)]

    nanoseconds = pa.array([-1, 1_999, None], pa.timestamp("ns", "UTC"))
    assert given(nanoseconds) == [EPOCH - timedelta(microseconds=1), EPOCH + timedelta(microseconds=1), None]
    made = plan(hints=[FieldHint("at", "timestamptz", infinity=InfiniteTimes.NULL)])
    infinite = pa.array([9_223_372_036_825_200_000, -9_223_372_036_832_400_000, 1], pa.int64())
    assert given(infinite.cast(pa.timestamp("us", "UTC"))) == [None, None, EPOCH + timedelta(microseconds=1)]
