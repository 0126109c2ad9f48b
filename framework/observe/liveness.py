"""Is a pipeline live? What a verb that changes a pipeline's state asks first, and how it keeps runs out meanwhile.

In: a target's Kafka connection, its prefix and a pipeline's name. Out: the live runs, a refusal that names them, or the
pipeline's transactional id in our own hands. Being seen is information (a run is a member of its group, and a dead one
stays so for up to six seconds); that no older run can announce any more is kept by fencing it (invariant 2).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.presence import RUN_CLIENT_ID
from framework.diagnose.shown import argument
from framework.errors import SetupError
from framework.plan.compile import group_id, transactional_id

if TYPE_CHECKING:
    from framework.adapters.kafka.control.transactions import PipelineProducer


@dataclass(frozen=True)
class LiveMember:
    """A member of a pipeline's consumer group. `run` is the run's id; "" for a consumer that is not floe's."""

    run: str
    client_id: str
    host: str

    def __str__(self) -> str:
        return f"run {self.run} on {self.host}" if self.run else f"consumer {self.client_id} on {self.host}"


def live_members(admin: KafkaAdmin, prefix: str, pipeline: str) -> tuple[LiveMember, ...]:
    """Who is a member of the pipeline's consumer group now; empty when the pipeline is not live.

    Raises:
        SetupError: the broker does not answer.
    """
    return tuple(
        LiveMember(
            m.client_id.removeprefix(RUN_CLIENT_ID) if m.client_id.startswith(RUN_CLIENT_ID) else "",
            m.client_id,
            m.host.lstrip("/"),
        )
        for m in admin.group_members(group_id(prefix, pipeline))
    )


def refuse_live(admin: KafkaAdmin, prefix: str, pipeline: str, doing: str) -> None:
    """Changes nothing. `doing`: the command as a person writes it, for the message.

    Raises:
        SetupError: FLOE-E111, a run of the pipeline is live; FLOE-E106, something else uses its consumer group.
    """
    members = live_members(admin, prefix, pipeline)
    strangers = [m for m in members if not m.run]
    if strangers:
        raise SetupError(
            f"consumer group {group_id(prefix, pipeline)} has live members that are not floe: "
            f"{', '.join(map(str, strangers))}",
            code="FLOE-E106",
            place=admin.address,
            remedy="stop those consumers, or change the target's prefix or the pipeline's name",
        )
    if members:
        raise SetupError(
            f"pipeline {pipeline} is live, and `{doing}` would change what it relies on: {', '.join(map(str, members))}",
            code="FLOE-E111",
            place=admin.address,
            remedy=f"end the run first (`floe stop {argument(pipeline)}` drains it); a killed run is gone after 6 s",
        )


@contextmanager
def exclusive(
    kafka: dict[str, str], prefix: str, pipeline: str, control_topic: str, doing: str
) -> Iterator[PipelineProducer]:
    """The pipeline's transactional id, for as long as the block lasts: refuses where a run is live, and fences one that
    was not seen (it ends with exit code 4 at its next announcement). A run that starts later fences us in the same way.

    Raises:
        SetupError: as `refuse_live`; nothing was fenced.
    """
    from framework.adapters.kafka.control.transactions import (
        PipelineProducer,  # with pandas: not for those who only look
    )

    refuse_live(KafkaAdmin(kafka), prefix, pipeline, doing)
    producer = PipelineProducer(kafka, transactional_id(prefix, pipeline), group_id(prefix, pipeline), control_topic)
    producer.start()
    try:
        yield producer
    finally:
        producer.close()
