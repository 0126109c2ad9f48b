"""The generators find tables that nobody could read: with each part of the mend taken out, and with none of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from framework.config.names import column_names
from framework.config.names.column_names import NameFault, SiblingNames
from framework.record.fit import table_shape
from framework.table import evolve, readable
from tests.fuzz.documents import Writer
from tests.fuzz.evolve import check_evolve
from tests.fuzz.report import Report
from tests.fuzz.ways import check_block

SEEDS = range(90_000, 90_120)
Mutation = Callable[[pytest.MonkeyPatch], None]


def evolved() -> Report:
    """What becomes of records beside the columns and the partitions of their tables."""
    report = Report()
    for seed in SEEDS:
        report.add(check_evolve(seed, 40))
        if not report.is_clean:
            break
    return report


def read() -> Report:
    """What becomes of records in tables whose columns are called otherwise than their fields."""
    report = Report()
    for seed in SEEDS:
        report.add(check_block(Writer(seed).block(40), seed))
        if not report.is_clean:
            break
    return report


def _without(*faults: NameFault) -> Mutation:
    real = SiblingNames.fault

    def mutate(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(
            SiblingNames, "fault", lambda self, name: None if real(self, name) in faults else real(self, name)
        )

    return mutate


def _no_partitions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(evolve, "partition_fields", lambda target: frozenset())
    patch.setattr(table_shape, "partition_fields", lambda target: frozenset())


def _no_old_specs(patch: pytest.MonkeyPatch) -> None:
    for module in (evolve, table_shape):
        real = module.partition_fields
        patch.setattr(
            module, "partition_fields", lambda target, real=real: real(table_shape.replace(target, other_specs_json=()))
        )


EVOLUTION: dict[str, Mutation] = {
    "a column gets the name of a partition field": _no_partitions,
    "old specs do not count": _no_old_specs,
    "a column gets a name that is kept": _without(NameFault.RESERVED),
    "floe keeps no names": lambda patch: patch.setattr(
        column_names, "_OWNERS", dict.fromkeys(column_names.RESERVED_BY_ICEBERG, "Iceberg")
    ),
    "names are kept in one case": lambda patch: patch.setattr(
        column_names, "owner_of", lambda name: column_names._OWNERS.get(name, "")
    ),
    "a column has no name": _without(NameFault.EMPTY),
    "two columns have one name in files": _without(NameFault.TWIN),
    "nothing is renamed": lambda patch: patch.setattr(table_shape, "renames", lambda policy: False),
}


def test_no_record_makes_a_table_that_cannot_be_read() -> None:
    """As the model says that takes one record after the other; values are found again under their columns' names."""
    assert evolved().faults == []
    assert read().faults == []


@pytest.mark.parametrize("mutation", EVOLUTION)
def test_the_generator_of_evolution_finds_it(mutation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a part of the mend is taken out."""
    EVOLUTION[mutation](monkeypatch)
    assert not evolved().is_clean


def test_the_generator_of_documents_finds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where values of a field are not found under its column's name."""
    table_shape._shape.cache_clear()
    monkeypatch.setattr(table_shape, "other_spellings", lambda *given: {})
    try:
        assert not read().is_clean
    finally:
        table_shape._shape.cache_clear()


def test_the_last_look_finds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where naming lets a column through that Java refuses, the change is refused as a whole."""
    _no_partitions(monkeypatch)
    seen: list[str] = []
    real = readable.new_faults
    monkeypatch.setattr(
        evolve, "new_faults", lambda wanted, before: seen.extend(map(str, found := real(wanted, before))) or found
    )
    evolved()
    assert any("a partition field of the table has this name" in each for each in seen)
