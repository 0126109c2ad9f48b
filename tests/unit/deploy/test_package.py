"""What `floe submit` ships: the archive's lock and launcher, and the zip of floe's own code."""

from __future__ import annotations

import io
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

import framework
from framework.deploy.package.archive import Lock, copy_compiled, launcher_text, runtime_distributions, this_lock
from framework.deploy.package.code import code_zip
from framework.record.json import compiled as compiled_json


def test_the_lock_is_what_is_installed() -> None:
    """Every package that runs a pipeline is pinned at the installed version; Spark brings its own, tests stay at
    home."""
    names = {requirement.partition("==")[0].lower() for requirement in this_lock().requirements}
    assert {"pyiceberg", "pyarrow", "confluent-kafka", "click", "packaging", "pydantic"} <= names
    assert not {"pyspark", "py4j", "pytest", "mypy", "floe-pipelines"} & names
    assert len(names) == len(runtime_distributions())


def test_another_lock_is_another_archive() -> None:
    """The key changes with every pin, Python version and platform, and with nothing else."""
    lock = Lock(("a==1", "b==2"), "3.11", "linux_x86_64")
    others = [replace(lock, requirements=("a==1", "b==3")), replace(lock, python="3.12"), replace(lock, platform="x")]
    others.append(replace(lock, compiled="f00"))
    assert len({lock.key, *(other.key for other in others)}) == 5
    assert Lock(("a==1", "b==2"), "3.11", "linux_x86_64").key == lock.key


def test_the_code_is_the_same_bytes_and_can_be_imported(tmp_path: Path) -> None:
    """The same code gives the same zip, and a Python that knows nothing else of floe can import and read from it."""
    content = code_zip()
    assert content == code_zip()
    names = zipfile.ZipFile(io.BytesIO(content)).namelist()
    assert "framework/deploy/driver_main.py" in names
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


PIPELINE = """apiVersion: floe/v1
kind: Pipeline
metadata: {name: shipped}
source: {kafka: {topics: [t]}}
routes: {rules: [{table: shop.orders}]}
errors: {dead_letter_table: shop.dead_letters}
"""
TARGET = """apiVersion: floe/v1
kind: Target
metadata: {name: it}
prefix: it
connections:
  kafka: {main: {bootstrap.servers: "localhost:9092"}}
  catalog: {default: {type: sql, uri: "sqlite:///catalog.db", warehouse: "file:///lake"}}
"""


def test_a_node_knows_the_version_without_an_installed_floe(tmp_path: Path) -> None:
    """What a run tells of itself needs nothing but the shipped code and packages: on a node floe is not installed."""
    (tmp_path / "floe.zip").write_bytes(code_zip())
    (tmp_path / "pipelines" / "targets").mkdir(parents=True)
    (tmp_path / "pipelines" / "shipped.yaml").write_text(PIPELINE)
    (tmp_path / "pipelines" / "targets" / "it.yaml").write_text(TARGET)
    packages = tmp_path / "packages"
    packages.mkdir()
    for entry in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if "floe" not in entry.name:
            (packages / entry.name).symlink_to(entry)
    script = (
        "from framework.adapters.project.files import real_world; from framework.config.load import load_pipeline; "
        "from framework.runtime.job import reported; "
        "print(reported(load_pipeline('pipelines/shipped.yaml', 'it', real_world(offline=True)).pipeline, '').floe)"
    )
    answer = subprocess.run(
        [sys.executable, "-S", "-c", script],
        env={"PYTHONPATH": f"{tmp_path / 'floe.zip'}:{packages}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert answer.stdout == f"{framework.__version__}\n", answer.stderr


def test_compiled_modules_are_found_beside_the_packages(tmp_path: Path) -> None:
    """Code that runs out of its zip finds the compiled modules in the shipped environment, and does without them."""
    if not compiled_json.available():
        pytest.skip("no C compiler was there when floe was installed")
    (tmp_path / "floe.zip").write_bytes(code_zip())
    library = tmp_path / "lib"
    library.mkdir()
    script = "from framework.record.json import compiled as c; from framework.adapters.kafka import reader as r; "
    script += "from framework.record.rows import scatter as s; "
    script += "print(c.__file__, c.available(), r.compiled() is not None, s.available())"

    def words() -> list[str]:
        path = {"PYTHONPATH": f"{tmp_path / 'floe.zip'}:{library}"}
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, env=path, cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.split()

    place = str(tmp_path / "floe.zip" / "framework" / "record" / "json" / "compiled.py")
    assert words() == [place, "False", "False", "False"]
    copy_compiled(library)
    assert words() == [place, "True", "True", "True"]


def test_the_launcher_finds_packages_and_python(tmp_path: Path) -> None:
    """Unpacked anywhere, also under a name with a space, the archive's `python` runs the node's Python with its
    packages."""
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
