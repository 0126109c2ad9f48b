"""What a REST catalog's server may say of its catalog and its stores, and the keys that it lends for one table.

In: settings as a server sent them, and the target's own. Out: those that are on the lists below; the others are ignored
and named in the log once. Invariant: nothing that a server sends names code, a file, a proxy, an identity or another
catalog, and no key of the target goes to a host that the target does not name.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

_LOG = logging.getLogger(__name__)

# By store, who asks. A server lends these, and what it lends takes the place of all of the target's for the same store.
_KEYS: dict[str, frozenset[str]] = {
    "s3": frozenset(
        f"{prefix}.{key}" for prefix in ("s3", "client") for key in ("access-key-id", "secret-access-key", "session-token")
    ),
    "gcs": frozenset({"gcs.oauth2.token"}),
    "adls": frozenset({"adls.account-key", "adls.sas-token", "adls.token"}),
}  # fmt: skip
_SAS = "adls.sas-token."  # and an account
# When keys end, in milliseconds since 1970.
_ENDS = ("s3.session-token-expires-at-ms", "gcs.oauth2.token-expires-at", "adls.sas-token-expires-at-ms.")
_REGIONS = frozenset({"client.region", "s3.region"})
# By store, where it is.
_WHERE: dict[str, frozenset[str]] = {
    "s3": frozenset({"s3.endpoint", "s3.force-virtual-addressing"}),
    "gcs": frozenset({"gcs.service.host"}),
    "adls": frozenset(
        {"adls.account-host", "adls.account-name", "adls.blob-storage-authority", "adls.blob-storage-scheme",
         "adls.dfs-storage-authority", "adls.dfs-storage-scheme"}
    ),
}  # fmt: skip
# How the catalog itself is asked.
_CATALOG = frozenset({"namespace-separator", "prefix", "rest-page-size", "view-endpoints-supported"})
_URI = "uri"
_SIGNS = "s3.remote-signing-enabled"
# Keys that do not say when they end, and those whose end lies far away, are asked for again after this time.
_KEPT_S = 300.0
_KEPT_WITHOUT_END_S = 30.0


class ServerSettings:
    """What is taken of one server, by the target's settings of its catalog. Safe for threads.

    Args:
        own: the target's settings, secrets resolved.
        places: where the target lets tables have files; empty: as the server says.
    """

    def __init__(self, own: Mapping[str, Any], places: Collection[str] = ()) -> None:
        self._own = dict(own)
        self._places = tuple(places)
        self._named: set[str] = set()
        self._lock = threading.Lock()
        self.of_catalog: dict[str, Any] = {}  # what was taken of `/v1/config`
        self._signs = False

    def with_config(self, merged: Mapping[str, Any]) -> dict[str, Any]:
        """The catalog's settings: the target's, and what is taken of those that its server merged with them."""
        sent = {key: value for key, value in merged.items() if key not in self._own or self._own[key] != value}
        self._signs = _is_true(sent.get(_SIGNS))
        taken = self._taken(sent, _CATALOG)
        if self._is_same_server(sent.get(_URI)):
            taken[_URI] = sent[_URI]
        self.of_catalog = {key: value for key, value in taken.items() if key not in _CATALOG and key != _URI}
        self._name(sent.keys() - taken.keys())
        return with_lent(self._own, taken)

    def of_table(self, *sent: Mapping[str, Any]) -> dict[str, Any]:
        """What is taken of what came with one table, the later before the earlier."""
        merged = {key: value for part in sent for key, value in part.items()}
        taken = self._taken(merged)
        self._name(merged.keys() - taken.keys())
        return taken

    def wants_to_sign(self, *sent: Mapping[str, Any]) -> bool:
        """Whether the server signs each request of a table's store itself, and neither lends keys nor has the target any."""
        merged = {**self._own, **self.of_catalog, **{key: value for part in sent for key, value in part.items()}}
        return (self._signs or _is_true(merged.get(_SIGNS))) and not _KEYS["s3"] & merged.keys()

    def _taken(self, sent: Mapping[str, Any], more: Collection[str] = ()) -> dict[str, Any]:
        where = {key for store in _WHERE if self._may_say_where(store) for key in _WHERE[store]}
        known = {*more, *_REGIONS, *where, *(key for keys in _KEYS.values() for key in keys)}
        return {
            key: value
            for key, value in sent.items()
            if isinstance(value, str | int | float | bool) and (key in known or key.startswith((_SAS, *_ENDS)))
        }

    def _may_say_where(self, store: str) -> bool:
        """Where the target names no place, no address of the store and no keys for it, the server is trusted with all of
        them."""
        return not self._places and not (_KEYS[store] | _WHERE[store]) & self._own.keys()

    def _is_same_server(self, uri: Any) -> bool:
        found = _origin(uri)
        return found is not None and found == _origin(self._own.get(_URI))

    def _name(self, ignored: Collection[str]) -> None:
        with self._lock:
            new = sorted(set(ignored) - self._named)
            self._named.update(new)
        if new:
            # Names alone: what a server sends may be a secret.
            _LOG.warning("the catalog's server sends settings that floe does not take of it: %s", ", ".join(new))


@dataclass(frozen=True)
class Lent:
    """What came with a table when it was loaded: settings of its store, keys among them.

    Args:
        loaded_at_s: by the monotonic clock.
        lives_s: how long the keys were good for then; None where nobody says.
    """

    settings: Mapping[str, Any]
    loaded_at_s: float
    lives_s: float | None

    @property
    def has_keys(self) -> bool:
        return bool(_stores_of(self.settings))

    def is_worn(self, now_s: float) -> bool:
        """Whether a task that begins now is to have new keys: half of their life is over. A clock that is wrong by some
        minutes makes long lives longer, so that none of these counts for much."""
        kept_s = _KEPT_WITHOUT_END_S if self.lives_s is None else min(self.lives_s / 2, _KEPT_S)
        return self.has_keys and now_s - self.loaded_at_s >= kept_s


def lent(settings: Mapping[str, Any], now_ms: int, now_s: float) -> Lent:
    """What came with a table that is loaded now, by the wall clock in milliseconds and the monotonic one in seconds."""
    ends_ms = _end_ms(settings)
    return Lent(settings, now_s, None if ends_ms is None else (ends_ms - now_ms) / 1000)


def has_ended(settings: Mapping[str, Any], now_ms: int) -> bool:
    """Whether these are settings with keys that were lent, and whose time is over by the wall clock."""
    ends_ms = _end_ms(settings)
    return ends_ms is not None and ends_ms <= now_ms


def says_no_end(settings: Mapping[str, Any]) -> bool:
    """Whether these are settings with keys of which nobody says when their time is over."""
    return bool(_stores_of(settings)) and _end_ms(settings) is None


def _end_ms(settings: Mapping[str, Any]) -> int | None:
    """When the first of the keys ends; None where nobody says."""
    ends = [int(value) for key, value in settings.items() if key.startswith(_ENDS) and str(value).isdigit()]
    return min(ends, default=None)


def with_lent(own: Mapping[str, Any], taken: Mapping[str, Any]) -> dict[str, Any]:
    """A target's settings with those of a server: keys of two owners are never mixed for one store."""
    dropped = {key for store in _stores_of(taken) for key in own if _is_key_of(store, key)}
    return {key: value for key, value in own.items() if key not in dropped} | dict(taken)


def without_keys(settings: Mapping[str, Any], borrowed: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without the keys of those stores for which others were lent."""
    stores = _stores_of(borrowed)
    return {key: value for key, value in settings.items() if not any(_is_key_of(store, key) for store in stores)}


def _stores_of(settings: Mapping[str, Any]) -> set[str]:
    return {store for store in _KEYS for key in settings if _is_key_of(store, key)}


def _is_key_of(store: str, key: str) -> bool:
    return key in _KEYS[store] or (store == "adls" and key.startswith(_SAS))


def _is_true(value: Any) -> bool:
    return str(value).strip().lower() == "true"


def _origin(uri: Any) -> tuple[str, str, int | None] | None:
    try:
        parts = urlsplit(uri) if isinstance(uri, str) else None
        if parts is None or not parts.hostname:
            return None
        return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None
