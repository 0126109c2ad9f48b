"""A pipeline file with another template in it is the same file in everything else."""

from __future__ import annotations

import pytest

from framework.config.templates.instead import same_template, with_template
from framework.config.text import SourceText
from tests.unit.config.in_memory import world

NEXT = "apiVersion: floe/v1\nkind: Template\nmetadata: {name: b, version: 2.1.0, description: B.}\npipeline: {}\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "template: {name: a, version: 1, parameters: {x: a}} # a",
            'template: {name: "b", version: "2.1.0", parameters: {x: a}} # a',
        ),
        ("template:\n  version: '1'\n  name: \"a\"\nx-a: a", 'template:\n  version: "2.1.0"\n  name: "b"\nx-a: a'),
        ("template: {name: '${var.a}', version: 1}", 'template: {name: "b", version: "2.1.0"}'),
        ("x-a: {name: a, version: 1}", "x-a: {name: a, version: 1}"),
    ],
)
def test_only_name_and_version_are_replaced(before: str, after: str) -> None:
    """Comments, order and quotes of everything else stay as they are."""
    text, findings = with_template(SourceText("p.yaml", before), "b", world({"templates/b.yaml": NEXT}))

    assert (text.text, findings) == (after, [])


def test_a_template_that_is_not_there_is_reported() -> None:
    """Without the other template there is nothing to compare with."""
    text, findings = with_template(SourceText("p.yaml", "template: {name: a}"), "b", world({}))

    assert ([finding.code for finding in findings], text.text) == (["FLOE-C605"], "template: {name: a}")
    wrong = NEXT.replace("kind: Template", "kind: Pipeline")
    _, findings = with_template(SourceText("p.yaml", "template: {name: a}"), "b", world({"templates/b.yaml": wrong}))
    assert [finding.code for finding in findings] == ["FLOE-C211"]


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("acme:land@1", "acme:land@2", True),
        ("acme:land", "acme:land@v2.0.0", True),
        ("acme:land", "base:land", False),
        ("acme:land", "acme:lands", False),
        ("land", "./next/land.yaml", True),
        ("land", "acme:land", False),
    ],
)
def test_versions_of_one_template_are_known_by_their_name(one: str, other: str, is_same: bool) -> None:
    """What stands behind the `@` is the version; library and name are the template."""
    assert same_template(one, other) is is_same
