"""A pipeline under review: what the checks of a migration look at, asked of the broker and the catalog once.

In: a loaded pipeline and its plan. Out: clients, facts and names, each found when the first check asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.secrets import resolve
from framework.commit.offsets import PartitionFacts, PartitionKey
from framework.config.spec import LoadedPipeline
from framework.diagnose.shown import argument
from framework.observe.status.model import Status
from framework.observe.status.read import read_status
from framework.ops.preview.facts import preview
from framework.ops.preview.model import PipelinePreview
from framework.plan.catalogs import used_catalogs
from framework.plan.model import Plan
from framework.recovery.discard import ControlPlace
from framework.runtime.job import open_catalog
from framework.runtime.source import PipelineSource
from framework.runtime.tables.registry import reachable_tables


@dataclass
class Review:
    """A pipeline under review. What several checks need is asked once."""

    pipeline: LoadedPipeline
    plan: Plan
    kafka: dict[str, str]
    catalog: IcebergTables

    @classmethod
    def of(cls, pipeline: LoadedPipeline, plan: Plan) -> Review:
        """
        Raises:
            SetupError: the catalog does not answer.
        """
        kafka = resolve(pipeline.target.kafka[plan.read.connection])
        return cls(pipeline, plan, kafka, open_catalog(pipeline.target, used_catalogs(plan)))

    @cached_property
    def admin(self) -> KafkaAdmin:
        return KafkaAdmin(self.kafka)

    @cached_property
    def preview(self) -> PipelinePreview:
        (found,) = preview([self.pipeline])
        return found

    @cached_property
    def facts(self) -> Mapping[PartitionKey, PartitionFacts]:
        return PipelineSource(self.plan, self.kafka).facts()

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """Those that the routes may reach and that are there."""
        return tuple(name for name in reachable_tables(self.plan, self.catalog) if self.catalog.place(name) is not None)

    @cached_property
    def control_topic_id(self) -> str | None:
        """None where there is no control topic yet."""
        topic = self.plan.announce.control_topic
        return self.admin.topics([topic])[topic].topic_id if self.admin.topics([topic]) else None

    @cached_property
    def status(self) -> Status:
        """What its control topic says."""
        target = self.pipeline.target
        return read_status(target.name, target.prefix, self.kafka, self.plan.announce.control_topic)

    @property
    def named(self) -> str:
        """The file and the target, as they stand in commands."""
        return f"{argument(self.pipeline.file)} -t {argument(self.pipeline.target.name)}"

    @property
    def in_control(self) -> str:
        """The options of the verbs that take no file."""
        return f"-t {argument(self.pipeline.target.name)} --control-topic {argument(self.plan.announce.control_topic)}"

    @property
    def control_place(self) -> ControlPlace:
        return ControlPlace(self.pipeline.target.prefix, self.kafka, self.plan.announce.control_topic, self.catalog)
