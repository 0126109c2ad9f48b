"""Fields 142 to 145 of a manifest entry's file, for which PyIceberg has no attributes: what row ids, position deletes
and deletion vectors need. In and out: PyIceberg's `DataFile` with the fields of format version 3 in memory, or with
fewer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyiceberg.manifest import MANIFEST_ENTRY_SCHEMAS, DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

FILE_FIELDS = tuple(field.name for field in MANIFEST_ENTRY_SCHEMAS[3].find_field("data_file").field_type.fields)  # type: ignore[attr-defined]
FIRST_ROW_ID = FILE_FIELDS.index("first_row_id")
REFERENCED_DATA_FILE_ID = 143
_REFERENCED_DATA_FILE = FILE_FIELDS.index("referenced_data_file")
_CONTENT_OFFSET = FILE_FIELDS.index("content_offset")
_CONTENT_SIZE = FILE_FIELDS.index("content_size_in_bytes")


def first_row_id_of(file: DataFile) -> int | None:
    """The id of the file's first row; None before format version 3."""
    found: int | None = _field(file, FIRST_ROW_ID)
    return found


def referenced_data_file(file: DataFile) -> str | None:
    """The one data file that a delete file names in a field of its own."""
    found: str | None = _field(file, _REFERENCED_DATA_FILE)
    return found


def content_range(file: DataFile) -> tuple[int, int] | None:
    """The first byte of a deletion vector in its Puffin file, and how many bytes it has; None for files of another
    kind."""
    offset, size = _field(file, _CONTENT_OFFSET), _field(file, _CONTENT_SIZE)
    return None if offset is None or size is None else (offset, size)


def _field(file: DataFile, place: int) -> Any:
    return file[place] if len(file) > place else None


def delete_file(
    spec_id: int,
    partition: Sequence[object],
    path: str,
    file_format: FileFormat,
    record_count: int,
    file_size_bytes: int,
    data_file: str,
    **others: object,
) -> DataFile:
    """The entry of a file, or of a deletion vector in one, that deletes rows of one data file and lies in its
    partition.

    Args:
        others: further fields under the specification's names.
    """
    known: dict[str, object] = {
        "content": DataFileContent.POSITION_DELETES,
        "file_path": path,
        "file_format": file_format,
        "partition": Record(*partition),
        "record_count": record_count,
        "file_size_in_bytes": file_size_bytes,
        "referenced_data_file": data_file,
        **others,
    }
    made = DataFile(*map(known.get, FILE_FIELDS))
    made.spec_id = spec_id
    return made
