"""Structs, lists and maps: children are converted by their own converters, field names are matched by the case policy.

A record itself is converted by the struct converter of its table's root. A child that is required and missing makes the
whole value an error. Fields a record has and the struct has not are not this module's concern
(framework.record.fit.infer_types).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from framework.record.convert.converter import Converter
from framework.record.convert.text import StringConverter
from framework.record.failure import RecordFailure
from framework.record.rows.dictionary_text import plain, plain_type
from framework.record.rows.nested_slices import own_entries
from framework.record.strict_json import JsonValue


@dataclass(frozen=True)
class ChildField:
    """One field of a struct: the column's name, its converter, and whether Iceberg requires a value. Records may have
    `other_names` for it, which no column can have."""

    name: str
    converter: Converter
    required: bool
    other_names: tuple[str, ...] = ()


def fold(name: str, insensitive: bool) -> str:
    """The form of a name under the case policy in which equal names are equal."""
    return name.lower() if insensitive else name


@dataclass(frozen=True)
class StructConverter(Converter):
    children: tuple[ChildField, ...]
    insensitive: bool
    # By the folded name of a record's field, the folded name of the column that has its values under another one
    # (`framework.table.policy.names`).
    other_names: tuple[tuple[str, str], ...] = ()

    def fold(self, name: str) -> str:
        """The form of a record's name, or of a column's, in which it is compared with those of columns."""
        folded = fold(name, self.insensitive)
        return self._columns.get(folded, folded) if self.other_names else folded

    def by_name(self, columns: Iterable[tuple[str, pa.Array]]) -> dict[str, list[pa.Array]]:
        """Parsed columns by the folded name of their field."""
        found: dict[str, list[pa.Array]] = {}
        for name, column in columns:
            found.setdefault(self.fold(name), []).append(column)
        return found

    @cached_property
    def folded(self) -> tuple[str, ...]:
        """The folded names of the children."""
        return tuple(self.fold(child.name) for child in self.children)

    @cached_property
    def _columns(self) -> dict[str, str]:
        return dict(self.other_names)

    def array(self, values: pa.Array) -> pa.Array:
        columns = self.by_name(zip((f.name for f in values.type), values.flatten(), strict=True))
        out = []
        for child, name in zip(self.children, self.folded, strict=True):
            source = select_column(columns.get(name, ()), child, len(values))
            converted = child.converter.array(source) if source is not None else None
            if converted is None:
                converted = pa.nulls(len(values), child.converter.target)
            if child.required and pc.any(pc.and_(values.is_valid(), converted.is_null())).as_py():
                raise pa.ArrowInvalid("a required value is missing")
            out.append(converted)
        mask = values.is_null() if values.null_count else None
        return pa.StructArray.from_arrays(out, fields=list(self.target), mask=mask)

    def value(self, value: JsonValue, path: str) -> object:
        if not isinstance(value, dict):
            raise self.wrong_kind(value, path)
        return self.fields(value, path)

    def fields(self, value: dict[str, JsonValue], path: str) -> dict[str, object]:
        """Each child's value by column name; raises RecordFailure, FLOE-D305 when a required one is missing."""
        by_name = self._by_name(value, path)
        out: dict[str, object] = {}
        for child in self.children:
            item = by_name.get(fold(child.name, self.insensitive))
            child_path = f"{path}.{child.name}" if path else child.name
            if item is None:
                if child.required:
                    raise RecordFailure(
                        "convert",
                        "FLOE-D305",
                        f"{child_path} is required and the record has no value for it",
                        field_path=child_path,
                        expected=child.converter.type_name,
                        actual="nothing",
                    )
                out[child.name] = None
            else:
                out[child.name] = child.converter.value(item, child_path)
        return out

    def _by_name(self, value: dict[str, JsonValue], path: str) -> dict[str, JsonValue]:
        """Fields that are not null by folded name; raises RecordFailure FLOE-D306 when two are of one column."""
        out: dict[str, JsonValue] = {}
        folds = self.fold if self.other_names else str.lower if self.insensitive else str
        for name, item in value.items():
            if item is None:
                continue
            folded = folds(name)
            if folded in out:
                field_path = f"{path}.{name}" if path else name
                raise RecordFailure("convert", "FLOE-D306", self.two_fields(name, path), field_path=field_path)
            out[folded] = item
        return out

    def two_fields(self, name: str, path: str = "") -> str:
        """Why a record cannot have a second field for the column of this one."""
        field_path = f"{path}.{name}" if path else name
        if self.fold(name) in self._columns.values():
            return f"{field_path}: the record has two keys for one column, as one of them cannot be a column's name"
        return f"{field_path}: the record has two keys that differ only in case"


@dataclass(frozen=True)
class ListConverter(Converter):
    element: Converter
    element_required: bool

    def array(self, values: pa.Array) -> pa.Array:
        offsets, (elements,) = own_entries(values, values.values)
        elements = self.element.array(elements)
        if self.element_required and elements.null_count:
            raise pa.ArrowInvalid("a required value is missing")
        mask = values.is_null() if values.null_count else None
        kind = self.target
        if pa.types.is_dictionary(elements.type):
            kind = pa.list_(kind.value_field.with_type(elements.type))
        return pa.ListArray.from_arrays(offsets, elements, type=kind, mask=mask)

    def value(self, value: JsonValue, path: str) -> object:
        if not isinstance(value, list):
            raise self.wrong_kind(value, path)
        return [_item(self.element, item, self.element_required, f"{path}[{i}]") for i, item in enumerate(value)]


@dataclass(frozen=True)
class MapConverter(Converter):
    """JSON objects as maps. Arrow's JSON reader has no maps: those of outermost columns with text keys are read by
    framework.record.json.maps, records with others are converted one by one."""

    key: Converter
    item: Converter
    item_required: bool

    def array(self, values: pa.Array) -> pa.Array:
        offsets, (keys, items) = own_entries(values, values.keys, values.items)
        keys, items = self.key.array(keys), self.item.array(items)
        if self.item_required and items.null_count:
            raise pa.ArrowInvalid("a required value is missing")
        mask = values.is_null() if values.null_count else None
        return pa.MapArray.from_arrays(offsets, keys, items, type=self.target, mask=mask)

    def value(self, value: JsonValue, path: str) -> object:
        if not isinstance(value, dict):
            raise self.wrong_kind(value, path)
        pairs = []
        keys = set()
        for name, item in value.items():
            item_path = f"{path}[{name!r}]"
            # A key of a JSON object is text; for a map with number keys it is the number's text.
            key = self.key.value(name, item_path)
            if key in keys:
                raise RecordFailure(
                    "convert",
                    "FLOE-D306",
                    f"{item_path}: two keys are the same {self.key.type_name}",
                    field_path=item_path,
                )
            keys.add(key)
            pairs.append((key, _item(self.item, item, self.item_required, item_path)))
        return pairs


def _item(converter: Converter, item: JsonValue, required: bool, path: str) -> object:
    if item is not None:
        return converter.value(item, path)
    if required:
        raise RecordFailure(
            "convert",
            "FLOE-D305",
            f"{path} is required and the record has null",
            field_path=path,
            expected=converter.type_name,
            actual="null",
        )
    return None


def select_column(columns: Sequence[pa.Array], child: ChildField, rows: int) -> pa.Array | None:
    """The parsed values of a field, None if there are none; raises pa.ArrowInvalid when two spellings of its name both
    have a value in one row. Encoded are only values that their converter leaves as they are.

    Args:
        columns: those of its name, in any spelling.
    """
    found = [column for column in columns if column.null_count < rows]
    if len(found) == 1 and found[0].type == child.converter.parse_type:
        return found[0]
    if len(found) > 1 or not _takes_encoded(child.converter):
        found = [plain(column) for column in found]
    if any(not accepts(child.converter, plain_type(column.type)) for column in found):
        raise pa.ArrowInvalid("parsed to another type")
    if len(found) > 1:
        spelled = found[0].is_valid().cast(pa.int32())
        for column in found[1:]:
            spelled = pc.add(spelled, column.is_valid().cast(pa.int32()))
        if pc.any(pc.greater(spelled, 1)).as_py():
            raise pa.ArrowInvalid("two keys that differ only in case")
        return pc.coalesce(*found)
    return found[0] if found else None


def _takes_encoded(converter: Converter) -> bool:
    if isinstance(converter, ListConverter):
        return isinstance(converter.element, StringConverter) and not converter.element_required
    return isinstance(converter, StringConverter)


def accepts(converter: Converter, parsed: pa.DataType) -> bool:
    """Whether an array parsed to this type can go to `converter.array`. A struct may hold more fields than asked
    for."""
    if converter.parse_type is None:
        return False
    if isinstance(converter, StructConverter) and pa.types.is_struct(parsed):
        wanted = {converter.fold(child.name): child.converter for child in converter.children}
        return all(
            accepts(wanted[name], child.type) for child in parsed if (name := converter.fold(child.name)) in wanted
        )
    if isinstance(converter, ListConverter) and pa.types.is_list(parsed):
        return accepts(converter.element, parsed.value_type)
    return bool(parsed == converter.parse_type)
