"""Tables of format version 3 in a real SQL catalog: every row has an id, and keeps it; what cannot be written is
refused; default values of columns hold for others. Row ids are read by `tests.iceberg.lineage`, which shares nothing
with the writer."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.manifest import ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
)

from framework.adapters.iceberg.commits.commit import TableCommits
from framework.adapters.iceberg.define import create
from framework.adapters.iceberg.private import row_lineage as iceberg_row_lineage
from framework.adapters.parquet.files import TableWriter
from framework.commit.machine.effects import CommitConflict, CommitFailed, Committed, RecoverTable
from framework.config.spec import EvolveMode, RouteRule
from framework.errors import TableBlocked
from framework.record.process import process_block
from framework.table.changes import AlterTable, CreateTable
from testbed.record_samples import block, plan, policy
from tests.iceberg.conftest import POLICY, SCHEMA, Lake
from tests.iceberg.lineage import change, lineage, local, raw, some_files, upgrade

pytestmark = pytest.mark.iceberg

MERGING = {"format_version": "3", "commit.manifest.min-count-to-merge": "3"}


def ok(answer: object) -> Committed:
    assert isinstance(answer, Committed), answer
    return answer


def recover(lake: Lake, name: str, offset: int, onto: int | None) -> RecoverTable:
    plain = lake.effect(name, (), offset)
    return RecoverTable(
        plain.table, plain.view, plain.commit_id, (), plain.progress, plain.valid_through_ms, properties={}, onto=onto
    )


STEPS = st.one_of(
    st.tuples(st.just("main"), st.lists(st.integers(1, 9), min_size=0, max_size=3)),
    st.tuples(st.just("audit"), st.lists(st.integers(1, 9), min_size=1, max_size=2)),
    st.tuples(st.just("upgrade"), st.just([])),
    st.tuples(st.just("rollback"), st.lists(st.integers(0, 20), min_size=1, max_size=1)),
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEPS, min_size=4, max_size=12))
def test_rows_keep_their_ids_whatever_is_committed(lake: Lake, steps: list[tuple[str, list[int]]]) -> None:
    """Appends of any sizes, empty commits, merged manifests, branches, rollbacks and an upgrade in between leave every
    row with one id that it keeps."""
    name = f"shop.t{uuid.uuid4().hex[:8]}"
    lake.create(name, **{**MERGING, "format_version": "2" if ("upgrade", []) in steps else "3"})
    upgraded = ("upgrade", []) not in steps
    for offset, (kind, numbers) in enumerate(steps, 1):
        if kind == "upgrade":
            if not upgraded:
                upgrade(lake, name)
            upgraded = True
        elif kind == "rollback":
            line = lake.tables.snapshots(name)
            # Back to before the upgrade the rows have no ids yet, and get new ones: that is no rollback of ids.
            line = [each for each in line if each.snapshot_id in lineage_ids(lake, name)] if upgraded else line
            if line:
                onto = line[min(numbers[0], len(line) - 1)].snapshot_id
                ok(lake.tables.commit(recover(lake, name, offset, onto)))
        else:
            ok(lake.tables.commit(lake.effect(name, some_files(numbers), offset, branch=kind)))
    if not upgraded:
        upgrade(lake, name)
    lineage(lake.plain(name))
    ok(lake.tables.commit(lake.effect(name, some_files([4]), 99)))
    after = lineage(lake.plain(name))
    assert len(after.files[lake.plain(name).metadata.current_snapshot_id or 0]) >= 1


def lineage_ids(lake: Lake, name: str) -> set[int]:
    return {each["snapshot-id"] for each in raw(lake.plain(name))["snapshots"] if "first-row-id" in each}


def test_appends_get_the_ids_that_follow(lake: Lake) -> None:
    """The first row of a new table has the id 0, and each append goes on where the one before it ended."""
    name = lake.create(format_version="3")
    assert raw(lake.plain(name))["next-row-id"] == 0
    for offset, rows in enumerate((3, 1, 5), 1):
        ok(lake.tables.commit(lake.effect(name, lake.files(name, [{"id": n} for n in range(rows)]), offset)))
    found = lineage(lake.plain(name))
    assert found.next_row_id == 9
    assert sorted(list(found.files.values())[-1].values()) == [(0, 3), (3, 1), (4, 5)]
    assert lake.rows(name) == [0, 0, 0, 1, 1, 2, 2, 3, 4]


def test_an_upgraded_table_gives_its_old_rows_ids_once(lake: Lake) -> None:
    """The first commit after an upgrade gives ids to what was there: its own rows first, as Iceberg's own writer
    does."""
    name = lake.create(format_version="2")
    for offset, rows in enumerate((3, 1), 1):
        ok(lake.tables.commit(lake.effect(name, some_files([rows]), offset)))
    upgrade(lake, name)
    ok(lake.tables.commit(lake.effect(name, some_files([7]), 3)))
    assert sorted(list(lineage(lake.plain(name)).files.values())[-1].values()) == [(0, 7), (7, 1), (8, 3)]
    ok(lake.tables.commit(lake.effect(name, (), 4)))
    assert lineage(lake.plain(name)).next_row_id == 11


@pytest.mark.parametrize("fault", ["no ids in lists", "no ids in entries", "ids twice"])
def test_the_check_above_finds_writers_that_break_the_rules(
    lake: Lake, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that gives manifests no ids, forgets those of merged files, or gives the same ones again is found
    out."""
    own = iceberg_row_lineage.with_row_ids

    def without_ids(manifests: list[ManifestFile], next_row_id: int) -> tuple[list[ManifestFile], int]:
        listed, taken = own(manifests, next_row_id)
        for each in listed:
            each[15] = None
        return listed, taken

    def twice(manifests: list[ManifestFile], next_row_id: int) -> tuple[list[ManifestFile], int]:
        return own(manifests, next_row_id)[0], 0

    if fault == "no ids in entries":
        monkeypatch.setattr(
            iceberg_row_lineage, "read_live_entries", lambda io, manifest, written: manifest.fetch_manifest_entry(io)
        )
    else:
        monkeypatch.setattr(iceberg_row_lineage, "with_row_ids", without_ids if "lists" in fault else twice)
    name = lake.create(**MERGING)
    for offset in range(1, 6):
        ok(lake.tables.commit(lake.effect(name, some_files([2]), offset)))
    with pytest.raises(AssertionError):
        lineage(lake.plain(name))


def test_a_commit_that_another_branch_overtook_is_made_again(lake: Lake) -> None:
    """Row ids that somebody else took meanwhile, on another branch, are never given twice: the commit is
    refused for certain, and succeeds when it is made again."""
    name = lake.create(format_version="3")
    ok(lake.tables.commit(lake.effect(name, some_files([2]), 1)))
    ok(lake.tables.commit(lake.effect(name, some_files([2]), 2, branch="audit")))
    late = lake.effect(name, some_files([3]), 3, branch="audit")
    other = Lake(lake.settings)
    ok(other.tables.commit(other.effect(name, some_files([5]), 2, topic="another-control-topic")))
    answer = lake.tables.commit(late)
    assert isinstance(answer, CommitConflict), answer
    ok(lake.tables.commit(replace(late, view=lake.view(name, "audit"))))
    assert lineage(lake.plain(name)).next_row_id == 12


def test_a_table_upgraded_in_front_of_a_commit_is_committed_to_anew(lake: Lake) -> None:
    """A commit that was decided on version 2 is refused by the table of version 3, whole, and succeeds when it is made
    again."""
    name = lake.create(format_version="2")
    ok(lake.tables.commit(lake.effect(name, some_files([2]), 1)))
    late = lake.effect(name, some_files([3]), 2)
    upgrade(lake, name)
    answer = lake.tables.commit(late)
    assert isinstance(answer, CommitConflict), answer
    ok(lake.tables.commit(replace(late, view=lake.view(name))))
    assert sorted(list(lineage(lake.plain(name)).files.values())[-1].values()) == [(0, 3), (3, 2)]


def test_a_first_commit_to_a_branch_makes_main_first(lake: Lake) -> None:
    """An empty table gets main with an empty snapshot, which takes no ids, and then the branch."""
    name = lake.create(format_version="3")
    ok(lake.tables.commit(lake.effect(name, lake.files(name, [{"id": 1}, {"id": 2}]), 1, branch="audit")))
    found = lineage(lake.plain(name))
    assert [len(files) for files in found.files.values()] == [0, 1]
    assert (lake.rows(name), lake.rows(name, "audit")) == ([], [1, 2])


# ---- tables that others made ----------------------------------------------------------------------------------------


def add_column(metadata: dict[str, Any], kind: str) -> None:
    metadata["schemas"][0]["fields"].append({"id": 3, "name": "place", "required": False, "type": kind})
    metadata["last-column-id"] = 3


VARIANT: list[object] = [
    {"type": "variant"},
    {"type": {"type": "struct", "fields": [{"id": 4, "name": "v", "required": False, "type": "variant"}]}},
    {"type": {"type": "list", "element-id": 4, "element-required": False, "element": "variant"}},
    {"type": "timestamp_ns", "initial-default": "2020-01-01T00:00:00.000000001"},
]


@pytest.mark.parametrize("column", VARIANT, ids=["variant", "in a struct", "in a list", "default"])
def test_a_table_with_a_type_that_pyiceberg_cannot_read_is_refused_by_name(
    lake: Lake, column: dict[str, object]
) -> None:
    """A table whose metadata has a variant column, or a default value in nanoseconds, says so wherever it is asked, and
    nothing of it is touched."""
    name = lake.create(format_version="3")
    view = lake.view(name)
    lacking = "default value of the type timestamp_ns" if "initial-default" in column else "column of the type variant"

    def add(metadata: dict[str, Any]) -> None:
        metadata["schemas"][0]["fields"].append({"id": 3, "name": "payload", "required": False, **column})

    location = change(lake, name, add)
    for asked in (lambda: lake.tables.load_target(name, POLICY), lambda: lake.tables.load_view(name, "main", "t")):
        with pytest.raises(TableBlocked, match=rf"shop\.orders cannot be written: it has a {lacking}") as caught:
            asked()
        assert caught.value.code == "FLOE-R131"
    answer = Lake(lake.settings).tables.commit(lake.effect(name, (), 1, view=view))
    assert isinstance(answer, CommitFailed)
    assert lacking in answer.reason
    assert list(local(location).parent.glob("*.avro")) == []


@pytest.mark.parametrize(
    ("reason", "changed"),
    [
        ("encryption.key-id", lambda metadata: metadata["properties"].update({"encryption.key-id": "key-1"})),
        ("next-row-id", lambda metadata: metadata.pop("next-row-id")),
        ("place is of the type geometry", lambda metadata: add_column(metadata, "geometry")),
        ("place is of the type geography", lambda metadata: add_column(metadata, "geography")),
        ("place is of the type unknown", lambda metadata: add_column(metadata, "unknown")),
    ],
)
def test_tables_that_cannot_be_written_rightly_are_refused(
    lake: Lake, reason: str, changed: Callable[[dict[str, Any]], None]
) -> None:
    """Encrypted tables, columns of types that floe does not write, and metadata without what row ids need are refused
    before anything is written."""
    name = lake.create(format_version="3")
    location = change(lake, name, changed)
    with pytest.raises(TableBlocked, match=reason) as caught:
        lake.tables.load_target(name, POLICY)
    assert caught.value.code == "FLOE-R131"
    answer = lake.tables.commit(lake.effect(name, (), 1, branch="audit"))
    assert isinstance(answer, CommitFailed)
    assert reason in answer.reason
    assert list(local(location).parent.glob("*.avro")) == []


def test_catalogs_whose_metadata_pyiceberg_writes_have_no_version_3(lake: Lake) -> None:
    """Where the client writes the metadata, and PyIceberg's own class is that client, version 3 is refused before
    anything is made."""
    commits = TableCommits(lake.catalog)  # of the kind that Hive's and Glue's are
    name = lake.create(format_version="3")
    answer = commits.commit(lake.effect(name, (), 1))
    assert isinstance(answer, CommitFailed)
    assert "only through REST and SQL catalogs" in answer.reason
    with pytest.raises(TableBlocked, match=r"shop\.more cannot be created with Iceberg format version 3") as caught:
        create(lake.catalog, CreateTable("shop.more", SCHEMA.model_dump_json(), (), (("format-version", "3"),)))
    assert caught.value.code == "FLOE-R131"
    assert lake.tables.list_tables() == [name]


DEFAULTS = Schema(
    *SCHEMA.fields,
    NestedField(3, "size", IntegerType(), required=False, initial_default=7, write_default=8),
    NestedField(
        4, "since", DateType(), required=True, initial_default=date(2020, 2, 29), write_default=date(2024, 1, 1)
    ),
    NestedField(5, "kind", StringType(), required=True, initial_default="old", write_default="new"),
)


def test_default_values_of_columns(lake: Lake) -> None:
    """Files from before a column came read its initial default; a value that a record lacks is null, and where the
    column is required the record is a dead letter: nothing is filled in for it. The defaults survive floe's own
    changes."""
    name = lake.create(format_version="3")
    old = lake.files(name, [{"id": 1}])
    ok(lake.tables.commit(lake.effect(name, old, 1)))
    target = lake.tables.load_target(name, POLICY)
    assert target is not None
    late = lake.files(name, [{"id": 2}])
    assert lake.tables.alter_table(AlterTable(name, target.table_uuid, 0, 2, DEFAULTS.model_dump_json(), ()))
    ok(lake.tables.commit(lake.effect(name, late, 2)))
    wider = Schema(*DEFAULTS.fields, NestedField(6, "more", LongType(), required=False), schema_id=1)
    assert lake.tables.alter_table(AlterTable(name, target.table_uuid, 1, 5, wider.model_dump_json(), ()))

    target = lake.tables.load_target(name, policy(columns=EvolveMode.FREEZE, nullability=EvolveMode.FREEZE))
    assert target is not None
    assert target.format_version == 3
    full = {"id": 3, "size": 1, "since": "2021-01-01", "kind": "k"}
    records = [full, {"id": 4, "since": "2021-01-01", "kind": "k"}, {"id": 5, "size": 1, "kind": "k"}]
    result = process_block(block(records), plan([RouteRule(name)], allow=["shop.*"]), {name: target})
    assert [(letter.offset, letter.code) for letter in result.dead_letters] == [(2, "FLOE-D305")]
    writer = TableWriter(lake.tables.io_properties(), "p", "run", 1, 1 << 28, 1 << 28)
    writer.add(target, result.rows[name])
    files = writer.finish()[name]
    assert pq.read_schema(local(files[0].path)).names == ["id", "name", "size", "since", "kind", "more"]
    ok(lake.tables.commit(lake.effect(name, files, 3)))

    rows = lake.plain(name).scan().to_arrow().sort_by("id")
    assert rows.select(["id", "size", "since", "kind"]).to_pylist() == [
        {"id": 1, "size": 7, "since": date(2020, 2, 29), "kind": "old"},
        {"id": 2, "size": 7, "since": date(2020, 2, 29), "kind": "old"},
        {"id": 3, "size": 1, "since": date(2021, 1, 1), "kind": "k"},
        {"id": 4, "size": None, "since": date(2021, 1, 1), "kind": "k"},
    ]
    columns = {each["name"]: each for each in raw(lake.plain(name))["schemas"][-1]["fields"]}
    assert [columns["size"][key] for key in ("initial-default", "write-default")] == [7, 8]
    assert [columns["since"][key] for key in ("initial-default", "write-default")] == ["2020-02-29", "2024-01-01"]
