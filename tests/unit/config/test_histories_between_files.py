"""The history of a table belongs to it alone, whichever file another writer stands in."""

from __future__ import annotations

import pytest

from framework.config.load import load_pipelines
from tests.unit.config.in_memory import world

FILE = """apiVersion: floe/v1
kind: Pipeline
metadata: {{name: {name}, owner: team-shop}}
source: {{kafka: {{connection: main, topics: [{name}]}}, format: {{type: json}}}}
routes:
  rules: [{{table: "{table}"}}]
  allow_tables: ["{namespace}.*"]
errors: {{policy: dead_letter, dead_letter_table: {letters}}}
tables: {{defaults: {{write: {write}}}}}
"""
KEPT = "{mode: upsert, key: [id], history: shop.changes}"


def pipeline(
    name: str, table: str, write: str = "{mode: append}", letters: str = "shop.letters", namespace: str = "shop"
) -> str:
    """A file that writes this table."""
    return FILE.format(name=name, table=table, write=write, letters=letters, namespace=namespace)


def codes(*texts: str) -> list[list[str]]:
    """The codes that `floe validate` finds in each file."""
    files = {f"{n}.yaml": text for n, text in enumerate(texts)}
    found = load_pipelines(sorted(files), None, world(files, offline=True))
    return [[each.code for each in result.diagnostics if each.code == "FLOE-C456"] for result in found]


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

    assert codes(own, pipeline("other", "shop.other"), pipeline("third", "crm.changes", namespace="crm")) == [
        [],
        [],
        [],
    ]
