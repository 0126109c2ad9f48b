"""Opens what `floe tap` looks through: the pipeline's topics, its registry, and the tables as they are now.

In: a loaded pipeline and where to begin. Out: what becomes of the records, round by round, until the time is over. All of
it is read; the broker and the catalog are as before.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from framework.adapters.kafka.live import Begin, live_blocks
from framework.adapters.registry import resolved_registries
from framework.adapters.secrets import resolve
from framework.config.spec import LoadedPipeline
from framework.errors import SetupError
from framework.ops.tap.model import SampledRecord, Tap, tables_now
from framework.plan.catalogs import used_catalogs
from framework.plan.model import Plan
from framework.record.process import Sql
from framework.runtime.job import open_catalog
from framework.runtime.source import PipelineSource


def live_samples(
    pipeline: LoadedPipeline, plan: Plan, begin: Begin, seconds: float, sql: Sql | None
) -> Iterator[list[SampledRecord]]:
    """What becomes of the records of each round, by their times; a round may be empty.

    Raises:
        SetupError: broker, catalog or topic are not there, or the pipeline does not read the partition.
        FloeError: the registry does not answer, or the records are no longer there.
    """
    kafka = resolve(pipeline.target.kafka[plan.read.connection])
    registries = resolved_registries(pipeline.target, plan.decode)
    source = PipelineSource(plan, kafka)
    known = source.facts()
    if begin.place is not None and begin.place[:2] not in known:
        topic, partition, _ = begin.place
        raise SetupError(
            f"the pipeline reads no partition {partition} of a topic {topic}",
            code="FLOE-E110",
            place=f"{topic}-{partition}",
            remedy="name a partition of one of its topics",
        )
    tap = Tap(plan, tables_now(plan, open_catalog(pipeline.target, used_catalogs(plan))), registries, sql)
    deadline = time.monotonic() + seconds
    for blocks in live_blocks(kafka, source.facts, begin, deadline):
        yield tap.samples(blocks) if blocks else []
