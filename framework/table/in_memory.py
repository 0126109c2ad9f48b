"""Tables as they would be examined had a change been made: for tests of pipeline files, and to try a change beforehand.

In: a schema, or an examined table and its change. Out: a TableTarget that no catalog knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyiceberg.schema import Schema, assign_fresh_schema_ids

from framework.config.spec import PartitionFieldSpec, TablePolicy
from framework.table.changes import AlterTable
from framework.table.model import TableTarget
from framework.table.partitions import spec_of
from framework.table.schema.arrow import parse_schema
from framework.table.schema.types import format_version


def made_in_memory(
    name: str, schema: Schema, policy: TablePolicy, partition_by: Sequence[PartitionFieldSpec] = ()
) -> TableTarget:
    """A new table; a catalog numbers its columns afresh."""
    schema = assign_fresh_schema_ids(schema)
    return TableTarget(
        name=name,
        table_uuid=name,
        location="",
        schema_json=schema.model_dump_json(),
        schema_id=0,
        spec_json=spec_of(schema, partition_by).model_dump_json(),
        spec_id=0,
        sort_order_id=0,
        last_column_id=schema.highest_field_id,
        properties={},
        policy=policy,
        format_version=format_version(policy.create.properties),
    )


def altered_in_memory(target: TableTarget, change: AlterTable) -> TableTarget:
    """The table under its next schema."""
    return replace(
        target,
        schema_json=change.schema_json,
        schema_id=target.schema_id + 1,
        last_column_id=max(target.last_column_id, parse_schema(change.schema_json).highest_field_id),
    )
