"""PipelineSpec and TargetSpec -> Plan. In: what a person declared, frozen. Out: the steps that will run, as plain data.

Pure: the same two values give the same plan. Names of groups and transactional ids all begin with the target's prefix.
"""

from __future__ import annotations

import re

from framework.config.names.metadata import DEBEZIUM_MOMENTS
from framework.config.spec import CommitPolicy, Envelope, FieldHint, FormatSpec, FormatType, LoadedPipeline
from framework.plan.model import (
    Announce,
    Decode,
    Plan,
    ReadKafka,
    Route,
    Transform,
    WriteFiles,
)

BLOCK_RECORDS = 100_000
MAX_RECORDS_PER_BATCH = 2_000_000
# A task is to be long beside what it takes to start one, and a batch beside what lies between two of them.
RECORDS_PER_TASK = 1_000_000
MAX_RECORDS_WITH_TOPIC = 500_000
TARGET_FILE_BYTES = 512 * 1024 * 1024
BUFFER_BYTES = 256 * 1024 * 1024
HEARTBEAT_MS = 60_000
LOCAL_MASTER = re.compile(r"local(?:\[(\d+|\*)(?:,\d+)?\])?$")


def group_id(prefix: str, pipeline: str) -> str:
    """The consumer group that holds a pipeline's safe source offsets."""
    return f"{prefix}-{pipeline}"


def transactional_id(prefix: str, pipeline: str) -> str:
    """The one transactional id under which a pipeline announces (invariant 2)."""
    return f"{prefix}-{pipeline}"


def coordinator_group(prefix: str, control_topic: str) -> str:
    """The group whose owner of the control topic's partition coordinates; one per control topic."""
    return f"{prefix}-coordinator" if control_topic == "control-iceberg" else f"{prefix}-coordinator-{control_topic}"


def shortest_interval_ms(loaded: LoadedPipeline) -> int:
    """The shortest commit interval that any table of the pipeline may have."""
    tables = loaded.spec.tables
    policies: list[CommitPolicy] = [tables.defaults.commit, *(policy.commit for _, policy in tables.overrides)]
    return min(policy.interval_ms for policy in policies)


def parallelism(master: str, spark_conf: dict[str, str]) -> int:
    """Tasks that can run at once: the cores of a local master, else what the Spark settings say, else 2."""
    match = LOCAL_MASTER.match(master)
    if match and (match.group(1) or "1").isdigit():
        return int(match.group(1) or 1)
    if "spark.cores.max" in spark_conf:
        return int(spark_conf["spark.cores.max"])
    executors = int(spark_conf.get("spark.executor.instances", "2"))
    return executors * int(spark_conf.get("spark.executor.cores", "1"))


def debezium_hints(spec: FormatSpec, declared: tuple[FieldHint, ...]) -> tuple[FieldHint, ...]:
    """In Debezium's JSON the moments of the change itself count milliseconds, whether or not the file says so."""
    if spec.envelope is not Envelope.DEBEZIUM or spec.type is not FormatType.JSON:
        return ()
    names = {hint.path.lower() for hint in declared}
    return tuple(FieldHint(name, "timestamptz", unit="ms") for name in DEBEZIUM_MOMENTS if name not in names)


def compile_plan(loaded: LoadedPipeline) -> Plan:
    """The plan of one pipeline under one target."""
    spec, target = loaded.spec, loaded.target
    kafka = spec.source.kafka
    group = group_id(target.prefix, spec.name)
    dead_letters = spec.errors.dead_letter_table
    dead_letter_table = spec.tables.full_name(dead_letters) if dead_letters else None
    slices = parallelism(target.spark_master, target.spark_conf)
    return Plan(
        pipeline=spec.name,
        target=target.name,
        source_file=loaded.file,
        read=ReadKafka(
            connection=kafka.connection,
            topics=kafka.topics,
            topic_pattern=kafka.topic_pattern,
            starting_offsets=kafka.starting_offsets,
            on_data_loss=kafka.on_data_loss,
            max_record_bytes=kafka.max_record_bytes,
            group_id=group,
            # Dead letters for a topic travel in the announcing transaction, which must be short.
            max_records_per_batch=MAX_RECORDS_WITH_TOPIC
            if spec.errors.dead_letter_topic
            else max(MAX_RECORDS_PER_BATCH, RECORDS_PER_TASK * slices),
            slices=slices,
        ),
        decode=Decode(
            format=spec.source.format,
            hints=spec.source.hints + debezium_hints(spec.source.format, spec.source.hints),
            metadata_columns=spec.source.metadata_columns,
            block_records=BLOCK_RECORDS,
            key=spec.source.key,
            parsed=spec.source.parsed,
        ),
        transform=Transform(spec.transform_sql) if spec.transform_sql else None,
        route=Route(
            mode=spec.routes.mode,
            rules=spec.routes.rules,
            unrouted=spec.routes.unrouted,
            allow_tables=spec.routes.allow_tables,
            max_new_tables_per_hour=spec.routes.max_new_tables_per_hour,
            catalogs=spec.tables.catalogs,
            not_for_records=dead_letter_table if any("{" in rule.table for rule in spec.routes.rules) else None,
        ),
        write=WriteFiles(
            tables=spec.tables,
            errors=spec.errors.policy,
            dead_letter_table=dead_letter_table,
            max_error_ratio=spec.errors.max_ratio,
            max_error_count=spec.errors.max_count,
            target_file_bytes=TARGET_FILE_BYTES,
            buffer_bytes=BUFFER_BYTES,
            error_stages=spec.errors.stages,
            dead_letter_topic=spec.errors.dead_letter_topic,
        ),
        announce=Announce(
            control_topic=spec.control_topic,
            transactional_id=transactional_id(target.prefix, spec.name),
            trigger_every_ms=spec.trigger_every_ms or shortest_interval_ms(loaded),
            heartbeat_ms=HEARTBEAT_MS,
            # Which rows a batch replaces is known when the batch before it is in the tables.
            max_waiting_batches=1 if spec.tables.has_upserts else spec.max_waiting_batches,
            max_waiting_bytes=spec.max_waiting_bytes,
            silent_after_ms=spec.source.silent_after_ms,
            objectives=spec.objectives,
        ),
        coordinator_group=coordinator_group(target.prefix, spec.control_topic),
        owners=spec.owners,
    )
