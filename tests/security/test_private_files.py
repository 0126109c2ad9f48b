"""Another user of the same machine: he wants to read plans, logs and records, or to have his code run. He gets neither.

Everything that floe keeps for itself is written through one door; these tests walk what verbs leave behind when the
umask forbids nothing, and look for code that writes past the door.
"""

from __future__ import annotations

import ast
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import framework
from framework.adapters.host import private_files
from framework.adapters.host.private_files import make_private, open_private, private_dir, touch_private, write_private
from framework.adapters.spark.python import python_command
from framework.deploy.applications import Applications
from framework.deploy.launch import Application, stage
from framework.errors import SetupError
from tests.conftest import Broker
from tests.project import Project

SOURCES = Path(framework.__file__).parent
PIPELINE = """\



source: {{kafka: {{connection: main, topics: [{topic}]}}}}
routes: {{rules: [{{table: shop.orders}}], allow_tables: ["shop.*"]}}
errors: {{policy: dead_letter, dead_letter_table: shop.dead_letters}}
"""


@pytest.fixture(autouse=True)
def no_umask() -> object:
    before = os.umask(0)
    yield
    os.umask(before)


def open_to_others(root: Path, but: tuple[str, ...] = ()) -> list[str]:
    """Whatever below a folder anybody else can read, write or enter, by its path."""
    return [
        f"{stat.S_IMODE(path.lstat().st_mode):o} {path.relative_to(root)}"
        for path in (root, *root.rglob("*"))
        if not path.is_symlink() and path.exists() and path.lstat().st_mode & 0o077
        and not any(part in but for part in path.relative_to(root).parts[:-1])
    ]  # fmt: skip


# ---- the door -------------------------------------------------------------------------------------------------------


def test_what_is_written_is_private_whatever_the_umask(tmp_path: Path) -> None:
    """Folders that were missing, files, logs and marks are for nobody else, also where they were laxer before."""
    folder = private_dir(tmp_path / "a" / "b")
    (folder / "old").write_text("x")
    (folder / "log").write_text("x")
    write_private(folder / "old", "y")
    write_private(folder / "new", b"y")
    with open_private(folder / "log") as log:
        log.write(b"z")
    touch_private(folder / "mark")
    assert open_to_others(tmp_path / "a") == []
    assert ((folder / "old").read_text(), (folder / "log").read_text()) == ("y", "xz")
    folder.chmod(0o755)
    assert stat.S_IMODE(private_dir(folder).stat().st_mode) == 0o700
    assert sorted(path.name for path in folder.iterdir()) == ["log", "mark", "new", "old"]


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o1777, 0o720])
def test_a_folder_that_others_may_write_into_is_not_used(tmp_path: Path, mode: int) -> None:
    """Wanted: a plan, a log or a program planted before floe comes. Got: FLOE-E030, and nothing is read or written
    there."""
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(SetupError) as refused:
        private_dir(folder)
    assert refused.value.code == "FLOE-E030"
    assert "chmod 700" in refused.value.remedy


def test_a_folder_of_somebody_else_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wanted: a folder that its owner can change later. Got: FLOE-E030. Of links: test_own_folders."""
    theirs = private_dir(tmp_path / "theirs")
    monkeypatch.setattr(private_files.os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(SetupError, match="belongs to user"):
        private_dir(theirs)
    monkeypatch.undo()
    (tmp_path / "file").touch()
    with pytest.raises(SetupError, match="not a folder"):
        private_dir(tmp_path / "file")


def test_a_link_leads_no_file_elsewhere(tmp_path: Path) -> None:
    """Wanted: a log or a plan written over a file of ours, by a link in its place. Got: it is replaced, or refused."""
    precious = tmp_path / "precious"
    precious.write_text("x")
    for name in ("plan", "log"):
        (tmp_path / name).symlink_to(precious)
    write_private(tmp_path / "plan", "y")
    assert not (tmp_path / "plan").is_symlink()
    with pytest.raises(OSError, match=r"[Ll]ink"):
        open_private(tmp_path / "log")
    assert precious.read_text() == "x"


def test_a_planted_cache_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wanted: a `python` in a cache that others may write into is started by every run. Got: Python itself is."""
    import pyspark

    home = Path(pyspark.__file__).parent
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = python_command(home)
    assert Path(made).is_relative_to(tmp_path)
    assert open_to_others(tmp_path / "floe") == []
    assert subprocess.run([made, "-c", "print(1)"], capture_output=True, text=True, check=True).stdout == "1\n"
    Path(made).parent.chmod(0o777)
    assert python_command(home) == sys.executable


# ---- what verbs leave behind ----------------------------------------------------------------------------------------


def test_a_staged_application_is_private(tmp_path: Path) -> None:
    """`floe submit` and `floe deploy`: the plan, the code and the record of what was started."""
    folder = tmp_path / "submit" / "a"
    application = Application(
        "a", "h", folder, (sys.executable, "-c", ""), True, None, {"plan.json": b"{}", "code.zip": b""}
    )
    stage(application, lambda _: None)
    assert sorted(path.name for path in folder.iterdir()) == ["code.zip", "plan.json"]
    Applications(tmp_path, "prod")
    assert open_to_others(tmp_path / "submit") == []


def test_what_other_programs_made_becomes_private(tmp_path: Path) -> None:
    """Jars, downloads and packed environments; what may be run may still be run by us."""
    made = tmp_path / "made"
    (made / "bin").mkdir(parents=True)
    (made / "bin" / "python").touch(0o755)
    (made / "a.jar").touch()
    (made / "link").symlink_to("/etc/passwd")
    before = Path("/etc/passwd").stat().st_mode
    make_private(made)
    assert open_to_others(made) == []
    assert os.access(made / "bin" / "python", os.X_OK)
    assert Path("/etc/passwd").stat().st_mode == before


@pytest.mark.kafka
def test_the_embedded_stack_is_private(tmp_path: Path) -> None:
    """`floe local up`: broker, its logs and data, and the catalog; then `floe local down`."""
    environment = {**os.environ, "FLOE_HOME": str(tmp_path / ".floe")}
    command = [sys.executable, "-m", "framework.cli.main", "local"]
    try:
        subprocess.run([*command, "up", "--kafka-port", "0"], env=environment, check=True, capture_output=True)
        assert open_to_others(tmp_path / ".floe") == []
        assert (tmp_path / ".floe" / "local" / "catalog.db").exists()
    finally:
        subprocess.run([*command, "down"], env=environment, check=True, capture_output=True)
    assert open_to_others(tmp_path / ".floe") == []


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.iceberg
@pytest.mark.slow
def test_what_plan_and_run_leave_is_private(tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """`floe plan --out` and `floe run`: the saved plan, Spark's log, and caches; rows are as the umask says."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    topic = broker.new_topic("private")
    broker.produce(topic, [{"id": 1}])
    project = Project(tmp_path, broker.bootstrap_servers)
    file = project.pipeline("p", PIPELINE.format(topic=topic))
    command = [sys.executable, "-m", "framework.cli.main"]
    root = {**os.environ, "PYTHONPATH": str(SOURCES.parent)}
    for words in (["plan", str(file), "--out", "plan.json"], ["run", str(file), "--until-caught-up"]):
        done = subprocess.run(
            [*command, *words, "--target", "it"], env=root, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert stat.S_IMODE((tmp_path / "plan.json").stat().st_mode) == 0o600
    # Java writes its archive of classes as it likes, into a folder of ours; the next start makes it private.
    assert [each for each in open_to_others(tmp_path / "cache" / "floe") if not each.endswith(".part")] == []
    state = list(tmp_path.rglob("spark.log"))
    assert state
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in state)
    assert all(open_to_others(path.parent) == [] for path in state)
    assert shutil.which("java")


# ---- past the door --------------------------------------------------------------------------------------------------

# Files of people, in folders of theirs, which they named; and the door itself.
NOT_OURS = {
    "adapters/project/files.py",  # a file of theirs is rewritten with its own mode
    "adapters/host/private_files.py",
    "cli/write/docs.py",
    "cli/write/import_connector.py",
    "cli/write/init.py",
    "cli/check/templates_lock.py",  # `floe.lock`, which is kept in version control
}
# Calls that write, and why each that is left may.
LEFT = {
    ("deploy/package/archive.py", "mkdir"),  # inside of a temporary folder, made private before it leaves it
    ("deploy/package/archive.py", "copy2"),
    ("deploy/launch.py", "mkdir"),  # a folder that the user of the workers reads, in cluster mode
    ("deploy/launch.py", "copytree"),
    ("deploy/launch.py", "symlink_to"),
    ("adapters/spark/class_archive.py", "open"),  # with the mode, and only if it is new
    ("adapters/host/scratch.py", "open"),  # a lock, with the mode and only if it is new; of others' no link is followed
    ("adapters/iceberg/private/avro/blocks.py", "write_bytes"),  # into memory
    ("cli/main.py", "open"),  # /dev/null
    (
        "adapters/telemetry/lineage_sinks.py",
        "open",
    ),  # for its owner and group, whose collector reads it, and no link is followed
    ("deploy/log_pump.py", "open"),  # for its owner alone, and no link is followed
    (
        "cli/shared/options.py",
        "write_text",
    ),  # a report, where its user asked for it, for the tools of theirs that read it
    ("deploy/package/archive.py", "open"),  # a tar file over a stream that is open
}
WRITES = {
    "write_text", "write_bytes", "touch", "mkdir", "makedirs", "copy", "copy2", "copyfile", "copytree", "symlink_to", "mkfifo",
    "hardlink_to", "link", "symlink", "mknod",
}  # fmt: skip


def _writes(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in WRITES and not (name in ("copy", "link") and not _of_a_module(node.func)):
            found.add(name)
        modes = [arg.value for arg in [*node.args, *(k.value for k in node.keywords)] if isinstance(arg, ast.Constant)]
        flags = {part.attr for arg in node.args for part in ast.walk(arg) if isinstance(part, ast.Attribute)}
        if name == "open" and (
            any(isinstance(mode, str) and set(mode) & set("wax+") and set(mode) <= set("rwaxbt+") for mode in modes)
            or flags & {"O_CREAT", "O_WRONLY", "O_RDWR"}
        ):
            found.add("open")
    return found


def _of_a_module(function: ast.expr) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id in ("os", "shutil")
    )


def test_nothing_is_written_past_the_door() -> None:
    """Code that writes files in another way leaves them as the umask says, and follows links."""
    past = {
        (str(path.relative_to(SOURCES)), name)
        for path in SOURCES.rglob("*.py")
        if str(path.relative_to(SOURCES)) not in NOT_OURS
        for name in _writes(path)
    }
    assert past == LEFT
