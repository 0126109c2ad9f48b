"""The cases: what is loaded, what is measured. Each runs one contender once and gives plain figures.

In: the servers, a contender and the size of the run. Out: a dict of figures. Times are those of the tables' own
snapshots, so both contenders are read from the same clock:

- `end_to_end_s`: from the start of the contender's process to the snapshot that makes the last row visible.
- `steady_rows_s`: rows of the commits between 15 % and 85 % of all rows, over the time between these commits: neither
  start-up nor the tail is in it. Absent when there are fewer than three commits between.
- `steady_cpu_s_per_million`: user and system CPU of all processes of the contender over the same window.
- `cpu_s_per_million`: all CPU from the start to the last row, start-up included.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from confluent_kafka import Producer

from benchmarks import records
from benchmarks.contenders import Contender, Floe, Job
from benchmarks.freshness import seconds_to_visible
from benchmarks.processes import Costs
from benchmarks.servers import PARTITIONS, Servers

PATIENCE_S = 900.0
SETTLE_S = 40.0
Figures = dict[str, Any]
# All loads are multiplied by it.
scale = 1.0


@dataclass(frozen=True)
class Case:
    """`run(servers, contender, quick)`; `contenders` are those that can do it at all."""

    title: str
    run: Callable[[Servers, Contender, bool], Figures]
    contenders: tuple[str, ...] = ("connect", "floe")
    note: str = ""
    in_turn: str = ""
    """Cases with the same word here are compared with each other, too: chosen together they are run in turn, round by
    round, on one topic, after a run of each that is not counted. The first of them is the one that the others are shares of."""


def drained(
    servers: Servers,
    contender: Contender,
    job: Job,
    rows: int,
    offsets: int | None = None,
    partitions: int = PARTITIONS,
) -> Figures:
    """Start on a full topic; end when every row is visible."""
    servers.make_namespace(job.namespace)
    contender.start(job)
    costs = Costs(contender.pid).start()
    safe: list[tuple[float, int]] = []
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not safe or safe[-1][1] < (offsets or rows):
            _look(contender, deadline)
            time.sleep(0.5)
            safe.append((time.time(), servers.committed(contender.group, job.topic, partitions)))
        while (found := servers.snapshots(job.namespace)).rows < rows:
            _look(contender, deadline)
            time.sleep(0.5)
        costs.stop()
    finally:
        contender.stop()
    end = found.added[-1][0] / 1000
    figures: Figures = {
        "rows": found.rows,
        "tables": found.tables,
        "end_to_end_s": round(end - contender.started_at, 1),
        "rows_s": round(found.rows / (end - contender.started_at)),
        "cpu_s_per_million": round(costs.cpu_at(end) / found.rows * 1e6, 2),
        "peak_memory_mb": round(costs.peak_bytes / 1e6),
        "first_visible_s": round(found.added[0][0] / 1000 - contender.started_at, 1),
        "files": found.files,
        "mean_file_kb": round(found.nbytes / max(found.files, 1) / 1000),
    }
    return figures | _safe_rate(safe) | _steady(found.added, costs, job.interval_ms / 1000)


def _look(contender: Contender, deadline: float) -> None:
    contender.check()
    if time.monotonic() > deadline:
        raise RuntimeError(f"{contender.name} was not done within {PATIENCE_S:.0f} s")


def _middle(total: npt.NDArray[np.int64]) -> tuple[int, int]:
    """Where start and tail are left out: the first at which 15 % are done, and the first at which 85 % are."""
    first, last = (int(np.searchsorted(total, total[-1] * share)) for share in (0.15, 0.85))
    return first, last


def _safe_rate(safe: list[tuple[float, int]]) -> Figures:
    """Source offsets that became safe, per second. Both contenders' groups move when offsets are: those of floe with
    each batch, so that this does not come in steps of an interval as the rows of snapshots do."""
    moved = [now for before, now in pairwise(safe) if now[1] > before[1]]
    if not moved:
        return {}
    first, last = _middle(np.array([offsets for _, offsets in moved], np.int64))
    if last - first < 3:
        return {}
    return {"safe_offsets_s": round((moved[last][1] - moved[first][1]) / (moved[last][0] - moved[first][0]))}


def _steady(added: tuple[tuple[int, int, int], ...], costs: Costs, interval_s: float) -> Figures:
    """Rows that became visible, per second; nothing where all of it is one round of commits."""
    times = np.array([at for at, _, _ in added]) / 1000
    total = np.cumsum([rows for _, rows, _ in added])
    first, last = _middle(total)
    if last - first < 3 or times[last] - times[first] < interval_s:
        return {}
    rows, seconds = total[last] - total[first], times[last] - times[first]
    spent = costs.cpu_at(float(times[last])) - costs.cpu_at(float(times[first]))
    return {
        "steady_rows_s": round(float(rows / seconds)),
        "steady_cpu_s_per_million": round(float(spent / rows * 1e6), 2),
    }


def _size(quick: bool, small: int, full: int) -> int:
    return int((small if quick else full) * scale)


def _space() -> str:
    return f"b_{uuid.uuid4().hex[:6]}"


def _topic(
    servers: Servers,
    name: str,
    encode: records.Encode,
    count: int,
    partitions: int = PARTITIONS,
    compression: str = "none",
) -> str:
    """A topic with these records, loaded once for all contenders and rounds."""
    topic = f"{name}-{count}"
    if topic not in loaded:
        loaded[topic] = servers.load(topic, records.numbered(encode, count), partitions, compression)[1] // count
    return topic


loaded: dict[str, int] = {}


def one_table(servers: Servers, contender: Contender, quick: bool) -> Figures:
    count = _size(quick, 4_000_000, 48_000_000)
    topic = _topic(servers, "one", records.one_table, count)
    return drained(servers, contender, Job(topic, _space(), "orders", 3_000 if quick else 5_000), count)


def _many(tables: int, quick_count: int, count: int) -> Callable[[Servers, Contender, bool], Figures]:
    def run(servers: Servers, contender: Contender, quick: bool) -> Figures:
        size = _size(quick, quick_count, count)
        # The record names its table with the namespace, so a topic serves one namespace: it is emptied before each run.
        space = f"many_{tables}"
        topic = _topic(servers, f"many{tables}", records.many_tables(space, tables), size)
        drop(servers, space)
        return drained(servers, contender, Job(topic, space, "{kind}", 5_000 if quick else 10_000), size)

    return run


def _default_interval(tables: int, kinds: int) -> Callable[[Servers, Contender, bool], Figures]:
    """So many records that some are still read when the first minute's commits are made. They name one of `kinds`
    tables; for the case of one table the name is not heeded, so that one and many read the same topic."""

    def run(servers: Servers, contender: Contender, quick: bool) -> Figures:
        size = _size(quick, 10_000_000, 150_000_000)
        space = f"minute_{kinds}"
        encode = records.repeated(records.many_tables(space, kinds), 1_000_000)
        topic = _topic(servers, f"minute{kinds}", encode, size, compression="lz4")
        drop(servers, space)
        return drained(servers, contender, Job(topic, space, "orders" if tables == 1 else "{kind}", 60_000), size)

    return run


def drop(servers: Servers, namespace: str) -> None:
    catalog = servers.catalog()
    if (namespace,) not in catalog.list_namespaces():
        return
    for name in catalog.list_tables(namespace):
        catalog.drop_table(name)
    catalog.drop_namespace(namespace)


def wide(servers: Servers, contender: Contender, quick: bool) -> Figures:
    count = _size(quick, 200_000, 1_500_000)
    topic = _topic(servers, "wide", records.wide, count)
    return drained(servers, contender, Job(topic, _space(), "wide", 5_000), count)


def drift(servers: Servers, contender: Contender, quick: bool) -> Figures:
    count = _size(quick, 500_000, 2_000_000)
    topic = _topic(servers, "drift", records.drift, count)
    return drained(servers, contender, Job(topic, _space(), "orders", 5_000), count)


# Declared, so that all runs have one table from the first batch and times are converted.
DECLARED = "{order_id: {type: long}, store_id: {type: long}, date_ordered: {type: timestamptz, zone: UTC}}"


def _spoiled(name: str, encode: records.Encode) -> Callable[[Servers, Contender, bool], Figures]:
    def run(servers: Servers, contender: Contender, quick: bool) -> Figures:
        count = _size(quick, 500_000, 4_000_000)
        topic = _topic(servers, name, encode, count)
        return drained(servers, contender, Job(topic, _space(), "orders", 5_000, schema=DECLARED), count)

    return run


def days(servers: Servers, contender: Contender, quick: bool) -> Figures:
    count = _size(quick, 500_000, 4_000_000)
    topic = _topic(servers, "days", records.all_days, count)
    return drained(servers, contender, Job(topic, _space(), "orders", 10_000, "truncate(date_ordered, 10)"), count)


def many_partitions(servers: Servers, contender: Contender, quick: bool) -> Figures:
    """Nearly every record goes to a partition of its own: what is held in memory, and how many files it takes."""
    count, tables = _size(quick, 20_000, 150_000), 50
    space = f"partitioned_{tables}"
    topic = _topic(servers, "partitioned", records.many_tables(space, tables), count)
    drop(servers, space)
    job = Job(topic, space, "{kind}", 10_000, "bucket(order_id, 5000)")
    return drained(servers, contender, job, count)


def one_partition(servers: Servers, contender: Contender, quick: bool) -> Figures:
    count = _size(quick, 2_000_000, 12_000_000)
    topic = _topic(servers, "hot", records.one_table, count, 1)
    return drained(servers, contender, Job(topic, _space(), "orders", 3_000 if quick else 10_000), count, partitions=1)


def cold_start(servers: Servers, contender: Contender, quick: bool) -> Figures:
    topic = _topic(servers, "cold", records.one_table, 1000)
    job = Job(topic, _space(), "orders", 1_000)
    servers.make_namespace(job.namespace)
    contender.start(job)
    costs = Costs(contender.pid).start()
    try:
        deadline = time.monotonic() + 180
        while (found := servers.snapshots(job.namespace)).rows == 0:
            _look(contender, deadline)
            time.sleep(0.1)
        costs.stop()
    finally:
        contender.stop()
    first = found.added[0][0] / 1000
    return {"first_visible_s": round(first - contender.started_at, 1), "cpu_s": round(costs.cpu_at(first), 1)}


def _freshness(interval_ms: int) -> Callable[[Servers, Contender, bool], Figures]:
    def run(servers: Servers, contender: Contender, quick: bool) -> Figures:
        seconds, rate = (30 if quick else 120), 5_000
        topic, space = f"fresh-{uuid.uuid4().hex[:6]}", _space()
        servers.make_topic(topic)
        job = Job(topic, space, "orders", interval_ms)
        servers.make_namespace(space)
        contender.start(job)
        try:
            _settle(contender)
            sent = _produce(servers, topic, rate, seconds)
            deadline = time.monotonic() + 180
            while (found := servers.snapshots(space)).rows < sent:
                _look(contender, deadline)
                time.sleep(0.5)
        finally:
            contender.stop()
        delays = np.concatenate([seconds_to_visible(table, "date_ordered") for table in servers.tables(space)])
        return {
            "rows": found.rows,
            "p50_s": round(float(np.percentile(delays, 50)), 2),
            "p95_s": round(float(np.percentile(delays, 95)), 2),
            "max_s": round(float(delays.max()), 2),
            "files": found.files,
            "commits": len(found.added),
        }

    return run


def _settle(contender: Contender) -> None:
    """Time to start: what is measured is the freshness of a running job, from the first record on."""
    until = time.monotonic() + SETTLE_S
    while time.monotonic() < until:
        contender.check()
        time.sleep(0.5)


def _produce(servers: Servers, topic: str, rate: int, seconds: int) -> int:
    producer = Producer({"bootstrap.servers": servers.broker.address, "linger.ms": 5, "acks": "1"})
    begin, sent = time.time(), 0
    while (elapsed := time.time() - begin) < seconds:
        now = datetime.now(timezone.utc).replace(tzinfo=None)
        while sent < int(elapsed * rate):
            producer.produce(topic, records.dumps(records.order(sent, now)), partition=sent % PARTITIONS)
            sent += 1
        producer.poll(0)
        time.sleep(0.01)
    producer.flush(30)
    return sent


def validate(servers: Servers, contender: Contender, quick: bool) -> Figures:
    del servers, quick
    assert isinstance(contender, Floe)
    folder = contender.write_files(100)
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    command = [sys.executable, "-m", "framework.cli.main", "validate", "pipelines", "--target", "bench"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": round(time.monotonic() - began, 2), "cpu_s": round(spent, 2)}


CASES: dict[str, Case] = {
    "one-table": Case("one table", one_table),
    "100-tables": Case("100 tables, by a field", _many(100, 1_000_000, 40_000_000)),
    "1000-tables": Case("1,000 tables, by a field", _many(1000, 500_000, 10_000_000)),
    **{
        f"minute-{tables}-of-{kinds}": Case(
            f"{tables:,} table{'s' if tables > 1 else ''}, records that name one of {kinds:,}, commits every minute",
            _default_interval(tables, kinds),
            ("floe",),
            "what the number of tables costs at the default interval; the sink would need a quarter of an hour",
            f"minute-of-{kinds}",
        )
        for kinds in (100, 1000)
        for tables in (1, kinds)
    },
    "cold-start": Case("cold start to the first visible row, commits every 1 s", cold_start),
    "fresh-1s": Case("freshness at 5,000 records/s, commits every 1 s", _freshness(1_000)),
    "fresh-10s": Case("freshness at 5,000 records/s, commits every 10 s", _freshness(10_000)),
    "many-partitions": Case(
        "50 tables of 5,000 partitions each", many_partitions, ("floe",), "files are tiny on purpose"
    ),
    "one-partition": Case("one partition, two cores", one_partition),
    "wide": Case("wide records: 100 columns, nested", wide),
    "drift": Case("a new column every 100,000 records", drift),
    "days": Case("partitioned by 365 days", days),
    "validate": Case("floe validate of 100 files", validate, ("floe",)),
    **{
        name: Case(title, _spoiled(name, encode), ("floe",), "the sink's task fails at the first bad record")
        for name, title, encode in (
            ("good", "declared types, no bad record", records.one_table),
            ("one-bad", "one record in a million is no JSON", records.one_in(1_000_000, records.no_json)),
            ("bad", "1 % of the records are no JSON", records.one_in(100, records.no_json)),
            ("bad-types", "1 % of the records have text for a number", records.one_in(100, records.wrong_type)),
            ("bad-times", "1 % of the records have text that is no time", records.one_in(100, records.no_time)),
        )
    },
}
QUICK = ("one-table", "100-tables", "cold-start", "fresh-1s")


def cores() -> int:
    return os.cpu_count() or 1


def memory_gb() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9)
