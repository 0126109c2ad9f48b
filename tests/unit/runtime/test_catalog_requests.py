"""What a coordinator asks of catalogs comes back once, as an input, and only to the ownership that asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from framework.commit.machine.effects import ExaminedTable, Input, LoadFailed, LoadTable, TableLoaded, TableMissing
from framework.errors import RetriableError
from framework.runtime.coordinator.catalog_requests import COMMITTERS, SUBMITTED, CatalogRequests


class Catalogs:
    """Tables of which each is found, missing or out of reach, by its name; they answer once they are let."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.asked: list[tuple[str, str]] = []
        self.said: list[str] = []

    def load_view(self, table: str, branch: str, control_topic_id: str) -> ExaminedTable | None:
        self.asked.append((table, control_topic_id))
        self.answers.wait(60)
        if "down" in table:
            raise RetriableError("nobody answers", code="FLOE-R135")
        return None if "missing" in table else ExaminedTable(table, "uuid", branch, None, 0, None)


@pytest.fixture
def catalogs() -> Catalogs:
    return Catalogs()


@pytest.fixture
def requests(catalogs: Catalogs) -> Iterator[CatalogRequests]:
    made = CatalogRequests(catalogs, catalogs.said.append)  # type: ignore[arg-type]
    yield made
    catalogs.answers.set()
    made.close()


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def all_of(requests: CatalogRequests) -> list[Input]:
    """Every answer of the present ownership."""
    found: list[Input] = []

    def taken() -> bool:
        found.extend(requests.answers())
        return not requests.in_flight

    wait_until(taken)
    return found


def test_every_outcome_becomes_an_input(catalogs: Catalogs, requests: CatalogRequests) -> None:
    """A table that is there, one that is not, and a catalog that does not answer: the state is told of each."""
    catalogs.answers.set()
    for name in ("ns.t", "ns.missing", "ns.down"):
        requests.ask(LoadTable(name, "main"), "topic")
    found = {str(getattr(answer, "table", "ns.t")): type(answer) for answer in all_of(requests)}
    assert found == {"ns.t": TableLoaded, "ns.missing": TableMissing, "ns.down": LoadFailed}
    assert catalogs.said == ["ns.down: nobody answers"]


def test_what_an_ended_ownership_asked_is_not_answered_into_the_next(
    catalogs: Catalogs, requests: CatalogRequests
) -> None:
    """Invariant 4: the answer to an older term is dropped, and its loads that still wait are not begun."""
    for number in range(SUBMITTED + 3):
        requests.ask(LoadTable(f"ns.old{number}", "main"), "old")
    wait_until(lambda: len(catalogs.asked) == COMMITTERS)
    requests.new_term()
    assert requests.in_flight == 0
    requests.ask(LoadTable("ns.new", "main"), "new")
    catalogs.answers.set()
    assert [answer.view.table for answer in all_of(requests) if isinstance(answer, TableLoaded)] == ["ns.new"]
    requests.close()
    assert len([table for table, _ in catalogs.asked if table != "ns.new"]) == SUBMITTED


def test_a_request_takes_the_control_topic_of_its_ownership_along(
    catalogs: Catalogs, requests: CatalogRequests
) -> None:
    """Invariant 11: what a table records is compared with the control topic that was owned when it was asked for."""
    requests.ask(LoadTable("ns.one", "main"), "first")
    requests.new_term()
    requests.ask(LoadTable("ns.two", "main"), "second")
    catalogs.answers.set()
    all_of(requests)
    assert sorted(catalogs.asked) == [("ns.one", "first"), ("ns.two", "second")]


def test_a_catalog_that_hangs_holds_no_other(catalogs: Catalogs, requests: CatalogRequests) -> None:
    """Invariant 10: with all threads of one catalog waiting, another catalog's table is asked for at once."""
    for number in range(SUBMITTED + 3):
        requests.ask(LoadTable(f"slow:ns.t{number}", "main"), "topic")
    wait_until(lambda: len(catalogs.asked) == COMMITTERS)
    requests.ask(LoadTable("other:ns.t", "main"), "topic")
    wait_until(lambda: ("other:ns.t", "topic") in catalogs.asked)
