"""Rules about settings of other systems in a target: the client knows each of them, and takes its value.

In: a target's tree, its references resolved. Out: a diagnostic per violation. A client passes over a setting that it
does not know, or stops when the pipeline starts; here it is reported before. No value is part of a message: it may be a
secret. What `allow.settings` names is let through.
"""

from __future__ import annotations

from collections.abc import Iterator

from framework.config.rules.target.catalog_auth import AUTH, SSL
from framework.config.rules.target.connections import JAVA_KAFKA, OWN_KAFKA
from framework.config.settings.known import MASTERS, Client, client, is_let_through, is_master
from framework.config.tree import Entry, Mapping, Node, Path, Scalar, Sequence, dotted, find
from framework.diagnose.diagnostic import Diagnostic
from framework.diagnose.suggest import listed, nearest

_CLIENTS = {"kafka": "librdkafka", "catalog": "pyiceberg"}
# Settings of Iceberg's Java catalogs, and PyIceberg's for the same; "" where there is nothing to set.
_JAVA_CATALOG = {
    "catalog-impl": "py-catalog-impl",
    "io-impl": "",
    "s3.path-style-access": "s3.force-virtual-addressing, which says the opposite",
    "clients": "",
    "cache-enabled": "",
    "include-credentials": "",
}
# What floe itself reads from a catalog's settings.
OWN_CATALOG = frozenset({"rest.client.connection-timeout-ms", "rest.client.socket-timeout-ms", "catalog-name"})


def known_settings(target: Mapping, unresolved: frozenset[Path]) -> Iterator[Diagnostic]:
    """Each setting of a connection and of Spark is one that its client knows, with a value that it takes."""
    allowed = _allowed(target)
    for kind, name in _CLIENTS.items():
        for connection in _entries(target, ("connections", kind)):
            path = ("connections", kind, connection.key)
            if not connection.key.startswith("x-"):
                yield from _settings(target, path, client(name), allowed, unresolved)
    if _entries(target, ("spark", "conf")):
        yield from _settings(target, ("spark", "conf"), client("spark"), allowed, unresolved)
    yield from _master(find(target, ("spark", "master")), unresolved)


def _settings(
    target: Mapping, place: Path, known: Client, allowed: tuple[str, ...], unresolved: frozenset[Path]
) -> Iterator[Diagnostic]:
    for entry in _entries(target, place):
        path = (*place, entry.key)
        if entry.key == AUTH or (known.name == "PyIceberg" and _is_of_a_mapping(entry.key)):
            continue  # with rules of its own
        if is_let_through(entry.key, allowed) or (known.name == "PyIceberg" and entry.key in OWN_CATALOG):
            continue
        if not known.knows(entry.key):
            if known.name != "librdkafka" or entry.key not in {**OWN_KAFKA, **JAVA_KAFKA}:
                yield _unknown(entry, path, known)
        elif isinstance(entry.value, Scalar) and path not in unresolved:
            yield from _value(entry, entry.value, path, known)


def _is_of_a_mapping(key: str) -> bool:
    return key == SSL or key.startswith((f"{AUTH}.", f"{SSL}."))


def _unknown(entry: Entry, path: Path, known: Client) -> Diagnostic:
    guess = _JAVA_CATALOG.get(entry.key) if known.name == "PyIceberg" else None
    if guess is not None:
        message = f"`{entry.key}` is a setting of Iceberg's Java catalogs; connections hold PyIceberg's"
        return Diagnostic(
            "FLOE-C704",
            message,
            entry.key_span,
            path=dotted(path),
            remedy=f"use {guess}" if guess else "remove it",
        )
    like = known.like(entry.key)
    return Diagnostic(
        "FLOE-C704",
        f"{known.name} {known.version} knows no setting `{entry.key}`",
        entry.key_span,
        path=dotted(path),
        hint=f"did you mean `{like}`?" if like else None,
        remedy=f'correct the name, or let it through: `allow: {{settings: ["{entry.key}"]}}`',
    )


def _value(entry: Entry, value: Scalar, path: Path, known: Client) -> Iterator[Diagnostic]:
    text = str(value.value).lower() if isinstance(value.value, bool) else str(value.value)
    taken = None if "${" in text else known.allowed(entry.key, text)
    if taken is not None:
        like = known.word_like(entry.key, text)
        yield Diagnostic(
            "FLOE-C705",
            f"{known.name} does not take this value for `{entry.key}`",
            value.span,
            path=dotted(path),
            hint=f"did you mean `{like}`?" if like else None,
            remedy=f"write {taken}",
        )


def _master(master: Node | None, unresolved: frozenset[Path]) -> Iterator[Diagnostic]:
    path: Path = ("spark", "master")
    if not isinstance(master, Scalar) or not isinstance(master.value, str) or path in unresolved:
        return
    if "${" in master.value or not master.value or is_master(master.value):
        return
    like = nearest(master.value, ("local", "yarn"))
    yield Diagnostic(
        "FLOE-C706",
        f"Spark knows no master `{master.value}`",
        master.span,
        path=dotted(path),
        hint=f"did you mean `{like}`?" if like else None,
        remedy=f"write {listed(MASTERS)}",
    )


def _allowed(target: Mapping) -> tuple[str, ...]:
    node = find(target, ("allow", "settings"))
    items = node.items if isinstance(node, Sequence) else ()
    return tuple(str(item.value) for item in items if isinstance(item, Scalar))


def _entries(target: Mapping, path: Path) -> tuple[Entry, ...]:
    node = find(target, path)
    return node.entries if isinstance(node, Mapping) else ()
