"""Rules about addresses in a target: each has the form that its client takes, so that a slip is reported before a run begins.

In: a target's tree, its references resolved. Out: a diagnostic per violation. Values with a reference that is not
resolved here are passed over, and no address with a password is part of a message: that is refused elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from collections.abc import Mapping as ReadOnly
from urllib.parse import urlsplit

from framework.config.tree import Mapping, Path, Scalar, dotted, leaves
from framework.diagnose.diagnostic import Diagnostic
from framework.diagnose.secrets import is_secret_setting

_BROKER = re.compile(
    r"(?:(?:plaintext|ssl|sasl_plaintext|sasl_ssl)://)?(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?\Z",
    re.IGNORECASE,
)
_LOCATION = re.compile(r"(?:[a-z][a-z0-9+.-]*:/|/)\S*\Z")


def address_rules(target: Mapping, unresolved: frozenset[Path]) -> Iterator[Diagnostic]:
    """Addresses of brokers, catalogs, registries and the Pushgateway, and locations that `allow` names."""
    types = {path[:-1]: leaf.value for path, leaf in leaves(target) if path[-1:] == ("type",)}
    for path, leaf in leaves(target):
        form = _form(path, types)
        text = leaf.value
        if form is None or path in unresolved or not isinstance(text, str) or not text or "${" in text:
            continue
        is_right, right = form
        if not is_right(text):
            yield _wrong(leaf, path, right)


def _form(path: Path, types: ReadOnly[Path, object]) -> tuple[Callable[[str], bool], str] | None:
    """How the text at a place must look, and an example; None where any text may stand."""
    place, key = path[:2], path[-1]
    if place == ("connections", "kafka") and key in ("bootstrap.servers", "metadata.broker.list"):
        return _are_brokers, "`host:port`, and commas between several"
    if place == ("connections", "kafka") and key == "sasl.oauthbearer.token.endpoint.url":
        return _are_urls("http", "https"), "an address such as `https://login.example/token`"
    if place == ("connections", "registry") and key == "url":
        return _are_urls("http", "https"), "an address such as `http://registry:8081`"
    if place == ("connections", "catalog") and key == "uri":
        kind = types.get(path[:-1])
        if kind == "rest":
            return _are_urls("http", "https"), "an address such as `http://catalog:8181`"
        if kind == "hive":
            return _are_urls("thrift"), "an address such as `thrift://metastore:9083`"
        if kind == "sql":
            return _is_database, "an address such as `postgresql+psycopg2://host/catalog`"
    if place == ("connections", "catalog") and path[3:] == ("auth", "oauth2", "token_url"):
        return _are_urls("http", "https"), "an address such as `https://login.example/token`"
    if path == ("monitoring", "pushgateway"):
        return _are_urls("http", "https"), "an address such as `http://pushgateway:9091`"
    if path[:2] == ("allow", "locations"):
        return lambda text: bool(_LOCATION.match(text)), "a location with its scheme, such as `s3://bucket/lake`"
    return None


def _are_brokers(text: str) -> bool:
    found = [_BROKER.match(one.strip()) for one in text.split(",")]
    return all(one is not None and _is_port(one[1]) for one in found)


def _is_port(port: str | None) -> bool:
    return port is None or 0 < int(port) <= 65_535


def _are_urls(*schemes: str) -> Callable[[str], bool]:
    def are(text: str) -> bool:
        return all(_is_url(one.strip(), schemes) for one in text.split(","))

    return are


def _is_url(text: str, schemes: tuple[str, ...]) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, or a bracket that is not closed
        return False


def _is_database(text: str) -> bool:
    return re.match(r"[a-z][a-z0-9+_]*://", text) is not None


def _wrong(leaf: Scalar, path: Path, right: str) -> Diagnostic:
    text = str(leaf.value)
    shown = "the value" if is_secret_setting(str(path[-1]), text) else f"`{text}`"
    where = re.sub(r"\[[0-9]+\]", "[]", dotted(path))
    message = f"{shown} is no address for `{where}`"
    return Diagnostic("FLOE-C709", message, leaf.span, path=dotted(path), remedy=f"write {right}")
