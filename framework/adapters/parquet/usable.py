"""Checks whether files can be written with a table's properties, before a task tries.

In: what tasks would be given for a table. Out: None, or why its properties cannot be used. Whoever may alter a table
may set them to anything, and a task that fails because of one would stop every table of its pipeline. So the table is
refused here (invariant 10).
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from framework.adapters.parquet.files import layout_of
from framework.record.model import TableTarget

_POSITIVE = (
    "write.target-file-size-bytes",
    "write.parquet.row-group-size-bytes",
    "write.parquet.row-group-limit",
    "write.parquet.page-size-bytes",
    "write.parquet.page-row-limit",
    "write.parquet.dict-size-bytes",
)
_MOST = 2**40  # no size of a file has more digits; some of Parquet's own numbers would overflow


def unusable(target: TableTarget) -> str | None:
    """Why this table's properties cannot be written with; None when they can."""
    for key in _POSITIVE:
        text = target.properties.get(key)
        if text is not None and not (text.isascii() and text.isdigit() and 0 < int(text[:20]) <= _MOST):
            return f"its property {key} is {text[:40]!r}, which is not a positive number"
    try:
        options = layout_of(target).writer_options
        # The codec and its level are only looked at by the first page that is written.
        with pq.ParquetWriter(pa.BufferOutputStream(), _PROBE.schema, **options) as writer:
            writer.write_table(_PROBE)
    except Exception as error:  # PyIceberg's and Arrow's own words for each property
        return (
            f"it cannot be written with its properties: {(str(error).strip() or type(error).__name__).splitlines()[0]}"
        )
    return None


_PROBE = pa.table({"probe": pa.array([1], pa.int64())})
