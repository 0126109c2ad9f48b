"""What is published: a source archive that holds everything, and a wheel that works where there is no compiler."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import framework
from framework.adapters.host import installed

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
        assert held.read("framework/commit.txt").decode().strip() == commit_of(clone)
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
    command = [str(python.parent / "floe"), "--version"]
    shown = subprocess.run(command, check=True, env=environment, cwd=tmp_path, capture_output=True, text=True).stdout
    assert shown == f"floe, version {framework.__version__} ({commit_of(clone)})\n"
    project = tmp_path / "project"
    project.mkdir()
    shutil.copytree(clone / "pipelines", project / "pipelines")
    for verb in ("validate", "test"):
        floe = [str(python.parent / "floe"), verb, "pipelines/flights.yaml"]
        done = subprocess.run(floe, env=environment, cwd=project, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.packaging
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_release_has_a_wheel_for_each_linux(tmp_path: Path) -> None:
    """`make release` makes wheels for x86-64 and arm64 whose compiled modules are of that machine and need no newer C
    library than their names say; the one for this machine works."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    made = subprocess.run(["make", "release"], cwd=clone, check=False, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
    files = {
        file.name.removeprefix(f"floe_pipelines-{framework.__version__}")
        for file in (clone / "build" / "dist").iterdir()
    }
    machines = {"x86_64": 62, "aarch64": 183}  # what the head of an ELF file says
    assert files == {".tar.gz", *(f"-cp310-abi3-manylinux_2_17_{machine}.whl" for machine in machines)}
    for machine, number in machines.items():
        (wheel,) = (clone / "build" / "dist").glob(f"*_{machine}.whl")
        with zipfile.ZipFile(wheel) as held:
            assert held.read("framework/commit.txt").decode().strip() == commit_of(clone)
            modules = [held.read(f"{module.replace('.', '/')}.abi3.so") for module in MODULES]
            assert [module[18] + 256 * module[19] for module in modules] == [number] * len(MODULES)
            needed = {version for module in modules for version in re.findall(rb"GLIBC_2\.(\d+)", module)}
            assert 0 < max(map(int, needed)) <= 17
            if machine == platform.machine():
                held.extractall(tmp_path / "installed")
    asked = f"import framework, {', '.join(MODULES)}; print(framework.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    where = subprocess.run(
        [sys.executable, "-c", asked], check=True, env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert where.stdout.strip() == f"{tmp_path}/installed/framework/__init__.py"


def commit_of(checkout: Path) -> str:
    words = ["git", "rev-parse", "--short=12", "HEAD"]
    return subprocess.run(words, cwd=checkout, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that floe's code is thought to lie in."""
    (tmp_path / "framework").mkdir()
    monkeypatch.setattr(framework, "__file__", str(tmp_path / "framework" / "__init__.py"))
    installed.commit.cache_clear()
    yield tmp_path
    installed.commit.cache_clear()


def test_a_checkout_knows_its_commit(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a build the commit is git's, with a mark where a file was changed, whatever repository the caller is in."""
    monkeypatch.setenv("GIT_DIR", str(ROOT / ".git"))
    assert installed.commit() == ""  # neither
    mine = {name: value for name, value in os.environ.items() if name != "GIT_DIR"}
    author = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    (elsewhere / "framework" / "x.py").write_text("1")
    for words in (["init", "--quiet"], ["add", "."], [*author, "commit", "--quiet", "--message", "one"]):
        subprocess.run(["git", *words], cwd=elsewhere, check=True, env=mine)
    monkeypatch.delenv("GIT_DIR")
    known = commit_of(elsewhere)
    monkeypatch.setenv("GIT_DIR", str(ROOT / ".git"))
    installed.commit.cache_clear()
    assert installed.commit() == known
    (elsewhere / "framework" / "x.py").write_text("2")
    installed.commit.cache_clear()
    assert installed.commit() == f"{known}, changed"


@pytest.mark.parametrize(
    ("noted", "shown"), [("9f448124a2ea\n", "9f448124a2ea"), ("9f448124a2ea-dirty\n", "9f448124a2ea, changed")]
)
def test_a_build_has_its_commit_with_it(elsewhere: Path, noted: str, shown: str) -> None:
    """What a build has noted counts, and git is not asked."""
    (elsewhere / "framework" / "commit.txt").write_text(noted)
    (elsewhere / ".git").mkdir()
    assert installed.commit() == shown
