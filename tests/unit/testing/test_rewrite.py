"""`--fix` and `--record`: only expectations change, and what was written passes."""

# ruff: noqa: E501  (an expectation and what becomes of it stand beside each other)
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.cli.main import run_main
from framework.config.load import LoadResult, load_pipelines
from framework.errors import ConfigError
from framework.testing.recorded import Taken
from framework.testing.rewriting.emit import flow
from framework.testing.rewriting.rewrite import fixed, recorded
from framework.testing.suite import run_file
from tests.unit.config.in_memory import PIPELINE, TARGET, example_files, over, world

NAMES = st.sampled_from(["id", "type", "who", "Price", "${var.x}", "a b"])


def fields(names: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, Any]]:
    """Records with nested values."""
    values = st.recursive(
        st.none() | st.booleans() | st.integers(-5, 2**40) | st.floats(-1e6, 1e6) | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=3),
        max_leaves=5,
    )
    return st.dictionaries(names, values, max_size=3)


FILE = """\
# a comment   with   blanks
tests:
  - name: one          # said here
    input:
      - {value: {id: 1, x: a}}   # the first
      - {value: {id: 2, x: b}}
    expect:
      tables:
        shop.orders:             # where they go

          rows:
            - {x: a, id: 1}      # stays
            - {x: c, id: 2}      # changes
      dropped: 0

  - {name: two, input: [{value: {id: 1}}], expect: {tables: {shop.orders: {rows: [{id: 1}]}}}}

# the end
"""


def load(text: str) -> LoadResult:
    files = {"base.yaml": text, "targets/local.yaml": TARGET}
    return load_pipelines(["base.yaml"], None, world(files))[0]


def fix(text: str) -> str:
    result = load(text)
    return fixed(result, run_file(result), load).text


def test_only_the_value_that_differs_changes() -> None:
    """Comments, blanks and order of the rest of the file stay to the byte."""
    text = over(PIPELINE, FILE)

    assert fix(text) == text.replace("{x: c, id: 2}", "{x: b, id: 2}")


def test_a_file_whose_tests_pass_stays_as_it_is() -> None:
    """Fixing twice is fixing once."""
    text = fix(over(PIPELINE, FILE))

    assert fix(text) == text


@pytest.mark.parametrize(
    ("expect", "becomes"),
    [
        ("{}", "{dead_letters: [{topic: orders, partition: 0, offset: 1, stage: decode, code: FLOE-D101}]}"),
        ("{dead_letters: [{offset: 7}]}", "{dead_letters: [{offset: 1}]}"),
        ("{dead_letters: [{offset: 1}], dropped: 4}", "{dead_letters: [{offset: 1}], dropped: 0}"),
        ("{stops: {code: A}, dropped: 0}", None),
        ("{dead_letters: [{}], tables: {}}", "{dead_letters: [{}], tables: {shop.orders: {schema: {id: double}, rows: [{id: 1.0}]}}}"),
        ("{dead_letters: [{}], tables: {shop.orders: {rows: []}}}", "{dead_letters: [{}], tables: {shop.orders: {rows: [{id: 1.0}]}}}"),
        ("{dead_letters: [{}], tables: {shop.orders: {rows: [{id: 1}, {id: 2}]}}}", "{dead_letters: [{}], tables: {shop.orders: {rows: [{id: 1.0}]}}}"),
        ("{dead_letters: [{}], tables: {shop.orders: {schema: {id: string}}}}", "{dead_letters: [{}], tables: {shop.orders: {schema: {id: double}}}}"),
    ],
)  # fmt: skip
def test_expectations_become_what_came(expect: str, becomes: str | None) -> None:
    """Each part of an expectation is written as what came, and keeps to what it named."""
    text = over(
        PIPELINE, f"tests:\n  - name: a\n    input: [{{value: {{id: 1}}}}, {{value: nope}}]\n    expect: {expect}\n"
    )

    if becomes is None:
        assert [case.passed for case in run_file(load(fix(text))).cases] == [True]
    else:
        assert fix(text) == text.replace(expect, becomes)


def test_rows_over_several_lines_stay_so() -> None:
    """A list of rows over lines stays one, and becomes `[]` when there are none."""
    head = "tests:\n  - name: a\n    input:\n      - {value: %s}\n    expect:\n      dropped: %d\n      tables:\n        shop.orders:\n          rows:%s\n"
    wrong = "\n            - {id: 5}\n            - {id: 6}"

    assert fix(over(PIPELINE, head % ("{id: 1}", 0, wrong))) == over(
        PIPELINE, head % ("{id: 1}", 0, "\n            - {id: 1.0}")
    )
    none = fix(over(PIPELINE, head % ("null", 1, wrong)))
    assert none.endswith("    expect:\n      dropped: 1\n      tables: {}\n")


@pytest.mark.parametrize(
    "text",
    [
        over(PIPELINE, "variables: {n: {default: 3}}\n" + FILE.replace("x: c, id: 2", 'x: "${var.n}", id: 2')),
        over(PIPELINE, 'variables: {n: {default: 3}}\nx-n: "{{ var.n }}"\n' + FILE),
    ],
    ids=["reference", "template"],
)
def test_what_has_no_certain_place_is_refused(text: str) -> None:
    """A template or a reference is never overwritten."""
    with pytest.raises(ConfigError) as raised:
        fix(text)

    assert raised.value.code == "FLOE-R402"


@settings(max_examples=25, deadline=None)
@given(st.lists(fields(NAMES), min_size=1, max_size=4))
def test_recorded_tests_pass(records: list[dict[str, Any]]) -> None:
    """A test made of any records passes, and says of the file nothing else than before."""
    lines = [json.dumps(record).encode() for record in records]
    result = load(over(PIPELINE, FILE))
    made = recorded(result, [Taken(line) for line in lines], "made", load)

    assert made.report.cases[-1].passed
    assert made.text.startswith(over(PIPELINE, FILE).rstrip("\n").removesuffix("# the end").rstrip())


@settings(max_examples=25, deadline=None)
@given(
    st.lists(fields(st.sampled_from(["id", "type", "who", "Price"])), max_size=3),
    st.lists(fields(st.sampled_from(["id", "type", "who"])), max_size=3),
    st.booleans(),
)
def test_any_wrong_expectation_can_be_fixed(records: list[Any], rows: list[Any], exact: bool) -> None:
    """Whatever a test expects, its expectation can be written as what came."""
    table = {"exact": exact, "rows": rows}
    case = {
        "name": "a",
        "input": [{"raw": json.dumps(record)} for record in [*records, {}]],
        "expect": {"tables": {"shop.orders": table}, "dead_letters": []},
    }
    text = over(PIPELINE, f"tests:\n  - {flow(case)}\n")

    assert [one.passed for one in run_file(load(fix(text))).cases] == [True]


def test_records_that_yaml_cannot_hold_are_kept_as_text() -> None:
    """Digits, duplicate keys and bytes that are no text reach the test as they were."""
    lines = [b'{"price": 12.10}', b'{"a": 1, "a": 2}', b"\xff\xfe", b"[1]"]
    made = recorded(load(PIPELINE), [Taken(line) for line in lines], "made", load)

    assert 'raw: "{\\"price\\": 12.10}"' in made.text
    assert "raw: {base64: " in made.text
    assert [record.value for record in made.report.cases[0].case.records] == lines


def test_files_keep_their_line_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file with CRLF and a byte order mark has them afterwards, and only the wrong value is another."""
    (tmp_path / "targets").mkdir()
    (tmp_path / "targets" / "local.yaml").write_text(TARGET, encoding="utf-8")
    content = ("\ufeff" + example_files(FILE)["base.yaml"].replace("\n", "\r\n")).encode()
    path = tmp_path / "base.yaml"
    path.write_bytes(content)

    assert run_main(["test", str(path)]) == 1
    assert path.read_bytes() == content
    assert run_main(["test", "--fix", str(path)]) == 0
    assert path.read_bytes() == content.replace(b"{x: c, id: 2}", b"{x: b, id: 2}")
    assert "rewrote the expectation of `one`" in capsys.readouterr().err


def test_a_long_expectation_gets_lines() -> None:
    """What would become a line that nobody reads stands over several lines, as a person writes it; a short one stays."""
    long = "a" * 60
    start = over(
        PIPELINE,
        f"tests:\n  - name: one\n    input: [{{value: {{id: 1, note: {long}}}}}]\n    expect: {{tables: {{shop.orders: {{rows: []}}}}}}\n",
    )

    assert fix(start).partition("    expect:")[2] == (
        f"\n      tables:\n        shop.orders:\n          rows:\n            - {{id: 1.0, note: {long}}}\n"
    )
    short = start.replace(long, "b")
    assert "expect: {tables: {shop.orders: {rows: [{id: 1.0, note: b}]}}}" in fix(short)
