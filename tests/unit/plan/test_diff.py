"""Differences between two plans, in the words of the file, and the dangers among them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from framework.commit.events.event_types import Deployed
from framework.commit.objectives.log import objectives_of
from framework.commit.risks import silent_after_ms
from framework.config.spec import (
    CommitPolicy,
    ErrorPolicy,
    ErrorsSpec,
    FieldHint,
    LoadedPipeline,
    RouteCondition,
    RouteRule,
    TablePolicy,
    TablesSpec,
    TemplateUse,
    WriteMode,
    WritePolicy,
)
from framework.deploy.history import DeploymentHistory, changes_since
from framework.diagnose.codes.catalogue import CODES
from framework.errors import ConfigError
from framework.observe.status.judge import owners_of, template_of
from framework.plan.canonical import canonical, plan_hash
from framework.plan.deploy.removed import REMOVED
from framework.plan.deployed_policies import dead_letters_of, published_tables
from framework.plan.diff.consent import BREAKING_CODES, allowed_codes, check_consent
from framework.plan.diff.diff import ChangeKind, PlanChange, changes_of_new, diff
from framework.runtime.lineage import plan_in
from tests.unit.plan.test_submit import loaded

ROOT = Path(__file__).parents[3]


def changed(**parts: Any) -> LoadedPipeline:
    """The pipeline of `loaded` with parts of its spec replaced; `kafka` and `routes` are changed, not replaced."""
    spec = loaded().spec
    kafka, routes = parts.pop("kafka", {}), parts.pop("routes", {})
    source = replace(parts.pop("source", spec.source), kafka=replace(spec.source.kafka, **kafka))
    return replace(loaded(), spec=replace(spec, source=source, routes=replace(spec.routes, **routes), **parts))


def tables(*intervals_ms: int, glob: str = "shop.*") -> TablesSpec:
    """Defaults with the first interval, and an override with the second."""
    policies = [TablePolicy(commit=CommitPolicy(interval_ms=each)) for each in intervals_ms]
    return TablesSpec(policies[0], tuple((glob, policy) for policy in policies[1:]))


def in_catalogs(*overrides: tuple[str, str]) -> TablesSpec:
    """Tables that match a pattern in a catalog; the others in the default one."""
    return TablesSpec(TablePolicy(), tuple((glob, TablePolicy(catalog=catalog)) for glob, catalog in overrides))


def upserted(*key: str, glob: str = "", order: str | None = None) -> TablesSpec:
    """Tables that are upserted by a key: all of them, or those that match a pattern."""
    policy = TablePolicy(write=WritePolicy(WriteMode.UPSERT, key, order_field=order))
    return TablesSpec(TablePolicy(), ((glob, policy),)) if glob else TablesSpec(policy)


ANY_SHOP = {"rules": (RouteRule("shop.{kind}"),), "allow_tables": ("shop.*",)}


def changes(before: LoadedPipeline, after: LoadedPipeline, has_run: bool = True) -> tuple[PlanChange, ...]:
    return diff(canonical(before), canonical(after), has_run)


def test_equal_plans_have_no_difference() -> None:
    """Nothing is said of a plan against itself."""
    assert changes(loaded(), loaded()) == ()


def test_changes_are_reported_in_the_words_of_the_file() -> None:
    """Each value is named by its place in the pipeline file, once, with both values as people write them."""
    hints = (FieldHint("at", "timestamptz", unit="ms"),)
    after = changed(
        tables=tables(10_000), trigger_every_ms=1_000, kafka={"topics": ("t", "u")}, transform_sql="SELECT 1"
    )
    after = replace(after, spec=replace(after.spec, source=replace(after.spec.source, hints=hints)))
    found = [(c.kind.value, c.subject, c.before, c.after, c.breaking) for c in changes(loaded(), after)]
    assert found == [
        ("add", "source.kafka.topics", None, "u", ""),
        ("add", "source.schema.at", None, "timestamptz (unit ms)", ""),
        ("add", "transform.sql", None, "SELECT 1", ""),
        ("change", "tables.defaults.commit.interval", "3m", "10s", ""),
        ("change", "trigger.every", "3m", "1s", ""),
    ]


def test_settings_are_reported_by_section_only() -> None:
    """A changed connection is named and no address is shown."""
    target = replace(loaded().target, catalogs={"default": {"type": "rest", "uri": "https://elsewhere"}})
    (change,) = changes(loaded(), replace(loaded(), target=target))
    assert (change.kind, change.subject, change.before, change.after) == (
        ChangeKind.CHANGE,
        "target connections.catalog",
        None,
        None,
    )


def test_a_rule_with_another_condition_is_a_change() -> None:
    """A narrowed rule is shown as such and is no danger; a turned order is told, since the first match wins."""
    refunds, orders = loaded().spec.routes.rules
    narrowed = replace(refunds, when=RouteCondition("type", equals=2))
    (change,) = changes(loaded(), changed(routes={"rules": (narrowed, orders)}))
    assert (change.kind, change.before, change.after) == (
        ChangeKind.CHANGE,
        "shop.refunds when type = 1",
        "shop.refunds when type = 2",
    )
    assert change.breaking == ""
    (turned,) = changes(loaded(), changed(routes={"rules": (orders, refunds)}))
    assert turned.subject == "routes.rules (order)"


TWO_RULES = {"rules": (*loaded().spec.routes.rules, RouteRule("shop.orders", RouteCondition("type", equals=7)))}
DEAD = ErrorsSpec(ErrorPolicy.DEAD_LETTER, dead_letter_table="shop.dead")
DANGERS: list[tuple[str, LoadedPipeline, LoadedPipeline, str, str | None, str | None]] = [
    ("P101", changed(routes=TWO_RULES), loaded(), "routes.rules", "shop.orders when type = 7", None),
    (
        "P102",
        loaded(),
        changed(routes={"rules": loaded().spec.routes.rules[1:]}),
        "table shop.refunds",
        "written",
        "not written",
    ),
    ("P103", changed(tables=tables(6_000)), loaded(), "tables.defaults.commit.interval", "6s", "3m"),
    ("P103", changed(tables=tables(180_000, 1_000)), loaded(), "tables.defaults.commit.interval", "1s", "3m"),
    (
        "P103",
        changed(tables=tables(180_000, 1_000)),
        changed(tables=tables(180_000, 60_000)),
        "tables.overrides[shop.*].commit.interval",
        "1s",
        "1m",
    ),
    (
        "P104",
        loaded(),
        changed(kafka={"starting_offsets": "latest"}),
        "source.kafka.starting_offsets",
        "earliest",
        "latest",
    ),
    (
        "P105",
        loaded(),
        changed(kafka={"on_data_loss": "skip_and_record"}),
        "source.kafka.on_data_loss",
        "fail",
        "skip_and_record",
    ),
    (
        "P106",
        changed(errors=DEAD),
        changed(errors=replace(DEAD, policy=ErrorPolicy.DROP)),
        "errors.policy",
        "dead_letter",
        "drop",
    ),
    (
        "P106",
        changed(errors=replace(DEAD, stages=(("decode", ErrorPolicy.FAIL),))),
        changed(errors=replace(DEAD, stages=(("decode", ErrorPolicy.DROP),))),
        "errors.policy.decode",
        "fail",
        "drop",
    ),
    ("P106", loaded(), changed(routes={"unrouted": ErrorPolicy.DROP}), "routes.unrouted", "dead_letter", "drop"),
    (
        "P107",
        loaded(),
        replace(loaded(), target=replace(loaded().target, prefix="team-a")),
        "group_id",
        "floe-pizzas",
        "team-a-pizzas",
    ),
    (
        "P109",
        loaded(),
        changed(tables=in_catalogs(("*.refunds", "cold"))),
        "table shop.refunds",
        "in catalog default",
        "in catalog cold",
    ),
    (
        "P109",
        changed(errors=DEAD),
        changed(errors=DEAD, tables=in_catalogs(("shop.dead", "cold"))),
        "table shop.dead",
        "in catalog default",
        "in catalog cold",
    ),
    (
        "P109",
        changed(routes=ANY_SHOP, tables=in_catalogs(("shop.a*", "cold"))),
        changed(routes=ANY_SHOP, tables=in_catalogs(("shop.a*", "cold"), ("shop.b*", "cold"))),
        "table shop.{kind}",
        "in catalog cold for shop.a*, else default",
        "in catalog cold for shop.a*, cold for shop.b*, else default",
    ),
    ("P110", loaded(), changed(tables=upserted("id")), "tables.defaults.write.mode", "append", "upsert"),
    ("P110", changed(tables=upserted("id")), loaded(), "tables.defaults.write.mode", "upsert", "append"),
    (
        "P110",
        loaded(),
        changed(tables=upserted("id", glob="shop.refunds")),
        "tables.overrides[shop.refunds].write.mode",
        None,
        "upsert",
    ),
    (
        "P111",
        changed(tables=upserted("id")),
        changed(tables=upserted("id", "region")),
        "tables.defaults.write.key",
        "id",
        "id, region",
    ),
    (
        "P112",
        changed(tables=upserted("id")),
        changed(tables=upserted("id", order="updated_at")),
        "tables.defaults.write.order",
        "source",
        "updated_at",
    ),
    (
        "P112",
        changed(tables=upserted("id", order="updated_at")),
        changed(tables=upserted("id", order="version")),
        "tables.defaults.write.order",
        "updated_at",
        "version",
    ),
]


# What is a danger in the one direction and in the other.
BOTH_WAYS = ("P104", "P107", "P109", "P110", "P111", "P112")


@pytest.mark.parametrize(("code", "before", "after", "subject", "was", "is_now"), DANGERS)
def test_each_danger_is_on_the_line_that_it_is_about(
    code: str, before: LoadedPipeline, after: LoadedPipeline, subject: str, was: str | None, is_now: str | None
) -> None:
    """A change that takes something away has its code, a sentence, and both values; one code once."""
    found = [change for change in changes(before, after) if change.breaking]
    assert [(c.breaking, c.subject, c.before, c.after) for c in found] == [(f"FLOE-{code}", subject, was, is_now)]
    assert found[0].why
    assert not [c for c in changes(after, before) if c.breaking == f"FLOE-{code}" and code not in BOTH_WAYS]


def test_before_the_first_run_some_changes_are_harmless() -> None:
    """A pipeline without positions may begin elsewhere and under another group."""
    after = changed(kafka={"starting_offsets": "latest"})
    assert [c.breaking for c in changes(loaded(), after, has_run=False)] == [""]


def test_a_new_name_for_a_deployed_pipeline_is_found() -> None:
    """The same topics into a same table under a new name: it would read from the start. Other topics or tables are
    not."""
    new = canonical(loaded(name="pizza-orders"))
    (change,) = changes_of_new(new, [canonical(loaded())])
    assert (change.breaking, change.subject, change.before, change.after) == (
        "FLOE-P107",
        "metadata.name",
        "pizzas",
        "pizza-orders",
    )
    assert "starts at earliest" in change.why
    others = [changed(kafka={"topics": ("u",)}), changed(routes={"rules": (RouteRule("shop.else"),)})]
    assert changes_of_new(new, [canonical(other) for other in others]) == ()


@pytest.mark.parametrize(
    ("before", "after", "asks"),
    [
        ({"topics": ("t",)}, {"topics": ("t", "u")}, True),
        ({"topics": ("t", "u")}, {"topics": ("u",)}, True),
        ({"topics": ("t", "u")}, {"topics": ("u", "v")}, True),
        ({"topics": (), "topic_pattern": "^t.*$"}, {"topics": ("t1", "u")}, True),
        ({"topics": ("t1",)}, {"topics": (), "topic_pattern": "^t.*$"}, True),
        ({"topics": (), "topic_pattern": "^t.*$"}, {"topics": (), "topic_pattern": "^t.*$"}, True),
        ({"topics": ("t",)}, {"topics": ("u",)}, False),
        ({"topics": (), "topic_pattern": "^t.*$"}, {"topics": ("u",)}, False),
        ({"topics": ("t",)}, {"topics": ("t", "u"), "connection": "other"}, False),
    ],
)
def test_a_renamed_pipeline_is_found_by_some_of_its_topics(
    before: dict[str, Any], after: dict[str, Any], asks: bool
) -> None:
    """A new name together with a topic more or less is still a new name: what both read would be written again."""
    old = canonical(changed(kafka=before))
    new: Any = canonical(changed(kafka=after))
    new["plan"]["pipeline"] = "pizza-orders"

    found = [change.breaking for change in changes_of_new(new, [old])]

    assert found == (["FLOE-P107"] if asks else [])
    # Where a file still holds the other, two pipelines share topics on purpose.
    is_same = before == after
    assert bool(changes_of_new(new, [old], held={"pizzas"})) == is_same


def test_a_template_that_changed_is_named() -> None:
    """What another version of a template changes is told below its name; a version that changes nothing is not told,
    and makes no other hash."""
    one, two = (
        TemplateUse("acme:land", "1.0", "sha256:" + "1" * 64),
        TemplateUse("acme:land", "2.0", "sha256:" + "2" * 64),
    )
    edited = replace(one, hash=two.hash)
    before, after = replace(loaded(), template=one), changed(transform_sql="SELECT 1")

    def first(deployed: LoadedPipeline, now: LoadedPipeline) -> list[tuple[str, str | None, str | None]]:
        return [(c.subject, c.before, c.after) for c in changes(deployed, now) if c.subject == "template"]

    assert first(before, replace(after, template=two)) == [("template", "acme:land 1.0", "acme:land 2.0")]
    ((_, was, is_now),) = first(before, replace(after, template=edited))
    assert (was, is_now) == (f"acme:land 1.0 (sha256:{'1' * 12})", f"acme:land 1.0 (sha256:{'2' * 12})")
    assert first(before, after) == [("template", "acme:land 1.0", None)]
    assert first(before, replace(after, template=one)) == []
    assert changes(before, replace(loaded(), template=two)) == ()
    assert plan_hash([before]) == plan_hash([replace(before, template=two)]) == plan_hash([loaded()])


def test_a_plan_of_another_version_can_be_compared() -> None:
    """Keys that an older floe did not write are new, and keys that it wrote and this one does not know are gone."""
    before: Any = canonical(loaded())
    del before["plan"]["read"]["slices"]
    before["plan"]["decode"]["ancient"] = True
    assert [(c.kind.value, c.subject) for c in diff(before, canonical(loaded()))] == [
        ("add", "slices"),
        ("remove", "source.ancient"),
    ]


def test_a_key_of_tables_that_no_rule_leads_to_is_no_danger() -> None:
    """Words of upserts for tables that are not written are changes, and take nothing away."""
    found = changes(loaded(), changed(tables=upserted("id", glob="else.*")))
    assert "tables.overrides[else.*].write.key" in {change.subject for change in found}
    assert not [change for change in found if change.breaking]


def test_only_a_table_that_moves_is_a_danger() -> None:
    """Naming the default catalog, a catalog for tables that no rule leads to, or a plan from before there were several
    changes where no table lives."""
    elsewhere = changed(tables=in_catalogs(("shop.*", "default"), ("else.*", "cold")))
    old: Any = canonical(loaded())
    for tables in (old["plan"]["write"]["tables"], old["plan"]["commit"]["tables"]):
        del tables["defaults"]["catalog"]
    assert diff(old, canonical(loaded())) == ()
    for before in (old, canonical(loaded())):
        assert not [change for change in diff(before, canonical(elsewhere)) if change.breaking]


def test_dangers_are_refused_until_each_is_allowed_by_name() -> None:
    """The refusal names every missing code as the option to give; with all of them nothing is refused."""
    both = changed(kafka={"starting_offsets": "latest", "on_data_loss": "skip_and_record"})
    found = {"pizzas": changes(loaded(), both)}
    with pytest.raises(ConfigError) as raised:
        check_consent(found, {"FLOE-P104"})
    assert raised.value.exit_code == 2
    assert raised.value.code == "FLOE-P105"
    assert raised.value.remedy.endswith("--allow FLOE-P105")
    check_consent(found, allowed_codes(["p104", "FLOE-P105"]))


@pytest.mark.parametrize("word", ["all", "P001", "FLOE-C101", ""])
def test_only_dangers_can_be_allowed(word: str) -> None:
    """There is no word that allows everything."""
    with pytest.raises(ConfigError) as raised:
        allowed_codes([word])
    assert raised.value.code == "FLOE-P002"


def test_every_danger_can_be_explained() -> None:
    """Each code that can be allowed has a page."""
    assert set(BREAKING_CODES) <= set(CODES)
    tested: set[str] = {f"FLOE-{code}" for code, *_ in DANGERS}
    # A deleted file is about no line of a pipeline's plan; see test_removed.
    assert tested | {REMOVED} == set(BREAKING_CODES)


OF_ANOTHER_FORM = (None, {}, [], "x", 7, [None], ["x"], {"x": 1})


def broken(value: Any) -> Iterator[Any]:
    """A value of JSON with one part, at any depth, that is gone or is something else; every part in turn."""
    yield from OF_ANOTHER_FORM
    if isinstance(value, dict):
        for key, inner in value.items():
            yield {name: each for name, each in value.items() if name != key}
            yield from ({**value, key: each} for each in broken(inner))
    if isinstance(value, list):
        for at, inner in enumerate(value):
            yield from ([*value[:at], each, *value[at + 1 :]] for each in broken(inner))


@pytest.mark.parametrize("is_own", [True, False])
def test_what_another_version_has_deployed_ends_nothing(is_own: bool) -> None:
    """A control topic holds plans of any form, of this pipeline or of others: what is not known is not compared."""
    name = loaded().spec.name if is_own else "another"
    whole = json.loads(json.dumps(canonical(changed(tables=upserted("id", glob="shop.*")))))
    for count, value in enumerate(broken(whole), 1):  # noqa: B007  # how many there were
        deployed = Deployed(name, "run", "hash", value if isinstance(value, dict) else {"plan": value}, "", 0)
        found = changes_since(loaded(), DeploymentHistory({name: deployed}, frozenset({name})))
        assert found is None or all(isinstance(each, PlanChange) for each in found)
        for read in (objectives_of, silent_after_ms, template_of, owners_of, plan_in):
            read(deployed)
        for read_plan in (published_tables, dead_letters_of):
            read_plan(deployed.plan)
    assert count > 1_000


def test_every_reader_of_deployed_plans_is_among_them() -> None:
    """A module that reads a plan out of the log, and is not in this list, fails here until its reader is judged above."""
    reading = re.compile(r"\b(?:deployed|event|reported|other)\.plan\b")
    found = {
        file.relative_to(ROOT).as_posix()
        for file in ROOT.joinpath("framework").rglob("*.py")
        if reading.search(file.read_text(encoding="utf-8"))
    }
    assert found == {
        "framework/commit/objectives/log.py",
        "framework/commit/risks.py",
        "framework/deploy/history.py",
        "framework/observe/status/judge.py",
        "framework/ops/backend.py",  # every value as text, and `dead_letters_of`
        "framework/overview/fold.py",  # `owners_in`, as the status
        "framework/runtime/lineage.py",
        "framework/runtime/maintenance/background.py",
        "framework/runtime/maintenance/orphans.py",
    }
