"""Checks lineage events by the published schemas: of OpenLineage, of its facets, and of floe's own facets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

VENDORED = Path(__file__).with_name("openlineage")
OWN = Path(__file__).parents[3] / "schemas" / "lineage-facets.v1.schema.json"
FILES = [VENDORED / "OpenLineage.json", *sorted((VENDORED / "facets").glob("*.json")), OWN]
# What the specification says of this facet, in the words of this test.
_OWNERSHIP = {
    "$id": "https://openlineage.io/spec/facets/1-0-0/OwnershipJobFacet.json",
    "$defs": {
        "OwnershipJobFacet": {
            "required": ["_producer", "_schemaURL", "owners"],
            "properties": {"owners": {"type": "array", "items": {"type": "object", "required": ["name"]}}},
        }
    },
}
_CONTENTS = [_OWNERSHIP, *(json.loads(path.read_text(encoding="utf-8")) for path in FILES)]
REGISTRY: Registry[Any] = Registry().with_resources(
    [(each["$id"], Resource(contents=each, specification=DRAFT202012)) for each in _CONTENTS]
)


def _check(value: object, url: str) -> None:
    validator = Draft202012Validator(
        {"$ref": url}, registry=REGISTRY, format_checker=Draft202012Validator.FORMAT_CHECKER
    )
    assert [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)] == []


def check_event(event: dict[str, Any]) -> None:
    """The event is one of OpenLineage's, and so is each facet by the schema that it names."""
    _check(event, event["schemaURL"])
    parts = [event["run"], event["job"], *event["inputs"], *event["outputs"]]
    facets = [
        facet
        for part in parts
        for key in ("facets", "inputFacets", "outputFacets")
        for facet in part.get(key, {}).values()
    ]
    assert facets
    for facet in facets:
        _check(facet, facet["_schemaURL"])
