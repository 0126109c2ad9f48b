"""`python -m tests.target_schema` writes the part of the target file's schema that is made from the pipeline file's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from framework.config.overridable import overridable

SCHEMAS = Path(__file__).parents[1] / "schemas"
TARGET = SCHEMAS / "target.v1.schema.json"


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
