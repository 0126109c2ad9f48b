"""Which tables a recovery asks about a pipeline, on real tables."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from framework.commit.machine.effects import Committed
from framework.config.spec import RouteRule
from framework.record.dead_letters.replay import marks_table, plan_marks_table
from framework.recovery.rebase import Recovery, _tables
from testbed.record_samples import plan
from tests.iceberg.conftest import TOPIC, Lake

pytestmark = pytest.mark.iceberg


def test_the_table_of_replays_is_no_table_of_records(lake: Lake) -> None:
    """A rule with a field in its name may lead to every table of the namespace, so also to that of replayed dead letters,
    which holds nothing of the pipeline: `floe rebase` refused for it, since what was announced for it might be lost. A
    table that records were really routed to is asked, whatever it is called."""
    made = plan(rules=[RouteRule("shop.{kind}")], allow=("shop.*",))
    made = replace(made, pipeline="p", write=replace(made.write, dead_letter_table="shop.dl"))
    for name in ("shop.orders", "shop.dl"):
        lake.create(name)
        files = lake.files(name, [{"id": 1, "name": "x"}])
        assert isinstance(lake.tables.commit(lake.effect(name, files, 1)), Committed)
    lake.tables.create_table(plan_marks_table("shop.dl"))
    log: Any = SimpleNamespace(facts=SimpleNamespace(topic_id=TOPIC), state=SimpleNamespace(tables={}))
    at = Recovery(made, "", {}, lake.tables, lambda text: None)

    own, _, views = _tables(at, log)
    assert [(each.table, each.newest is not None) for each in own] == [("shop.dl", True), ("shop.orders", True)]
    assert marks_table("shop.dl") in [view.table for view in views]

    assert isinstance(lake.tables.commit(lake.effect("shop.dl_replayed", (), 1)), Committed)
    own, _, _ = _tables(at, log)
    assert [each.table for each in own] == ["shop.dl", "shop.dl_replayed", "shop.orders"]
