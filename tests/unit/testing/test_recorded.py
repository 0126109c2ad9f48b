"""Records that become a test: what is hidden, what is kept, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.config.load import LoadResult, load_pipelines
from framework.errors import ConfigError
from framework.record.strict_json import parse_record
from framework.testing.recorded import MAX_RECORD_BYTES, MAX_RECORDS, Taken, masked
from framework.testing.rewriting.rewrite import recorded
from tests.unit.config.in_memory import PIPELINE, TARGET, over, world


def load(text: str) -> LoadResult:
    return load_pipelines(["base.yaml"], None, world({"base.yaml": text, "targets/local.yaml": TARGET}))[0]


def hidden(record: Any, *fields: str) -> tuple[Any, set[str]]:
    kept, paths = masked(Taken(json.dumps(record).encode()), fields, "here")
    assert kept.value is not None
    return json.loads(kept.value), paths


def test_a_field_is_masked_with_all_below_it() -> None:
    """A masked value keeps its kind and says nothing; lists on the way are passed through."""
    record = {"who": {"mail": "a@b.c", "age": 41, "old": True, "tags": ["x"], "none": None}, "lines": [{"card": 1.5}]}

    assert hidden(record, "who", "lines.card") == (
        {
            "who": {"mail": "masked", "age": 0, "old": False, "tags": ["masked"], "none": None},
            "lines": [{"card": 0}],
        },
        {"who", "lines.card"},
    )


def test_elements_of_a_record_that_is_an_array_are_masked_as_rows() -> None:
    """Their fields are named as those of a record that is one; it becomes YAML as it stands."""
    shown, paths = hidden([{"who": "a", "password": "b"}, {"who": "c"}, 5], "who")
    assert shown == [{"who": "masked", "password": "masked"}, {"who": "masked"}, 5]
    assert paths == {"who", "password"}


def test_fields_with_the_name_of_a_secret_are_masked_unasked() -> None:
    """A password or a token never gets into a test, on any level, nor in a header."""
    shown, paths = hidden({"password": "a", "auth": [{"access_token": "b"}], "user": "c", "api_key": None})
    assert shown == {"password": "masked", "auth": [{"access_token": "masked"}], "user": "c", "api_key": None}
    assert paths == {"password", "auth.access_token"}

    kept, paths = masked(Taken(b"{}", headers=(("x-api-key", b"s3cret"), ("trace", b"t"))), (), "here")
    assert kept.headers == (("x-api-key", b"masked"), ("trace", b"t"))
    assert paths == {"header.x-api-key"}


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
RECORDS = st.dictionaries(
    st.text(),
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    ),
)


@settings(max_examples=100)
@given(RECORDS)
def test_what_is_not_masked_stays_as_it_is(record: dict[str, Any]) -> None:
    """Masking one field changes no other, not a digit of a number."""
    text = json.dumps({"secret": "s", **record, "price": "PRICE"}).replace('"PRICE"', "12.10").encode()
    before = parse_record(text)
    kept, paths = masked(Taken(text), (), "here")
    assert kept.value is not None
    after = parse_record(kept.value)

    touched = {path.split(".")[0] for path in paths}
    assert {key: value for key, value in after.items() if key.split(".")[0] not in touched} == {
        key: value for key, value in before.items() if key.split(".")[0] not in touched
    }
    assert record.get("secret", "s") is None or "secret" in touched
    assert "price" not in touched


def test_a_record_that_cannot_be_masked_is_refused() -> None:
    """What is no JSON object is not written when something in it was to be hidden."""
    with pytest.raises(ConfigError) as refused:
        masked(Taken(b"mail=a@b.c"), ("mail",), "here")
    assert refused.value.code == "FLOE-R403"
    assert "a@b.c" not in str(refused.value)


@pytest.mark.parametrize("records", [[], [Taken(b"{}")] * (MAX_RECORDS + 1), [Taken(b"x" * (MAX_RECORD_BYTES + 1))]])
def test_what_makes_no_readable_test_is_refused(records: list[Taken]) -> None:
    """No records, too many, or one that is too large: nothing is written."""
    with pytest.raises(ConfigError) as refused:
        recorded(load(PIPELINE), records, "made", load)
    assert refused.value.code == "FLOE-R403"


def test_only_what_the_pipeline_looks_at_is_kept() -> None:
    """Key, headers, time and place of a record are written where a column or a rule is made of them, and not else."""
    record = Taken(b'{"id": 1}', "orders", 3, 77, 1_700_000_000_000, b"k", (("trace", b"t"), ("other", b"o")))
    plain = recorded(load(PIPELINE), [record], "made", load).text
    assert "    - {value: {id: 1}}\n" in plain

    more = "source: {kafka: {topics: [orders]}, metadata_columns: [offset, timestamp, key, header.trace]}"
    whole = recorded(load(over(PIPELINE, more)), [record], "made", load).text
    assert "    - {offset: 77, timestamp_ms: 1700000000000, key: k, headers: {trace: t}, value: {id: 1}}\n" in whole


def test_a_topic_of_a_pattern_is_named() -> None:
    """Records of a topic can be recorded for a pipeline that has a pattern; those of a file cannot."""
    text = over(PIPELINE, 'source: {kafka: {topic_pattern: "^orders"}}')
    assert (
        "- {topic: orders-eu, value: {id: 1}}"
        in recorded(load(text), [Taken(b'{"id": 1}', "orders-eu")], "made", load).text
    )
    with pytest.raises(ConfigError) as refused:
        recorded(load(text), [Taken(b'{"id": 1}')], "made", load)
    assert refused.value.code == "FLOE-R403"


def test_a_tombstone_is_recorded() -> None:
    """A record without a value is one."""
    assert "- {value: null}" in recorded(load(PIPELINE), [Taken(None), Taken(b'{"id": 1}')], "made", load).text
