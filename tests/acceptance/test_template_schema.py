"""Editors complete a template's `pipeline` as they complete a pipeline file; nothing there is refused before it is rendered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

SCHEMAS = Path(__file__).parents[2] / "schemas"
OF_THE_FILE = ("apiVersion", "kind", "metadata", "variables", "template", "tests")
TOLD = ("description", "default", "examples")


def _schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SCHEMAS / f"{name}.v1.schema.json").read_text(encoding="utf-8"))
    return found


def completions(schema: Any) -> dict[str, Any]:
    """What an editor shows of a schema: names, descriptions, defaults and examples, and nothing that refuses a value."""
    if not isinstance(schema, dict):
        return {}
    schema = {**(schema.get("anyOf") or [{}])[0], **schema}  # the other alternative is a reference
    found = {key: schema[key] for key in TOLD if key in schema}
    if isinstance(schema.get("enum"), list) and "examples" not in found:
        found["examples"] = schema["enum"]
    if "properties" in schema:
        found["properties"] = {name: completions(inner) for name, inner in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            found[key] = completions(schema[key])
    return found


def test_a_template_s_pipeline_is_completed_as_a_pipeline_file(request: pytest.FixtureRequest) -> None:
    """The schema of templates knows the keys of pipeline files, with the same descriptions, defaults and examples."""
    template, pipeline = _schema("template"), _schema("pipeline")
    wanted = {name: completions(inner) for name, inner in pipeline["properties"].items() if name not in OF_THE_FILE}
    if request.config.getoption("--update"):
        template["properties"]["pipeline"]["properties"] = wanted
        text = json.dumps(template, indent=2, ensure_ascii=False) + "\n"
        (SCHEMAS / "template.v1.schema.json").write_text(text, encoding="utf-8")

    assert _schema("template")["properties"]["pipeline"]["properties"] == wanted
    assert "interval" in wanted["tables"]["properties"]["defaults"]["properties"]["commit"]["properties"]


def test_nothing_in_a_template_s_pipeline_is_refused_by_an_editor() -> None:
    """Before it is rendered, a value may be an expression and a key may stand for many: the schema says nothing against it."""
    validator = Draft7Validator(_schema("template")["properties"]["pipeline"])

    for odd in (
        {"source": 1},
        {"routes": {"rules": "{{ param.rules }}"}},
        {"tables": {"defaults": [1]}},
        {"unknown": None},
    ):
        assert validator.is_valid(odd)


@pytest.mark.parametrize("name", ["pipeline", "target", "template"])
def test_every_key_of_a_file_is_described(name: str) -> None:
    """Whatever an editor completes in a file that people write has a description; in a template, what has a form of its own has
    an example or a default too."""
    without: list[str] = []
    bare: list[str] = []

    def walk(schema: Any, path: str) -> None:
        if not isinstance(schema, dict):
            return
        for key, inner in schema.get("properties", {}).items():
            if isinstance(inner, dict):
                if not inner.get("description"):
                    without.append(f"{path}.{key}")
                has_form = "pattern" in inner and inner.get("x-floe-kind") != "name" and key != "base64"
                if has_form and not {"examples", "default", "enum", "const"} & set(inner):
                    bare.append(f"{path}.{key}")
            walk(inner, f"{path}.{key}")
        for key in ("items", "additionalProperties"):
            walk(schema.get(key), path)

    walk(_schema(name), name)
    assert without == []
    assert name != "template" or bare == []
