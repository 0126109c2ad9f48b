"""Lineage events as records of a Kafka topic, which must be there.

In: one event as JSON, and the job that it is about, which is the record's key. Out: the broker has it, or an error. A
producer of its own, without transactions: nothing of the protocol waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.client import ClientLog, address_of, build, client_config, error_of, setup_error
from framework.errors import SetupError

SEND_TIMEOUT_S = 5.0


class TopicSink:
    """Sends one event after another, and waits for each."""

    def __init__(self, settings: Mapping[str, str], topic: str, timeout_s: float = SEND_TIMEOUT_S) -> None:
        """
        Raises:
            SetupError: there is no such topic, or the broker does not answer.
        """
        self._settings = dict(settings)
        self._topic = topic
        self._timeout_s = timeout_s
        self._log = ClientLog()
        config = client_config(
            settings,
            self._log,
            acks="all",
            compression_type="zstd",
            linger_ms=0,
            message_timeout_ms=int(timeout_s * 1000),
        )
        if topic not in KafkaAdmin(settings).topics([topic]):  # a producer would have some brokers make it
            raise SetupError(
                f"there is no topic {topic}",
                code="FLOE-E110",
                place=address_of(self._settings),
                remedy="create it, or correct `lineage.kafka.topic` of the target",
            )
        self._producer = build(Producer, settings, config)

    def send(self, key: str, event: bytes) -> None:
        """Deliver one event.

        Raises:
            FloeError: it was not delivered.
        """
        failed: list[KafkaError] = []

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failed.append(error)

        try:
            self._producer.produce(self._topic, event, key=key.encode(), on_delivery=on_delivery)
            self._producer.flush(self._timeout_s + 1)
        except KafkaException as raised:
            failed.append(error_of(raised))
        if failed:
            raise setup_error(failed[0], self._settings, self._log, f"writing to the topic {self._topic}")

    def close(self) -> None:
        self._producer.flush(0)
