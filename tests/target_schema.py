"""`python -m tests.target_schema` writes the part of the target file's schema that is made from the pipeline file's.

What `overrides` may hold is every part of a pipeline file that can differ from target to target: no key of a mapping is
required and none has a default there, since an override is laid over a pipeline that has its own. Items of lists stay
whole: lists replace lists.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SCHEMAS = Path(__file__).parents[1] / "schemas"
TARGET = SCHEMAS / "target.v1.schema.json"
PARTS = ("owners", "objectives", "source", "transform", "routes", "tables", "errors", "commit", "trigger")


def overridable(pipeline: dict[str, Any]) -> dict[str, Any]:
    """The schemas of the parts by name, from the whole schema of the pipeline file."""
    return {name: _open(pipeline["properties"][name]) for name in PARTS}


def _open(schema: Any, whole: bool = False) -> Any:
    """
    Args:
        whole: whether this is part of something that an override gives as a whole, such as an item of a list.
    """
    if isinstance(schema, list):
        return [_open(one, whole) for one in schema]
    if not isinstance(schema, dict):
        return schema
    opened: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":
            opened[key] = {name: _open(child, whole) for name, child in value.items()}
        elif key in ("items", "additionalProperties", "patternProperties"):
            opened[key] = _open(value, whole=True)
        elif key in ("anyOf", "oneOf", "allOf"):
            opened[key] = _open(value, whole)
        elif whole or key not in ("default", "required"):
            opened[key] = value
    return opened


def pipeline() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SCHEMAS / "pipeline.v1.schema.json").read_text(encoding="utf-8"))
    return found


def target() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(TARGET.read_text(encoding="utf-8"))
    return found


if __name__ == "__main__":
    schema = target()
    schema["properties"]["overrides"]["items"]["properties"].update(overridable(pipeline()))
    TARGET.write_text(json.dumps(schema, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
