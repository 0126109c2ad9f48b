"""Hides values of records that people are not to see: of fields that a person names, of secrets, of excluded fields.

In: a record's fields, or a row's. Out: the same shape, each hidden value replaced by one of its kind that says nothing,
the paths that were hidden, and the texts that stood there. In doubt it hides: names are compared without case.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from framework.config.spec import TablesSpec
from framework.diagnose.secrets import is_secret_name
from framework.record.strict_json import NumberText
from framework.table.policy.admitted import excluded_of_any

MASKED = "masked"
_INDEXES = re.compile(r"\[\d+\]|\['[^']*'\]")


@dataclass(frozen=True)
class Masks:
    """`fields` are dotted paths, `globs` patterns of such; lists and maps on the way add nothing to a path."""

    fields: frozenset[str] = frozenset()
    globs: tuple[str, ...] = ()

    @classmethod
    def of(cls, fields: Collection[str], tables: TablesSpec | None = None) -> Masks:
        """Those that a person names, and what a pipeline file keeps out of every table or of some: `evolve.exclude`."""
        globs = () if tables is None else excluded_of_any(tables)
        return cls(frozenset(name.lower() for name in fields), globs)

    def hides(self, path: str) -> bool:
        """Whether a field's value is hidden, with all below it. A secret is, whoever asks."""
        folded = path.lower()
        return (
            folded in self.fields
            or any(map(is_secret_name, path.split(".")))  # names may have dots of their own
            or any(fnmatchcase(folded, glob) for glob in self.globs)
        )

    def hides_part(self, path: str) -> bool:
        """Whether a field is hidden, or one that it is in; in the path of a dead letter stand the indexes of elements."""
        names = _INDEXES.sub("", path).lstrip(".").split(".")
        return any(self.hides(".".join(names[:end])) for end in range(1, len(names) + 1))


@dataclass
class Hidden:
    """What was hidden: paths, and the texts that stood there."""

    paths: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)


def mask_fields(fields: dict[str, Any], masks: Masks, found: Hidden) -> dict[str, Any]:
    """The fields without the values that are hidden; `found` collects each."""
    return {name: _mask(value, name, masks, found) for name, value in fields.items()}


def mask_elements(elements: list[Any], masks: Masks, found: Hidden) -> list[Any]:
    """The same of a record that is an array: the fields of its elements have the names that they have as rows."""
    return [mask_fields(each, masks, found) if isinstance(each, dict) else each for each in elements]


def _mask(value: Any, path: str, masks: Masks, found: Hidden) -> Any:
    hide = masks.hides(path)
    if isinstance(value, dict):
        if hide:
            found.paths.add(path)
        return {
            name: _hide(inner, found) if hide else _mask(inner, f"{path}.{name}", masks, found)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_mask(item, path, masks, found) for item in value]
    if hide and value is not None:
        found.paths.add(path)
        return _hide(value, found)
    return value


def _hide(value: Any, found: Hidden) -> Any:
    """A value of the same kind that says nothing."""
    if isinstance(value, dict):
        return {name: _hide(inner, found) for name, inner in value.items()}
    if isinstance(value, list):
        return [_hide(item, found) for item in value]
    if isinstance(value, bool) or value is None:
        return None if value is None else False
    found.texts.add(str(value))
    if isinstance(value, NumberText):
        return NumberText("0")
    return 0 if isinstance(value, int | float) else MASKED
