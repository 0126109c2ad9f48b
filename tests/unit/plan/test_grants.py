"""The least set of Kafka grants, from plans."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from framework.config.spec import (
    KafkaSourceSpec,
    LoadedPipeline,
    PipelineSpec,
    RouteRule,
    RoutesSpec,
    SecretRef,
    SourceSpec,
    TargetSpec,
)
from framework.plan.compile import compile_plan
from framework.plan.grants.kafka import Grant, Resource, grants_for, replay_grants, source_topics
from framework.plan.grants.run import run_grants
from framework.plan.grants.store import StoreUser, store_policy
from framework.plan.grants.text import grant_document
from framework.plan.model import Plan


def plan(name: str = "orders", pattern: str | None = None, prefix: str = "team") -> Plan:
    source = SourceSpec(KafkaSourceSpec("main", () if pattern else ("shop.orders",), pattern))
    target = TargetSpec("t", {"main": {}}, {"default": {}}, prefix=prefix)
    return compile_plan(LoadedPipeline("a.yaml", PipelineSpec(name, source, RoutesSpec((RouteRule("a.b"),))), target))


def test_grants_are_listed_once_and_name_what_the_plan_names() -> None:
    """Two pipelines share the grants of their control topic and coordinator; groups and ids are each one's own."""
    grants = grants_for([plan(), plan("refunds")])
    assert len(set(grants)) == len(grants)
    named = {(grant.resource.value, grant.name, grant.operation) for grant in grants}
    assert named == {
        ("topic", "shop.orders", "Read"),
        ("topic", "control-iceberg", "Read"),
        ("topic", "control-iceberg", "Write"),
        ("topic", "control-iceberg", "DescribeConfigs"),
        ("group", "team-coordinator", "Read"),
        ("group", "team-orders", "Read"),
        ("group", "team-refunds", "Read"),
        ("transactional-id", "team-orders", "Write"),
        ("transactional-id", "team-refunds", "Write"),
    }


def test_a_replay_needs_what_a_run_does_not() -> None:
    """Group and transactional id of a replay are granted by the beginning that all replays of a pipeline share, and not
    to a pipeline that merely has a longer name."""
    grants = replay_grants([plan(), plan("orders-eu")])
    assert not set(grants) & set(grants_for([plan(), plan("orders-eu")]))
    assert {(grant.resource.value, grant.name, grant.operation, grant.prefixed) for grant in grants} == {
        ("group", "team-orders.replay", "Read", True),
        ("group", "team-orders-eu.replay", "Read", True),
        ("transactional-id", "team-orders.replay", "Write", True),
        ("transactional-id", "team-orders-eu.replay", "Write", True),
    }


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"^orders\.", ("orders.", True)),
        (r"^shop-v\d+", ("shop-v", True)),
        (r"^orders\.(eu|us)$", ("*", False)),
        ("orders", ("*", False)),
        ("^(a|b)", ("*", False)),
        ("^ab*c", ("a", True)),
        ("^a?b", ("*", False)),
        ("^orders{2}", ("order", True)),
    ],
)
def test_a_pattern_is_granted_by_what_all_its_topics_share(pattern: str, expected: tuple[str, bool]) -> None:
    """A grant for a pattern covers every topic that the pattern can match, and no more than can be said by a prefix."""
    assert source_topics(plan(pattern=pattern).read) == (expected,)


def test_a_grant_is_a_command() -> None:
    """Each grant is shown as the command that an administrator runs."""
    grant = Grant(Resource.TOPIC, "orders.", "Read", prefixed=True)
    assert grant.command("k:9092", "User:team") == (
        "kafka-acls.sh --bootstrap-server k:9092 --add --allow-principal User:team "
        "--operation Read --topic orders. --resource-pattern-type prefixed"
    )


GRANTS = json.loads((Path(__file__).parents[3] / "schemas" / "grants.v1.schema.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("catalog", "policies", "statements", "unknown"),
    [
        ({"type": "glue", "warehouse": "s3://lake/w"}, 6, 0, 0),
        ({"type": "sql", "uri": "postgresql+psycopg2://db/x", "warehouse": "file:///lake"}, 0, 9, 0),
        ({"type": "sql", "uri": SecretRef("env", "URI"), "warehouse": "s3a://lake"}, 3, 0, 1),
        ({"type": "rest", "uri": "http://c", "warehouse": "name"}, 0, 0, 2),
        ({"type": "hive", "uri": "thrift://h", "warehouse": "abfss://c@a/w"}, 0, 0, 1),
    ],
)
def test_what_is_not_known_is_said(
    catalog: dict[str, str | SecretRef], policies: int, statements: int, unknown: int
) -> None:
    """Each kind of catalog and store: what is computed, and a line for what floe cannot compute; no secret is resolved."""
    source = SourceSpec(KafkaSourceSpec("main", ("shop.orders",), None))
    target = TargetSpec("t", {"main": {"bootstrap.servers": "b:9092"}}, {"default": dict(catalog)})
    loaded = LoadedPipeline("a.yaml", PipelineSpec("orders", source, RoutesSpec((RouteRule("a.b"),))), target)
    document = grant_document(run_grants([loaded], "floe"), "User:floe")
    jsonschema.validate(document, GRANTS)
    [found] = document["catalogs"]
    assert (len(found["policies"]), len(found["statements"]), len(found["unknown"])) == (policies, statements, unknown)


def test_a_location_stands_for_itself_alone() -> None:
    """Whatever IAM would read as a pattern or a variable is written as the character that it is."""
    [files, _] = store_policy(["s3://lake/a*b?/${aws:username}"], StoreUser.OTHERS)["Statement"]
    assert files["Resource"] == ["arn:aws:s3:::lake/a${*}b${?}/${$}{aws:username}/*"]
