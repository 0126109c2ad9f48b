"""Set-up of a checkout: the lock is complete and true, and what a machine lacks is named."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from testbed.servers.fetch import FETCHED

ROOT = Path(__file__).parent.parent.parent.parent


def locked() -> dict[str, str]:
    """Name -> version of the lock's lines that hold for this Python."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    requirements = [Requirement(line) for line in lines if line and not line.startswith("#")]
    here = [one for one in requirements if one.marker is None or one.marker.evaluate()]
    return {canonicalize_name(one.name): str(one.specifier).removeprefix("==") for one in here}


def needed() -> set[str]:
    """Every distribution that floe needs here, directly or through others, its development tools included."""
    found: set[str] = set()
    waiting = [("floe-pipelines", frozenset({"dev"}))]
    while waiting:
        name, extras = waiting.pop()
        for text in metadata.requires(name) or []:
            one = Requirement(text)
            wanted = [{"extra": extra} for extra in extras | {""}]
            if one.marker is None or any(one.marker.evaluate(environment) for environment in wanted):
                key = canonicalize_name(one.name)
                if key not in found or one.extras:
                    found.add(key)
                    waiting.append((key, frozenset(one.extras)))
    return found


def test_the_lock_names_every_package_at_the_version_that_is_tested() -> None:
    """No package comes in unpinned, and the environment that runs the tests is the one that the lock describes."""
    lock, names = locked(), needed()
    assert names - set(lock) == set()
    assert {name: metadata.version(name) for name in names} == {name: lock[name] for name in names}


@pytest.mark.parametrize(
    ("environment", "message", "remedy"),
    [
        (
            {"JAVA_HOME": "/nowhere"},
            "Java 17 or 21 is needed, and there is none (JAVA_HOME=/nowhere)",
            "jre|openjdk|java",
        ),
        ({"PYTHON": "/nowhere/python", "PATH": ""}, "Python 3.10 or newer is needed", "python"),
    ],
)
def test_set_up_names_what_the_machine_lacks(
    environment: dict[str, str], message: str, remedy: str, tmp_path: Path
) -> None:
    """Without Java, or without Python, set-up ends with 3, a sentence, and the one command that mends it."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("dirname", "uname", "cat", "cksum", "cut"):
        (tools / tool).symlink_to(str(shutil.which(tool)))
    path = str(tools) if environment.get("PATH") == "" else os.environ["PATH"]
    answer = subprocess.run(
        ["/bin/sh", str(ROOT / ".ci" / "setup")],
        env={**os.environ, **environment, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 3
    assert message in answer.stderr
    assert re.search(rf"remedy: .*({remedy})", answer.stderr)


@pytest.mark.packaging
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_fresh_clone_sets_itself_up(tmp_path: Path) -> None:
    """`make setup` in a new clone makes an environment with exactly the locked packages and a working `floe`."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    subprocess.run(["make", "setup"], cwd=clone, check=True)
    shown = subprocess.run([".venv/bin/floe", "--version"], cwd=clone, capture_output=True, text=True, check=True)
    assert "0.1.0" in shown.stdout
    command = [".venv/bin/python", "-m", "pip", "freeze", "--exclude-editable", "--all"]
    frozen = subprocess.run(command, cwd=clone, capture_output=True, text=True, check=True).stdout
    installed = {canonicalize_name(name): version for name, _, version in (i.partition("==") for i in frozen.split())}
    lock = locked()
    unlocked = {name: version for name, version in installed.items() if lock.get(name) != version}
    assert unlocked.keys() <= {"pip", "setuptools", "wheel"}
    again = subprocess.run(["make", "setup"], cwd=clone, capture_output=True, text=True, check=True)
    assert again.stdout == ""


# Gigabytes that `make test` needs nothing of: slow tests fetch them, and have the time for it.
FOR_ONE_SLOW_TEST = {
    *(("trino", "java_25"), ("trino", "_server")),
    *(("nessie", "_jar"), ("table_readers", "read_with"), ("wheels", "installed")),
    ("kubernetes", "_go"),
}


FETCHES = {"jars", "archive", "installed", "wheels.installed"}


def test_what_tests_fetch_is_fetched_before() -> None:
    """Each function of `testbed/servers` that fetches something is in the list that `make test` goes through before the
    first test, so that a slow line costs no test its time-out."""
    found = set()
    for path in sorted((ROOT / "testbed" / "servers").rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            called = {ast.unparse(each.func) for each in ast.walk(node) if isinstance(each, ast.Call)}
            texts = {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)}
            if isinstance(node, ast.FunctionDef) and (called & FETCHES or "pip" in texts):
                folder = path.relative_to(ROOT / "testbed" / "servers").with_suffix("").parts[0]
                found.add((folder, node.name))
    listed = {(fetch.__module__.rpartition(".")[2], fetch.__name__) for fetch in FETCHED.values()}
    assert found - FOR_ONE_SLOW_TEST <= listed
    assert found >= FOR_ONE_SLOW_TEST
    assert len(found) > 5
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").split("\ntest: ")[1].split("\n\n")[0]
    assert recipe.index("testbed.servers.fetch") < recipe.index("-m pytest")
