"""Skips one unreadable record of the control topic that claims to be an event of floe.

In: a control topic and an offset. Out: a `Skipped` event in the log, which makes every reader pass over that record.
Refuses any record that does not stop readers: events that can be read, and records that are provably not floe's.
"""

from __future__ import annotations

import time

from framework.adapters.kafka.control.log import ControlPublisher, ControlReader
from framework.adapters.kafka.control.records import skipped_offsets
from framework.commit.events.event_types import Skipped
from framework.errors import StateDisagreement


def skip_record(kafka: dict[str, str], control_topic: str, offset: int, by: str) -> str:
    """Why the record cannot be read. Saying it twice changes nothing.

    Raises:
        StateDisagreement: FLOE-R205, there is no such record, or it stops nobody.
    """
    found: list[tuple[int, str]] = []
    reader = ControlReader(kafka, control_topic, notice=lambda at, why, _: found.append((at, why)))
    try:
        start, end = reader.start_offset(), reader.end_offset()
        if not start <= offset < end:
            raise _nothing_to_skip(f"the control topic {control_topic} holds offsets {start} to {end - 1}", offset)
        reader.seek(offset)
        list(reader.read_until(offset + 1))
    finally:
        reader.close()
    why = next((why for at, why in found if at == offset), "")
    if not why:
        raise _nothing_to_skip("that record can be read, or there is none at this offset", offset)
    if offset not in skipped_offsets(kafka, control_topic, offset + 1):
        publisher = ControlPublisher(kafka, control_topic)
        try:
            publisher.publish((Skipped(offset, why[:1_000], by, int(time.time() * 1000)),))
        finally:
            publisher.close()
    return why


def _nothing_to_skip(why: str, offset: int) -> StateDisagreement:
    return StateDisagreement(
        f"the record at offset {offset} is not skipped: {why}",
        code="FLOE-R205",
        place=f"offset {offset}",
        remedy="`floe log` marks what cannot be read; take the offset from the error message",
    )
