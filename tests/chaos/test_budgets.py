"""Error budgets after kills: what is counted as promised and as missed is what tables and dead letters hold.

In: a flow with unreadable records, a driver and a coordinator that are killed while they work. Out: the counts of `floe status`
beside a recount by PyIceberg, which knows nothing of the log.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.chaos.checker import all_tables
from tests.chaos.harness import Running, fan_out, records
from tests.conftest import Broker
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.slow, pytest.mark.timeout(900)]

KILLS, ROUND = 6, 200


def test_budgets_agree_with_a_recount_after_kills(tmp_path: Path, broker: Broker) -> None:
    """Six kills of driver and coordinator during a flow of which every tenth record cannot be read: no record is counted twice
    or not at all, neither as promised nor as missed."""
    chance = random.Random(7)
    project = Project(tmp_path, broker.bootstrap_servers)
    topic = broker.new_topic("budgets", partitions=3)
    refuse = "errors: {policy: fail}"
    body = fan_out(topic).replace(refuse, "errors: {policy: dead_letter, dead_letter_table: shop.dead_letters}")
    file = project.pipeline("budgets", f"{body}    objectives: {{complete: 99%, dead_letters: 5%}}\n")
    produced = 0

    def produce() -> None:
        nonlocal produced
        good = records(ROUND, start=produced)
        broker.produce(topic, [value if number % 10 else b"{broken" for number, value in enumerate(good)])
        produced += ROUND

    for number in range(KILLS):
        produce()
        with Running(project, "run", file) as driver:
            driver.wait_for_output("announced in", timeout_s=90)
            produce()
            time.sleep(chance.uniform(0.0, 2.0))
            if number % 2:  # its coordinator alone: another one counts on
                with Running(project, "coordinator", "--control-topic", project.control_topic) as coordinator:
                    driver.kill()
                    coordinator.wait_for_output("coordinates", timeout_s=90)
                    coordinator.kill()
            else:
                driver.kill()
    project.run("run", file, "--until-caught-up", timeout_s=300)

    catalog = project.catalog()
    rows = {name: len(catalog.load_table(name).scan().to_arrow()) for name in all_tables(catalog, ["shop"])}
    letters = rows.pop("shop.dead_letters")
    assert (letters, sum(rows.values())) == (produced // 10, produced - produced // 10)
    [pipeline] = project.status()["pipelines"]
    budgets = {each["objective"]: each["windows"] for each in pipeline["objectives"]}
    for objective, allowed in (("complete", 0.01), ("dead_letters", 0.05)):
        for window in budgets[objective]:
            assert (window["counted"], window["bad"]) == (produced, letters), objective
            assert window["burn_rate"] == pytest.approx(letters / produced / allowed)
