"""A lake with a control topic through which its tables are filled, and files that are as old as a test wants."""

from __future__ import annotations

import json
import os
import time
import uuid
from dataclasses import replace
from pathlib import Path

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.log import ControlPublisher
from framework.adapters.kafka.control.topic import ensure_control_topic
from framework.commit.events.event_types import (
    Accounting,
    DataComplete,
    DataFile,
    DataWritten,
    Deployed,
    SourceRange,
    TableCommitPolicy,
)
from framework.commit.file_ages import DAY_MS
from framework.commit.machine.effects import Committed
from framework.config.spec import CommitPolicy, TablePolicy, TablesSpec
from framework.config.values.maintenance import MaintenancePolicy
from framework.plan.canonical import plan_value
from framework.plan.compile import compile_plan
from framework.runtime.maintenance.orphans import TableOrphans, clean
from tests.conftest import Broker
from tests.iceberg.conftest import Lake
from tests.unit.plan.test_submit import loaded


class Place:
    """A lake, and a control topic through which its tables are filled."""

    def __init__(self, lake: Lake, broker: Broker) -> None:
        self.lake = lake
        self.kafka = {"bootstrap.servers": broker.bootstrap_servers}
        self.topic = f"control-{uuid.uuid4().hex[:8]}"
        self.topic_id = ensure_control_topic(KafkaAdmin(self.kafka), self.topic).topic_id
        self.publisher = ControlPublisher(self.kafka, self.topic)
        self.batch = 0
        self.branch = "main"

    def commit(self, name: str, files: tuple[DataFile, ...], offset: int) -> None:
        answer = self.lake.tables.commit(self.lake.effect(name, files, offset, branch=self.branch, topic=self.topic_id))
        assert isinstance(answer, Committed), answer

    def announce(self, name: str, files: tuple[DataFile, ...], spelled: str = "", begun_ms: int | None = None) -> None:
        """`spelled`: the name in the announcement, where it is another one of the same table. `begun_ms`: when the run
        says that it began to write."""
        self.batch += 1
        ranges = (SourceRange("t", "id", 0, self.batch - 1, self.batch),)
        sums = Accounting(1, 1, rows=1)
        view = self.lake.view(name)
        written = DataWritten(
            "p",
            "r",
            self.batch,
            spelled or name,
            view.table_uuid,
            view.schema_id,
            files,
            ranges,
            TableCommitPolicy(0, 1 << 40, 1 << 40, self.branch),
            begun_ms=begun_ms,
        )
        self.publisher.publish((written, DataComplete("p", "r", self.batch, ranges, sums, sums, (name,))))

    def reported(self, policy: MaintenancePolicy) -> Deployed:
        """What a run of pipeline `p` tells whose file has this policy for all tables."""
        pipeline = loaded()
        spec = replace(
            pipeline.spec, tables=TablesSpec(TablePolicy(commit=CommitPolicy(branch=self.branch), maintenance=policy))
        )
        plan = plan_value(compile_plan(replace(pipeline, spec=spec)))
        return Deployed("p", "r", "hash", json.loads(json.dumps({"plan": plan, "settings": {}})), "1", 0)

    def tell(self, policy: MaintenancePolicy) -> None:
        self.publisher.publish((self.reported(policy),))

    def clean(self, *patterns: str, delete: bool = False, topics: tuple[str, ...] = ()) -> dict[str, TableOrphans]:
        topics = topics or (self.topic,)
        reports = clean(self.kafka, topics, self.lake.tables, patterns, DAY_MS, delete, lambda text: None)
        return {report.table: report for report in reports}


def local(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def age(location: str | Path, days: float = 4) -> None:
    then = time.time() - days * 86_400
    os.utime(local(location) if isinstance(location, str) else location, (then, then))


def age_everything(lake: Lake, name: str) -> None:
    for path in local(lake.plain(name).location()).rglob("*"):
        if path.is_file():
            age(path)
