"""Tables as values: what a task must know to write for one, and what data asks of one that is not as it should be.

In: nothing. Out: frozen values that pickle to Spark's tasks. Types observed in records are written in a small grammar
of their own, which knows what JSON can tell and no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from framework.config.spec import TablePolicy

# The natural type of a field as seen in records, before any table exists: "null" | "boolean" | "long" | "double" |
# "string" | ["struct", [[name, type], ...]] | ["list", type] | ["map", key, value] JSON has no maps: a struct is one
# when it meets a map column. For fields with a declared hint it is the hint's Iceberg type as text, for example
# "timestamptz" or "decimal(10, 2)".
ObservedType = str | list[Any]


@dataclass(frozen=True)
class TableTarget:
    """A table as a task must know it to write for it: Iceberg's own JSON for schema, spec and sort order
    (empty: unsorted), and the policy that applies. `other_specs_json` are the partition specs that it had before.
    `frozen` says why it must not be changed now (empty: it may)."""

    name: str
    table_uuid: str
    location: str
    schema_json: str
    schema_id: int
    spec_json: str
    spec_id: int
    sort_order_id: int
    last_column_id: int
    properties: dict[str, str]
    policy: TablePolicy
    sort_order_json: str = ""
    format_version: int = 2
    other_specs_json: tuple[str, ...] = ()
    frozen: str = ""


@dataclass(frozen=True)
class ColumnDetail:
    """What a schema says of a field beside its type: a comment, and whether a value is always there."""

    comment: str | None = None
    required: bool = False


@dataclass(frozen=True)
class TableNeed:
    """A table that must be created, or fields it must gain, widen or relax, before the block's rows can be written.

    `fields` maps dotted-free top-level names to what was observed (nested types whole). `details` are by dotted path,
    lists and maps adding nothing to it; only top-level fields may be required. `optional` are the paths of columns that
    must become optional, as the table spells them, with `element` and `value` for what is in lists and maps.
    """

    table: str
    fields: tuple[tuple[str, ObservedType], ...]
    details: tuple[tuple[str, ColumnDetail], ...] = ()
    optional: frozenset[tuple[str, ...]] = frozenset()
