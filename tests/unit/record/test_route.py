"""Records find their tables by the rules, the same way in columns and one by one, and never a table they may not
name."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.config.spec import ErrorPolicy, EvolveMode, NameCase, RouteCondition, RouteMode, RouteRule, TablesSpec
from framework.plan.model import Plan
from framework.record.model import BlockResult
from testbed.record_samples import alone, block, plan, policy, processed, same, target

COLUMNS = {"kind": "string", "n": "long", "ok": "boolean", "x": "double"}


def run(pipeline: Plan, values: list[object], tables: list[str], topic: str = "events") -> BlockResult:
    targets = {name: target(name, COLUMNS, table_policy=pipeline.write.tables.defaults) for name in tables}
    return processed(block(values, topic), pipeline, targets)


def counts(result: BlockResult) -> dict[str, int]:
    return {name: len(rows) for name, rows in result.rows.items()}


def test_first_match_takes_the_first_rule_that_fits() -> None:
    """With first_match a record lands in the table of the first rule whose condition it meets, and in no other."""
    rules = [
        RouteRule("ns.refunds", RouteCondition(field="kind", equals="refund")),
        RouteRule("ns.small", RouteCondition(field="n", equals=1)),
        RouteRule("ns.yes", RouteCondition(field="ok", equals=True)),
        RouteRule("ns.rest"),
    ]
    values = [{"kind": "refund", "n": 1}, {"n": 1}, {"ok": True}, {"kind": "sale"}, {}]
    result = run(plan(rules), values, ["ns.refunds", "ns.small", "ns.yes", "ns.rest"])
    assert counts(result) == {"ns.refunds": 1, "ns.small": 1, "ns.yes": 1, "ns.rest": 2}
    assert result.written == 5


def test_all_match_lands_in_every_table_once() -> None:
    """With all_match a record lands once in each table that a rule gives it, and counts as one written record."""
    rules = [
        RouteRule("ns.all"),
        RouteRule("ns.refunds", RouteCondition(field="kind", equals="refund")),
        RouteRule("ns.refunds", RouteCondition(field="kind", matches="r.*")),
    ]
    values = [{"kind": "refund"}, {"kind": "rest"}, {"kind": "sale"}]
    result = run(plan(rules, mode=RouteMode.ALL_MATCH), values, ["ns.all", "ns.refunds"])
    assert counts(result) == {"ns.all": 3, "ns.refunds": 2}
    assert result.written == 3


@pytest.mark.parametrize("mode", list(RouteMode))
def test_one_table_alone_takes_its_records_and_the_others_are_dropped(mode: RouteMode) -> None:
    """For a replay only one table is asked for: its rows come, in columns and one by one, all other records count as
    dropped, no other table is needed, and the sum holds."""
    rules = [RouteRule("ns.refunds", RouteCondition(field="kind", equals="refund")), RouteRule("ns.{kind}")]
    pipeline = plan(rules, mode=mode, unrouted=ErrorPolicy.DROP)
    pipeline = replace(pipeline, route=replace(pipeline.route, only_tables=("ns.refunds",)))
    pipeline = replace(pipeline, write=replace(pipeline.write, errors=ErrorPolicy.DROP))
    values = [{"kind": "refund", "n": 1}, {"kind": "sale"}, {"kind": "a b"}, {"n": 5}, {"kind": "refund", "n": 2}]
    tables = {"ns.refunds": target("ns.refunds", COLUMNS, table_policy=policy())}
    for result in (processed(block(values), pipeline, tables), alone(block(values), pipeline, tables)):
        assert counts(result) == {"ns.refunds": 2}
        assert result.rows["ns.refunds"].column("n").to_pylist() == [1, 2]
        assert result.needs == {}
        assert result.written + result.dropped == len(values)


def test_all_match_record_lands_everywhere_or_nowhere() -> None:
    """A record that one of its tables cannot take is one dead letter and lands in none of them."""
    rules = [RouteRule("ns.wide"), RouteRule("ns.strict")]
    pipeline = plan(rules, mode=RouteMode.ALL_MATCH)
    tables = {
        "ns.wide": target("ns.wide", {"n": "string"}, table_policy=policy()),
        "ns.strict": target("ns.strict", {"n": "long"}, table_policy=policy()),
    }
    result = processed(block([{"n": "1"}, {"n": "one"}, {"n": 3}]), pipeline, tables)
    assert result.rows["ns.wide"].to_pydict() == {"n": ["1", "3"]}
    assert result.rows["ns.strict"].to_pydict() == {"n": [1, 3]}
    assert [(d.offset, d.code) for d in result.dead_letters] == [(1, "FLOE-D304")]
    assert (result.written, result.dropped) == (2, 0)


def test_topic_condition() -> None:
    """A rule by topic looks at the topic's name alone."""
    rules = [RouteRule("ns.vip", RouteCondition(topic="^vip-")), RouteRule("ns.rest")]
    assert counts(run(plan(rules), [{"n": 1}], ["ns.vip", "ns.rest"], "vip-orders")) == {"ns.vip": 1}
    assert counts(run(plan(rules), [{"n": 1}], ["ns.vip", "ns.rest"], "not-vip-orders")) == {"ns.rest": 1}


@pytest.mark.parametrize(
    ("topic", "names"),
    [
        ("cdc.Shop.public.orders", {"shop.public_orders": 2}),
        ("cdc.crm.public.orders-2.x", {"crm.public_orders-2_x": 2}),
        ("cdc.hr.public.orders", {"ns.rest": 2}),
        ("other", {"ns.rest": 2}),
        ("cdc.sales.public.orders", {}),
    ],
)
def test_parts_of_the_topic_become_part_of_names(topic: str, names: dict[str, int]) -> None:
    """The groups of a rule's pattern for topics are parts of its table's name, its namespace among them, inside of the
    allowed tables; a topic that lacks a part, or that leads elsewhere, is not taken there."""
    rules = [
        RouteRule("{topic.db}.{topic.schema}_{topic.name}", RouteCondition(topic=PARTS)),
        RouteRule("ns.rest"),
    ]
    pipeline = plan(rules, allow=["shop.*", "crm.*", "ns.*"])
    tables = {name: target(name, COLUMNS, table_policy=policy()) for name in names}
    values: list[object] = [{"x": 1.5, "n": 1}, {"n": 2}]
    result = processed(block(values, topic), pipeline, tables)
    assert counts(result) == names
    same(result, alone(block(values, topic), pipeline, tables))
    assert [letter.code for letter in result.dead_letters] == ([] if names else ["FLOE-D203"] * 2)


PARTS = r"^cdc\.(?P<db>(?i:shop|crm|sales))\.(?P<schema>[^.]+)\.(?P<name>.+)$"


def test_a_rule_may_test_the_topic_and_a_field() -> None:
    """Both must hold; a part of the topic stands beside the record's value in a name."""
    when = RouteCondition(topic=r"^(?P<db>\w+)\.", field="kind", equals="sale")
    pipeline = plan([RouteRule("ns.{topic.db}_{kind}", when), RouteRule("ns.rest")], allow=["ns.*"])
    values = [{"kind": "sale"}, {"kind": "refund"}]
    tables = ["ns.shop_sale", "ns.rest"]
    assert counts(run(pipeline, values, tables, "shop.orders")) == {"ns.shop_sale": 1, "ns.rest": 1}
    assert counts(run(pipeline, values, tables, "orders")) == {"ns.rest": 2}


@pytest.mark.parametrize(
    ("when", "taken"),
    [
        (RouteCondition(field="kind", one_of=("a", "b")), [0, 1, 4]),
        (RouteCondition(field="n", one_of=(1, 2)), [0]),
        (RouteCondition(field="kind", exists=True), [0, 1, 2, 4]),
        (RouteCondition(field="kind", exists=False), [3, 5]),
        (RouteCondition(field="deep", exists=True), [4]),
        (RouteCondition(field="deep.a", exists=True), []),
        (RouteCondition(negated=RouteCondition(field="kind", equals="a")), [1, 2, 3, 5]),
        (RouteCondition(field="kind", one_of=("a", "b"), negated=RouteCondition(field="n", equals=5)), [0, 4]),
        (
            RouteCondition(all_of=(RouteCondition(field="kind", equals="a"), RouteCondition(field="n", exists=True))),
            [0],
        ),
        (
            RouteCondition(topic="ev", all_of=(RouteCondition(negated=RouteCondition(field="n", exists=True)),)),
            [2, 3, 4],
        ),
        (RouteCondition(negated=RouteCondition(topic="ev")), []),
    ],
)
def test_conditions_of_several_fields(when: RouteCondition, taken: list[int]) -> None:
    """One of several values, whether there is a value at all, what must not be, and all of several: in columns and one by
    one."""
    values: list[object] = [{"kind": "a", "n": 1}, {"kind": "b", "n": 5}, {"kind": "c"}, {"kind": None}]
    values += [{"kind": "a", "deep": {"b": 1}}, {"n": "1"}]
    values = [{**value, "at": at} for at, value in enumerate(values) if isinstance(value, dict)]
    rules = [RouteRule("ns.taken", when), RouteRule("ns.rest")]
    made = plan(rules)
    columns: dict[str, str] = {"at": "long", "kind": "string", "n": "string"}
    tables = {
        name: target(name, columns, table_policy=policy(EvolveMode.DISCARD_VALUE)) for name in ("ns.taken", "ns.rest")
    }
    for way in (processed, alone):
        result = way(block(values), made, tables)
        rows = {name: found.column("at").to_pylist() for name, found in result.rows.items()}
        assert rows.get("ns.taken", []) == taken
        assert sorted(rows.get("ns.taken", []) + rows.get("ns.rest", [])) == list(range(6))


def test_a_group_that_no_name_holds_changes_nothing() -> None:
    """A literal table of a rule whose pattern names parts of the topic needs no allowed tables."""
    pipeline = plan([RouteRule("other.t", RouteCondition(topic="(?P<part>events)"))], allow=[])
    assert counts(run(pipeline, [{"n": 1}], ["other.t"])) == {"other.t": 1}


def test_without_a_group_it_is_a_field() -> None:
    """A record's own field `topic` makes names as any other, where the rule's pattern names no part of the topic."""
    pipeline = plan([RouteRule("ns.{topic.db}", RouteCondition(topic="events"))], allow=["ns.*"])
    pipeline = replace(pipeline, write=replace(pipeline.write, tables=TablesSpec(policy(EvolveMode.DISCARD_VALUE))))
    assert counts(run(pipeline, [{"topic": {"db": "a"}, "n": 1}], ["ns.a"])) == {"ns.a": 1}


def test_values_become_part_of_names() -> None:
    """Text, whole numbers and booleans stand in a table's name, lower-cased under the insensitive case policy."""
    rules = [RouteRule("ns.t_{kind}_{n}_{ok}")]
    values = [
        {"kind": "AA", "n": 5, "ok": True},
        {"kind": "aa", "n": 5, "ok": True},
        {"kind": "b-B", "n": -1, "ok": False},
    ]
    result = run(plan(rules), values, ["ns.t_aa_5_true", "ns.t_b-b_-1_false"])
    assert counts(result) == {"ns.t_aa_5_true": 2, "ns.t_b-b_-1_false": 1}
    sensitive = plan(rules, defaults=policy(case=NameCase.SENSITIVE))
    assert set(run(sensitive, values, []).needs) == {"ns.t_AA_5_true", "ns.t_aa_5_true", "ns.t_b-B_-1_false"}


@pytest.mark.parametrize("value", ["a.b", "cold:a", "../x", "a b", "", "é", "a\nb", "x" * 129, 1.5, '"; drop'])
def test_a_record_cannot_name_what_is_no_name(value: object) -> None:
    """A value that is no plain identifier never becomes part of a table's name; the record is a dead letter."""
    result = run(plan([RouteRule("ns.t_{kind}"), RouteRule("ns.rest")]), [{"kind": value}], ["ns.rest"])
    assert not result.rows
    assert not result.needs
    assert [(d.stage, d.code) for d in result.dead_letters] == [("route", "FLOE-D202")]


@pytest.mark.parametrize("value", [None, {"a": 1}, ["a"]])
def test_an_object_or_list_is_no_value_for_a_name(value: object) -> None:
    """A rule whose name needs a field that is null, an object or a list does not fit; the next rule is asked."""
    rules = [RouteRule("ns.t_{kind}"), RouteRule("ns.rest")]
    assert counts(run(plan(rules), [{"kind": value}], ["ns.rest"])) == {"ns.rest": 1}


def test_a_record_cannot_name_the_dead_letter_table() -> None:
    """A table of dead letters has columns of its own; a record that names it is one of them, in whatever case."""
    base = plan([RouteRule("ns.t_{kind}")])
    letters = replace(base, route=replace(base.route, not_for_records="ns.T_lost"))
    result = run(letters, [{"kind": "a"}, {"kind": "LOST"}], ["ns.t_a"])
    assert counts(result) == {"ns.t_a": 1}
    assert [(d.offset, d.code) for d in result.dead_letters] == [(1, "FLOE-D203")]


def test_a_record_cannot_leave_the_allowed_tables() -> None:
    """A rendered name outside allow_tables is refused; static names need no permission."""
    rules = [RouteRule("ns.t_{kind}", RouteCondition(field="kind", matches="[ab]")), RouteRule("other.rest")]
    result = run(plan(rules, allow=["ns.t_a"]), [{"kind": "a"}, {"kind": "b"}, {"kind": "c"}], ["ns.t_a", "other.rest"])
    assert counts(result) == {"ns.t_a": 1, "other.rest": 1}
    assert [(d.offset, d.code) for d in result.dead_letters] == [(1, "FLOE-D203")]


@pytest.mark.parametrize(
    ("unrouted", "letters", "dropped", "fails"),
    [(ErrorPolicy.DEAD_LETTER, 2, 0, False), (ErrorPolicy.DROP, 0, 2, False), (ErrorPolicy.FAIL, 2, 0, True)],
)
def test_unrouted(unrouted: ErrorPolicy, letters: int, dropped: int, fails: bool) -> None:
    """A record without a rule goes where `unrouted` says, also when the field of a table's name is missing."""
    rules = [RouteRule("ns.t_{kind}")]
    result = run(plan(rules, unrouted=unrouted), [{"kind": "a"}, {}, {"kind": None}], ["ns.t_a"])
    assert (len(result.dead_letters), result.dropped) == (letters, dropped)
    assert (result.failure is not None) is fails
    assert all(d.code == "FLOE-D201" for d in result.dead_letters)
    assert result.written + len(result.dead_letters) + result.dropped == 3


def test_text_that_looks_like_a_time_is_text() -> None:
    """A routing field that no table has keeps its text, whatever Arrow would take it for."""
    rules = [RouteRule("ns.day_{day}", RouteCondition(field="day", matches=r"\d{4}-\d\d-\d\d"))]
    result = run(plan(rules), [{"day": "2024-01-04"}], [])
    assert set(result.needs) == {"ns.day_2024-01-04"}


def test_nested_fields_and_case() -> None:
    """Dotted paths reach into objects; names of fields follow the case policy."""
    rules = [RouteRule("ns.a", RouteCondition(field="Meta.Kind", equals="x")), RouteRule("ns.b")]
    values = [{"meta": {"kind": "x"}}, {"META": {"KIND": "x"}}, {"meta": 1}, {"meta": {"kind": ["x"]}}]
    pipeline = plan(rules)
    assert set(run(pipeline, values, []).needs) == {"ns.a", "ns.b"}
    sensitive = plan(rules, defaults=policy(case=NameCase.SENSITIVE))
    assert set(run(sensitive, values, []).needs) == {"ns.b"}


FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.sampled_from(["a", "b", "B", "2024-01-04", "a.b", 7, True, None, 1.5, "5"]),
        "n": st.sampled_from([1, 5, 5.0, "5", None, 2**63, {"z": "a"}]),
        "KIND": st.sampled_from(["a", "c", None]),
    },
)
CONDITIONS = st.none() | st.sampled_from(
    [
        RouteCondition(field="kind", equals="a"),
        RouteCondition(field="kind", matches="[ab].*"),
        RouteCondition(field="n", equals=5),
        RouteCondition(field="n", equals="5"),
        RouteCondition(field="n.z", equals="a"),
        RouteCondition(field="kind", equals=True),
        RouteCondition(topic="ev"),
        RouteCondition(topic="nothing"),
        RouteCondition(field="kind", one_of=("a", 7, True)),
        RouteCondition(field="n", exists=True),
        RouteCondition(field="kind", exists=False),
        RouteCondition(field="n.z", exists=True),
    ]
)
INNER = CONDITIONS.filter(bool) | st.builds(RouteCondition, negated=CONDITIONS.filter(bool))
COMPOSITE = st.builds(
    lambda own, negated, all_of: replace(own or RouteCondition(), negated=negated, all_of=tuple(all_of)),
    CONDITIONS,
    CONDITIONS,
    st.lists(INNER, max_size=2),
)
RULES = st.lists(
    st.builds(
        RouteRule,
        st.sampled_from(["ns.a", "ns.b", "ns.t_{kind}", "ns.t_{n}_{kind}", "no.t_{n}"]),
        CONDITIONS | COMPOSITE,
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=200, deadline=None)
@given(st.lists(FIELDS, min_size=1, max_size=8), RULES, st.sampled_from(RouteMode), st.sampled_from(NameCase))
def test_columns_and_single_records_are_routed_alike(
    values: list[dict[str, object]], rules: list[RouteRule], mode: RouteMode, case: NameCase
) -> None:
    """For any rules and records, a block is routed as its records are one by one."""
    pipeline = plan(rules, mode=mode, defaults=policy(case=case))
    columns = {"kind": "string", "n": "string"}
    tables = {name: target(name, columns, table_policy=policy(case=case)) for name in ("ns.a", "ns.t_a", "ns.t_5_b")}
    records = block([json.dumps(value).encode() for value in values])
    same(processed(records, pipeline, tables), alone(records, pipeline, tables))
