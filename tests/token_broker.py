"""A real broker that takes tokens of an identity provider, and lets no connection outlive its token.

In: a folder. Out: connection settings for a client of the provider, and the provider with its switches. The plain listener on
loopback is the administrator's.
"""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import patch

from framework.local import stack
from framework.local.broker import HOST, free_port
from testbed.servers.identity import AUDIENCE, IdentityProvider
from tests.conftest import Broker

CLIENT, SECRET = "floe", "not-in-any-log-of-brokers"
_CLASSES = "org.apache.kafka.common.security.oauthbearer"


class TokenBroker:
    """`plain` is the door past the tokens. A connection whose token has ended, and that brings no other, is closed."""

    def __init__(self, folder: Path, lifetime_s: float = 30.0) -> None:
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
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.identity.keys_uri}"
        with patch.dict(os.environ, {"JAVA_TOOL_OPTIONS": allowed}):
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

    def stop(self) -> None:
        stack.down(self._state_dir, wipe=True)
        self.identity.close()
