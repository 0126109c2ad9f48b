"""Invariant 7: after any exception the table is read back first, and no file goes while the outcome is unknown."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import BadRequestError, CommitFailedException
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse
from pyiceberg.types import LongType, NestedField

from framework.adapters.iceberg.tables import IcebergTables
from framework.commit.machine.effects import CommitConflict, CommitFailed, Committed
from framework.errors import FloeError
from framework.table.changes import AlterTable, CreateTable
from tests.iceberg.conftest import POLICY, SCHEMA, TOPIC, Lake
from tests.iceberg.lossy import LossyCatalog, OvertakenCatalog

pytestmark = pytest.mark.iceberg


@pytest.fixture
def lossy(lake: Lake) -> Iterator[IcebergTables]:
    """The lake's catalog, reached over a line that loses answers once a test sets `LossyCatalog.fault`."""
    yield through(lake, "LossyCatalog")
    LossyCatalog.fault, LossyCatalog.deaf = None, False


def through(lake: Lake, catalog_class: str) -> IcebergTables:
    settings = {key: value for key, value in lake.settings.items() if key != "type"}
    return IcebergTables({**settings, "py-catalog-impl": f"tests.iceberg.lossy.{catalog_class}"})


def avro_files(lake: Lake, name: str) -> set[str]:
    folder = Path(lake.plain(name).location().removeprefix("file://")) / "metadata"
    return {path.name for path in folder.glob("*.avro")}


@pytest.mark.parametrize("fault", ["applied, 409", "applied, 500"])
def test_an_applied_commit_is_found_whatever_the_answer_was(lake: Lake, lossy: IcebergTables, fault: str) -> None:
    """A commit that was applied counts as committed, also when the answer says 'conflict', and stays readable."""
    name = lake.create()
    effect = lake.effect(name, lake.files(name, [{"id": 1}]), 1)
    LossyCatalog.fault = fault
    answer = lossy.commit(effect)
    assert isinstance(answer, Committed)
    assert answer.view == lake.view(name)
    assert lake.rows(name) == [1]


def test_a_commit_that_was_not_applied_is_reported_so_and_its_files_stay(lake: Lake, lossy: IcebergTables) -> None:
    """Without a clear refusal the attempt may still arrive late, so its files are left where they are."""
    name = lake.create()
    effect = lake.effect(name, lake.files(name, [{"id": 1}]), 1)
    LossyCatalog.fault = "refused, 500"
    answer = lossy.commit(effect)
    assert isinstance(answer, CommitFailed)
    assert len(avro_files(lake, name)) == 2
    LossyCatalog.fault = None
    assert isinstance(lossy.commit(effect), Committed)
    assert lake.rows(name) == [1]


@pytest.mark.failure("F90")
def test_a_success_whose_answer_lacks_the_commit_is_none(lake: Lake, lossy: IcebergTables) -> None:
    """A catalog that swallows an error of its own answers 200 with the table as it was (apache/amoro#4290): the commit failed,
    its files stay, and the next try commits. Nothing is reported as committed, for a table would then seem put back."""
    name = lake.create()
    effect = lake.effect(name, lake.files(name, [{"id": 1}]), 1)
    for fault in ("refused, 200", "refused, 200"):
        LossyCatalog.fault = fault
        answer = lossy.commit(effect)
        assert isinstance(answer, CommitFailed)
        assert "answered that it did, without the snapshot" in answer.reason
    LossyCatalog.fault = None
    assert isinstance(lossy.commit(effect), Committed)
    assert lake.rows(name) == [1]


def test_a_catalog_that_falls_silent_leaves_everything_in_place(lake: Lake, lossy: IcebergTables) -> None:
    """When not even the reading back works, nothing is deleted, and the commit is found once the catalog answers."""
    name = lake.create()
    effect = lake.effect(name, lake.files(name, [{"id": 1}]), 1)
    LossyCatalog.fault = "deaf"
    answer = lossy.commit(effect)
    assert isinstance(answer, CommitFailed)
    assert "unknown" in answer.reason
    LossyCatalog.fault, LossyCatalog.deaf = None, False
    view = lossy.load_view(name, "main", TOPIC)
    assert view is not None
    assert view.progress == effect.progress
    assert isinstance(lossy.commit(effect), Committed)
    assert lake.rows(name) == [1]


def test_a_lost_answer_for_a_first_commit_to_a_branch(lake: Lake, lossy: IcebergTables) -> None:
    """The empty snapshot that main gets first is read back as well; the branch's own commit then goes on."""
    name = lake.create()
    effect = lake.effect(name, lake.files(name, [{"id": 1}]), 1, branch="audit")
    LossyCatalog.fault = "applied, 409"
    assert isinstance(lossy.commit(effect), Committed)
    assert lake.rows(name, "audit") == [1]


def test_a_rolled_back_commit_is_still_known_as_committed(lake: Lake) -> None:
    """A commit that landed and was rolled back by a person is not made again."""
    name = lake.create()
    first = lake.effect(name, lake.files(name, [{"id": 1}]), 1)
    landed = lake.tables.commit(first)
    assert isinstance(landed, Committed)
    second = lake.effect(name, lake.files(name, [{"id": 2}]), 2)
    assert isinstance(lake.tables.commit(second), Committed)
    lake.plain(name).manage_snapshots().rollback_to_snapshot(landed.snapshot_id).commit()
    again = lake.tables.commit(second)
    assert isinstance(again, Committed)
    assert again.view.snapshot_control_offset == 1
    assert lake.rows(name) == [1]


def test_after_a_certain_refusal_the_attempts_own_files_go(lake: Lake) -> None:
    """A refused attempt whose conditions can never hold again leaves no manifest behind, and no file of others goes."""
    name = lake.create()
    stale = lake.effect(name, lake.files(name, [{"id": 1}]), 1)
    slow = through(lake, "OvertakenCatalog")
    rival = lake.effect(name, lake.files(name, [{"id": 2}]), 1)
    OvertakenCatalog.overtake.append(lambda: lake.tables.commit(rival))
    answer = slow.commit(stale)
    assert isinstance(answer, CommitConflict)
    assert lake.rows(name) == [2]
    assert len(avro_files(lake, name)) == 2


def test_a_conflict_that_a_catalog_calls_a_bad_request_is_a_conflict(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some catalogs answer with 400 where the specification says 409 (apache/iceberg#16659): what the table says counts. The
    batch is decided again at once; whether others read the manifests of this attempt is not known, so they stay."""
    name = lake.create()
    stale = lake.effect(name, lake.files(name, [{"id": 1}]), 1)
    slow = through(lake, "OvertakenCatalog")
    rival = lake.effect(name, lake.files(name, [{"id": 2}]), 1)
    OvertakenCatalog.overtake.append(lambda: lake.tables.commit(rival))
    real = OvertakenCatalog.commit_table

    def malformed(catalog: OvertakenCatalog, *given: Any) -> CommitTableResponse:
        try:
            return real(catalog, *given)
        except CommitFailedException as error:
            raise BadRequestError("Malformed request: Commit validation failed") from error

    monkeypatch.setattr(OvertakenCatalog, "commit_table", malformed)
    assert isinstance(slow.commit(stale), CommitConflict)
    again = replace(stale, view=lake.view(name), progress=replace(stale.progress, control_offset=2))
    assert isinstance(slow.commit(again), Committed)
    assert lake.rows(name) == [1, 2]


def test_a_locked_database_is_an_unknown_outcome(lake: Lake) -> None:
    """SQLite's 'database is locked' is read back like any other exception, and the commit succeeds afterwards."""
    name = lake.create()
    impatient = IcebergTables({**lake.settings, "uri": lake.settings["uri"] + "?timeout=0.1"})
    effect = lake.effect(name, lake.files(name, [{"id": 1}]), 1)
    holder = sqlite3.connect(lake.settings["uri"].removeprefix("sqlite:///"), isolation_level=None)
    try:
        holder.execute("BEGIN IMMEDIATE")
        answer = impatient.commit(effect)
        assert isinstance(answer, CommitFailed)
        assert "locked" in answer.reason
        holder.execute("ROLLBACK")
        assert isinstance(impatient.commit(effect), Committed)
    finally:
        holder.close()
    assert lake.rows(name) == [1]


def test_a_lost_answer_to_a_creation_is_success(lake: Lake, lossy: IcebergTables) -> None:
    """A table that exists after a failed call was created, by whomever."""
    LossyCatalog.fault = "applied, 500"
    lossy.create_table(CreateTable("shop.orders", SCHEMA.model_dump_json(), (), ()))
    assert lake.rows("shop.orders") == []


def test_a_lost_answer_to_a_change_of_the_schema_is_success(lake: Lake, lossy: IcebergTables) -> None:
    """A schema that is current after a failed call was made so; where it is not, the failure is told and nothing was
    changed."""
    name = lake.create()
    target = lake.tables.load_target(name, POLICY)
    assert target is not None
    wider = Schema(*SCHEMA.fields, NestedField(3, "more", LongType(), required=False))
    change = AlterTable(name, target.table_uuid, 0, 2, wider.model_dump_json(), ())
    LossyCatalog.fault = "refused, 500"
    with pytest.raises(FloeError) as raised:
        lossy.alter_table(change)
    assert raised.value.code == "FLOE-R134", "it is tried again, as after any outage"
    assert lake.plain(name).schema().column_names == ["id", "name"]
    LossyCatalog.fault = "applied, 409"
    assert lossy.alter_table(change) is True
    assert lake.plain(name).schema().column_names == ["id", "name", "more"]
