"""Whether UUIDs are in one order for every reader of a table.

In: UUIDs. Out: what those have in common of which bounds may be written. Parquet, the specification and most readers
compare their bytes; Iceberg's Java library, up to version 1.12, compares them as two signed numbers of 64 bits
(apache/iceberg#14216). A range in one order hides rows from who looks in the other: of a file, of a row group and of a
manifest alike.
"""

from __future__ import annotations

from uuid import UUID


def signs(value: bytes | UUID | None) -> tuple[int, int]:
    """UUIDs with the same signs, and any part of them, are in the same order for every reader: those of versions 6 and 7 are,
    which begin with the time. What is null goes with these."""
    if value is None:
        return 0, 1
    data = value.bytes if isinstance(value, UUID) else value
    return data[0] >> 7, data[8] >> 7
