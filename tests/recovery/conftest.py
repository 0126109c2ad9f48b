"""A pipeline run by hand for the tests of recovery: real files, real announcements, a real coordinator, and no Spark.

In: a project on the run's broker. Out: tables, a control log and offsets as a driver would have left them, whenever a
test wants to stop. Record number n of a partition is routed to the table `shop.t_k<n modulo the number of tables>`.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.log import ControlReader
from framework.adapters.kafka.control.topic import ensure_control_topic
from framework.adapters.kafka.control.transactions import PipelineProducer
from framework.adapters.project.files import load_or_raise
from framework.commit.events.event_types import (
    Accounting,
    ControlEvent,
    DataComplete,
    DataWritten,
    SourceRange,
    TableCommitPolicy,
)
from framework.commit.machine.progress.recorded import PROGRESS_PROPERTY
from framework.commit.offsets import decode_metadata, encode_metadata
from framework.commit.recovery.held import recorded_of
from framework.commit.watch import Watch, batch_before
from framework.plan.compile import compile_plan
from framework.runtime.coordinator.thread import Coordinator
from framework.runtime.job import request_commit
from tests.chaos.harness import fan_out, wait_for
from tests.conftest import Broker
from tests.iceberg.conftest import announced
from tests.project import Project

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "_kafka_topic", StringType(), required=False),
    NestedField(3, "_kafka_partition", IntegerType(), required=False),
    NestedField(4, "_kafka_offset", LongType(), required=False),
)
PARTITIONS = 2
RECOVERY_SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "recovery.v1.schema.json").read_text())


class HandRun:
    """One pipeline: `announce` batches, `commit` them, look at what is there."""

    def __init__(self, project: Project, broker: Broker, records: int = 60, tables: int = 3) -> None:
        self.project, self.broker = project, broker
        self.names = [f"shop.t_k{number:02}" for number in range(tables)]
        self.topic = broker.new_topic("hand", partitions=PARTITIONS)
        for partition in range(PARTITIONS):
            values = [{"id": n, "kind": f"k{n % tables:02}"} for n in range(records)]
            broker.produce(self.topic, values, partition=partition)
        self.file = project.pipeline("hand", fan_out(self.topic))
        self.kafka = {"bootstrap.servers": broker.bootstrap_servers}
        self.admin = KafkaAdmin(self.kafka)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(project.root)
            (loaded,) = load_or_raise((self.file,), "it")
        self.loaded = loaded
        self.plan = compile_plan(loaded)
        self.catalog = IcebergTables(project.catalog_settings)
        project.catalog().create_namespace("shop")
        # As a driver knows them: also after somebody has dropped them.
        self.tables = {name: project.catalog().create_table(name, SCHEMA) for name in self.names}
        self.positions = dict.fromkeys(range(PARTITIONS), 0)
        self.number = 0
        self.totals = Accounting()
        ensure_control_topic(self.admin, self.control_topic)

    @property
    def control_topic(self) -> str:
        return self.plan.announce.control_topic

    @property
    def control_topic_id(self) -> str:
        return self.admin.topics([self.control_topic])[self.control_topic].topic_id

    # ---- what a driver does ------------------------------------------------------------------------------------------

    def announce(self, *ends: int, dead_letters: int = 0, watch: Watch | None = None) -> None:
        """One batch up to these offsets, partition by partition, as a run of its own. `watch`: what it had read of the log."""
        self.number += 1
        run = uuid.uuid4().hex[:8]
        topic_id = self.admin.topics([self.topic])[self.topic].topic_id
        ranges = tuple(
            SourceRange(self.topic, topic_id, p, self.positions[p], end, 1_000) for p, end in enumerate(ends)
        )
        events: list[ControlEvent] = []
        watch = watch or self.watched()
        for index, name in enumerate(self.names):
            found = [(r.partition, n) for r in ranges for n in range(r.start, r.end) if n % len(self.names) == index]
            if found:
                events.append(self._written(name, run, found, ranges, watch))
        count = sum(r.end - r.start for r in ranges)
        line = Accounting(offsets=count, written=count - dead_letters, rows=count, dead_lettered=dead_letters)
        self.totals += line
        written = tuple(e.table for e in events if isinstance(e, DataWritten))
        events.append(DataComplete(self.plan.pipeline, run, self.number, ranges, line, self.totals, written))
        offsets = {
            (r.topic, r.partition): (r.end, encode_metadata(topic_id, self.number, self.totals, run)) for r in ranges
        }
        producer = PipelineProducer(
            self.kafka, self.plan.announce.transactional_id, self.plan.read.group_id, self.control_topic
        )
        producer.start()
        try:
            producer.announce(events, offsets)
        finally:
            producer.close()
        self.positions = dict(enumerate(ends))

    def watched(self) -> Watch:
        """What a driver knows of the log before its next batch."""
        watch = Watch()
        reader = ControlReader(self.kafka, self.control_topic)
        try:
            reader.seek(reader.start_offset())
            for offset, event in reader.read_until(reader.end_offset()):
                watch.observe(offset, event)
        finally:
            reader.close()
        return watch

    def _batch_before(self, name: str, table_uuid: str, watch: Watch) -> int | None:
        try:
            properties = self.project.catalog().load_table(name).properties
        except NoSuchTableError:
            properties = {}
        recorded = recorded_of(properties.get(PROGRESS_PROPERTY), self.control_topic_id, self.plan.pipeline)
        return batch_before(watch.newest(self.plan.pipeline).get(table_uuid), recorded)

    def _written(
        self, name: str, run: str, found: list[tuple[int, int]], ranges: tuple[SourceRange, ...], watch: Watch
    ) -> DataWritten:
        table = self.tables[name]
        rows = [
            {"id": n, "_kafka_topic": self.topic, "_kafka_partition": partition, "_kafka_offset": n}
            for partition, n in found
        ]
        data = pa.Table.from_pylist(rows, schema=table.schema().as_arrow())
        files = _dataframe_to_data_files(table.metadata, data, table.io, write_uuid=uuid.uuid4())
        return DataWritten(
            self.plan.pipeline,
            run,
            self.number,
            name,
            str(table.metadata.table_uuid),
            table.schema().schema_id,
            tuple(announced(file, 0) for file in files),
            ranges,
            TableCommitPolicy(1_000, 1 << 40, 1 << 40),
            after_batch=self._batch_before(name, str(table.metadata.table_uuid), watch),
        )

    def commit(self) -> None:
        """A coordinator commits everything that is announced, and ends."""
        coordinator = Coordinator(
            self.kafka, self.plan.commit.coordinator_group, self.control_topic, self.catalog, lambda text: None
        )
        coordinator.start()
        try:
            request_commit(self.kafka, self.control_topic, 60, coordinator)
        finally:
            coordinator.stop()

    # ---- trouble -----------------------------------------------------------------------------------------------------

    def lose_control_topic(self) -> None:
        """Deleted and made again under its name: announcements that no table has are gone."""
        self.admin.raw.delete_topics([self.control_topic])[self.control_topic].result(20)
        wait_for(lambda: not self.admin.topics([self.control_topic]), "the end of the control topic")
        ensure_control_topic(self.admin, self.control_topic)

    # ---- what is there -----------------------------------------------------------------------------------------------

    def floe(self, *arguments: str | Path, code: int = 0) -> str:
        """A verb in this process; what it printed, on both streams."""
        from framework.cli.main import floe, show_error
        from framework.errors import FloeError

        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.project.root)
            result = CliRunner().invoke(floe, [*map(str, arguments), "--target", "it"])
        error = result.exception if isinstance(result.exception, FloeError) else None
        output: str = result.output + (show_error(error) if error is not None else "")
        found = error.exit_code if error is not None else result.exit_code
        assert found == code, f"exit code {found}\n{output}\n{result.exception!r}"
        return output

    def floe_json(self, *arguments: str | Path) -> dict[str, Any]:
        """What it printed with --json, checked against the published schema."""
        output = self.floe(*arguments, "--json")
        document: dict[str, Any] = json.loads(
            next(line for line in reversed(output.splitlines()) if line.startswith("{"))
        )
        jsonschema.validate(document, RECOVERY_SCHEMA)
        return document

    def group(self) -> dict[int, int]:
        """The safe source offsets by partition."""
        found = self.admin.group_offsets(self.plan.read.group_id)
        for key, value in found.items():
            decode_metadata(value.offset, value.metadata, f"{key}")  # refused where floe could not read it
        return {partition: value.offset for (_, partition), value in sorted(found.items())}

    def log(self) -> list[ControlEvent]:
        reader = ControlReader(self.kafka, self.control_topic)
        try:
            reader.seek(reader.start_offset())
            return [event for _, event in reader.read_until(reader.end_offset()) if event is not None]
        finally:
            reader.close()

    def progress(self, name: str) -> dict[str, Any]:
        """The property `floe.progress` as it is stored."""
        text = self.project.catalog().load_table(name).properties.get("floe.progress")
        return json.loads(text) if text else {}  # type: ignore[no-any-return]

    def ends(self, name: str) -> dict[str, int]:
        """What the table records of the pipeline under the present control topic."""
        entry = self.progress(name).get(self.control_topic_id, {"pipelines": {}})
        return entry["pipelines"].get("hand", {}).get("offsets", {}).get(self.topic, {})  # type: ignore[no-any-return]

    def everything(self) -> dict[str, object]:
        """All state that a verb could change, to compare before and after."""
        tables: dict[str, object] = {}
        for name in self.names:
            try:
                table = self.project.catalog().load_table(name)
            except NoSuchTableError:
                tables[name] = None
                continue
            head = table.current_snapshot()
            tables[name] = (table.metadata_location, head.snapshot_id if head else None)
        return {"tables": tables, "group": self.group(), "log": self.log()}

    def landed(self) -> Counter[tuple[int, int]]:
        """How often each record is in the tables, by partition and offset."""
        counts: Counter[tuple[int, int]] = Counter()
        for name in self.names:
            rows = self.project.catalog().load_table(name).scan().to_arrow()
            counts.update(zip(rows["_kafka_partition"].to_pylist(), rows["_kafka_offset"].to_pylist(), strict=True))
        return counts


def once(ends: Mapping[int, int]) -> Counter[tuple[int, int]]:
    """Every record below these offsets, once."""
    return Counter({(partition, n): 1 for partition, end in ends.items() for n in range(end)})


@pytest.fixture
def hand(tmp_path: Path, broker: Broker) -> HandRun:
    return HandRun(Project(tmp_path, broker.bootstrap_servers), broker)
