"""What `floe submit` ships: the archive's lock and launcher, and the zip of floe's own code."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

from framework.runtime.package import Lock, launcher_text, runtime_distributions, this_lock
from framework.runtime.package_code import code_zip


def test_the_lock_is_what_is_installed() -> None:
    """Every package that runs a pipeline is pinned at the installed version; Spark brings its own, tests stay at home."""
    names = {requirement.partition("==")[0].lower() for requirement in this_lock().requirements}
    assert {"pyiceberg", "pyarrow", "confluent-kafka", "click", "packaging", "pydantic"} <= names
    assert not {"pyspark", "py4j", "pytest", "mypy", "floe-pipelines"} & names
    assert len(names) == len(runtime_distributions())


def test_another_lock_is_another_archive() -> None:
    """The key changes with every pin, Python version and platform, and with nothing else."""
    lock = Lock(("a==1", "b==2"), "3.11", "linux_x86_64")
    others = [replace(lock, requirements=("a==1", "b==3")), replace(lock, python="3.12"), replace(lock, platform="x")]
    assert len({lock.key, *(other.key for other in others)}) == 4
    assert Lock(("a==1", "b==2"), "3.11", "linux_x86_64").key == lock.key


def test_the_code_is_the_same_bytes_and_can_be_imported(tmp_path: Path) -> None:
    """The same code gives the same zip, and a Python that knows nothing else of floe can import and read from it."""
    content = code_zip()
    assert content == code_zip()
    names = zipfile.ZipFile(io.BytesIO(content)).namelist()
    assert "framework/runtime/submitted.py" in names
    assert "schemas/pipeline.v1.schema.json" in names
    (tmp_path / "floe.zip").write_bytes(content)
    script = "import framework, schemas.__init__; from importlib.resources import files; print(framework.__file__); "
    script += "print(len(files('schemas').joinpath('pipeline.v1.schema.json').read_text()))"
    answer = subprocess.run(
        [sys.executable, "-S", "-c", script],
        env={"PYTHONPATH": str(tmp_path / "floe.zip")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.splitlines()[0].startswith(str(tmp_path / "floe.zip"))


def test_the_launcher_finds_packages_and_python(tmp_path: Path) -> None:
    """Unpacked anywhere, also under a name with a space, the archive's `python` runs the node's Python with its packages."""
    home = tmp_path / "an environment"
    (home / "lib").mkdir(parents=True)
    (home / "lib" / "shipped.py").write_text("WORD = 'shipped'\n")
    (home / "bin").mkdir()
    launcher = home / "bin" / "python"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    launcher.write_text(launcher_text(version, "/nowhere/python"))
    launcher.chmod(0o755)
    run = [str(launcher), "-c", "import shipped, other; print(shipped.WORD, other.WORD)"]
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "other.py").write_text("WORD = 'kept'\n")
    environment = {"PATH": "/usr/bin:/bin", "FLOE_PYTHON": sys.executable, "PYTHONPATH": str(tmp_path / "more")}
    answer = subprocess.run(run, env=environment, capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["shipped", "kept"]
    launcher.write_text(launcher_text("3.99", "/nowhere/python"))
    refused = subprocess.run(run, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False)
    assert refused.returncode == 127
    assert "Python 3.99 is not on this node" in refused.stderr
