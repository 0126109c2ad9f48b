"""The Grafana dashboard: trouble first, then pipelines, commits, and the process.

In: the metrics' definitions. Out: the dashboard as JSON, to be imported as it is.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from framework.metrics import definitions as d
from framework.metrics.definitions import Metric
from framework.metrics.labels import Label

DASHBOARD_FILE = "dashboard.json"
_WIDTH, _HEIGHT, _COLUMNS = 8, 7, 3
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_METRICS = {metric.name: metric for metric in d.METRICS}
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


def _age(metric: Metric, label: str) -> tuple[str, str]:
    return f"time() - {metric.name}", f"{{{{{label}}}}}"


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
            Panel("No progress", ((f"{d.STALLED.name} == 1", "{{pipeline}} {{phase}}"),), kind="table"),
            Panel("No record for too long", ((f"{d.SILENT.name} == 1", "{{pipeline}}"),), kind="table"),
            Panel("Changes of the coordinator in 15 minutes", ((d.RECENT_TAKEOVERS.name, "{{control_topic}}"),)),
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
            Panel("Since the state began", (_age(d.PIPELINE_SINCE, "pipeline"),), "s"),
            Panel("Since the last progress", (_age(d.PROGRESS, "pipeline"),), "s"),
            Panel("Phase now", ((f"{d.PHASE.name} == 1", "{{pipeline}} {{phase}}"),), kind="table"),
            Panel(
                "Offsets per second, written and announced",
                tuple(
                    (f"sum by (pipeline) (deriv({metric.name}[5m]))", f"{{{{pipeline}}}} {word}")
                    for metric, word in ((d.LOG_END, "written"), (d.SAFE_OFFSET, "announced"))
                ),
                "ops",
            ),
            Panel("Owners", ((d.PIPELINE_OWNER.name, "{{pipeline}} {{duty}} {{team}}"),), kind="table"),
            Panel(
                "Burn rate of error budgets over an hour",
                (
                    (
                        f"sum by (pipeline, objective) (increase({d.OBJECTIVE_BAD.name}[1h])) / "
                        f"sum by (pipeline, objective) (increase({d.OBJECTIVE_COUNTED.name}[1h])) / "
                        f"(1 - max by (pipeline, objective) ({d.OBJECTIVE_TARGET.name}))",
                        "{{pipeline}} {{objective}}",
                    ),
                ),
            ),
            Panel("Newest batch", (_by_pipeline(d.BATCH),)),
            Panel("Batches that wait for their tables", (_by_pipeline(d.WAITING_BATCHES),)),
            Panel("Bytes that wait for their tables", (_by_pipeline(d.WAITING_BYTES),), "bytes"),
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
            Panel("Announcements that wait", (_by_pipeline(d.PENDING_ANNOUNCEMENTS, "table"),)),
            Panel("Since the last commit", (_age(d.LAST_COMMIT, "table"),), "s"),
            Panel("Oldest request of the catalog", (_age(d.OLDEST_REQUEST, "catalog"),), "s"),
            Panel("Since who coordinates does", (_age(d.OWNER_SINCE, "control_topic"),), "s"),
            Panel("Takeovers by this process", ((d.TAKEOVERS.name, "{{control_topic}} {{instance}}"),)),
            Panel("Leader epoch of the control topic", ((d.LEADER_EPOCH.name, "{{control_topic}}"),)),
            Panel(
                "Control topic",
                tuple(
                    (f"max by (control_topic) ({metric.name})", f"{{{{control_topic}}}} {word}")
                    for metric, word in ((d.POSITION, "read up to"), (d.LOW_WATER, "in every table below"))
                ),
            ),
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
            Panel("Since the last look at the manifests", (_age(d.MEASURED, "table"),), "s"),
            Panel("Manifests", (_by_pipeline(d.MANIFESTS, "table"),)),
            Panel("Bytes that a compaction would read", (_by_pipeline(d.GAIN_BYTES, "table"),), "bytes"),
            Panel("Snapshots that would expire", (_by_pipeline(d.GAIN_SNAPSHOTS, "table"),)),
        ),
    ),
    (
        "Process",
        (
            Panel("Memory", ((d.MEMORY.name, "{{instance}} {{process}}"),), "bytes"),
            Panel("Services that answer", ((d.SERVICE_UP.name, "{{instance}} {{service}}"),)),
            Panel("Series that are summed", ((d.SUMMED.name, "{{instance}} {{kind}}"),)),
            Panel(
                "Requests to the store",
                (
                    _rate(d.STORE_REQUESTS, "request"),
                    (
                        f"sum by (pipeline, request) (rate({d.TASK_STORE_REQUESTS.name}[$__rate_interval]))",
                        "tasks of {{pipeline}} {{request}}",
                    ),
                ),
                "reqps",
            ),
            Panel("Lineage events that were dropped", ((d.LINEAGE_DROPPED.name, "{{instance}}"),)),
            Panel("Versions", ((d.INFO.name, "{{instance}} {{version}} {{target}}"),), kind="table"),
            Panel("Version of the metrics", ((d.CONTRACT.name, "{{instance}}"),)),
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
        "templating": {"list": _variables()},
        "panels": panels,
    }
    return json.dumps(document, indent=2) + "\n"


def _variables() -> list[dict[str, Any]]:
    """What is chosen above the plots. A metric has its process alone, and `floe_info` says of which target that is."""
    chosen = (
        ("target", "Target", f"label_values({d.INFO.name}, target)"),
        ("instance", "Process", f'label_values({d.INFO.name}{{target=~"$target"}}, instance)'),
        (
            "pipeline",
            "Pipeline",
            f'label_values({d.PIPELINE_STATE.name}{{instance=~"$instance"}}, pipeline)',
        ),
    )
    return [
        {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
        *(
            {
                "name": name,
                "label": label,
                "type": "query",
                "datasource": _SOURCE,
                "query": {"query": query, "refId": name},
                "definition": query,
                "refresh": 2,
                "sort": 1,
                "multi": True,
                "includeAll": True,
                "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
            }
            for name, label, query in chosen
        ),
    ]


def _selected(query: str) -> str:
    """The query, of the processes and pipelines that are chosen."""

    def selected(found: re.Match[str]) -> str:
        metric = _METRICS[re.sub(r"_(bucket|sum|count)$", "", found[1])]
        chosen = ['instance=~"$instance"', *(['pipeline=~"$pipeline"'] if Label.PIPELINE in metric.labels else ())]
        given = found[2].strip("{}") if found[2] else ""
        return f"{found[1]}{{{', '.join([*filter(None, (given,)), *chosen])}}}"

    return re.sub(r"\b(floe_\w+)(\{[^{}]*\})?", selected, query)


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    is_table = panel.kind == "table"
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "options": {} if is_table else {"legend": {"displayMode": "list", "placement": "bottom"}},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _SOURCE,
                "expr": _selected(query),
                "legendFormat": legend,
                **({"format": "table", "instant": True} if is_table else {}),
            }
            for index, (query, legend) in enumerate(panel.queries)
        ],
    }
