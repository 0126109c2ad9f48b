"""Every world of a small scope: two pipelines, two coordinators, two tables, three batches, trouble at any moment.

The scopes are explored to their end. Those marked slow take some minutes: `pytest -m slow tests/protocol`.
"""

from __future__ import annotations

import pytest

from tests.protocol.explore import Scope, explore, explore_logs, logs
from tests.protocol.world import KEYED

T, U, K = "db.t", "db.u", KEYED
TWO_BATCHES = (((T, U),), ((T,),))
THREE_BATCHES = (((T, U), (T,)), ((T,),))
THREE_SHARED = (((T, U), (T,)), ((T, U),))


def scope(scripts: tuple[tuple[tuple[str, ...], ...], ...], **more: int | bool) -> Scope:
    """One takeover that leaves the old owner running, and the trouble that is named."""
    return Scope(
        scripts, **{"takeovers": 2, "coordinator_crashes": 0, "worker_crashes": 0, "unknown_outcomes": 0, **more}
    )


NORMAL = {
    "one table, a driver dies": scope((((T,),), ((T,),)), worker_crashes=1),
    "a table by its keys, a coordinator dies": scope((((K,), (K,), (K, T)),), coordinator_crashes=1),
    "a table by its keys, a driver dies, an outcome is unknown": scope(
        (((K,), (K,)),), worker_crashes=1, unknown_outcomes=1
    ),
    "a table by its keys, somebody else commits": scope((((K,), (K,), (K,)),), foreign_commits=1),
    "a new table, a driver dies": scope((((T,), (T,)), ((T,),)), worker_crashes=1, new=True),
}
ALIAS = (("DB.T", T),)
EDGES = {
    "a table with two names": scope((((T, "DB.T"),), (("DB.T",),)), aliases=ALIAS, commit_files=1),
    "two partitions, given up, back, made anew, grown": scope((((T,), (T,)),), partitions=2, give_up=2, takeovers=1),
    "the log is cut off": scope((((T,),), ((U,),)), truncations=1),
    "the log is cut off between two batches": scope((((T,), (T,)),), truncations=1),
    "a table is put back, or its record taken away": scope((((T,), (T,), (T,)),), put_back=1),
}
FULL_EDGES = {
    "a table with two names, a coordinator dies": scope(
        (((T,), (T,)), (("DB.T",),)), aliases=ALIAS, coordinator_crashes=1
    ),
    "three batches of two partitions": scope(
        (((T,), (T,), (T,)),), partitions=2, give_up=2, takeovers=1, coordinators=1
    ),
    "the log is cut off, an outcome is unknown": scope((((T,), (T,)),), truncations=1, unknown_outcomes=1),
    "a table of two pipelines is put back": scope((((T,), (T,)), ((T,),)), put_back=1),
}
FULL = {
    "three batches, a coordinator dies": scope(THREE_BATCHES, coordinator_crashes=1),
    "two batches, an outcome is unknown": scope(TWO_BATCHES, unknown_outcomes=1),
    "two batches, a driver dies": scope(TWO_BATCHES, worker_crashes=1),
    "two batches, a coordinator dies and an outcome is unknown": scope(
        TWO_BATCHES, coordinator_crashes=1, unknown_outcomes=1
    ),
    "two batches, somebody else commits": scope(TWO_BATCHES, foreign_commits=1),
    "three batches, one file a commit": scope(THREE_BATCHES, commit_files=1),
    "three batches, reading stopped after every record": scope(THREE_BATCHES, every_record=True),
    "three batches, an outcome is unknown": scope(THREE_BATCHES, unknown_outcomes=1),
    "three batches over both tables, a stale coordinator": scope(THREE_SHARED),
}


@pytest.mark.parametrize("name", NORMAL)
def test_no_world_of_the_small_scope_has_a_fault(name: str) -> None:
    """Nothing lost, nothing twice, progress never back, low-water mark sound, in every world that can be reached."""
    outcome = explore_logs(NORMAL[name])
    assert (outcome.fault, outcome.path, outcome.log) == (None, [], ())
    assert outcome.complete
    assert outcome.states > 1_000


@pytest.mark.parametrize("name", EDGES)
def test_no_world_at_the_edges_has_a_fault(name: str) -> None:
    """The same with several partitions and names, topics that come back, logs that end earlier and tables that are put
    back: what cannot be exact waits and says why."""
    outcome = explore(EDGES[name])
    assert (outcome.fault, outcome.path) == (None, [])
    assert outcome.complete
    assert outcome.states > 500


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", FULL_EDGES)
def test_no_world_further_at_the_edges_has_a_fault(name: str) -> None:
    """The same for larger scopes."""
    outcome = explore(FULL_EDGES[name])
    assert (outcome.fault, outcome.path) == (None, [])
    assert outcome.complete


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", FULL)
def test_no_world_of_the_larger_scope_has_a_fault(name: str) -> None:
    """The same for larger scopes."""
    outcome = explore_logs(FULL[name])
    assert (outcome.fault, outcome.path, outcome.log) == (None, [], ())
    assert outcome.complete
    assert outcome.states > 20_000


def test_a_log_that_grows_while_it_is_read_has_no_fault() -> None:
    """Pipelines and coordinators take turns in every order; what an open transaction hides stays hidden."""
    outcome = explore(scope((((T,),), ((T,),)), coordinator_crashes=1))
    assert (outcome.fault, outcome.path) == (None, [])
    assert outcome.complete
    assert outcome.states > 1_000


def test_the_real_interleaving_is_among_the_logs() -> None:
    """`A:DataWritten@0, B:DataWritten@1, B:DataComplete@2, A:DataComplete@4` is one of the explored orders."""
    orders = {
        " ".join(f"{e.writer}:{type(e.event).__name__}@{n}" for n, e in enumerate(world.log) if e.event is not None)
        for world in logs(scope((((T,),), ((T,),))))
    }
    assert "a:DataWritten@0 b:DataWritten@1 b:DataComplete@2 a:DataComplete@4" in orders
    assert len(orders) == 6
