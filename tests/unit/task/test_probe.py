"""The search for records that end a task: what is found, and that it ends, whatever it is that ends the task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from framework.record.blocks.poison_records import PoisonRecord
from framework.record.model import TaskRange
from framework.task import probe
from framework.task.probe import MOST_CUTS, MOST_POISON_RECORDS, NotARecord, deadly_records


@dataclass(frozen=True)
class Context:
    poison: tuple[PoisonRecord, ...] = ()


class Processes:
    """Stands for the processes that try pieces: one ends at the first piece that `fails`."""

    def __init__(self, fails: Any) -> None:
        self.fails = fails
        self.count = 0

    def run(self, pieces: Sequence[TaskRange], context: Context) -> Any:
        self.count += 1
        gone = {each.offset for each in context.poison}
        for done, piece in enumerate(pieces):
            if self.fails([at for at in range(piece.start, piece.end) if at not in gone]):
                return probe._End(done, "it raised")
        return probe._End(len(pieces))


def search(monkeypatch: pytest.MonkeyPatch, count: int, fails: Any) -> tuple[Processes, Any]:
    processes = Processes(fails)
    monkeypatch.setattr(probe, "_run", processes.run)
    context: Any = Context()
    try:
        return processes, [each.offset for each in deadly_records([TaskRange("t", "id", 0, 0, count)], context)]
    except NotARecord as error:
        return processes, error


@pytest.mark.parametrize("bad", [[], [0], [99_999], [3, 4, 50_000], list(range(0, 96_000, 3_000))])
def test_each_record_that_ends_the_task_is_found(monkeypatch: pytest.MonkeyPatch, bad: list[int]) -> None:
    """Wherever they are, up to the bound."""
    assert len(bad) <= MOST_POISON_RECORDS
    _, found = search(monkeypatch, 100_000, lambda offsets: any(at in bad for at in offsets))
    assert found == bad


def test_too_many_are_none_of_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where more records than the bound end it, none is condemned."""
    _, found = search(monkeypatch, 10_000, lambda offsets: any(at % 100 == 7 for at in offsets))
    assert isinstance(found, NotARecord)


@pytest.mark.parametrize("together", [2, 3, 50])
def test_records_that_end_it_only_together_end_the_search(monkeypatch: pytest.MonkeyPatch, together: int) -> None:
    """A fault of floe's that needs several records is no record's: the search ends, after few processes, and says so."""
    processes, found = search(monkeypatch, 1_000_000, lambda offsets: len(offsets) >= together)
    assert isinstance(found, NotARecord)
    assert processes.count <= MOST_CUTS + 2
