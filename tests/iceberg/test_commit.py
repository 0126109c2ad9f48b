"""The table commit against a real catalog, read back with PyIceberg's own scans and inspections."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from framework.commit.events.event_types import DataFile
from framework.commit.machine.effects import CommitConflict, CommitFailed, CommitTable, Committed, RecoverTable
from tests.iceberg.conftest import SCHEMA, TOPIC, Lake

pytestmark = pytest.mark.iceberg


def rows(*ids: int) -> list[dict[str, object]]:
    return [{"id": each, "name": f"n{each}"} for each in ids]


def commit(lake: Lake, name: str, ids: list[int], offset: int, branch: str = "main") -> Committed:
    answer = lake.tables.commit(lake.effect(name, lake.files(name, rows(*ids)), offset, branch=branch))
    assert isinstance(answer, Committed), answer
    return answer


def recovery_of(effect: CommitTable) -> RecoverTable:
    """The same commit as one of a verb of recovery."""
    return RecoverTable(
        effect.table, effect.view, effect.commit_id, effect.files, effect.progress, effect.valid_through_ms,
        notes={"floe.recovery": "rollback"},
    )  # fmt: skip


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_rows_progress_and_summary_arrive_in_one_snapshot(lake: Lake, version: str) -> None:
    """One commit makes the rows visible, records the progress and says in the summary which commit it was."""
    name = lake.create(format_version=version)
    effect = lake.effect(name, lake.files(name, rows(1, 2, 3)), 7)
    answer = lake.tables.commit(effect)
    assert isinstance(answer, Committed)
    table = lake.plain(name)
    snapshot = table.current_snapshot()
    assert table.metadata.format_version == int(version)
    assert lake.rows(name) == [1, 2, 3]
    assert snapshot is not None
    assert snapshot.summary is not None
    assert answer.snapshot_id == snapshot.snapshot_id
    assert answer.timestamp_ms == snapshot.timestamp_ms
    said = snapshot.summary.additional_properties
    assert said["floe.control-offset"] == "7"
    assert said["floe.control-topic-id"] == TOPIC
    assert said["floe.commit-id"] == effect.commit_id
    assert said["floe.valid-through-ts"] == "1000"
    assert (said["added-records"], said["added-data-files"], said["total-records"]) == ("3", "1", "3")
    assert answer.view == lake.view(name)
    assert answer.view.progress == effect.progress


def test_totals_and_parents_form_one_history(lake: Lake) -> None:
    """Each snapshot names its parent and continues the running totals of the one before."""
    name = lake.create()
    first = commit(lake, name, [1, 2], 1)
    second = commit(lake, name, [3], 2)
    infos = lake.tables.snapshots(name)
    assert [info.snapshot_id for info in infos] == [second.snapshot_id, first.snapshot_id]
    assert infos[0].parent_id == first.snapshot_id
    assert (infos[0].added_rows, infos[0].total_rows, infos[0].total_files) == (1, 3, 2)
    assert (infos[0].control_offset, infos[1].control_offset) == (2, 1)
    assert lake.tables.snapshots(name, limit=1) == infos[:1]


def test_an_empty_commit_moves_progress_with_a_snapshot(lake: Lake) -> None:
    """Progress alone also makes a snapshot, so that a commit that was decided before it is refused."""
    name = lake.create()
    commit(lake, name, [1], 1)
    before = lake.view(name)
    assert isinstance(lake.tables.commit(lake.effect(name, (), 5)), Committed)
    late = lake.tables.commit(lake.effect(name, lake.files(name, rows(2)), 6, view=before))
    assert isinstance(late, CommitConflict)
    assert lake.rows(name) == [1]
    assert lake.view(name).snapshot_control_offset == 5


def test_a_commit_is_refused_when_the_head_has_moved(lake: Lake) -> None:
    """A commit decided from an older branch head changes nothing and is told apart from a failure."""
    name = lake.create()
    commit(lake, name, [1], 1)
    stale = lake.view(name)
    commit(lake, name, [2], 2)
    answer = lake.tables.commit(lake.effect(name, lake.files(name, rows(3)), 3, view=stale))
    assert isinstance(answer, CommitConflict)
    assert "is at snapshot" in answer.reason
    assert lake.rows(name) == [1, 2]


def test_the_first_commit_is_refused_when_another_came_first(lake: Lake) -> None:
    """'No snapshot yet' is a condition like any other: of two first commits one is refused."""
    name = lake.create()
    empty = lake.view(name)
    assert empty.snapshot_id is None
    one = lake.effect(name, lake.files(name, rows(1)), 1, view=empty)
    other = lake.effect(name, lake.files(name, rows(2)), 1, view=empty)
    assert isinstance(lake.tables.commit(one), Committed)
    assert isinstance(lake.tables.commit(other), CommitConflict)
    assert lake.rows(name) == [1]


def test_a_table_that_was_dropped_and_made_again_takes_no_old_files(lake: Lake) -> None:
    """Files announced for a table never land in another one of the same name."""
    name = lake.create()
    effect = lake.effect(name, lake.files(name, rows(1)), 1)
    lake.catalog.drop_table(name)
    gone = lake.tables.commit(effect)
    lake.create(name)
    replaced = lake.tables.commit(effect)
    assert isinstance(gone, CommitConflict)
    assert isinstance(replaced, CommitConflict)
    assert "replaced" in replaced.reason
    assert lake.plain(name).metadata.snapshots == []


def test_a_commit_is_refused_when_the_schema_has_changed(lake: Lake) -> None:
    """A commit decided under one schema is not made under another, even if no snapshot came between."""
    name = lake.create()
    effect = lake.effect(name, lake.files(name, rows(1)), 1)
    with lake.plain(name).update_schema() as update:
        update.delete_column("name")
    answer = lake.tables.commit(effect)
    assert isinstance(answer, CommitConflict)
    assert "schema" in answer.reason
    assert lake.view(name).unusable_schema_ids == {0}


def test_another_party_that_writes_between_examination_and_commit_wins(lake: Lake) -> None:
    """An append by another engine after the view was taken makes the commit conflict, never overwrite."""
    name = lake.create()
    effect = lake.effect(name, lake.files(name, rows(1)), 1)
    table = lake.plain(name)
    table.append(lake.plain(name).scan().to_arrow())
    assert isinstance(lake.tables.commit(effect), CommitConflict)
    assert isinstance(lake.tables.commit(lake.effect(name, effect.files, 1)), Committed)
    assert lake.rows(name) == [1]


def test_the_same_effect_sent_again_is_recognised(lake: Lake) -> None:
    """A commit whose answer was lost is found by its id when it is sent again, also under later snapshots."""
    name = lake.create()
    effect = lake.effect(name, lake.files(name, rows(1)), 1)
    first = lake.tables.commit(effect)
    assert isinstance(first, Committed)
    again = lake.tables.commit(effect)
    assert again == first
    commit(lake, name, [2], 2)
    later = lake.tables.commit(effect)
    assert isinstance(later, Committed)
    assert later.snapshot_id == first.snapshot_id
    assert lake.rows(name) == [1, 2]


def test_progress_never_moves_back(lake: Lake) -> None:
    """A commit that would lower the recorded control offset is refused even if nothing else stands against it."""
    name = lake.create()
    commit(lake, name, [1], 9)
    answer = lake.tables.commit(lake.effect(name, lake.files(name, rows(2)), 8))
    assert isinstance(answer, CommitFailed)
    assert "back from 9 to 8" in answer.reason
    assert lake.rows(name) == [1]


def test_progress_of_other_control_topics_is_kept(lake: Lake) -> None:
    """Each control topic has its own entry; a commit under one leaves those of the others as they are."""
    name = lake.create()
    commit(lake, name, [1], 9)
    assert isinstance(lake.tables.commit(lake.effect(name, lake.files(name, rows(2)), 3, topic="other")), Committed)
    assert set(json.loads(lake.plain(name).properties["floe.progress"])) == {TOPIC, "other"}
    view = lake.view(name)
    assert view.progress is not None
    assert view.progress.control_offset == 9
    assert view.snapshot_control_offset == 9
    assert lake.view(name, topic="unknown").progress is None


def test_a_file_named_twice_is_refused(lake: Lake) -> None:
    """No data file path becomes live twice through one commit."""
    name = lake.create()
    files = lake.files(name, rows(1))
    answer = lake.tables.commit(lake.effect(name, (*files, *files), 1))
    assert isinstance(answer, CommitFailed)
    assert lake.plain(name).metadata.snapshots == []


def test_a_file_of_an_unknown_spec_is_refused_and_leaves_nothing_behind(lake: Lake) -> None:
    """A file that names a partition spec which the table lacks is refused before the catalog hears of it."""
    name = lake.create()
    answer = lake.tables.commit(lake.effect(name, [DataFile("file:///x.parquet", 1, 1, spec_id=9)], 1))
    assert isinstance(answer, CommitFailed)
    assert "spec 9" in answer.reason
    assert lake.plain(name).metadata.snapshots == []


def test_a_rollback_shows_in_the_view(lake: Lake) -> None:
    """After a rollback the progress property is ahead of the newest snapshot of ours, and the view says both."""
    name = lake.create()
    first = commit(lake, name, [1], 1)
    commit(lake, name, [2], 2)
    lake.plain(name).manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    view = lake.view(name)
    assert view.progress is not None
    assert view.progress.control_offset == 2
    assert view.snapshot_control_offset == 1


def test_a_branch_that_is_moved_off_the_line_of_a_rollback_shows_in_the_view(lake: Lake) -> None:
    """Floe's rollback has the progress of what it went back from, so the offsets are the same on both lines: the record says
    in which snapshot it was made. A commit on that line is none of others'; theirs on top of it are."""
    name = lake.create()
    first, second = commit(lake, name, [1], 1), commit(lake, name, [2], 2)
    back = replace(recovery_of(lake.effect(name, (), 2)), onto=first.snapshot_id)
    answer = lake.tables.commit(back)
    assert isinstance(answer, Committed)
    lake.plain(name).append(lake.plain(name).scan().to_arrow())
    view = lake.view(name)
    assert (view.is_behind, view.is_older) == (False, False)
    lake.plain(name).manage_snapshots().set_current_snapshot(second.snapshot_id).commit()
    view, history = lake.view(name), lake.tables.load_history(name, "main", TOPIC)
    assert history is not None
    assert view.progress is not None
    assert (view.snapshot_control_offset, view.progress.control_offset) == (2, 2)
    assert (view.is_behind, history.off_line) == (True, True)
    assert lake.view(name, topic="another").is_behind is False


def test_a_line_without_a_note_of_what_the_table_lacks_is_as_good(lake: Lake) -> None:
    """`floe replay` changes the list alone, which is a property: a branch that is moved to in front of it lacks nothing."""
    name = lake.create()
    first = commit(lake, name, [1], 1)
    note = replace(recovery_of(lake.effect(name, (), 1)), binds=False)
    assert isinstance(lake.tables.commit(note), Committed)
    lake.plain(name).manage_snapshots().set_current_snapshot(first.snapshot_id).commit()
    assert not lake.view(name).is_behind
    second = commit(lake, name, [2], 2)
    lake.plain(name).append(lake.plain(name).scan().to_arrow())
    lake.plain(name).manage_snapshots().set_current_snapshot(second.snapshot_id).commit()
    assert not lake.view(name).is_behind


def test_a_branch_that_was_moved_back_shows_where_floes_snapshots_have_expired(lake: Lake) -> None:
    """No snapshot is left that says an offset, and those that are left are older than the one that made the record."""
    name = lake.create()
    ours = [commit(lake, name, [1], 1)]
    table = lake.plain(name)
    table.append(table.scan().to_arrow())
    theirs = lake.plain(name).current_snapshot()
    assert theirs is not None
    ours.append(commit(lake, name, [2], 2))
    lake.plain(name).manage_snapshots().set_current_snapshot(theirs.snapshot_id).commit()
    for each in ours:
        lake.plain(name).maintenance.expire_snapshots().by_id(each.snapshot_id).commit()
    view = lake.view(name)
    assert (view.snapshot_control_offset, view.is_behind) == (None, True)


def test_progress_outlives_the_expiry_of_its_snapshots(lake: Lake) -> None:
    """When the snapshots that floe made are gone, the property still says what is in the table."""
    name = lake.create()
    ours = commit(lake, name, [1], 4)
    table = lake.plain(name)
    table.append(table.scan().to_arrow())
    lake.plain(name).maintenance.expire_snapshots().by_id(ours.snapshot_id).commit()
    view = lake.view(name)
    assert view.progress is not None
    assert view.progress.control_offset == 4
    assert (view.snapshot_control_offset, view.is_behind) == (None, False)
    assert lake.rows(name) == [1, 1]


def test_the_branchs_own_retention_is_kept(lake: Lake) -> None:
    """A commit moves a branch and leaves its retention settings as someone set them."""
    name = lake.create()
    first = commit(lake, name, [1], 1)
    manage = lake.plain(name).manage_snapshots()
    manage.create_branch(first.snapshot_id, "main", max_snapshot_age_ms=60_000, min_snapshots_to_keep=5).commit()
    commit(lake, name, [2], 2)
    ref = lake.plain(name).metadata.refs["main"]
    assert (ref.max_snapshot_age_ms, ref.min_snapshots_to_keep) == (60_000, 5)


def test_the_first_commit_may_go_to_another_branch(lake: Lake) -> None:
    """On an empty table main is made first, empty, and then the branch; later commits go to the branch alone."""
    name = lake.create()
    commit(lake, name, [1], 1, branch="audit")
    commit(lake, name, [2], 2, branch="audit")
    assert lake.rows(name) == []
    assert lake.rows(name, "audit") == [1, 2]
    assert lake.view(name, "audit").snapshot_control_offset == 2


def test_a_new_branch_starts_from_main(lake: Lake) -> None:
    """A branch that does not exist yet begins with what main holds, and its view says so before the first commit."""
    name = lake.create()
    commit(lake, name, [1], 1)
    view = lake.view(name, "audit")
    assert (view.snapshot_id, view.snapshot_control_offset) == (None, 1)
    commit(lake, name, [2], 2, branch="audit")
    assert lake.rows(name, "audit") == [1, 2]
    assert lake.rows(name) == [1]


def test_two_first_commits_to_a_branch_cannot_both_land(lake: Lake) -> None:
    """'No such branch yet' is a condition too: the second of two first commits to a branch is refused."""
    name = lake.create()
    view = lake.view(name, "audit")
    one = lake.effect(name, lake.files(name, rows(1)), 1, view=view)
    other = lake.effect(name, lake.files(name, rows(2)), 1, view=view)
    assert isinstance(lake.tables.commit(one), Committed)
    assert isinstance(lake.tables.commit(other), CommitConflict)
    assert lake.rows(name, "audit") == [1]


def test_a_tag_is_no_branch(lake: Lake) -> None:
    """A commit to a name that is a tag is refused by name."""
    name = lake.create()
    first = commit(lake, name, [1], 1)
    lake.plain(name).manage_snapshots().create_tag(first.snapshot_id, "release").commit()
    answer = lake.tables.commit(lake.effect(name, lake.files(name, rows(2)), 2, branch="release"))
    assert isinstance(answer, CommitFailed)
    assert "is a tag" in answer.reason


def test_a_foreign_append_and_ours_live_together(lake: Lake) -> None:
    """PyIceberg appends to, and reads, a table that floe commits to, and floe carries its files on."""
    name = lake.create()
    commit(lake, name, [1], 1)
    table = lake.plain(name)
    table.append(table.scan().to_arrow())
    commit(lake, name, [2], 2)
    assert lake.rows(name) == [1, 1, 2]
    assert lake.plain(name).inspect.files().num_rows == 3
    assert lake.plain(name).inspect.entries().num_rows == 3


def test_no_such_table_is_none(lake: Lake) -> None:
    """Asking for a table that does not exist gives None, not an error."""
    assert lake.tables.load_view("shop.nothing", "main", TOPIC) is None
    assert lake.tables.snapshots("shop.nothing") == []


def test_a_dropped_column_or_a_narrowed_type_makes_a_schema_unusable(lake: Lake) -> None:
    """The view names every schema whose files could no longer be read, and only those."""
    name = lake.create(schema=Schema(*SCHEMA.fields, NestedField(3, "extra", LongType(), required=False)))
    with lake.plain(name).update_schema() as update:
        update.add_column("more", LongType())
    assert lake.view(name).unusable_schema_ids == frozenset()
    with lake.plain(name).update_schema() as update:
        update.delete_column("more")
    assert lake.view(name).unusable_schema_ids == {1}
    with lake.plain(name).update_schema() as update:
        update.add_column("more", LongType())  # of the same name, and another column to every reader that goes by ids
    assert lake.view(name).unusable_schema_ids == {1}
