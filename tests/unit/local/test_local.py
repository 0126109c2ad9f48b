"""The parts of the embedded stack that need no server: Java, pinned jars, the state file, foreign processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from framework.adapters.host.java import find_java, java_major
from framework.adapters.host.process import command_line, running_pid, stop
from framework.errors import SetupError
from framework.local.broker import free_port
from framework.local.jars import broker_jars, pinned_sums, wrong_files
from framework.local.state import LocalPaths, LocalState, default_state_dir, read_state, write_state


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_401"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_java_versions_are_read_in_old_and_new_spelling(text: str, major: int | None) -> None:
    """`java -version` of any age gives the major version, and other text gives none."""
    assert java_major(text) == major


def test_missing_java_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without Java the error says what is needed and how to get it."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetupError, match="Java 17 or 21 is needed") as caught:
        find_java()
    assert "install" in caught.value.remedy


@pytest.mark.parametrize("major", [11, 25])
def test_a_java_that_spark_does_not_run_on_is_refused(
    major: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Too old and too new versions are refused, with the version and the place of what was found."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{major}.0.1\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SetupError, match=f"this is Java {major}") as caught:
        find_java()
    assert caught.value.place == str(java)


def test_no_port_is_given_twice() -> None:
    """Two thousand free ports are two thousand: a broker whose two listeners got one port would not begin."""
    assert len({free_port() for _ in range(2_000)}) == 2_000


def test_the_pinned_list_holds_the_broker_and_its_logging() -> None:
    """Every jar is pinned by a SHA-256 sum, the broker, its storage tool's modules and the log binding among them."""
    sums = pinned_sums()
    assert {"kafka_2.13-4.1.2.jar", "kafka-server-4.1.2.jar", "log4j-slf4j-impl-2.25.3.jar"} <= set(sums)
    assert all(len(digest) == 64 and int(digest, 16) for digest in sums.values())


def test_a_changed_or_missing_jar_is_found(tmp_path: Path) -> None:
    """A directory counts as complete only if every file in it is the pinned one."""
    (tmp_path / "kafka_2.13-4.1.2.jar").write_bytes(b"something else")
    assert sorted(wrong_files(tmp_path)) == sorted(pinned_sums())


def test_jars_come_from_the_users_mirror_and_an_empty_one_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """FLOE_IVY_SETTINGS decides where jars come from; what cannot be fetched ends in an error, and nothing is kept."""
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="mirror"/><resolvers><filesystem name="mirror" m2compatible="true">'
        f'<artifact pattern="{tmp_path}/mirror/[organisation]/[module]/[revision]/[artifact].[ext]"/>'
        "</filesystem></resolvers></ivysettings>"
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("FLOE_IVY_SETTINGS", str(settings))
    said: list[str] = []
    with pytest.raises(SetupError, match="46 of the broker's 46 jars could not be fetched") as caught:
        broker_jars(find_java(), said.append)
    assert "FLOE_IVY_SETTINGS" in caught.value.remedy
    assert str(settings) in said[0]
    assert not [path for path in (tmp_path / "cache" / "floe").iterdir() if path.is_dir()]


def test_the_state_file_comes_back_as_written(tmp_path: Path) -> None:
    """What `up` records is what a target file sees, all of it as text."""
    state = LocalState("127.0.0.1:9392", "sqlite:////x/catalog.db", "file:///x/warehouse", "cluster", "4.1.2")
    assert read_state(tmp_path) is None
    LocalPaths.of(tmp_path).root.mkdir()
    write_state(tmp_path, state)
    assert read_state(tmp_path) == state
    assert state.kafka_port == 9392
    assert {"bootstrap_servers", "catalog_uri", "warehouse"} <= set(state.as_mapping())


def test_a_damaged_state_file_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    """A state file that is not what `up` writes stops the command; it is never taken for a stack that is down."""
    path = LocalPaths.of(tmp_path).state_file
    path.parent.mkdir()
    path.write_text("{}")
    with pytest.raises(SetupError, match="cannot be read"):
        read_state(tmp_path)


def test_the_state_directory_can_be_named_by_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """FLOE_HOME names the state directory; without it, it is `.floe` here."""
    monkeypatch.delenv("FLOE_HOME", raising=False)
    assert default_state_dir() == Path(".floe")
    monkeypatch.setenv("FLOE_HOME", str(tmp_path))
    assert default_state_dir() == tmp_path


def test_the_stack_is_found_from_folders_below(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A stack that is up is found from every folder below its own; a link, and what is not up, is passed over."""
    monkeypatch.delenv("FLOE_HOME", raising=False)
    below = tmp_path / "pipelines" / "shop"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    (tmp_path / ".floe" / "local").mkdir(parents=True)
    assert default_state_dir() == Path(".floe")
    (tmp_path / ".floe" / "local" / "state.json").write_text("{}")
    assert default_state_dir() == tmp_path / ".floe"
    (below / ".floe").symlink_to(tmp_path / ".floe")
    assert default_state_dir() == tmp_path / ".floe"
    monkeypatch.chdir(tmp_path)
    assert default_state_dir() == Path(".floe")


def test_a_process_is_ours_only_if_its_command_line_says_so(tmp_path: Path) -> None:
    """This very test run is alive, and is still not taken for, nor ended as, a broker."""
    pid_file = tmp_path / "pid"
    assert command_line(os.getpid())
    assert running_pid(pid_file, "mark") is None
    pid_file.write_text(str(os.getpid()))
    assert running_pid(pid_file, "-Dfloe.local.cluster=abc") is None
    assert stop(pid_file, "-Dfloe.local.cluster=abc") is False
    assert not pid_file.exists()
