"""Threads in the background outlive what nobody expected: it is said, and what they are there for goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control import presence as kafka_presence
from framework.adapters.kafka.control.log import ControlPublisher, ControlReader
from framework.adapters.kafka.control.presence import Presence
from framework.commit.events.event_types import Health, StateChanged, StopRequested
from framework.deploy import driver_main
from framework.observe.liveness import live_members
from framework.plan.compile import group_id
from framework.runtime.pipeline import control_watch
from framework.runtime.pipeline.control_watch import ControlWatch
from framework.runtime.pipeline.state_publisher import StatePublisher
from tests.conftest import Broker
from tests.kafka.conftest import heartbeat, unique, wait_for

pytestmark = pytest.mark.kafka


def once(real: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which fails at its first call as nobody expects it to."""
    calls: list[int] = []

    def planted(*args: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise KeyError("planted")
        return real(*args, **named)

    return planted


def deaf(text: str) -> None:
    """A terminal that is gone."""
    raise BrokenPipeError


def request(pipeline: str) -> StopRequested:
    return StopRequested(unique("r"), pipeline, int(time.time() * 1000) + 60_000, "a person")


@pytest.mark.parametrize("heard", [True, False], ids=["heard", "nobody listens"])
@pytest.mark.parametrize("place", ["an event", "the reader"])
def test_the_watch_goes_on(
    place: str, heard: bool, settings: dict[str, str], control_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event that the watch stumbles over, and a reader that fails, are said; the request behind them is heeded."""
    monkeypatch.setattr(control_watch, "AGAIN_AFTER_S", 0.1)
    said: list[str] = []
    watch = ControlWatch(settings, control_topic, unique("group"), said.append if heard else deaf)
    watch.start()
    publisher = ControlPublisher(settings, control_topic)
    try:
        if place == "an event":
            monkeypatch.setattr(watch._watch, "observe", once(watch._watch.observe))
            publisher.publish([heartbeat("p", 1)])
        else:
            assert watch._reader is not None
            monkeypatch.setattr(watch._reader, "poll", once(watch._reader.poll))
            time.sleep(1)
        publisher.publish([request("p")])
        wait_for(lambda: watch.stop_request("p"), 20)
        assert not heard or any("planted" in text for text in said)
    finally:
        publisher.close()
        watch.close()


@pytest.mark.parametrize("heard", [True, False], ids=["heard", "nobody listens"])
def test_the_teller_goes_on(
    heard: bool, settings: dict[str, str], control_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A word that could not be told is said; the word behind it is told."""
    monkeypatch.setattr(ControlPublisher, "publish", once(ControlPublisher.publish))
    said: list[str] = []
    publisher = StatePublisher(settings, control_topic, said.append if heard else deaf)
    publisher.report_state("p", "run", Health.RUNNING)
    publisher.report_state("p", "run", Health.STOPPED)
    publisher.close()
    reader = ControlReader(settings, control_topic)
    reader.seek(0)
    reported = [event.state for _, event in reader.read_until(reader.end_offset()) if isinstance(event, StateChanged)]
    reader.close()
    assert reported == [Health.STOPPED]
    assert not heard or any("planted" in text for text in said)


def test_a_member_comes_back(
    broker: Broker, admin: KafkaAdmin, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose membership ended for a reason that nobody expected is shown as a member again."""
    monkeypatch.setattr(kafka_presence, "AGAIN_AFTER_S", 0.1)
    monkeypatch.setattr(kafka_presence, "_take_nothing", once(kafka_presence._take_nothing))
    pipeline = unique("p")
    presence = Presence(settings, group_id("it", pipeline), [broker.new_topic()], "run-1")
    try:
        wait_for(lambda: presence._consumer is not None and live_members(admin, "it", pipeline), 60)
        time.sleep(1)  # a member that is taken in and fails leaves at once
        wait_for(lambda: live_members(admin, "it", pipeline), 60)
        assert presence._thread.is_alive()
    finally:
        presence.close()
    wait_for(lambda: not live_members(admin, "it", pipeline))


def test_a_stop_file_is_seen_after_its_storage_was_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Storage that cannot be asked for a moment does not make a driver deaf to the request to stop."""
    sent: list[int] = []
    monkeypatch.setattr(driver_main, "STOP_POLL_S", 0.05)
    monkeypatch.setattr(driver_main.os, "kill", lambda pid, number: sent.append(number))

    class Away(type(tmp_path)):  # type: ignore[misc]  # a path of this system
        asked = 0

        def exists(self, **named: Any) -> bool:
            Away.asked += 1
            if Away.asked < 3:
                raise PermissionError("stale")
            return True

    watch = driver_main._Watch(Away(tmp_path / "stop"))
    wait_for(lambda: sent, 10)
    watch.end()
