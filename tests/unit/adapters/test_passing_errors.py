"""Which of Kafka's errors pass by themselves: by Kafka's own table of error codes, and by what librdkafka says of its
own. A code that neither this page nor floe knows fails the test, so that a new version is looked at."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from framework.adapters.kafka.client import PASSING, STALE, ClientLog, is_passing, setup_error
from framework.errors import FloeError, RetriableError, SetupError

# https://kafka.apache.org/protocol#protocol_error_codes, those with "retriable: True", by number.
RETRIABLE = {
    2,
    3,
    5,
    6,
    7,
    9,
    13,
    14,
    15,
    16,
    19,
    20,
    41,
    51,
    56,
    70,
    71,
    72,
    74,
    75,
    78,
    80,
    83,
    88,
    89,
    100,
    103,
    122,
    123,
}
# Retriable to Kafka, and for floe something else.
NOT_BY_ITSELF = {
    2: "a damaged record: librdkafka asks again, and what stays damaged is a finding",
    3: "the topic may be gone; its id decides (invariant 11)",
    100: "the topic was made anew (invariant 11)",
    103: "the topic was made anew (invariant 11)",
    122: "sessions of share groups, which floe has none of",
    123: "sessions of share groups, which floe has none of",
}
# Not retriable to Kafka, and over as soon as the client has looked around.
BY_ITSELF = {
    8: "a broker that is starting or stopping",
    27: "a group that is changing hands",
    77: "a broker that has just registered anew",
    129: "the client begins anew with its first addresses",
}


def codes(own: bool) -> dict[str, int]:
    """The constants of the client; librdkafka's own are negative."""
    found = {name: getattr(KafkaError, name) for name in dir(KafkaError)}
    return {
        n: code for n, code in found.items() if isinstance(code, int) and n.isupper() and (code < -1) == own and code
    }


def test_a_brokers_code_passes_where_kafka_says_so() -> None:
    """Each code that Kafka calls retriable passes, but for those with a reason, and no other."""
    passing = {code for name, code in codes(own=False).items() if code in PASSING}
    assert passing == (RETRIABLE & set(codes(own=False).values())) - NOT_BY_ITSELF.keys() | BY_ITSELF.keys()


PASSES_IN_LIBRDKAFKA = [
    "_ALL_BROKERS_DOWN",
    "_DESTROY_BROKER",
    "_INTR",
    "_IN_PROGRESS",
    "_ISR_INSUFF",
    "_NODE_UPDATE",
    "_NOENT",
    "_OUTDATED",
    "_PREV_IN_PROGRESS",
    "_RETRY",
    "_TIMED_OUT",
    "_TIMED_OUT_QUEUE",
    "_TRANSPORT",
    "_WAIT_CACHE",
    "_WAIT_COORD",
]
LASTS_IN_LIBRDKAFKA = [
    "_APPLICATION",
    "_ASSIGNMENT_LOST",
    "_ASSIGN_PARTITIONS",
    "_AUTHENTICATION",
    "_AUTO_OFFSET_RESET",
    "_BAD_COMPRESSION",
    "_BAD_MSG",
    "_CONFLICT",
    "_CRIT_SYS_RESOURCE",
    "_DESTROY",
    "_EXISTING_SUBSCRIPTION",
    "_FAIL",
    "_FATAL",
    "_FENCED",
    "_FS",
    "_GAPLESS_GUARANTEE",
    "_INCONSISTENT",
    "_INVALID_ARG",
    "_INVALID_DIFFERENT_RECORD",
    "_INVALID_TYPE",
    "_KEY_DESERIALIZATION",
    "_KEY_SERIALIZATION",
    "_LOG_TRUNCATION",
    "_MAX_POLL_EXCEEDED",
    "_MSG_TIMED_OUT",
    "_NOOP",
    "_NOT_CONFIGURED",
    "_NOT_IMPLEMENTED",
    "_NO_OFFSET",
    "_PARTIAL",
    "_PARTITION_EOF",
    "_PURGE_INFLIGHT",
    "_PURGE_QUEUE",
    "_QUEUE_FULL",
    "_READ_ONLY",
    "_RESOLVE",
    "_REVOKE_PARTITIONS",
    "_SSL",
    "_STATE",
    "_UNDERFLOW",
    "_UNKNOWN_BROKER",
    "_UNKNOWN_GROUP",
    "_UNKNOWN_PARTITION",
    "_UNKNOWN_PROTOCOL",
    "_UNKNOWN_TOPIC",
    "_UNSUPPORTED_FEATURE",
    "_VALUE_DESERIALIZATION",
    "_VALUE_SERIALIZATION",
]


def test_every_code_of_librdkafka_was_judged() -> None:
    """A new version with a code that is on neither list fails here."""
    own = codes(own=True)
    assert sorted(own) == sorted(PASSES_IN_LIBRDKAFKA + LASTS_IN_LIBRDKAFKA)
    assert {name for name, code in own.items() if code in PASSING} == set(PASSES_IN_LIBRDKAFKA)


@pytest.mark.parametrize("code", sorted(PASSING), ids=lambda code: KafkaError(code).name())
def test_what_passes_ends_no_run(code: int) -> None:
    """It is an error that is tried again, or a broker that does not answer, which is waited for."""
    error = KafkaError(code)
    assert is_passing(error)
    reported = setup_error(error, {"bootstrap.servers": "broker:9092"}, ClientLog(), "reading")
    assert isinstance(reported, RetriableError) or (isinstance(reported, SetupError) and reported.code == "FLOE-E101")


def test_what_lasts_is_reported_as_such() -> None:
    """A request that the broker does not take is no passing trouble."""
    reported = setup_error(
        KafkaError(KafkaError.INVALID_CONFIG), {"bootstrap.servers": "broker:9092"}, ClientLog(), "asking"
    )
    assert isinstance(reported, FloeError)
    assert not isinstance(reported, RetriableError)
    assert reported.code == "FLOE-R121"
    assert STALE <= PASSING
