"""What a field is called as a column, where its own name would make its table unreadable: `evolve.names`.

In: fields of records that a table has no columns for, the table's columns and its policy. Out: the same fields under the
names of their columns, without those that are left out or refused. One answer for a name and a table: whoever asks for a
column, makes it, or reads records for it afterwards asks here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from framework.config.names.column_names import SUFFIX, TOP, SiblingNames, prefixes_inside, prefixes_of
from framework.config.spec import NameCase, TablePolicy
from framework.table.model import ObservedType
from framework.table.policy.admitted import admitted_fields
from framework.table.policy.answers import Act
from framework.table.policy.rules import TableRules
from framework.table.schema.types import merge_observed


@dataclass
class ColumnCandidates:
    """Fields that may become columns.

    Attributes:
        columns: what is asked for, by the names of columns.
        fields: the same by the names that records have.
        refused: fields that make their records errors, with all that is around them; `path` and `why` of the first.
    """

    columns: dict[str, ObservedType] = field(default_factory=dict)
    fields: dict[str, ObservedType] = field(default_factory=dict)
    refused: dict[str, ObservedType] = field(default_factory=dict)
    path: tuple[str, ...] = ()
    why: str = ""


NOTHING = ColumnCandidates()


def named(
    fields: Mapping[str, ObservedType],
    present: StructType,
    policy: TablePolicy,
    partition_fields: Iterable[str] = (),
    declared: bool = False,
) -> ColumnCandidates:
    """What of the fields may become columns (`evolve.include`, `exclude`), and under which names.

    Args:
        present: the columns that there are; what they hold already is asked for no further than it lacks something.
        partition_fields: names of the partition fields of all specs of the table.
        declared: the fields are admitted whatever the policy includes.
    """
    naming = _Naming(policy, frozenset(partition_fields), declared)
    columns, kept, refused = naming.struct(list(fields.items()), present, TOP, ())
    return ColumnCandidates(dict(columns), dict(kept), dict(refused), naming.path, naming.why)


def with_column_names(
    fields: Sequence[NestedField], policy: TablePolicy, first: Iterable[str] = (), prefixes: tuple[str, ...] = TOP
) -> list[NestedField]:
    """The fields of a new table, which have the names of records, under the names of their columns. Of two that come to
    one column the first stays.

    Args:
        first: names that are taken before all others.
    """
    if not keeps_to_iceberg(policy):
        return list(fields)
    siblings = SiblingNames.of(first, prefixes)
    found: dict[str, NestedField] = {}
    for each in fields:
        name = siblings.renamed(each.name)
        siblings.add(name)
        kind = _with_names_inside(each.field_type, policy, prefixes_of(prefixes, name))
        made = NestedField(each.field_id, name, kind, required=each.required, doc=each.doc)
        found.setdefault(_fold(name, policy.case is NameCase.INSENSITIVE), made)
    return list(found.values())


def _with_names_inside(kind: IcebergType, policy: TablePolicy, prefixes: tuple[str, ...]) -> IcebergType:
    if isinstance(kind, StructType):
        return StructType(*with_column_names(kind.fields, policy, prefixes=prefixes))
    if isinstance(kind, ListType):
        element = _with_names_inside(
            kind.element_type, policy, prefixes_inside(prefixes, "element", kind.element_type.is_struct)
        )
        return ListType(kind.element_id, element, element_required=kind.element_required)
    if isinstance(kind, MapType):
        value = _with_names_inside(
            kind.value_type, policy, prefixes_inside(prefixes, "value", kind.value_type.is_struct)
        )
        return MapType(kind.key_id, kind.key_type, kind.value_id, value, value_required=kind.value_required)
    return kind


def renames(policy: TablePolicy) -> bool:
    """Whether a field whose name no column can have gets a column of another name."""
    return TableRules(policy).unusable_name().act is Act.CHANGE


def keeps_to_iceberg(policy: TablePolicy) -> bool:
    """Whether what the policy is for is a table of Iceberg's: the columns that SQL reads may have any names."""
    return TableRules(policy).unusable_name().act is not Act.BESIDE


def other_spellings(
    columns: Iterable[str], prefixes: tuple[str, ...], insensitive: bool, partition_fields: frozenset[str]
) -> dict[str, str]:
    """By the name that a record's field has, the column of a struct that has its values under another name, where fields
    are renamed."""
    names = list(columns)
    if not any(name.endswith(SUFFIX) for name in names):
        return {}
    known = {_fold(name, insensitive) for name in names}
    siblings = SiblingNames.of(names, prefixes, partition_fields)
    found: dict[str, str] = {}
    for column in names:
        own = column
        while own.endswith(SUFFIX):
            own = own.removesuffix(SUFFIX)
            if _fold(own, insensitive) not in known and siblings.fault(own) and siblings.renamed(own) == column:
                found[own] = column
    return found


def _fold(name: str, insensitive: bool) -> str:
    return name.lower() if insensitive else name


_Fields = list[tuple[str, ObservedType]]


@dataclass
class _Naming:
    """Goes through fields and columns together; `path` and `why` are those of the first that is refused."""

    policy: TablePolicy
    partition_fields: frozenset[str]
    declared: bool
    path: tuple[str, ...] = ()
    why: str = ""

    def __post_init__(self) -> None:
        self._act = TableRules(self.policy).unusable_name().act
        self._insensitive = self.policy.case is NameCase.INSENSITIVE

    def struct(
        self, fields: _Fields, present: IcebergType | None, prefixes: tuple[str, ...], path: tuple[str, ...]
    ) -> tuple[_Fields, _Fields, _Fields]:
        """By columns, by the record's names, and what is refused; `path` is the record's."""
        own = present.fields if isinstance(present, StructType) else ()
        known = {_fold(each.name, self._insensitive): each for each in own}
        siblings = SiblingNames.of((each.name for each in own), prefixes, self.partition_fields)
        columns: dict[str, tuple[str, ObservedType]] = {}
        kept: _Fields = []
        refused: _Fields = []
        for name, kind in fields:
            column = name
            found = known.get(_fold(column, self._insensitive))
            if found is None and not self.declared:
                admitted = admitted_fields({name: kind}, self.policy, path).get(name)
                if admitted is None:
                    continue
                kind = admitted
            if found is None and self._act is not Act.BESIDE and siblings.fault(column) is not None:
                if self._act is not Act.CHANGE:
                    if self._act is Act.REFUSE:
                        self._refuse((*path, name), siblings.said(name))
                        refused.append((name, kind))
                    continue
                column = siblings.renamed(column)
                found = known.get(_fold(column, self._insensitive))
            if found is None:
                siblings.add(column)
            else:
                column = found.name
            parts = self._inside(kind, found and found.field_type, prefixes_of(prefixes, column), (*path, name))
            as_column, as_field, bad = parts
            if bad is not None:
                refused.append((name, bad))
            if as_column is None or as_field is None:
                continue
            kept.append((name, as_field))
            folded = _fold(column, self._insensitive)
            merged = merge_observed(columns[folded][1], as_column) if folded in columns else as_column
            columns[folded] = (column, merged)
        return list(columns.values()), kept, refused

    def _inside(
        self, kind: ObservedType, present: IcebergType | None, prefixes: tuple[str, ...], path: tuple[str, ...]
    ) -> tuple[ObservedType | None, ObservedType | None, ObservedType | None]:
        if isinstance(kind, str):
            return kind, kind, None
        if kind[0] == "struct":
            parts = self.struct(kind[1], present, prefixes, path)
            as_column, as_field, bad = (["struct", [list(pair) for pair in part]] if part else None for part in parts)
            return as_column, as_field, bad
        inner = None
        if isinstance(present, ListType):
            inner = present.element_type
        elif isinstance(present, MapType):
            inner = present.value_type
        below = prefixes_inside(prefixes, "element" if kind[0] == "list" else "value", kind[-1][0] == "struct")
        parts_inside = self._inside(kind[-1], inner, below, path)
        as_column, as_field, bad = ([*kind[:-1], part] if part is not None else None for part in parts_inside)
        return as_column, as_field, bad

    def _refuse(self, path: tuple[str, ...], why: str) -> None:
        self.path, self.why = self.path or path, self.why or why
