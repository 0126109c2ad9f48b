"""Two columns of one full name: whatever records show, a table's schema can be made and changed, and the rest is
refused. Names that no column can have are among them, and specs beside the columns."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import VoidTransform

from framework.table.changes import AlterTable, CreateTable, Refusal
from framework.table.create import plan_create
from framework.table.evolve import plan_evolution
from framework.table.model import TableNeed, TableTarget
from framework.table.readable import TableDefinition, faults, new_faults
from testbed.record_samples import block, plan, policy, processed, target

CLASHING = ("a", "b", "a.b", "b.c", "a.b.c", "element", "a.element", "element.b", "value", "", ".")
UNREADABLE = ("_file", "_FILE", "_file_", "_row_id", "__floe_offset", "1", "_1", "a_x2Eb", "_", "ts_day", "ts_day_")
names = st.sampled_from((*CLASHING, *UNREADABLE, "b.ts_day"))
# Of specs that the table has and had: no column may get these names.
SPECS = (
    PartitionSpec(PartitionField(1, 1000, VoidTransform(), "ts_day"), spec_id=1),
    PartitionSpec(PartitionField(1, 1001, VoidTransform(), "b.ts_day"), spec_id=0),
)
documents = st.recursive(
    st.integers(0, 9),
    lambda inner: st.dictionaries(names, inner, min_size=1, max_size=3) | st.lists(inner, min_size=1, max_size=2),
    max_leaves=6,
)
records = st.dictionaries(names, documents, min_size=1, max_size=4)


def need_of(record: object, tables: dict[str, object] | None = None) -> TableNeed | None:
    return processed(block([record]), plan(defaults=policy()), tables or {}).needs.get("ns.t")  # type: ignore[arg-type]


def partitioned(schema: Schema) -> TableTarget:
    """The table of this schema, as somebody may have partitioned it."""
    now, before = (spec.model_dump_json() for spec in SPECS)
    return replace(
        target("ns.t", schema=schema, table_policy=policy()), spec_json=now, spec_id=1, other_specs_json=(before,)
    )


@settings(max_examples=120, deadline=None)
@given(records, records)
def test_any_records_make_and_change_a_table_in_as_many_steps_as_it_has_columns(first: object, second: object) -> None:
    """No plan raises; each makes a schema that Iceberg takes; and in the end a record fits or is refused."""
    need = need_of(first)
    if need is None:
        return
    made = plan_create(need, policy(), (), ())
    if isinstance(made, Refusal):
        return
    assert isinstance(made, CreateTable)
    schema = Schema.model_validate_json(made.schema_json)
    assert faults(TableDefinition(schema)) == ()
    for record in (first, second):
        for _ in range(8):
            table = partitioned(schema)
            need = need_of(record, {"ns.t": table})
            change = plan_evolution(table, need) if need is not None else None
            if change is None or isinstance(change, Refusal):
                break
            assert isinstance(change, AlterTable)
            wanted = Schema.model_validate_json(change.schema_json)
            assert new_faults(TableDefinition(wanted, SPECS), TableDefinition(schema, SPECS)) == ()
            schema = wanted
        else:
            raise AssertionError("the record asks for ever")


def test_the_first_of_two_is_made_and_the_other_is_refused() -> None:
    """By its name, with a code of its own; and a column of another record is made meanwhile."""
    need = TableNeed("ns.t", (("a.b", "long"), ("a", ["struct", [["b", "long"]]])))
    made = plan_create(need, policy(), (), ())
    assert isinstance(made, CreateTable)
    schema = Schema.model_validate_json(made.schema_json)
    assert schema.column_names == ["a.b"]
    table = target("ns.t", schema=schema, table_policy=policy())
    refused = plan_evolution(table, TableNeed("ns.t", (("a", ["struct", [["b", "long"]]]),)))
    assert isinstance(refused, Refusal)
    assert (refused.code, refused.path) == ("FLOE-T109", ("a",))
    both = plan_evolution(table, TableNeed("ns.t", (("a", ["struct", [["b", "long"]]]), ("z", "long"))))
    assert isinstance(both, AlterTable)
    assert [change.path for change in both.changes] == [("z",)]
