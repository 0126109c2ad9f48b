"""Turns blocks of records into rows of tables: the entry point of the data plane's pure core.

In: blocks of records and a plan. Out: rows for each table, dead letters, counts of filtered and dropped records, and
what tables lack. `process_block_into` does all of it. With `transform.sql`, call `decode_block` first, run the SQL over
columns of `declared_schema`, and call `process_transformed` last. `process_with_sql` does the three for a few records.
"""

from __future__ import annotations

from framework.record.blocks.block import needed_schemas, process_block, process_block_into, records_in_block
from framework.record.sql.transform import Sql, declared_schema, decode_block, process_transformed, process_with_sql

__all__ = [
    "Sql",
    "declared_schema",
    "decode_block",
    "needed_schemas",
    "process_block",
    "process_block_into",
    "process_transformed",
    "process_with_sql",
    "records_in_block",
]
