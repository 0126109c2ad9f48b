"""Twenty tables among neighbours: two maintainers beside the coordinator's own, a tagger, readers that take their time,
processes that sleep past the age of orphans, wrong clocks, recovery verbs twice, and kills of everything.

The seed is printed and read from FLOE_CHAOS_SEED, the minutes from FLOE_CHAOS_NEIGHBOURS_MINUTES, the catalog (`rest`, or
`sql`) from FLOE_CHAOS_CATALOG. A day of maintenance lasts FLOE_CHAOS_DAY_S seconds (`short_day/sitecustomize.py`).
Neighbours and checker share no code with floe.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from testbed.servers.rest_catalog import RestCatalog
from tests.chaos import neighbours_check as checks
from tests.chaos.conftest import FragileBroker
from tests.chaos.neighbours import FAN, SIDE, UPSERTED, Campaign, Flow, StrangerProcess

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg]

SHORT_MINUTES, LONG_MINUTES = 2.0, 60.0


def run_campaign(tmp_path: Path, broker: FragileBroker, minutes: float, day_s: float) -> None:
    seed = int(os.environ.get("FLOE_CHAOS_SEED") or random.SystemRandom().randrange(1_000_000))
    kind = os.environ.get("FLOE_CHAOS_CATALOG") or ("rest", "sql")[seed % 2]
    print(f"FLOE_CHAOS_SEED={seed} FLOE_CHAOS_CATALOG={kind} minutes {minutes:g}, a day lasts {day_s:g} s")
    server = RestCatalog(tmp_path / "rest").start() if kind == "rest" else None
    (tmp_path / "warehouse-sql").mkdir()
    settings = server.settings() if server is not None else {
        "type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"file://{tmp_path}/warehouse-sql",
    }  # fmt: skip
    campaign = Campaign(tmp_path, broker, settings, seed, day_s)
    flow = Flow(broker, campaign.topics, seed)
    strangers: list[StrangerProcess] = []
    try:
        campaign.start_coordinator()
        campaign.start_driver()
        campaign.alive["driver"].wait_for_output("batch 1:", count=2)
        for number, role in enumerate(("reader", "reader", "tagger", "expirer", "spark")):
            strangers.append(StrangerProcess(role, settings, seed + number, campaign.lease_s, tmp_path))
        acts(campaign, flow, strangers, minutes)
        flow.stop()
        campaign.settle()
        for stranger in strangers:
            stranger.stop()
        verdict(campaign, strangers, settings, seed, minutes)
    finally:
        flow.stop()
        for stranger in strangers:
            stranger.stop()
        campaign.close()
        if server is not None:
            server.stop()


def acts(campaign: Campaign, flow: Flow, strangers: list[StrangerProcess], minutes: float) -> None:
    """Neighbours' troubles one after the other, the first ones in a fixed order, so that a short run has each kind."""
    chance = campaign.chance
    choices = {
        "kill driver": 2, "kill coordinator": 2, "kill broker": 1, "sleep driver": 1, "sleep coordinator": 1,
        "driver sleeps at a point": 1, "coordinator sleeps at a point": 1, "compaction sleeps": 2, "maintain": 4,
        "clean": 3, "verbs": 3, "verbs and rebase": 0.5, "pause": 1, "resume": 2,
    }  # fmt: skip
    first = [
        "compaction sleeps",
        "maintain",
        "driver sleeps at a point",
        "kill coordinator",
        "clean",
        "verbs",
        "maintain",
    ]
    began = time.monotonic()
    while time.monotonic() - began < minutes * 60:
        look(campaign, strangers, chance.uniform(2.0, 8.0))
        act = first.pop(0) if first else chance.choices(list(choices), list(choices.values()))[0]
        if campaign.asleep("driver") and (act.startswith(("verbs", "driver")) or act.endswith("driver")):
            continue  # it is to wake by itself, behind whoever removed orphans meanwhile
        campaign.tell(f"-- {act}")
        if act.startswith("kill "):
            campaign.kill(act.removeprefix("kill "), flow)
        elif act == "driver sleeps at a point":
            campaign.end_driver()
            campaign.start_driver(
                f"{chance.choice(['files-written', 'announced', 'records-written'])}@{chance.randrange(2, 6)}=stop"
            )
        elif act == "coordinator sleeps at a point":
            campaign.end("coordinator")
            point = chance.choice(["before-commit", "manifests-written", "files-rewritten", "snapshots-expired"])
            campaign.start_coordinator(f"{point}@{chance.randrange(1, 5)}=stop")
        elif act == "compaction sleeps":
            campaign.maintain(f"{chance.choice(['files-rewritten', 'snapshots-expired', 'file-removed'])}=stop")
        elif act.startswith("sleep "):
            campaign.sleep(act.removeprefix("sleep "))
        elif act == "verbs and rebase":
            campaign.verbs(rebase=True)
        else:
            {"maintain": campaign.maintain, "clean": campaign.clean, "verbs": campaign.verbs,
             "pause": campaign.pause, "resume": campaign.resume}[act]()  # fmt: skip


def look(campaign: Campaign, strangers: list[StrangerProcess], seconds: float) -> None:
    """For so long, or for as long as too many run at once, keep everybody going."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit or len(campaign.beside) > 3:
        campaign.look_after()
        errors = [each for stranger in strangers for each in stranger.errors]
        assert not errors, errors[:2]
        time.sleep(0.5)


def verdict(
    campaign: Campaign, strangers: list[StrangerProcess], settings: dict[str, str], seed: int, minutes: float
) -> None:
    catalog, servers = campaign.project.catalog(), campaign.broker.bootstrap_servers
    records = {name: checks.records_of(servers, topic) for name, topic in campaign.topics.items()}
    kept = checks.kept_references(
        [each for stranger in strangers if stranger.role == "tagger" for each in stranger.said]
    )
    tables = campaign.project.tables("shop")
    found = [
        *(str(each) for stranger in strangers for each in stranger.errors),
        *checks.appended(catalog, records["fan"], "f", campaign.given_up),
        *checks.appended(catalog, records["side"], "s", campaign.given_up),
        *checks.upserted(catalog, records["up"]),
        *checks.read_by_all(catalog, settings, tables, kept),
    ]
    said = Counter(key for stranger in strangers for each in stranger.said for key in each if key != "table")
    given_up = sum(map(len, campaign.given_up.values()))
    compactions = sum(run.output.count("compacted shop.") for run in campaign.started)
    print(
        f"seed {seed}: {minutes:g} min, {sum(map(len, records.values())):,} records in {len(tables)} tables, "
        f"{given_up:,} given up by name; {dict(campaign.story)}; neighbours: {dict(said)}; "
        f"{compactions} compactions by coordinators; {len(kept)} tags and branches kept"
    )
    assert found == []
    assert len(tables) == FAN + SIDE + UPSERTED
    assert said["read"], said
    assert said["set"], said


@pytest.mark.failure("F13", "F35")
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_tables_among_neighbours_for_two_minutes(tmp_path: Path, fragile_broker: FragileBroker) -> None:
    """One of each trouble within two minutes: nothing lost, nothing twice, no reader fails, Spark reads every table."""
    run_campaign(tmp_path, fragile_broker, SHORT_MINUTES, float(os.environ.get("FLOE_CHAOS_DAY_S") or 40))


@pytest.mark.failure("F13", "F35")
@pytest.mark.chaos
@pytest.mark.timeout(4 * 3600)
def test_tables_among_neighbours_for_an_hour(tmp_path: Path, fragile_broker: FragileBroker) -> None:
    """Troubles of all kinds for an hour (FLOE_CHAOS_NEIGHBOURS_MINUTES), in an order that the seed chooses: nothing lost,
    nothing twice, no reader fails within its lease, no tag loses a file, Spark and Java read every table."""
    minutes = float(os.environ.get("FLOE_CHAOS_NEIGHBOURS_MINUTES") or LONG_MINUTES)
    run_campaign(tmp_path, fragile_broker, minutes, float(os.environ.get("FLOE_CHAOS_DAY_S") or 90))
