"""A real broker that takes tokens of an identity provider, and lets no connection outlive its token.

In: a folder. Out: connection settings for a client of the provider, and the provider with its switches; with `msk` those for a
caller of AWS, whose signed tokens the broker takes as Amazon MSK does. The plain listener on loopback is the administrator's.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

from framework.adapters.host.java import find_java
from framework.local import stack
from framework.local.broker import HOST, free_port
from framework.local.jars import broker_jars
from testbed.servers.identity import AUDIENCE, IdentityProvider
from testbed.servers.msk import CLASS, MskTokens, with_validator
from tests.conftest import Broker

REGION, ACCESS_KEY, SECRET_KEY = "eu-central-1", "AKIATESTER", "not-in-any-log-of-aws"
CLIENT, SECRET = "floe", "not-in-any-log-of-brokers"
_CLASSES = "org.apache.kafka.common.security.oauthbearer"


class TokenBroker:
    """`plain` is the door past the tokens. A connection whose token has ended, and that brings no other, is closed."""

    def __init__(self, folder: Path, lifetime_s: float = 30.0, msk: bool = False) -> None:
        self.identity = IdentityProvider(folder / "identity", {CLIENT: SECRET}, lifetime_s)
        port, door, controller = (free_port() for _ in range(3))
        self.address = f"{HOST}:{door}"
        listeners = f"PLAINTEXT://{HOST}:{port},OAUTH://{self.address}"
        config = {
            "listeners": f"{listeners},CONTROLLER://{HOST}:{controller}",
            "advertised.listeners": listeners,
            "controller.quorum.voters": f"1@{HOST}:{controller}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,OAUTH:SASL_PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.oauth.oauthbearer.sasl.jaas.config": f"{_CLASSES}.OAuthBearerLoginModule required;",
            "listener.name.oauth.oauthbearer.sasl.server.callback.handler.class": (
                f"{_CLASSES}.OAuthBearerValidatorCallbackHandler"
            ),
            "listener.name.oauth.oauthbearer.connections.max.reauth.ms": "3600000",
            "sasl.oauthbearer.jwks.endpoint.url": self.identity.keys_uri,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        }
        self._state_dir = folder / "broker"
        self.msk = MskTokens({ACCESS_KEY: SECRET_KEY})
        if msk:
            name = "listener.name.oauth.oauthbearer.sasl"
            options = (
                f'asks="{self.msk.uri}" unsecuredLoginStringClaim_sub="broker"'  # a module with options logs in itself
            )
            config[f"{name}.jaas.config"] = f"{_CLASSES}.OAuthBearerLoginModule required {options};"
            config[f"{name}.server.callback.handler.class"] = CLASS
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.identity.keys_uri}"
        jars = with_validator(broker_jars(find_java(), print), folder) if msk else None
        with (
            patch.dict(os.environ, {"JAVA_TOOL_OPTIONS": allowed}),
            patch.object(stack, "broker_jars", lambda java, progress: jars) if msk else nullcontext(),
        ):
            state = stack.up(self._state_dir, kafka_port=port, broker_config=config)
        self.plain = Broker(self._state_dir, state.bootstrap_servers, config)

    def settings(self, secret: str = SECRET) -> dict[str, str]:
        """As a target writes them, in librdkafka's own words."""
        return {
            "bootstrap.servers": self.address,
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": self.identity.uri,
            "sasl.oauthbearer.client.id": CLIENT,
            "sasl.oauthbearer.client.secret": secret,
        }

    def msk_settings(self) -> dict[str, str]:
        """As they are after a target was read: `auth` with one name for each key."""
        return {
            "bootstrap.servers": self.address,
            "security.protocol": "sasl_plaintext",  # on loopback alone: floe's own is sasl_ssl
            "auth.type": "msk_iam",
            "auth.msk_iam.region": REGION,
        }

    def stop(self) -> None:
        stack.down(self._state_dir, wipe=True)
        self.msk.close()
        self.identity.close()
