"""A real broker with TLS, SCRAM users, client certificates and an authorizer that denies what is not granted.

In: a folder. Out: connection settings for a user by password or by certificate, and doors to grant and to revoke. The
plain listener on loopback is the administrator's.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from framework.local import stack
from framework.local.broker import HOST, free_port
from framework.plan.grants.kafka import Grant
from testbed.servers.certificates import Authority
from tests.conftest import Broker

OPERATIONS = {
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
    "Create": AclOperation.CREATE,
    "Describe": AclOperation.DESCRIBE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
}
RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}


class SecuredBroker:
    """`admin` is the plain door, with all rights; everybody else has what was granted."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder / "certificates")
        port, scram, mutual, controller = (free_port() for _ in range(4))
        self._scram, self._mutual = f"{HOST}:{scram}", f"{HOST}:{mutual}"
        plain = f"PLAINTEXT://{HOST}:{port},SCRAM://{self._scram},MTLS://{self._mutual}"
        config = {
            "listeners": f"{plain},CONTROLLER://{HOST}:{controller}",
            "advertised.listeners": plain,
            "controller.quorum.voters": f"1@{HOST}:{controller}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SCRAM:SASL_SSL,MTLS:SSL",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.scram.scram-sha-512.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.authority.bundle("broker")),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.certificate),
            "listener.name.mtls.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        }
        self._state_dir = folder / "broker"
        state = stack.up(self._state_dir, kafka_port=port, broker_config=config)
        self.plain = Broker(self._state_dir, state.bootstrap_servers, config)
        self.admin = AdminClient({"bootstrap.servers": state.bootstrap_servers})

    def stop(self) -> None:
        stack.down(self._state_dir, wipe=True)

    def password_user(self, name: str, password: str) -> dict[str, str]:
        """Makes a SCRAM user and returns the settings of a connection; the password is not in them."""
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion(name, info, password.encode())
        for future in self.admin.alter_user_scram_credentials([change]).values():
            future.result(10)
        return {
            "bootstrap.servers": self._scram,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": name,
            "ssl.ca.location": str(self.authority.certificate),
        }

    def certificate_user(self, name: str) -> dict[str, str]:
        """Issues a client certificate and returns the settings of a connection."""
        certificate, key = self.authority.issue(name)
        return {
            "bootstrap.servers": self._mutual,
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.authority.certificate),
            "ssl.certificate.location": str(certificate),
            "ssl.key.location": str(key),
        }

    def grant(self, user: str, grants: Iterable[Grant]) -> None:
        for future in self.admin.create_acls([_binding(user, grant) for grant in grants]).values():
            future.result(10)

    def revoke(self, user: str, grants: Iterable[Grant]) -> None:
        filters = [AclBindingFilter(*_binding_fields(user, grant)) for grant in grants]
        for future in self.admin.delete_acls(filters).values():
            assert future.result(10), "there was no such grant"

    def grants_of(self, user: str) -> int:
        """How many grants the user has."""
        every = AclBindingFilter(
            *(ResourceType.ANY, None, ResourcePatternType.ANY, f"User:{user}", None),
            *(AclOperation.ANY, AclPermissionType.ANY),
        )
        return len(self.admin.describe_acls(every).result(10))


def _binding(user: str, grant: Grant) -> AclBinding:
    return AclBinding(*_binding_fields(user, grant))


def _binding_fields(user: str, grant: Grant) -> tuple[object, ...]:
    pattern = ResourcePatternType.PREFIXED if grant.prefixed else ResourcePatternType.LITERAL
    resource, operation = RESOURCES[grant.resource.value], OPERATIONS[grant.operation]
    return (resource, grant.name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
