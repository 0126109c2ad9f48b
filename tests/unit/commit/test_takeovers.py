"""Who coordinated, as the log tells it: how often that changed."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.commit.events.event_types import CommitComplete, CoordinatorAssigned
from framework.commit.risks import LeadershipClaim, LeadershipHistory, recent
from framework.runtime.coordinator.leadership_changes import RecentLeadership

NAMES = ["a", "b", "c"]


def folded(*words: LeadershipClaim) -> tuple[int, ...]:
    leaderships = LeadershipHistory()
    for word in words:
        leaderships = leaderships.after(word)
    return leaderships.takeovers_ms


@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), max_size=3)), min_size=1, max_size=9)
)
def test_each_assignment_but_the_first_is_a_takeover_whatever_is_reported_in_between(
    turns: list[tuple[str, list[str]]],
) -> None:
    """Of coordinators that tell when they begin, every beginning after the first counts once: silent ones, one that
    gets the leadership again, and with late words of others in between."""
    begun: set[str] = set()
    words: list[LeadershipClaim] = []
    for number, (who, late) in enumerate(turns):
        words.append(LeadershipClaim(who, 10 * number, begins=True))
        begun.add(who)
        words += [LeadershipClaim(each, 10 * number + 1) for each in late if each in begun]
    assert folded(*words) == tuple(10 * number for number in range(1, len(turns)))


def test_those_of_older_versions_count_when_another_one_speaks() -> None:
    """Without a word at its beginning, a coordinator counts when it says something behind another one; what one said
    before that, by its time, says nothing new."""
    a, b = LeadershipClaim("a", 10), LeadershipClaim("b", 20)
    assert folded(a, replace(a, at_ms=15), b, replace(b, at_ms=25)) == (20,)
    assert folded(a, b, a) == (20,)
    assert folded(a, b, replace(a, at_ms=30)) == (20, 30)
    assert folded(LeadershipClaim("", 5), a) == ()


def test_one_that_reads_again_by_itself_is_no_takeover() -> None:
    """A coordinator that gives the leadership up to read a part of the log again, and gets it, changes nothing; if another one
    had it meanwhile, it does."""
    again = LeadershipClaim("a", 20, begins=True, reads_again=True)
    a, b = LeadershipClaim("a", 10, begins=True), LeadershipClaim("b", 15, begins=True)
    assert folded(a, again) == ()
    assert folded(a, b, again) == (15, 20)


def test_one_whose_work_was_done_is_taken_over_from_by_nobody() -> None:
    """Bounded runs one after the other change nothing; one that fails in between, and so says nothing at its end, counts
    once. What is late of one that ended, or ends without having coordinated, says nothing."""

    def run(who: str, at_ms: int, ends: bool = True) -> list[LeadershipClaim]:
        claims = [LeadershipClaim(who, at_ms, begins=True), LeadershipClaim(who, at_ms + 1)]
        return [*claims, LeadershipClaim(who, at_ms + 2, ends=True)] if ends else claims

    assert folded(*run("a", 10), *run("b", 20), *run("c", 30)) == ()
    assert folded(*run("a", 10), *run("b", 20, ends=False), *run("c", 30)) == (30,)
    assert folded(*run("a", 10), LeadershipClaim("a", 15), *run("b", 20)) == ()
    assert folded(*run("a", 10, ends=False), LeadershipClaim("b", 15, ends=True), *run("c", 20)) == (20,)


def test_what_is_recent() -> None:
    """Fifteen minutes count, to the millisecond."""
    assert recent((0, 1, 900_001), 900_001) == [1, 900_001]


def test_the_owner_knows_what_came_before_it_began_to_read() -> None:
    """What the log holds before the place where a coordinator begins is looked through beside its work, and counts
    before what it has heard meanwhile."""
    may_read = threading.Event()

    def read(first: int, below: int) -> list[LeadershipClaim]:
        assert (first, below) == (7, 20)
        may_read.wait(10)
        return [LeadershipClaim(name, at, begins=True) for name, at in (("a", 1), ("b", 2))]

    history = RecentLeadership(read)
    history.begins(7, 20, 30)
    for _ in range(500):
        history.hear(CommitComplete("a", 0, 1))
    history.hear(CoordinatorAssigned("c", 3))
    assert history.takeovers_ms == (3,)
    may_read.set()
    _join()
    assert history.takeovers_ms == (2, 3)


@pytest.mark.parametrize(("failures", "takeovers"), [(2, (3, 4)), (3, (4,))])
def test_a_look_that_fails_hides_nothing_and_is_tried_again(failures: int, takeovers: tuple[int, ...]) -> None:
    """What is heard counts meanwhile; what came before counts once it can be read, and not if that never succeeds."""
    may_read, asked = threading.Event(), []

    def fails(first: int, below: int) -> list[LeadershipClaim]:
        may_read.wait(10)
        asked.append(first)
        if len(asked) <= failures:
            raise OSError
        return [LeadershipClaim("a", 1, begins=True)]

    history = RecentLeadership(fails, pauses_s=(0.0, 0.0))
    history.begins(7, 20, 30)
    for name, at_ms in (("c", 3), ("d", 4)):
        history.hear(CoordinatorAssigned(name, at_ms))
    assert history.takeovers_ms == (4,)
    may_read.set()
    _join()
    assert history.takeovers_ms == takeovers


def _join() -> None:
    for thread in threading.enumerate():
        if thread.name == "leadership-history":
            thread.join(10)
