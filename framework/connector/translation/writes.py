"""How an Iceberg sink of Kafka Connect changes rows, as `write` of a pipeline file's tables.

In: the connector's settings and the tables that it writes. Out: `write` of the defaults and of each table with a key of
its own, or what cannot be said. The sink writes equality deletes; floe finds the old row instead, so what readers see
is the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from framework.config.units import COLUMN
from framework.connector.translation.untranslatable import Untranslatable

UPSERT_MODE = "iceberg.tables.upsert-mode-enabled"
CHANGE_FIELDS = ("iceberg.tables.cdc-field", "iceberg.tables.cdc.field")
DEFAULT_KEY = "iceberg.tables.default-id-columns"
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")


@dataclass(frozen=True)
class Unsayable:
    """A setting that no pipeline file can say, and what can be done."""

    key: str
    message: str
    remedy: str = ""


@dataclass(frozen=True)
class Writes:
    """`tables` are (table, `write`) pairs; `notes` are (key, sentence) pairs of what is not quite the same, `caveats`
    what is the same for some records only."""

    defaults: dict[str, Any]
    tables: tuple[tuple[str, dict[str, Any]], ...]
    taken: frozenset[str]
    notes: tuple[tuple[str, str], ...]
    caveats: tuple[Untranslatable, ...] = ()


def writes_of(
    settings: Mapping[str, str], tables: Sequence[str], deletes_when: str | None = None
) -> Writes | Unsayable:
    """How the sink's tables are written; empty for one that only adds rows.

    Args:
        deletes_when: what the field of changes holds in a record that deletes; the sink goes by its first letter alone.
    """
    change_key = next((key for key in CHANGE_FIELDS if settings.get(key)), None)
    upserts = settings.get(UPSERT_MODE, "").strip().lower() == "true"
    taken = {UPSERT_MODE, *CHANGE_FIELDS} & set(settings)
    if not upserts and change_key is None:
        return Writes({}, (), frozenset(taken), ())
    own_keys = {table: f"iceberg.table.{table}.id-columns" for table in tables}
    taken |= {key for key in (DEFAULT_KEY, *own_keys.values()) if key in settings}
    found = {key: _columns(settings.get(key, "")) for key in (DEFAULT_KEY, *own_keys.values())}
    for key, columns in found.items():
        wrong = next((column for column in columns if not _COLUMN.match(column)), None)
        if wrong is not None:
            return Unsayable(key, f"`{wrong}` is no column at the top of a table, and a key is made of those")
    # One of a table's own that is empty stands in the way of the default.
    keys = {table: found[own if own in settings else DEFAULT_KEY] for table, own in own_keys.items()}
    lacking = next((table for table in tables if not keys[table]), None)
    if lacking is not None:
        message = f"the sink takes the key of `{lacking}` from the identifier fields of the table, and floe needs it in the file"
        remedy = f"add `{own_keys[lacking]}` with the columns that identify a row"
        return Unsayable(change_key or UPSERT_MODE, message, remedy)
    if unfit := _unfit(settings, tables):
        return unfit
    deletes: dict[str, Any] = {}
    notes = []
    caveats: list[Untranslatable] = []
    if change_key is not None:
        if re.fullmatch(COLUMN, settings[change_key]) is None:
            return Unsayable(change_key, f"`{settings[change_key]}` is not a field's name")
        if deletes_when is None:
            message = "the sink deletes where its value begins with `d` or `D`, and floe needs the exact value"
            return Unsayable(change_key, message, "give it: `--delete-value D`, as the records have it")
        if not deletes_when.strip().lower().startswith("d"):
            return Unsayable(
                change_key, f"the sink does not delete where it is `{deletes_when}`", "correct `--delete-value`"
            )
        deletes = {"delete_when": {"field": settings[change_key], "equals": deletes_when}}
        notes.append((change_key, f"a record deletes where the field is `{deletes_when}`, and in no other spelling"))
        caveats.append(
            Untranslatable(
                change_key,
                "the sink keeps both rows where a key is inserted twice, and floe keeps the newer one",
                "if no key is inserted twice, `--allow-partial` writes the file, with a TODO to check that",
            )
        )
    notes.append(
        (
            change_key or UPSERT_MODE,
            "tables that the sink has written hold equality deletes: compact them before floe writes them; and if a table is "
            "partitioned by a column that changes, the sink has left old rows in their old partitions",
        )
    )
    default = found[DEFAULT_KEY]
    write = {"mode": "upsert", **({"key": default} if default else {}), **deletes}
    own = tuple((table, {"key": found[own_keys[table]]}) for table in tables if found[own_keys[table]])
    if not default:
        # Without a key for all tables the defaults stay as they are: the dead-letter table has them, too.
        return Writes(
            {}, tuple((table, {**write, **key}) for table, key in own), frozenset(taken), tuple(notes), tuple(caveats)
        )
    return Writes(write, own, frozenset(taken), tuple(notes), tuple(caveats))


def _unfit(settings: Mapping[str, str], tables: Sequence[str]) -> Unsayable | None:
    """What else the sink says that an upsert table cannot have."""
    branches = ("iceberg.tables.default-commit-branch", *(f"iceberg.table.{table}.commit-branch" for table in tables))
    for key in branches:
        if settings.get(key, "main") not in ("", "main"):
            return Unsayable(key, "an upsert table is written on the branch `main`", "remove the key")
    version = "iceberg.tables.auto-create-props.format-version"
    if settings.get(version) == "1":
        return Unsayable(version, "tables of format version 1 cannot be upserted", "use 2 or 3")
    return None


def _columns(text: str) -> list[str]:
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
