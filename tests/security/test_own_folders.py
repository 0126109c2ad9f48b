"""A checkout that brings `.floe`, or anything in it, as a link to what is somebody's: no verb writes, removes or changes
anything there.

Whoever runs floe in a pull request's checkout owns the link, so only that it is one tells it from a folder.
"""

from __future__ import annotations

import ast
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import framework
from framework.adapters.host import private_files
from framework.adapters.host.private_files import (
    no_link_below,
    open_private,
    private_dir,
    remove_private,
    write_private,
)
from framework.adapters.host.process import exclusive, spawn, stop
from framework.adapters.project.files import cache_dir
from framework.cli.main import run_main
from framework.deploy.applications import Applications, DeployedApplication, Record
from framework.deploy.launch import Application, stage
from framework.errors import SetupError
from framework.local import stack
from framework.plan.deploy.rollout import Wanted
from framework.runtime.spark.query import start_session

SOURCES = Path(framework.__file__).parent


@pytest.fixture
def victim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is somebody's, with a file at each path that floe may have; the current folder is a checkout beside it."""
    folder = tmp_path / "victim"
    for name in (
        "state.json", "local/state.json", "local/catalog.new", "spark/worker.pid", "kafka.pid", "local/kafka.pid",
        "run/it/a/pid", "it/a/state.json", "a/pid", "stop", "logs/spark.log", "spark.log", "lib/x", "kafka.port",
    ):  # fmt: skip
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("precious")
    for each in (folder, *folder.rglob("*")):
        each.chmod(0o755 if each.is_dir() else 0o644)
    (tmp_path / "checkout").mkdir()
    monkeypatch.chdir(tmp_path / "checkout")
    monkeypatch.delenv("FLOE_HOME", raising=False)
    return folder


def seen(folder: Path) -> dict[str, object]:
    return {
        str(path): (stat.S_IMODE(path.lstat().st_mode), path.read_bytes() if path.is_file() else b"")
        for path in (folder, *sorted(folder.rglob("*")))
    }


def application(folder: Path) -> Application:
    return Application("a", "h", folder, (sys.executable, "-c", ""), True, None, {"plan.json": b"{}"})


def deployed() -> None:
    Applications(Path(".floe"), "it").start(
        application(Path(".floe/submit/a").absolute()), Wanted("a", ("a",), "h", "f"), "d", 0
    )


def forgotten() -> None:
    found = Applications(Path(".floe"), "it")
    record = Record("a", "d", "it", ("a",), "h", "f", str(Path(".floe/submit/a").absolute()), (), 0, 0)
    found.forget(DeployedApplication(record, found.root / "a", "ended", None, 0, 0))


def stopped() -> None:
    found = Applications(Path(".floe"), "it")
    record = Record("a", "d", "it", ("a",), "h", "f", str(Path(".floe/submit/a").absolute()), (), 0, 0)
    found.stop(DeployedApplication(record, found.root / "a", "ended", None, 0, 0), 0.1)


def staged() -> None:
    stage(application(Path(".floe/submit/a").absolute()), lambda _: None)


def staged_for_all() -> None:
    folder = Path(".floe/submit/a").absolute()
    stage(Application("a", "h", folder, (), True, None, {"plan.json": b"{}"}, shared_folder=True), lambda _: None)


def session() -> None:
    start_session("a", "local[1]", {}, Path(".floe/logs"))


def up() -> None:
    stack.up(Path(".floe"))


def down() -> None:
    stack.down(Path(".floe"), wipe=True)


WRITES = [deployed, forgotten, stopped, staged, staged_for_all, session, up, down]
LEVELS = {
    ".floe": WRITES,
    ".floe/local": [up, down],
    ".floe/local/kafka": [up],
    ".floe/local/warehouse": [up],
    ".floe/local/warehouse/shop": [up],
    ".floe/local/catalog.db": [up],
    ".floe/local/spark": [down],
    ".floe/run": [deployed, forgotten, stopped],
    ".floe/run/it": [deployed, forgotten, stopped],
    ".floe/run/it/a": [deployed, stopped],
    ".floe/submit": [staged, staged_for_all],
    ".floe/submit/a": [staged, staged_for_all],
    ".floe/logs": [session],
    ".floe/logs/spark.log": [session],
}


@pytest.mark.parametrize(
    ("level", "verb"),
    [pytest.param(level, verb, id=f"{verb.__name__}-{level}") for level, verbs in LEVELS.items() for verb in verbs],
)
def test_a_link_at_any_level_leads_nothing_elsewhere(
    victim: Path, level: str, verb: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused with the link's name before anything is written, removed or given another mode."""
    monkeypatch.setattr(stack, "find_java", lambda: pytest.fail("it went on"))
    link = Path(level)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(victim / "spark.log" if level.endswith(".log") else victim)
    before = seen(victim)
    with pytest.raises((SetupError, OSError)) as refused:
        verb()
    assert seen(victim) == before
    if isinstance(refused.value, SetupError):
        assert refused.value.code == "FLOE-E030"
        assert f"{link.absolute()} is a link to" in str(refused.value)


def test_wiping_says_which_link_to_remove(victim: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`floe local down --wipe` where `.floe` is a link, as a person types it."""
    Path(".floe").symlink_to(victim)
    before = seen(victim)
    assert run_main(["local", "down", "--wipe"]) == 3
    said = "".join(capsys.readouterr())
    assert "FLOE-E030" in said
    assert f"`rm {Path('.floe').absolute()}`" in said
    assert seen(victim) == before


def test_what_is_in_an_own_folder_goes_and_what_a_link_there_leads_to_stays(victim: Path) -> None:
    """Removing goes through one door: folders with all that is in them, links as links."""
    own = private_dir(Path("own"))
    (own / "sub").mkdir()
    (own / "sub" / "link").symlink_to(victim)
    (own / "link").symlink_to(victim)
    before = seen(victim)
    remove_private(own / "link")
    remove_private(own)
    remove_private(own)
    assert not own.exists()
    assert seen(victim) == before
    Path("over").symlink_to(victim)
    for door in (
        lambda: remove_private(Path("over/state.json")),
        lambda: write_private(Path("over/state.json"), "x"),
        lambda: open_private(Path("over/local/state.json")),
        lambda: private_dir(Path("over/local")),
        lambda: private_dir(Path("over/../over/new")),
        lambda: exclusive(Path("over/lock")).__enter__(),
        lambda: spawn(["true"], Path("over/pid"), Path("over/log"), Path()),
        lambda: stop(Path("over/kafka.pid"), "mark"),
        lambda: no_link_below(Path()),
    ):
        with pytest.raises((SetupError, ValueError)):
            door()
    assert seen(victim) == before


def test_links_of_the_machine_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`/home` as a link, and what belongs to the administrator, are no checkout's; where a person's own `~/.cache` or
    TMPDIR is a link, its place is used under its real name."""
    link = tmp_path / "link"
    (tmp_path / "real").mkdir()
    link.symlink_to(tmp_path / "real")
    with pytest.raises(SetupError):
        private_files.follow_no_link(link / "x")
    monkeypatch.setattr(private_files.os, "geteuid", lambda: 4711)
    owner = link.lstat().st_uid
    if owner == 0:
        private_files.follow_no_link(link / "x")
    monkeypatch.undo()
    assert private_files._is_administrators(Path("/home"), 4711)
    monkeypatch.setenv("XDG_CACHE_HOME", str(link))
    assert private_dir(cache_dir()) == tmp_path / "real" / "floe"


# ---- every place that removes or moves ------------------------------------------------------------------------------

REMOVE = {"rmtree", "unlink", "rmdir", "removedirs", "rename", "renames", "chmod", "fchmod", "lchmod", "chown"}
IN_MODULES = {"remove", "replace", "move", "truncate"}
OPENED = "in a folder that private_dir opened"
# Functions that remove, move or change the mode of files past `remove_private`, and why they may.
PLACES = {
    ("adapters/project/files.py", "rewrite_text"): "a person's file, which was named",
    ("adapters/iceberg/upsert/hash_files.py", "read_hash_file"): OPENED,
    ("adapters/iceberg/upsert/hash_files.py", "_copy"): OPENED,
    ("adapters/iceberg/upsert/hash_files.py", "_make_room"): OPENED,
    ("adapters/telemetry/metrics_delivery.py", "write_textfile"): "a file that the target names",
    ("adapters/host/private_files.py", "private_dir"): "the door",
    ("adapters/host/private_files.py", "_check"): "the door",
    ("adapters/host/private_files.py", "write_private"): "the door",
    ("adapters/host/private_files.py", "open_private"): "the door",
    ("adapters/host/private_files.py", "remove_private"): "the door",
    ("adapters/host/private_files.py", "make_private"): "the door",
    ("adapters/host/scratch.py", "_hold"): "a folder that mkdtemp made",
    ("adapters/host/scratch.py", "_remove"): "a folder that mkdtemp made",
    (
        "adapters/host/scratch.py",
        "remove_abandoned",
    ): "a folder, not a link, of this user's, with a lock that no link leads to",
    ("adapters/spark/class_archive.py", "_adopt"): OPENED,
    ("deploy/launch.py", "_copy_once"): "in a folder that follow_no_link looked at",
    ("deploy/log_pump.py", "shift"): "links as links; in a folder that private_dir opened",
    ("deploy/package/archive.py", "build_archive"): OPENED,
    ("local/catalog.py", "prepare_catalog"): OPENED,
    ("local/jars.py", "_fetch"): OPENED,
    ("local/nycflights.py", "fetch"): OPENED,
    ("ops/drill/scratch_world.py", "_remove_empty"): "folders with nothing in them, below one of the drill's own name",
    ("runtime/job.py", "_run"): "scratch",
    ("runtime/pipeline/paced_query.py", "run"): "scratch",
}


def test_every_place_that_removes_moves_or_opens_up_was_judged() -> None:
    """A new one goes through the door, or says here why no link can lead it elsewhere."""
    found = set()
    for path in sorted(SOURCES.rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_one = isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
            if is_one and any(_removes(node) for node in ast.walk(function)):
                found.add((str(path.relative_to(SOURCES)), function.name))
    assert found == set(PLACES)


def _removes(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    name, whole = node.func.attr, ast.unparse(node.func)
    if name in IN_MODULES and whole.startswith(("os.", "shutil.")):
        return True
    is_a_paths = name == "replace" and len(node.args) == 1 and not node.keywords  # a text's takes two
    return name in REMOVE or is_a_paths
