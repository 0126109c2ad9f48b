"""How long a catalog takes for a commit, and how many tables the pipeline's commit interval allows with it.

In: a review. Out: evidence for each catalog that the pipeline writes to. So many commits without files go to a scratch table,
one after the other, the way a coordinator makes them. The interval is too short where the pipeline's tables could not all
be committed within it.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence

from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from framework.adapters.file_io_guard import open_catalog
from framework.adapters.secrets import resolve
from framework.commit.machine.effects import CommitTable, Committed, PipelineProgress, TableProgress
from framework.config.names.table_names import catalog_of, full_name
from framework.config.units import duration_text
from framework.diagnose.counted import counted
from framework.ops.readiness.model import Evidence, failed, not_checked, passed, warned
from framework.ops.readiness.review import Review
from framework.ops.readiness.scratch import NoScratch, scratch_table
from framework.plan.catalogs import used_catalogs
from framework.runtime.coordinator.catalog_requests import COMMITTERS

COMMITS = 20
_CONTROL = "readiness"


def commits(review: Review) -> Iterator[Evidence]:
    for catalog in sorted(used_catalogs(review.plan)):
        tables = [name for name in review.tables if catalog_of(name) == catalog]
        policies = [review.plan.write.tables.policy_for(name) for name in tables] or [review.plan.write.tables.defaults]
        interval_ms = min(policy.commit.interval_ms for policy in policies)
        try:
            times_ms = _times_ms(review, catalog)
        except NoScratch as raised:
            yield not_checked(
                f"catalog {catalog}: no scratch table could be made: {raised}", "allow it to create a namespace"
            )
            continue
        yield judged(catalog, times_ms, len(tables), interval_ms, review.named)


def _times_ms(review: Review, catalog: str) -> list[float]:
    """How long each commit took.

    Raises:
        NoScratch: no scratch table can be made.
        RuntimeError: a commit was not made.
    """
    target = review.pipeline.target
    opened = open_catalog(catalog, resolve(target.catalogs[catalog]), target.allow_locations)
    times_ms = []
    with scratch_table(opened, Schema(NestedField(1, "probe", LongType(), required=False))) as scratch:
        name = full_name(catalog, ".".join(scratch.name()))
        view = review.catalog.load_view(name, "main", _CONTROL)
        for number in range(COMMITS):
            assert view is not None
            progress = TableProgress(_CONTROL, number + 1, {review.plan.pipeline: PipelineProgress(number + 1, {}, {})})
            effect = CommitTable(name, view, uuid.uuid4().hex, (), progress, None)
            began = time.monotonic()
            answer = review.catalog.commit(effect)
            times_ms.append((time.monotonic() - began) * 1000)
            if not isinstance(answer, Committed):
                raise RuntimeError(f"catalog {catalog} did not make a commit: {answer}")
            view = answer.view
    return times_ms


def judged(catalog: str, times_ms: Sequence[float], tables: int, interval_ms: int, named: str) -> Evidence:
    """What these times say of the interval. A coordinator commits to several tables of a catalog at once, as far as the
    catalog lets it."""
    ordered = sorted(times_ms)
    middle_ms, slow_ms = ordered[len(ordered) // 2], ordered[max(0, -(-len(ordered) * 95 // 100) - 1)]
    said = f"catalog {catalog}: {counted(len(ordered), 'commit')} took {middle_ms:,.0f} ms each (p50), {slow_ms:,.0f} ms (p95)"
    every = duration_text(interval_ms)
    one_by_one, at_once = int(interval_ms / slow_ms), int(interval_ms * COMMITTERS / slow_ms)
    said += f"; a commit interval of {every} allows {one_by_one:,} tables one by one and up to {at_once:,} at once"
    if tables <= one_by_one:
        return passed(f"{said}; this pipeline has {tables:,}")
    longer = duration_text(-(-int(tables * slow_ms) // 60_000) * 60_000)
    remedy = f"set `commit: {{interval: {longer}}}` in the pipeline file, then: floe plan {named}"
    if tables <= at_once:
        return warned(f"{said}; this pipeline has {tables:,}", remedy)
    return failed(f"{said}; this pipeline has {tables:,}, whose commits take longer than the interval", remedy)
