"""The values of control records as events, and what a person let pass.

In: one record's offset and value. Out: its event; None where it holds none for us. A record that is no event of floe is
passed over, since no announcement can look like it. One that is named like an event and cannot be read stops whoever
reads, with its offset, unless a `Skipped` further on in the log lets it pass: no announcement is left out but by a
person's word.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.client import ClientLog, build, consumer_config, error_of, setup_error
from framework.commit.events.codec import NO_EVENT, decode, foreign, is_of_type
from framework.commit.events.event_types import ControlEvent, Skipped
from framework.errors import FloeError

SKIPPED_GROUP_ID = "floe-skipped-reader"
TIMEOUT_S = 30.0


class ControlRecords:
    """Decodes the records of one control topic. `only` is the type of events that are wanted; others are given as None,
    without being decoded."""

    def __init__(self, settings: Mapping[str, str], topic: str, only: str | None = None) -> None:
        self._settings = dict(settings)
        self._topic = topic
        self._only = only

    def event(self, offset: int, value: bytes | None) -> ControlEvent | None:
        """The event of one record.

        Raises:
            FloeError: FLOE-R202, it is named like an event, cannot be read, and nobody let it pass.
        """
        if self._only is not None and not is_of_type(value or b"", self._only):
            return None
        try:
            return decode(value)
        except FloeError as error:
            if offset in skipped_offsets(self._settings, self._topic, offset + 1):
                return None
            raise FloeError(
                f"the record at offset {offset} of control topic {self._topic} cannot be read: "
                f"{error.message.removeprefix(NO_EVENT)}",
                code=error.code,
                place=f"{self._topic}, offset {offset}",
                remedy=f"if a newer floe wrote it, use that version. `floe log --from {offset}` shows the record; if it is "
                f"not an announcement, `floe log --skip {offset}` skips it",
            ) from error

    @staticmethod
    def unreadable(value: bytes | None) -> str:
        """Why a record holds no event that can be read, in words; "" where it does."""
        try:
            decode(value)
        except FloeError as error:
            return error.message
        return foreign(value)


def skipped_offsets(settings: Mapping[str, str], topic: str, start: int) -> frozenset[int]:
    """The offsets that people let pass, as the log says from `start` on.

    Raises:
        SetupError: the broker refuses us. FloeError: it does not answer.
    """
    end = KafkaAdmin(settings).end_offsets([(topic, 0)])[topic, 0]
    log = ClientLog()
    consumer = build(Consumer, settings, consumer_config(settings, log, SKIPPED_GROUP_ID, fetch_wait_max_ms=100))
    found: set[int] = set()
    try:
        consumer.assign([TopicPartition(topic, 0, start)])
        position, deadline = start, time.monotonic() + TIMEOUT_S
        while position < end:
            message = consumer.poll(0.5)
            if message is None:
                if time.monotonic() > deadline:
                    raise setup_error(KafkaError(KafkaError._TIMED_OUT), settings, log, f"reading {topic}")
                continue
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    break
                continue
            position = (message.offset() or 0) + 1
            deadline = time.monotonic() + TIMEOUT_S
            value = message.value() or b""
            if is_of_type(value, Skipped.__name__):
                try:
                    event = decode(value)
                except FloeError:
                    continue  # not one that anybody can go by
                if isinstance(event, Skipped):
                    found.add(event.offset)
    except KafkaException as raised:
        raise setup_error(error_of(raised), settings, log, f"reading the control topic {topic}") from raised
    finally:
        consumer.close()
    return frozenset(found)
