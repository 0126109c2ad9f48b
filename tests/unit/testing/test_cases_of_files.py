"""`tests:` of pipeline files: what they see of a run, and how differences are told."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from framework.config.text import SourceText
from framework.config.tree import core_value, parse, plain
from framework.testing.matching import match
from framework.testing.rewriting.emit import block, flow
from framework.testing.suite import FileReport, run_file
from tests.unit.config.in_memory import load

ROUTED = """\
routes:
  rules: [{when: {field: type, equals: refund}, table: shop.refunds}, {table: shop.orders}]
"""
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1), inner, max_size=3),
    max_leaves=8,
)


def run(tests: str, more: str = ROUTED) -> FileReport:
    return run_file(load(f"{more}tests:\n{tests}"))


def reported(tests: str, more: str = ROUTED) -> list[str]:
    """The messages about one test, each with the text at its place."""
    report = run(tests, more)
    assert report.findings == ()
    return [
        f"{one.message} @ {one.excerpt[one.span.column - 1 :][:12]}" if one.span and one.excerpt else one.message
        for case in report.cases
        for one in case.differences
    ]


@pytest.mark.parametrize(
    ("kind", "value", "expected", "other"),
    [
        ("double", "-0.0", "-0.0", "0.0"),
        ("double", "0.0", "0.0", "-0.0"),
        ("double", "9007199254740992", "9007199254740992", "9007199254740993"),
        ("float", "0.5", "0.5", "16777217"),
        ("map<string, long>", "{}", "{}", "{a: 1}"),
        ("list<map<string, long>>", "[{}, {a: 1}]", "[{}, {a: 1}]", "[{}, {}]"),
        ("struct<m: map<string, long>>", "{m: {}}", "{m: {}}", "{m: {a: 1}}"),
    ],
)
def test_a_value_is_expected_to_the_last_bit(kind: str, value: str, expected: str, other: str) -> None:
    """The sign of zero, the digits of a whole number and maps without entries count: what is written is what is there,
    and nothing that merely becomes it."""
    more = f'source: {{kafka: {{topics: [orders]}}, schema: {{v: "{kind}"}}}}\n{ROUTED}'
    case = "  - {name: a, input: [{value: {v: %s}}], expect: {tables: {shop.orders: {rows: [{v: %s}]}}}}\n"
    assert reported(case % (value, expected), more) == []
    assert reported(case % (value, other), more) != []


def test_rows_are_compared_by_the_columns_that_are_named() -> None:
    """A row may have more columns than are named, and rows come in any order."""
    case = """\
  - name: a
    input: [{value: {id: 1, x: a}}, {value: {id: 2, x: b}}]
    expect: {tables: {shop.orders: {rows: [{id: 2}, {id: 1, x: a}]}}}
"""
    assert reported(case) == []


def test_given_tables_have_nested_columns() -> None:
    """A table that is given may have lists, maps and structs: an object is a map where it has one."""
    case = """\
  - name: a
    given:
      tables:
        shop.orders: {schema: {m: "map<string, long>", l: "list<struct<a: decimal(9, 2)>>", s: "struct<x: date>"}}
    input: [{value: {m: {b c: 1}, l: [{a: 2.5}], s: {x: "2024-01-04"}}}, {value: {m: [1]}}]
    expect:
      tables: {shop.orders: {rows: [{m: {b c: 1}, l: [{a: 2.50}], s: {x: "2024-01-04"}}]}}
      dead_letters: [{code: FLOE-D301}]
"""
    assert reported(case) == []


def test_a_wrong_value_is_reported_at_its_place() -> None:
    """A difference names row, column and both values, and points at the expected one."""
    case = """\
  - name: a
    input: [{value: {id: 1, who: {name: A}}}]
    expect: {tables: {shop.orders: {rows: [{id: 1, who: {name: B}}]}}}
"""
    assert reported(case) == ['row 1 of shop.orders: `who.name` is "A", expected "B" @ B}}]}}}']


def test_exact_rows_have_nothing_else() -> None:
    """With `exact` a column that is not named must be null."""
    case = """\
  - name: a
    input: [{value: {id: 1, x: a}}]
    expect: {tables: {shop.orders: {exact: true, rows: [{id: 1}]}}}
"""
    assert reported(case) == ['row 1 of shop.orders: `x` is "a", expected null @ {id: 1}]}}}']


def test_a_table_that_is_not_expected_is_a_difference() -> None:
    """A record that goes to another table than the test says makes it fail, on both sides."""
    case = """\
  - name: a
    input: [{value: {id: 1, type: refund}}]
    expect: {tables: {shop.orders: {rows: [{id: 1}]}}}
"""
    assert reported(case) == [
        'the table shop.refunds is not expected, and has 1 row: {"id": 1.0, "type": "refund"} @ tables: {sho',
        "no record reaches the table shop.orders @ shop.orders:",
    ]


def test_dead_letters_that_nobody_expects_make_a_test_fail() -> None:
    """Without `dead_letters` there must be none."""
    assert reported("  - {name: a, input: [{value: nope}], expect: {}}\n")[0].startswith(
        "orders-0@0 becomes a dead letter: "
    )
    assert reported("  - {name: a, input: [{value: nope}], expect: {dead_letters: [{stage: decode}]}}\n") == []
    assert reported("  - {name: a, input: [{value: {a: 1}}], expect: {dead_letters: [{offset: 0}]}}\n") == [
        "dead letter 1 is missing; there are none @ {offset: 0}]"
    ]


def test_a_tombstone_is_dropped_and_counted() -> None:
    """`value: null` is a record without a value."""
    assert reported("  - {name: a, input: [{value: null}], expect: {dropped: 1, tables: {}}}\n") == []
    assert reported("  - {name: a, input: [{value: null}], expect: {dropped: 0}}\n") == [
        "1 record is dropped, expected 0 @ 0}}"
    ]


@pytest.mark.parametrize(
    ("kind", "written", "expected", "other"),
    [
        ("decimal(10,2)", "12.10", '"12.10"', "12.11"),
        ("decimal(10,2)", "12.10", "12.1", '"12.01"'),
        ("timestamptz", '"2024-01-04T12:28:13+02:00"', '"2024-01-04T10:28:13Z"', '"2024-01-04T12:28:13"'),
        ("timestamp", '"2024-01-04T12:28:13.5"', '"2024-01-04 12:28:13.500"', '"2024-01-04T12:28:13.5Z"'),
        ("date", '"2024-01-04"', "2024-01-04", "2024-01-05"),
        ("time", '"10:00"', '"10:00:00"', '"10:00:01"'),
        ("uuid", "00000000-0000-0000-0000-00000000000A", "00000000-0000-0000-0000-00000000000a", '"a"'),
        ("float", "0.1", "0.1", "0.2"),
        ("double", "2", "2", "3"),
        ("long", "2", "2", '"2"'),
        ("boolean", "true", "true", "1"),
        ("binary", '"aGk="', "hi", "aGk="),
        ("binary", '"/w=="', '"base64:/w=="', "a"),
    ],
)
def test_values_are_compared_as_their_type_says(kind: str, written: str, expected: str, other: str) -> None:
    """A moment is compared as a moment, a decimal as a number, bytes as text where they are text."""
    more = f'source: {{kafka: {{topics: [orders]}}, schema: {{v: "{kind}"}}}}\n'
    case = (
        "  - {{name: a, input: [{{value: {{v: {}}}}}], expect: {{tables: {{shop.orders: {{rows: [{{v: {}}}]}}}}}}}}\n"
    )

    assert reported(case.format(written, expected), more) == []
    assert len(reported(case.format(written, other), more)) == 1


def test_schema_and_partitions_of_a_new_table() -> None:
    """A test sees the columns that a table is created with, and its partition fields."""
    more = 'tables: {defaults: {create: {partition_by: ["bucket(4, id)"]}}}\n'
    case = '  - {name: a, input: [{value: {id: 1}}], expect: {tables: {shop.orders: {schema: {id: %s}, partition_by: ["%s"]}}}}\n'

    assert reported(case % ("long", "bucket(id, 4)"), more) == []
    assert reported(case % ("string", "id"), more) == [
        "shop.orders: `id` is long, expected string @ string}, par",
        'shop.orders is partitioned by ["bucket(4, id)"], expected ["id"] @ ["id"]}}}}',
    ]


def test_given_tables_are_there_before() -> None:
    """Records meet the table that `given` describes, and it is not created."""
    case = """\
  - name: a
    given: {tables: {shop.orders: {schema: {id: int}}}}
    input: [{value: {id: 1}}, {value: {id: 3000000000}}]
    expect: {tables: {shop.orders: {schema: {id: long}, rows: [{id: 1}, {id: 3000000000}]}}}
"""
    assert reported(case) == []
    frozen = "tables: {defaults: {create: {enabled: false}, evolve: {columns: freeze}}}\n"
    letters = reported(case.replace("3000000000", "1, x: 2"), frozen)
    assert [one for one in letters if "orders-0@1 becomes a dead letter" in one] != []


def test_a_run_that_stops_is_expected_by_its_code() -> None:
    """With `fail` nothing of the records is announced, so `stops` is all there is."""
    more = "errors: {policy: fail}\nroutes: {unrouted: fail, rules: [{table: shop.orders}]}\n"
    input_ = "  - {name: a, input: [{value: {id: 1}}, {value: nope}], expect: %s}\n"

    assert reported(input_ % "{stops: {offset: 1, code: FLOE-D101}}", more) == []
    assert reported(input_ % "{}", more)[0].startswith("the run stops at orders-0@1: ")
    assert reported(input_ % "{stops: {offset: 0}}", more) == ["the run stops with offset 1, expected 0 @ 0}}}"]
    assert reported("  - {name: a, input: [{value: {a: 1}}], expect: {stops: {}}}\n", more) == [
        "the run does not stop @ {}}}"
    ]


def test_kafka_fields_are_those_of_the_record() -> None:
    """Topic, partition, offset, timestamp and key reach the metadata columns; offsets count on by themselves."""
    more = (
        "source:\n  kafka: {topics: [orders, others]}\n  metadata_columns: [topic, partition, offset, timestamp, key]\n"
    )
    case = """\
  - name: a
    input:
      - {value: {id: 1}, topic: others, partition: 3, offset: 41, timestamp_ms: 1000, key: k}
      - {value: {id: 2}, topic: others, partition: 3}
      - {raw: '{"id": 3}', key: {base64: /w==}}
    expect:
      tables:
        shop.orders:
          rows:
            - {id: 1, _kafka_topic: others, _kafka_partition: 3, _kafka_offset: 41, _kafka_timestamp: "1970-01-01T00:00:01Z"}
            - {id: 2, _kafka_offset: 42, _kafka_timestamp: null, _kafka_key: null}
            - {id: 3, _kafka_topic: orders, _kafka_offset: 0, _kafka_key: "base64:/w=="}
"""
    assert reported(case, more) == []


def test_files_that_cannot_be_tested_are_reported_by_name() -> None:
    """SQL is Spark's: without it the tests are left out with a warning; a wrong file is wrong before any test of it."""
    sql = "source: {kafka: {topics: [orders]}, schema: {id: long}}\ntransform: {sql: SELECT id FROM source}\n"
    case = "  - {name: a, input: [{value: {id: 1}}], expect: {}}\n"

    left_out = run(case, sql)
    assert [finding.code for finding in left_out.findings] == ["FLOE-R407"]
    assert (left_out.cases, left_out.is_wrong) == ((), False)
    assert [finding.code for finding in run("  - {name: a, input: [{}], expect: {}}\n").findings] == ["FLOE-C424"]
    missing = run(case, "metadata: {name: '${env:NOT_SET_ANYWHERE}'}\n")
    assert missing.is_wrong
    assert missing.cases == ()


def test_tests_load_neither_spark_nor_kafka() -> None:
    """A file is tested without the engine and the broker client."""
    code = (
        "import sys\nfrom framework.cli.main import run_main\n"
        "assert run_main(['test', 'pipelines/pizzas.yaml']) == 0\n"
        "print([m for m in ('pyspark', 'confluent_kafka') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"


@given(JSON_VALUES)
@example({"\u2028": None, "b": "\u2029 \x85"})
def test_values_read_back_as_they_were_written(value: object) -> None:
    """What is written into a file is the same value when it is read, in either form."""
    for text in (flow(value), block(value, 0)):
        node, findings = parse(SourceText("a", f"a:\n  {block(value, 2)}\n" if text != flow(value) else f"a: {text}\n"))
        assert findings == []
        assert node is not None
        assert plain(node) == {"a": _referenced(value)}


def _referenced(value: object) -> object:
    """`${` is written as `$${`, which the loader turns back."""
    if isinstance(value, dict):
        return {str(_referenced(key)): _referenced(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_referenced(item) for item in value]
    return value.replace("${", "$${") if isinstance(value, str) else value


@given(st.text())
def test_text_stays_text(value: str) -> None:
    """No text becomes a number, a template or a reference."""
    written = flow(value)

    assert "{{" not in written
    assert "{%" not in written
    assert "\n" not in written
    assert written.startswith('"') or core_value(written) == value


@settings(max_examples=200)
@given(st.lists(st.lists(st.integers(0, 2), min_size=4, max_size=4), min_size=1, max_size=4))
def test_pairs_are_as_many_as_can_be(counts: list[list[int]]) -> None:
    """As many expected things as possible find their own match, whatever the order."""
    differences = [[list(range(count)) for count in row] for row in counts]
    matching = match(differences, [3] * len(counts), 4)
    exact = sum(not differences[i][j] for i, j in matching.pairs)

    def most(i: int, used: frozenset[int]) -> int:
        if i == len(counts):
            return 0
        free = [j for j in range(4) if counts[i][j] == 0 and j not in used]
        return max([most(i + 1, used), *(1 + most(i + 1, used | {j}) for j in free)])

    assert exact == most(0, frozenset())
    assert len({j for _, j in matching.pairs}) == len(matching.pairs)
    assert sorted([i for i, _ in matching.pairs] + matching.missing) == list(range(len(counts)))
    assert sorted([j for _, j in matching.pairs] + matching.extra) == list(range(4))
