"""Fifty who look at the page of a process that commits: its commits take as long as without them."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from framework.local.broker import free_port
from tests.chaos.harness import Running, wait_for
from tests.recovery.conftest import HandRun

pytestmark = [pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.slow]
VIEWERS, ROUNDS = 50, 8
MARK = b"event: parts"
# What is measured shares its processor with the fifty clients of this test, and each turn is a handful of commits.
SLOWER_MOST, NOISE_S = 1.5, 0.05


@contextmanager
def viewers(port: int) -> Iterator[list[int]]:
    """Fifty open pages that read all that they are told; how many times each was told something."""
    reported = [0] * VIEWERS
    opened = [socket.create_connection(("127.0.0.1", port), 60) for _ in range(VIEWERS)]

    def read(number: int) -> None:
        rest = b""
        with suppress(OSError):  # shut below, or with the server
            opened[number].sendall(b"GET /events?at=/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            while data := opened[number].recv(1 << 16):
                text = rest + data
                reported[number] += text.count(MARK)
                rest = text[-len(MARK) + 1 :]

    threads = [threading.Thread(target=read, args=(number,), daemon=True) for number in range(VIEWERS)]
    for thread in threads:
        thread.start()
    try:
        yield reported
    finally:
        for each in opened:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)  # ends the reading thread, too
            each.close()


def commits(url: str) -> tuple[float, float]:
    """How many commits there were, and how long all of them took."""
    text = requests.get(f"{url}/metrics", timeout=20).text
    found = {s.name: s.value for family in text_string_to_metric_families(text) for s in family.samples}
    count = found.get("floe_commit_duration_seconds_count", 0.0)
    return count, found.get("floe_commit_duration_seconds_sum", 0.0)


def test_fifty_viewers_do_not_slow_commits(hand: HandRun) -> None:
    """Commits of a coordinator that serves the page take as long with fifty open pages as with none, turn and turn
    about; all of the fifty are told of them."""
    metrics, page = free_port(), free_port()
    target = hand.project.root / "pipelines" / "targets" / "it.yaml"
    listens = f"monitoring: {{listen: '127.0.0.1:{metrics}', page: '127.0.0.1:{page}'}}\n"
    target.write_text(target.read_text() + listens)
    end = 0

    def one_round(coordinator: Running) -> float:
        """A batch for every table until all are committed; the mean of its commits."""
        nonlocal end
        end += 30
        count, seconds = commits(f"http://127.0.0.1:{metrics}")
        hand.announce(end, end)
        # One table after another becomes due in its interval.
        wait_for(lambda: commits(f"http://127.0.0.1:{metrics}")[0] >= count + len(hand.names), coordinator.output, 60)
        after, total = commits(f"http://127.0.0.1:{metrics}")
        return (total - seconds) / (after - count)

    with Running(hand.project, "coordinator") as coordinator:
        coordinator.wait_for_output("metrics and health at ")  # the last of what it says that it serves
        one_round(coordinator)  # what is loaded once is loaded
        alone: list[float] = []
        looked_at: list[float] = []
        for _ in range(ROUNDS):
            alone.append(one_round(coordinator))
            with viewers(page) as reported:
                wait_for(lambda reported=reported: min(reported) > 0, "fifty open pages", 60)  # type: ignore[misc]
                before = list(reported)
                looked_at.append(one_round(coordinator))
                wait_for(
                    lambda reported=reported, before=before: all(
                        now > then for now, then in zip(reported, before, strict=True)
                    ),  # type: ignore[misc]
                    "the commits on all pages",
                    60,
                )
            time.sleep(0.2)
    ordered, watched = sorted(alone), sorted(looked_at)
    middle = len(ordered) // 2
    print(f"median commit: {ordered[middle]:.3f} s alone, {watched[middle]:.3f} s with {VIEWERS} viewers")
    assert watched[middle] <= ordered[middle] * SLOWER_MOST + NOISE_S, (alone, looked_at)
