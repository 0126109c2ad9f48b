"""A batch and a replay of dead letters take the same rounds: done, tables changed, and done again where that was asked
for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pytest

from framework.errors import FloeError
from framework.record.model import TableNeed, TableTarget
from framework.runtime.batches.change_rounds import CHANGE_ROUNDS, change_tables_until_they_hold, merged_needs
from framework.task.context import TaskContext
from testbed.record_samples import plan, target


@dataclass
class Tables:
    """As `TableRegistry`: a table that is asked for is made, or refused."""

    may_make: bool = True
    targets: dict[str, TableTarget] = field(default_factory=dict)
    refused: tuple[tuple[str, str], ...] = ()
    owned_by_others: tuple[tuple[str, str], ...] = ()

    def with_lent(self, io_properties: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        return {name: {"key": "lent"} for name in self.targets}

    def satisfy(self, needs: Iterable[TableNeed], cause: str = "") -> None:
        assert cause == "batch 3"
        for need in needs:
            if self.may_make:
                self.targets[need.table] = target(need.table, {"a": "long"})
            else:
                self.refused = ((need.table, "not allowed"),)


BASE = TaskContext(plan(), {}, {}, {}, {}, "run", 3)
NEED = TableNeed("ns.t", ())


def rounds(tables: Tables, run: object) -> int:
    return change_tables_until_they_hold(
        BASE,
        tables,  # type: ignore[arg-type]
        run,  # type: ignore[arg-type]
        subject="batch 3",
        report_with="the driver's log",
    )


def test_each_round_is_given_the_tables_as_they_are_by_then() -> None:
    """What one round asks for the next one has, and nothing else of what it is given differs."""
    given: list[TaskContext] = []

    def run(context: TaskContext) -> Sequence[TableNeed]:
        given.append(context)
        return [] if "ns.t" in context.tables else [NEED]

    assert rounds(Tables(), run) == 1
    assert [sorted(context.tables) for context in given] == [[], ["ns.t"]]
    assert (given[0].plan, given[0].run, given[0].batch) == (given[1].plan, "run", 3)
    assert [context.io_properties for context in given] == [{}, {"ns.t": {"key": "lent"}}]


def test_a_refused_table_is_in_the_plan_of_the_next_round() -> None:
    """Where a table may not be made the policy decides about its records, since tasks know that it is refused."""

    def run(context: TaskContext) -> Sequence[TableNeed]:
        return [] if ("ns.t", "not allowed") in context.plan.route.refused_tables else [NEED]

    assert rounds(Tables(may_make=False), run) == 1


def test_changes_without_an_end_are_an_error() -> None:
    """A batch that asks for ever ends after a number of rounds, and says whose it was and what to send along."""
    called: list[TaskContext] = []

    def run(context: TaskContext) -> Sequence[TableNeed]:
        called.append(context)
        return [NEED]

    with pytest.raises(FloeError, match="batch 3 asked for table changes") as raised:
        rounds(Tables(), run)
    assert (raised.value.code, raised.value.remedy) == ("FLOE-R325", "report this with the driver's log")
    assert len(called) == CHANGE_ROUNDS


def test_what_parts_of_a_batch_need_of_a_table_is_one_need() -> None:
    """Two parts that ask the same table for different columns ask for both of them, once."""
    parts = [{"ns.t": TableNeed("ns.t", ((name, "long"),)), "ns.u": TableNeed("ns.u", ())} for name in "ab"]
    found = {need.table: [name for name, _ in need.fields] for need in merged_needs(parts)}
    assert found == {"ns.t": ["a", "b"], "ns.u": []}
