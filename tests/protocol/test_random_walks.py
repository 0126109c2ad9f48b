"""Long random histories, many of them: the rules of `test_histories` in an order drawn from a seed, weighted so that most
of what happens is work and some of it is trouble.

`FLOE_HISTORIES` sets their number; a failure names its seed and what happened, and runs again by that seed alone.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.protocol import world as w
from tests.protocol.test_histories import Protocol

HISTORIES = int(os.environ.get("FLOE_HISTORIES", "400"))
STEPS = 60

TABLES = ["db.t", "db.u"]
RULES: list[tuple[int, str, dict[str, list[object]]]] = [
    (12, "announce_a_batch", {"which": [0, 1, 2]}),
    (10, "announce", {"which": [0, 1, 2], "count": [1, 2, 3]}),
    (12, "the_owner_works", {"mended": [True, False]}),
    (6, "works_for_a_while", {"seat": [0, 1, 2], "all_done": [True, False]}),
    (8, "reads", {"seat": [0, 1, 2], "count": [1, 2, 3, 8]}),
    (6, "ticks", {"seat": [0, 1, 2]}),
    (8, "performs", {"seat": [0, 1, 2], "number": [0, 1, 2], "outcome": ["sound", "sound", "lost", "failed", "late"]}),
    (3, "a_late_request_arrives", {"number": [0, 1, 2]}),
    (3, "commit_is_requested", {"pipeline": ["", "a", "b"], "patience": [0, 10, 5_000]}),
    (
        3,
        "trouble_in_a_pipeline",
        {
            "which": [0, 1, 2],
            "kind": ["dies", "dies", "repeat", "break", "break", "settled"],
            "table": TABLES,
            "pick": [0, 1, 2, 3, 4, 5],
        },
    ),
    (
        5,
        "trouble_with_coordinators",
        {"seat": [0, 1, 2], "kind": ["takes over", "takes over", "dies", "reads again"], "back": [1, 2, 3, 4]},
    ),
    (2, "commits_are_paused", {"table": TABLES, "paused": [True, False]}),
    (4, "clock_moves", {"change": [1, 1_000, 60_000, 700_000, -50_000]}),
    (
        5,
        "somebody_touches_a_table",
        {
            "table": TABLES,
            "kind": ["commit"] * 8
            + ["expire"] * 4
            + ["schema"] * 2
            + ["rollback"] * 4
            + ["gone"] * 2
            + ["replaced", "elsewhere"]
            + ["discard"] * 3,
            "pick": [0, 1, 2, 3, 4],
        },
    ),
    (2, "trouble_with_the_log", {"kind": ["below"] * 6 + ["links", "announcements", "position"]}),
]


def walk(seed: int) -> tuple[list[str], list[w.Fault], w.World]:
    """One history: what happened, the faults seen (none), and the world before it was drained."""
    chance = random.Random(seed)
    protocol = Protocol()
    names = [name for _, name, _ in RULES]
    weights = [weight for weight, _, _ in RULES]
    choices = {name: arguments for _, name, arguments in RULES}
    happened: list[str] = []
    for name in chance.choices(names, weights, k=STEPS):
        if name == "a_late_request_arrives" and not protocol.world.orphans:
            continue
        arguments = {key: chance.choice(values) for key, values in choices[name].items()}
        happened.append(f"{name}({arguments})")
        getattr(protocol, name)(**arguments)
        if found := w.faults(protocol.world):
            return happened, found, protocol.world
    for table in protocol.world.tables:
        protocol.world = protocol.world.with_table(w.replace(table, exists=True))
    _, found = w.drain(protocol.world, protocol.step)
    return happened, found, protocol.world


CHUNK = 100


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("first", range(0, HISTORIES, CHUNK))
def test_no_history_has_a_fault(first: int) -> None:
    """Nothing lost, nothing twice, progress never back, low-water mark sound, whatever happened in whatever order."""
    for seed in range(first, min(first + CHUNK, HISTORIES)):
        happened, found, _ = walk(seed)
        assert found == [], f"seed {seed}: " + "\n".join(happened)


def test_histories_are_worth_their_name() -> None:
    """In most histories several commits are made, and trouble of every kind is met in some."""
    commits, conflicts = [], 0
    for seed in range(60):
        happened, _, world = walk(seed)
        commits.append(sum(1 for t in world.tables for _, s in t.snapshots if s.marker is not None))
        conflicts += any("takes over" in step for step in happened)
    assert sum(commits) / len(commits) > 3
    assert conflicts > 30
