"""Names in quotes, wherever the schema of pipeline files lets one stand: the plan has the plain name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest

from framework.config.filled.build import build_pipeline
from tests.unit.config.in_memory import load

SCHEMA = json.loads(files("schemas").joinpath("pipeline.v1.schema.json").read_text(encoding="utf-8"))
NAME = "`a b`"
# Each place of the schema whose text may be a quoted name, with a file that says one there. `tests` compare by themselves.
WHEN: dict[str, Any] = {"field": NAME, "exists": True}
POLICY: dict[str, Any] = {
    "create": {"partition_by": [f"day({NAME})"], "sort_by": [f"{NAME} desc"], "identifier_fields": [NAME]},
    "write": {
        "mode": "upsert",
        "key": [NAME],
        "order": {"field": NAME},
        "delete_when": {"field": NAME, "equals": True},
    },
}
FILE: dict[str, Any] = {
    "metadata": {"name": "p"},
    "source": {
        "kafka": {"connection": "main", "topics": ["t"]},
        "format": {
            "type": "json",
            "explode": NAME,
            "envelope": {"operation": NAME, "after": NAME, "before": NAME, "fields": [NAME]},
        },
        "schema": {NAME: "long", f"{NAME}.{NAME}": {"parse": "json"}},
    },
    "routes": {
        "rules": [
            {"table": f"ns.{{{NAME}}}", "when": WHEN | {"not": WHEN, "and": [WHEN, {"not": WHEN}]}},
        ]
    },
    "tables": {"defaults": POLICY, "overrides": [{"match": "*", **POLICY}]},
}


def places(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where a text may be a quoted name, by the patterns of the schema."""
    if not isinstance(node, dict):
        return
    if "[^A-Za-z0-9_`." in str(node.get("pattern", "")):
        yield path
    for word, inner in node.items():
        if word == "properties":
            for name, child in inner.items():
                yield from places(child, (*path, name))
        elif word in ("items", "propertyNames", "additionalProperties"):
            yield from places(inner, path)
        elif word in ("anyOf", "oneOf", "allOf"):
            for child in inner:
                yield from places(child, path)


def test_each_place_is_in_the_file_and_none_in_the_plan() -> None:
    """A new place for names fails here until a file says one there, and its quotes are taken off."""

    def says_it(node: Any, path: tuple[str, ...]) -> bool:
        if isinstance(node, list):
            return any(says_it(each, path) for each in node)
        if path and isinstance(node, dict) and path[0] in node:
            return says_it(node[path[0]], path[1:])
        return not path and NAME in json.dumps(node)

    found = [path for path in places(SCHEMA) if path[0] != "tests"]
    assert len(set(found)) >= 22
    assert [path for path in found if not says_it(FILE, path)] == []
    assert "`" not in repr(build_pipeline(FILE))


@pytest.mark.parametrize(("name", "what"), [("`a.b`", "a dot"), ("`a{b`", "a brace"), ("`a}b`", "a brace")])
def test_a_name_that_no_file_can_say_is_refused_by_name_in_each_place(name: str, what: str) -> None:
    """A dot stands between fields, also in quotes, so each place says that the name cannot stand there."""
    text = json.dumps({"apiVersion": "floe/v1", "kind": "Pipeline", **FILE}).replace(NAME, name)
    findings = [found for found in load(files={"base.yaml": text}).diagnostics if name in found.message]
    assert {found.code for found in findings} == {"FLOE-C209"}
    assert [
        found.message for found in findings if f"a name with {what} in it, which no file can say" not in found.message
    ] == []
    assert len(findings) >= 22


@pytest.mark.parametrize("name", ["order-id", "order_id", "x"])
def test_quotes_that_a_name_does_not_need_are_taken_out_as_the_remedy_says(name: str) -> None:
    """A name has one form. Each place says that it needs no quotes, and the file without them is sound."""
    text = json.dumps({"apiVersion": "floe/v1", "kind": "Pipeline", **FILE}).replace(NAME, f"`{name}`")
    findings = load(files={"base.yaml": text}).diagnostics
    assert {found.code for found in findings} == {"FLOE-C209"}
    assert [found.message for found in findings if "which needs none" not in found.message] == []
    assert len(findings) >= 22
    for found in findings:
        assert found.remedy is not None
        written = found.remedy.removeprefix("write `").removesuffix("`")
        assert "`" not in written
        assert name in written
    after = {found.code for found in load(files={"base.yaml": text.replace("`", "")}).diagnostics}
    assert after.isdisjoint({"FLOE-C208", "FLOE-C209", "FLOE-C212"})
