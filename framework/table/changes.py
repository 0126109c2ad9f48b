"""What may happen to a table's definition, as values: decided here by pure functions, performed by the Iceberg adapter.

A change is decided from one examined schema and is applied only while that schema is still current (invariant 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from framework.config.spec import PartitionFieldSpec, SortFieldSpec


@dataclass(frozen=True)
class CreateTable:
    """Create a table. `schema_json` is Iceberg's schema JSON with ids assigned; "already exists" is success, then
    check."""

    table: str
    schema_json: str
    partition_by: tuple[PartitionFieldSpec, ...]
    properties: tuple[tuple[str, str], ...]
    sort_by: tuple[SortFieldSpec, ...] = ()
    location: str | None = None


@dataclass(frozen=True)
class AddColumn:
    """A new optional column; `path` is the whole path (`("customer", "address", "zip")`), `type` Iceberg's type
    text."""

    path: tuple[str, ...]
    type: str


@dataclass(frozen=True)
class WidenColumn:
    """A legal promotion: int to long, float to double, more decimal precision."""

    path: tuple[str, ...]
    from_type: str
    to_type: str


@dataclass(frozen=True)
class RelaxColumn:
    """A required column becomes optional."""

    path: tuple[str, ...]


SchemaChange = AddColumn | WidenColumn | RelaxColumn


@dataclass(frozen=True)
class AlterTable:
    """Replace the current schema `base_schema_id` by `schema_json` (ids kept, new ones above `last_column_id`).

    `changes` says the same in words for plans, logs and people.
    """

    table: str
    table_uuid: str
    base_schema_id: int
    last_column_id: int
    schema_json: str
    changes: tuple[SchemaChange, ...]


@dataclass(frozen=True)
class Refusal:
    """The policy or Iceberg's rules forbid what the data asks for; `path` is the column, `reason` is for people."""

    table: str
    path: tuple[str, ...]
    reason: str
    code: str


_MOST_CHANGES_NAMED = 100
_MOST_CHARACTERS = 500


def changes_in_words(changes: Sequence[SchemaChange]) -> tuple[str, ...]:
    """Each change as a person says it; of very many the first, and how many more."""
    words = [_in_words(change) for change in changes[:_MOST_CHANGES_NAMED]]
    more = len(changes) - len(words)
    return (*words, f"{more:,} more") if more else tuple(words)


def _in_words(change: SchemaChange) -> str:
    # A name may hold half of a surrogate pair, which no text in UTF-8 can.
    column = ".".join(change.path).encode("utf-8", "replace").decode()[:_MOST_CHARACTERS]
    if isinstance(change, AddColumn):
        return f"add column {column} {change.type[:_MOST_CHARACTERS]}"
    if isinstance(change, WidenColumn):
        return f"widen column {column} from {change.from_type} to {change.to_type}"
    return f"make column {column} optional"
