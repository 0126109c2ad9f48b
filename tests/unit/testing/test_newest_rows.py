"""Tests of upsert tables: what is expected is the newest row of each key."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from framework.config.load import LoadResult, load_pipelines
from framework.config.tree import plain
from framework.testing.recorded import Taken
from framework.testing.rewriting.rewrite import fixed, recorded
from framework.testing.suite import run_file
from tests.unit.config.in_memory import PIPELINE, TARGET, over, world

UPSERTED = """\
source: {kafka: {topics: [a, b]}, schema: {id: long, sub: string}}
tables: {defaults: {write: {mode: upsert, key: [id, sub], delete_when: {field: op, equals: d}}}}
"""
BY_TOMBSTONE = """\
source: {kafka: {topics: [orders]}, schema: {key_id: long}, key: {type: json}}
tables: {defaults: {write: {mode: upsert, key: [key_id], delete_when: tombstone}}}
"""


def load(text: str) -> LoadResult:
    files = {"base.yaml": text, "targets/local.yaml": TARGET}
    return load_pipelines(["base.yaml"], None, world(files))[0]


def reported(tests: str, more: str = UPSERTED) -> list[str]:
    """The messages about some tests."""
    report = run_file(load(over(PIPELINE, f"{more}tests:\n{tests}")))
    assert report.findings == ()
    assert report.cases
    return [one.message for case in report.cases for one in case.differences]


def test_a_later_record_replaces_the_row_of_its_key() -> None:
    """A row is the whole newest record of its key, and keys are equal only if all their columns are."""
    case = """\
  - name: a
    input:
      - {value: {id: 1, sub: x, n: 1, old: true}}
      - {value: {id: 1, sub: y, n: 2}}
      - {value: {id: 1, sub: x, n: 3}}
    expect: {tables: {shop.orders: {exact: true, rows: [{id: 1, sub: x, n: 3}, {id: 1, sub: y, n: 2}]}}}
"""
    assert reported(case) == []


def test_a_deleted_key_is_gone_until_it_comes_again() -> None:
    """A delete takes the row of its key and no other; an upsert after it adds a row."""
    case = """\
  - name: a
    input:
      - {value: {id: 1, sub: x, op: c}}
      - {value: {id: 2, sub: x, op: c}}
      - {value: {id: 1, sub: x, op: d}}
      - {value: {id: 2, sub: x, op: d}}
      - {value: {id: 2, sub: x, op: r}}
    expect: {tables: {shop.orders: {rows: [{id: 2, op: r}]}}}
"""
    assert reported(case) == []


def test_a_tombstone_deletes_and_is_not_dropped() -> None:
    """With `delete_when: tombstone` a record without a value takes the row of the record's key."""
    case = """\
  - name: a
    input:
      - {key: '{"id": 1}', value: {n: 1}}
      - {key: '{"id": 2}', value: {n: 2}}
      - {key: '{"id": 1}', value: null}
    expect: {dropped: 0, tables: {shop.orders: {rows: [{key_id: 2, n: 2}]}}}
"""
    assert reported(case, BY_TOMBSTONE) == []


def test_positions_that_a_test_gives_decide() -> None:
    """The newest is the one with the highest topic, partition and offset, as in a run, wherever it stands in the
    list."""
    case = """\
  - name: offsets
    input: [{offset: 7, value: {id: 1, sub: x, n: 1}}, {offset: 3, value: {id: 1, sub: x, n: 2}}]
    expect: {tables: {shop.orders: {rows: [{n: 1}]}}}
  - name: partitions
    input: [{partition: 1, value: {id: 1, sub: x, n: 1}}, {partition: 0, offset: 9, value: {id: 1, sub: x, n: 2}}]
    expect: {tables: {shop.orders: {rows: [{n: 1}]}}}
  - name: topics
    input: [{topic: b, value: {id: 1, sub: x, n: 1}}, {topic: a, partition: 3, value: {id: 1, sub: x, n: 2}}]
    expect: {tables: {shop.orders: {rows: [{n: 1}]}}}
"""
    assert reported(case) == []


def test_a_table_whose_keys_are_all_deleted_is_named_with_no_rows() -> None:
    """Records that reach a table are never passed over in silence, even if nothing is left of them."""
    records = "{name: a, input: [{value: {id: 1, sub: x}}, {value: {id: 1, sub: x, op: d}}]"
    assert reported(f"  - {records}, expect: {{tables: {{shop.orders: {{rows: []}}}}}}}}\n") == []
    assert reported(f"  - {records}, expect: {{tables: {{}}}}}}\n") == [
        "the table shop.orders is not expected, and has no rows left"
    ]


def test_tables_beside_it_keep_every_record() -> None:
    """In one file a table that is appended to has all records, and one that is an upsert table the newest."""
    case = """\
  - name: a
    input: [{value: {id: 1, n: 1}}, {value: {id: 1, n: 2}}, {value: {id: 1, n: 3, log: y}}, {value: {id: 1, n: 4, log: y}}]
    expect: {tables: {shop.orders: {rows: [{n: 2}]}, shop.log: {rows: [{n: 3}, {n: 4}]}}}
"""
    more = """\
source: {kafka: {topics: [orders]}, schema: {id: long}}
routes: {rules: [{when: {field: log, equals: y}, table: shop.log}, {table: shop.orders}]}
tables: {defaults: {write: {mode: upsert, key: [id]}}, overrides: [{match: shop.log, write: {mode: append}}]}
"""
    assert reported(case, more) == []


CHANGES = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 4), st.sampled_from("ab"), st.sampled_from("cud")), min_size=1
)


@settings(max_examples=30, deadline=None)
@given(CHANGES)
def test_the_rows_are_those_of_a_dictionary(changes: list[tuple[int, int, str, str]]) -> None:
    """Applied one by one, in the order of the source, the records leave in a dictionary what the table holds."""
    inputs = [
        {"partition": partition, "value": {"id": number, "sub": sub, "op": op, "n": place}}
        for place, (partition, number, sub, op) in enumerate(changes)
    ]
    held: dict[tuple[int, str], int] = {}
    for place, (_, number, sub, op) in sorted(enumerate(changes), key=lambda one: (one[1][0], one[0])):
        held.pop((number, sub), None)
        if op != "d":
            held[number, sub] = place
    rows = [{"id": number, "sub": sub, "n": place} for (number, sub), place in held.items()]
    case = {"name": "a", "input": inputs, "expect": {"tables": {"shop.orders": {"rows": rows}}}}
    assert reported(f"  - {json.dumps(case)}\n") == []


def test_fix_writes_the_rows_that_are_left() -> None:
    """`--fix` takes what came: the newest row, and nothing of a deleted key."""
    tests = """\
tests:
  - name: a
    input: [{value: {id: 1, sub: x, n: 1}}, {value: {id: 1, sub: x, n: 2}}]
    expect: {tables: {shop.orders: {rows: [{id: 1, n: 1}]}}}
  - name: b
    input: [{value: {id: 1, sub: x, op: c}}, {value: {id: 1, sub: x, op: d}}]
    expect: {tables: {shop.orders: {rows: [{id: 1}]}}}
"""
    text = over(PIPELINE, UPSERTED + tests)
    result = load(text)
    made = fixed(result, run_file(result), load).text
    assert made == text.replace("{id: 1, n: 1}]}}}", "{id: 1, n: 2.0}]}}}").replace("[{id: 1}]", "[]")


def recorded_case(records: list[Taken], more: str = UPSERTED) -> dict[str, object]:
    made = recorded(load(over(PIPELINE, more)), records, "r", load)
    loaded = load(made.text)
    assert loaded.tree is not None
    (case,) = plain(loaded.tree)["tests"]
    return dict(case)


def test_a_recorded_test_says_what_the_table_holds() -> None:
    """`--record` writes the rows that are left; that none is left is said, too."""
    first, gone = b'{"id": 1, "sub": "x", "op": "c"}', b'{"id": 1, "sub": "x", "op": "d"}'
    kept = recorded_case(
        [Taken(first), Taken(gone), Taken(b'{"id": 2, "sub": "x"}')], UPSERTED.replace("[a, b]", "[a]")
    )
    assert kept["expect"]["tables"]["shop.orders"]["rows"] == [{"id": 2, "sub": "x"}]  # type: ignore[index]
    emptied = recorded_case([Taken(first), Taken(gone)])
    assert emptied["expect"]["tables"]["shop.orders"]["rows"] == []  # type: ignore[index]


def test_records_of_a_topic_keep_their_order() -> None:
    """Where positions decide what is the newest, a test recorded from a topic keeps them, in whatever order they were
    taken."""
    older, newer = b'{"id": 1, "sub": "x", "n": 1}', b'{"id": 1, "sub": "x", "n": 2}'
    kept = recorded_case([Taken(newer, "a", 2, 41, 5), Taken(older, "a", 2, 40, 6)])
    assert [(one["partition"], one["offset"]) for one in kept["input"]] == [(2, 41), (2, 40)]  # type: ignore[attr-defined]
    assert kept["expect"]["tables"]["shop.orders"]["rows"] == [{"id": 1, "sub": "x", "n": 2}]  # type: ignore[index]
    appended = recorded_case([Taken(older, "a", 2, 40, 6)], "source: {kafka: {topics: [a]}}\n")
    assert appended["input"] == [{"value": {"id": 1, "sub": "x", "n": 1}}]
