"""The generators of streams find what they are there for: with a part of the code taken out, they report what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from framework.config.filled import build
from framework.config.names.column_names import NameFault, SiblingNames
from framework.record.blocks import explode, parse_texts, placeholders
from framework.record.convert.times import TemporalConverter
from framework.record.fit import table_shape
from framework.record.formats import envelope_paths
from framework.record.json import member_spans
from framework.record.rows.dictionary_text import plain_table
from framework.record.state import block_state
from framework.record.strict_json import NumberText
from tests.fuzz.documents import Writer
from tests.fuzz.report import Report
from tests.fuzz.streams import landed
from tests.fuzz.streams.envelopes import check_enveloped
from tests.fuzz.streams.landed import SparkReader
from tests.fuzz.streams.names import check_names
from tests.fuzz.streams.wrapped import check_wrapped
from tests.fuzz.ways import check_block

Patch = pytest.MonkeyPatch
SEEDS = 600


def documents(seed: int) -> Report:
    return check_block(Writer(seed).block(40), seed)


def enveloped(seed: int) -> Report:
    return check_enveloped(seed, 30)


def wrapped(seed: int) -> Report:
    return check_wrapped(seed, 40)


def named(seed: int) -> Report:
    return check_names(seed, 30)


def no_time_is_infinite(patch: Patch) -> None:
    own = TemporalConverter._is_infinite

    def in_words(self: TemporalConverter, value: Any) -> bool:
        return not isinstance(value, NumberText) and own(self, value)

    patch.setattr(TemporalConverter, "_is_infinite", in_words)


def envelopes_of_older_changes(patch: Patch) -> None:
    patch.setattr(block_state, "envelope_columns", lambda form: frozenset())


def rows_without_fields_are_none(patch: Patch) -> None:
    own = envelope_paths.object_at
    patch.setattr(envelope_paths, "object_at", lambda text, place: own(text, place) or None)


def a_word_means_another_one(patch: Patch) -> None:
    own = envelope_paths._letters
    patch.setattr(envelope_paths, "_letters", lambda paths: dict.fromkeys(own(paths), "u"))


def nothing_is_kept(patch: Patch) -> None:
    patch.setattr(block_state, "kept_ids", lambda *given: ())


def placeholders_are_values(patch: Patch) -> None:
    patch.setattr(placeholders, "_is_placeholder_text", lambda text: False)


def the_last_element_is_lost(patch: Patch) -> None:
    own = explode.element_texts
    patch.setattr(explode, "element_texts", lambda data, path: own(data, path)[:3])


def long_numbers_are_no_json(patch: Patch) -> None:
    patch.setattr(member_spans, "_skip", json.JSONDecoder().scan_once)  # type: ignore[attr-defined]


def texts_stay_texts(patch: Patch) -> None:
    patch.setattr(parse_texts, "value_end", lambda text, start: None)


def quotes_stay(patch: Patch) -> None:
    patch.setattr(build, "unquoted", lambda path: path)


def a_column_loses_its_name_to_its_partition(patch: Patch) -> None:
    def fault(self: SiblingNames, name: str) -> NameFault | None:
        if name in self._own and any(f"{each}{name}" in self.partition_fields for each in self.prefixes):
            return NameFault.PARTITION
        return own(self, name)

    own = SiblingNames.fault
    patch.setattr(SiblingNames, "fault", fault)


MUTATIONS: dict[Callable[[Patch], None], Callable[[int], Report]] = {
    no_time_is_infinite: documents,
    envelopes_of_older_changes: enveloped,
    rows_without_fields_are_none: enveloped,
    a_word_means_another_one: enveloped,
    nothing_is_kept: enveloped,
    placeholders_are_values: enveloped,
    the_last_element_is_lost: wrapped,
    long_numbers_are_no_json: wrapped,
    texts_stay_texts: wrapped,
    quotes_stay: named,
    a_column_loses_its_name_to_its_partition: named,
}


@pytest.fixture(autouse=True)
def forgetful() -> Iterator[None]:
    """What was made of shapes with other code is not remembered."""
    table_shape._shape.cache_clear()
    yield
    table_shape._shape.cache_clear()


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.__name__)
def test_the_fuzzer_of_streams_finds_it(mutation: Callable[[Patch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has streams that show it, among those that the fuzzer draws anyway."""
    mutation(monkeypatch)
    check = MUTATIONS[mutation]
    assert any(not check(seed).is_clean for seed in range(SEEDS))


@pytest.mark.parametrize("check", [enveloped, wrapped, named])
def test_streams_are_what_the_oracle_says(check: Callable[[int], Report]) -> None:
    """With none of the code taken out."""
    assert [fault for seed in range(12) for fault in check(seed).faults] == []


@pytest.mark.spark
@pytest.mark.iceberg
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_spark_reads_what_lands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of each family, appended and upserted; a row that is not the oracle's is found."""
    with SparkReader(tmp_path) as spark:
        read = Report()
        for check in (documents, enveloped, wrapped, named):
            for seed in range(100, 112):
                read.add(spark.check(check(seed), seed))
        assert read.faults == []
        assert read.read_back.total() >= 12
        assert any("upserted" in family for family in read.read_back)
        block = next(block for seed in range(100) if (block := named(seed)).landed)
        own = landed._rows
        monkeypatch.setattr(landed, "_rows", lambda rows, fields: own(plain_table(rows).slice(1), fields))
        lost = replace(block, landed=block.landed[:1], streams=[])
        assert spark.check(lost, 0).wrong == 1
