"""Who owns a table: how its rows are written, and by which pipelines, as the table itself records it.

In: the text of the property `floe.owner`, and what a pipeline file says of the table. Out: the text to record, or why
the pipeline may not write the table, naming the owner. Tables that are appended to may have any number of writers; an
upsert table, a history and a table of dead letters have those alone that name it in their files with the same mode and
key. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

OWNER_PROPERTY = "floe.owner"
OWNED = "FLOE-D206"
_MOST_CHARACTERS = 10_000


class Use(str, Enum):
    """How a pipeline fills a table."""

    APPEND = "append"
    UPSERT = "upsert"
    HISTORY = "history"
    DEAD_LETTERS = "dead_letters"
    LOG_ARCHIVE = "log_archive"  # of coordinators, not of a pipeline


@dataclass(frozen=True)
class Claim:
    """What a pipeline file says of a table. `is_named`: it names the table as a whole; else a record takes part in
    the name."""

    pipeline: str
    use: Use
    key: tuple[str, ...]
    is_named: bool


@dataclass(frozen=True)
class Owner:
    """What a table records. `key` is in the order of the alphabet, empty unless rows are upserted."""

    use: Use
    key: tuple[str, ...]
    pipelines: tuple[str, ...]


class UnreadableOwner(ValueError):
    """The property holds what floe never wrote."""


def owner_of(properties: Mapping[str, str]) -> Owner | None:
    """None where no owner is recorded. Raises Unreadable."""
    text = properties.get(OWNER_PROPERTY)
    if text is None:
        return None
    if len(text) > _MOST_CHARACTERS:
        raise UnreadableOwner
    try:
        found = json.loads(text)
        owner = Owner(Use(found["mode"]), _texts(found.get("key", [])), _texts(found["pipelines"]))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UnreadableOwner from error
    if not owner.pipelines:
        raise UnreadableOwner
    return owner


def text_of(owner: Owner) -> str:
    """As the property says it."""
    key = {"key": owner.key} if owner.key else {}
    value = {"mode": owner.use.value, **key, "pipelines": owner.pipelines}
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def archive_owner() -> str:
    """What the table records that `log.archive` of a target names: no pipeline may write it."""
    return text_of(Owner(Use.LOG_ARCHIVE, (), ("log.archive",)))


def first_owner(claim: Claim) -> Owner:
    """Of a table that this pipeline makes, or takes over from nobody."""
    return Owner(claim.use, _sorted(claim.key), (claim.pipeline,))


def owner_after(claim: Claim, found: Owner | None, holds_rows: bool) -> Owner | None:
    """What the table shall record once the pipeline writes it; None where nothing is to be recorded.

    Args:
        holds_rows: the table holds rows of this pipeline by its recorded progress.
    """
    if found is None:
        return first_owner(claim) if claim.is_named or holds_rows else None
    if found.pipelines == (claim.pipeline,):
        return first_owner(claim)
    if claim.is_named and claim.pipeline not in found.pipelines and _is_same(claim, found):
        return Owner(found.use, found.key, tuple(sorted({*found.pipelines, claim.pipeline})))
    return found


def refusal(claim: Claim, found: Owner | None) -> str | None:
    """Why the pipeline may not write the table; None when it may."""
    if found is None or found.pipelines == (claim.pipeline,):
        return None
    if _is_same(claim, found) and (
        claim.is_named or claim.pipeline in found.pipelines or found.use in (Use.APPEND, Use.DEAD_LETTERS)
    ):
        return None
    if found.use is Use.LOG_ARCHIVE:
        return f"it keeps the control log, as `log.archive` of a target asks; pipeline {claim.pipeline} {_would(claim)}"
    names = ", ".join(found.pipelines)
    whose = f"pipeline{'s' if len(found.pipelines) > 1 else ''} {names}"
    return f"it belongs to {whose}, which {_does(found)}; pipeline {claim.pipeline} {_would(claim)}"


def _is_same(claim: Claim, found: Owner) -> bool:
    return claim.use is found.use and _sorted(claim.key) == found.key


def _does(owner: Owner) -> str:
    several = len(owner.pipelines) > 1
    if owner.use is Use.APPEND:
        return "append to it" if several else "appends to it"
    if owner.use is Use.UPSERT:
        return f"{'upsert' if several else 'upserts'} it by {', '.join(owner.key)}"
    what = "a history" if owner.use is Use.HISTORY else "dead letters"
    return f"{'keep' if several else 'keeps'} {what} in it"


def _would(claim: Claim) -> str:
    if claim.use is Use.APPEND:
        return "would append to it"
    if claim.use is Use.UPSERT:
        return f"would upsert it by {', '.join(claim.key)}"
    return f"would keep {'a history' if claim.use is Use.HISTORY else 'dead letters'} in it"


def _sorted(key: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(key))


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) and each.isprintable() for each in value):
        raise ValueError
    return tuple(sorted(value))
