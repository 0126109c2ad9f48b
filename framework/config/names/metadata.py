"""Kafka's own fields as columns: which there are, what the columns are called, and their types.

In: a name of `source.metadata_columns`. Out: the column's name and its Iceberg type, written like an observed type.
Validation, table creation and the tasks that fill columns all use these names.
"""

from __future__ import annotations

import re
from typing import Any

PREFIX = "_kafka_"
HEADER = "header."
_TYPES: dict[str, Any] = {
    "topic": "string",
    "partition": "int",
    "offset": "long",
    "timestamp": "timestamptz",
    "key": "binary",
    "key_text": "string",
    "headers": ["list", ["struct", [["key", "string"], ["value", "binary"]]]],
    "index": "int",
}
# The element's index in its record, with `explode`: Kafka has no such field, and the column stands beside those of Kafka's
# that say where a row comes from.
INDEX = "index"
NAMES = tuple(_TYPES)
# Not for pipeline files: what a record did, in a history.
OPERATION = "operation"
_OPERATION_COLUMN = "_op"
# The columns of a history beside those of the table whose changes it has.
HISTORY = (OPERATION, "topic", "partition", "offset", "timestamp")
# The same where records hold several documents.
HISTORY_OF_ELEMENTS = (*HISTORY, INDEX)
# Columns of Debezium's that count milliseconds since 1970.
DEBEZIUM_MOMENTS = ("__ts_ms", "__source_ts_ms")


def metadata_column(name: str) -> str:
    """The column of a metadata name: `_kafka_offset`; for `header.ce-type` it is `_kafka_header_ce_type`."""
    if name == OPERATION:
        return _OPERATION_COLUMN
    if name.startswith(HEADER):
        return PREFIX + "header_" + re.sub(r"\W", "_", name.removeprefix(HEADER), flags=re.ASCII)
    return PREFIX + name


def kept_column(path: str) -> str:
    """The column of a field that is kept of an envelope: `metadata.table-name` is `__metadata_table_name`."""
    return "__" + re.sub(r"\W", "_", path, flags=re.ASCII)


def metadata_type(name: str) -> Any:
    """The type of a metadata column; one header's value is text."""
    return "string" if name == OPERATION or name.startswith(HEADER) else _TYPES[name]


def is_metadata(name: str) -> bool:
    """Whether there is such a field."""
    return name in _TYPES or name.startswith(HEADER)
