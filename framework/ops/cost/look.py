"""Asks catalog, store and broker what a pipeline uses, and makes a month of it.

In: a pipeline under review, metrics of running processes, and how far back to look. Out: a month. Reads metadata and a few
records; changes nothing.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from framework.adapters.iceberg.growth import growth_of
from framework.adapters.kafka.held import held_topics
from framework.commit.file_ages import DEFAULT_AGE_MS
from framework.metrics import definitions as metrics
from framework.metrics.store_requests import Requests, StoreRequest, total
from framework.ops.cost.estimate import counted, listed, table_month
from framework.ops.cost.model import MONTH_MS, CountedRequests, PipelineMonth, Prices, TableMonth, TopicMonth
from framework.ops.readiness.review import Review
from framework.plan.topic_retention import DEFAULT_OUTAGE_MS, longest_interval_ms
from framework.runtime.maintenance.orphans import clean


def look(
    review: Review,
    most_ms: int,
    counts: CountedRequests | None,
    prices: Prices | None,
    lists: bool,
    say: Callable[[str], None],
) -> PipelineMonth:
    """
    Args:
        counts: what processes say of their requests.
        lists: whether to list all files of the tables.

    Raises:
        FloeError: the catalog, the store or the broker does not answer.
    """
    now_ms = int(time.time() * 1000)
    return PipelineMonth(
        review.plan.pipeline,
        review.pipeline.target.name,
        now_ms,
        tuple(_tables(review, now_ms, most_ms, lists, say)),
        tuple(_topics(review)),
        counts,
        prices,
    )


def counted_in(pages: Iterable[str]) -> CountedRequests | None:
    """What processes say of their requests, by their metrics as they serve them; None where there is no page.

    Raises:
        ValueError: a page holds no requests of a run.
    """
    return counted([_counted(page) for page in pages])


def _tables(review: Review, now_ms: int, most_ms: int, lists: bool, say: Callable[[str], None]) -> Iterator[TableMonth]:
    orphans = _orphans(review, say) if lists else {}
    for name in review.tables:
        say(name)
        loaded, _ = review.catalog.opened(name)
        if loaded is None:  # dropped since
            continue
        interval_ms = review.plan.write.tables.policy_for(name).commit.interval_ms
        month = table_month(growth_of(name, loaded), interval_ms, now_ms, most_ms)
        place = review.catalog.place(name) if lists else None
        if place is not None:
            files = review.catalog.stored_files(name, place.roots)
            month = listed(month, sum(file.size for file in files), orphans.get(name))
        yield month


def _orphans(review: Review, say: Callable[[str], None]) -> dict[str, int]:
    """By table their bytes, as `floe clean` finds them; without those of which it cannot say it."""
    topics = (review.plan.announce.control_topic,)
    found = clean(review.kafka, topics, review.catalog, review.tables, DEFAULT_AGE_MS, False, say)
    return {each.table: each.bytes for each in found if not each.skipped}


def _topics(review: Review) -> Iterator[TopicMonth]:
    outage_ms = review.pipeline.spec.source.outage_ms or DEFAULT_OUTAGE_MS
    needed_ms = outage_ms + longest_interval_ms(review.plan.write.tables)
    for held in held_topics(review.kafka, review.admin, review.facts, True):
        partitions = [each for each in held.partitions if each.records]
        yield TopicMonth(
            held.topic,
            _sum([each.bytes_in(MONTH_MS) for each in partitions]),
            max((each.span_ms for each in held.partitions), default=0),
            _sum([each.kept_bytes for each in partitions]),
            None if held.only_compacted else _sum([each.bytes_in(needed_ms) for each in partitions]),
        )


def _sum(sizes: list[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return sum(known) if known and len(known) == len(sizes) else None


def _counted(page: str) -> tuple[Requests, int]:
    """What one process says: its requests, and for how long it has run, by the phases of its pipelines."""
    from prometheus_client.parser import text_string_to_metric_families

    names = {metrics.STORE_REQUESTS.name, metrics.TASK_STORE_REQUESTS.name}
    seen: list[Requests] = []
    ran_s: Counter[str] = Counter()
    for sample in (each for family in text_string_to_metric_families(page) for each in family.samples):
        if sample.name in (*names, metrics.PHASE_SECONDS.name) and not 0 <= sample.value < math.inf:
            raise ValueError(f"{sample.name} is {sample.value} there")
        if sample.name in names:
            seen.append({StoreRequest(sample.labels.get("request", "")): int(sample.value)})
        elif sample.name == metrics.PHASE_SECONDS.name:
            ran_s[sample.labels.get("pipeline", "")] += sample.value  # type: ignore[assignment]
    if not seen or not ran_s:
        raise ValueError("it holds no requests of a run")
    return total(seen), int(1000 * max(ran_s.values()))
