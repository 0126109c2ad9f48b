"""`floe rollback` and `floe replay` on a real broker and catalog."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from framework.adapters.iceberg.commits import commit
from framework.adapters.kafka.control.presence import Presence
from framework.observe.liveness import live_members
from framework.recovery import rollback
from framework.recovery.discard import ControlPlace
from tests.chaos.harness import Running, crash, wait_for
from tests.recovery.conftest import HandRun, once

pytestmark = [pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.timeout(1200)]


def three_commits(hand: HandRun) -> list[int]:
    """Each table has three snapshots; returns those of the first table, oldest first."""
    for end in (10, 20, 30):
        hand.announce(end, end)
        hand.commit()
    return snapshots(hand)


def snapshots(hand: HandRun) -> list[int]:
    return [s.snapshot_id for s in hand.project.catalog().load_table(hand.names[0]).snapshots()]


def missing(hand: HandRun) -> list[dict[str, object]]:
    text = hand.project.catalog().load_table(hand.names[0]).properties.get("floe.missing")
    return json.loads(text) if text else []  # type: ignore[no-any-return]


def rows_of_first(hand: HandRun) -> set[tuple[int, int]]:
    rows = hand.project.catalog().load_table(hand.names[0]).scan().to_arrow()
    return set(zip(rows["_kafka_partition"].to_pylist(), rows["_kafka_offset"].to_pylist(), strict=True))


def expected(hand: HandRun, *spans: tuple[int, int]) -> set[tuple[int, int]]:
    step = len(hand.names)
    return {(p, n) for p in (0, 1) for start, end in spans for n in range(start, end) if n % step == 0}


def test_a_table_goes_back_and_its_pipeline_goes_on(hand: HandRun) -> None:
    """The snapshots given up are shown, and refused while a run is live; afterwards the table is not blocked, later
    batches are added to it, progress did not move back, and what it lacks is noted by source ranges."""
    first, *_ = three_commits(hand)
    reported = hand.project.root / "lineage.jsonl"
    target = hand.project.root / "pipelines" / "targets" / "it.yaml"
    target.write_text(target.read_text() + f"lineage: {{file: '{reported}'}}\n")
    table, options = hand.names[0], ("--control-topic", hand.control_topic)
    before = hand.everything()
    shown = hand.floe_json("rollback", "--table", table, "--to", str(first), "--replay", "--dry-run", *options)
    assert hand.everything() == before
    assert [each["added_rows"] for each in shown["plan"]["given_up"]] == [6, 6]
    [gap] = shown["plan"]["gaps"]
    assert {(r["partition"], r["start"], r["end"]) for r in gap["ranges"]} == {(0, 10, 30), (1, 10, 30)}

    presence = Presence(hand.kafka, hand.plan.read.group_id, [hand.topic], "run-1")
    try:
        wait_for(lambda: live_members(hand.admin, hand.project.prefix, "hand"), "the run")
        hand.floe("rollback", "--table", table, "--to", str(first), "--replay", *options, code=3)
        for verb in (
            ("rollback", "--table", table, "--to", str(first), "--replay", *options),
            ("offsets", "set", "hand", "--from-log", *options),
            ("rebase", hand.file),
        ):
            said = hand.floe(*verb, "--dry-run")
            assert "without --dry-run it is refused for now (FLOE-E111): pipeline hand is live" in said, said
            assert "`floe stop hand -t it" in said, said
        assert hand.everything() == before
    finally:
        presence.close()

    text = hand.floe("rollback", "--table", table, "--to", str(first), "--replay", *options)
    assert "floe replay FILE" in text
    [event] = map(json.loads, reported.read_text().splitlines())
    assert event["job"]["name"] == "floe.rollback"
    assert event["outputs"][0]["facets"]["version"]["datasetVersion"] == str(snapshots(hand)[-1])
    assert rows_of_first(hand) == expected(hand, (0, 10))
    assert hand.ends(table) == {"0": 30, "1": 30}
    assert [gap["topics"][hand.topic]["partitions"] for gap in missing(hand)] == [  # type: ignore[index]
        {"0": [10, 30], "1": [10, 30]}
    ]
    hand.announce(40, 40)
    hand.commit()
    assert rows_of_first(hand) == expected(hand, (0, 10), (30, 40))
    again = hand.everything()
    assert hand.floe_json("rollback", "--table", table, "--to", str(first), "--skip", *options)["plan"]["given_up"]
    assert hand.everything() != again


def test_a_rollback_by_somebody_else_is_settled_where_the_table_is(hand: HandRun) -> None:
    """A table that another engine rolled back blocks; `--to` with its snapshot settles it, and what it lacks is found
    on the line that it left."""
    _, second, _ = three_commits(hand)
    table, options = hand.names[0], ("--control-topic", hand.control_topic)
    hand.project.catalog().load_table(table).manage_snapshots().rollback_to_snapshot(second).commit()
    hand.announce(40, 40)
    with pytest.raises(Exception, match="rolled back"):
        hand.commit()
    plan = hand.floe_json("rollback", "--table", table, "--to", str(second), "--replay", *options)["plan"]
    assert [each["added_rows"] for each in plan["given_up"]] == [6]
    [gap] = plan["gaps"]
    assert {(r["partition"], r["start"], r["end"]) for r in gap["ranges"]} == {(0, 20, 30), (1, 20, 30)}
    hand.commit()
    assert rows_of_first(hand) == expected(hand, (0, 20), (30, 40))
    assert hand.floe_json("rollback", "--table", table, "--to", str(second), "--skip", *options, "--dry-run")


def test_a_second_rollback_brings_nothing_back_that_was_given_up(hand: HandRun) -> None:
    """Between two ranges that are wanted again lies one that was given up by name: it stays given up, and each range is
    on the list once, however often the verb is run."""
    first, second, _ = three_commits(hand)
    table, options = hand.names[0], ("--control-topic", hand.control_topic)
    hand.floe("rollback", "--table", table, "--to", str(second), "--skip", *options)
    hand.announce(40, 40)
    hand.commit()
    for _ in range(2):
        hand.floe("rollback", "--table", table, "--to", str(first), "--replay", *options)
        assert rows_of_first(hand) == expected(hand, (0, 10))
        spans = sorted(gap["topics"][hand.topic]["partitions"]["0"] for gap in missing(hand))  # type: ignore[index]
        assert spans == [[10, 20], [30, 40]]
    hand.announce(50, 50)
    hand.commit()
    hand.floe("rollback", "--table", table, "--to", str(first), "--replay", *options)
    spans = sorted(gap["topics"][hand.topic]["partitions"]["0"] for gap in missing(hand))  # type: ignore[index]
    assert spans == [[10, 20], [30, 40], [40, 50]]
    ids = [gap["id"] for gap in missing(hand)]
    assert len(set(ids)) == len(ids)


def test_a_list_that_others_made_wrong_is_not_read(hand: HandRun) -> None:
    """Somebody moves the table forward again to what floe gave up: its list says that it lacks what it holds. A replay is
    refused, and the verb that the message names brings the list in line."""
    first, _, third = three_commits(hand)
    table, options = hand.names[0], ("--control-topic", hand.control_topic)
    hand.floe("rollback", "--table", table, "--to", str(first), "--replay", *options)
    with hand.project.catalog().load_table(table).manage_snapshots() as manage:
        manage.set_current_snapshot(third)
    refused = hand.floe("replay", hand.file, "--table", table, code=5)
    assert "FLOE-R359" in refused
    assert f"floe rollback --table {table}" in refused
    hand.floe("rollback", "--table", table, "--to", str(third), "--replay", *options)
    assert missing(hand) == []
    assert rows_of_first(hand) == expected(hand, (0, 30))


def test_an_upsert_table_refuses_when_its_changes_have_expired(hand: HandRun) -> None:
    """Also where no snapshot is left that shows that rows were replaced: the table records how it is written."""
    first, *_ = three_commits(hand)
    table = hand.project.catalog().load_table(hand.names[0])
    owner = json.dumps({"mode": "upsert", "key": ["id"], "pipelines": ["hand"]})
    table.transaction().set_properties({"floe.owner": owner}).commit_transaction()
    for to in (first, snapshots(hand)[-1]):
        options = ("--to", str(to), "--skip", "--control-topic", hand.control_topic)
        assert "FLOE-R145" in hand.floe("rollback", "--table", hand.names[0], *options, code=6)


def test_skip_gives_up_what_was_there(hand: HandRun) -> None:
    """With `--skip` nothing is noted, and nothing is left to replay."""
    first, *_ = three_commits(hand)
    hand.floe("rollback", "--table", hand.names[0], "--to", str(first), "--skip", "--control-topic", hand.control_topic)
    assert missing(hand) == []
    assert hand.floe_json("replay", hand.file, "--table", hand.names[0])["plan"]["gaps"] == []


def test_killed_after_its_commit_it_has_rolled_back_once(hand: HandRun) -> None:
    """kill -9 behind the commit: the same command finds nothing to do."""
    first, *_ = three_commits(hand)
    arguments = ("rollback", "--table", hand.names[0], "--to", str(first), "--replay")
    with Running(
        hand.project, *arguments, "--control-topic", hand.control_topic, env={"FLOE_FAULT": "table-recovered=kill"}
    ) as run:
        assert run.wait() == -signal.SIGKILL, run.output
    assert len(missing(hand)) == 1
    again = hand.floe_json(*arguments, "--control-topic", hand.control_topic)
    assert again["plan"]["settled"] is True
    assert len(missing(hand)) == 1
    assert len(snapshots(hand)) == 4


@pytest.mark.parametrize("moment", ["before its commit", "within its commit"])
def test_a_snapshot_that_expires_meanwhile_is_named_with_another_one(
    hand: HandRun, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Whoever goes back to a snapshot that somebody expires between the look and the act is told so, with a whole command
    that goes back to one that is there: the same command again would never continue. Nothing was changed."""
    first, second, _ = three_commits(hand)
    performed = rollback.perform_rollback

    def expire(*_: object) -> None:
        table = hand.project.catalog().load_table(hand.names[0])
        if table.snapshot_by_id(first) is not None:
            table.maintenance.expire_snapshots().by_id(first).commit()

    def perform(at: ControlPlace, *plan: Any) -> int:
        expire()
        return performed(at, *plan)

    if moment == "before its commit":
        monkeypatch.setattr(rollback, "perform_rollback", perform)
    else:
        monkeypatch.setattr(commit, "failpoint", expire)
    options = ("--control-topic", hand.control_topic)
    said = hand.floe("rollback", "--table", hand.names[0], "--to", str(first), "--replay", *options, code=6)
    assert f"FLOE-R356] table {hand.names[0]} has no snapshot {first} before its current one" in said
    assert f"`floe rollback --table {hand.names[0]} --to {second} --replay`" in said
    assert missing(hand) == []
    assert len(snapshots(hand)) == 2
    hand.floe("rollback", "--table", hand.names[0], "--to", str(second), "--replay", *options)
    assert rows_of_first(hand) == expected(hand, (0, 20))


def test_what_a_table_holds_is_not_replayed(hand: HandRun) -> None:
    """Ranges whose rows are in the table, by their Kafka positions, are refused with their number; nothing is
    changed."""
    three_commits(hand)
    before = hand.everything()
    output = hand.floe(
        "replay",
        hand.file,
        "--table",
        hand.names[0],
        "--from",
        f"{hand.topic}:0=5",
        "--to",
        f"{hand.topic}:0=15",
        code=5,
    )
    assert "holds 3 rows" in output
    assert "FLOE-R359" in output
    assert hand.everything() == before


@pytest.mark.spark
@pytest.mark.slow
def test_a_replay_adds_what_the_table_lacks_once(hand: HandRun) -> None:
    """Killed with its files announced and not committed, and again before it is struck off the list: the rows are there
    once, other tables are as they were, the pipeline's offsets too, and a second replay has nothing to do."""
    first, *_ = three_commits(hand)
    table = hand.names[0]
    hand.floe("rollback", "--table", table, "--to", str(first), "--replay", "--control-topic", hand.control_topic)
    group, others = hand.group(), [hand.project.catalog().load_table(n).metadata_location for n in hand.names[1:]]
    [gap] = missing(hand)
    for point in ("announced", "table-recovered"):
        crash(hand.project, point, "replay", hand.file, "--table", table)
        # To the broker a run that was killed is alive for six seconds more, and a verb refuses for as long.
        name = f"{gap['pipeline']}.replay.{gap['id']}"
        wait_for(
            lambda name=name: not live_members(hand.admin, hand.project.prefix, name), "the end of the killed replay"
        )
    hand.floe("replay", hand.file, "--table", table)
    assert hand.landed() == once({0: 30, 1: 30})
    assert missing(hand) == []
    assert hand.group() == group
    assert [hand.project.catalog().load_table(n).metadata_location for n in hand.names[1:]] == others
    assert list(hand.progress(table)[hand.control_topic_id]["pipelines"]) == ["hand"]
    assert hand.floe_json("replay", hand.file, "--table", table)["plan"]["gaps"] == []


@pytest.mark.spark
@pytest.mark.slow
def test_what_others_deleted_and_was_read_again_goes_and_comes_back(hand: HandRun) -> None:
    """Rows that another engine deleted and a person read again are lacking where the table goes back behind that, although
    an older snapshot had added them: they are noted beside what was noted before, and come with the next replay."""
    table, options = hand.names[0], ("--control-topic", hand.control_topic)
    hand.announce(10, 10)
    hand.commit()
    hand.project.catalog().load_table(table).delete()
    hand.announce(20, 20)
    hand.commit()
    deleted = snapshots(hand)[-2]
    hand.floe("rollback", "--table", table, "--to", str(deleted), "--replay", *options)
    before = snapshots(hand)[-1]
    named = [
        each
        for flag, end in (("--from", 0), ("--to", 10))
        for p in (0, 1)
        for each in (flag, f"{hand.topic}:{p}={end}")
    ]
    hand.floe("replay", hand.file, "--table", table, *named)
    assert rows_of_first(hand) == expected(hand, (0, 10))
    hand.floe("rollback", "--table", table, "--to", str(before), "--replay", *options)
    spans = {(r["partition"], r["start"], r["end"]) for r in noted(hand)}
    assert {(p, *span) for p in (0, 1) for span in ((0, 10), (10, 20))} == spans
    hand.floe("replay", hand.file, "--table", table)
    assert hand.landed() == once({0: 20, 1: 20})
    assert missing(hand) == []


def noted(hand: HandRun) -> list[dict[str, Any]]:
    """The source ranges on the list of the first table."""
    return [
        {"partition": int(partition), "start": start, "end": end}
        for gap in missing(hand)
        for of in gap["topics"].values()  # type: ignore[attr-defined]
        for partition, (start, end) in of["partitions"].items()
    ]
