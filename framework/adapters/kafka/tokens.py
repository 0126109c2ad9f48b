"""Tokens for brokers that take OAUTHBEARER: who gives them, and those that floe makes itself, of AWS's IAM for MSK.

In: a connection's settings as text, secrets resolved. Out: settings that librdkafka takes, tokens with their ends, and errors
that name who gave none. Tokens of an OpenID provider are librdkafka's own work; it asks for them on a thread of its own, and
on such a thread it asks floe, too.
"""

from __future__ import annotations

import gc
import logging
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from framework.errors import SetupError

NO_TOKEN = "FLOE-E115"
ACQUIRING = "Failed to acquire SASL OAUTHBEARER token"  # how librdkafka begins, whoever gives the tokens
_AUTH, _MSK = "auth.", "auth.msk_iam."
_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_KEYS = ("region", "profile", "role_arn", "session_name")
_PACKAGE = "aws-msk-iam-sasl-signer-python"
# A token is handed out in the first half of its life: librdkafka renews it at 80 % of what is left, and brings it to the
# broker again at 90 %. Between the two must be more than the second in which it looks once.
_RENEWED_AFTER = 0.5
_TRIED_AGAIN_AFTER_S = 5.0
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class BrokerToken:
    """Both times are seconds since 1970."""

    value: str
    renew_at_s: float
    ends_at_s: float


def makes_tokens(settings: Mapping[str, str]) -> bool:
    """Whether floe makes the tokens of the connection."""
    return f"{_AUTH}type" in settings


def takes_tokens(settings: Mapping[str, str]) -> bool:
    mechanism = settings.get("sasl.mechanism", settings.get("sasl.mechanisms", ""))
    return makes_tokens(settings) or mechanism.upper() == "OAUTHBEARER"


def plain_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """What librdkafka takes of a connection."""
    if not makes_tokens(settings):
        return dict(settings)
    own = {"security.protocol": "sasl_ssl", "sasl.mechanism": "OAUTHBEARER"}
    return own | {key: value for key, value in settings.items() if not key.startswith(_AUTH)}


def giver_of(settings: Mapping[str, str]) -> str:
    """Who gives the tokens, as a place; empty where the connection does not say it."""
    if makes_tokens(settings):
        return f"AWS IAM, {settings.get(f'{_MSK}region', 'no region')}"
    return settings.get(_ENDPOINT, "")


def no_token(settings: Mapping[str, str], doing: str, why: str) -> SetupError:
    """No broker was asked yet: whoever gives the tokens gave none."""
    remedy = (
        "check that this machine reaches it, and sasl.oauthbearer.client.id, client.secret and scope of the connection"
    )
    if makes_tokens(settings):
        remedy = "check AWS's credentials where floe runs (`aws sts get-caller-identity`), and `auth` of the connection"
    elif not giver_of(settings):
        remedy = "set sasl.oauthbearer.method to oidc, with its client.id, client.secret and token.endpoint.url"
    reason = why.removeprefix(ACQUIRING).lstrip(": ")
    return SetupError(
        f"no token for Kafka was given while {doing}: {reason}", code=NO_TOKEN, place=giver_of(settings), remedy=remedy
    )


def token_refused(settings: Mapping[str, str], address: str, doing: str, why: str) -> SetupError:
    """A broker did not take a token that it was brought: it is none of this cluster's, or it has ended."""
    giver = giver_of(settings)
    return SetupError(
        f"the broker did not take the token while {doing}: {why}",
        code=NO_TOKEN,
        place=address,
        remedy=f"compare what {giver or 'the provider'} puts into tokens (issuer, audience, scope, `sub`) with what the broker "
        "asks for, and the clocks of both",
    )


_made: dict[tuple[int, frozenset[tuple[str, str]]], BrokerToken] = {}
_making = threading.Lock()


class NoCollection:
    """While any thread is inside of it, Python collects no garbage. librdkafka asks for a token in a thread of the client's
    own, and aborts the process if that thread ends the client: a client in a ring of objects that nobody refers to would
    be ended wherever Python happens to collect it. Nothing is made before the collection is off, for that could start one."""

    def __init__(self) -> None:
        self._begin()
        os.register_at_fork(after_in_child=self._after_fork)

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._was_on = gc.isenabled()
                gc.disable()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and self._was_on:
                gc.enable()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._inside, self._was_on = 0, True

    def _after_fork(self) -> None:
        """The threads that were inside are not in the child."""
        if self._inside and self._was_on:
            gc.enable()
        self._begin()


no_collection = NoCollection()


def token_of(settings: Mapping[str, str]) -> BrokerToken:
    """The token of this process for the connection, made anew ahead of its end. Safe for threads.

    Raises:
        SetupError: FLOE-E115, none can be made, and the old one has ended.
    """
    key = (os.getpid(), frozenset((name, value) for name, value in settings.items() if name.startswith(_AUTH)))
    with _making:
        old = _made.get(key)
        if old is not None and time.time() < old.renew_at_s:
            return old
        try:
            _made[key] = _of_msk(settings)
        except SetupError as error:
            if old is None or time.time() >= old.ends_at_s:
                raise
            logger.warning("%s", error.message)
            _made[key] = replace(old, renew_at_s=min(old.ends_at_s, time.time() + _TRIED_AGAIN_AFTER_S))
        return _made[key]


def _of_msk(settings: Mapping[str, str]) -> BrokerToken:
    doing = "asking AWS's signer"
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as signer
    except ImportError as error:
        missing = no_token(settings, doing, f"a package is missing: {_PACKAGE}")
        missing.remedy = f"pip install {_PACKAGE}, where the driver and the executors run"
        raise missing from error
    try:
        value, ends_at_ms = _signed(signer, {name: settings.get(f"{_MSK}{name}", "") for name in _KEYS})
    except Exception as error:  # of botocore, which has no common root, or of whatever a profile starts
        # The signer meets missing credentials as an attribute of None.
        said = "no credentials were found" if isinstance(error, AttributeError) else type(error).__name__
        raise no_token(settings, doing, said) from None
    now, ends_at_s = time.time(), ends_at_ms / 1000
    return BrokerToken(value, now + (ends_at_s - now) * _RENEWED_AFTER, ends_at_s)


def _signed(signer: Any, given: Mapping[str, str]) -> tuple[str, int]:
    """Token and its end in milliseconds since 1970."""
    region = given["region"]
    if given["role_arn"]:
        found = signer.generate_auth_token_from_role_arn(region, given["role_arn"], given["session_name"] or "floe")
    elif given["profile"]:
        found = signer.generate_auth_token_from_profile(region, given["profile"])
    else:
        found = signer.generate_auth_token(region)
    return str(found[0]), int(found[1])
