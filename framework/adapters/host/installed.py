"""How floe itself got onto this machine: its commit, and the command that installs it again in the same way.

In: the package's folder, what its build wrote there, and what its installer noted (PEP 610). Out: a text, and one
command. It decides nothing, and runs nothing but git in floe's own checkout.
"""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import framework
from framework.diagnose.secrets import redacted

PACKAGE = "floe-pipelines"
_SETUP = ".ci/setup"  # what `make setup` runs: it is in a clone, and nowhere else

_COMMIT = "commit.txt"  # written by setup.py into a wheel and a source archive
_GIT_S = 10


@cache
def commit() -> str:
    """The commit that this code was built from, `9f448124abcd`; with `, changed` behind it where files differ from it;
    "" where neither a build has noted it nor a checkout knows it."""
    package = Path(framework.__file__).parent
    try:
        noted = (package / _COMMIT).read_text(encoding="utf-8")
    except OSError:  # a checkout, or code out of a zip file
        noted = _git(package.parent) if (package.parent / ".git").exists() else ""
    number, mark, _ = noted.strip().partition("-dirty")
    return f"{number}, changed" if mark else number


def _git(checkout: Path) -> str:
    """What git says of floe's checkout: whoever calls floe from another repository has variables that name that one."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    words = ["git", "describe", "--always", "--dirty", "--exclude=*", "--abbrev=12"]
    try:
        answer = subprocess.run(
            words,
            cwd=checkout,
            env={**environment, "GIT_OPTIONAL_LOCKS": "0"},
            capture_output=True,
            text=True,
            timeout=_GIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout if answer.returncode == 0 else ""


def again() -> str:
    """The command that installs floe again, with what it needs: in a clone `make setup`, else pip's, from where floe came."""
    root = Path(framework.__file__).parent.parent
    if (root / _SETUP).is_file():
        return "make setup"
    try:
        found = distribution(PACKAGE)
        noted = json.loads(found.read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return f"pip install --force-reinstall {PACKAGE}"
    return pip_command(found.version, noted if isinstance(noted, dict) else {})


def pip_command(version: str, noted: dict[str, Any]) -> str:
    """The command of pip.

    Args:
        noted: the content of `direct_url.json`: empty where an index was asked.
    """
    url = redacted(str(noted.get("url", "")))
    if not url:
        return f"pip install --force-reinstall {PACKAGE}=={version}   (from your team's index, as the first time)"
    vcs = noted.get("vcs_info")
    if isinstance(vcs, dict):
        url = f"{vcs.get('vcs', 'git')}+{url}@{vcs.get('commit_id', vcs.get('requested_revision', 'HEAD'))}"
    return f'pip install --force-reinstall "{PACKAGE} @ {url}"'
