"""Alerts fire for planted faults, by Prometheus's own evaluation, and lead to their section of the runbook."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from framework.commit.events.event_types import Health
from framework.commit.maintenance.health import TableHealth, needs_of
from framework.commit.maintenance.others import OtherMaintainer
from framework.config.values.objectives import Objective
from framework.metrics.alerts import ALERTS, RUNBOOK
from framework.metrics.dashboard import dashboard
from framework.metrics.definitions import METRICS
from framework.metrics.figures import Figures, Histogram, ObjectiveFigures
from framework.metrics.labels import Label
from framework.metrics.rules_files import RULE_TESTS_FILE, RULES_FILE
from framework.metrics.samples import samples
from testbed.servers.promtool import promtool
from tests.unit.metrics.planted import BEGINS_MIN, FAULTS, Fault, well

ROOT = Path(__file__).parents[3]
REFERENCE = ROOT / "docs" / "reference"
LAST_MIN = 40
NAMES = {metric.name for metric in METRICS}


def values_by_minute(figures_at: list[Figures]) -> dict[str, list[str]]:
    """The series of figures that follow one another, as promtool takes them; `_` where a series is not there."""
    series: dict[str, list[str]] = {}
    for minute, figures in enumerate(figures_at):
        for sample in samples(figures):
            if isinstance(sample.value, Histogram):
                continue
            pairs = zip(sample.metric.labels, sample.labels, strict=True)
            labels = "".join(f'{label.value}="{value}",' for label, value in pairs)
            values = series.setdefault(f'{sample.metric.name}{{{labels}instance="driver:9464",job="floe"}}', [])
            values += ["_"] * (minute - len(values)) + [repr(float(sample.value))]
    return series


def history(fault: Fault | None) -> dict[str, list[str]]:
    return values_by_minute(
        [fault.figures(m) if fault is not None and m >= BEGINS_MIN else well(m) for m in range(LAST_MIN + 1)]
    )


def fires(folder: Path, series: dict[str, list[str]], expectations: list[tuple[str, int, bool]]) -> None:
    """Have promtool evaluate the rules over the series: alert, minute, and whether it fires then."""
    shutil.copy(REFERENCE / RULES_FILE, folder)
    tests = {
        "rule_files": [RULES_FILE],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": " ".join(values)} for name, values in series.items()],
                "promql_expr_test": [
                    {
                        "expr": f'count(ALERTS{{alertstate="firing",alertname=~"{name}"}}) > bool 0',
                        "eval_time": f"{minute}m",
                        "exp_samples": [{"value": 1}] if firing else [],
                    }
                    for name, minute, firing in expectations
                ],
            }
        ],
    }
    (folder / "planted.yaml").write_text(yaml.safe_dump(tests))
    promtool("test", "rules", "planted.yaml", folder=folder)


def test_promtool_takes_the_rules_and_every_rule_fires_for_its_example() -> None:
    """The published rules are sound to Prometheus, and none of them can never fire."""
    assert f"{len(ALERTS)} rules found" in promtool("check", "rules", RULES_FILE, folder=REFERENCE)
    promtool("test", "rules", RULE_TESTS_FILE, folder=REFERENCE)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_fires_its_alert(fault: Fault, tmp_path: Path) -> None:
    """Half an hour after a fault has begun the alert that names its part fires, and before it none does."""
    fires(tmp_path, history(fault), [(".+", BEGINS_MIN - 1, False), (fault.alert, BEGINS_MIN + 25, True)])


def test_a_table_that_decays_fires_its_alert_and_no_other(tmp_path: Path) -> None:
    """A table of which maintenance would leave a hundred files fewer for an hour is a ticket; once it is mended, or if
    another engine rewrites it, it is none."""
    sick = TableHealth(200, 190, 10**8, 10**6, 0, 0, 3, 9_000, 12, None, 150, 10**8, {"1MiB": 190, "8MiB": 10})
    theirs = replace(sick, other=OtherMaintainer("spark 4.1.1", 2, 0))
    mended = replace(sick, gain_files=0)
    for number, (health, fires_then) in enumerate(((sick, True), (theirs, False), (mended, False))):
        seen: list[Figures] = []
        for minute in range(100):
            figures = well(minute)
            owner = figures.coordinators[0]
            needs = dict.fromkeys(needs_of(health), 1) if minute >= BEGINS_MIN else {}
            table = replace(owner.tables[0], health=health, measured_ms=minute * 60_000, needs=needs)
            seen.append(replace(figures, coordinators=(replace(owner, tables=(table,)),)))
        folder = tmp_path / str(number)
        folder.mkdir()
        expected = [(".+", 60, False), ("FloeTableNeedsMaintenance", 90, fires_then), (".+", 90, fires_then)]
        fires(folder, values_by_minute(seen), expected)


def test_an_error_budget_that_burns_pages_until_the_cause_is_gone(tmp_path: Path) -> None:
    """Twenty times what is allowed pages within the hour; ten minutes after its end nobody is called any more, though the hour is
    bad still. Eight times is a ticket and no page, and five times neither."""
    for number, (bad_a_minute, pages, is_ticket) in enumerate(((20, True, True), (8, False, True), (5, False, False))):
        seen: list[Figures] = []
        for minute in range(80):
            figures = well(minute)
            bad = bad_a_minute * min(minute, 40)
            promised = ObjectiveFigures(Objective.COMPLETE, 0.001, 1_000 * minute, bad)
            seen.append(replace(figures, pipelines=(replace(figures.pipelines[0], objectives=(promised,)),)))
        folder = tmp_path / str(number)
        folder.mkdir()
        expected = [
            ("FloeBudgetBurnsFast", 39, pages),
            ("FloeBudgetBurnsSlowly", 39, is_ticket),
            ("FloeBudgetBurnsFast", 50, False),
            (".+", 75, False),
        ]
        fires(folder, values_by_minute(seen), expected)


def test_no_alert_fires_while_all_is_well(tmp_path: Path) -> None:
    """A driver without a fault wakes nobody."""
    fires(tmp_path, history(None), [(".+", minute, False) for minute in range(0, LAST_MIN, 5)])


def test_alerts_and_the_dashboard_ask_for_metrics_that_exist() -> None:
    """Each name in a rule, in its example and in a panel is one of the list."""
    asked = {alert.name: alert.metrics | {s.name.split("{")[0] for s in alert.example} - {"up"} for alert in ALERTS}
    assert {name: found - NAMES for name, found in asked.items() if found - NAMES} == {}
    shown = {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"\bfloe_\w+", dashboard())}
    assert shown == NAMES
    assert len(shown) > 20


def test_the_dashboard_shows_the_target_and_the_pipelines_that_are_chosen(tmp_path: Path) -> None:
    """Each query of a panel asks for the processes of the chosen target, and for the chosen pipelines where its metric has a
    pipeline; each variable that a query names is there. Prometheus takes them all."""
    document = json.loads(dashboard())
    variables = {each["name"]: each for each in document["templating"]["list"]}
    queries = [each["expr"] for panel in document["panels"] for each in panel.get("targets", ())]
    assert len(queries) > 50
    of_pipelines = {metric.name for metric in METRICS if Label.PIPELINE in metric.labels}
    for query in queries:
        for name, matchers in re.findall(r"\b(floe_\w+)(?:\{([^}]*)\})?", query):
            chosen = {found.strip() for found in matchers.split(",")}
            assert 'instance=~"$instance"' in chosen, query
            is_of_pipelines = re.sub(r"_(bucket|sum|count)$", "", name) in of_pipelines
            assert ('pipeline=~"$pipeline"' in chosen) == is_of_pipelines, query
    names = sorted(set(re.findall(r"\$([a-z]\w*)", " ".join(queries))))
    assert names == ["instance", "pipeline"]
    filled = [
        query.replace("$__rate_interval", "5m").replace("$instance", ".*").replace("$pipeline", ".*")
        for query in queries
    ]
    rules = [{"record": f"shown:{number}", "expr": query} for number, query in enumerate(filled)]
    (tmp_path / "shown.yaml").write_text(yaml.safe_dump({"groups": [{"name": "shown", "rules": rules}]}))
    assert f"{len(queries)} rules found" in promtool("check", "rules", "shown.yaml", folder=tmp_path)
    assert 'floe_info{target=~"$target"}' in variables["instance"]["definition"]
    assert {"datasource", "target", "instance", "pipeline"} == set(variables)
    assert all(each["multi"] and each["includeAll"] for each in variables.values() if each["type"] == "query")


def test_the_runbook_has_a_section_for_each_state_and_alert_linked_both_ways() -> None:
    """Whoever is woken finds what to do: each alert's link leads to a section, which names the state; each state's
    section leads to its alerts, and the table of states to the section."""
    text = (ROOT / RUNBOOK).read_text(encoding="utf-8")
    runbook = text[text.index("\n## Runbook\n") :]
    sections = dict(re.findall(r"^### (\S+)\n(.*?)(?=^### |\Z)", runbook, re.MULTILINE | re.DOTALL))
    states = {state.value for state in Health}
    assert set(sections) == states | {alert.name for alert in ALERTS}
    anchors = {name: links(body) for name, body in sections.items()}
    anchor_of = {name: name.lower() for name in sections}  # a heading before has it
    states_linked = set(re.findall(r"^\| \[([A-Z]+)\]\(#([a-z0-9-]+)\)", text, re.MULTILINE))
    assert states_linked == {(state, anchor_of[state]) for state in states}
    for alert in ALERTS:
        assert alert.anchor == anchor_of[alert.name]
        assert anchors[alert.name] & {anchor_of[state] for state in states} or anchors[alert.name] & {
            other.anchor for other in ALERTS
        }, alert.name
    for state in states:
        assert "states" in anchors[state]
        for linked in anchors[state] & {alert.anchor for alert in ALERTS} - {"floelaggrows"}:
            [alert] = [each for each in ALERTS if each.anchor == linked]
            assert anchor_of[state] in anchors[alert.name], (state, alert.name)
    rules = yaml.safe_load((REFERENCE / RULES_FILE).read_text())["groups"][0]["rules"]
    assert [rule["annotations"]["runbook"] for rule in rules] == [f"{RUNBOOK}#{alert.anchor}" for alert in ALERTS]


def links(text: str) -> set[str]:
    return set(re.findall(r"\]\(#([a-z0-9-]+)\)", text))
