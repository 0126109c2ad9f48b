"""How Parquet is written for a table, as PyIceberg reads it from the table's properties.

In: a table's properties. Out: the options of PyArrow's Parquet writer, so that floe's files are compressed and paged as
the table says. Goes when PyIceberg offers `_get_parquet_writer_kwargs` under a public name.
"""

from __future__ import annotations

from typing import Any

from pyiceberg.io.pyarrow import _get_parquet_writer_kwargs
from pyiceberg.typedef import Properties


def writer_options(properties: Properties) -> dict[str, Any]:
    """Keyword arguments of `pyarrow.parquet.ParquetWriter`.

    Raises:
        ValueError, TypeError: a property has no value that can be used; `adapters.parquet.usable` asks beforehand.
    """
    return _get_parquet_writer_kwargs(properties)
