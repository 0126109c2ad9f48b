"""Data files as other programs leave them in a table: without field ids, without the columns that their partition says,
and from before a column came that has a default. No code of floe's is in here."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.typedef import Record

from tests.iceberg.conftest import Lake
from tests.iceberg.lineage import change

Values = Mapping[str, Any]


def added_file(table: Table, row: Values, lacking: Sequence[str] = ()) -> str:
    """A Parquet file of one row as other programs write it, without field ids and without these columns."""
    folder = Path(table.location().removeprefix("file://")) / "others"
    folder.mkdir(exist_ok=True)
    path = folder / f"{uuid.uuid4().hex}.parquet"
    plain = table.schema().as_arrow()
    kept = [field for field in plain if field.name in row and field.name not in lacking]
    kinds = pa.schema([pa.field(field.name, _written(field.type), field.nullable) for field in kept])
    pq.write_table(pa.table([pa.array([row[field.name]], field.type) for field in kinds], kinds), path)
    return path.as_uri()


def _written(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    return pa.string() if pa.types.is_large_string(kind) else pa.binary() if pa.types.is_large_binary(kind) else kind


def add_files(table: Table, row: Values) -> None:
    """PyIceberg's own way to take in a file; it gives the table a name mapping."""
    table.add_files([added_file(table, row)])


def add_as_hive(table: Table, row: Values) -> None:
    """What the partition says as it is stands in no file of it; Spark's `add_files` leaves tables like this."""
    schema = table.schema()
    partition = {
        schema.find_column_name(field.source_id): str(field.transform) == "identity" for field in table.spec().fields
    }
    path = added_file(table, row, [name or "" for name, is_identity in partition.items() if is_identity])
    made = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(*(_as_partition(row[name or ""]) for name in partition)),
        record_count=1,
        file_size_in_bytes=Path(path.removeprefix("file://")).stat().st_size,
    )
    made.spec_id = table.spec().spec_id
    with table.transaction() as transaction:
        if table.name_mapping() is None:
            transaction.set_properties(**{"schema.name-mapping.default": schema.name_mapping.model_dump_json()})
        with transaction.update_snapshot().fast_append() as append:
            append.append_data_file(made)


def _as_partition(value: Any) -> Any:
    return (value - date(1970, 1, 1)).days if isinstance(value, date) else value


def add_column(lake: Lake, name: str, field: Values) -> None:
    """The table gains a column, as an engine adds one with a default: rows of before have it, their files do not."""

    def changed(metadata: dict[str, Any]) -> None:
        schema = next(s for s in metadata["schemas"] if s["schema-id"] == metadata["current-schema-id"])
        number = max(s["schema-id"] for s in metadata["schemas"]) + 1
        metadata["schemas"].append({**schema, "schema-id": number, "fields": [*schema["fields"], dict(field)]})
        metadata["current-schema-id"] = number
        metadata["last-column-id"] = max(metadata["last-column-id"], field["id"])

    change(lake, name, changed)
