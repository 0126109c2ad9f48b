"""Records that nobody in their right mind would send, by every way, beside the oracle. Each share is a process of its
own: one that dies is a failed test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DOCUMENTS = 50_000
SHARES = 5
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("share", [0, *(pytest.param(share, marks=pytest.mark.slow) for share in range(1, SHARES))])
def test_each_value_is_exact_or_its_record_a_dead_letter(share: int) -> None:
    """A value is exact or a dead letter, on every way, whatever stands beside it in the block."""
    seed, count = 1_000_000 * (share + 1), DOCUMENTS // SHARES
    command = [
        sys.executable,
        "-X",
        "faulthandler",
        "-m",
        "tests.fuzz.run",
        "--documents",
        str(count),
        "--seed",
        str(seed),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:] + done.stdout[-6000:]
    assert f"{count} documents" in done.stdout
