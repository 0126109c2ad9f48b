"""A number for a new snapshot, as PyIceberg draws it. Nothing goes in; out comes a random 63-bit id.

The public `TableMetadata.new_snapshot_id` also looks through all snapshots of the table, which takes longer with each
commit. A catalog refuses a snapshot whose id is taken, so nothing is lost without that look. Goes when PyIceberg offers
the draw alone.
"""

from __future__ import annotations

from pyiceberg.table.metadata import _generate_snapshot_id


def new_snapshot_id() -> int:
    """A snapshot id that no table is likely to have."""
    return _generate_snapshot_id()
