"""What is published: a source archive that holds everything, and a wheel that works where there is no compiler."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MODULES = (
    "framework.adapters._key_hash",
    "framework.adapters.kafka._fetch",
    "framework.record.json._json",
    "framework.record.rows._scatter",
)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler, so records are read by the slower ways")
@pytest.mark.parametrize("module", MODULES)
def test_each_compiled_module_is_there(module: str) -> None:
    """Where there is a compiler each module in C compiled: without it everything would pass, only slowly."""
    __import__(module)


def test_every_compiled_module_is_on_the_list() -> None:
    """The list above is that of setup.py."""
    named = re.findall(r'compiled\("([\w.]+)", "(\w+)"', (ROOT / "setup.py").read_text())
    assert sorted(f"framework.{package}.{name}" for package, name in named) == sorted(MODULES)


@pytest.mark.packaging
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_wheel_works_where_there_is_no_compiler(tmp_path: Path) -> None:
    """`make wheel` makes a source archive with every file of the packages and, from it, a wheel with the compiled
    modules; installed into a new environment without a compiler it validates and tests a pipeline, and its types are
    there for others."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    subprocess.run(["make", "wheel"], cwd=clone, check=True, capture_output=True)
    (wheel,) = (clone / "build" / "dist").glob("*.whl")
    (archive,) = (clone / "build" / "dist").glob("*.tar.gz")
    tracked = subprocess.run(
        ["git", "ls-files", "framework", "schemas"], cwd=clone, check=True, capture_output=True, text=True
    ).stdout.split()
    with tarfile.open(archive) as opened:
        shipped = {name.partition("/")[2] for name in opened.getnames()}
    assert {*tracked, "setup.py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE"} - shipped == set()
    with zipfile.ZipFile(wheel) as held:
        names = set(held.namelist())
    assert set(tracked) - names == set()
    built = {f"{module.replace('.', '/')}.abi3.so" for module in MODULES}
    assert {name for name in names if name.endswith(".so")} == built
    venv.create(tmp_path / "fresh", with_pip=True)
    python = tmp_path / "fresh" / "bin" / "python"
    # The locked packages of this environment, but not floe itself, which is there as a link to its sources.
    without_compiler = {**os.environ, "CC": "/bin/false", "PATH": f"{python.parent}:/nowhere"}
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True, env=without_compiler, cwd=tmp_path)
    environment = {**without_compiler, "PYTHONPATH": sysconfig.get_paths()["purelib"]}
    asked = f"import framework, {', '.join(MODULES)}; print(framework.__file__)"
    where = subprocess.run(
        [python, "-c", asked], check=True, env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert where.stdout.startswith(str(tmp_path / "fresh"))
    assert (Path(where.stdout.strip()).parent / "py.typed").exists()
    project = tmp_path / "project"
    project.mkdir()
    shutil.copytree(clone / "pipelines", project / "pipelines")
    for verb in ("validate", "test"):
        floe = [str(python.parent / "floe"), verb, "pipelines/flights.yaml"]
        done = subprocess.run(floe, env=environment, cwd=project, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
