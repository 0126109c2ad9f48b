"""The verdict of a long run: what holds more than it may is told, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.long_run import BESIDE_HEAP_MB, HEAP_MB, Sample, faults

FLAT = [Sample(30.0 * number, 250.0, 460.0, 290.0, 240.0, 1.0) for number in range(240)]
HEAPS = [50.0, 51.0, 50.0, 52.0]


def of(samples: list[Sample], heaps: list[float] = HEAPS) -> list[str]:
    return faults(samples, heaps, 7_200)


def test_what_is_level_or_grows_at_first_is_bounded() -> None:
    """Memory that is level, and that which grows in the first half hour alone, are no fault; nor is a peak."""
    assert of(FLAT) == []
    assert of([replace(each, driver_mb=250 - max(0, 1_800 - each.at_s) / 20) for each in FLAT]) == []
    assert (
        of([replace(each, coordinator_mb=900.0) if number == 200 else each for number, each in enumerate(FLAT)]) == []
    )


@pytest.mark.parametrize("part", ["driver_mb", "workers_mb", "coordinator_mb"])
def test_what_grows_with_time_is_a_fault(part: str) -> None:
    """Of each Python process: 3 kB a commit is told by its name, and half of it is not."""

    def growing(bytes_a_commit: float) -> list[Sample]:
        commits_a_second = 2
        return [replace(each, **{part: 200 + each.at_s * commits_a_second * bytes_a_commit / 2**20}) for each in FLAT]

    assert [fault.split(":")[0] for fault in of(growing(4_000))] == [part]
    assert of(growing(1_500)) == []


def test_the_jvm_is_bounded_by_its_heap_and_what_lives_in_it() -> None:
    """More memory than the heap's setting and what is beside it is a fault, at any moment; so is a live heap that
    grows."""
    assert of([replace(each, jvm_mb=float(HEAP_MB + BESIDE_HEAP_MB)) for each in FLAT]) == []
    [fault] = of([*FLAT[:-1], replace(FLAT[-1], jvm_mb=HEAP_MB + BESIDE_HEAP_MB + 1.0)])
    assert fault.startswith("jvm_mb")
    [fault] = of(FLAT, [50.0, 52.0, 54.0, 56.0])
    assert fault.startswith("live heap")
