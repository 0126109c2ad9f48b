"""Tables of a real catalog that cannot be loaded or changed: refused alone, written as they were known, or waited
for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from framework.config.spec import ErrorPolicy, RouteRule, TablePolicy
from framework.errors import FloeError, TableBlocked
from framework.ops.preview import facts as preview_facts
from framework.ops.preview.model import Action
from framework.runtime.retry_policy import is_outage
from framework.runtime.tables import creation as table_creation
from framework.runtime.tables import refresh as table_refresh
from framework.runtime.tables import registry as registries
from framework.runtime.tables import troubles as table_troubles
from framework.runtime.tables.refresh import TableRefresh
from framework.runtime.tables.registry import TableRegistry
from framework.table import trouble
from framework.table.model import TableNeed
from framework.table.policy.answers import Act
from framework.table.policy.rules import rules_of
from testbed.record_samples import plan
from tests.iceberg.conftest import Lake
from tests.iceberg.lineage import change, local

pytestmark = pytest.mark.iceberg


def lose(lake: Lake, name: str) -> Path:
    """Another engine changes the table, and its new metadata file goes; gives where it was kept."""
    file = local(change(lake, name, lambda metadata: None))
    return file.rename(file.with_suffix(".kept"))


def waited(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has failed once has failed for long."""
    monkeypatch.setattr(trouble, "OWN_AFTER_S", 0.0)


def test_a_table_that_cannot_be_loaded_is_refused_alone(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table whose metadata file is gone when a run begins is refused with the reason while others of the catalog are
    sound; a need of it makes no new table in its place, and when the file is back it is written again."""
    waited(monkeypatch)
    for name in ("ns.bad", "ns.t"):
        lake.create(name)
    kept = lose(lake, "ns.bad")
    rules = [RouteRule("ns.bad"), RouteRule("ns.t")]
    registry = TableRegistry(plan(rules, defaults=TablePolicy()), lake.tables, lambda _: None)
    refresh = TableRefresh(registry, lambda _: None)
    registry.preload()
    assert [name for name, _ in registry.refused] == ["ns.bad"]
    assert set(registry.targets) == {"ns.t"}
    monkeypatch.setattr(table_troubles, "REFUSED_FOR_S", 0.0)
    refresh.begin_batch(["ns.t"])
    assert registry.refused == ()
    needs = [TableNeed("ns.bad", (("x", "long"),)), TableNeed("ns.t", (("x", "long"),))]
    registry.satisfy(needs)
    assert "cannot be loaded" in dict(registry.refused)["ns.bad"]
    assert "x" in lake.plain("ns.t").schema().column_names
    kept.rename(kept.with_suffix(".json"))
    refresh.begin_batch(["ns.t"])
    registry.satisfy(needs)
    assert registry.refused == ()
    assert "x" in lake.plain("ns.bad").schema().column_names


def test_a_store_that_cannot_be_read_is_an_outage(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no table of a catalog can be loaded although it answers, nothing is refused, whatever time passes; and a
    table that fails for a moment alone is waited for."""
    for name in ("ns.a", "ns.b"):
        lake.create(name)
    rules = [RouteRule("ns.a"), RouteRule("ns.b")]
    registry = TableRegistry(plan(rules, defaults=TablePolicy()), lake.tables, lambda _: None)
    registry.load("ns.a")
    lose(lake, "ns.b")
    with pytest.raises(FloeError, match=r"ns\.b") as young:
        registry.satisfy([TableNeed("ns.b", ())])
    assert is_outage(young.value)
    assert registry.refused == ()
    waited(monkeypatch)
    lose(lake, "ns.a")
    fresh = TableRegistry(plan(rules, defaults=TablePolicy()), lake.tables, lambda _: None)
    for act in (fresh.preload, lambda: registry.satisfy([TableNeed("ns.b", ())])):
        with pytest.raises(FloeError) as caught:
            act()
        assert is_outage(caught.value)
    assert (registry.refused, fresh.refused) == ((), ())


def test_a_table_that_is_known_is_written_as_it_was(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that this run knows and that cannot be loaded any more is written as it was known, and records that ask
    for a change of it are refused with the reason; the dead-letter table stops the pipeline."""
    waited(monkeypatch)
    monkeypatch.setattr(table_refresh, "REFRESH_AFTER_S", 0.0)
    names = ["ns.a", "ns.b", "ns.c"]
    for name in names:
        lake.create(name)
    registry = TableRegistry(plan(defaults=TablePolicy()), lake.tables, lambda _: None)
    refresh = TableRefresh(registry, lambda _: None)
    for name in names:
        registry.load(name)
    known = registry.targets["ns.a"]
    lose(lake, "ns.a")
    for _ in range(2):
        refresh.begin_batch(names)
        assert registry.targets["ns.a"] == known
    assert "written as this run knew it" in registry.troubles["ns.a"]
    registry.satisfy([TableNeed("ns.a", (("x", "long"),)), TableNeed("ns.b", (("x", "long"),))])
    assert "cannot be loaded" in registry.targets["ns.a"].frozen
    answer = rules_of(registry.targets["ns.a"]).missing_column()
    assert answer.act is Act.REFUSE
    assert "cannot be loaded" in answer.frozen
    assert registry.targets["ns.b"].frozen == ""
    assert "x" in lake.plain("ns.b").schema().column_names
    letters = replace(plan(defaults=TablePolicy()).write, dead_letter_table="ns.c")
    strict = TableRegistry(replace(plan(defaults=TablePolicy()), write=letters), lake.tables, lambda _: None)
    strict_refresh = TableRefresh(strict, lambda _: None)
    for name in ("ns.b", "ns.c"):
        strict.load(name)
    lose(lake, "ns.c")
    with pytest.raises(TableBlocked, match=r"the dead-letter table ns\.c cannot be written"):
        strict_refresh.begin_batch(["ns.b", "ns.c"])


@pytest.mark.parametrize("gone", [True, False], ids=["gone", "dropped"])
def test_a_table_that_is_replayed_alone_stops_the_replay(
    lake: Lake, gone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replay drops what cannot be written, since it was dealt with before: where its own table is in trouble it ends,
    and does not take the records for done with."""
    waited(monkeypatch)
    for name in ("ns.a", "ns.b"):
        lake.create(name)
    made = plan([RouteRule("ns.a"), RouteRule("ns.b")], defaults=TablePolicy(), errors=ErrorPolicy.DROP)
    alone = replace(
        made, route=replace(made.route, only_tables=("ns.a",)), write=replace(made.write, dead_letter_table=None)
    )
    registry = TableRegistry(alone, lake.tables, lambda _: None)
    if gone:
        lose(lake, "ns.a")
        with pytest.raises(TableBlocked, match=r"table ns\.a cannot be filled"):
            registry.preload()
        return
    registry.preload()
    lake.catalog.drop_table("ns.a")
    with pytest.raises(TableBlocked, match=r"table ns\.a cannot be filled: .*dropped"):
        registry.satisfy([TableNeed("ns.a", (("x", "long"),))])


def test_a_plan_shows_which_table_cannot_be_loaded(lake: Lake) -> None:
    """`floe plan` says which table has lost its metadata file, as of others that cannot be written, and shows the
    rest."""
    for name in ("ns.a", "ns.b"):
        lake.create(name)
    lose(lake, "ns.a")
    rules = [RouteRule("ns.a"), RouteRule("ns.b")]
    shown = {each.table: each for each in preview_facts._tables(plan(rules, defaults=TablePolicy()), lake.tables)}
    assert (shown["ns.a"].action, shown["ns.a"].code) == (Action.REFUSE, "FLOE-R135")
    assert "ns.a cannot be loaded" in shown["ns.a"].notes[0]
    assert shown["ns.b"].action is not Action.REFUSE


def test_what_nobody_foresaw_of_one_table_stops_no_other(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where making or changing a table raises what nobody foresaw, that table is refused or not changed for a while,
    with the reason; the others are made and changed."""
    for name in ("ns.bad", "ns.t"):
        lake.create(name)
    registry = TableRegistry(plan(defaults=TablePolicy()), lake.tables, lambda _: None)
    registry.preload()
    registry.load("ns.bad")
    evolve, create = registries.plan_evolution, table_creation.plan_creation

    def cursed(need: TableNeed) -> None:
        if "cursed" in dict(need.fields):
            raise ValueError("no such thing")

    monkeypatch.setattr(registries, "plan_evolution", lambda found, need: cursed(need) or evolve(found, need))
    monkeypatch.setattr(table_creation, "plan_creation", lambda made, need: cursed(need) or create(made, need))
    asked = {"ns.bad": "cursed", "ns.new_bad": "cursed", "ns.t": "x", "ns.new": "x"}
    registry.satisfy([TableNeed(name, ((field, "long"),)) for name, field in asked.items()])
    assert "ValueError: no such thing" in registry.targets["ns.bad"].frozen
    assert "ValueError: no such thing" in dict(registry.refused)["ns.new_bad"]
    assert "x" in lake.plain("ns.t").schema().column_names
    assert "x" in lake.plain("ns.new").schema().column_names
