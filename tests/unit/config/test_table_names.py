"""Full names of tables: which catalog a table lives in follows from its name, in one way everywhere."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.config.names.table_names import (
    as_written,
    catalog_of,
    full_name,
    identifier_of,
    name_matches,
    reachable,
    template_glob,
)
from framework.config.spec import NameCase, RouteRule, TablePolicy, TablesSpec
from framework.plan.catalogs import shown_table, used_catalogs
from framework.record.routing.route import render
from testbed.record_samples import plan

WORDS = st.sampled_from(["a", "b", "ab", "B"])
IDENTIFIERS = st.builds("{}.{}".format, WORDS, WORDS)
GLOBS = st.lists(st.sampled_from(["a", "b", "B", ".", "*", "?"]), min_size=1, max_size=4).map("".join)
CATALOGS = st.sampled_from(["default", "cold", "warm"])
OVERRIDES = st.lists(st.tuples(GLOBS, CATALOGS), max_size=4)
TEMPLATES = st.one_of(IDENTIFIERS, st.builds("{}.{}{{x}}".format, WORDS, st.sampled_from(["", "a", "ab"])))


def spec(overrides: list[tuple[str, str]], rest: str, case: NameCase = NameCase.INSENSITIVE) -> TablesSpec:
    policy = TablePolicy(case=case)
    return TablesSpec(
        replace(policy, catalog=rest), tuple((glob, replace(policy, catalog=catalog)) for glob, catalog in overrides)
    )


@given(CATALOGS, IDENTIFIERS)
def test_a_full_name_is_taken_apart_into_what_it_was_made_of(catalog: str, identifier: str) -> None:
    """Catalog and name come back; a table of the default catalog has the name that it always had."""
    name = full_name(catalog, identifier)
    assert (catalog_of(name), identifier_of(name)) == (catalog, identifier)
    assert (":" in name) == (catalog != "default")
    assert as_written(f"{catalog}:{identifier}") == name
    assert as_written(name) == name


@given(OVERRIDES, CATALOGS, st.sampled_from(NameCase), IDENTIFIERS)
def test_a_table_has_the_policy_of_its_catalog(
    overrides: list[tuple[str, str]], rest: str, case: NameCase, identifier: str
) -> None:
    """The catalog of a full name is that of the table's policy, whether it is asked for with the catalog or without."""
    tables = spec(overrides, rest, case)
    name = tables.full_name(identifier)
    assert identifier_of(name) == identifier
    assert catalog_of(name) == tables.policy_for(identifier).catalog == tables.policy_for(name).catalog
    assert tables.in_one_catalog().full_name(identifier) == identifier


@given(OVERRIDES, CATALOGS, st.sampled_from(NameCase), TEMPLATES, WORDS)
def test_records_reach_no_catalog_that_was_not_checked(
    overrides: list[tuple[str, str]], rest: str, case: NameCase, template: str, value: str
) -> None:
    """Wherever a record's value leads, the table's catalog is among those that the plan says it uses, and a name that
    is shown with its catalog is the table's own."""
    tables = spec(overrides, rest, case)
    rule = RouteRule(template)
    made = plan([rule], allow=("*.*",), defaults=tables.defaults, overrides=tables.overrides)
    made = replace(
        made,
        route=replace(made.route, catalogs=tables.catalogs),
        write=replace(made.write, dead_letter_table=None),
    )
    values = (value,) if "{" in template else ()
    name = render(rule, values, made.route, lower=case is NameCase.INSENSITIVE)
    assert name is not None
    assert name == tables.full_name(identifier_of(name))
    assert catalog_of(name) in used_catalogs(made)
    shown = shown_table(made, template)
    assert (":" not in shown) or catalog_of(shown) == catalog_of(name)


@given(OVERRIDES, CATALOGS, TEMPLATES, WORDS)
def test_the_places_of_a_pattern_decide_as_all_of_them_do(
    overrides: list[tuple[str, str]], rest: str, template: str, value: str
) -> None:
    """What is left out of the places of a rule's tables makes no difference to any of them."""
    catalogs = (*overrides, ("*", rest))
    name = template.replace("{x}", value)
    found = reachable(template_glob(template), catalogs, str)
    wanted = next(catalog for glob, catalog in catalogs if fnmatchcase(name, glob))
    assert next((catalog for glob, catalog in found[:-1] if fnmatchcase(name, glob)), found[-1][1]) == wanted


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("archive.*", ["archive.orders", "cold:archive.orders"]),
        ("archive.orders", ["archive.orders", "cold:archive.orders"]),
        ("cold:*", ["cold:archive.orders"]),
        ("default:*", ["archive.orders", "shop.orders"]),
        ("c*:*.orders", ["cold:archive.orders"]),
        ("*", ["archive.orders", "cold:archive.orders", "shop.orders"]),
        ("*:shop.*", ["shop.orders"]),
    ],
)
def test_a_pattern_without_a_catalog_means_tables_of_every_one(pattern: str, meant: list[str]) -> None:
    """What is held or cleaned by a pattern is never less than it reads; a colon narrows it to catalogs."""
    tables = ["archive.orders", "cold:archive.orders", "shop.orders"]
    assert [name for name in tables if name_matches(name, pattern)] == meant
