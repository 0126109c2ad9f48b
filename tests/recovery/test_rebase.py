"""`floe rebase` on a real broker and catalog: what it shows, what it changes, and that it can be killed."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic

from framework.adapters.kafka.control.presence import Presence
from framework.commit.events.event_types import DataWritten, OffsetsSet
from framework.observe.liveness import live_members
from framework.recovery import rebase
from framework.runtime.pipeline.worker import PipelineWorker
from tests.chaos.checker import assert_exact
from tests.chaos.harness import Running, crash, wait_for
from tests.recovery.conftest import HandRun, once

pytestmark = [pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.timeout(1200)]


def lagging(hand: HandRun) -> None:
    """Three batches; the tables hold one, two and two of them, and what is announced of the third is in none."""
    hand.announce(10, 20)
    hand.commit()
    hand.announce(11, 20)  # record 10 goes to the second table alone
    hand.commit()
    hand.announce(30, 30)
    assert hand.landed() == once({0: 11, 1: 20})


def test_a_lost_control_topic_is_settled_from_the_tables(hand: HandRun) -> None:
    """A dry run shows and changes nothing; the verb files every table's record under the new id, sets the group's
    offsets to where the table that holds least ends, and a second run of it finds nothing to do."""
    lagging(hand)
    former = hand.control_topic_id
    hand.lose_control_topic()
    before = hand.everything()
    shown = hand.floe_json("rebase", hand.file, "--dry-run")
    assert hand.everything() == before
    assert (shown["dry_run"], shown["done"]) == (True, False)
    assert shown["plan"]["former_control_topic_ids"] == [former]
    assert [p["after"] for p in shown["plan"]["partitions"]] == [10, 20]
    assert shown["plan"]["read_again"] == 1

    text = hand.floe("rebase", hand.file)
    assert former in text
    assert hand.control_topic_id in text
    assert hand.group() == {0: 10, 1: 20}
    [event] = hand.log()
    assert isinstance(event, OffsetsSet)
    assert [(r.partition, r.start, r.end) for r in event.ranges] == [(0, 10, 10), (1, 20, 20)]
    assert [hand.ends(name) for name in hand.names] == [
        {"0": 10, "1": 20},
        {"0": 11, "1": 20},
        {"0": 10, "1": 20},
    ]
    assert all("hand" not in hand.progress(name)[former]["pipelines"] for name in hand.names)
    assert hand.landed() == once({0: 11, 1: 20})
    worker = PipelineWorker(hand.plan, hand.kafka, hand.catalog, hand.project.root, lambda text: None)
    worker.prepare()
    worker.close()
    wait_for(lambda: not live_members(hand.admin, hand.project.prefix, "hand"), "the worker's leave")
    settled = hand.everything()
    assert hand.floe_json("rebase", hand.file)["plan"]["settled"] is True
    assert hand.everything() == settled


@pytest.mark.parametrize("is_recreated", [False, True], ids=["control topic", "source topic"])
def test_it_is_done_while_records_arrive(hand: HandRun, monkeypatch: pytest.MonkeyPatch, is_recreated: bool) -> None:
    """A topic that grows between the look that is shown and the act changes nothing of what is recorded: the act is done as it
    was shown, and one run of the verb is enough."""
    hand.announce(20, 20)
    hand.commit()
    if is_recreated:
        hand.admin.raw.delete_topics([hand.topic])[hand.topic].result(20)
        wait_for(lambda: not hand.admin.topics([hand.topic]), "the end of the topic")
        hand.admin.raw.create_topics([NewTopic(hand.topic, 2, 1)])[hand.topic].result(20)
    else:
        hand.lose_control_topic()
    looked = rebase.read_facts

    def then_records(*arguments: Any, **named: Any) -> Any:
        found = looked(*arguments, **named)
        hand.broker.produce(hand.topic, [{"id": 1, "kind": "k00"}] * 5, partition=0)
        return found

    monkeypatch.setattr(rebase, "read_facts", then_records)
    hand.floe("rebase", hand.file, *(("--begin-at", "latest") if is_recreated else ()))
    assert hand.group() == ({0: 0, 1: 0} if is_recreated else {0: 20, 1: 20})


def test_a_live_pipeline_is_not_rebased(hand: HandRun) -> None:
    """Refused with the run's name, and nothing is changed, not even the transactional id."""
    lagging(hand)
    hand.lose_control_topic()
    presence = Presence(hand.kafka, hand.plan.read.group_id, [hand.topic], "run-1")
    try:
        wait_for(lambda: live_members(hand.admin, hand.project.prefix, "hand"), "the run")
        before = hand.everything()
        assert "run run-1" in hand.floe("rebase", hand.file, code=3)
        assert hand.everything() == before
    finally:
        presence.close()


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_killed_between_tables_it_goes_on(hand: HandRun, nth: int) -> None:
    """kill -9 after the first, second or third table: the same command settles it, and no run starts before that."""
    lagging(hand)
    hand.lose_control_topic()
    with Running(hand.project, "rebase", hand.file, env={"FLOE_FAULT": f"table-recovered@{nth}=kill"}) as run:
        assert run.wait() == -signal.SIGKILL, run.output
    assert hand.log() == []
    assert hand.group() == {0: 30, 1: 30}
    hand.floe("rebase", hand.file)
    assert hand.group() == {0: 10, 1: 20}
    assert [hand.ends(name)["0"] for name in hand.names] == [10, 11, 10]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.failure("F10")
def test_after_a_rebase_every_record_is_there_once(hand: HandRun) -> None:
    """The control topic is lost with announcements that no table has: refused until settled, then exact."""
    lagging(hand)
    hand.admin.raw.delete_topics([hand.control_topic])[hand.control_topic].result(20)
    wait_for(lambda: not hand.admin.topics([hand.control_topic]), "the end of the control topic")
    refusal = hand.project.run("run", hand.file, "--until-caught-up", code=5)
    assert "floe rebase" in refusal, refusal
    hand.floe("rebase", hand.file)
    crash(hand.project, "announced", "run", hand.file, "--until-caught-up")
    hand.project.run("run", hand.file, "--until-caught-up")
    assert_exact(hand.project.catalog(), hand.broker.bootstrap_servers, [hand.topic])


@pytest.mark.spark
@pytest.mark.slow
def test_what_a_replay_brought_is_not_read_again(hand: HandRun) -> None:
    """A replay that a person named has brought rows that no record of the pipeline shows: the verb counts them, refuses
    and changes nothing. It goes on by consent, or once they are deleted, and reads them again."""
    hand.announce(10, 10)
    hand.commit()
    hand.announce(20, 20)
    table, options = hand.names[0], ("--control-topic", hand.control_topic)
    lost = [e for e in hand.log() if isinstance(e, DataWritten) and e.table == table][-1]
    for file in lost.files:
        Path(file.path.removeprefix("file://")).unlink()
    hand.floe("discard", "--table", table, *options)
    named = [each for p in (0, 1) for each in ("--from", f"{hand.topic}:{p}=10", "--to", f"{hand.topic}:{p}=20")]
    hand.floe("replay", hand.file, "--table", table, *named, "--allow-duplicates")
    assert hand.landed() == once({0: 20, 1: 20})
    hand.lose_control_topic()
    before = hand.everything()
    for more in ((), ("--dry-run",), ("--from-log-start",)):
        refused = hand.floe("rebase", hand.file, *more, code=5)
        assert "FLOE-R359" in refused
        assert f"table {table} holds 6 rows" in refused
    assert {**hand.everything(), "log": None} == {**before, "log": None}
    assert f"DELETE FROM {table} WHERE (_kafka_topic = '{hand.topic}' AND _kafka_partition = 0 AND" in refused
    hand.floe("rebase", hand.file, "--dry-run", "--allow-duplicates")
    hand.project.catalog().load_table(table).delete("_kafka_offset >= 10")
    hand.floe("rebase", hand.file)
    assert hand.group() == {0: 10, 1: 10}
