"""The reference page of metrics and alerts, as Markdown.

In: definitions and alerts. Out: the text of `docs/reference/metrics.md`.
"""

from __future__ import annotations

from framework.metrics.alerts import ALERTS, Alert
from framework.metrics.definitions import CONTRACT_VERSION, METRICS, OTHERS, Metric
from framework.metrics.labels import LABELS
from framework.metrics.samples import MAX_PARTITIONS, MAX_REASONS

METRICS_FILE = "metrics.md"


def page() -> str:
    """The page."""
    return "\n".join(
        [
            "# Metrics and alerts",
            "",
            "<!-- Made from framework/metrics/ by `floe docs`; change those files. -->",
            "",
            "Drivers and coordinators serve these at `/metrics` if the target has `monitoring.listen`; see",
            "[operations.md](../operations.md#metrics-and-health). The alert rules are [alerts.yaml](alerts.yaml), their tests",
            "[alerts_test.yaml](alerts_test.yaml), and the Grafana dashboard is [dashboard.json](dashboard.json).",
            "`floe docs --output FOLDER` writes all of them from an installed package.",
            "",
            f"This list is a contract, version {CONTRACT_VERSION}. A metric keeps its name, type, unit and labels; what is added",
            "says since which version.",
            "",
            "The number of series is bounded: `monitoring.max_tables` tables of each control topic,",
            f"{MAX_PARTITIONS} partitions and {MAX_REASONS} reasons of each pipeline have their own. The rest is summed under",
            f"`{OTHERS}`, tables in trouble last of all, and `floe_metrics_summed` says how many those are. Offsets have no sum;",
            "partitions beyond the bound are in the lag alone.",
            "",
            "## Metrics",
            "",
            "| metric | type | labels | unit | since | |",
            "|---|---|---|---|---|---|",
            *map(_metric, METRICS),
            "",
            "## Labels",
            "",
            "No other label exists. Labels hold names and words of floe, never a record, a key of one, or a secret.",
            "",
            "| label | |",
            "|---|---|",
            *(f"| `{label.value}` | {text} |" for label, text in LABELS.items()),
            "",
            "## Alerts",
            "",
            "`page` wants somebody now, `ticket` this day. Each name leads to its section of the runbook.",
            "",
            "| alert | severity | fires when | for |",
            "|---|---|---|---|",
            *map(_alert, ALERTS),
            "",
        ]
    )


def _metric(metric: Metric) -> str:
    labels = ", ".join(f"`{label.value}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind.value} | {labels} | {metric.unit} | {metric.since} | {metric.help} |"


def _alert(alert: Alert) -> str:
    after = f"{alert.for_min} min" if alert.for_min else "at once"
    link = f"[{alert.name}](../operations.md#{alert.anchor})"
    return f"| {link} | {alert.severity.value} | `{alert.expression.replace('|', chr(92) + '|')}` | {after} |"
