"""What a target may override is what a pipeline file may hold: the published schema of targets is made from that of pipelines."""

from __future__ import annotations

from tests.target_schema import PARTS, overridable, pipeline, target


def test_a_target_overrides_all_that_a_pipeline_holds() -> None:
    """Each part of a pipeline file can be overridden with every key and word that it has there; `python -m
    tests.target_schema` writes the schema anew."""
    parts = target()["properties"]["overrides"]["items"]["properties"]

    assert set(parts) == {"match", *PARTS}
    assert {name: parts[name] for name in PARTS} == overridable(pipeline())


def test_nothing_is_required_of_a_mapping_and_items_stay_whole() -> None:
    """An override may hold one key of a mapping alone; an item of a list it gives whole."""
    source = pipeline()["properties"]["source"]
    parts = overridable(pipeline())

    assert "required" in source
    assert "required" not in parts["source"]
    assert parts["routes"]["properties"]["rules"]["items"]["required"] == ["table"]
    assert "default" not in parts["tables"]["properties"]["defaults"]["properties"]["commit"]["properties"]["interval"]
