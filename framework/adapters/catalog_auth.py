"""`auth` and `ssl` of a REST catalog: from a target's flat settings to the mappings that PyIceberg's REST client takes.

In: settings as text, secrets resolved, those of `auth` by `auth.WAY.KEY`, those of `ssl` by `ssl.KEY`. Out: PyIceberg's
properties. Only the ways that are listed here are handed on, since PyIceberg takes any other word for a class to import.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

# By way: what is no text to PyIceberg.
_NUMBERS: dict[str, Callable[[str], Any]] = {"refresh_margin": int, "expires_in": int}
_WAYS: dict[str, dict[str, Callable[[str], Any]]] = {
    "noop": {},
    "basic": {},
    "oauth2": _NUMBERS,
    "google": {"scopes": str.split},
    "entra": {"scopes": str.split},
}
# What PyIceberg needs beside itself, as it names it.
EXTRAS = {"google": "gcp-auth", "entra": "entra-auth"}
_TYPE = "auth.type"
_CLIENT = "ssl.client."


def way_of(settings: Mapping[str, str]) -> str | None:
    """How a catalog learns who asks; None where its settings have no `auth`."""
    return settings.get(_TYPE)


def with_mappings(settings: Mapping[str, str]) -> dict[str, Any]:
    """The settings with `auth` and `ssl` as PyIceberg reads them.

    Raises:
        ValueError: a way that is not listed, or a number that is none.
    """
    plain: dict[str, Any] = {key: value for key, value in settings.items() if not key.startswith(("auth.", "ssl."))}
    if certificates := _certificates(settings):
        plain["ssl"] = certificates
    way = way_of(settings)
    if way is None:
        return plain
    if way not in _WAYS:
        raise ValueError(f"`auth.type` is none of {', '.join(_WAYS)}")
    begin, kinds = f"auth.{way}.", _WAYS[way]
    given = {key.removeprefix(begin): value for key, value in settings.items() if key.startswith(begin)}
    plain["auth"] = {"type": way, way: {key: kinds.get(key, str)(value) for key, value in given.items()}}
    return plain


def _certificates(settings: Mapping[str, str]) -> dict[str, Any]:
    authorities = {"cabundle": settings["ssl.cabundle"]} if "ssl.cabundle" in settings else {}
    client = {key.removeprefix(_CLIENT): value for key, value in settings.items() if key.startswith(_CLIENT)}
    return authorities | ({"client": client} if client else {})
