"""How the clients of a sink log in to their brokers, in a target's words.

In: settings of Kafka's Java clients. Out: settings of a connection, and which of the first they stand for. Invariant: no password
and no secret of a client is copied; a reference to the environment takes its place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_MECHANISM, _JAAS, _ENDPOINT = "sasl.mechanism", "sasl.jaas.config", "sasl.oauthbearer.token.endpoint.url"
_HANDLERS = frozenset({"sasl.client.callback.handler.class", "sasl.login.callback.handler.class"})
# Kafka's own names since 4.1, which need no JAAS.
_CLIENT_ID, _SECRET = (f"sasl.oauthbearer.client.credentials.client.{name}" for name in ("id", "secret"))
_SCOPE = "sasl.oauthbearer.scope"
_OPTION = re.compile(r"""(?<![\w.])([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s;]+))""")
_REGION = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com")
_MSK_OPTIONS = {"awsProfileName": "profile", "awsRoleArn": "role_arn", "awsRoleSessionName": "session_name"}
_EXTENSION = "extension_"
_PASSWORDS = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})


def login_of(settings: Mapping[str, str]) -> tuple[dict[str, Any], frozenset[str]]:
    """The connection's settings for a login, and the given ones that they say; nothing for a way that floe has not."""
    jaas = settings.get(_JAAS, "")
    options = {name: value or quoted or bare for name, value, quoted, bare in _OPTION.findall(jaas)}
    mechanism = settings.get(_MECHANISM, "").upper()
    named = " ".join((jaas, *(settings.get(name, "") for name in sorted(_HANDLERS))))
    if mechanism == "AWS_MSK_IAM" or "IAMLoginModule" in named or "IAMOAuthBearerLogin" in named:
        return _msk(settings, options), frozenset({_MECHANISM, _JAAS, *_HANDLERS})
    if mechanism == "OAUTHBEARER":
        return _openid(settings, options) if settings.get(_ENDPOINT) else ({}, frozenset())
    if mechanism and mechanism not in _PASSWORDS:
        return {}, frozenset()
    given: dict[str, Any] = {_MECHANISM: settings[_MECHANISM]} if mechanism else {}
    if re.search(r"(Plain|Scram)LoginModule", jaas):
        # librdkafka has the user's name and the password by themselves.
        given |= {"sasl.username": "${secret:env:KAFKA_USERNAME}", "sasl.password": "${secret:env:KAFKA_PASSWORD}"}
        return given, frozenset({_MECHANISM, _JAAS})
    return given, frozenset(given)


def _msk(settings: Mapping[str, str], options: Mapping[str, str]) -> dict[str, Any]:
    found = _REGION.search(settings.get("bootstrap.servers", ""))
    of_iam = {"region": found[1] if found else "${env:AWS_REGION}"}
    of_iam |= {ours: options[theirs] for theirs, ours in _MSK_OPTIONS.items() if options.get(theirs)}
    return {"auth": {"type": "msk_iam", "msk_iam": of_iam}}


def _openid(settings: Mapping[str, str], options: Mapping[str, str]) -> tuple[dict[str, Any], frozenset[str]]:
    client, scope = (
        settings.get(name) or options.get(option, "") for name, option in ((_CLIENT_ID, "clientId"), (_SCOPE, "scope"))
    )
    given = {
        _MECHANISM: "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        _ENDPOINT: settings[_ENDPOINT],
        "sasl.oauthbearer.client.id": client or "${env:KAFKA_CLIENT_ID}",
        "sasl.oauthbearer.client.secret": "${secret:env:KAFKA_CLIENT_SECRET}",
    }
    extensions = {
        name.removeprefix(_EXTENSION): value for name, value in options.items() if name.startswith(_EXTENSION)
    }
    if scope:
        given[_SCOPE] = scope
    if extensions:
        given["sasl.oauthbearer.extensions"] = ",".join(f"{name}={value}" for name, value in extensions.items())
    return given, frozenset({_MECHANISM, _JAAS, _ENDPOINT, _CLIENT_ID, _SECRET, _SCOPE, *_HANDLERS})
