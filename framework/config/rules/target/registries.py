"""Rules about schema registries in a target: what is written about TLS and credentials is what the client reads.

In: a target's tree, its references resolved. Out: a diagnostic per violation. A client passes over a key without its
certificate, and over certificates where no TLS is; then the registry refuses the pipeline once it runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from framework.config.tree import Mapping, Path, Scalar, dotted, find
from framework.diagnose.diagnostic import Diagnostic

_CERTIFICATE, _KEY, _CA = "ssl.certificate.location", "ssl.key.location", "ssl.ca.location"
_REGION, _ACCESS, _SECRET = "glue.region", "glue.access-key-id", "glue.secret-access-key"
NAMES_REGION = re.compile(r"https://glue(?:-fips)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/?")
_OF_GLUE = (_REGION, _ACCESS, _SECRET, "glue.session-token")
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

    if (kind := registry.get("type")) is not None and (*place, "type") in unresolved:
        return
    if isinstance(kind, Scalar) and kind.value == "glue":
        yield from _glue(registry, place, unresolved, wrong)
        return
    for key in _OF_GLUE:
        if registry.entry(key):
            yield wrong(key, f"`{key}` is read for `type: glue` alone", "add `type: glue`, or remove it")
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


def _glue(
    registry: Mapping, place: Path, unresolved: frozenset[Path], wrong: Callable[[str, str, str], Diagnostic]
) -> Iterator[Diagnostic]:
    for key in (_BASIC, _BEARER, _CERTIFICATE, _KEY):
        if registry.entry(key):
            yield wrong(key, f"`{key}` is not read for `type: glue`, which signs its requests", "remove it")
    for key, other in ((_ACCESS, _SECRET), (_SECRET, _ACCESS)):
        if registry.entry(key) and not registry.entry(other):
            yield wrong(key, f"`{key}` is half of a key, and `{other}` is missing", f"add `{other}`")
    url = registry.get("url")
    if isinstance(url, Scalar) and (*place, "url") not in unresolved:
        if "," in str(url.value):
            yield wrong("url", "AWS Glue has one address", "remove the others")
        elif not registry.entry(_REGION) and not NAMES_REGION.fullmatch(str(url.value)):
            yield wrong("url", "this address names no region of AWS", f"add `{_REGION}`")
