"""What was deployed last, and whether a pipeline has run: read from what the runs themselves have announced.

In: plans and resolved Kafka settings. Out: Deployed events by pipeline. A pipeline's own is found through the metadata
of its safe offsets, which points to it; those of others near the end of the control topic. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.secrets import resolve
from framework.commit.events.event_types import Deployed
from framework.commit.offsets import decode_metadata
from framework.config.spec import LoadedPipeline
from framework.deploy.history import DeploymentHistory
from framework.plan.compile import compile_plan
from framework.plan.model import Plan
from framework.runtime.published_plans import published_at


def read_histories(pipelines: Sequence[LoadedPipeline]) -> DeploymentHistory:
    """The history of all pipelines of one target, each on its own control topic.

    Raises:
        SetupError: a broker cannot be reached.
    """
    newest: dict[str, Deployed] = {}
    has_run: set[str] = set()
    by_topic: dict[tuple[str, str], list[Plan]] = {}
    for plan in map(compile_plan, pipelines):
        by_topic.setdefault((plan.read.connection, plan.announce.control_topic), []).append(plan)
    for (connection, topic), plans in by_topic.items():
        found = read_history(resolve(pipelines[0].target.kafka[connection]), topic, plans)
        newest.update(found.newest)
        has_run |= found.has_run
    return DeploymentHistory(newest, frozenset(has_run))


def read_history(kafka: dict[str, str], control_topic: str, plans: Iterable[Plan]) -> DeploymentHistory:
    """What is known on one control topic of these pipelines, and of others that reported something lately."""
    admin = KafkaAdmin(kafka)
    pointers: dict[str, int | None] = {}
    for plan in plans:
        group = admin.group_offsets(plan.read.group_id)
        safe = [decode_metadata(g.offset, g.metadata, f"group {plan.read.group_id}") for g in group.values()]
        newest = max(safe, key=lambda each: each.batch, default=None)
        if newest is not None:
            pointers[plan.pipeline] = newest.deployed_at
    if control_topic not in admin.topics([control_topic]):
        return DeploymentHistory(has_run=frozenset(pointers))
    return DeploymentHistory(published_at(kafka, control_topic, pointers), frozenset(pointers))
