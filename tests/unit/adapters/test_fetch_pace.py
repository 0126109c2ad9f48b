"""What a broker is held to: time in which it could have sent records, not time that is spent with those it sent."""

from __future__ import annotations

from typing import Any

import pytest

from framework.adapters.kafka import fetch
from framework.adapters.kafka.fetch import RangeFetcher
from framework.adapters.kafka.reader import Polled
from framework.errors import RetriableError
from framework.record.model import TaskRange


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


class Broker:
    """Gives `records`, one at a look, and then nothing for `silent_s`; `position` is where it stands."""

    def __init__(self, clock: Clock, records: int, silent_s: float) -> None:
        self.clock, self.left, self.silent_s, self.at = clock, records, silent_s, 0

    def poll(self, most: int, most_bytes: int, end: int, wait_s: float) -> Polled:
        self.clock.now += 1
        if self.silent_s > 0 and self.at:
            self.silent_s -= 1
            return Polled(0, 0, -1, (), self.at)
        self.at += 1
        return Polled(1, 1, self.at, (), self.at)

    def position(self, piece: TaskRange) -> int:
        return self.at

    def ask_for_leader(self, piece: TaskRange) -> None:
        """Nobody else leads."""

    def take(self, piece: TaskRange) -> int:
        return self.at


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(fetch, "time", clock)
    return clock


def blocks(clock: Clock, silent_s: float, work_s: float, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Each block is worked on for so long; the time limit is 60 s."""
    fetcher = RangeFetcher({}, 60.0)
    monkeypatch.setattr(fetcher, "_check_topic_id", lambda *_: None)
    monkeypatch.setattr(fetcher, "_stalled", lambda *_: RetriableError("no records came", code="FLOE-R123"))
    found: list[Any] = []
    reader: Any = Broker(clock, 5, silent_s)
    connection: Any = None
    for block in fetcher._blocks(connection, reader, TaskRange("t", "id", 0, 0, 5), 1):
        found.append(block)
        clock.now += work_s
    return found


@pytest.mark.parametrize(("silent_s", "work_s"), [(0, 1_000), (5, 100), (50, 61), (50, 0)])
def test_work_on_a_block_is_no_silence_of_the_broker(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, silent_s: float, work_s: float
) -> None:
    """A block that takes longer than the time limit, with a pause of the broker behind it, ends nothing."""
    assert blocks(clock, silent_s, work_s, monkeypatch) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("work_s", [0, 100])
def test_silence_is_still_reported(clock: Clock, monkeypatch: pytest.MonkeyPatch, work_s: float) -> None:
    """Where nothing comes for longer than the limit it is told, whatever was done before."""
    with pytest.raises(RetriableError, match="no records came"):
        blocks(clock, 200, work_s, monkeypatch)
