"""Whether the catalogs commit all tables of the pipeline within its commit intervals.

In: a review. Out: evidence for each catalog that the pipeline writes to. An interval is too short where the pipeline's tables
could not all be committed within it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from framework.adapters.file_io_guard import open_catalog
from framework.adapters.secrets import resolve
from framework.ops.doctor.commit_times import IntervalFit, intervals_of, judge_intervals, time_commits
from framework.ops.doctor.scratch import NoScratch, ScratchPrefix
from framework.ops.readiness.model import Evidence, failed, not_checked, passed, warned
from framework.ops.readiness.review import Review
from framework.plan.catalogs import used_catalogs


def commits(review: Review) -> Iterator[Evidence]:
    target = review.pipeline.target
    for catalog in sorted(used_catalogs(review.plan)):
        intervals = intervals_of([review.plan], review.catalog, catalog)
        own = tuple(intervals.values()) or (review.plan.write.tables.defaults.commit.interval_ms,)
        opened = open_catalog(catalog, resolve(target.catalogs[catalog]), target.allow_locations)
        try:
            times_ms = time_commits(opened, review.catalog, catalog, ScratchPrefix.READINESS)
        except NoScratch as raised:
            yield not_checked(
                f"catalog {catalog}: no scratch table could be made: {raised}", "allow it to create a namespace"
            )
            continue
        yield judged(catalog, times_ms, own, review.named)


def judged(catalog: str, times_ms: Sequence[float], intervals_ms: Sequence[int], named: str) -> Evidence:
    """What these times say of the intervals, as evidence."""
    found = judge_intervals(catalog, times_ms, intervals_ms, "this pipeline has")
    if found.fit is IntervalFit.ONE_BY_ONE:
        return passed(found.text)
    remedy = f"set `commit: {{interval: {found.longer}}}` in the pipeline file, then: floe plan {named}"
    return warned(found.text, remedy) if found.fit is IntervalFit.AT_ONCE else failed(found.text, remedy)
