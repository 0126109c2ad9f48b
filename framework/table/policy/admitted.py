"""Which fields may become columns, and how many: `evolve.include`, `evolve.exclude` and `evolve.max_columns`.

In: observed types and a policy. Out: the same types without the parts that may not become columns, and the bound. A
path is the dotted path of a leaf; lists and maps add nothing to it. What holds of a field holds of everything inside
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache

from framework.config.spec import NameCase, TablePolicy, TablesSpec
from framework.table.model import ObservedType
from framework.table.schema.types import known_part


def admitted_fields(
    fields: Mapping[str, ObservedType], policy: TablePolicy, above: tuple[str, ...] = ()
) -> dict[str, ObservedType]:
    """What of the fields may become columns; `above` is the path of the struct that they are in."""
    if not policy.evolve.include and not policy.evolve.exclude:
        return dict(fields)
    found = {name: _admitted(kind, (*above, name), policy) for name, kind in fields.items()}
    return {name: kind for name, kind in found.items() if kind is not None}


def never_admitted(name: str, policy: TablePolicy) -> bool:
    """Whether nothing of a top-level field may become a column, whatever is in it."""
    evolve = policy.evolve
    if not evolve.include and not evolve.exclude:
        return False
    if _matches((name,), evolve.exclude, policy.case):
        return True
    if not evolve.include or _matches((name,), evolve.include, policy.case):
        return False
    # A glob that says something of what is inside: `a.b` of `a`, and `a*` or `*.b` of nearly anything.
    return not any("." in glob or "*" in glob or "?" in glob or "[" in glob for glob in evolve.include)


def excluded_of_any(tables: TablesSpec) -> tuple[str, ...]:
    """The globs of all fields that some table never has, in lower case."""
    policies = (tables.defaults, *(policy for _, policy in tables.overrides))
    return tuple(sorted({glob.lower() for policy in policies for glob in policy.evolve.exclude}))


def most_columns(policy: TablePolicy) -> int:
    """How many columns records may give a table, fields inside of columns counted."""
    return policy.evolve.max_columns


def most_columns_of_any(tables: TablesSpec) -> int:
    """The same, of the table that may have the most."""
    return max(most_columns(policy) for policy in (tables.defaults, *(policy for _, policy in tables.overrides)))


def _admitted(kind: ObservedType, path: tuple[str, ...], policy: TablePolicy) -> ObservedType | None:
    """The admitted part of a type; None when nothing is left. Parts that are not known yet stay as they are."""
    if _matches(path, policy.evolve.exclude, policy.case):
        return None
    if isinstance(kind, list) and kind[0] in ("list", "map"):
        inner = _admitted(kind[-1], path, policy)
        return None if inner is None else [*kind[:-1], inner]
    if isinstance(kind, list):
        admitted = ((name, _admitted(child, (*path, name), policy)) for name, child in kind[1])
        fields = [[name, child] for name, child in admitted if child is not None]
        return ["struct", fields] if known_part(["struct", fields]) is not None else None
    included = not policy.evolve.include or _matches(path, policy.evolve.include, policy.case)
    return kind if included else None


def _matches(path: tuple[str, ...], globs: tuple[str, ...], case: NameCase) -> bool:
    """Whether a glob matches the path or one above it."""
    return bool(globs) and _matches_any(".".join(path), globs, case is NameCase.INSENSITIVE)


@lru_cache(maxsize=4096)
def _matches_any(path: str, globs: tuple[str, ...], insensitive: bool) -> bool:
    if insensitive:
        path, globs = path.lower(), tuple(glob.lower() for glob in globs)
    return any(fnmatchcase(each, glob) for each in _and_above(path) for glob in globs)


def _and_above(path: str) -> Iterable[str]:
    parts = path.split(".")
    return (".".join(parts[:length]) for length in range(1, len(parts) + 1))
