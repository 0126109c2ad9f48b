"""Packages of PyPI that tests start as programs, or read tables with, kept out of the tests' own environment.

In: names of lines of `.ci/engines.lock`. Out: a folder with these packages and nothing else, made once for a machine, a Python
and these lines; complete or absent. Each file has a hash there, and pip takes no other.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from framework.adapters.host.process import exclusive
from framework.adapters.project.files import cache_dir

LOCK = Path(__file__).parents[2] / ".ci" / "engines.lock"


def installed(*names: str) -> Path:
    """The folder, for `PYTHONPATH` or to find a program in."""
    lines = [_line(name) for name in names]
    text = "\n".join(lines) + "\n"
    made_of = f"{sys.implementation.cache_tag}\n{text}"  # wheels are of one Python
    home = cache_dir() / f"{names[0]}-{version_of(names[0])}-{hashlib.sha256(made_of.encode()).hexdigest()[:12]}"
    with exclusive(home.with_name(f"{home.name}.lock")):
        if not home.exists():
            home.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=home.parent, prefix="fetch-") as scratch:
                wanted = Path(scratch, "wanted.txt")
                wanted.write_text(text, encoding="utf-8")
                command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:"]
                command += ["--require-hashes", "--target", f"{scratch}/packages", "--requirement", str(wanted)]
                subprocess.run(command, check=True)
                shutil.move(f"{scratch}/packages", home)
    return home


def version_of(name: str) -> str:
    """Which version of a package that is."""
    return re.split(r"==|\s", _line(name))[1]


def _line(name: str) -> str:
    """The package's line of the lock, with its hashes."""
    found = re.search(rf"^{re.escape(name)}==(?:.*\\\n)*.*$", LOCK.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None, f"{name} is not in {LOCK.name}: add it to engines.in and run .ci/lock"
    return found[0]
