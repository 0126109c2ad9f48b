"""A table's full name: its catalog and its name there, in one text.

In: `archive.orders` for a table of the catalog `default`, `cold:archive.orders` for one of the catalog `cold`. Out: the
parts. Only this module splits a full name, and floe stores everything about a table under it. No catalog, namespace or
table has a colon in its name, so a full name means exactly one table.
"""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import lru_cache

DEFAULT_CATALOG = "default"
# (glob, catalog) pairs: the first glob that matches a name without its catalog says where the table lives. Empty: all
# tables live in the default catalog.
Catalogs = tuple[tuple[str, str], ...]


def full_name(catalog: str, identifier: str) -> str:
    """The name of a table by which all of floe knows it."""
    return identifier if catalog == DEFAULT_CATALOG else f"{catalog}:{identifier}"


def catalog_of(name: str) -> str:
    """The catalog that a full name says."""
    return name.partition(":")[0] if ":" in name else DEFAULT_CATALOG


def identifier_of(name: str) -> str:
    """The name that the table has in its catalog."""
    return name.partition(":")[2] if ":" in name else name


def as_written(name: str) -> str:
    """The full name that a person means: `default:shop.orders` is `shop.orders`."""
    return full_name(catalog_of(name), identifier_of(name))


def is_name(pattern: str) -> bool:
    """Whether a pattern means one name alone."""
    return "*" not in pattern and "?" not in pattern and "[" not in pattern


def matches_glob(name: str, glob: str) -> bool:
    """`fnmatchcase`, without a regular expression for what most globs are: a name, or how names begin."""
    beginning = _beginning(glob)
    if beginning is not None:
        return name.startswith(beginning)
    return name == glob if is_name(glob) else fnmatchcase(name, glob)


@lru_cache(maxsize=1024)
def _beginning(glob: str) -> str | None:
    """What each name that a glob means begins with, where the glob asks nothing else."""
    return glob[:-1] if glob.endswith("*") and is_name(glob[:-1]) else None


def name_matches(name: str, pattern: str) -> bool:
    """Whether a person's pattern means a table: one with a colon is for the catalog too, one without for any
    catalog."""
    if ":" in pattern:
        return fnmatchcase(f"{catalog_of(name)}:{identifier_of(name)}", pattern)
    return fnmatchcase(identifier_of(name), pattern)


def placed(identifier: str, catalogs: Catalogs, fold: Callable[[str], str]) -> str:
    """The full name of a table by its name alone. `fold` makes names one that differ in case alone, where they are."""
    for glob, catalog in catalogs:
        if fnmatchcase(fold(identifier), fold(glob)):
            return full_name(catalog, identifier)
    return identifier


def template_glob(template: str) -> str:
    """`flights.carrier_{carrier}` as the glob `flights.carrier_*`; a name without fields as it is."""
    parts = template.split("{")
    return parts[0] + "".join("*" + part.split("}", 1)[-1] for part in parts[1:])


def reachable(pattern: str, catalogs: Catalogs, fold: Callable[[str], str]) -> Catalogs:
    """Where the tables may live whose names match a pattern (or are it): the pairs that decide, in order, the last one
    for all that is left. It may name a catalog too many, never one too few."""
    found: list[tuple[str, str]] = []
    pattern = fold(pattern)
    for glob, catalog in (*catalogs, ("*", DEFAULT_CATALOG)):
        folded = fold(glob)
        if not _may_meet(pattern, folded):
            continue
        found.append((glob, catalog))
        if _covers(folded, pattern):
            break
    while len(found) > 1 and found[-2][1] == found[-1][1]:
        del found[-2]
    return tuple(found)


def _literal(pattern: str) -> str:
    """What every name that matches begins with."""
    return pattern[: next((at for at, character in enumerate(pattern) if character in "*?["), len(pattern))]


def _may_meet(pattern: str, glob: str) -> bool:
    mine, theirs = _literal(pattern), _literal(glob)
    if mine == pattern:
        return fnmatchcase(pattern, glob)
    return mine.startswith(theirs) or theirs.startswith(mine)


def _covers(glob: str, pattern: str) -> bool:
    """Whether each name that matches the pattern certainly matches the glob."""
    if glob == pattern or _literal(pattern) == pattern:
        return True  # a name that a glob meets is matched by it
    return glob.endswith("*") and _literal(glob) == glob[:-1] and _literal(pattern).startswith(glob[:-1])
