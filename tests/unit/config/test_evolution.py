"""The words of `evolve:` in pipeline files, and what the pages say of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from framework.config.filled.build import build_pipeline
from framework.config.spec import EvolveMode, EvolvePolicy, TablesSpec
from framework.config.values.evolution import EVOLVE_SHORTHANDS

CONCEPTS = Path(__file__).parents[3] / "docs" / "concepts.md"


def tables(**tables: object) -> TablesSpec:
    document = {
        "metadata": {"name": "p"},
        "source": {"kafka": {"topics": ["t"]}},
        "routes": {"rules": [{"table": "a.b"}]},
        "tables": tables,
    }
    return build_pipeline(document).tables


@pytest.mark.parametrize("word", EVOLVE_SHORTHANDS)
def test_one_word_stands_for_what_the_page_says(word: str) -> None:
    """Each one-word policy is the row of words that the page on concepts gives for it."""
    row = re.search(rf"^\| `{word}` \| (.*) \|$", CONCEPTS.read_text(encoding="utf-8"), re.MULTILINE)
    assert row is not None
    said = dict(
        zip(
            ("tables", "columns", "data_type", "nullability", "otherwise", "names"),
            re.findall(r"`(\w+)`", row.group(1)),
            strict=True,
        )
    )
    policy = tables(defaults={"evolve": word}).defaults.evolve
    assert {key: getattr(policy, key).value for key in said} == said


def test_the_default_is_evolve() -> None:
    """Without `evolve:` a table does what the word `evolve` says."""
    assert tables(defaults={"evolve": "evolve"}).defaults.evolve == EvolvePolicy()


def test_an_override_of_one_word_replaces_all() -> None:
    """A one-word override leaves nothing of the defaults' words; a mapping over one word changes the named keys
    only."""
    spec = tables(
        defaults={"evolve": "ignore"},
        overrides=[
            {"match": "a.*", "evolve": "evolve"},
            {"match": "b.*", "evolve": {"columns": "evolve", "exclude": ["x"]}},
        ],
    )
    assert spec.policy_for("a.t").evolve == EvolvePolicy()
    assert spec.policy_for("b.t").evolve == EvolvePolicy(
        EvolveMode.FREEZE,
        EvolveMode.EVOLVE,
        EvolveMode.DISCARD_VALUE,
        EvolveMode.DISCARD_VALUE,
        EvolveMode.DISCARD_VALUE,
        exclude=("x",),
        names=EvolveMode.DISCARD_VALUE,
    )


def test_second_names_of_words() -> None:
    """`evolve` is `widen` and `relax` for types and nullability; `ignore` is an older name of `discard_value`."""
    words = {"columns": "ignore", "data_type": "evolve", "nullability": "evolve"}
    assert tables(defaults={"evolve": words}).defaults.evolve == EvolvePolicy(columns=EvolveMode.DISCARD_VALUE)
