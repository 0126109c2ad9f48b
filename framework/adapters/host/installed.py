"""How floe itself got onto this machine, and the command that installs it again in the same way.

In: the package's folder and what its installer noted (PEP 610). Out: one command. It decides nothing and runs nothing.
"""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import framework
from framework.diagnose.secrets import redacted

PACKAGE = "floe-pipelines"
_SETUP = ".ci/setup"  # what `make setup` runs: it is in a clone, and nowhere else


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
