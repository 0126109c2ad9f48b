"""Lineage events: valid by the published schemas, exact in offsets and counts, and without what is nobody's business."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.commit.events.event_types import Accounting, DataFile, KeysFile, UpsertChanges
from framework.commit.machine.effects import CommitTable, Committed, ExaminedTable, PipelineProgress, TableProgress
from framework.config.spec import SecretRef
from framework.config.values.owners import Owners, OwningTeam
from framework.lineage.events import run_began, run_ended, table_committed
from framework.lineage.values import (
    Names,
    RunBegan,
    RunEnd,
    RunEnded,
    TableCommitted,
    TableSchema,
    catalog_namespace,
    column_sources,
    committed,
    kafka_namespace,
)
from tests.unit.lineage.schemas import check_event

NAMES = Names("prod", "kafka://b:9092", {"default": "https://catalog", "other": "hive://h:9083"})
SCHEMA = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "required": True, "type": "long", "doc": "which"},
        {
            "id": 2,
            "name": "who",
            "required": False,
            "type": {
                "type": "struct",
                "fields": [
                    {
                        "id": 3,
                        "name": "tags",
                        "required": False,
                        "type": {"type": "list", "element-id": 4, "element": "string", "element-required": False},
                    }
                ],
            },
        },
        {"id": 5, "name": "_kafka_offset", "required": False, "type": "long"},
    ],
}
TABLE = TableSchema(json.dumps(SCHEMA), 3, "s3://lake/shop/orders")
PLAN: dict[str, Any] = {
    "transform": None,
    "decode": {
        "format": {"type": "json", "envelope": "none", "column": "value"},
        "key": None,
        "hints": [{"path": "id", "type": "long"}],
    },
    "write": {"dead_letter_table": "shop.letters"},
}


def effect(
    before: dict[str, PipelineProgress] | None,
    after: dict[str, PipelineProgress],
    files: tuple[DataFile, ...] = (),
    keyed: tuple[UpsertChanges, ...] = (),
    table: str = "shop.orders",
) -> CommitTable:
    progress = None if before is None else TableProgress("control", 10, before)
    view = ExaminedTable(table, "uuid", "main", 1, 3, progress)
    return CommitTable(table, view, "commit-1", files, TableProgress("control", 20, after), None, keyed=keyed)


def outcome(asked: CommitTable) -> Committed:
    return Committed(asked.table, asked.commit_id, asked.view, 8_000_000_000_000_000_001, 1_700_000_000_123)


def reported(asked: CommitTable) -> TableCommitted:
    return committed(asked, outcome(asked))


def test_a_commit_names_what_it_read_and_what_it_wrote() -> None:
    """The offsets between the table's record before and after, the snapshot, the schema, columns and counts."""
    before = PipelineProgress(4, {"orders": {"0": 10, "1": 5}}, {"orders": "t1"})
    after = PipelineProgress(5, {"orders": {"0": 25, "1": 5, "2": 7}}, {"orders": "t1"})
    files = (DataFile("s3://lake/a.parquet", 12, 1000, 0), DataFile("s3://lake/b.parquet", 3, 500, 0))
    asked = effect({"shop": before}, {"shop": after}, files)

    (event,) = table_committed(reported(asked), {"shop": "run-1"}, {"shop": PLAN}, TABLE, NAMES)

    check_event(event)
    assert event["eventType"] == "RUNNING"
    assert event["eventTime"] == "2023-11-14T22:13:20.123+00:00"
    assert event["job"]["name"] == "shop"
    (read,) = event["inputs"]
    assert (read["namespace"], read["name"]) == ("kafka://b:9092", "orders")
    assert read["inputFacets"]["floe_offsets"]["ranges"] == [
        {"partition": 0, "start": 10, "end": 25},
        {"partition": 2, "start": None, "end": 7},
    ]
    (written,) = event["outputs"]
    assert (written["namespace"], written["name"]) == ("https://catalog", "shop.orders")
    facets, statistics = written["facets"], written["outputFacets"]["outputStatistics"]
    assert facets["version"]["datasetVersion"] == "8000000000000000001"
    assert [(field["name"], field["type"]) for field in facets["schema"]["fields"]] == [
        ("id", "long"),
        ("who", "struct"),
        ("_kafka_offset", "long"),
    ]
    assert facets["schema"]["fields"][1]["fields"] == [{"name": "tags", "type": "list<string>"}]
    assert facets["symlinks"]["identifiers"] == [{"namespace": "s3://lake", "name": "shop/orders", "type": "LOCATION"}]
    lineage = facets["columnLineage"]["fields"]
    assert set(lineage) == {"id", "who"}
    assert lineage["id"]["inputFields"] == [
        {
            "namespace": "kafka://b:9092",
            "name": "orders",
            "field": "id",
            "transformations": [{"type": "DIRECT", "subtype": "TRANSFORMATION"}],
        }
    ]
    assert lineage["who"]["inputFields"][0]["transformations"][0]["subtype"] == "IDENTITY"
    assert (statistics["rowCount"], statistics["size"], statistics["fileCount"]) == (15, 1500, 2)
    assert "a.parquet" not in json.dumps(event)


def test_rows_of_several_pipelines_are_given_to_none_of_them() -> None:
    """A commit that holds records of two pipelines is an event of each; whose rows they are is not claimed."""
    after = {name: PipelineProgress(1, {name: {"0": 3}}, {name: "t"}) for name in ("one", "two")}
    asked = effect(None, after, (DataFile("f", 6, 10, 0),))
    found = table_committed(reported(asked), {"one": "r1"}, {}, None, NAMES)
    for event, name in zip(found, ("one", "two"), strict=True):
        check_event(event)
        assert [read["name"] for read in event["inputs"]] == [name]
        assert "outputStatistics" not in event["outputs"][0]["outputFacets"]
        commit = event["outputs"][0]["outputFacets"]["floe_commit"]
        assert (commit["rows"], commit["pipelines"]) == (6, ["one", "two"])
    assert found[0]["run"]["runId"] != found[1]["run"]["runId"]


def test_what_is_not_known_is_not_claimed() -> None:
    """With SQL, without a plan, or with another schema than the commit's there are no columns; a topic that was made anew
    begins nowhere; a table of dead letters is one and has no columns of the records."""
    before = PipelineProgress(1, {"orders": {"0": 10}}, {"orders": "old"})
    after = PipelineProgress(2, {"orders": {"0": 4}}, {"orders": "new"})
    asked = effect({"shop": before}, {"shop": after})
    for plan, schema in (
        ({**PLAN, "transform": {"sql": "SELECT 1"}}, TABLE),
        (None, TABLE),
        ({"transform": None}, TABLE),
        (PLAN, TableSchema(TABLE.schema_json, 2, "")),
        (PLAN, None),
    ):
        plans = {"shop": plan} if plan else {}
        (event,) = table_committed(reported(asked), {}, plans, schema, NAMES)
        check_event(event)
        assert "columnLineage" not in event["outputs"][0]["facets"]
        ranges = event["inputs"][0]["inputFacets"]["floe_offsets"]["ranges"]
        assert ranges == [{"partition": 0, "start": None, "end": 4}]
    letters = effect({"shop": before}, {"shop": after}, table="shop.letters")
    (event,) = table_committed(reported(letters), {}, {"shop": PLAN}, TABLE, NAMES)
    assert event["outputs"][0]["outputFacets"]["floe_commit"]["deadLetters"] is True
    assert "columnLineage" not in event["outputs"][0]["facets"]


def test_columns_of_envelopes_and_keys_name_the_fields_they_come_from() -> None:
    """Debezium's row is `after`, its own fields are where they stand there, the key's have its prefix; Kafka's have none."""
    form = {"type": "json", "envelope": "debezium", "column": "value"}
    plan = {"transform": None, "decode": {"format": form, "key": {"prefix": "key_"}, "hints": []}}
    columns = ("id", "__op", "__source_table", "key_id", "_kafka_offset", "_op")
    assert column_sources(plan, columns) == {
        "id": ("after.id", False),
        "__op": ("op", False),
        "__source_table": ("source.table", False),
        "key_id": ("key.id", False),
    }
    paths = {"operation": "head.what", "after": "now", "fields": ["head.by", "at"]}
    own = {"type": "json", "envelope": "fields", "envelope_paths": paths, "column": "value"}
    plan = {"transform": None, "decode": {"format": own, "key": None, "hints": [], "parsed": ["doc"]}}
    assert column_sources(plan, ("id", "doc", "__op", "__head_by", "__at", "_kafka_index")) == {
        "id": ("now.id", False),
        "doc": ("now.doc", True),
        "__op": ("head.what", False),
        "__head_by": ("head.by", False),
        "__at": ("at", False),
    }
    raw = {"type": "raw", "envelope": "none", "column": "Body"}
    assert column_sources({"transform": None, "decode": {"format": raw, "key": None, "hints": []}}, ("body",)) == {
        "body": ("value", False)
    }


def test_a_run_says_who_owns_its_pipeline() -> None:
    """Each duty that somebody owns stands in OpenLineage's facet of ownership; where nobody does there is none."""
    owners = Owners(OwningTeam("team-orders", "#orders"), dead_letters=OwningTeam("team-night"))
    began = run_began(RunBegan("shop", "run-1", 1_000, (), (), owners), NAMES)
    check_event(began)
    assert began["job"]["facets"]["ownership"]["owners"] == [
        {"name": "team:team-orders", "type": "pipeline"},
        {"name": "team:team-night", "type": "dead_letters"},
    ]
    assert "ownership" not in run_began(RunBegan("shop", "run-1", 1_000, (), ()), NAMES)["job"]["facets"]


@pytest.mark.parametrize("end", list(RunEnd))
def test_a_run_has_one_id_from_begin_to_end(end: RunEnd) -> None:
    """Its begin, its commits and its end are events of one run; an error is told by its code, never by its words."""
    began = run_began(RunBegan("shop", "run-1", 1_000, ("orders",), ("shop.orders", "other:x.y")), NAMES)
    accounting = Accounting(10, 5, 1, 2, 1, 1, 5)
    ended = run_ended(
        RunEnded("shop", "run-1", 2_000, end, "FLOE-R109" if end is RunEnd.FAIL else "", 3, accounting), NAMES
    )
    asked = effect(None, {"shop": PipelineProgress(1, {"orders": {"0": 3}}, {"orders": "t"})})
    (commit,) = table_committed(reported(asked), {"shop": "run-1"}, {}, None, NAMES)
    for event in (began, ended, commit):
        check_event(event)
    assert len({event["run"]["runId"] for event in (began, ended, commit)}) == 1
    assert [(each["namespace"], each["name"]) for each in began["outputs"]] == [
        ("https://catalog", "shop.orders"),
        ("hive://h:9083", "x.y"),
    ]
    assert ended["eventType"] == end.value
    assert ended["run"]["facets"]["floe_run"]["records"]["dead_lettered"] == 2
    assert ("errorMessage" in ended["run"]["facets"]) == (end is RunEnd.FAIL)
    if end is RunEnd.FAIL:
        assert ended["run"]["facets"]["errorMessage"]["message"].startswith("FLOE-R109: ")


NAMES_OF = st.text('ab-.\u00e9"\\\n', min_size=1, max_size=8)
PROGRESS = st.builds(
    lambda batch, offsets, ids: PipelineProgress(batch, offsets, dict.fromkeys(offsets, ids)),
    st.integers(0, 9),
    st.dictionaries(
        NAMES_OF, st.dictionaries(st.integers(0, 20).map(str), st.integers(0, 2**62), max_size=3), max_size=3
    ),
    st.sampled_from(["t1", "t2"]),
)


@settings(max_examples=150)
@given(
    st.none() | st.dictionaries(NAMES_OF, PROGRESS, max_size=3),
    st.dictionaries(NAMES_OF, PROGRESS, max_size=3),
    st.lists(st.builds(DataFile, st.text(), st.integers(0, 9), st.integers(0, 9), st.just(0)), max_size=3),
    st.booleans(),
)
def test_whatever_was_committed_is_reported_exactly(
    before: dict[str, PipelineProgress] | None, after: dict[str, PipelineProgress], files: list[DataFile], keyed: bool
) -> None:
    """Every event is valid, and the ranges of the events are the difference of the records, partition by partition."""
    changes = (UpsertChanges(1, (1,), (KeysFile("k", 1, 1),), 1, 2, 3),) if keyed else ()
    asked = effect(before, after, tuple(files), changes)
    commit = reported(asked)
    events = table_committed(commit, {}, dict.fromkeys(after, PLAN), TABLE, NAMES)
    found = {}
    for event in events:
        check_event(event)
        for read in event["inputs"]:
            for part in read["inputFacets"]["floe_offsets"]["ranges"]:
                found[event["job"]["name"], read["name"], part["partition"]] = (part["start"], part["end"])
    expected = {}
    for name, progress in after.items():
        old = (before or {}).get(name)
        for topic, ends in progress.offsets.items():
            same = old is not None and old.topic_ids.get(topic, "") == progress.topic_ids.get(topic, "")
            for partition, end in ends.items():
                start = old.offsets.get(topic, {}).get(partition) if old is not None and same else None
                if start != end:
                    expected[name, topic, int(partition)] = (start, end)
    assert found == expected
    assert commit.rows == sum(file.record_count for file in files)
    assert commit.replaced == (5 if keyed else 0)


@pytest.mark.parametrize(
    ("settings_", "shown"),
    [
        ({"type": "rest", "uri": "https://u:p@host:8181/api?token=x"}, "https://host:8181/api"),
        ({"type": "sql", "uri": "postgresql+psycopg2://u:p%40x@db/lake"}, "postgresql+psycopg2://db/lake"),
        ({"type": "hive", "uri": "thrift://a:9083,thrift://b:9083"}, "thrift://a:9083"),
        ({"type": "glue"}, "glue://main"),
        ({"type": "rest", "uri": SecretRef("env", "URI")}, "rest://main"),
    ],
)
def test_a_catalog_is_named_without_its_secrets(settings_: dict[str, Any], shown: str) -> None:
    """User, password and query of its address are no part of a name that others see."""
    assert catalog_namespace("main", settings_) == shown


@pytest.mark.parametrize(
    ("servers", "shown"),
    [("b1:9093, b2:9093", "kafka://b1:9093"), ("b1", "kafka://b1:9092"), ("SSL://b1:9093", "kafka://b1:9093")],
)
def test_a_cluster_is_named_by_its_first_broker(servers: str, shown: str) -> None:
    """As OpenLineage's naming has it, with a port."""
    assert kafka_namespace(servers) == shown
