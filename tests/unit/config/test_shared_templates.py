"""Shared templates: where a wrong parameter is told, and which text a pipeline is said to be made with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft7Validator

from framework.commit.events.event_types import Deployed
from framework.config.load import LoadResult
from framework.config.spec import TemplateUse
from framework.diagnose.render import FORMATS, render
from framework.observe.status.read import template_of
from tests.unit.config.in_memory import load

SCHEMAS = Path(__file__).parents[3] / "schemas"


def template(body: str, parameters: str = "topic: {type: string, description: The topic.}") -> str:
    return (
        "apiVersion: floe/v1\nkind: Template\nmetadata: {name: land, version: 1.2.0, description: One table.}\n"
        f"parameters:\n  {parameters}\npipeline:\n{body}"
    )


def used(text: str, parameters: str, **files: str) -> LoadResult:
    """A pipeline that uses the template with parameters; other files lie beside the template."""
    beside = {f"templates/{name}.yaml": content for name, content in files.items()}
    use = f'template: {{name: land, version: "1", parameters: {{{parameters}}}}}'
    return load(use, files={"templates/land.yaml": text, **beside})


def places(result: LoadResult) -> list[tuple[str, str]]:
    """Where each finding is told, as the text there, and the file and line of the template below it."""
    reported = []
    for finding in result.diagnostics:
        assert finding.span is not None
        assert finding.excerpt is not None
        at = finding.excerpt[finding.span.column - 1 : finding.span.end_column - 1]
        below = finding.template
        reported.append((at, f"{below.span.file}:{below.span.line}" if below else ""))
    return reported


SOURCE = "  source: {kafka: {topics: [orders]}}\n"


@pytest.mark.parametrize(
    ("line", "reported"),
    [
        ('  trigger: {every: "${param.topic}"}', "often"),
        ('  trigger: {every: "{{ param.topic }}"}', "often"),
        ('#% for each in [1]\n  trigger: {every: "{{ param.topic | lower }}"}\n#% endfor', "often"),
        ('#% set each = param.topic\n  trigger: {every: "{{ each }}"}', "often"),
        ('  trigger: {every: "${param.topic}${param.other}"}', "parameters"),
    ],
)
def test_a_wrong_parameter_is_reported_where_it_is_given(line: str, reported: str) -> None:
    """A value that a template makes of a parameter is told at the pipeline's line, with the template's line below it."""
    parameters = "topic: {type: string, description: A.}\n  other: {type: string, description: B.}"

    text = template(SOURCE + line, parameters)
    number = next(number for number, line in enumerate(text.splitlines(), start=1) if "trigger" in line)

    assert places(used(text, "topic: often, other: never")) == [(reported, f"templates/land.yaml:{number}")]


def test_a_wrong_parameter_of_an_included_part_is_reported_where_it_is_given() -> None:
    """The line below is that of the file that uses the parameter, also where the template includes it."""
    result = used(
        template(SOURCE + '#% include "part.yaml"'), "topic: often", part='  trigger: {every: "{{ param.topic }}"}'
    )

    assert places(result) == [("often", "templates/part.yaml:1")]


@pytest.mark.parametrize(
    ("body", "reported"),
    [
        ("  trigger: {every: often}", "often"),
        ('  trigger: {every: "${param.pace}"}', '"${param.pace}"'),
        ('  trigger: {evry: "${param.topic}"}', "evry"),
    ],
)
def test_what_no_parameter_made_is_reported_in_the_template(body: str, reported: str) -> None:
    """Mistakes of the template, its defaults among them, are told at its own lines."""
    parameters = "topic: {type: string, description: A.}\n  pace: {type: string, description: B., default: often}"

    assert places(used(template(SOURCE + body, parameters), "topic: 1m")) == [(reported, "")]


def test_every_format_names_the_template_s_line() -> None:
    """Both places are in whatever format findings are printed in, and the JSON is what its schema says."""
    result = used(template(SOURCE + '  trigger: {every: "${param.topic}"}'), "topic: often")

    printed = {name: render(result.diagnostics, name, ["base.yaml"]) for name in FORMATS}

    assert all("templates/land.yaml" in text and "base.yaml" in text for text in printed.values())
    Draft7Validator(json.loads((SCHEMAS / "diagnostics.v1.schema.json").read_text())).validate(
        json.loads(printed["json"])
    )


def test_the_hash_is_that_of_all_that_a_template_is_made_of() -> None:
    """Another text of a template or of a file that it includes is another hash."""
    text = template(SOURCE + '#% include "part.yaml"')

    def made_with(text: str, part: str) -> TemplateUse:
        pipeline = used(text, "topic: orders", part=part).pipeline
        assert pipeline is not None
        assert pipeline.template is not None
        return pipeline.template

    one, same = made_with(text, "  trigger: {every: 1m}"), made_with(text, "  trigger: {every: 1m}")
    others = made_with(text, "  trigger: {every: 2m}"), made_with(text + "\n", "  trigger: {every: 1m}")

    assert one == same
    assert len({one.hash, *(other.hash for other in others)}) == 3
    assert {(each.name, each.version) for each in (one, *others)} == {("land", "1.2.0")}


def test_a_run_tells_its_template() -> None:
    """The template in a run's own record is that of its pipeline; a record without one, or of another form, has none."""
    use = TemplateUse("acme:land", "1.2.0", "sha256:00")

    def reported(**plan: object) -> TemplateUse | None:
        return template_of(Deployed("orders", "run", "sha256:00", plan, "1", 0))

    assert reported(template={"name": use.name, "version": use.version, "hash": use.hash}) == use
    assert reported() is None
    assert reported(template={"name": use.name, "version": 1}) is None
    assert template_of(None) is None
