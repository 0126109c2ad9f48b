"""`floe discard` on a real broker and catalog."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from framework.adapters.kafka.control.presence import Presence
from framework.commit.events.event_types import CommitComplete, DataWritten, Discarded
from framework.commit.machine.progress.recorded import MISSING_PROPERTY
from framework.commit.recovery.missing import REPLAY, gaps_of
from framework.observe.liveness import live_members
from tests.chaos.harness import crash, wait_for
from tests.recovery.conftest import HandRun, once

pytestmark = [pytest.mark.kafka, pytest.mark.iceberg]


def test_what_waits_for_a_dropped_table_is_given_up_by_name(hand: HandRun) -> None:
    """Refused while a run is live and for a table that can take what waits; a dry run changes nothing; then the rows
    are counted in the log, the other tables have all of theirs, and the low-water mark reaches the end."""
    hand.announce(9, 9)
    hand.commit()
    gone, kept, _ = hand.names
    hand.project.catalog().drop_table(gone)
    hand.announce(30, 30)
    assert "error[FLOE-R110]" in _commit_is_blocked(hand)

    options = ("--control-topic", hand.control_topic)
    presence = Presence(hand.kafka, hand.plan.read.group_id, [hand.topic], "run-1")
    try:
        wait_for(lambda: live_members(hand.admin, hand.project.prefix, "hand"), "the run")
        assert "FLOE-E111" in hand.floe("discard", "--table", gone, *options, code=3)
    finally:
        presence.close()
    assert hand.floe_json("discard", "--table", kept, *options)["plan"]["announcements"] == 0
    before = len(hand.log())
    shown = hand.floe_json("discard", "--table", gone, "--dry-run", *options)
    assert shown["plan"]["rows"] == {"hand": 14}
    assert len(hand.log()) == before

    assert "14 rows of pipeline hand" in hand.floe("discard", "--table", gone, *options)
    [event] = [e for e in hand.log() if isinstance(e, Discarded)]
    assert (event.table, event.rows, event.announcements) == (gone, {"hand": 14}, 1)
    assert "14 rows" in hand.floe("log", *options)
    assert hand.floe_json("discard", "--table", gone, *options)["done"] is False
    hand.commit()
    last = [e for e in hand.log() if isinstance(e, CommitComplete)][-1]
    assert last.blocked == {}
    assert last.low_water > event.below
    assert hand.project.catalog().load_table(kept).scan().count() == 20


def test_announcements_whose_files_are_gone_are_given_up_and_read_again(hand: HandRun) -> None:
    """Somebody removed announced files as orphans: the verb gives up what named them, prints the replay that reads it
    again, and what was announced behind it is committed; each row is in the table once."""
    hand.announce(9, 9)
    hand.commit()
    hand.announce(30, 30)
    hand.announce(60, 60)
    name = hand.names[0]
    lost = [e for e in hand.log() if isinstance(e, DataWritten) and e.table == name][1]
    Path(lost.files[0].path.removeprefix("file://")).unlink()
    options = ("--control-topic", hand.control_topic)
    said = hand.floe("discard", "--table", name, *options)
    assert "are gone from the store" in said
    [command] = re.findall(r"floe replay FILE (--table .*)", said)
    assert all(f"--from {hand.topic}:{n}=9 --to {hand.topic}:{n}=30" in command for n in range(2))
    hand.commit()
    table = hand.project.catalog().load_table(name)
    assert sorted(set(table.scan().to_arrow()["id"].to_pylist())) == [
        n for n in (*range(9), *range(30, 60)) if n % 3 == 0
    ]
    assert table.scan().count() == 26


@pytest.mark.slow
def test_killed_before_and_after_its_word_it_is_said_once(hand: HandRun) -> None:
    """kill -9 before the event is in the log changes nothing; after it, the same command finds nothing left to give up;
    the coordinator heeds it once, and every record of the other tables is in them."""
    hand.announce(9, 9)
    hand.commit()
    gone = hand.names[0]
    hand.project.catalog().drop_table(gone)
    hand.announce(30, 30)
    command = ("discard", "--table", gone, "--control-topic", hand.control_topic)
    before = hand.everything()
    crash(hand.project, "recovery-decided", *command)
    assert hand.everything() == before
    crash(hand.project, "recovery-told", *command)
    assert hand.floe_json(*command)["done"] is False
    hand.commit()
    [event] = [e for e in hand.log() if isinstance(e, Discarded)]
    assert event.rows == {"hand": 14}
    assert [e for e in hand.log() if isinstance(e, CommitComplete)][-1].blocked == {}
    rest = hand.names[1:]
    assert [hand.project.catalog().load_table(name).scan().count() for name in rest] == [20, 20]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("is_listed", [True, False])
def test_what_a_replay_read_is_read_again_after_it_was_given_up(hand: HandRun, is_listed: bool) -> None:
    """The files of a killed replay are gone from the store. Giving them up, also when killed before its event, keeps
    their source offsets on the table's list, and the next replay reads them: each row is in the table once. A second
    rollback leaves them on it; so it is where an earlier version had taken them off, since they were announced."""
    hand.announce(10, 10)
    hand.commit()
    table, options = hand.names[0], ("--control-topic", hand.control_topic)
    first = hand.project.catalog().load_table(table).current_snapshot().snapshot_id  # type: ignore[union-attr]
    hand.announce(20, 20)
    hand.commit()
    hand.floe("rollback", "--table", table, "--to", str(first), "--replay", *options)
    crash(hand.project, "announced", "replay", hand.file, "--table", table)
    [lost] = [e for e in hand.log() if isinstance(e, DataWritten) and REPLAY in e.pipeline]
    for file in lost.files:
        Path(file.path.removeprefix("file://")).unlink()
    wait_for(lambda: not live_members(hand.admin, hand.project.prefix, lost.pipeline), "the end of the killed replay")
    if not is_listed:
        hand.floe("rollback", "--table", table, "--to", str(first), "--replay", *options)
        listed = hand.project.catalog().load_table(table)
        assert len(gaps_of(listed.properties.get(MISSING_PROPERTY))) == 1
        listed.transaction().remove_properties(MISSING_PROPERTY).commit_transaction()
    crash(hand.project, "table-recovered", "discard", "--table", table, *options)
    said = hand.floe("discard", "--table", table, *options)
    assert "are gone from the store" in said
    assert not hand.floe_json("discard", "--table", table, *options)["done"]
    hand.floe("replay", hand.file, "--table", table)
    assert hand.landed() == once({0: 20, 1: 20})
    assert hand.floe_json("replay", hand.file, "--table", table)["plan"]["gaps"] == []


def _commit_is_blocked(hand: HandRun) -> str:
    with pytest.raises(Exception, match="does not exist") as caught:
        hand.commit()
    return str(caught.value)
