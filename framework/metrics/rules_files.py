"""The alerts as files that Prometheus and promtool read.

In: the alerts. Out: YAML: the rules, and tests in which each rule fires for its example and is silent before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from framework.config.values.owners import Duty
from framework.metrics import definitions as d
from framework.metrics.alerts import ALERTS, RUNBOOK, Alert

RULES_FILE, RULE_TESTS_FILE = "alerts.yaml", "alerts_test.yaml"
_TEAM = "team-orders"
_HEAD = "# Made from framework/metrics/alerts.py by `floe docs`; change that file.\n"


def rules() -> str:
    """The alert rules."""
    return _yaml({"groups": [{"name": "floe", "rules": [_rule(alert) for alert in ALERTS]}]})


def rule_tests() -> str:
    """Tests for `promtool test rules`."""
    return _yaml({"rule_files": [RULES_FILE], "evaluation_interval": "1m", "tests": list(_tests())})


def _rule(alert: Alert) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expression,
        **({"for": f"{alert.for_min}m"} if alert.for_min else {}),
        "labels": {"severity": alert.severity.value, **({"team": _team(alert.duty)} if alert.duty is not None else {})},
        "annotations": {
            "summary": alert.summary,
            "description": alert.description,
            "runbook": f"{RUNBOOK}#{alert.anchor}",
        },
    }


def _team(duty: Duty) -> str:
    """The team that owns the duty, or else the pipeline: asked for when the alert fires, which it does with or without one."""
    wanted = f'=~\\"{duty.value}|pipeline\\"' if duty is not Duty.PIPELINE else f'=\\"{duty.value}\\"'
    order = "duty" if duty is not Duty.PIPELINE else "team"  # `pipeline` comes last
    owner = f'query (printf "{d.PIPELINE_OWNER.name}{{duty{wanted},pipeline=%q}}" $labels.pipeline)'
    return f'{{{{ with {owner} }}}}{{{{ . | sortByLabel "{order}" | first | label "team" }}}}{{{{ end }}}}'


def _tests() -> Iterator[dict[str, Any]]:
    for alert in ALERTS:
        yield _test(alert)
        for number, quiet in enumerate(alert.quiet, start=1):
            yield {
                "name": f"{alert.name} stays quiet for less ({number} of {len(alert.quiet)})",
                "interval": "1m",
                "input_series": [{"series": each.name, "values": each.values} for each in quiet],
                "promql_expr_test": [
                    {"expr": f'ALERTS{{alertname="{alert.name}"}}', "eval_time": f"{minute}m", "exp_samples": []}
                    for minute in range(0, alert.fires_at_min + 1, 20)
                ],
            }


def _test(alert: Alert) -> dict[str, Any]:
    series = [{"series": each.name, "values": each.values} for each in alert.example]
    if alert.duty is not None:
        owner = f'{d.PIPELINE_OWNER.name}{{duty="{alert.duty.value}",pipeline="{dict(alert.labels)["pipeline"]}",team="{_TEAM}"}}'
        series.append({"series": owner, "values": "1x60"})
    # Which alerts fire is asked of the series that counts them: texts hold values that need not be repeated here.
    expected = (*alert.labels, *((("team", _TEAM),) if alert.duty is not None else ()))
    labels = "".join(f',{key}="{value}"' for key, value in expected)
    firing = f'count(ALERTS{{alertname="{alert.name}",alertstate="firing"{labels}}})'
    return {
        "name": f"{alert.name} fires for its example, and not before",
        "interval": "1m",
        "input_series": series,
        "promql_expr_test": [
            {"expr": firing, "eval_time": "0m", "exp_samples": []},
            {"expr": firing, "eval_time": f"{alert.fires_at_min}m", "exp_samples": [{"value": 1}]},
        ],
    }


def _yaml(document: dict[str, Any]) -> str:
    return _HEAD + yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
