"""Reads the facts for a preview: broker, control topic, catalog and what was deployed. Changes nothing.

In: loaded pipelines of one target. Out: a PipelinePreview each. What would stop a run becomes a Problem of its
pipeline, so that one pipeline's problem never hides another's; only a broker or catalog that does not answer is raised.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.secrets import resolve
from framework.commit.offsets import PartitionFacts, PartitionKey
from framework.config.spec import LoadedPipeline
from framework.deploy.history import DeploymentHistory
from framework.deploy.last_deployed import read_histories
from framework.errors import FloeError, StateDisagreement, TableBlocked
from framework.ops.doctor.kafka import Connection, grants
from framework.ops.doctor.model import CheckState
from framework.ops.preview.decisions import holding_tables, preview_start, preview_table
from framework.ops.preview.model import (
    Action,
    PipelinePreview,
    PlanWarning,
    Problem,
    StartPreview,
    TablePreview,
)
from framework.ops.preview.offline import described, names
from framework.ops.preview.retention import judged_topics
from framework.plan.catalogs import used_catalogs
from framework.plan.compile import compile_plan
from framework.plan.model import Plan
from framework.plan.topic_retention import RetentionFit
from framework.runtime.job import open_catalog
from framework.runtime.source import PipelineSource
from framework.runtime.tables.registry import reachable_tables

_LOADERS = 4


def preview(pipelines: Sequence[LoadedPipeline], history: DeploymentHistory | None = None) -> list[PipelinePreview]:
    """What would happen if these pipelines were run now.

    Args:
        history: what was deployed, where it was read before.

    Raises:
        SetupError: the broker or the catalog cannot be reached.
    """
    history = history or read_histories(pipelines)
    held = names(pipelines)
    catalog = open_catalog(pipelines[0].target, used_catalogs(*map(compile_plan, pipelines)))
    return [_preview(pipeline, history, held, catalog) for pipeline in pipelines]


def _preview(
    pipeline: LoadedPipeline, history: DeploymentHistory, held: frozenset[str], catalog: IcebergTables
) -> PipelinePreview:
    plan = compile_plan(pipeline)
    problems: list[Problem] = []
    start: StartPreview | None = None
    warnings: tuple[PlanWarning, ...] = ()
    try:
        kafka = resolve(pipeline.target.kafka[plan.read.connection])
        source = PipelineSource(plan, kafka)
        facts = source.facts()
        warnings = tuple(_short_topics(plan, pipeline.spec.source.outage_ms, kafka, facts))
        start = _start(plan, kafka, source, facts)
    except FloeError as error:
        problems.append(Problem.of(error))
    problems += _refused_grants(pipeline, plan)
    tables = _tables(plan, catalog)
    problems += holding_tables(plan, tables)
    return described(pipeline, history, held, start, tables, tuple(problems), warnings)


def _short_topics(
    plan: Plan, outage_ms: int | None, kafka: dict[str, str], facts: Mapping[PartitionKey, PartitionFacts]
) -> Iterator[PlanWarning]:
    """Topics that keep less than the longest outage needs. Who may not ask for a topic's settings is not warned."""
    with suppress(FloeError):
        for found in judged_topics(plan, outage_ms, kafka, facts, always_look=False):
            if found.fit in (RetentionFit.SHORT, RetentionFit.MAYBE):
                yield PlanWarning(found.text, found.remedy)


def _start(
    plan: Plan, kafka: dict[str, str], source: PipelineSource, facts: Mapping[PartitionKey, PartitionFacts]
) -> StartPreview:
    group = source.group_offsets()
    exists = KafkaAdmin(kafka).topics([plan.announce.control_topic])
    return preview_start(plan, facts, group, source.newest_announcement() if exists else None)


def _refused_grants(pipeline: LoadedPipeline, plan: Plan) -> Iterator[Problem]:
    name = plan.read.connection
    settings = resolve(pipeline.target.kafka[name])
    connection = Connection(name, settings, pipeline.target.prefix, (plan.announce.control_topic,), (plan,))
    for finding in grants(connection):
        if finding.state is CheckState.ERROR:
            yield Problem("FLOE-E103", finding.message, finding.remedy, 3)


def _tables(plan: Plan, catalog: IcebergTables) -> tuple[TablePreview, ...]:
    def one(name: str) -> TablePreview:
        try:
            found = catalog.load_target(name, plan.write.tables.policy_for(name))
            if found is not None and found.policy.write.is_upsert:
                catalog.check_upsert(found)
            return preview_table(plan, name, found)
        except FloeError as error:
            # The tables were just listed, so the catalog answers: what cannot be loaded is that table's own trouble.
            if not isinstance(error, TableBlocked | StateDisagreement) and error.code != "FLOE-R135":
                raise
            return TablePreview(name, Action.REFUSE, notes=(error.message,), code=error.code)

    with ThreadPoolExecutor(_LOADERS) as pool:
        return tuple(pool.map(one, reachable_tables(plan, catalog)))
