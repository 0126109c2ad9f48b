"""A running pipeline watched from outside: metrics, health, and a run that stands still."""

from __future__ import annotations

import json
import re
import signal
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from framework.local.broker import free_port
from testbed.servers.prometheus import Prometheus
from testbed.servers.pushgateway import pushgateway
from tests.chaos.harness import Running, descendants, kill
from tests.chaos.harness import wait_for as wait_patiently
from tests.conftest import Broker
from tests.project import Project, kill_group
from tests.spark.test_end_to_end import FAN_OUT, orders

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg]
ROOT = Path(__file__).parents[2]
T = TypeVar("T")
PATIENCE_S = 90.0
SECRET = "metrics-token-of-this-test"


@pytest.fixture
def project(tmp_path: Path, broker: Broker) -> Project:
    return Project(tmp_path, broker.bootstrap_servers)


def monitored(project: Project, **settings: object) -> None:
    """The project's target with a `monitoring` of these keys."""
    path = project.root / "pipelines" / "targets" / "it.yaml"
    path.write_text(path.read_text() + f"monitoring: {json.dumps(settings)}\n")


def get(url: str, token: str = "") -> tuple[int, str]:
    """Status and body; what is no success is no error here."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def wait_for(condition: Callable[[], T], what: str) -> T:
    return wait_patiently(condition, what, PATIENCE_S)


class Page:
    """A page of metrics as values by name and labels."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.samples = [s for family in text_string_to_metric_families(text) for s in family.samples]

    def value(self, name: str, **labels: str) -> float:
        """The sum of the series that have these labels."""
        found = [s.value for s in self.samples if s.name == name and labels.items() <= s.labels.items()]
        assert found, f"no {name} {labels}\n{self.text}"
        return sum(found)

    def has(self, name: str) -> bool:
        return any(s.name == name for s in self.samples)

    def is_one(self, name: str, **labels: str) -> bool:
        return any(s.value == 1 for s in self.samples if s.name == name and labels.items() <= s.labels.items())


@pytest.fixture
def run(project: Project) -> Iterator[list[Running]]:
    started: list[Running] = []
    yield started
    for each in started:
        kill_group(each.process)


def address(running: Running) -> str:
    """Where a started driver serves its pages."""
    running.wait_for_output("metrics and health at http://")
    match = re.search(r"metrics and health at (http://\S+)/metrics", running.output)
    assert match is not None
    return match[1]


def own_page(running: Running) -> str:
    """Where a started driver or coordinator serves its page."""
    running.wait_for_output(" is at http://")
    match = re.search(r"the page of \S+ is at (http://\S+)/", running.output)
    assert match is not None
    return match[1]


def of(document: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    return next(each for each in document[f"{kind}s"] if each[kind] == name)


def test_a_run_shows_the_figures_of_status_and_tables(
    project: Project, broker: Broker, run: list[Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`/metrics` of a driver agrees with `floe status` and with the tables to the record: what is written, what is a
    dead letter and why, where the safe offset is, what waits for a paused table; without the token probes
    get one word and nobody else an answer, and neither the token nor a record is on the page. The page that it serves shows
    the same, asks for the same token, and nobody acts through it."""
    monkeypatch.setenv("FLOE_TEST_METRICS_TOKEN", SECRET)
    topic = broker.new_topic("watched", partitions=2)
    broker.produce(topic, [*orders(30), {"id": "not a number", "kind": "no-such", "marker": "unmistakable"}])
    at = {"listen": f"127.0.0.1:{free_port()}", "page": f"0.0.0.0:{free_port()}"}
    monitored(project, **at, token="${secret:env:FLOE_TEST_METRICS_TOKEN}")
    promised = "    objectives: {freshness: 3s, complete: 99%, dead_letters: 5%}\n"
    driver = Running(project, "run", project.pipeline("watched", FAN_OUT.format(topic=topic) + promised))
    run.append(driver)
    url = address(driver)
    assert get(f"{url}/metrics")[0] == get(f"{url}/metrics", "wrong")[0] == get(f"{url}/", "wrong")[0] == 401
    # Probes hold no secret: they learn one word, no name of a service or a pipeline.
    assert get(f"{url}/healthz") == get(f"{url}/healthz", SECRET) == (200, "alive\n")
    assert get(f"{url}/readyz")[1] == get(f"{url}/readyz", "wrong")[1] in ("ready\n", "not ready\n")

    page_url = own_page(driver).replace("0.0.0.0", "127.0.0.1")
    assert get(f"{page_url}/v1/overview")[0] == get(f"{page_url}/v1/overview", "wrong")[0] == 401
    assert "watched" not in get(page_url)[1]

    def page() -> Page:
        return Page(get(f"{url}/metrics", SECRET)[1])

    def all_committed() -> bool:
        # That nothing is announced is also true before the coordinator has read of a batch: its five tables are at rest.
        seen = page()
        return seen.has("floe_tables") and seen.value("floe_tables", state="IDLE") == 5 and at_rest(seen)

    wait_for(all_committed, "a batch in its tables")
    agree(page(), project.status())
    assert json.loads(get(f"{url}/readyz", SECRET)[1]) == {
        "ready": True,
        "checks": {
            "broker": True,
            "catalog": True,
            "coordinator": True,
            "store": True,
            "pipeline watched": True,
            "batch of watched": True,
        },
    }
    seen = page()
    letters = project.table("shop.dead_letters")
    assert seen.value("floe_records_total", outcome="dead_lettered") == len(letters) == 1
    [stage], [code] = letters.column("stage").to_pylist(), letters.column("code").to_pylist()
    assert seen.value("floe_dead_letters_total", stage=stage, code=code) == 1
    assert seen.value("floe_objective_bad_total", objective="complete") == 1
    landed = sum(project.positions([name for name in project.tables("shop") if name != "shop.dead_letters"]).values())
    assert seen.value("floe_records_total", outcome="written") == landed == 30

    project.run("pause", "--commits", "shop.refunds")
    broker.produce(topic, orders(30, start=30))
    wait_for(lambda: page().value("floe_table_announced_records", table="shop.refunds") == 3, "rows that wait")
    wait_for(lambda: page().value("floe_table_announced_records") == 3, "the other tables' commits")
    status = project.status()
    agree(page(), status)
    assert of(status, "table", "shop.refunds")["state"] == "PAUSED"
    stale = page().value("floe_objective_bad_total", objective="freshness")
    wait_for(lambda: page().value("floe_objective_bad_total", objective="freshness") > stale, "rows that wait too long")
    seen_by_page = wait_for(lambda: paused(page_url), "the page of the run")
    assert seen_by_page["waiting"]["rows"] == 3
    bring = {"Authorization": f"Bearer {SECRET}"}
    for method, path, code in (("PUT", "pause", 403), ("GET", "config", 501)):
        answer = requests.request(method, f"{page_url}/connectors/watched/{path}", headers=bring, timeout=20)
        assert answer.status_code == code, answer.text
    text = page().text
    assert SECRET not in text
    assert "unmistakable" not in text
    assert SECRET not in driver.output

    project.run("resume", "--commits", "shop.refunds")
    wait_for(lambda: at_rest(page()), "the last commit")
    agree(page(), project.status())
    driver.process.send_signal(signal.SIGTERM)
    assert driver.wait() == 0, driver.output


def at_rest(page: Page) -> bool:
    """Every batch is announced and committed, as the pipeline and the coordinator see it."""
    announced = page.value("floe_announced_batches") + page.value("floe_table_announced_records")
    return page.value("floe_batches_total", outcome="announced") > 0 and announced == 0


def paused(page_url: str) -> dict[str, Any] | None:
    """The table as the page has it, once it is held."""
    code, body = get(f"{page_url}/v1/tables/shop.refunds", SECRET)
    found: dict[str, Any] = json.loads(body)
    return found if code == 200 and found["condition"]["state"] == "PAUSED" else None


def agree(page: Page, status: dict[str, Any], but_tables: bool = False) -> None:
    """The page says of pipelines and tables what `floe status` says."""
    for pipeline in status["pipelines"]:
        name = pipeline["pipeline"]
        assert page.value("floe_pipeline_lag_records", pipeline=name) == pipeline["lag"]
        assert page.is_one("floe_pipeline_state", pipeline=name, state=pipeline["state"]), (pipeline, page.text)
        for outcome in ("written", "filtered", "dead_lettered", "dropped", "holes", "lost"):
            assert page.value("floe_records_total", pipeline=name, outcome=outcome) == pipeline["totals"][outcome]
        for budget in pipeline["objectives"]:
            labels = {"pipeline": name, "objective": budget["objective"]}
            allowed = 1 - page.value("floe_objective_target_ratio", **labels)
            assert allowed == pytest.approx(budget["allowed_ratio"])
            if budget["objective"] != "freshness":  # whose seconds go on between two looks
                window = budget["windows"][-1]
                assert page.value("floe_objective_counted_total", **labels) == window["counted"]
                assert page.value("floe_objective_bad_total", **labels) == window["bad"]
        for partition in pipeline["partitions"]:
            labels = {"topic": partition["topic"], "partition": str(partition["partition"])}
            assert page.value("floe_source_safe_offset", **labels) == partition["safe_offset"]
            assert page.value("floe_source_log_end_offset", **labels) == partition["log_end"]
    for table in status["tables"] if not but_tables else ():
        labels = {"table": table["table"]}
        pending = table["pending"]
        assert page.is_one("floe_table_state", state=table["state"], **labels), (table, page.text)
        for name, key in (("announcements",) * 2, ("records", "rows"), ("files",) * 2, ("bytes",) * 2):
            assert page.value(f"floe_table_announced_{name}", **labels) == pending[key], (name, table)
        if table["last_commit"]:
            through = table["last_commit"]["valid_through_ms"]
            assert page.value("floe_table_valid_through_timestamp_seconds", **labels) * 1000 == pytest.approx(through)


def test_a_run_that_hangs_in_its_first_batch_is_stalled(project: Project, broker: Broker, run: list[Running]) -> None:
    """A task that never ends in a run's first batch: `floe status` says STALLED with the lag, the phase and since when;
    so do the metrics, and the process is alive and not ready. Once the task goes on, all of it is over, and each record
    is in the tables once."""
    topic = broker.new_topic("hung")
    broker.produce(topic, orders(30))
    monitored(project, listen=f"127.0.0.1:{free_port()}", stalled_after_ms=8_000)
    file = project.pipeline("hung", FAN_OUT.format(topic=topic))
    driver = Running(project, "run", file, env={"FLOE_FAULT": "records-written=stop"})
    run.append(driver)
    url = address(driver)

    def page() -> Page:
        return Page(get(f"{url}/metrics")[1])

    wait_for(lambda: page().is_one("floe_pipeline_stalled", phase="writing"), "a stall")
    broker.produce(topic, orders(10, start=30))
    wait_for(lambda: page().value("floe_pipeline_lag_records") == 40, "the lag of a run that is hung")
    pipeline = wait_for(lambda: stalled(project, "batch 1, phase writing"), "the state")
    agree(page(), project.status())
    assert (pipeline["lag"], pipeline["code"]) == (40, "FLOE-R150")
    assert "floe doctor" in pipeline["remedy"]
    assert page().value("floe_pipeline_lag_seconds") > 0
    assert get(f"{url}/healthz")[0] == 200
    code, body = get(f"{url}/readyz")
    assert (code, json.loads(body)["checks"]["pipeline hung"]) == (503, False)

    def goes_on() -> bool:
        kill((each.pid for each in descendants(driver.pid) if each.state.startswith("T")), signal.SIGCONT)
        return page().value("floe_records_total", outcome="written") == 40

    wait_for(goes_on, "both batches")
    wait_for(lambda: of(project.status(), "pipeline", "hung")["state"] == "IDLE", "the end of the stall")
    assert get(f"{url}/readyz")[0] == 200
    driver.process.send_signal(signal.SIGTERM)
    assert driver.wait() == 0, driver.output
    counts = project.positions([name for name in project.tables("shop") if name != "shop.dead_letters"])
    assert (len(counts), set(counts.values())) == (40, {1})


def stalled(project: Project, where: str = "") -> dict[str, Any] | None:
    pipelines = project.status()["pipelines"]
    return next((each for each in pipelines if each["state"] == "STALLED" and where in each["reason"]), None)


def test_a_short_run_leaves_its_metrics_behind(project: Project, broker: Broker, tmp_path: Path) -> None:
    """A run that ends before anybody scrapes it leaves a whole file for the node exporter, and pushes the same to a real
    Pushgateway, which takes all of it; the next run of the pipeline replaces what it has. A gateway that is away ends no
    run."""
    topic = broker.new_topic("short")
    broker.produce(topic, orders(30))
    folder = tmp_path / "textfiles"
    folder.mkdir()
    file = project.pipeline("short", FAN_OUT.format(topic=topic))
    with pushgateway() as url:
        monitored(project, textfile=str(folder), pushgateway=url)
        output = project.run("run", file, "--until-caught-up")
        assert "does not take" not in output
        assert "incubator" not in output  # what Java says at each start tells nobody anything
        pushed = Page(get(f"{url}/metrics")[1])
    [written] = folder.iterdir()
    page = Page(written.read_text())
    assert written.name == "floe-it-short.prom"
    for each in (page, pushed):
        assert each.value("floe_records_total", outcome="written") == 30
        assert each.value("floe_table_announced_records") == 0
        assert each.is_one("floe_pipeline_state", state="STOPPED")
    assert pushed.value("floe_info", job="floe", instance="it-short") == 1
    assert pushed.value("push_failure_time_seconds", job="floe", instance="it-short") == 0
    theirs = [s for s in pushed.samples if s.labels.get("job") == "floe" and s.name.startswith("floe_")]
    assert set(map(series, theirs)) == set(map(series, page.samples))

    output = project.run("run", file, "--until-caught-up")
    assert "metrics: the pushgateway does not take them" in output


def series(sample: Sample) -> tuple[object, ...]:
    """What tells a series from others, but for what a gateway adds; a bound is the same number, however it is written."""
    labels = {name: value for name, value in sample.labels.items() if name not in ("job", "instance")}
    if "le" in labels:
        labels["le"] = str(float(labels["le"]))
    return sample.name, *sorted(labels.items())


def test_a_coordinator_alone_says_that_it_coordinates(project: Project, run: list[Running]) -> None:
    """`floe coordinator` serves the same pages: it is ready once the group has taken it in, a second one is too and
    stands by, and each has ports of its own."""
    monitored(project, listen=f"127.0.0.1:{free_port()}", page=f"127.0.0.1:{free_port()}")
    urls = []
    for _ in range(2):
        coordinator = Running(project, "coordinator")
        run.append(coordinator)
        url = address(coordinator)
        urls.append(url)
        wait_for(lambda url=url: get(f"{url}/readyz")[0] == 200, "a coordinator that is ready")  # type: ignore[misc]
    pages = [own_page(each) for each in run]
    assert len({*urls, *pages}) == 4
    for each in pages:
        assert "Nothing is in trouble" in get(each)[1]

    def owners() -> list[float]:
        return [Page(get(f"{url}/metrics")[1]).value("floe_coordinator_owner") for url in urls]

    wait_for(lambda: sorted(owners()) == [0, 1], "one owner")
    for each in run:
        assert each.terminate() == 0, each.output


@pytest.mark.slow
def test_a_spent_budget_reaches_prometheus_and_the_pipelines_owner(
    project: Project, broker: Broker, run: list[Running], tmp_path: Path
) -> None:
    """A real Prometheus with floe's own rules beside a live run: while records are good no budget burns; soon after half of
    them are bad the alert fires for that pipeline and objective, with its owner's team, and no other one about it does."""
    topic = broker.new_topic("budget", partitions=2)
    broker.produce(topic, orders(300))
    listen = f"127.0.0.1:{free_port()}"
    monitored(project, listen=listen)
    promised = "    objectives: {dead_letters: 1%}\n    owners: {pipeline: team-orders}\n"
    driver = Running(project, "run", project.pipeline("budget", FAN_OUT.format(topic=topic) + promised))
    run.append(driver)
    address(driver)
    prometheus = Prometheus(tmp_path / "prometheus", ROOT / "docs" / "reference" / "alerts.yaml", listen)
    try:

        def counted() -> float:
            return prometheus.value("sum(floe_objective_counted_total)")

        wait_for(lambda: prometheus.firing() == [] and counted() >= 300, "the first records in Prometheus")
        broker.produce(topic, orders(300, start=300))
        wait_for(lambda: counted() >= 600, "good records in Prometheus")
        assert [each for each in prometheus.firing() if "Budget" in each["alertname"]] == []
        bad = [{"id": "not a number", "kind": "no-such"}] * 300
        broker.produce(topic, [*orders(300, start=600), *bad])

        def burning() -> set[tuple[str, ...]]:
            names = ("alertname", "pipeline", "objective", "team", "severity")
            firing = [each for each in prometheus.firing() if "Budget" in each["alertname"]]
            return {tuple(str(each.get(name)) for name in names) for each in firing}

        wait_for(lambda: any(each[0] == "FloeBudgetBurnsFast" for each in burning()), "the alert")
        assert {each[:4] for each in burning()} <= {
            ("FloeBudgetBurnsFast", "budget", "dead_letters", "team-orders"),
            ("FloeBudgetBurnsSlowly", "budget", "dead_letters", "team-orders"),
        }
    finally:
        prometheus.stop()
