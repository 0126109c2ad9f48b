"""What every Kafka client of floe shares: its settings, its log and the translation of its errors.

In: a connection's settings (librdkafka's own keys, secrets resolved) and what a role needs on top. Out: a configuration
for one client, and FloeErrors that name the address and the remedy. Settings that the protocol depends on are floe's
alone: a connection that sets one is refused by name, never overridden in silence.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from framework.adapters.kafka.tokens import (
    ACQUIRING,
    giver_of,
    makes_tokens,
    no_collection,
    no_token,
    plain_settings,
    takes_tokens,
    token_of,
    token_refused,
)
from framework.errors import FloeError, RetriableError, SetupError

CONNECT_TIMEOUT_S = 8.0
Client = TypeVar("Client")

# Librdkafka's own messages go where the program's log goes; in a program without one they are not printed.
logger = logging.getLogger("framework.kafka")
logger.addHandler(logging.NullHandler())

# The protocol depends on these; each is set by the role that needs it.
OWNED = frozenset(
    {
        "acks",
        "request.required.acks",
        "allow.auto.create.topics",
        "auto.offset.reset",
        "delivery.timeout.ms",
        "message.timeout.ms",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.idempotence",
        "enable.partition.eof",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "heartbeat.interval.ms",
        "isolation.level",
        "max.poll.interval.ms",
        "partition.assignment.strategy",
        "session.timeout.ms",
        "transaction.timeout.ms",
        "transactional.id",
    }
)

# Librdkafka asks again after ten seconds.
_TOKEN_LATELY_S = 25.0
_LOCAL = frozenset({"127.0.0.1", "localhost", "[::1]"})

SILENT = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._TRANSPORT,
        KafkaError._WAIT_COORD,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.REQUEST_TIMED_OUT,
    }
)
# What the metadata of a client that is not up to date leads to, while a leader or a coordinator moves: asked anew, the
# broker answers. Kafka calls each of these retriable; of most of them `KafkaError.retriable()` says False, since it
# speaks of transactions alone.
STALE = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.LISTENER_NOT_FOUND,
        KafkaError.NOT_CONTROLLER,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError._NOENT,  # "no leaders found": what the client last heard of the topic is out of date
        KafkaError._NODE_UPDATE,
        KafkaError._OUTDATED,
        KafkaError._WAIT_COORD,
    }
)
# All that passes by itself: by Kafka's own table of errors, and what librdkafka says of its connections.
PASSING = STALE | {
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._DESTROY_BROKER,
    KafkaError._INTR,
    KafkaError._ISR_INSUFF,
    KafkaError._PREV_IN_PROGRESS,
    KafkaError._IN_PROGRESS,
    KafkaError._RETRY,
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._TRANSPORT,
    KafkaError._WAIT_CACHE,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.CONCURRENT_TRANSACTIONS,
    KafkaError.FETCH_SESSION_ID_NOT_FOUND,
    KafkaError.INVALID_FETCH_SESSION_EPOCH,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.REBOOTSTRAP_REQUIRED,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.STALE_BROKER_EPOCH,
    KafkaError.THROTTLING_QUOTA_EXCEEDED,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
}
_CREDENTIALS = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED})
_FORBIDDEN = frozenset(
    {
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)


class ClientLog:
    """Takes a client's own log and errors: the newest error explains a time-out, and nothing is written to stderr."""

    def __init__(self) -> None:
        self.newest = ""
        self.refused = False
        """Whether a broker answered but did not take the credentials or the kind of connection."""
        self._why_no_token = ""
        self._no_token_at_s = -math.inf

    def on_error(self, error: KafkaError) -> None:
        # "All brokers are down" follows the error that says why; keep the one that explains.
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self.newest = error.str()
            # A TLS handshake with a plain listener is a mere disconnection by its code.
            self.refused = error.code() in _CREDENTIALS or "SSL" in error.str()
            if error.str().startswith(ACQUIRING):
                self._why_no_token, self._no_token_at_s = self._why_no_token or error.str(), time.monotonic()

    @property
    def no_token(self) -> str:
        """Why there is no token, where the client has said so of late: a broker's refusal of the old one follows from it."""
        return self._why_no_token if time.monotonic() - self._no_token_at_s < _TOKEN_LATELY_S else ""

    def gives_token_of(self, settings: Mapping[str, str]) -> Callable[[str], tuple[str, float]]:
        """What librdkafka calls for each token of a connection whose tokens floe makes."""

        def give(_: str) -> tuple[str, float]:
            with no_collection:
                try:
                    token = token_of(settings)
                except SetupError as error:
                    self._why_no_token = error.message
                    raise
                self._why_no_token = ""
                return token.value, token.ends_at_s

        return give


def build(kind: Callable[[dict[str, Any]], Client], settings: Mapping[str, str], config: dict[str, Any]) -> Client:
    """Make a client.

    Raises:
        SetupError: librdkafka does not know a setting or its value; or FLOE-E115, there is no token for the broker.
    """
    if makes_tokens(settings):
        token_of(settings)  # an error that says why, before librdkafka waits for a token
    try:
        return kind(config)
    except KafkaException as raised:
        raise SetupError(
            f"a setting of the Kafka connection is wrong: {error_of(raised).str()}",
            place=address_of(settings),
            remedy="correct it in the target file; the keys are librdkafka's (CONFIGURATION.md)",
        ) from raised


def address_of(settings: Mapping[str, str]) -> str:
    return settings.get("bootstrap.servers", "no bootstrap.servers")


def client_config(settings: Mapping[str, str], log: ClientLog, **role: str | int | bool) -> dict[str, Any]:
    """Configuration of one client.

    Args:
        settings: the connection's settings.
        role: what the role needs, with `_` for `.` in the keys; these win over librdkafka's defaults.

    Raises:
        SetupError: the connection sets a key that the protocol owns, or has no `bootstrap.servers`.
    """
    owned = sorted(OWNED & settings.keys())
    if owned:
        raise SetupError(
            f"the Kafka connection sets {', '.join(owned)}, which the protocol must set itself",
            code="FLOE-E104",
            place=address_of(settings),
            remedy="remove the key from the connection in the target file",
        )
    if not settings.get("bootstrap.servers"):
        raise SetupError(
            "the Kafka connection has no bootstrap.servers",
            code="FLOE-E105",
            remedy="set bootstrap.servers in the connection of the target file",
        )
    config: dict[str, Any] = {"client.id": "floe", "reconnect.backoff.max.ms": 1000}
    config.update(plain_settings(settings))
    if makes_tokens(settings):
        config["oauth_cb"] = log.gives_token_of(settings)
    config.update({key.replace("_", "."): value for key, value in role.items()})
    config["error_cb"] = log.on_error
    config["logger"] = logger
    return config


def consumer_config(
    settings: Mapping[str, str], log: ClientLog, group_id: str, **role: str | int | bool
) -> dict[str, Any]:
    """Configuration of a consumer that reads committed records only, commits nothing by itself and never jumps.

    `auto.offset.reset=error`: the default leaps from a lost offset to the log's end without a word.
    """
    fixed: dict[str, str | int | bool] = {
        "group_id": group_id,
        "isolation_level": "read_committed",
        "auto_offset_reset": "error",
        "enable_auto_commit": False,
        "enable_auto_offset_store": False,
        "enable_partition_eof": True,
        "allow_auto_create_topics": False,
        # What is fetched ahead. The default, 64 MiB, is what each reading of a long control log leaves in the process.
        "queued_max_messages_kbytes": 4 * 1024,
    }
    return client_config(settings, log, **(fixed | role))


def error_of(raised: KafkaException) -> KafkaError:
    """The KafkaError inside; some client methods raise a plain text instead."""
    inner = raised.args[0] if raised.args else None
    return inner if isinstance(inner, KafkaError) else KafkaError(KafkaError._FAIL, str(raised))


def is_passing(error: KafkaError) -> bool:
    """Whether the same request may well succeed a moment later."""
    return error.code() in PASSING or error.retriable()


def setup_error(error: KafkaError, settings: Mapping[str, str], log: ClientLog, doing: str) -> FloeError:
    """What a failed request means to a person.

    Returns:
        SetupError FLOE-E101 (unreachable), FLOE-E102 (credentials), FLOE-E115 (tokens), FLOE-E103 (not permitted); RetriableError
        FLOE-R120 for what passes by itself; FloeError FLOE-R121 for the rest.
    """
    address, code = address_of(settings), error.code()
    if code in _CREDENTIALS or (code in SILENT and (log.refused or log.no_token)):
        why = log.newest or error.str()
        if log.no_token or why.startswith(ACQUIRING):
            return no_token(settings, doing, log.no_token or why)
        if takes_tokens(settings) and "SSL" not in why:
            return token_refused(settings, address, doing, why)
        return SetupError(
            f"the broker refused the connection while {doing}: {why}",
            code="FLOE-E102",
            place=address,
            remedy="check security.protocol, sasl.* and ssl.* of the connection in the target file",
        )
    if code in _FORBIDDEN:
        return SetupError(
            f"not permitted while {doing}: {error.str()}",
            code="FLOE-E103",
            place=address,
            remedy="allow this operation for this principal; `floe doctor FILE` lists what it needs",
        )
    if code in SILENT:
        return SetupError(
            f"no answer from Kafka while {doing}: {log.newest or error.str()}",
            code="FLOE-E101",
            place=address,
            remedy=unreachable_remedy(settings),
        )
    if is_passing(error):
        return RetriableError(f"Kafka failed for now while {doing}: {error.str()}", code="FLOE-R120", place=address)
    return FloeError(
        f"Kafka refused a request while {doing}: {error.str()}",
        code="FLOE-R121",
        place=address,
        remedy="a topic that it needs is gone: `floe doctor FILE` says which"
        if code in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)
        else "the broker's log says more about this error",
    )


def unreachable_remedy(settings: Mapping[str, str]) -> str:
    giver = giver_of(settings)
    if giver:
        return f"check that {giver} gives tokens, bootstrap.servers, and that this machine can reach both"
    hosts = {server.rsplit(":", 1)[0].strip() for server in address_of(settings).split(",")}
    if hosts <= _LOCAL:
        return "`floe local up` starts the local broker; otherwise check bootstrap.servers of the target file"
    return "check bootstrap.servers of the target file, and that this machine can reach that address"
