"""Catalog, broker and storage each gone for fifteen commit intervals under one job: it goes on by itself, and soon.

An outage of 15 minutes under an interval of one minute, with both scaled down together: FLOE_CHAOS_OUTAGE_S=900 makes
it whole, and FLOE_CHAOS_OUTAGES=catalog,broker takes these two alone. Pauses between attempts follow the interval, so
the scale changes nothing but the time that the test takes. When the outage begins depends on FLOE_CHAOS_SEED.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos.checker import assert_exact, assert_sum_holds
from tests.chaos.conftest import FragileBroker, ProxiedCatalog
from tests.chaos.harness import Running, fan_out, landed, records, wait_for
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.chaos]

OUTAGE_S = float(os.environ.get("FLOE_CHAOS_OUTAGE_S") or 120)
INTERVAL_S = OUTAGE_S / 15
WANTED = (os.environ.get("FLOE_CHAOS_OUTAGES") or "catalog,broker,storage").split(",")
SEED = int(os.environ.get("FLOE_CHAOS_SEED") or random.SystemRandom().randrange(1_000_000))


class Trickle:
    """Twenty records a second into a topic, past every proxy, until stopped. `count` are in the topic by now."""

    def __init__(self, broker: FragileBroker, topic: str) -> None:
        self._broker, self._topic = broker, topic
        self.count = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(1.0):
            self._broker.produce(self._topic, records(20, start=self.count))
            self.count += 20

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(60)


@pytest.mark.failure("F35", "F13", "F08", "F39")
@pytest.mark.timeout(6 * OUTAGE_S + 900)
def test_fifteen_intervals_without_catalog_broker_and_storage(
    tmp_path: Path, fragile_broker: FragileBroker, rest_catalog: ProxiedCatalog
) -> None:
    """After an outage of 15 intervals of the catalog, of the broker, of the storage, everything that came meanwhile is
    in the tables within two intervals, with no hand laid on; in the end all is exact."""
    print(f"FLOE_CHAOS_SEED={SEED} FLOE_CHAOS_OUTAGE_S={OUTAGE_S:.0f} FLOE_CHAOS_OUTAGES={','.join(WANTED)}")
    chance = random.Random(SEED)
    project = Project(tmp_path, fragile_broker.proxy.address)
    project.catalog_settings = rest_catalog.direct
    project.write_target(catalog=rest_catalog.proxied)
    topic = fragile_broker.new_topic("outage", partitions=2)
    file = project.pipeline("outage", fan_out(topic, interval=f"{INTERVAL_S * 1000:.0f}ms"))
    warehouse = Path(rest_catalog.server.root) / "warehouse"
    away = warehouse.with_name("away")

    def storage_gone() -> None:
        warehouse.rename(away)
        warehouse.write_text("a file in the folder's place: nothing below it can be opened or made\n")

    def storage_back() -> None:
        warehouse.unlink()
        away.rename(warehouse)

    outages: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "catalog": (rest_catalog.server.stop, rest_catalog.server.start),
        "broker": (fragile_broker.proxy.refuse, fragile_broker.proxy.accept),
        "storage": (storage_gone, storage_back),
    }
    took: dict[str, float] = {}
    flow = Trickle(fragile_broker, topic)
    try:
        with Running(project, "run", file) as run:
            wait_for(lambda: ("shop",) in project.catalog().list_namespaces(), "the namespace")
            for name in WANTED:
                begin, end = outages[name]
                reached = flow.count
                wait_for(lambda rows=reached: landed(project) >= rows, "a steady state")
                time.sleep(chance.uniform(0.0, INTERVAL_S))
                begin()
                time.sleep(OUTAGE_S)  # the outage itself: nothing to wait for but its end
                assert run.running, run.output
                end()
                waiting, back_at = flow.count, time.monotonic()
                wait_for(lambda rows=waiting: landed(project) >= rows, f"all that came without the {name}")
                took[name] = time.monotonic() - back_at
                print(f"{name}: all {waiting} records in the tables {took[name]:.1f} s after its return")
            flow.stop()
            # A drain finishes what is in hand; what came a moment ago would be the next run's.
            wait_for(lambda: landed(project) >= flow.count, "the last records")
            assert run.terminate() == 0, run.output
    finally:
        flow.stop()
    assert_exact(project.catalog(), fragile_broker.bootstrap_servers, [topic])
    assert_sum_holds(project.status(), "outage", flow.count)
    assert max(took.values()) < 2 * INTERVAL_S, took
