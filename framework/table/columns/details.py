"""What schemas say of fields beside their types, put on the columns of a new table: comments, and which are required.

In: details by dotted path (lists and maps add nothing to a path) and a new table's fields. Out: the same fields with
comments and nullability. A field that part of the records lacks is required by none; only top-level fields are ever
required, since a nested one could not be distinguished from its missing parent later.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from framework.table.model import ColumnDetail

Details = Mapping[str, ColumnDetail]
_NOTHING = ColumnDetail()


def merge_details(first: Details, second: Details) -> dict[str, ColumnDetail]:
    """The details for records of both: the first comment, and required where both say so."""
    merged = {}
    for path in {**first, **second}:
        left, right = first.get(path, _NOTHING), second.get(path, _NOTHING)
        merged[path] = ColumnDetail(left.comment or right.comment, left.required and right.required)
    return merged


def with_details(field: NestedField, details: Details, insensitive: bool) -> NestedField:
    """A new top-level field with what is known of it and of the fields inside it."""
    folded = {path.lower() if insensitive else path: detail for path, detail in details.items()}
    return _detailed(field, folded, "", insensitive) if folded else field


def _detailed(field: NestedField, details: Details, path: str, insensitive: bool) -> NestedField:
    name = field.name.lower() if insensitive else field.name
    here = f"{path}.{name}" if path else name
    detail = details.get(here, _NOTHING)
    return NestedField(
        field.field_id,
        field.name,
        _inner(field.field_type, details, here, insensitive),
        required=field.required or (detail.required and not path),
        doc=field.doc or detail.comment,
    )


def _inner(kind: IcebergType, details: Details, path: str, insensitive: bool) -> IcebergType:
    if isinstance(kind, StructType):
        return StructType(*(_detailed(child, details, path, insensitive) for child in kind.fields))
    if isinstance(kind, ListType):
        element = _inner(kind.element_type, details, path, insensitive)
        return ListType(kind.element_id, element, element_required=kind.element_required)
    if isinstance(kind, MapType):
        value = _inner(kind.value_type, details, path, insensitive)
        return MapType(kind.key_id, kind.key_type, kind.value_id, value, value_required=kind.value_required)
    return kind
