"""What will run as one value and one hash: everything that matters is in it, nothing that is secret."""

from __future__ import annotations

import json
from dataclasses import replace

from framework.config.spec import (
    Deletes,
    DeleteWhen,
    Envelope,
    EnvelopePaths,
    FormatSpec,
    RouteCondition,
    RouteRule,
    SecretRef,
    TablePolicy,
    TablesSpec,
    WriteMode,
    WritePolicy,
)
from framework.config.values.owners import Owners, OwningTeam
from framework.plan.canonical import canonical, first_difference, plan_hash
from framework.plan.compile import compile_plan
from framework.plan.explain import explain_plan
from tests.unit.plan.test_submit import loaded


def test_the_hash_is_of_what_runs() -> None:
    """Moving files changes no hash, nor do owner and tests; changing what runs or against what does."""
    reviewed = plan_hash([loaded()])
    moved = replace(loaded(), file="elsewhere/a.yaml", target=replace(loaded().target, state_dir="/var/floe"))
    owned = replace(loaded(), spec=replace(loaded().spec, owners=Owners(OwningTeam("team-a")), description="orders"))
    assert plan_hash([moved]) == plan_hash([owned]) == reviewed
    assert plan_hash([loaded(name="other")]) != reviewed
    assert plan_hash([loaded(conf={"spark.cores.max": "9"})]) != reviewed
    kafka = {"main": {**loaded().target.kafka["main"], "bootstrap.servers": "elsewhere:9092"}}
    assert plan_hash([replace(loaded(), target=replace(loaded().target, kafka=kafka))]) != reviewed


def test_words_of_upserts_are_in_it_where_they_are_used() -> None:
    """A plan whose tables are appended to says nothing of upserts, so its hash is the one of before there were any;
    each word of an upsert table changes the hash."""
    text = json.dumps(canonical(loaded()))
    assert "append_only" not in text
    assert "order_field" not in text
    base = WritePolicy(WriteMode.UPSERT, ("id",))
    policies = (
        WritePolicy(),
        base,
        replace(base, key=("id", "region")),
        replace(base, order_field="at"),
        replace(base, delete_when=DeleteWhen()),
        replace(base, delete_when=DeleteWhen("op", 1)),
        replace(base, delete_when=DeleteWhen("op", True)),
        replace(base, deletes=Deletes.POSITION_DELETES),
        replace(base, history="shop.changes"),
    )
    specs = [replace(loaded().spec, tables=TablesSpec(TablePolicy(write=write))) for write in policies]
    hashes = [plan_hash([replace(loaded(), spec=spec)]) for spec in specs]
    assert len(set(hashes)) == len(policies)
    assert hashes[0] == plan_hash([loaded()])


def test_one_batch_is_in_flight_before_upsert_tables() -> None:
    """Where any table is upserted, the run reads nothing more while a batch is not in its tables; the steps say so."""
    policy = TablePolicy(write=WritePolicy(WriteMode.UPSERT, ("id",)))
    spec = replace(loaded().spec, tables=TablesSpec(TablePolicy(), (("shop.refunds", policy),)))
    plan = compile_plan(replace(loaded(), spec=spec))
    assert plan.announce.max_waiting_batches == 1
    assert compile_plan(loaded()).announce.max_waiting_batches == loaded().spec.max_waiting_batches
    steps = dict(explain_plan(plan))
    assert any("one batch at a time" in line for line in steps["Announce"])
    assert any("upserted by id" in line for line in steps["WriteFiles"])


def test_values_that_python_calls_equal_are_different() -> None:
    """A rule for 1, one for 1.0 and one for true take different records, so they have different hashes."""
    hashes = set()
    for value in (1, 1.0, True):
        rules = (RouteRule("shop.orders", RouteCondition("type", equals=value)),)
        spec = loaded().spec
        hashes.add(plan_hash([replace(loaded(), spec=replace(spec, routes=replace(spec.routes, rules=rules)))]))
    assert len(hashes) == 3


def test_neither_secret_nor_address_is_in_it() -> None:
    """The value can be shown to everyone who may read the control topic."""
    text = json.dumps(canonical(loaded()))
    assert [word for word in ("KAFKA_PASSWORD", "/run/token", "k:9092", "https://catalog") if word in text] == []
    other = loaded().target.kafka["main"] | {"sasl.password": SecretRef("env", "OTHER")}
    changed = replace(loaded(), target=replace(loaded().target, kafka={"main": other}))
    assert canonical(changed)["settings"] != canonical(loaded())["settings"]


def test_what_is_shown_is_what_is_run() -> None:
    """The steps that people read, the value that is reviewed and the plan that a run gets come from one and the
    same."""
    changed = loaded()
    spec = replace(changed.spec, source=replace(changed.spec.source, metadata_columns=("offset",)))
    changed = replace(changed, spec=spec)
    assert explain_plan(compile_plan(changed)) != explain_plan(compile_plan(loaded()))
    assert compile_plan(changed).steps != compile_plan(loaded()).steps
    difference = first_difference(canonical(loaded()), canonical(changed))
    assert difference == 'plan.decode.metadata_columns: [] -> ["offset"]'


def test_the_first_difference_is_found_at_any_depth() -> None:
    """A difference is told by its path and both values; equal values have none."""
    assert first_difference({"a": [1, {"b": 2}]}, {"a": [1, {"b": True}]}) == "a[1].b: 2 -> true"
    assert first_difference({"a": 1}, {"a": 1, "c": None, "d": 5}) == "d: null -> 5"
    assert first_difference([1], [1, 2]) == ": [1] -> [1, 2]"
    assert first_difference({"a": 1}, {"a": 1}) == ""


def test_only_tables_that_remember_deletes_say_for_how_long() -> None:
    """How long deleted keys are remembered is in the value, and in the hash, of tables that a column orders alone."""

    def hash_of_policy(write: WritePolicy) -> str:
        spec = replace(loaded().spec, tables=TablesSpec(TablePolicy(write=write)))
        return plan_hash([replace(loaded(), spec=spec)])

    by_source = WritePolicy(WriteMode.UPSERT, ("id",))
    by_field = replace(by_source, order_field="version")
    assert hash_of_policy(by_source) == hash_of_policy(replace(by_source, remember_deletes_ms=1))
    assert hash_of_policy(by_field) != hash_of_policy(replace(by_field, remember_deletes_ms=1))


def test_what_becomes_of_a_record_before_it_is_parsed_is_shown_and_hashed() -> None:
    """Elements, JSON inside of texts and envelopes by their paths are in the value that is reviewed, and in none that has
    nothing of them."""
    text = json.dumps(canonical(loaded()))
    assert [word for word in ("explode", "parsed", "envelope_paths") if word in text] == []
    source = loaded().spec.source
    sources = [
        source,
        replace(source, parsed=("doc",)),
        replace(source, format=FormatSpec(explode="$")),
        replace(source, format=FormatSpec(explode="items")),
        replace(source, format=FormatSpec(envelope=Envelope.FIELDS, envelope_paths=EnvelopePaths("what", "now"))),
        replace(source, format=FormatSpec(envelope=Envelope.FIELDS, envelope_paths=EnvelopePaths("what", "then"))),
    ]
    changed = [replace(loaded(), spec=replace(loaded().spec, source=each)) for each in sources]
    assert len({plan_hash([each]) for each in changed}) == len(sources)
    shown = ["\n".join(dict(explain_plan(compile_plan(each)))["Decode"]) for each in changed]
    assert "doc: text that is parsed as JSON" in shown[1]
    assert "a row for each element of the record" in shown[2]
    assert "a row for each element of items" in shown[3]
    assert "the operation at what and the row at now" in shown[4]
