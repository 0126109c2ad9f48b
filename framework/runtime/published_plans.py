"""Reads the plans that runs published in the control topic, at the offsets that their consumer groups point to.

In: Kafka settings, a control topic and consumer groups. Out: the newest Deployed event of each pipeline. Writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.log import ControlReader
from framework.commit.events.event_types import Deployed
from framework.commit.offsets import decode_metadata
from framework.errors import StateDisagreement

TAIL = 20_000
POINTED_TIMEOUT_S = 10.0


def newest_published(kafka: dict[str, str], control_topic: str, groups: Mapping[str, str]) -> Mapping[str, Deployed]:
    """What the newest run of each pipeline published, by the pipeline's consumer group; one whose group holds offsets of
    somebody else is only looked for near the end of the log."""
    admin = KafkaAdmin(kafka)
    pointers: dict[str, int | None] = {}
    for pipeline, group in groups.items():
        try:
            safe = [
                decode_metadata(g.offset, g.metadata, f"group {group}") for g in admin.group_offsets(group).values()
            ]
        except StateDisagreement:
            safe = []
        newest = max(safe, key=lambda each: each.batch, default=None)
        pointers[pipeline] = newest.deployed_at if newest is not None else None
    return published_at(kafka, control_topic, pointers)


def published_at(kafka: dict[str, str], control_topic: str, pointers: Mapping[str, int | None]) -> dict[str, Deployed]:
    """The events at these offsets, by pipeline, and those of others near the end of the log."""
    reader = ControlReader(kafka, control_topic, only=Deployed.__name__)
    try:
        start, end = reader.start_offset(), reader.end_offset()
        tail = max(start, end - TAIL)
        found: dict[str, Deployed] = {}
        for pipeline, offset in pointers.items():
            if offset is not None and start <= offset < tail:
                event = _at(reader, offset)
                if event is not None and event.pipeline == pipeline:
                    found[pipeline] = event
        if tail < end:
            reader.seek(tail)
            for _, reported in reader.read_until(end):
                if isinstance(reported, Deployed):
                    found[reported.pipeline] = reported
        return found
    finally:
        reader.close()


def _at(reader: ControlReader, offset: int) -> Deployed | None:
    reader.seek(offset)
    for at, event in reader.poll(POINTED_TIMEOUT_S):
        return event if at == offset and isinstance(event, Deployed) else None
    return None
