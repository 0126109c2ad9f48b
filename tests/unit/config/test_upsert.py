"""The words of upsert tables as a pipeline file has them, and the policies that they become."""

from __future__ import annotations

from typing import Any

import pytest

from framework.config.filled.build import build_pipeline
from framework.config.spec import Deletes, DeleteWhen, PipelineSpec, WriteMode, WritePolicy

UPSERT = {"mode": "upsert", "key": ["id"]}


def spec(tables: dict[str, Any], **parts: Any) -> PipelineSpec:
    """The spec of a small file with these tables."""
    return build_pipeline(
        {
            "metadata": {"name": "orders"},
            "source": {"kafka": {"connection": "main", "topics": ["orders"]}},
            "routes": {"rules": [{"table": "shop.orders"}]},
            "tables": tables,
            **parts,
        }
    )


def write(word: dict[str, Any]) -> WritePolicy:
    return spec({"defaults": {"write": word}}).tables.defaults.write


def test_tables_are_appended_to_where_nothing_is_said() -> None:
    """A file without `write`, or with `mode: append`, has one and the same policy."""
    assert spec({}).tables.defaults.write == write({"mode": "append"}) == WritePolicy()
    assert WritePolicy().mode is WriteMode.APPEND


@pytest.mark.parametrize(
    ("word", "policy"),
    [
        ({}, WritePolicy(WriteMode.UPSERT, ("id",))),
        ({"order": "source", "deletes": "auto"}, WritePolicy(WriteMode.UPSERT, ("id",))),
        ({"order": {"field": "at"}}, WritePolicy(WriteMode.UPSERT, ("id",), order_field="at")),
        ({"delete_when": "tombstone"}, WritePolicy(WriteMode.UPSERT, ("id",), delete_when=DeleteWhen())),
        (
            {"delete_when": {"field": "op", "equals": "d"}},
            WritePolicy(WriteMode.UPSERT, ("id",), delete_when=DeleteWhen("op", "d")),
        ),
        ({"deletes": "position_deletes"}, WritePolicy(WriteMode.UPSERT, ("id",), deletes=Deletes.POSITION_DELETES)),
        ({"history": "shop.changes"}, WritePolicy(WriteMode.UPSERT, ("id",), history="shop.changes")),
    ],
)
def test_each_word_is_one_value_of_the_policy(word: dict[str, Any], policy: WritePolicy) -> None:
    """What is written under `write` is what the policy says, and nothing else of it changes."""
    assert write({**UPSERT, **word}) == policy


def test_an_override_goes_on_from_the_defaults() -> None:
    """An override says only what is different; one that appends has nothing of the upserts around it."""
    overrides = [
        {"match": "shop.keyed", "write": {"key": ["number"]}},
        {"match": "shop.added", "write": {"mode": "append"}},
    ]
    tables = spec({"defaults": {"write": {**UPSERT, "delete_when": "tombstone"}}, "overrides": overrides}).tables

    assert tables.policy_for("shop.keyed").write == WritePolicy(WriteMode.UPSERT, ("number",), delete_when=DeleteWhen())
    assert tables.policy_for("shop.added").write == WritePolicy()
    assert tables.has_upserts


def test_words_in_the_defaults_wait_for_an_override() -> None:
    """A key in the defaults makes no table an upsert table: an override that says the mode does."""
    overrides = [{"match": "shop.keyed", "write": {"mode": "upsert"}}]
    tables = spec({"defaults": {"write": {"key": ["id"]}}, "overrides": overrides}).tables

    assert tables.defaults.write == WritePolicy()
    assert tables.policy_for("shop.keyed").write == WritePolicy(WriteMode.UPSERT, ("id",))


@pytest.mark.parametrize("match", [None, "shop.*"])
def test_dead_letters_are_rows(match: str | None) -> None:
    """The dead-letter table is appended to though defaults or a pattern say upsert, in whatever case it is spelled."""
    tables = {"overrides": [{"match": match, "write": UPSERT}]} if match else {"defaults": {"write": UPSERT}}
    found = spec(tables, errors={"dead_letter_table": "shop.dead_letters"}).tables

    for name in ("shop.dead_letters", "Shop.Dead_Letters", "lake:shop.dead_letters"):
        assert found.policy_for(name).write == WritePolicy()
    assert found.in_one_catalog().policy_for("shop.dead_letters").write == WritePolicy()
    assert found.policy_for("shop.orders").write.is_upsert


def test_deletion_vectors_make_tables_that_have_them() -> None:
    """`deletion_vectors` asks for format version 3 where none is written; `auto` leaves new tables as they are made."""

    def version(word: dict[str, Any], **create: Any) -> str | None:
        defaults = {"write": {**UPSERT, **word}, **({"create": create} if create else {})}
        return dict(spec({"defaults": defaults}).tables.defaults.create.properties).get("format-version")

    assert version({}) == "2"
    assert version({"deletes": "deletion_vectors"}) == "3"
    assert version({"deletes": "deletion_vectors"}, properties={"format-version": 3}) == "3"
    assert version({"deletes": "deletion_vectors"}, properties={"write.metadata.previous-versions-max": 5}) == "3"
