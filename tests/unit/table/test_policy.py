"""The words of `evolve:`, each against each thing that a table may lack; and no other module understands them."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from framework.config.spec import EmptyValues, ErrorPolicy, EvolveMode, TablePolicy
from framework.config.values.evolution import EVOLVE_SHORTHANDS, evolve_mode
from framework.table.policy.answers import Act, PolicyAnswer
from framework.table.policy.metadata_columns import own_fields, spellings
from framework.table.policy.rules import TableRules
from framework.table.policy.sql_source import sql_source_policy
from framework.table.policy.words import MEANINGS, Aspect
from testbed.record_samples import policy

ROOT = Path(__file__).parents[3]
EVOLVE, WIDEN, NEW_COLUMN, RELAX = EvolveMode.EVOLVE, EvolveMode.WIDEN, EvolveMode.NEW_COLUMN, EvolveMode.RELAX
FREEZE, DISCARD, DEAD, FAIL = EvolveMode.FREEZE, EvolveMode.DISCARD_VALUE, EvolveMode.DEAD_LETTER, EvolveMode.FAIL
CHANGE, BESIDE, LEAVE_OUT = PolicyAnswer(Act.CHANGE), PolicyAnswer(Act.BESIDE), PolicyAnswer(Act.LEAVE_OUT)
REFUSE = PolicyAnswer(Act.REFUSE)
HELD = PolicyAnswer(Act.REFUSE, frozen="held")
AS_IT_IS = {
    DISCARD: LEAVE_OUT,
    FREEZE: REFUSE,
    DEAD: PolicyAnswer(Act.REFUSE, ErrorPolicy.DEAD_LETTER),
    FAIL: PolicyAnswer(Act.REFUSE, ErrorPolicy.FAIL),
}


# ---- each word against each difference
# ---------------------------------------------------------------------------------


@pytest.mark.parametrize("word", [EVOLVE, *AS_IT_IS])
@pytest.mark.parametrize("enabled", [True, False])
def test_a_missing_table(word: EvolveMode, enabled: bool) -> None:
    """A table is made under `evolve`, where `create.enabled` lets it; it is never a matter of `otherwise`."""
    chosen = policy(tables=word, otherwise=FAIL)
    rules = TableRules(replace(chosen, create=replace(chosen.create, enabled=enabled)))
    assert rules.missing_table() == (AS_IT_IS.get(word) or (CHANGE if enabled else REFUSE))


@pytest.mark.parametrize("word", [EVOLVE, *AS_IT_IS])
@pytest.mark.parametrize("frozen", ["", "held"])
def test_a_missing_column(word: EvolveMode, frozen: str) -> None:
    """A field without a column gives the table one, is left out, or makes its record an error; no record is to blame
    for a metadata column that is missing."""
    rules = TableRules(policy(word), frozen)
    change = HELD if frozen else CHANGE
    assert rules.missing_column() == (AS_IT_IS.get(word) or change)
    assert rules.missing_metadata_column() == (CHANGE if word is EVOLVE and not frozen else LEAVE_OUT)


@pytest.mark.parametrize("word", [WIDEN, NEW_COLUMN, *AS_IT_IS])
@pytest.mark.parametrize("otherwise", AS_IT_IS)
@pytest.mark.parametrize("columns", [EVOLVE, *AS_IT_IS])
@pytest.mark.parametrize("frozen", ["", "held"])
def test_a_value_that_does_not_fit(word: EvolveMode, otherwise: EvolveMode, columns: EvolveMode, frozen: str) -> None:
    """It widens its column, goes beside it where columns may be added, or is what `otherwise` says where neither can
    be."""
    rules = TableRules(policy(columns, data_type=word, otherwise=otherwise), frozen)
    for can_widen, can_move in product((True, False), repeat=2):
        if word in AS_IT_IS:
            wanted = AS_IT_IS[word]
        elif can_widen:
            wanted = HELD if frozen else CHANGE
        elif word is NEW_COLUMN and can_move and columns is EVOLVE:
            wanted = BESIDE
        else:
            wanted = AS_IT_IS[otherwise]
        assert rules.unfit_value(can_widen, can_move) == wanted


@pytest.mark.parametrize("word", [RELAX, *AS_IT_IS])
@pytest.mark.parametrize("otherwise", AS_IT_IS)
@pytest.mark.parametrize("frozen", ["", "held"])
def test_a_missing_value(word: EvolveMode, otherwise: EvolveMode, frozen: str) -> None:
    """It makes its column optional, or is what `otherwise` says where the column must stay required."""
    rules = TableRules(policy(nullability=word, otherwise=otherwise), frozen)
    change = HELD if frozen else CHANGE
    assert rules.missing_value(can_relax=True) == (AS_IT_IS.get(word) or change)
    assert rules.missing_value(can_relax=False) == (AS_IT_IS.get(word) or AS_IT_IS[otherwise])


@pytest.mark.parametrize("word", [WIDEN, NEW_COLUMN, *AS_IT_IS])
@pytest.mark.parametrize("empty", EmptyValues)
@pytest.mark.parametrize("frozen", ["", "held"])
def test_what_holds_nothing(word: EvolveMode, empty: EmptyValues, frozen: str) -> None:
    """`[]` in a column of another kind is null unless `values.empty` refuses it or `data_type` refuses whatever does
    not fit; a table that is not changed now makes no difference to it."""
    chosen = policy(data_type=word)
    rules = TableRules(replace(chosen, values=replace(chosen.values, empty=empty)), frozen)
    assert rules.leaves_empty_out is (empty is EmptyValues.DISCARD and word in (WIDEN, NEW_COLUMN, DISCARD))


@pytest.mark.parametrize("frozen", ["", "held"])
def test_who_changes_a_table_and_who_asks_for_it_agree(frozen: str) -> None:
    """What records are told may change, the driver is told too, with the word that forbids it where one does."""
    ask = {
        Aspect.COLUMNS: lambda rules: rules.missing_column(),
        Aspect.DATA_TYPE: lambda rules: rules.unfit_value(can_widen=True, can_move=True),
        Aspect.NULLABILITY: lambda rules: rules.missing_value(can_relax=True),
    }
    for aspect, answer in ask.items():
        for word in MEANINGS[aspect]:
            chosen = TablePolicy()
            rules = TableRules(replace(chosen, evolve=replace(chosen.evolve, **{aspect.value: word})), frozen)
            refusing = rules.refusing_word(aspect)
            assert (refusing is None) is (answer(rules).act is Act.CHANGE)
            assert refusing in (None, word, FREEZE)


def test_what_sql_reads_never_changes() -> None:
    """No record changes the columns of `source`; fields that are not declared are left out, and values that do not fit
    are errors that `errors.policy` decides."""
    for word, empty in product((WIDEN, NEW_COLUMN, *AS_IT_IS), EmptyValues):
        defaults = policy(data_type=word, otherwise=DISCARD)
        defaults = replace(defaults, values=replace(defaults.values, empty=empty))
        rules = TableRules(sql_source_policy(defaults))
        assert rules.missing_column() == LEAVE_OUT
        assert rules.unfit_value(can_widen=True, can_move=True) == REFUSE
        assert rules.missing_value(can_relax=True) == REFUSE
        assert rules.leaves_empty_out is TableRules(defaults).leaves_empty_out


def test_fields_named_like_metadata_columns_are_no_fields_of_the_record() -> None:
    """Whatever the case of either: a header's name keeps its capitals in its column."""
    fields = {"a": 1, "_KAFKA_offset": 2, "_kafka_header_x_id": 3, "_kafka_key": 4}
    assert own_fields(fields, spellings(["_kafka_offset", "_kafka_header_X_Id"])) == {"a": 1, "_kafka_key": 4}


# ---- a word is taught once
# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("aspect", Aspect)
def test_every_word_that_a_file_may_have_is_understood(aspect: Aspect) -> None:
    """The words of the schema of pipeline files, and those that one word for all aspects stands for, have a meaning
    each."""
    schema = json.loads((ROOT / "schemas" / "pipeline.v1.schema.json").read_text(encoding="utf-8"))
    words = {word for found in _words(schema, aspect.value) for word in found}
    assert words >= {"freeze", "fail"}
    words |= {shorthand[aspect.value] for shorthand in EVOLVE_SHORTHANDS.values()}
    assert {evolve_mode(aspect.value, word) for word in words} <= set(MEANINGS[aspect])


def _words(schema: object, aspect: str) -> Iterator[list[str]]:
    if isinstance(schema, list):
        for item in schema:
            yield from _words(item, aspect)
    elif isinstance(schema, dict):
        for name, item in schema.items():
            if name == aspect and isinstance(item, dict):
                yield from (each["enum"] for each in item.get("anyOf", ()) if "freeze" in each.get("enum", ()))
            yield from _words(item, aspect)


# Who makes the policy of a file's words, who shows them to people, and the room that understands them.
MAY_READ = ("framework/config/", "framework/connector/", "framework/plan/explain.py", "framework/table/policy/")


def test_the_words_are_read_in_one_room() -> None:
    """No module but the policy's reads the words of `evolve:`, or knows one of them."""
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / "framework").rglob("*.py"))
        if not str(path.relative_to(ROOT)).startswith(MAY_READ)
        for line in _reads(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def _reads(text: str) -> Iterator[int]:
    """The lines that read the policy's words, or whether tables may be made."""
    names = {"EvolveMode", "EvolvePolicy", "EVOLVE_SHORTHANDS"}
    for node in ast.walk(ast.parse(text)):
        if (
            (isinstance(node, ast.Attribute) and node.attr in {"evolve", *names})
            or (isinstance(node, ast.ImportFrom) and any(alias.name in names for alias in node.names))
            or (isinstance(node, ast.Constant) and node.value == "evolve")
            or (isinstance(node, ast.Attribute) and node.attr == "enabled" and _is_create(node.value))
        ):
            yield node.lineno


def _is_create(node: ast.expr) -> bool:
    return "create" in (getattr(node, "attr", ""), getattr(node, "id", ""))


@pytest.mark.parametrize(
    "line",
    [
        "policy.evolve.columns",
        "evolve = target.policy.evolve",
        "from framework.config.spec import Case, EvolveMode",
        "spec.EvolveMode.WIDEN",
        "getattr(policy, 'evolve')",
        "policy.create.enabled",
        "create.enabled",
    ],
)
def test_the_check_sees_who_reads_the_words(line: str) -> None:
    """However a module gets at a word."""
    assert list(_reads(f"a = 1\n{line}\n")) == [2]
    assert not list(_reads("words = rules.missing_column()\nlog.enabled\n"))
