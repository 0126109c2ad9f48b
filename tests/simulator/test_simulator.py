"""Whole histories of floe's recovery and maintenance over a simulated log, catalog, store and clocks.

A failure prints its seed and the history, shortened, one line an act. `python -m tests.simulator.run --histories 100000
--seed 1000000` plays seeds that nobody has run before; FLOE_SIMULATED says how many are played here.
"""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

from tests.simulator import acts
from tests.simulator.acts import DO, PLACES, Act, draw
from tests.simulator.invariants import Fault
from tests.simulator.run import failure_of, first_failure, history, kind_of, play, shrink, simulated

HISTORIES = int(os.environ.get("FLOE_SIMULATED", "1000"))
STEPS = 200


@pytest.mark.parametrize("half", [0, 1])
def test_nothing_is_lost_repeated_or_removed(half: int) -> None:
    """Each record is once in each table or given up by name, and no file goes that anybody can reach."""
    first = 1 + half * (HISTORIES // 2)
    with simulated():
        found = first_failure(range(first, first + HISTORIES // 2), STEPS)
    assert found is None, f"\n{found}\nagain: python -m tests.simulator.run --histories 1 --seed {found.seed}"


# Of histories that found something: in floe, or in what was expected of it.
FOUND = (9504063, 20008930, 50000586, 52004879, 63002137, 64001651)


@pytest.mark.parametrize("seed", FOUND)
def test_what_was_found_once_stays_mended(seed: int) -> None:
    """Seeds that failed once, whatever the reason was."""
    with simulated():
        found = failure_of(seed, STEPS)
    assert found is None, f"\n{found}"


def test_every_act_happens_and_others_act_between_its_steps() -> None:
    """No act is so rare that a hundred histories lack it, and something happens between the steps of each that has some."""
    drawn = [act for seed in range(100) for act in history(seed, STEPS)]
    assert {act.kind for act in drawn} == set(DO)
    between = Counter((act.kind, place) for act in drawn for place, _ in act.inside)
    assert set(between) == {(kind, place) for kind, places in PLACES.items() for place in places}


def test_most_acts_take_effect() -> None:
    """Histories do what they say: verbs succeed and are refused, snapshots expire, orphans go, tables move."""
    said: Counter[str] = Counter()
    with simulated():
        for seed in range(60):
            trace: list[str] = []
            play(seed, history(seed, STEPS), trace)
            for line in trace:
                said.update(word for word in WORDS if word in line)
    assert set(said) == set(WORDS), sorted(set(WORDS) - set(said))


WORDS = (
    "floe rollback", "--skip: gaps", "--replay: gaps", "filled", "floe discard", "announcements, ", "floe offsets set",
    "floe rebase", "FLOE-R357", "FLOE-R361", "killed", "expire", " orphans", "is moved to snapshot", "is made anew",
    "is renamed to", "arrives late", "takes log", "days pass", "minutes ahead", "meanwhile (expiry decided)",
    "is registered", "is added to", "begins at", "as orphans", "cannot be loaded",
)  # fmt: skip


def test_a_history_is_the_same_when_it_is_played_again() -> None:
    """A seed alone says what happens: who runs it again sees the same, line by line."""
    with simulated():
        traces: list[list[str]] = [[], []]
        for trace in traces:
            play(7, history(7, STEPS), trace)
    assert traces[0] == traces[1]
    assert len(traces[0]) > STEPS // 2


def test_a_history_that_fails_is_shortened_and_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault, which any commit to `t` after a tag shows, leaves a handful of acts of two hundred."""
    real = acts.DO["tag"][1]

    def planted(world: acts.World, picks: acts.Picks) -> None:
        real(world, picks)
        if any(truth.tags for truth in world.oracle.truths.values()):
            raise Fault("t: planted 17")

    monkeypatch.setitem(acts.DO, "tag", (acts.DO["tag"][0], planted))
    with simulated():
        seed = next(seed for seed in range(50) if play(seed, history(seed, STEPS)))
        found = failure_of(seed, STEPS)
    assert found is not None
    assert "planted" in found.fault
    assert len(found.acts) <= 8
    assert f"seed {seed}: t: planted 17" in str(found)
    assert any("announces batch" in line for line in found.trace)


def test_what_is_left_of_a_history_stays_valid() -> None:
    """Acts carry their own choices: without every second one a history still plays, and finds nothing."""
    with simulated():
        for seed in range(20):
            assert play(seed, draw(random.Random(seed), STEPS)[::2]) == ""


def test_shortening_keeps_the_kind_of_fault() -> None:
    """A shorter history that shows another fault is no shorter form of this one."""
    assert kind_of("t: lost: a src-a-1-0 [4]") == kind_of("u: lost: a src-a-2-1 [17, 18]")
    assert kind_of("t: lost: a src-a-1-0 [4]") != kind_of("t: twice in snapshot 4: a src-a-1-0 [4]")
    with simulated():
        assert shrink(1, [Act("batch", 1)], "never seen") == [Act("batch", 1)]
