"""What `floe doctor` makes of what it finds: one trouble never hides another, and the exit code says whether one is
there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.adapters.host.installed import again, pip_command
from framework.errors import SetupError
from framework.ops.doctor import catalog as doctor_catalog
from framework.ops.doctor import registry as doctor_registry
from framework.ops.doctor.kafka import judge_skew
from framework.ops.doctor.machine import addresses, read_lock
from framework.ops.doctor.model import CheckState, DoctorFinding, ask, error, exit_code, ok, warning
from framework.ops.doctor.scratch import ScratchPrefix, is_left, scratch_namespace
from testbed.servers.registry import RegistryServer


def test_a_question_that_fails_is_an_error_line() -> None:
    """What was found before a failure is kept, and the failure is a line with its place, code and remedy."""

    def question() -> Iterator[DoctorFinding]:
        yield ok("kafka", "answers")
        raise SetupError("no topic", code="FLOE-E108", place="k:9092", remedy="make it")

    assert ask("kafka", question) == [
        ok("kafka", "answers"),
        error("kafka", "no topic (k:9092) [FLOE-E108]", "make it"),
    ]


def test_what_nobody_expected_is_a_line_too() -> None:
    """An exception of any library becomes an error line; the doctor goes on."""

    def question() -> Iterator[DoctorFinding]:
        raise ZeroDivisionError("oh")
        yield

    (finding,) = ask("disk", question)
    assert (finding.state, finding.message) == (CheckState.ERROR, "ZeroDivisionError: oh")


def test_only_errors_make_the_exit_code() -> None:
    """3 when there is an error; warnings alone are 0."""
    assert exit_code([ok("a", ""), warning("b", "", "")]) == 0
    assert exit_code([ok("a", ""), error("b", "", "")]) == 3


def test_catalogs_with_one_warehouse_are_reported() -> None:
    """Two tables of one name would lie in one place; a warehouse that is a name says nothing across servers."""
    here = {"type": "sql", "uri": "sqlite:///a.db", "warehouse": "s3://lake/tables"}
    there = {**here, "uri": "sqlite:///b.db", "warehouse": "s3://lake/tables/"}
    (finding,) = doctor_catalog.shared_places({"default": here, "cold": there, "warm": {"type": "rest", "uri": "u"}})
    assert finding.state is CheckState.WARNING
    assert "`cold` and `default` have the same warehouse, s3://lake/tables:" in finding.message
    named = {"type": "rest", "uri": "http://a", "warehouse": "lake"}
    assert not list(doctor_catalog.shared_places({"default": named, "cold": {**named, "uri": "http://b"}}))


@pytest.mark.parametrize(
    ("skew_ms", "state"),
    [
        (0, CheckState.OK),
        (-999, CheckState.OK),
        (1_000, CheckState.WARNING),
        (-29_999, CheckState.WARNING),
        (30_000, CheckState.ERROR),
    ],
)
def test_a_skewed_clock_is_reported(skew_ms: int, state: CheckState) -> None:
    """A second of difference is worth a warning, half a minute an error, in both directions."""
    assert judge_skew("clock", skew_ms).state is state


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("spark://a:7077,b:7078", [("a", 7077), ("b", 7078)]),
        ("spark://a", [("a", 7077)]),
        ("k8s://https://api.example:6443", [("api.example", 6443)]),
        ("k8s://api.example", [("api.example", 443)]),
    ],
)
def test_every_master_is_asked(master: str, expected: list[tuple[str, int]]) -> None:
    """Each address of a master is known, with its usual port where none is given."""
    assert addresses(master) == expected


def test_the_lock_is_read_for_this_python() -> None:
    """Comments are no pins, and a pin for another Python does not count."""
    text = '# the lock\nclick==8.5.1\nnumpy==1.0 ; python_version < "3.0"\nnumpy==2.0 ; python_version >= "3.0"\n'
    assert read_lock(text) == {"click": "8.5.1", "numpy": "2.0"}


def test_a_registry_answers_with_its_subjects_or_says_what_to_do() -> None:
    """Each address of a registry is a line: subjects, no answer beside one that answers, wrong credentials, no
    registry."""
    server = RegistryServer("floe:swordfish")
    try:
        server.register("orders-value", '"int"')
        settings = {"url": f"http://127.0.0.1:9,{server.url}", "basic.auth.user.info": "floe:swordfish"}

        def lines(**changed: str) -> list[DoctorFinding]:
            return ask("registry main", lambda: doctor_registry.examine("main", lambda: settings | changed))

        right, down = lines()
        assert right == ok("registry main", f"{server.url} answers; 1 subject: orders-value")
        assert (down.state, "no connection" in down.message, "another address" in down.remedy) == (
            CheckState.WARNING,
            True,
            True,
        )
        (alone,) = lines(url="http://127.0.0.1:9")
        assert (alone.state, "no record is lost" in alone.remedy) == (CheckState.ERROR, True)
        (refused,) = lines(url=server.url, **{"basic.auth.user.info": "floe:wrong"})
        assert (refused.state, "FLOE-E112" in refused.message, "basic.auth" in refused.remedy) == (
            CheckState.ERROR,
            True,
            True,
        )
        server.state.status = 404
        (other,) = lines(url=server.url)
        assert (other.state, "path included" in other.remedy) == (CheckState.ERROR, True)
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("noted", "command"),
    [
        ({}, "pip install --force-reinstall floe-pipelines==1.2.0   (from your team's index, as the first time)"),
        (
            {"url": "file:///tmp/floe_pipelines-1.2.0-py3-none-any.whl", "archive_info": {}},
            'pip install --force-reinstall "floe-pipelines @ file:///tmp/floe_pipelines-1.2.0-py3-none-any.whl"',
        ),
        (
            {"url": "https://git.shop.example/floe.git", "vcs_info": {"vcs": "git", "commit_id": "abc123"}},
            'pip install --force-reinstall "floe-pipelines @ git+https://git.shop.example/floe.git@abc123"',
        ),
        (
            {"url": "https://ada:hunter22@git.shop.example/floe.whl", "archive_info": {}},
            'pip install --force-reinstall "floe-pipelines @ https://***@git.shop.example/floe.whl"',
        ),
    ],
)
def test_the_command_that_installs_again_follows_how_floe_came(noted: dict[str, object], command: str) -> None:
    """Who installed a wheel, from git or from an index is told pip's command for that, and never a password."""
    assert pip_command("1.2.0", noted) == command


def test_in_a_clone_the_command_is_makes() -> None:
    """In a clone of the repository `make setup` installs again, with the lock."""
    assert again() == "make setup"


def test_a_store_that_refuses_is_not_called_a_catalog(tmp_path: Path) -> None:
    """Where the store may not be written, it is the store that is named, and its remedy: also if the catalog's client wrote
    there to create a table."""
    settings = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": "file:///proc/floe"}
    found = list(doctor_catalog.examine("default", lambda: settings))

    assert (found[-1].check, found[-1].state) == ("catalog default warehouse", CheckState.ERROR)
    assert "write there" in found[-1].remedy
    assert "create tables" not in found[-1].remedy


@pytest.mark.parametrize("prefix", list(ScratchPrefix))
def test_a_scratch_namespace_is_left_after_an_hour(prefix: ScratchPrefix) -> None:
    """By the time in its name; nothing that people call so is one."""
    name, now_s = scratch_namespace(prefix), time.time()
    assert [is_left(name, now_s + more) for more in (0, 3_500, 3_700)] == [False, False, True]
    for other in (name.upper(), f"{name}x", f"x{name}", name[:-1], prefix.value, f"{prefix.value}{'0' * 8}"):
        assert not is_left(other, now_s + 3_700), other
