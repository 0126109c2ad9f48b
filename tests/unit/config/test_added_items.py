"""`rules+` adds to the list below it, through templates and targets, and never becomes a list in silence."""

from __future__ import annotations

import pytest
from jsonschema import Draft7Validator

from framework.config.load import LoadResult
from framework.config.schema.document_schema import published
from framework.config.text import SourceText
from framework.config.tree import parse, plain
from tests.unit.config.in_memory import PIPELINE, TARGET, codes, load, over

TEMPLATE = """\
apiVersion: floe/v1
kind: Template
metadata: {name: land, version: 1.0.0, description: One table.}
parameters: {topics: {type: list, description: The topics., default: [orders]}}
pipeline:
  source: {kafka: {topics: "${param.topics}"}, metadata_columns: [topic]}
  routes: {rules: [{when: {field: kind, equals: order}, table: shop.orders}], allow_tables: ["shop.*"]}
"""
USE = 'template: {name: land, version: "1"}\n'


def used(fragment: str, target: str = "", template: str = TEMPLATE) -> LoadResult:
    """A pipeline that has its routes from a template, with a fragment over it, under a target with overrides."""
    base = over(PIPELINE, USE + fragment)
    base = base if "routes" in fragment else base.replace("routes: {rules: [{table: shop.orders}]}\n", "")
    return load(files={"base.yaml": base, "templates/land.yaml": template, "targets/local.yaml": TARGET + target})


def test_items_are_added_behind_those_of_the_template() -> None:
    """The template's items stay, in front; the other keys of the pipeline lie over it as ever."""
    result = used(
        "routes:\n  rules+: [{table: shop.rest}]\n  unrouted: fail\n"
        "source: {kafka: {topics+: [refunds]}, metadata_columns+: [offset]}"
    )

    assert result.diagnostics == ()
    assert result.spec is not None
    assert [rule.table for rule in result.spec.routes.rules] == ["shop.orders", "shop.rest"]
    assert result.spec.source.kafka.topics == ("orders", "refunds")
    assert result.spec.source.metadata_columns == ("topic", "offset")


def test_a_target_adds_to_what_pipeline_and_template_made() -> None:
    """A target's override comes last, for the pipelines that it matches."""
    override = "overrides:\n  - {match: ord*, source: {kafka: {topics+: [canary]}}}\n"

    result = used("source: {kafka: {topics+: [refunds]}}", override)

    assert result.diagnostics == ()
    assert result.spec is not None
    assert result.spec.source.kafka.topics == ("orders", "refunds", "canary")


def test_a_plain_list_still_replaces() -> None:
    """Without the `+` a list covers the template's whole list."""
    result = used("source: {kafka: {topics: [refunds]}}")

    assert result.spec is not None
    assert result.spec.source.kafka.topics == ("refunds",)


def test_a_wrong_item_is_reported_where_it_was_added() -> None:
    """A finding about an added item is at the pipeline's line, one about the template's item in the template."""
    result = used("routes: {rules+: [{tabel: shop.rest}]}")

    assert next((f.code, f.span and f.span.file) for f in result.diagnostics) == ("FLOE-C201", "base.yaml")


@pytest.mark.parametrize(
    ("fragment", "template"),
    [
        ("source: {kafka: {topics: [a], topics+: [refunds]}}", TEMPLATE),
        ("source: {kafka: {topic_pattern+: [refunds]}}", TEMPLATE),
        ("tests+: [{name: a}]", TEMPLATE),
        ("", TEMPLATE.replace("rules:", "rules+:")),
    ],
)
def test_what_covers_no_list_is_refused(fragment: str, template: str) -> None:
    """Where the same file writes the list, or nobody does, nothing is added and the key is told."""
    assert "FLOE-C617" in codes(used(fragment, template=template))


def test_without_a_template_there_is_nothing_to_add_to() -> None:
    """A pipeline of its own, and a list that is a reference, are told the same."""
    assert codes(load("routes: {rules+: [{table: shop.rest}]}")) == ["FLOE-C617"]
    reference = "variables: {all: {type: list, default: [a]}}\nsource: {kafka: {topics: '${var.all}'}}"
    target = TARGET + "overrides: [{match: orders, source: {kafka: {topics+: [b]}}}]\n"
    assert codes(load(reference, files={"targets/local.yaml": target})) == ["FLOE-C617"]


def test_a_missing_template_is_reported_alone() -> None:
    """What would be added to is not there because the template is not, which is told once."""
    assert codes(load('template: {name: no, version: "1"}\nroutes: {rules+: [{table: shop.rest}]}')) == ["FLOE-C605"]


def test_a_list_is_wanted() -> None:
    """A `+` with something else than a list is refused."""
    assert codes(used("source: {kafka: {topics+: refunds}}")) == ["FLOE-C203"]


def test_free_keys_of_people_may_end_with_a_plus() -> None:
    """Below `x-` keys `+` means nothing."""
    assert codes(load("x-notes: {a+: [1]}")) == []


def test_editors_know_the_keys() -> None:
    """The published schema takes the key beside each list, and a list only."""
    judge = Draft7Validator(published("pipeline"))

    def complaints(text: str) -> list[str]:
        tree, _ = parse(SourceText("a.yaml", text))
        assert tree is not None
        return [error.message for error in judge.iter_errors(plain(tree))]

    head = "apiVersion: floe/v1\nkind: Pipeline\nmetadata: {name: a}\ntemplate: {name: b, version: '1'}\n"
    right = "source: {kafka: {topics+: [a]}}\ntables: {overrides+: [{match: a}], defaults: {evolve: {include+: [a]}}}\n"
    assert complaints(head + right) == []
    assert complaints(head + "source: {kafka: {topics+: a}}") != []
    assert complaints(head + "source: {kafka: {topic_pattern+: [a]}}") != []
