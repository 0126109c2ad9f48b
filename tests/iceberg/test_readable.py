"""What floe takes for readable, Iceberg's Java library reads: any definition, floe's rules with one of them taken out, and
what only a real manifest shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import FixedType, ListType, LongType, NestedField, StructType, TimestampNanoType

from framework.config.names import column_names
from framework.config.names.column_names import RESERVED_BY_ICEBERG, NameFault, SiblingNames
from framework.config.spec import PartitionFieldSpec
from framework.errors import TableBlocked
from framework.table import readable
from framework.table.partitions import specs
from framework.table.readable import Fault, TableDefinition, faults
from framework.table.schema.arrow import parse_schema
from testbed.servers.spark_reader import java_read
from tests.fuzz.definitions import FAMILIES, definition, metadata_json
from tests.fuzz.evolve import evolved_table
from tests.iceberg.conftest import Lake
from tests.iceberg.java_definitions import JavaDefinitions

pytestmark = [pytest.mark.iceberg, pytest.mark.spark]

COUNT, EVOLVED = 1500, 400
# Of what the library itself refuses later, or other libraries do.
STRICTER = ("in manifests", "of it, which does not take struct", "of it, which does not take list", "not take map")


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaDefinitions]:
    process = JavaDefinitions(tmp_path_factory.mktemp("java"))
    yield process
    process.stop()


@pytest.fixture(scope="module")
def verdicts(java: JavaDefinitions) -> dict[int, str]:
    """What the library has against the definition of each seed; "" for nothing."""
    return {seed: java.ask(metadata_json(drawn(seed))) for seed in range(COUNT)}


@cache
def drawn(seed: int) -> TableDefinition:
    return definition(seed)


def disagreements(verdicts: dict[int, str], judge: Callable[[TableDefinition], tuple[Fault, ...]]) -> Iterator[str]:
    for seed, said in verdicts.items():
        found = judge(drawn(seed))
        if said and not found:
            yield f"{seed}: Java says {said}: {drawn(seed)}"
        elif not said and not all(any(word in fault.why for word in STRICTER) for fault in found):
            yield f"{seed}: only floe says {found}: {drawn(seed)}"


def test_java_refuses_what_floe_refuses_and_nothing_else(verdicts: dict[int, str]) -> None:
    """Of any definition: names of every family, specs that are and that were, orders and identifiers."""
    assert list(disagreements(verdicts, faults)) == []
    refused = [seed for seed, said in verdicts.items() if said]
    assert len(refused) > COUNT / 4
    assert len(refused) < 3 * COUNT / 4
    for family in FAMILIES.values():
        assert any(name in str(drawn(seed)) for seed in range(COUNT) for name in family if name)


def test_the_names_that_iceberg_keeps_are_those_of_its_library(java: JavaDefinitions) -> None:
    """All metadata columns, but for those of delete files, which never stand beside a table's."""
    assert set(java.metadata_columns()) - {"file_path", "pos"} == set(RESERVED_BY_ICEBERG)


def test_no_record_makes_a_definition_that_java_refuses(java: JavaDefinitions) -> None:
    """Tables that records made and changed, under all words of `evolve`, beside specs that are and that were."""
    for seed in range(EVOLVED):
        table = evolved_table(seed)
        now, *before = specs(table)
        assert java.ask(metadata_json(TableDefinition(parse_schema(table.schema_json), (now, *before)))) == "", seed


def _without(fault: NameFault) -> Callable[[pytest.MonkeyPatch], None]:
    real = SiblingNames.fault

    def mutate(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(SiblingNames, "fault", lambda self, name: None if real(self, name) is fault else real(self, name))

    return mutate


def _only_current(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(readable, "_specs_of", lambda definition: definition.specs[:1])


MUTATIONS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    **{
        f"names may be {fault.value}": _without(fault)
        for fault in (NameFault.RESERVED, NameFault.EMPTY, NameFault.TWIN)
    },
    "a column may have a partition field's name": lambda patch: patch.setattr(readable, "_taken_by", lambda *_: None),
    "old specs do not count": _only_current,
    "digits are letters": lambda patch: patch.setattr(column_names, "_of_java", lambda unit, first: unit),
    "identifiers may be anything": lambda patch: patch.setattr(readable, "_identifiers", lambda *_: ()),
    "any transform takes any type": lambda patch: patch.setattr(readable, "_takes", lambda *_: True),
    "any order will do": lambda patch: patch.setattr(readable, "_order", lambda *_: ()),
    "partition fields may be twins": lambda patch: patch.setattr(readable, "_own_name", lambda *_: True),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_each_rule_is_missed(verdicts: dict[int, str], mutation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one of the rules the same definitions show a table that floe would make and Java could not read."""
    MUTATIONS[mutation](monkeypatch)
    column_names.file_names.cache_clear()
    try:
        found = list(disagreements(verdicts, faults))
    finally:
        monkeypatch.undo()
        column_names.file_names.cache_clear()
    assert any("Java says" in each for each in found)


HASHED = Schema(
    NestedField(1, "hash", FixedType(4), required=False),
    NestedField(2, "id", LongType(), required=False),
    NestedField(3, "other", FixedType(4), required=False),
)


def test_partitions_of_fixed_bytes_are_refused_since_java_cannot_read_them(lake: Lake) -> None:
    """The library takes the first byte of such a value for its length, so nobody can scan the table. A bucket of it is a
    number, and two of them are two."""
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "hash"))
    (fault,) = faults(TableDefinition(HASHED, (spec,)))
    assert "cannot read fixed[4] in manifests" in fault.why
    rows = [{"hash": b"abcd", "id": 1, "other": b"efgh"}]
    buckets = [PartitionFieldSpec("hash", "bucket", 4), PartitionFieldSpec("other", "bucket", 4)]
    with pytest.raises(TableBlocked) as refused:
        lake.create("ns.refused", HASHED, [PartitionFieldSpec("hash")])
    assert refused.value.code == "FLOE-R147"
    name = lake.create("ns.buckets", HASHED, buckets)
    lake.tables.commit(lake.effect(name, lake.files(name, rows), 1))
    assert java_read(lake.settings, [f"SELECT id FROM `default`.{name}"], [name]).counts == {name: 1}

    table = lake.catalog.create_table("ns.made_by_others", HASHED, partition_spec=spec)
    table.append(pa.Table.from_pylist(rows, schema=table.schema().as_arrow()))
    with pytest.raises(AssertionError, match=r"org\.apache\.iceberg"):
        java_read(lake.settings, [], ["ns.made_by_others"])


def test_a_fault_inside_of_a_column_says_where() -> None:
    """The whole path, of fields in lists and structs too."""
    inner = StructType(NestedField(3, "at", TimestampNanoType(), required=False))
    found = faults(
        TableDefinition(Schema(NestedField(1, "l", ListType(2, inner, element_required=False), required=False)))
    )
    assert [str(each) for each in found] == ["column 'l.element.at': timestamp_ns needs format version 3"]
