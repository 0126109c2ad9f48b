"""A batch that fails twice for no known reason is done in another way."""

from __future__ import annotations

import pytest

from framework.errors import FloeError
from framework.record.blocks.poison_records import NO_ISOLATION, Isolation, PoisonRecord
from framework.runtime.batches.batch import BatchScope
from framework.runtime.batches.poison_records import PoisonIsolation


class Unforeseen(Exception):
    """What a task ended with."""


def scope(batch: int) -> BatchScope:
    return BatchScope("run", batch, {("events", 0): batch * 10}, {("events", 0): batch * 10 + 10}, {"events": "id"})


class Batches:
    """A run whose batches fail unless they are done as `works` says."""

    def __init__(self, found: Isolation | str, works: Isolation) -> None:
        self.said: list[str] = []
        self.looks: list[Isolation] = []
        self._found, self._works = found, works
        self._isolation = PoisonIsolation(self.said.append)

    def attempt(self, batch: int) -> Isolation:
        def write(care: Isolation) -> Isolation:
            if care != self._works:
                raise Unforeseen
            return care

        def look(care: Isolation) -> Isolation | str:
            self.looks.append(care)
            return self._found

        return self._isolation.do(scope(batch), write, look)


APART = Isolation(is_sql_apart=True)


def test_expressions_stay_apart_for_the_rest_of_the_run() -> None:
    """A stream with one record for which `transform.sql` fails has more: only the first batch fails, twice, and it is
    said once."""
    run = Batches(APART, works=APART)
    with pytest.raises(Unforeseen):
        run.attempt(1)
    assert [run.attempt(batch) for batch in (1, 2, 3)] == [APART] * 3
    assert (run.looks, len(run.said)) == ([NO_ISOLATION], 2)
    assert "evaluated apart" in run.said[1]


def test_a_batch_that_fails_nevertheless_is_looked_into_again() -> None:
    """Who looks is told that expressions are apart already: another record may end the task."""
    run = Batches(
        APART, works=Isolation((PoisonRecord("events", 0, 14, "SIGSEGV"),), is_uncompiled=True, is_sql_apart=True)
    )
    for _ in range(3):
        with pytest.raises(Unforeseen):
            run.attempt(1)
    assert run.looks == [NO_ISOLATION, APART]


def test_condemned_records_are_those_of_their_batch() -> None:
    """The next batch is done as if nothing had been."""
    found = Isolation((PoisonRecord("events", 0, 14, "SIGSEGV"),), is_uncompiled=True)
    run = Batches(found, works=found)
    with pytest.raises(Unforeseen):
        run.attempt(1)
    assert run.attempt(1) == found
    with pytest.raises(Unforeseen):
        run.attempt(2)
    assert run.looks == [NO_ISOLATION]


def test_what_no_record_does_goes_on_as_the_error_that_it_was() -> None:
    """Errors of floe's own are never looked into; where nothing is found, that is said."""
    run = Batches("its process ends whatever it reads", works=APART)
    for _ in range(2):
        with pytest.raises(Unforeseen):
            run.attempt(1)
    assert (run.looks, "found no record" in run.said[-1]) == ([NO_ISOLATION], True)

    def refuse(care: Isolation) -> Isolation:
        assert care == NO_ISOLATION
        raise FloeError("no", code="FLOE-R324")

    for _ in range(3):
        with pytest.raises(FloeError):
            PoisonIsolation(run.said.append).do(scope(1), refuse, lambda care: pytest.fail("it was looked into"))
