"""Rules about schema registries in a target: what is written about TLS and credentials is what the client reads.

In: a target's tree, its references resolved. Out: a diagnostic per violation. A client passes over a key without its
certificate, and over certificates where no TLS is; then the registry refuses the pipeline once it runs.
"""

from __future__ import annotations

from collections.abc import Iterator

from framework.config.tree import Mapping, Path, Scalar, dotted, find
from framework.diagnose.diagnostic import Diagnostic

_CERTIFICATE, _KEY, _CA = "ssl.certificate.location", "ssl.key.location", "ssl.ca.location"
_BASIC, _BEARER = "basic.auth.user.info", "bearer.auth.token"


def registry_rules(target: Mapping, unresolved: frozenset[Path]) -> Iterator[Diagnostic]:
    """Each registry's settings go together."""
    registries = find(target, ("connections", "registry"))
    for registry in registries.entries if isinstance(registries, Mapping) else ():
        if isinstance(registry.value, Mapping) and not registry.key.startswith("x-"):
            yield from _one(registry.value, ("connections", "registry", registry.key), unresolved)


def _one(registry: Mapping, place: Path, unresolved: frozenset[Path]) -> Iterator[Diagnostic]:
    def wrong(key: str, message: str, remedy: str) -> Diagnostic:
        entry = registry.entry(key)
        assert entry is not None
        return Diagnostic("FLOE-C713", message, entry.key_span, path=dotted((*place, key)), remedy=remedy)

    if registry.entry(_KEY) and not registry.entry(_CERTIFICATE):
        yield wrong(_KEY, f"`{_KEY}` is the key of a certificate, and there is none", f"add `{_CERTIFICATE}`")
    if registry.entry(_BASIC) and registry.entry(_BEARER):
        yield wrong(_BEARER, f"`{_BEARER}` beside `{_BASIC}`: one of them is sent", "remove one of them")
    url = registry.get("url")
    if not isinstance(url, Scalar) or (*place, "url") in unresolved:
        return
    plain = [one.strip() for one in str(url.value).split(",") if one.strip().startswith("http://")]
    for key in (_CA, _CERTIFICATE):
        if plain and registry.entry(key):
            yield wrong(key, f"`{key}` is for TLS, and an address under `url` has none", "write `https://`")
            return
