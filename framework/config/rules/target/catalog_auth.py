"""Rules about `auth` and `ssl` of a REST catalog: the way in is one that a text can describe, and nothing that is written is
passed over.

In: a target's tree, its references resolved. Out: a diagnostic per violation. Nothing in a file may import code, so a way that
names a class is refused by name, whatever `allow.settings` says. No value of a secret is part of a message.
"""

from __future__ import annotations

from collections.abc import Iterator

from framework.config.schema.document_schema import resolved
from framework.config.tree import Entry, Mapping, Path, Scalar, dotted, find
from framework.diagnose.diagnostic import Diagnostic
from framework.diagnose.suggest import listed

AUTH, SSL = "auth", "ssl"
_CATALOGS: Path = ("connections", "catalog")
# Settings that PyIceberg reads only without `auth`.
_WITHOUT_AUTH = ("credential", "token", "oauth2-server-uri", "scope", "audience", "resource")
_EXAMPLES = {
    AUTH: 'auth: {type: oauth2, oauth2: {client_id: ..., client_secret: "${secret:env:NAME}", token_url: ...}}',
    SSL: "ssl: {cabundle: /path/ca.pem, client: {cert: /path/tls.crt, key: /path/tls.key}}",
}
_INSTEAD = {
    AUTH: "remove it; the settings of this kind name who asks",
    SSL: "remove it; the address of this kind (`uri`) says how TLS is spoken",
}
_REMEDIES = {
    "custom": (
        'write `auth: {type: basic, basic: {username: ..., password: "${secret:env:NAME}"}}`, or `oauth2` with'
        " `client_id`, `client_secret` and `token_url`"
    ),
    "legacyoauth2": "remove `auth`, and write `credential`, `oauth2-server-uri` and `scope` beside the catalog's `type`",
}


def auth_rules(target: Mapping, unresolved: frozenset[Path]) -> Iterator[Diagnostic]:
    """What the schema cannot say of `auth`."""
    catalogs = find(target, _CATALOGS)
    for catalog in catalogs.entries if isinstance(catalogs, Mapping) else ():
        if isinstance(catalog.value, Mapping) and not catalog.key.startswith("x-"):
            yield from _of_catalog(catalog.value, (*_CATALOGS, catalog.key), unresolved)


def _of_catalog(settings: Mapping, place: Path, unresolved: frozenset[Path]) -> Iterator[Diagnostic]:
    for entry in settings.entries:
        for mapping, example in _EXAMPLES.items():
            if entry.key.startswith(f"{mapping}."):
                message = f"`{entry.key}` is written flat, and PyIceberg reads `{mapping}` as a mapping"
                yield _wrong(message, entry, (*place, entry.key), f"write `{example}`")
    for mapping in _EXAMPLES:
        yield from _only_for_rest(settings, mapping, place, unresolved)
    given = settings.entry(AUTH)
    if given is None or not isinstance(given.value, Mapping) or any(_only_for_rest(settings, AUTH, place, unresolved)):
        return
    for name in _WITHOUT_AUTH:
        if (other := settings.entry(name)) is not None:
            message = f"`{name}` is not read beside `auth`"
            yield _wrong(message, other, (*place, name), "remove it, or remove `auth`")
    yield from _way(given.value, (*place, AUTH), unresolved)


def _only_for_rest(settings: Mapping, name: str, place: Path, unresolved: frozenset[Path]) -> Iterator[Diagnostic]:
    given, kind = settings.entry(name), settings.get("type")
    if given is None or not isinstance(given.value, Mapping):
        return
    if isinstance(kind, Scalar) and kind.value != "rest" and (*place, "type") not in unresolved:
        message = f"`{name}` is for REST catalogs, and this one is `{kind.value}`"
        yield _wrong(message, given, (*place, name), _INSTEAD[name])
    elif settings.get("py-catalog-impl") is not None:
        message = f"`{name}` is for PyIceberg's own REST catalog, and `py-catalog-impl` names another class"
        yield _wrong(message, given, (*place, name), "remove one of the two")


def _way(auth: Mapping, place: Path, unresolved: frozenset[Path]) -> Iterator[Diagnostic]:
    written = auth.entry("type")
    if written is None or not isinstance(written.value, Scalar) or (*place, "type") in unresolved:
        return
    way, schema = str(written.value.value), _schema()
    if way == "legacyoauth2":
        message = "`legacyoauth2` is what PyIceberg does without `auth`, and cannot be written in it"
        yield _wrong(message, Entry("type", written.value.span, written.value), (*place, "type"), _REMEDIES[way])
        return
    if way == "custom" or "." in way:
        message = f"`{way}` stands for a class that is imported, and nothing in a file may import code"
        yield _wrong(message, Entry("type", written.value.span, written.value), (*place, "type"), _REMEDIES["custom"])
        return
    ways = schema["properties"]["type"]["enum"]
    if way not in ways:
        return
    needed = schema["properties"].get(way, {}).get("required", [])
    missing = f"`{way}:` with {listed(needed, 'and')}" if needed and auth.get(way) is None else ""
    others = [entry for entry in auth.entries if entry.key in ways and entry.key != way]
    for entry in others:
        instead = f"put {missing} in its place" if missing else "remove it"
        message = f"`{entry.key}` is not read, since `type` is `{way}`"
        yield _wrong(message, entry, (*place, entry.key), f"write `type: {entry.key}`, or {instead}")
    if missing and not others:
        message = f"`type` is `{way}`, and there is no `{way}` beside it"
        yield Diagnostic("FLOE-C713", message, written.value.span, path=dotted((*place, way)), remedy=f"add {missing}")


def _schema() -> dict[str, dict[str, dict[str, list[str]]]]:
    connections = resolved("target")["properties"]["connections"]["properties"]
    found: dict[str, dict[str, dict[str, list[str]]]] = connections["catalog"]["additionalProperties"]["properties"][
        AUTH
    ]
    return found


def _wrong(message: str, entry: Entry, path: Path, remedy: str) -> Diagnostic:
    return Diagnostic("FLOE-C713", message, entry.key_span, path=dotted(path), remedy=remedy)
