"""The Grafana dashboard: trouble first, then pipelines, commits, and the process.

In: the metrics' definitions. Out: the dashboard as JSON, to be imported as it is.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from framework.metrics import definitions as d
from framework.metrics.definitions import Metric

DASHBOARD_FILE = "dashboard.json"
_WIDTH, _HEIGHT, _COLUMNS = 8, 7, 3
_STATES = "STALLED|FAILED|BLOCKED|DEGRADED"


@dataclass(frozen=True)
class Panel:
    """One plot: queries with their legends, in a unit of Grafana's."""

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "timeseries"


def _by_pipeline(metric: Metric, label: str = "pipeline") -> tuple[str, str]:
    return f"sum by ({label}) ({metric.name})", f"{{{{{label}}}}}"


def _rate(metric: Metric, *labels: str) -> tuple[str, str]:
    names = ", ".join(labels)
    return f"sum by ({names}) (rate({metric.name}[$__rate_interval]))", " ".join(f"{{{{{each}}}}}" for each in labels)


def _quantiles(metric: Metric, label: str) -> tuple[tuple[str, str], ...]:
    return tuple(
        (
            f"histogram_quantile({q}, sum by (le, {label}) (rate({metric.name}_bucket[$__rate_interval])))",
            f"{{{{{label}}}}} p{q * 100:.0f}",
        )
        for q in (0.5, 0.95)
    )


ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "In trouble",
        (
            Panel(
                "Pipelines",
                ((f'{d.PIPELINE_STATE.name}{{state=~"{_STATES}"}} == 1', "{{pipeline}} {{state}}"),),
                kind="table",
            ),
            Panel(
                "Tables",
                ((f'{d.TABLE_STATE.name}{{state=~"{_STATES}"}} == 1', "{{table}} {{state}}"),),
                kind="table",
            ),
            Panel("Retries", (_rate(d.RETRIES, "service"),), "ops"),
        ),
    ),
    (
        "Pipelines",
        (
            Panel("Lag", (_by_pipeline(d.LAG_RECORDS),)),
            Panel("Lag in time", ((f"max by (pipeline) ({d.LAG_SECONDS.name})", "{{pipeline}}"),), "s"),
            Panel("Records", (_rate(d.RECORDS, "pipeline", "outcome"),), "ops"),
            Panel("Time of batches", _quantiles(d.BATCH_SECONDS, "pipeline"), "s"),
            Panel("Phases of batches", (_rate(d.PHASE_SECONDS, "pipeline", "phase"),), "percentunit"),
            Panel("Dead letters", (_rate(d.DEAD_LETTERS, "pipeline", "stage", "code"),), "ops"),
            Panel("Dropped records", (_rate(d.DROPPED, "pipeline", "reason"),), "ops"),
            Panel("Part of the retention that is not read", (_by_pipeline(d.RETENTION_USED),), "percentunit"),
            Panel("Batches", (_rate(d.BATCHES, "pipeline", "outcome"),), "ops"),
        ),
    ),
    (
        "Commits",
        (
            Panel("Announced and not committed", (_by_pipeline(d.PENDING_RECORDS, "table"),)),
            Panel("Age of the oldest announcement", ((f"time() - {d.OLDEST.name}", "{{table}}"),), "s"),
            Panel("Valid-through age", ((f"time() - {d.VALID_THROUGH.name}", "{{table}}"),), "s"),
            Panel("Time of commits", _quantiles(d.COMMIT_SECONDS, "catalog"), "s"),
            Panel("Outcomes", (_rate(d.COMMITS, "catalog", "outcome"),), "ops"),
            Panel("Tables by state", (_by_pipeline(d.TABLES, "state"),)),
            Panel("Who coordinates", ((f"{d.OWNER.name}", "{{control_topic}} {{instance}}"),)),
            Panel("Files that wait", (_by_pipeline(d.PENDING_FILES, "table"),)),
            Panel("Bytes that wait", (_by_pipeline(d.PENDING_BYTES, "table"),), "bytes"),
        ),
    ),
    (
        "Tables",
        (
            Panel("To be maintained", ((f"{d.NEEDS.name} > 0", "{{table}} {{reason}}"),), kind="table"),
            Panel("Files that a compaction would spare", (_by_pipeline(d.GAIN_FILES, "table"),)),
            Panel("Data files by size", (_by_pipeline(d.DATA_FILES, "size"),)),
            Panel("Small files", (_by_pipeline(d.SMALL_FILES, "table"),)),
            Panel("Deleted rows", (_by_pipeline(d.DELETED_ROWS, "table"),)),
            Panel("Delete files", (_by_pipeline(d.DELETE_FILES, "table"),)),
            Panel("Snapshots", (_by_pipeline(d.SNAPSHOTS, "table"),)),
            Panel("Size of the metadata file", (_by_pipeline(d.METADATA_BYTES, "table"),), "bytes"),
            Panel("Since the last maintenance", ((f"time() - {d.LAST_MAINTENANCE.name}", "{{table}}"),), "s"),
        ),
    ),
    (
        "Process",
        (
            Panel("Memory", ((d.MEMORY.name, "{{instance}} {{process}}"),), "bytes"),
            Panel("Services that answer", ((d.SERVICE_UP.name, "{{instance}} {{service}}"),)),
            Panel("Series that are summed", ((d.SUMMED.name, "{{instance}} {{kind}}"),)),
        ),
    ),
)


def dashboard() -> str:
    """The dashboard's JSON."""
    panels: list[dict[str, Any]] = []
    top = 0
    for title, row in ROWS:
        panels.append(
            {
                "id": len(panels) + 1,
                "type": "row",
                "title": title,
                "collapsed": False,
                "panels": [],
                "gridPos": {"h": 1, "w": 24, "x": 0, "y": top},
            }
        )
        top += 1
        for number, panel in enumerate(row):
            place = {
                "h": _HEIGHT,
                "w": _WIDTH,
                "x": number % _COLUMNS * _WIDTH,
                "y": top + number // _COLUMNS * _HEIGHT,
            }
            panels.append(_panel(panel, len(panels) + 1, place))
        top += -(-len(row) // _COLUMNS) * _HEIGHT
    document = {
        "title": "floe",
        "uid": "floe",
        "description": f"Pipelines, commits and tables of floe; version {d.CONTRACT_VERSION} of its metrics.",
        "tags": ["floe"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [{"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}]
        },
        "panels": panels,
    }
    return json.dumps(document, indent=2) + "\n"


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    is_table = panel.kind == "table"
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "datasource": source,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "options": {} if is_table else {"legend": {"displayMode": "list", "placement": "bottom"}},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": source,
                "expr": query,
                "legendFormat": legend,
                **({"format": "table", "instant": True} if is_table else {}),
            }
            for index, (query, legend) in enumerate(panel.queries)
        ],
    }
