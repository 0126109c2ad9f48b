"""Rules about tokens of a Kafka connection: somebody gives them, and nothing that is written beside `auth` is passed over.

In: a target's tree, its references resolved. Out: a diagnostic per violation. No value is part of a message.
"""

from __future__ import annotations

from collections.abc import Iterator

from framework.config.rules.target.catalog_auth import AUTH
from framework.config.tree import Entry, Mapping, Path, Scalar, dotted, find
from framework.diagnose.diagnostic import Diagnostic

_CONNECTIONS: Path = ("connections", "kafka")
_PROTOCOL, _SASL = "security.protocol", ("sasl.", "enable.sasl.")
_MECHANISMS = ("sasl.mechanism", "sasl.mechanisms")
_GIVERS = ("sasl.oauthbearer.method", "enable.sasl.oauthbearer.unsecure.jwt")


def token_rules(target: Mapping, unresolved: frozenset[Path]) -> Iterator[Diagnostic]:
    """What the schema cannot say of a connection's tokens."""
    connections = find(target, _CONNECTIONS)
    for connection in connections.entries if isinstance(connections, Mapping) else ():
        if isinstance(connection.value, Mapping) and not connection.key.startswith("x-"):
            place = (*_CONNECTIONS, connection.key)
            if connection.value.entry(AUTH) is not None:
                yield from _beside(connection.value, place, unresolved)
            else:
                yield from _without_giver(connection.value, place, unresolved)


def _beside(settings: Mapping, place: Path, unresolved: frozenset[Path]) -> Iterator[Diagnostic]:
    for entry in settings.entries:
        if entry.key.startswith(_SASL):
            message = f"`{entry.key}` is not read beside `auth`, which makes the tokens itself"
            yield _wrong(message, entry, (*place, entry.key), "remove it, or remove `auth`")
        elif entry.key == _PROTOCOL and (*place, entry.key) not in unresolved and not _text(entry).startswith("sasl_"):
            message = f"`{entry.key}` sends no tokens, and `auth` makes them"
            yield _wrong(message, entry, (*place, entry.key), "write sasl_ssl, or remove it")


def _without_giver(settings: Mapping, place: Path, unresolved: frozenset[Path]) -> Iterator[Diagnostic]:
    """Without either librdkafka would sign nothing, and say so with the first request alone."""
    if any(settings.entry(key) is not None for key in _GIVERS):
        return
    for key in _MECHANISMS:
        entry = settings.entry(key)
        if entry is not None and (*place, key) not in unresolved and _text(entry) == "oauthbearer":
            message = f"`{key}` asks for tokens, and nothing says who gives them"
            remedy = "add `sasl.oauthbearer.method: oidc` with its client and its token endpoint"
            yield _wrong(message, entry, (*place, key), remedy)


def _text(entry: Entry) -> str:
    return str(entry.value.value).lower() if isinstance(entry.value, Scalar) else ""


def _wrong(message: str, entry: Entry, path: Path, remedy: str) -> Diagnostic:
    return Diagnostic("FLOE-C713", message, entry.key_span, path=dotted(path), remedy=remedy)
