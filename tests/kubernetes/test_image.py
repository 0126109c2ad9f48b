"""The image's build as far as no container runtime is needed: its commands, on the files that it copies and no others."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kubernetes.manifests import FOLDER

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(1200)]
ROOT = FOLDER.parents[1]
DOCKERFILE = (FOLDER / "Dockerfile").read_text(encoding="utf-8")


@pytest.fixture
def context(tmp_path: Path) -> Path:
    """What the first stage copies, and nothing else."""
    folder = tmp_path / "src"
    folder.mkdir()
    for words in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE.partition("\nFROM python:${PYTHON}\n")[0], re.M):
        *sources, goal = words.split()
        for source in sources:
            if (ROOT / source).is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "*.so")
                shutil.copytree(ROOT / source, folder / goal, ignore=ignored)
            else:
                shutil.copy(ROOT / source, folder / goal)
    return folder


def _build(context: Path) -> subprocess.CompletedProcess[str]:
    command = re.findall(r"^RUN (python -m venv (?:.|\n)*?[^\\])\n\n", DOCKERFILE, re.M)
    assert len(command) == 1
    place = str(context.parent / "floe")
    text = command[0].replace("\\\n", "").replace("/tmp/", f"{context.parent}/").replace("/opt/floe", place)
    text = text.replace("python -m venv", f"{sys.executable} -m venv", 1)
    environment = {"PATH": "/usr/bin:/bin", "FLOE_REQUIRE_COMPILED": "1"} | _of_pip()
    return subprocess.run(
        ["sh", "-ec", text], cwd=context, env=environment, capture_output=True, text=True, check=False
    )


def _of_pip() -> dict[str, str]:
    """A machine behind a mirror says so by these."""
    kept = ("PIP_", "HTTP", "http", "SSL_", "REQUESTS_", "HOME")
    return {key: value for key, value in os.environ.items() if key.startswith(kept)}


def test_the_image_has_the_packages_of_the_lock_and_compiled_modules(context: Path) -> None:
    """The build needs only what it copies. What it installs are versions of the lock, without pip and without what tests need."""
    answer = _build(context)
    assert answer.returncode == 0, answer.stderr[-3000:]
    python = context.parent / "floe" / "bin" / "python"
    program = (
        "import importlib.metadata as m, framework.adapters.kafka._fetch, framework.record.json._json, psycopg2, uvicorn\n"
        "print(*(f'{each.name}=={each.version}' for each in m.distributions()))"
    )
    shown = subprocess.run([python, "-c", program], cwd="/", capture_output=True, text=True, check=True).stdout.split()
    lock = re.findall(r"^(\S+==\S+) ", (ROOT / "constraints.lock").read_text(), re.M)
    known = {one.lower().replace("-", "_").replace(".", "_") for one in lock}
    found = {one.lower().replace("-", "_").replace(".", "_") for one in shown}
    assert {one for one in found if not one.startswith("floe_pipelines")} <= known
    assert not [one for one in found if one.startswith(("pip==", "pytest==", "setuptools=="))]
    floe = context.parent / "floe" / "bin" / "floe"
    assert subprocess.run([floe, "--version"], cwd="/", capture_output=True, text=True, check=True).stdout


def test_a_package_that_is_not_the_locks_is_refused(context: Path) -> None:
    """Its hash is another one than the lock's: nothing is built."""
    lock = context / "constraints.lock"
    text = lock.read_text()
    of_click = re.compile(r"^click==.*?(?=^\S)", re.M | re.S)
    lock.write_text(of_click.sub(lambda found: re.sub(r"sha256:[0-9a-f]{64}", f"sha256:{'0' * 64}", found[0]), text))
    answer = _build(context)
    assert answer.returncode != 0
    assert "HASH" in answer.stderr.upper()
