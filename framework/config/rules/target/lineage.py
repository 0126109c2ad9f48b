"""Rules about where a target's lineage events go: to one place, over http or https, and no token over a line that is read.

In: a target's tree, resolved. Out: a diagnostic per violation. No value of a secret is part of a message.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from framework.config.rules.target.monitoring import is_loopback
from framework.config.tree import Mapping, Node, Scalar, find
from framework.diagnose.diagnostic import Diagnostic
from framework.diagnose.suggest import did_you_mean

_WAYS = ("file", "http", "kafka")
_SCHEMES = ("http", "https")


def lineage_rules(resolved: Mapping) -> Iterator[Diagnostic]:
    """One way out, an address that has a form, a connection that is there, and the token not in clear."""
    lineage = resolved.get("lineage")
    if not isinstance(lineage, Mapping):
        return
    given = [way for way in _WAYS if lineage.get(way) is not None]
    if len(given) != 1:
        said = f"{' and '.join(given)} are named" if given else "neither a file, an address nor a topic is named"
        yield _nowhere(
            f"lineage events go to one place, and {said}", lineage, "lineage", "give one of `file`, `http`, `kafka`"
        )
    http, token = lineage.get("http"), lineage.get("token")
    if isinstance(http, Scalar) and isinstance(http.value, str) and "${" not in http.value:
        yield from _address(http, token is not None)
    elif token is not None and http is None:
        yield _nowhere("a token is for `http` alone", token, "lineage.token", "remove it")
    yield from _connection(resolved, lineage)


def _address(http: Scalar, has_token: bool) -> Iterator[Diagnostic]:
    try:
        parts = urlsplit(str(http.value))
        host, _ = parts.hostname, parts.port
    except ValueError:
        parts, host = urlsplit(""), None
    if parts.scheme not in _SCHEMES or not host:
        remedy = "write `https://HOST:PORT/api/v1/lineage`"
        yield _nowhere("this is no address of http or https", http, "lineage.http", remedy)
    elif parts.scheme == "http" and has_token and not is_loopback(host):
        yield Diagnostic(
            "FLOE-C711",
            "the token would go to another machine over http, which everybody on the way can read",
            http.span,
            path="lineage.http",
            remedy="use https, or remove the token",
        )


def _connection(resolved: Mapping, lineage: Mapping) -> Iterator[Diagnostic]:
    known = find(resolved, ("connections", "kafka"))
    kafka = lineage.get("kafka")
    if not isinstance(known, Mapping) or not isinstance(kafka, Mapping):
        return
    named = kafka.get("connection")
    names = [name for name in known.keys if not name.startswith("x-")]
    if named is None and len(names) != 1 and "main" not in names:
        remedy = f"add `connection`: {', '.join(names)}"
        yield _nowhere("it is not said which Kafka connection the topic is on", kafka, "lineage.kafka", remedy)
    elif (
        isinstance(named, Scalar)
        and isinstance(named.value, str)
        and "${" not in named.value
        and named.value not in names
    ):
        hint = did_you_mean(named.value, names) or f"name one of {', '.join(names)}"
        path = "lineage.kafka.connection"
        yield _nowhere(f"the target has no Kafka connection `{named.value}`", named, path, hint)


def _nowhere(message: str, node: Node, path: str, remedy: str) -> Diagnostic:
    return Diagnostic("FLOE-C710", message, node.span, path=path, remedy=remedy)
