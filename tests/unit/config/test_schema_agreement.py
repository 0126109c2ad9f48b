"""What the published schema accepts the loader accepts, and the other way round."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator, FormatChecker

from framework.config.filled.build import build_pipeline
from framework.config.schema.document_schema import check, published, resolved
from framework.config.spec import (
    CommitPolicy,
    CreatePolicy,
    ErrorsSpec,
    EvolvePolicy,
    KafkaSourceSpec,
    PipelineSpec,
    RoutesSpec,
    WritePolicy,
)
from framework.config.text import SourceText
from framework.config.tree import parse, plain
from framework.config.values.maintenance import MaintenancePolicy
from framework.config.values.transforms import TRANSFORMS

FORMATS = FormatChecker(formats=())
FORMATS.checks("regex", raises=(re.error, OverflowError))(
    lambda value: not isinstance(value, str) or bool(re.compile(value))
)
PUBLISHED = {name: Draft7Validator(published(name), format_checker=FORMATS) for name in ("pipeline", "target")}
ANY = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 10**12),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "no", "3m", "1:30", "512MiB", "5", "true", "a.b", "x y", "day(a)", "auto", "*", "json"]),
    st.lists(st.integers(0, 3), max_size=2),
    st.dictionaries(st.sampled_from(["a", "type", "table"]), st.integers(0, 3), max_size=2),
)


def values(schema: Any) -> st.SearchStrategy[Any]:
    """Values that a (resolved) schema accepts."""
    if not isinstance(schema, dict) or not set(schema) & {"type", "const", "enum", "pattern", "properties"}:
        return ANY
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return st.one_of([_of_type(kind, schema) for kind in types])


def _of_type(kind: str, schema: Any) -> st.SearchStrategy[Any]:
    if kind == "object":
        return _objects(schema)
    if kind == "array":
        lists = st.lists(values(schema.get("items", {})), min_size=schema.get("minItems", 0), max_size=2)
        return lists.map(_distinct) if schema.get("uniqueItems") else lists
    if kind == "string":
        if "pattern" in schema:
            # Only characters that YAML can hold as they are; the whole of the text, without a line end behind it.
            return st.from_regex(
                schema["pattern"].removesuffix("$") + r"\Z", alphabet=st.characters(codec="ascii", min_codepoint=32)
            )
        if schema.get("format") == "regex":
            return st.sampled_from(["^a", "a|b", "[a-z]+", r"\d+"])
        return st.text(st.characters(codec="ascii", min_codepoint=33), min_size=schema.get("minLength", 0), max_size=8)
    if kind == "integer":
        return st.integers(schema.get("minimum", -100), 10**9)
    if kind == "number":
        return st.floats(schema.get("minimum", -100), schema.get("maximum", 100))
    return st.booleans() if kind == "boolean" else st.none()


def _objects(schema: Any) -> st.SearchStrategy[Any]:
    known = {name: values(child) for name, child in schema.get("properties", {}).items()}
    wanted = [*schema.get("required", []), *schema.get("else", {}).get("required", [])]
    required = {name: known[name] if name in known else values(schema["additionalProperties"]) for name in wanted}
    optional = {name: strategy for name, strategy in known.items() if name not in required and name != "template"}
    fixed = st.fixed_dictionaries(required, optional=optional)
    free = schema.get("additionalProperties", True)
    if free is False:
        return fixed
    names = st.from_regex(schema.get("propertyNames", {}).get("pattern", "^[a-z]{1,5}$"), fullmatch=True)
    more = st.dictionaries(names.filter(lambda name: name not in known), values(free), max_size=2)
    return st.builds(lambda first, second: {**second, **first}, fixed, more)


def _distinct(items: list[Any]) -> list[Any]:
    return [item for index, item in enumerate(items) if item not in items[:index]]


@st.composite
def changed(draw: st.DrawFn, documents: st.SearchStrategy[Any]) -> Any:
    """A right document, perhaps with one value replaced or one key added or removed somewhere."""
    document = copy.deepcopy(draw(documents))
    if draw(st.booleans()):
        place = document
        for _ in range(draw(st.integers(0, 5))):
            below = [
                v for v in (place.values() if isinstance(place, dict) else place) if isinstance(v, (dict, list)) and v
            ]
            if not below:
                break
            place = draw(st.sampled_from(below))
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if isinstance(place, dict) and draw(st.booleans()):
            place[draw(st.sampled_from(["extra", "x-extra", "tabel", "when", "interval"]))] = draw(ANY)
        elif keys:
            key = draw(st.sampled_from(keys))
            if draw(st.booleans()):
                place[key] = draw(ANY)
            else:
                del place[key]
    return document


def has_reference(document: Any) -> bool:
    text = json.dumps(document)
    return "${" in text or "{{" in text or "#%" in text or "{%" in text


def written(document: Any) -> str:
    """YAML: JSON in which what YAML cannot print is escaped, and nothing beyond the first plane is, which JSON cuts in two."""
    text = json.dumps(document, ensure_ascii=False)
    return re.sub(r"[^ -~\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", lambda odd: f"\\u{ord(odd[0]):04x}", text)


@pytest.mark.parametrize("name", ["pipeline", "target"])
def test_loader_and_published_schema_agree(name: str) -> None:
    """A document is right for an editor exactly when its shape is right for the loader, and then it becomes a spec."""

    judged = {True: 0, False: 0}

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(changed(values(resolved(name))))
    def agree(document: Any) -> None:
        if has_reference(document):
            return
        tree, wrong = parse(SourceText("a.yaml", written(document)))
        assert tree is not None
        assert wrong == []

        checked, findings = check(tree, name)

        assert (findings == []) == PUBLISHED[name].is_valid(document), (findings, document)
        judged[findings == []] += 1
        if name == "pipeline" and findings == []:
            build_pipeline(plain(checked))

    agree()
    assert sum(judged.values()) >= 30, "most documents were left out"
    assert judged[False] >= 3


def test_a_whole_number_with_a_point_is_one() -> None:
    """JSON Schema counts 90.0 as a whole number, also where a size may stand."""
    text = (
        "apiVersion: floe/v1\nkind: Pipeline\nmetadata: {name: a}\nsource: {kafka: {connection: main, topics: [a]}}\n"
        "routes: {rules: [{table: a.b}]}\ncommit: {max_waiting_bytes: 90.0}\n"
    )
    tree, _ = parse(SourceText("a.yaml", text))
    assert tree is not None
    checked, findings = check(tree, "pipeline")
    assert findings == []
    assert build_pipeline(plain(checked)).max_waiting_bytes == 90


def test_schema_defaults_are_those_of_the_spec() -> None:
    """What the schema calls a default is what the spec has without the key."""
    top = resolved("pipeline")["properties"]

    def defaults(schema: Any) -> dict[str, Any]:
        return {key: child["default"] for key, child in schema["properties"].items() if "default" in child}

    table = top["tables"]["properties"]["defaults"]["properties"]
    kafka = KafkaSourceSpec("main")
    assert defaults(table["evolve"]) == {
        key: list(value) if isinstance(value, tuple) else getattr(value, "value", value)
        for key, value in vars(EvolvePolicy()).items()
    }
    assert defaults(table["commit"]) == {
        "interval": "3m",
        "max_bytes": "512MiB",
        "max_rows": CommitPolicy.max_rows,
        "branch": "main",
    }
    assert (CommitPolicy.interval_ms, CommitPolicy.max_bytes) == (180_000, 512 * 1024 * 1024)
    assert defaults(table["create"]) == {
        "enabled": True,
        "partition_by": [],
        "sort_by": [],
        "identifier_fields": [],
        "properties": dict(CreatePolicy().properties),
    }
    write = WritePolicy()
    assert defaults(table["write"]) == {
        "mode": write.mode.value,
        "key": list(write.key),
        "order": "source",
        "deletes": write.deletes.value,
        "key_index": write.key_index.value,
        "unavailable": write.unavailable.value,
        "updates": write.updates.value,
    }
    assert write.order_field is None
    maintenance = MaintenancePolicy()
    words = table["maintenance"]["properties"]
    assert defaults(table["maintenance"]) == {"mode": maintenance.mode.value}
    assert defaults(words["compaction"]) == {
        "enabled": True,
        "target_file_size": "128MiB",
        "min_input_files": maintenance.compaction.min_input_files,
        "delete_ratio_threshold": maintenance.compaction.delete_ratio,
        "sort": True,
    }
    assert defaults(words["expire"]) == {
        "enabled": True,
        "max_snapshot_age": "5d",
        "max_snapshots": maintenance.expire.max_snapshots,
        "rollback_window": "6h",
        "reader_lease": "1h",
    }
    assert defaults(words["orphans"]) == {"enabled": True, "older_than": "3d"}
    assert defaults(words["manifests"]) == {"enabled": True, "min_count": maintenance.manifests.min_count}
    assert defaults(top["source"]["properties"]["kafka"]) == {
        "connection": "main",
        "starting_offsets": kafka.starting_offsets,
        "on_data_loss": kafka.on_data_loss,
        "max_record_bytes": "32MiB",
    }
    assert kafka.max_record_bytes == 32 * 1024**2
    assert defaults(top["commit"]) == {
        "control_topic": PipelineSpec.control_topic,
        "max_waiting_batches": PipelineSpec.max_waiting_batches,
        "max_waiting_bytes": "256GiB",
    }
    assert PipelineSpec.max_waiting_bytes == 256 * 1024**3
    routes = RoutesSpec(())
    assert defaults(top["routes"]) == {
        "mode": routes.mode.value,
        "unrouted": routes.unrouted.value,
        "max_new_tables_per_hour": routes.max_new_tables_per_hour,
    }
    assert defaults(top["errors"]) == {"policy": ErrorsSpec().policy.value}


@pytest.mark.parametrize("name", ["pipeline", "target", "template"])
def test_schemas_keep_to_what_editors_know(name: str) -> None:
    """The schemas are draft-07 without `oneOf` and without keywords that editors do not know."""
    schema = published(name)
    Draft7Validator.check_schema(schema)

    text = json.dumps(schema)

    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    for word in ("oneOf", "unevaluatedProperties", "$dynamicRef", "dependentRequired"):
        assert f'"{word}"' not in text


def test_tests_of_templates_are_written_as_those_of_pipelines() -> None:
    """Records and expectations have one form, in a pipeline file and in a template."""
    of_pipelines = published("pipeline")["properties"]["tests"]["items"]["properties"]
    of_templates = published("template")["properties"]["tests"]["items"]["properties"]
    assert {key: of_templates[key] for key in ("given", "input", "expect")} == {
        key: of_pipelines[key] for key in ("given", "input", "expect")
    }


def _patterns(node: Any) -> Iterator[str]:
    """The patterns in a schema that name a partition transform."""
    if isinstance(node, dict):
        if "bucket" in str(node.get("pattern", "")):
            yield node["pattern"]
        for inner in node.values():
            yield from _patterns(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from _patterns(inner)


@pytest.mark.parametrize("pattern", sorted(set(_patterns(published("pipeline")))))
def test_the_schema_takes_each_partition_transform_and_no_other(pattern: str) -> None:
    """A transform that floe learns must be in the patterns as well, with its number where it takes one."""
    named = {name for words in re.findall(r"\(([a-z|]+)\)\\\(", pattern) for name in words.split("|")}
    assert named == set(TRANSFORMS)
    for name, transform in TRANSFORMS.items():
        for text, is_right in (
            (f"{name}(a.b)", not transform.counts),
            (f"{name}(16, a.b)", bool(transform.counts)),
            (f"{name}(a.b, 16)", bool(transform.counts)),
            (f"{name}s(a.b)", False),
        ):
            assert bool(re.search(pattern, text)) is is_right, text
