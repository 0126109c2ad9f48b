"""Which names a column may have so that Iceberg's Java library, Spark and floe itself can read its table, and what the
others become.

In: names. Out: why a name cannot be a column's in its place, and the name that it has instead. The list of names that
Iceberg and floe keep for themselves is here and nowhere else. Nothing here knows of types or of tables that are there.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache

# Iceberg's specification, "Reserved Field IDs": what engines read of a row beside its columns. Spark refuses each of the
# first seven in every format version (`MetadataColumns` of the Java library); the last three are the columns of a
# changelog. `file_path`, `pos` and `row` of the same list are columns of delete files, and never meet those of a table.
RESERVED_BY_ICEBERG = (
    "_file",
    "_pos",
    "_deleted",
    "_spec_id",
    "_partition",
    "_row_id",
    "_last_updated_sequence_number",
    "_change_type",
    "_change_ordinal",
    "_commit_snapshot_id",
)
# What travels beside the columns of a table in floe's own stages and files.
RESERVED_BY_FLOE = (
    "__floe",
    "__floe_carried",
    "__floe_failed",
    "__floe_file",
    "__floe_offset",
    "__floe_partition",
    "__floe_pos",
    "__floe_topic",
    "__floe_where",
    "__floe_winner",
)
SUFFIX = "_"
TOP = ("",)
# `Integer.MAX_VALUE - 200` and above are the ids of Iceberg's own columns.
LAST_FIELD_ID = 2**31 - 1 - 201

_OWNERS = dict.fromkeys(RESERVED_BY_ICEBERG, "Iceberg") | dict.fromkeys(RESERVED_BY_FLOE, "floe")


class NameFault(str, Enum):
    """Why a field cannot be a column under its own name."""

    RESERVED = "reserved"
    EMPTY = "empty"
    TWIN = "twin"
    PARTITION = "partition"


def owner_of(name: str) -> str:
    """Who keeps a name at the top of a table for itself, in whatever case: "Iceberg", "floe", or "" for nobody."""
    return _OWNERS.get(name.lower(), "")


@lru_cache(maxsize=65536)
def file_names(name: str) -> frozenset[str]:
    """What a column of this name is called in files: by Java's `AvroSchemaUtil`, and by PyIceberg. Two fields of a
    struct that share one of them cannot be written."""
    if not name:
        return frozenset()
    units = name.encode("utf-16-be", "surrogatepass")
    java = "".join(
        _of_java(chr(int.from_bytes(units[at : at + 2], "big")), first=at == 0) for at in range(0, len(units), 2)
    )
    return frozenset((java, "".join(_of_python(each, first=at == 0) for at, each in enumerate(name))))


def _of_java(unit: str, first: bool) -> str:
    category = unicodedata.category(unit)
    if unit == "_" or category[0] == "L" or (category == "Nd" and not first):
        return unit
    return f"_{unit}" if category == "Nd" else f"_x{ord(unit):X}"


def _of_python(character: str, first: bool) -> str:
    if character == "_" or character.isalpha() or (character.isalnum() and not first):
        return character
    return f"_{character}" if character.isdigit() else f"_x{ord(character):X}"


@dataclass
class SiblingNames:
    """The names of one struct's fields, and which further ones it can have.

    Attributes:
        prefixes: what stands before a field's name in its full name, `l.element.`, and in its short one, `l.`.
        partition_fields: names of the partition fields of all specs of the table.
    """

    prefixes: tuple[str, ...] = TOP
    partition_fields: Collection[str] = ()
    _own: set[str] = field(default_factory=set)
    _named: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, names: Iterable[str], prefixes: tuple[str, ...] = TOP, partition_fields: Collection[str] = ()
    ) -> SiblingNames:
        found = cls(prefixes, partition_fields)
        for name in names:
            found.add(name)
        return found

    def add(self, name: str) -> None:
        self._own.add(name)
        for each in file_names(name):
            self._named.setdefault(each, name)

    def fault(self, name: str) -> NameFault | None:
        """Why the struct cannot have a field of this name; None where it can."""
        if not name:
            return NameFault.EMPTY
        if self.prefixes == TOP and owner_of(name):
            return NameFault.RESERVED
        # A column that is there may be partitioned by its value, and the partition field is called as it is.
        if name not in self._own and any(f"{prefix}{name}" in self.partition_fields for prefix in self.prefixes):
            return NameFault.PARTITION
        return None if self._twin(name) is None else NameFault.TWIN

    def renamed(self, name: str) -> str:
        """The name of the column for a field that cannot have its own: the first with underscores behind it that the
        struct has already or can have."""
        while self.fault(name) is not None:
            name += SUFFIX
        return name

    def said(self, name: str) -> str:
        """Why the struct cannot have a field of this name, in words; "" where it can."""
        fault = self.fault(name)
        if fault is NameFault.EMPTY:
            return "Iceberg's Java library cannot write a column without a name"
        if fault is NameFault.RESERVED:
            return f"{owner_of(name)} keeps this name for itself"
        if fault is NameFault.PARTITION:
            return "a partition field of the table has this name"
        return f"in files it has the same name as {self._twin(name)!r}" if fault is NameFault.TWIN else ""

    def _twin(self, name: str) -> str | None:
        found = (self._named.get(each, name) for each in sorted(file_names(name)))
        return next((other for other in found if other != name), None)


def prefixes_of(prefixes: tuple[str, ...], name: str) -> tuple[str, ...]:
    """What stands before the names of the fields inside of a field."""
    return tuple(f"{prefix}{name}." for prefix in prefixes)


def prefixes_inside(prefixes: tuple[str, ...], word: str, of_struct: bool) -> tuple[str, ...]:
    """The same inside of what a list (`element`) or a map (`value`) holds: the full name has the word in it, and the short
    one, by which Iceberg finds a field too, leaves it out where a struct is held."""
    full, short = prefixes[0], prefixes[-1]
    return (f"{full}{word}.", short if of_struct else f"{short}{word}.")
