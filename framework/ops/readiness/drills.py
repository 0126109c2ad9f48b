"""What drills have shown on the broker and the catalogs of the pipeline, and how long ago.

In: a review, and how old a result may be. Out: evidence for each drill and catalog. A result that is missing, or that another
target's drills have left, never passes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from framework.diagnose.counted import in_two_units
from framework.diagnose.shown import argument, shown
from framework.ops.drill.model import Drill, DrillResult, newest
from framework.ops.drill.perform import kept_results
from framework.ops.drill.scratch_world import DrillWorld
from framework.ops.readiness.model import Evidence, failed, passed, warned
from framework.ops.readiness.review import Review
from framework.plan.catalogs import used_catalogs


def drills(review: Review, max_age_ms: int) -> Iterator[Evidence]:
    target, connection = review.pipeline.target, review.plan.read.connection
    for catalog in sorted(used_catalogs(review.plan)):
        found = newest(kept_results(DrillWorld(target, connection, catalog)), target.name, catalog)
        options = f"-t {argument(target.name)}"
        options += f" --connection {argument(connection)}" if len(target.kafka) > 1 else ""
        options += f" --catalog {argument(catalog)}" if len(target.catalogs) > 1 else ""
        yield from judged(found, catalog, int(time.time() * 1000), max_age_ms, options)


def judged(
    found: Mapping[Drill, DrillResult], catalog: str, now_ms: int, max_age_ms: int, options: str
) -> Iterator[Evidence]:
    """Each drill's last result, as evidence."""
    for drill in Drill:
        again = f"floe drill {drill.value} {options}"
        last = found.get(drill)
        if last is None:
            yield warned(f"{drill.value}, catalog {catalog}: never tried", again)
            continue
        age_ms = max(0, now_ms - last.timestamp_ms)
        text = f"{drill.value}, catalog {catalog}: {in_two_units(age_ms)} ago, by {shown(last.by)}"
        if not last.passed:
            yield failed(f"{text}: failed: {shown(last.problem)} [{shown(last.code)}]", again)
        elif age_ms > max_age_ms:
            yield warned(f"{text}: passed, and older than {in_two_units(max_age_ms)}", again)
        else:
            yield passed(f"{text}: passed, {last.rows:,} rows each once")
