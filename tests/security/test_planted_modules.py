"""Python that lies in the current folder, as a pull request brings it, or beside the file, is run by no verb.

Modules of every name that a start may import are planted; each tells that it was imported. What starts a process is
found in the source, so that the next one is judged, too.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyspark
import pytest
import yaml

import framework
from framework.adapters.host.process import SAFE_PATH, python, python_in_shell
from framework.adapters.spark.python import python_command
from framework.cli.run import demo
from framework.deploy.applications import Applications
from framework.deploy.launch import _DRIVER_TEXT, Application
from framework.deploy.package.archive import Lock, _fetch, launcher_text
from framework.errors import SetupError
from framework.local import nycflights
from framework.plan.deploy.rollout import Wanted
from framework.plan.deploy.submit import DRIVER
from framework.task import probe
from framework.task.probe import _End
from tests.spark.test_tests_with_sql import FILE, GOOD
from tests.unit.config.in_memory import TARGET

SOURCES = Path(framework.__file__).parent
OF_OTHERS = {"framework", "pip", "pyspark", "py4j", "numpy", "pyarrow", "pandas", "click", "yaml", "sitecustomize"}
NAMES = sorted((OF_OTHERS | set(sys.stdlib_module_names)) - set(sys.builtin_module_names))
OLD, NEW = (3, 10), (3, 11)


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder of a pull request; `ran` beside it holds the names of what was imported from it."""
    folder = tmp_path / "checkout"
    plant(folder, tmp_path / "ran")
    monkeypatch.chdir(folder)
    monkeypatch.delenv(SAFE_PATH, raising=False)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def plant(folder: Path, ran: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        (folder / f"{name}.py").write_text(f"open({str(ran)!r}, 'a').write({name!r} + '\\n')\n")


def imported(planted: Path) -> list[str]:
    ran = planted.parent / "ran"
    return ran.read_text().split() if ran.exists() else []


def test_planted_modules_are_seen_where_nothing_is_done_about_them(planted: Path) -> None:
    """The test itself: Python as it is imports them."""
    subprocess.run([sys.executable, "-m", "framework.cli.main"], capture_output=True, check=False)
    assert imported(planted)


@pytest.mark.parametrize("version", [OLD, NEW], ids=str)
def test_a_python_of_ours_imports_none(planted: Path, version: tuple[int, int]) -> None:
    """As a module and as code, before 3.11 and since; arguments and exit code arrive."""
    for words in (
        ("-m", "framework.cli.main", "--version"),
        ("-c", "import typing, sys; sys.exit(sys.argv[1:] != ['a b', ''])", "a b", ""),
    ):
        done = subprocess.run(python(*words, version=version), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert imported(planted) == []


@pytest.mark.parametrize("version", [OLD, NEW], ids=str)
def test_a_script_that_stands_for_python_imports_none(planted: Path, version: tuple[int, int]) -> None:
    """What Spark is told to start, and the `python` of a packed environment, with `python -m` as Spark's own daemons."""
    script = planted.parent / "python"
    script.write_text(f'#!/bin/sh\n{python_in_shell(version)}\nexec {sys.executable} "$@"\n')
    script.chmod(0o700)
    for words in (["-m", "pyspark.daemon", "no worker"], ["-m", "framework.cli.main", "--version"]):
        subprocess.run([script, *words], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert imported(planted) == []


def spark(planted: Path) -> None:
    command = python_command(Path(pyspark.__file__).parent)
    assert command != sys.executable
    for path in ("", ":/opt/x", "/opt/x::/opt/y", "/opt/x:"):  # an empty entry is the current folder
        words = [command, "-m", "framework.cli.main", "--version"]
        done = subprocess.run(words, env={**os.environ, "PYTHONPATH": path}, capture_output=True, check=False)
        assert done.returncode == 0


def packed(planted: Path) -> None:
    python = planted.parent / "python"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    python.write_text(launcher_text(version, sys.executable))
    python.chmod(0o700)
    subprocess.run([python, "-m", "framework.cli.main", "--version"], capture_output=True, check=True)


def deployed(planted: Path) -> None:
    """The supervisor, and beside the script that it starts in a folder that was planted, the script."""
    (planted / DRIVER).write_text(_DRIVER_TEXT)
    application = Application("a", "h", planted, (sys.executable, str(planted / DRIVER), "--help"), True, None, {})
    applications = Applications(planted.parent / "state", "it")
    applications.start(application, Wanted("a", ("a",), "h", "f"), "d", 0)
    for _ in range(1200):
        (found,) = applications.all()
        if found.state == "ended" and not found.alive:
            break
        time.sleep(0.05)
    assert (found.state, found.exit_code) == ("ended", 0), found.log.read_text()


def driver(planted: Path) -> None:
    """The script of a driver on a machine where nothing was set before."""
    (planted / DRIVER).write_text(_DRIVER_TEXT)
    done = subprocess.run([sys.executable, planted / DRIVER, "--help"], capture_output=True, text=True, check=False)
    assert "--plan" in done.stdout or "usage" in done.stdout, done.stderr


def flights(planted: Path) -> None:
    with pytest.raises(SetupError):
        nycflights.fetch(lambda _: None)


def package(planted: Path) -> None:
    with pytest.raises(SetupError):
        _fetch(Lock(("nothing-of-this-name==1",), "3.11", "manylinux_2_28_x86_64"), planted.parent / "library")


def probed(planted: Path) -> None:
    assert probe._run([], None) == _End(0)  # type: ignore[arg-type]


def in_demo(planted: Path) -> None:
    demo._floe(["--version"], planted.parent)


@pytest.mark.parametrize("start", [spark, packed, deployed, driver, flights, package, probed, in_demo])
def test_no_start_imports_what_is_planted(
    planted: Path, monkeypatch: pytest.MonkeyPatch, start: Callable[[Path], None]
) -> None:
    """Each place that starts a Python, with modules in the current folder, and beside the file where there is one."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    start(planted)
    assert imported(planted) == []


@pytest.mark.spark
@pytest.mark.slow
def test_a_test_with_sql_runs_nothing_of_the_checkout(planted: Path) -> None:
    """`floe test` of a pull request, with modules in the current folder and beside the file."""
    (planted / "targets").mkdir()
    (planted / "targets" / "local.yaml").write_text(TARGET)
    sql = "SELECT id, price * 2 AS twice FROM source WHERE price > 0"
    beside = planted / "pipelines"
    plant(beside, planted.parent / "ran")
    (beside / "good.yaml").write_text(FILE.format(name="good", sql=sql) + GOOD)
    command = [str(Path(sys.executable).with_name("floe")), "test", "pipelines/good.yaml", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)
    assert imported(planted) == []


# ---- every place that starts a process ------------------------------------------------------------------------------

STARTS = {"run", "Popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput"}
IN_OS = {"system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp", "startfile"}
MODULES = {"multiprocessing", "pty"}
NAMED = {"ProcessPoolExecutor", "create_subprocess_exec", "create_subprocess_shell", "launch_gateway", "spawn"}
# Where a process is started, and what it is.
PLACES = {
    ("adapters/host/java.py", "find_java"): "java",
    ("adapters/host/process.py", "command_line"): "ps",
    ("adapters/host/process.py", "spawn"): "what its caller says",
    ("adapters/spark/java_stderr.py", "start_java"): "java, in whose environment is PYTHONSAFEPATH",
    ("adapters/host/installed.py", "_git"): "git, in the checkout that the running code is from",
    ("adapters/project/template_fetch.py", "_git"): "git",
    ("adapters/telemetry/json_lines.py", "only_json"): "python -I, as the pump of a driver's output",
    ("cli/run/demo.py", "_floe"): "python",
    ("deploy/applications.py", "start"): "python",
    ("deploy/launch.py", "_start"): "spark-submit, in whose environment is PYTHONSAFEPATH; python -I",
    ("deploy/package/archive.py", "_fetch"): "python",
    ("local/broker.py", "format_storage"): "java",
    ("local/broker.py", "start"): "java",
    ("local/jars.py", "_run_ivy"): "java",
    ("local/nycflights.py", "fetch"): "python",
    ("ops/drill/steps.py", "__init__"): "python",
    ("runtime/monitoring/page.py", "_started"): "python",
    ("local/spark.py", "_spawn"): "java",
    ("task/probe.py", "_run"): "python",
}
# Who may name the interpreter, and what for; everybody else asks `process.python`.
INTERPRETER = {
    "adapters/host/process.py",
    "adapters/spark/python.py",  # the script that Spark starts, and where none can be made
    "adapters/telemetry/json_lines.py",  # python -I
    "deploy/launch.py",  # python -I, and the name that spark-submit is told, in whose environment is PYTHONSAFEPATH
    "ops/doctor/machine.py",  # text
    "runtime/spark/query.py",  # a name for Spark, in whose environment is PYTHONSAFEPATH
}


def places() -> tuple[set[tuple[str, str]], set[str]]:
    """Where the source starts processes, as file and function, and the files that name the interpreter."""
    found, named = set(), set()
    for path in sorted(SOURCES.rglob("*.py")):
        file = str(path.relative_to(SOURCES))
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
                continue
            for node in _own(function):
                if isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.executable":
                    named.add(file)
                if _starts(node):
                    found.add((file, getattr(function, "name", "")))
    return found, named


def _own(function: ast.AST) -> list[ast.AST]:
    todo, found = list(ast.iter_child_nodes(function)), []
    while todo:
        node = todo.pop()
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.append(node)
            todo += ast.iter_child_nodes(node)
    return found


def _starts(node: ast.AST) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom):
        names = {each.name.partition(".")[0] for each in node.names} | {str(getattr(node, "module", ""))}
        return bool(names & MODULES) or (getattr(node, "module", "") == "subprocess")
    if not isinstance(node, ast.Call):
        return False
    whole = ast.unparse(node.func)
    name = whole.rpartition(".")[2]
    if whole.startswith("subprocess."):
        return name in STARTS
    if whole.startswith("os."):
        return name in IN_OS or name.startswith(("exec", "spawn"))
    return name in NAMED


def test_every_start_of_a_process_was_judged() -> None:
    """A new one is written down with what it starts; a Python is started by `process.python` alone."""
    found, named = places()
    assert found == set(PLACES)
    assert named == INTERPRETER
    for file, function in (place for place, what in PLACES.items() if what == "python"):
        tree = ast.parse((SOURCES / file).read_text(encoding="utf-8"))
        body = next(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == function)
        called = {ast.unparse(node.func) for node in ast.walk(body) if isinstance(node, ast.Call)}
        assert {"python", "python_environment"} <= called, file


def test_what_teams_copy_fetches_no_hooks() -> None:
    """The pre-commit file runs hooks of the team's own repository: no address of anybody's is in it."""
    text = (SOURCES.parent / "docs" / "ci" / "pre-commit-config.yaml").read_text(encoding="utf-8")
    assert [each["repo"] for each in yaml.safe_load(text)["repos"]] == ["local"]
    assert "://" not in text
