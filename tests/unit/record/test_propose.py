"""A look at records proposes only what holds for every one of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.record.proposal.propose import Proposal, ProposedHint, propose


def of(*documents: object) -> Proposal:
    return propose(json.dumps(document).encode() for document in documents)


@pytest.mark.parametrize(
    ("field", "values", "expected"),
    [
        ("at", ["2024-01-04T12:28:13Z", "2024-01-04 12:28:13.5+02:00"], ("timestamptz", None, False)),
        ("at", ["2024-01-04 12:28:13", "2024-01-04T12:28"], ("timestamp", None, True)),
        ("born", ["2024-01-04", "1999-12-31"], ("date", None, False)),
        ("ts", [1704371293, 1704371294], ("timestamptz", "s", False)),
        ("ts", [1704371293000], ("timestamptz", "ms", False)),
        ("event_time", [1704371293000000], ("timestamptz", "us", False)),
        ("createdAt", [1704371293000000000], ("timestamptz", "ns", False)),
    ],
)
def test_moments_are_recognised(field: str, values: list[object], expected: tuple[str, str | None, bool]) -> None:
    """Moments as text and as numbers since 1970 get their exact type, by value and, for numbers, by name."""
    (hint,) = of(*({field: value} for value in values)).hints
    assert (hint.type, hint.unit, hint.zoneless) == expected


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("at", ["2024-01-04T12:28:13Z", "soon"]),  # one that is none
        ("at", ["2024-01-04T12:28:13Z", "2024-01-04T12:28:13"]),  # zone here, none there
        ("code", ["20240104"]),  # a number of something
        ("price", [1704371293]),  # no time by its name
        ("ts", [1704371293, 1704371293000]),  # two units
        ("ts", [17043712935, 5]),
        ("at", [True, "2024-01-04T12:28:13Z"]),
        ("a.b", ["2024-01-04"]),  # a name that no path can name
    ],
)
def test_what_is_not_certain_is_not_proposed(field: str, values: list[object]) -> None:
    """One record that does not fit is enough to propose nothing."""
    assert of(*({field: value} for value in values)).hints == ()


@pytest.mark.parametrize(
    ("field", "values", "kind"),
    [
        ("id", [7], "long"),
        ("order_id", [7, 2**63], "decimal(38, 0)"),
        ("storeId", [7, 8], "long"),
        ("count", range(20), "long"),
        ("count", range(19), None),
        ("id", [7, 7.5], None),
        ("count", [*range(20), 0.5], None),
        ("paid", [7], None),
    ],
)
def test_whole_numbers_are_proposed_where_they_are_many_or_identify(
    field: str, values: list[object], kind: str
) -> None:
    """What never is a fraction is proposed as `long`: in twenty records, or by a name that identifies."""
    assert [hint.type for hint in of(*({field: value} for value in values)).hints] == ([kind] if kind else [])


def test_the_time_of_a_record_is_one_that_all_have() -> None:
    """Tables are partitioned by a moment at the top that every record has; usual names go first."""
    seen = of(
        {"sent": "2024-01-04T12:28:13Z", "created_at": "2024-01-04T12:28:13Z", "in": {"time": "2024-01-04T12:28:13Z"}},
        {"sent": "2024-01-04T12:28:13Z", "created_at": "2024-01-04T12:28:13Z", "rare_time": "2024-01-04T12:28:13Z"},
    )
    assert seen.time_field == "created_at"
    assert ProposedHint("in.time", "timestamptz") in seen.hints


def test_fields_that_part_the_records() -> None:
    """A field with few values is proposed for tables of their own, with counts; one that could not name a table is
    not."""
    documents = [{"type": "a" if i % 3 else "b", "event": f"e {i % 2}", "name": f"n{i}"} for i in range(30)]
    assert [(split.field, split.values) for split in of(*documents).splits] == [("type", (("a", 20), ("b", 10)))]


@given(st.lists(st.one_of(st.binary(max_size=20), st.dictionaries(st.text(max_size=3), st.text(max_size=30)).map(
    lambda each: json.dumps(each).encode())), max_size=20))  # fmt: skip
def test_any_bytes_can_be_looked_at(values: list[bytes]) -> None:
    """Whatever a topic holds, there is a proposal, and it counts every record."""
    seen = propose(values)
    assert seen.records == len(values)


@pytest.mark.parametrize(
    ("values", "kind", "pattern"),
    [
        (["27.10.2026 02:30:00", "01.02.2026 00:00:00"], "timestamp", "%d.%m.%Y %H:%M:%S"),
        (["27/10/2026", "01/02/2026"], "date", "%d/%m/%Y"),
        (["10/27/2026 1:05 PM"], "timestamp", "%m/%d/%Y %I:%M %p"),
        (["27/Oct/2026:13:55:36 +0200"], "timestamptz", "%d/%b/%Y:%H:%M:%S %z"),
    ],
)
def test_times_that_are_not_isos_have_a_format(values: list[str], kind: str, pattern: str) -> None:
    """Times as people write them are proposed with the one format that reads all of them."""
    (hint,) = of(*({"at": value} for value in values)).hints

    assert (hint.type, hint.format, hint.zoneless) == (kind, pattern, kind == "timestamp")


def test_a_time_with_two_meanings_is_a_question() -> None:
    """Where day and month cannot be told apart nothing is proposed, and both readings are named."""
    seen = of({"at": "03/04/2026"}, {"at": "05/06/2026"})

    assert seen.hints == ()
    (question,) = seen.questions
    assert all(pattern in question.question for pattern in ("%d/%m/%Y", "%m/%d/%Y"))


@pytest.mark.parametrize(
    ("field", "values", "kind"),
    [
        ("total", ["12.50", "-3", "0.125"], "decimal(18, 3)"),
        ("total", ["1234567890123456789.5"], "decimal(20, 1)"),
        ("total", ["12", "13"], None),  # may be a number of something
        ("total", ["12.50", "about 3"], None),
        ("total", ["012.50"], None),
        ("version", ["1.10", "1.9"], None),
    ],
)
def test_amounts_as_text_are_decimals(field: str, values: list[str], kind: str | None) -> None:
    """Text of which all is numbers with fractions keeps its digits as a decimal."""
    assert [hint.type for hint in of(*({field: value} for value in values)).hints] == ([kind] if kind else [])


def test_a_list_of_mappings_is_proposed_whole() -> None:
    """Only the whole list can be declared, so its type is a question, with every field that was seen."""
    seen = of({"lines": [{"sku": 7, "at": "2026-10-27T02:30:00Z", "n": "x"}]}, {"lines": []})

    assert [one.answer for one in seen.questions] == ['lines: "list<struct<sku: long, at: timestamptz, n: string>>"']


def test_values_that_name_no_table_are_counted() -> None:
    """Records whose value of the field that parts them can be in no table's name would be dead letters."""
    values = [
        json.dumps(one).encode() for one in ({"kind": "a/b"}, {"kind": "a/b"}, {"kind": "ok-1"}, {"kind": None}, {})
    ]
    found = propose(values, "kind").unusable

    assert found is not None
    assert (found.values, found.absent, found.records) == ((("a/b", 2),), 2, 4)
    assert propose([b'{"kind": "ok"}'], "kind").unusable is None


_EVENT = {"before": None, "after": {"id": 1, "at": "2026-10-27T02:30:00Z"}, "source": {"ts_ms": 1}, "op": "c"}


def test_change_events_are_recognized() -> None:
    """Debezium's events become an envelope, and what is proposed is about the rows inside; a schema says the types itself."""
    plain, typed = of(_EVENT, {**_EVENT, "after": None, "before": {"id": 2}}), of({"schema": {}, "payload": _EVENT})

    assert plain.wrapping is not None
    assert typed.wrapping is not None
    assert (plain.wrapping.envelope, [hint.path for hint in plain.hints]) == ("debezium", ["id", "at"])
    assert (typed.wrapping.envelope, typed.wrapping.typed, typed.hints) == ("debezium", True, ())
    assert of(_EVENT, {"id": 1}).wrapping is None


_ROW = {"id": 1, "at": "2026-10-27T02:30:00Z"}


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"schema": {}, "payload": _ROW}, ("connect", None)),
        ({"database": "d", "table": "t", "type": "insert", "data": _ROW}, ("maxwell", None)),
        ({"database": "d", "table": "t", "type": "INSERT", "isDdl": False, "data": [_ROW]}, ("canal", "data")),
        ({"data": _ROW, "metadata": {"operation": "load", "record-type": "data"}}, ("dms", None)),
        ([_ROW, _ROW], (None, "$")),
    ],
)
def test_what_is_around_the_rows_is_recognized(record: Any, words: tuple[str | None, str | None]) -> None:
    """Other envelopes and arrays as well, where all records have them; hints are about the rows inside, unless a schema came
    with them."""
    found = propose([json.dumps(record).encode()] * 2)
    assert found.wrapping is not None
    assert (found.wrapping.envelope, found.wrapping.explode) == words
    assert ("at" in {hint.path for hint in found.hints}) is (words[0] != "connect")
    assert (found.records, found.unreadable) == (2, 0)
    assert propose([json.dumps(record).encode(), b'{"id": 1}']).wrapping is None
