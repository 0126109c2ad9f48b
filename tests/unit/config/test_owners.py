"""Owners: one place decides who owns what, from wherever the file says it, and CODEOWNERS is read as its hosts read it."""

from __future__ import annotations

import pytest

from framework.config.review.code_owners import reviewers
from framework.config.values.owners import Duty, Owners, OwningTeam, changes_columns, duties, owners_in
from framework.plan.canonical import canonical, plan_hash
from tests.unit.config.in_memory import TARGET, load, over

PROD = over(
    TARGET, 'overrides: [{match: "*", owners: {catalog: platform, pipeline: {team: night, contact: "#night"}}}]'
)


def owners(fragment: str, target: str = TARGET) -> Owners:
    result = load(fragment, files={"targets/local.yaml": target})
    assert result.pipeline is not None, result.diagnostics
    return result.pipeline.spec.owners


def test_a_plain_text_is_a_team_and_each_duty_stands_alone() -> None:
    """Whoever owns the pipeline owns nothing else by it."""
    found = owners("owners: {pipeline: team-orders, schema: {team: data, contact: '#data', runbook: 'https://w/x'}}")

    assert found == Owners(OwningTeam("team-orders"), OwningTeam("data", "#data", "https://w/x"))
    assert [duty for duty in Duty if found.of(duty) is None] == [
        Duty.CATALOG,
        Duty.TOPICS,
        Duty.DEAD_LETTERS,
        Duty.CUT_OVER,
    ]


@pytest.mark.parametrize(
    ("fragment", "team"),
    [
        ("metadata: {name: orders, owner: team-orders}", "team-orders"),
        ("metadata: {name: orders, owner: old}\nowners: {pipeline: new}", "new"),
        ("metadata: {name: orders, owner: old}\nowners: {schema: data}", "old"),
    ],
)
def test_the_former_word_is_the_pipeline_s_owner(fragment: str, team: str) -> None:
    """A file of the first release keeps its owner; where both are written, the present word counts."""
    found = owners(fragment)
    assert found.pipeline == OwningTeam(team)


def test_a_target_names_owners_over_the_file() -> None:
    """A target says for all of its pipelines who grants, and who is called there."""
    found = owners("metadata: {name: orders, owner: team-orders}\nowners: {schema: data}", PROD)
    assert found == Owners(OwningTeam("night", "#night"), OwningTeam("data"), OwningTeam("platform"))


def test_owners_are_published_and_restart_nothing() -> None:
    """Another team changes what people are shown, and not what runs: the hash stays."""
    results = [load(f"owners: {{pipeline: {team}}}").pipeline for team in ("a", "b")]
    one, other = (each for each in results if each is not None)

    assert plan_hash([one]) == plan_hash([other])
    assert canonical(one)["owners"] == {"pipeline": {"team": "a"}}
    assert owners_in(canonical(other)["owners"]) == other.spec.owners


@pytest.mark.parametrize("value", [None, 3, [], {"pipeline": 3}, {"pipeline": {"contact": "x"}}, {"pipeline": ""}])
def test_what_another_version_published_is_left_out(value: object) -> None:
    """A value of another form names nobody, and breaks nothing that shows owners."""
    assert owners_in(value) == Owners()


def test_who_keeps_no_dead_letters_needs_no_owner_for_them() -> None:
    """All other duties need one."""
    assert set(duties(True)) - set(duties(False)) == {Duty.DEAD_LETTERS}


@pytest.mark.parametrize(
    ("subject", "is_of_columns"),
    [
        ("source.schema.id", True),
        ("source.format.type", True),
        ("source.metadata_columns", True),
        ("transform.sql", True),
        ("tables.defaults.evolve.columns", True),
        ("tables.overrides[shop.*].values.empty", True),
        ("source.kafka.topics", False),
        ("tables.defaults.commit.interval", False),
        ("routes.rules", False),
        ("target connections.kafka", False),
    ],
)
def test_changes_of_columns_are_told_from_others(subject: str, is_of_columns: bool) -> None:
    """Only those need the word of the schema's owner."""
    assert changes_columns([subject]) is is_of_columns


@pytest.mark.parametrize(
    ("text", "path", "asked"),
    [
        ("* @all\n/pipelines/ @data\n", "pipelines/a.yaml", ("@data",)),
        ("/pipelines/ @data\n* @all\n", "pipelines/a.yaml", ("@all",)),  # the last line that matches
        ("/pipelines/ @data\n", "old/pipelines/a.yaml", ()),
        ("pipelines/ @data\n", "old/pipelines/deep/a.yaml", ("@data",)),
        ("pipelines/* @data\n", "pipelines/deep/a.yaml", ()),
        ("pipelines/** @data\n", "pipelines/deep/a.yaml", ("@data",)),
        ("**/orders.yaml @data\n", "a/b/orders.yaml", ("@data",)),
        ("*.yaml @data # why\n#*.yaml @x\n", "a/b/orders.yaml", ("@data",)),
        ("* @all\n/a/ \n", "a/b.yaml", ()),  # a line without names takes them away
        ("my\\ folder/ @data\n", "my folder/a.yaml", ("@data",)),
        ("a?c.yaml @data\n", "abc.yaml", ("@data",)),
        ("a.c.yaml @data\n", "abc.yaml", ()),
        ("[Data][2] @data\n*.yaml\n^[Docs] @docs\n*.md\n", "a.yaml", ("@data",)),
        ("* @all\n[Data]\n*.yaml @data\n", "a.yaml", ("@all", "@data")),
    ],
)
def test_code_owners_are_read_as_their_hosts_read_them(text: str, path: str, asked: tuple[str, ...]) -> None:
    """Of each section the last line that matches counts, with patterns as in .gitignore."""
    assert reviewers(text, path) == asked


@pytest.mark.timeout(20)
@pytest.mark.parametrize("pattern", ["**/" * 20 + "x", "*a" * 25, "a/**/" * 15 + "z", "[a-z", "\\\\", "^[S][3]"])
def test_no_pattern_of_code_owners_takes_long(pattern: str) -> None:
    """Whatever stands in a project's CODEOWNERS, `floe validate` ends."""
    assert reviewers(f"{pattern} @a", "a/" * 25 + "a" * 40 + ".yaml") == ()
