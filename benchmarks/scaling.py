"""How floe's cost grows: with records, tables, partitions, columns, cores and executors.

In: which curves, how large. Out: `scaling.json`, a Markdown table of each curve, and `scaling.svg`. One thing changes
along a curve, the rest stays; each point is a whole run from nothing to the last visible row, as in
`benchmarks.compare`.

    python -m benchmarks.scaling --curve tables --out benchmarks/results
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from html import escape
from pathlib import Path

from benchmarks import cases, records
from benchmarks.contenders import Floe, Job
from benchmarks.servers import PARTITIONS, Servers
from testbed.servers.spark_cluster import SparkCluster

SHOWN = ("rows_s", "cpu_s_per_million", "peak_memory_mb", "files")


@dataclass(frozen=True)
class Point:
    """One run. `cores` pins floe to so many, with `servers_too` broker and catalog as well; `executors` makes a
    standalone cluster of so many workers of one core."""

    x: int
    topic: str
    encode: records.Encode
    count: int
    table: str = "orders"
    space: str = "scaling"
    partitions: int = PARTITIONS
    cores: int | None = None
    servers_too: bool = False
    executors: int | None = None


def _tables(count: int, size: int) -> Point:
    space = f"tables_{count}"
    return Point(count, f"tables{count}", records.many_tables(space, count), size, "{kind}", space)


def curves(scale: float) -> dict[str, list[Point]]:
    def of(millions: float) -> int:
        return int(millions * 1e6 * scale)

    one = records.one_table
    return {
        "records": [Point(of(m), "records", one, of(m)) for m in (1, 4, 12, 24)],
        "tables": [_tables(count, of(4)) for count in (1, 10, 100, 1000)],
        "partitions": [Point(p, f"partitions{p}", one, of(4), partitions=p) for p in (1, 4, 16, 64, 256)],
        "columns": [Point(c, f"columns{c}", records.columns(c), of(20 / c)) for c in (5, 10, 20, 50, 100, 200)],
        "cores": [Point(c, "cores", one, of(8), cores=c) for c in (1, 2)],
        "cores-of-one-partition": [Point(c, "hot", one, of(8), partitions=1, cores=c) for c in (1, 2)],
        "cores-of-a-machine": [Point(c, "hot", one, of(8), partitions=1, cores=c, servers_too=True) for c in (1, 2)],
        "executors": [Point(e, "executors", one, of(4), executors=e) for e in (1, 2, 3)],
    }


def measure(servers: Servers, point: Point, folder: Path) -> cases.Figures:
    """One run of floe; figures as those of `benchmarks.cases`."""
    with ExitStack() as stack:
        name = f"{point.topic}-{point.count}-{point.partitions}"
        if name not in cases.loaded:
            cases.loaded[name] = servers.load(name, records.numbered(point.encode, point.count), point.partitions)[1]
        cases.drop(servers, point.space)
        cores = range(point.cores or 0)
        words = ["taskset", "-c", ",".join(map(str, cores))] if cores else []
        if point.servers_too:
            servers.pin(cores)
            stack.callback(servers.pin, range(os.cpu_count() or 1))
        if point.executors:
            cluster = SparkCluster(folder / f"cluster-{point.executors}", point.executors)
            stack.callback(cluster.stop)
            conf = {"spark.driver.host": "127.0.0.1", "spark.executor.memory": "512m", "spark.executor.cores": "1"}
            conf["spark.pyspark.python"] = sys.executable
            floe = Floe(servers, folder, cluster.master, conf)
        else:
            floe = Floe(servers, folder, words=words)
        job = Job(name, point.space, point.table, 5_000)
        figures = cases.drained(servers, floe, job, point.count, partitions=point.partitions)
        return {"x": point.x, "record_bytes": cases.loaded[name] // point.count, **figures}


def table(curve: str, rows: Sequence[Mapping[str, object]]) -> str:
    head = [
        curve,
        "record bytes",
        "rows/s from start to end",
        "steady rows/s",
        "CPU s per million",
        "memory MB",
        "files",
    ]
    keys = ("x", "record_bytes", "rows_s", "steady_rows_s", "cpu_s_per_million", "peak_memory_mb", "files")
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for row in rows:
        cells = (row.get(key, "") for key in keys)
        lines.append("| " + " | ".join(f"{c:,}" if isinstance(c, (int, float)) else str(c) for c in cells) + " |")
    return "\n".join(lines)


def svg(found: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """A row a curve, a small plot a figure; each plot begins at nought, points are evenly spaced."""
    wide, high = 220, 130
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide * len(SHOWN) + 20}" height="{high * len(found) + 30}" '
        'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>'
    ]
    for column, figure in enumerate(SHOWN):
        parts.append(f'<text x="{column * wide + 30}" y="18" font-weight="bold">{escape(figure)}</text>')
    for line, (curve, rows) in enumerate(found.items()):
        for column, figure in enumerate(SHOWN):
            left, top = column * wide + 30, line * high + 40
            values = [float(row.get(figure, 0)) for row in rows]
            most = max([*values, 1e-9])
            step = (wide - 70) / max(len(rows) - 1, 1)
            dots = [(left + i * step, top + 75 - 65 * value / most) for i, value in enumerate(values)]
            parts.append(f'<path d="M{left - 6} {top + 75}h{wide - 56}" stroke="#bbb"/>')
            parts.append(
                f'<polyline points="{" ".join(f"{x:.0f},{y:.0f}" for x, y in dots)}" fill="none" stroke="#2b7bba" '
                'stroke-width="2"/>'
            )
            for (x, y), value, row in zip(dots, values, rows, strict=True):
                parts.append(f'<circle cx="{x:.0f}" cy="{y:.0f}" r="3" fill="#2b7bba"/>')
                parts.append(
                    f'<text x="{x:.0f}" y="{y - 6:.0f}" text-anchor="middle" font-size="9">{_short(value)}</text>'
                )
                parts.append(
                    f'<text x="{x:.0f}" y="{top + 88}" text-anchor="middle" font-size="9" fill="#555">'
                    f"{_short(float(row['x']))}</text>"
                )
        parts.append(f'<text x="6" y="{line * high + 136}" fill="#555">{escape(curve)}</text>')
    return "\n".join(parts) + "</svg>\n"


def _short(value: float) -> str:
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--curve", action="append", choices=curves(1.0), help="which (default: all)")
    parser.add_argument("--scale", type=float, default=1.0, help="all loads are multiplied by it")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), help="folder of the results")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    chosen = options.curve or list(curves(1.0))
    found: dict[str, list[cases.Figures]] = {}
    folder = Path(tempfile.mkdtemp(prefix="floe-scaling-"))
    servers = Servers(folder / "servers").start()
    try:
        for curve in chosen:
            for point in curves(options.scale)[curve]:
                found.setdefault(curve, []).append(measure(servers, point, folder / "floe"))
                print(curve, json.dumps(found[curve][-1]), flush=True)
    finally:
        servers.stop()
        shutil.rmtree(folder, ignore_errors=True)
    (options.out / "scaling.json").write_text(json.dumps(found, indent=2) + "\n")
    (options.out / "scaling.md").write_text("\n\n".join(table(*each) for each in found.items()) + "\n")
    (options.out / "scaling.svg").write_text(svg(found))


if __name__ == "__main__":
    main()
