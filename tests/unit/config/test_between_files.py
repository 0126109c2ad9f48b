"""A history, an upsert table and a dead-letter table each have one kind of writer, whichever files name them."""

from __future__ import annotations

import itertools
import random
from fnmatch import fnmatchcase

import pytest

from framework.config.load import load_pipelines
from framework.config.names.common_names import common_name, of_glob
from tests.unit.config.in_memory import world

FILE = """apiVersion: floe/v1
kind: Pipeline
metadata: {{name: {name}, owner: team-shop}}
source: {{kafka: {{connection: main, topics: [{name}]}}, format: {{type: json}}}}
routes:
  rules: [{{table: "{table}"}}]
  allow_tables: ["{allowed}"]
errors: {{policy: dead_letter, dead_letter_table: {letters}}}
tables: {{defaults: {{write: {write}}}}}
"""
KEPT = "{mode: upsert, key: [id], history: shop.changes}"


def pipeline(
    name: str, table: str, write: str = "{mode: append}", letters: str = "lost.letters", allowed: str = "shop.*"
) -> str:
    """A file that writes this table."""
    return FILE.format(name=name, table=table, write=write, letters=letters, allowed=allowed)


def codes(*texts: str, code: str = "FLOE-C456") -> list[list[str]]:
    """How often `floe validate` finds this code in each file."""
    files = {f"{n}.yaml": text for n, text in enumerate(texts)}
    found = load_pipelines(sorted(files), None, world(files, offline=True))
    return [[each.code for each in result.diagnostics if each.code == code] for result in found]


@pytest.mark.parametrize(
    "other",
    [
        pipeline("other", "shop.changes"),
        pipeline("other", "shop.Changes"),
        pipeline("other", "shop.{kind}"),
        pipeline("other", "shop.others", letters="shop.changes"),
        pipeline("other", "shop.others", "{mode: upsert, key: [id], history: shop.changes}"),
    ],
    ids=["a rule", "in another case", "a template", "dead letters", "a history"],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_history_that_another_file_writes_is_refused(other: str, first: bool) -> None:
    """In either order of the files: whoever reads the history would find changes that its table never had."""
    own = pipeline("orders", "shop.orders", KEPT)
    found = codes(other, own) if first else codes(own, other)

    assert found[1 if first else 0] == ["FLOE-C456"]


def test_files_that_leave_the_history_alone_are_right() -> None:
    """A table of the same name elsewhere is another table."""
    own = pipeline("orders", "shop.orders", KEPT)

    assert codes(own, pipeline("other", "shop.other"), pipeline("third", "crm.changes", allowed="crm.*")) == [
        [],
        [],
        [],
    ]


UPSERT = "{mode: upsert, key: [id]}"
BOTH_ORDERS = pytest.mark.parametrize("first", [True, False], ids=["before", "after"])


@BOTH_ORDERS
@pytest.mark.parametrize(
    ("named", "template"),
    [
        (pipeline("own", "shop.customers", UPSERT), pipeline("other", "shop.{type}s")),
        (pipeline("own", "shop.Customers", UPSERT), pipeline("other", "shop.c{type}")),
        (pipeline("own", "shop.customers"), pipeline("other", "shop.{type}s", UPSERT)),
        (pipeline("own", "shop.customers", UPSERT), pipeline("other", "shop.{type}", UPSERT)),
    ],
    ids=["appended beside", "in another case", "upserted beside", "upserted twice"],
)
def test_a_template_that_leads_into_an_upsert_table_of_another_file_is_refused(
    named: str, template: str, first: bool
) -> None:
    """In either order of the files: one record of the other pipeline would double a key."""
    found = codes(template, named, code="FLOE-C462") if first else codes(named, template, code="FLOE-C462")

    assert found == ([["FLOE-C462"], []] if first else [[], ["FLOE-C462"]])


@BOTH_ORDERS
def test_records_that_lead_to_the_dead_letter_table_of_another_file_are_refused(first: bool) -> None:
    """In either order of the files: the table has columns of its own."""
    own = pipeline("own", "shop.orders")
    other = pipeline("other", "lost.letters", letters="own.letters", allowed="lost.*")
    found = codes(other, own, code="FLOE-C416") if first else codes(own, other, code="FLOE-C416")

    assert found == ([["FLOE-C416"], []] if first else [[], ["FLOE-C416"]])


@pytest.mark.parametrize(
    "other",
    [
        pipeline("other", "shop.{type}s", allowed="shop.order*"),
        pipeline("other", "shop.{type}_events"),
        pipeline("other", "crm.{type}s", allowed="crm.*"),
    ],
    ids=["outside of what is allowed", "another ending", "another namespace"],
)
def test_templates_that_lead_elsewhere_are_right(other: str) -> None:
    """Only a name that a record can really make counts, inside `allow_tables`."""
    own = pipeline("own", "shop.customers", UPSERT)

    assert codes(own, other, code="FLOE-C462") == [[], []]


@BOTH_ORDERS
@pytest.mark.parametrize(
    ("appends", "upserts"),
    [
        (pipeline("own", "shop.{type}s"), pipeline("other", "shop.{kind}", UPSERT)),
        (pipeline("own", "shop.{type}_events"), pipeline("other", "shop.order{kind}s", UPSERT)),
        (pipeline("own", "shop.{type}", allowed="shop.eu_*"), pipeline("other", "shop.{kind}_x", UPSERT)),
        (
            pipeline("own", "shop.{type}"),
            pipeline("other", "shop.{kind}") + "  overrides: [{match: shop.cust*, write: {mode: upsert, key: [id]}}]\n",
        ),
    ],
    ids=["one ends in s", "beginning and end", "inside of what is allowed", "by an override"],
)
def test_templates_that_may_meet_in_an_upsert_table_are_refused(appends: str, upserts: str, first: bool) -> None:
    """In either order of the files, at the one that appends; the message names a table that both can make."""
    if "overrides" in upserts:
        upserts = upserts.replace("tables: {defaults: {write: {mode: append}}}\n", "tables:\n")
    texts = (appends, upserts) if first else (upserts, appends)

    assert codes(*texts, code="FLOE-C462") == ([["FLOE-C462"], []] if first else [[], ["FLOE-C462"]])


@pytest.mark.parametrize(
    ("appends", "upserts"),
    [
        (pipeline("own", "shop.{type}s"), pipeline("other", "shop.{kind}_t", UPSERT)),
        (
            pipeline("own", "shop.{type}", allowed="shop.eu_*"),
            pipeline("other", "shop.{kind}", UPSERT, allowed="shop.us*"),
        ),
        (pipeline("own", "shop.{type}"), pipeline("other", "shop.{kind}")),
        (pipeline("own", "shop.{type}", UPSERT), pipeline("other", "shop.{kind}", UPSERT)),
    ],
    ids=["other ends", "apart by what is allowed", "both append", "both upsert"],
)
def test_templates_that_cannot_meet_are_right(appends: str, upserts: str) -> None:
    """Two that upsert are left to the tables, which record their owners: they may read different records."""
    assert codes(appends, upserts, code="FLOE-C462") == [[], []]


@pytest.mark.parametrize("seed", range(20))
def test_a_common_name_is_one_of_all_patterns(seed: int) -> None:
    """What is found matches each pattern, and where nothing is found no short name does."""
    pick = random.Random(seed)
    globs = ["".join(pick.choice("ab*?.") for _ in range(pick.randrange(1, 6))) for _ in range(3)]
    name = common_name([of_glob(glob) for glob in globs])
    if name is not None:
        assert all(fnmatchcase(name, glob) for glob in globs)
    else:
        names = ("".join(each) for size in range(6) for each in itertools.product("ab.x", repeat=size))
        assert not any(all(fnmatchcase(each, glob) for glob in globs) for each in names)
