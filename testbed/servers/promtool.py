"""Prometheus's own checker of rules, from the system's package.

In: a folder with rules and tests of rules. Out: what promtool says.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def promtool(*arguments: str, folder: Path) -> str:
    """Run it; fails unless promtool ends well, and skips the test where the system has none."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed: sudo apt-get install -y prometheus")
    answer = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout
