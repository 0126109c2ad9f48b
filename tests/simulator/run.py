"""Runs histories, shortens one that fails, and prints it so that a person can read it.

In: how many histories, how many steps, and the first seed. Out: none that fails, or the first that does, one line an act.

    python -m tests.simulator.run --histories 100000 --steps 200 --seed 1 --processes 2
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import repeat

from tests.simulator import shells
from tests.simulator.acts import Act, draw, perform
from tests.simulator.settle import settle_everything
from tests.simulator.world import World

PART = 100  # histories that one process plays before it takes more


@dataclass(frozen=True)
class Failure:
    """What must not be, and the acts that lead to it."""

    seed: int
    fault: str
    acts: tuple[Act, ...]
    trace: tuple[str, ...]

    def __str__(self) -> str:
        lines = "\n".join(f"  {line}" for line in self.trace)
        return f"seed {self.seed}: {self.fault}\n{len(self.acts)} acts:\n{lines}"


@contextmanager
def simulated() -> Iterator[None]:
    """Floe's modules reach for the simulated ports, for as long as this lasts."""
    undo: list[tuple[object, str, object]] = []

    def patch(module: object, name: str, value: object) -> None:
        undo.append((module, name, getattr(module, name)))
        setattr(module, name, value)

    shells.install(patch)
    try:
        yield
    finally:
        for module, name, value in reversed(undo):
            setattr(module, name, value)


def play(seed: int, acts: Sequence[Act], trace: list[str] | None = None) -> str:
    """What must not be and was; "" where nothing was."""
    world = World(seed, trace)
    shells.Current.world, world.perform = world, perform
    doing = "the end"
    try:
        for act in acts:
            doing = act.kind
            perform(world, act)
            world.oracle.check()
        doing = "the end"
        settle_everything(world)
    except AssertionError as fault:
        found = str(fault) or traceback.format_exc(limit=-3)
        world.say(lambda: f"-> {doing}: {found}")
        return found
    except Exception as error:  # whatever it is, nobody foresaw it
        return f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-6)}"
    return ""


def history(seed: int, steps: int) -> list[Act]:
    return draw(random.Random(seed), steps)


def shrink(seed: int, acts: Sequence[Act], fault: str) -> list[Act]:
    """Fewer acts that fail as well: parts are left out, larger ones first, then what happens inside of acts."""
    kind = kind_of(fault)

    def fails(tried: Sequence[Act]) -> bool:
        return kind_of(play(seed, tried)) == kind

    found = list(acts)
    size = max(1, len(found) // 2)
    while True:
        at, changed = 0, False
        while at < len(found):
            tried = found[:at] + found[at + size :]
            if fails(tried):
                found, changed = tried, True
            else:
                at += size
        if size == 1 and not changed:
            break
        size = max(1, size // 2)
    for number, act in enumerate(found):
        for each in act.inside:
            slim = replace(found[number], inside=tuple(one for one in found[number].inside if one is not each))
            if fails([*found[:number], slim, *found[number + 1 :]]):
                found[number] = slim
    return found


def kind_of(fault: str) -> str:
    """Faults are alike when their first words are, whatever the numbers and names."""
    first = fault.splitlines()[0] if fault else ""
    words = (first.partition(":")[2] or first).replace(":", " ").split()
    return " ".join([word for word in words if word.strip(",").isalpha() and len(word) > 1][:3])


def failure_of(seed: int, steps: int, shorten: bool = True) -> Failure | None:
    """The history of a seed, where it fails."""
    acts = history(seed, steps)
    fault = play(seed, acts)
    if not fault:
        return None
    short = shrink(seed, acts, fault) if shorten else acts
    trace: list[str] = []
    again = play(seed, short, trace)
    return Failure(seed, again or fault, tuple(short), tuple(trace))


def first_failure(
    seeds: Sequence[int], steps: int, shorten: bool = True, say: Callable[[int], None] = lambda done: None
) -> Failure | None:
    for done, seed in enumerate(seeds):
        found = failure_of(seed, steps, shorten)
        if found is not None:
            return found
        say(done + 1)
    return None


def failures(seeds: range, steps: int) -> list[Failure]:
    """Those of some seeds, one after the other."""
    with simulated():
        return [found for seed in seeds if (found := failure_of(seed, steps)) is not None]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=1_000)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--keep-going", action="store_true", help="print each failure and go on")
    given = parser.parse_args(arguments)
    began, failed, done = time.monotonic(), 0, 0
    last = given.seed + given.histories - 1
    parts = [range(at, min(at + PART, last + 1)) for at in range(given.seed, last + 1, PART)]
    with ProcessPoolExecutor(given.processes) as pool:
        for part, found in zip(parts, pool.map(failures, parts, repeat(given.steps)), strict=True):
            failed, done = failed + len(found), done + len(part)
            for each in found:
                print(each, flush=True)
            if found and not given.keep_going:
                pool.shutdown(wait=False, cancel_futures=True)
                return 1
            if done % 1_000 == 0:
                print(f"{done:,} histories, {failed} failed, {time.monotonic() - began:,.0f} s", flush=True)
    seconds = time.monotonic() - began
    counts = f"{given.histories:,} histories of {given.steps} steps, seeds {given.seed} to {last}"
    print(f"{counts}, {seconds:,.0f} s: {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
