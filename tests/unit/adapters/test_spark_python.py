"""The Python that a local Spark starts: this one, with the PySpark that is installed, and never in anybody's way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from framework.adapters.spark.python import python_command

HOME = Path(pyspark.__file__).parent
# What Spark puts before everything else; the folder stands for what a user has on the path.
ZIPS = [str(HOME / "python" / "lib" / "pyspark.zip"), *map(str, (HOME / "python" / "lib").glob("py4j-*-src.zip"))]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    return tmp_path / "a cache"


def run(command: str, code: str, path: str) -> str:
    done = subprocess.run(
        [command, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_the_installed_pyspark_is_imported() -> None:
    """PySpark and Py4J come from where they are installed although Spark puts its zip files first."""
    code = "import pyspark, py4j; print(pyspark.__file__, py4j.__file__)"
    path = os.pathsep.join(ZIPS)
    assert ".zip" in run(sys.executable, code, path)
    found = run(python_command(HOME), code, path)
    assert ".zip" not in found
    assert found.split()[0] == pyspark.__file__


def test_the_rest_of_the_path_and_the_interpreter_stay() -> None:
    """Everything else on PYTHONPATH keeps its order, also names with spaces and stars, and so does the interpreter."""
    path = os.pathsep.join([ZIPS[0], "/opt/one of ours", *ZIPS[1:], "/opt/*"])
    code = "import os, sys; print(os.environ['PYTHONPATH'], sys.executable)"
    assert run(python_command(HOME), code, path) == f"/opt/one of ours:/opt/* {sys.executable}"


def test_arguments_and_exit_codes_pass() -> None:
    """Arguments reach Python as they were given, and its exit code comes back."""
    command = [python_command(HOME), "-c", "import sys; sys.exit(sys.argv[1:] == ['a b', '$HOME', ''] and 7)"]
    assert subprocess.run([*command, "a b", "$HOME", ""], check=False).returncode == 7


def test_another_spark_keeps_its_own_pyspark(tmp_path: Path) -> None:
    """A Spark that is installed elsewhere gets the interpreter itself: its zip files are of its own version."""
    assert python_command(tmp_path) == sys.executable


def test_a_cache_that_cannot_be_written_costs_time_alone(cache: Path) -> None:
    """Without a place for the command the interpreter itself is named."""
    cache.write_text("a file where a folder should be")
    assert python_command(HOME) == sys.executable


def test_made_once(cache: Path) -> None:
    """The command is made once, for its owner to start, and used again."""
    first = python_command(HOME)
    made = Path(first).stat()
    assert python_command(HOME) == first
    assert Path(first).stat().st_mtime_ns == made.st_mtime_ns
    assert Path(first).is_relative_to(cache)
    assert not list(Path(first).parent.glob("*.new"))


def test_the_jar_of_sparks_core_is_left_out() -> None:
    """There is no Python in it, and each task of a worker that has it on its path reads the list of all that is in
    it."""
    [core] = (HOME / "jars").glob("spark-core_*.jar")
    path = os.pathsep.join([str(core), "/opt/ours.jar"])
    code = "import os; print(os.environ['PYTHONPATH'])"
    assert run(python_command(HOME), code, path) == "/opt/ours.jar"
