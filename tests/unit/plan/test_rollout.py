"""What a rollout does, from what runs and what the files make."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.errors import ConfigError
from framework.plan.deploy.rollout import (
    Present,
    RolloutAction,
    RolloutStep,
    Wanted,
    check_removals,
    plan_rollout,
    summary,
)

START, RESTART, KEEP, STOP = RolloutAction.START, RolloutAction.RESTART, RolloutAction.KEEP, RolloutAction.STOP


def wanted(name: str, hash_: str = "sha256:1", fingerprint: str = "f", *pipelines: str) -> Wanted:
    return Wanted(name, pipelines or (name,), hash_, fingerprint)


def present(name: str, hash_: str = "sha256:1", fingerprint: str = "f", ended: str = "", *pipelines: str) -> Present:
    return Present(name, pipelines or (name,), hash_, fingerprint, ended)


def actions(steps: tuple[RolloutStep, ...]) -> list[tuple[RolloutAction, str]]:
    return [(step.action, step.application) for step in steps]


def test_only_what_changed_is_touched() -> None:
    """New starts, changed restarts, ended starts again, gone stops, and the rest is left alone; stops come first."""
    steps = plan_rollout(
        [
            wanted("same"),
            wanted("new"),
            wanted("changed", "sha256:2"),
            wanted("upgraded", fingerprint="g"),
            wanted("dead"),
        ],
        [
            present("same"),
            present("changed"),
            present("upgraded"),
            present("dead", ended="it ended with 1"),
            present("x"),
        ],
    )
    assert actions(steps) == [
        (STOP, "x"),
        (KEEP, "same"),
        (START, "new"),
        (RESTART, "changed"),
        (RESTART, "upgraded"),
        (START, "dead"),
    ]
    assert steps[-1].why == "it ended with 1"
    assert summary(steps) == "2 started, 2 restarted, 1 unchanged, 1 stopped"


NAMES = st.sampled_from(["a", "b", "c", "d"])
HASHES = st.sampled_from(["sha256:1", "sha256:2"])


@given(
    st.dictionaries(NAMES, st.tuples(HASHES, st.sampled_from("fg"))),
    st.dictionaries(NAMES, st.tuples(HASHES, st.sampled_from("fg"), st.sampled_from(["", "it ended with 1"]))),
)
def test_a_second_rollout_changes_nothing(
    files: dict[str, tuple[str, str]], before: dict[str, tuple[str, str, str]]
) -> None:
    """Whatever ran before: once the steps are done, the same files ask for nothing more."""
    applications = [wanted(name, *rest) for name, rest in files.items()]
    running = {name: present(name, *rest) for name, rest in before.items()}
    for step in plan_rollout(applications, running.values()):
        if step.action is STOP:
            del running[step.application]
        elif step.action in (START, RESTART):
            running[step.application] = present(step.application, *files[step.application])
    assert {step.action for step in plan_rollout(applications, running.values())} <= {KEEP}
    assert set(running) == set(files)


def test_what_is_gone_stops_only_with_consent() -> None:
    """A pipeline that no file holds is stopped by name only; one that merely moved to another application needs
    nobody."""
    steps = plan_rollout([wanted("a")], [present("a"), present("b")])
    with pytest.raises(ConfigError) as raised:
        check_removals(steps, False)
    assert (raised.value.code, raised.value.exit_code) == ("FLOE-P108", 2)
    check_removals(steps, True)
    moved = plan_rollout([wanted("all", "sha256:1", "f", "a", "b")], [present("a"), present("b")])
    assert actions(moved) == [(STOP, "a"), (STOP, "b"), (START, "all")]
    check_removals(moved, False)
