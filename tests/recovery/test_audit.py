"""Who changed something, when and why stands in the control log; and `floe top` shows it beside what waits."""

from __future__ import annotations

import json
import time

import pytest

from framework.cli.shared.options import whoami
from framework.commit.events.event_types import Acted, Discarded, OffsetsSet, PauseChanged
from tests.recovery.conftest import HandRun

pytestmark = [pytest.mark.kafka, pytest.mark.iceberg]


def test_every_act_says_who_when_and_why_before_it_is_done(hand: HandRun) -> None:
    """`discard`, `offsets set`, `rollback` and `resume` with `--why` leave author, time and reason in the log, in front of
    what they do; a dry run leaves nothing; `floe log` and `floe top` show them."""
    began_ms = int(time.time() * 1000)
    hand.announce(9, 9)
    hand.commit()
    gone, kept, _ = hand.names
    first = hand.project.catalog().load_table(kept).current_snapshot()
    assert first is not None
    hand.announce(30, 30)
    hand.commit()
    options = ("--control-topic", hand.control_topic)
    roll = ("rollback", "--table", kept, "--to", str(first.snapshot_id), "--skip", "--why", "bad deploy", *options)
    before = len(hand.log())
    hand.floe(*roll, "--dry-run")
    assert len(hand.log()) == before
    hand.floe(*roll)

    hand.project.catalog().drop_table(gone)
    hand.announce(60, 60)
    shown = hand.floe("top", "--once", *options)
    waiting = {t["table"]: t["pending"]["rows"] for t in json.loads(hand.floe("status", "--json", *options))["tables"]}
    assert waiting[gone] > 0
    line = next(line for line in shown.splitlines() if line.startswith(gone))
    assert f"{waiting[gone]:,}" in line.split()

    hand.floe("discard", "--table", gone, "--why", "dropped on purpose", *options)
    hand.floe("offsets", "set", "hand", "--from-log", "--why", "after the move", *options)
    hand.floe("pause", "--commits", kept, *options)
    hand.floe("resume", "--commits", kept, "--why", "done", *options)

    log = hand.log()
    acted = [event for event in log if isinstance(event, Acted)]
    assert [(e.act, e.subject, e.by, e.why) for e in acted] == [
        ("rollback", kept, whoami(), "bad deploy"),
        ("discard", gone, whoami(), "dropped on purpose"),
        ("offsets set", "hand", whoami(), "after the move"),
    ]
    assert all(began_ms <= e.timestamp_ms <= time.time() * 1000 for e in acted)
    [discarded] = [number for number, e in enumerate(log) if isinstance(e, Discarded)]
    [moved] = [number for number, e in enumerate(log) if isinstance(e, OffsetsSet)]
    assert log[discarded - 1] == acted[1]
    assert log[moved - 1] == acted[2]
    assert [e.reason for e in log if isinstance(e, PauseChanged)] == ["", "done"]
    for verb in (("log",), ("top", "--once")):
        shown = hand.floe(*verb, *options)
        assert f"discard {gone}" in shown
        assert "dropped on purpose" in shown
