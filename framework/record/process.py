"""The door of the data plane's pure core: blocks of records in, rows for tables and everything that befell the others
out.

`process_block` takes a block all the way; with `transform.sql`, `decode_block` comes before the SQL (whose input
columns are `declared_schema`) and `process_transformed` after it; `process_with_sql` is all three where the records are
few.
"""

from __future__ import annotations

from framework.record.blocks.block import needed_schemas, process_block, records_in_block
from framework.record.sql.transform import Sql, declared_schema, decode_block, process_transformed, process_with_sql

__all__ = [
    "Sql",
    "declared_schema",
    "decode_block",
    "needed_schemas",
    "process_block",
    "process_transformed",
    "process_with_sql",
    "records_in_block",
]
