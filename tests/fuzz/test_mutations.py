"""The fuzzer finds what it is there for: with a mend taken out, it reports wrong values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from framework.record.convert import iso_time, numbers, times
from framework.record.convert.times import TimestampConverter
from framework.record.fit import table_shape as shapes
from framework.record.fit import typed_columns
from framework.record.formats import columns
from framework.record.json import arrow_screen
from tests.fuzz.documents import Writer
from tests.fuzz.report import Report
from tests.fuzz.streams.connect import check_connect
from tests.fuzz.typed import check_typed
from tests.fuzz.ways import check_block

SEEDS = 3_000
# One block in 2,000 shows these, so the search begins where one is near.
FIRST_SEED = {"dates_as_counts_in_columns": 3_900, "any_weekday": 4_900}


def documents(seed: int) -> Report:
    return check_block(Writer(seed).block(60), seed)


def typed(seed: int) -> Report:
    report = check_typed("avro", seed, 40)
    report.add(check_typed("protobuf", seed, 40))
    return report


def connect(seed: int) -> Report:
    return check_connect(seed, 40)


def wrapping(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(typed_columns, "cast_decimals", lambda values, target: values.cast(target))


def one_digit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(iso_time, "_TOUCHING", {})


def any_weekday(patch: pytest.MonkeyPatch) -> None:
    for letter, digits in (("a", "{3}"), ("A", "{6,9}")):
        patch.setitem(iso_time._DIRECTIVES, letter, f"[A-Za-z]{digits}")


def codes_as_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(times, "plain_number", lambda text: numbers.exact_number(text) is not None)


def dates_as_counts(patch: pytest.MonkeyPatch) -> None:
    def of_text(self: TimestampConverter, text: str, path: str) -> int:
        if self.unit is not None and self.reads_text and numbers.plain_number(text):
            return self._unit_nanoseconds(times.NumberText(text), path)
        return own(self, text, path)

    own = TimestampConverter._from_text
    patch.setattr(TimestampConverter, "_from_text", of_text)


def dates_as_counts_in_columns(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(arrow_screen, "_is_count", lambda kind: False)


def rounded_before(patch: pytest.MonkeyPatch) -> None:
    def nearest(text: str) -> float:
        found = own(text)
        double = float(text)
        if abs(double) == numbers._MIDDLE_BEYOND_FLOAT32:
            beyond = abs(Decimal(text)) >= Decimal(numbers._MIDDLE_BEYOND_FLOAT32)
            return float(np.copysign(np.inf, double)) if beyond else found
        return found

    own = numbers.nearest_float32
    patch.setattr(numbers, "nearest_float32", nearest)


def no_counts_but_whole(patch: pytest.MonkeyPatch) -> None:
    def counts(values: pa.Array, converter: Any) -> pa.Array:
        return converter.array(values.cast(pa.int64()).cast(times.number_parse_type()))

    patch.setattr(typed_columns, "_counts", counts)


def no_zeros(patch: pytest.MonkeyPatch) -> None:
    own = columns.zeros_column
    patch.setattr("framework.record.formats.connect_types.zeros_column", lambda scale: own(-1))


MUTATIONS: dict[Callable[[pytest.MonkeyPatch], None], Callable[[int], Report]] = {
    wrapping: typed,
    one_digit: documents,
    any_weekday: documents,
    codes_as_counts: documents,
    dates_as_counts: documents,
    dates_as_counts_in_columns: documents,
    rounded_before: documents,
    no_counts_but_whole: typed,
    no_zeros: connect,
}


@pytest.fixture(autouse=True)
def forgetful() -> Iterator[None]:
    """What was made of formats and shapes with other code is not remembered."""
    for made in (iso_time._compiled, shapes._shape):
        made.cache_clear()
    yield
    for made in (iso_time._compiled, shapes._shape):
        made.cache_clear()


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.__name__)
def test_the_fuzzer_finds_it(mutation: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each mend has records that show it, among those that the fuzzer draws anyway."""
    mutation(monkeypatch)
    check = MUTATIONS[mutation]
    first = FIRST_SEED.get(mutation.__name__, 0)
    assert any(not check(seed).is_clean for seed in range(first, first + SEEDS))
