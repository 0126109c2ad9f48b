"""Moments as text, wherever they come from."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

import framework
from framework.diagnose.counted import moment_text, stamp_text

ROOT = Path(framework.__file__).parent
# File -> why its moments have a calendar.
OWN_CLOCK = {
    "diagnose/counted.py": "the one place, which answers whatever it is given",
    "diagnose/log_lines.py": "the clock of this process",
    "adapters/telemetry/json_lines.py": "the clock of this process",
    "recovery/dead_letters.py": "an option, parsed as a date before",
}


@given(st.integers())
@example(253_402_300_800_000)  # the year 10000
@example(2**63 - 1)
@example(-(2**63))
@example(10**400)
def test_every_number_has_a_text(milliseconds: int) -> None:
    """A record, a control topic or a table can say any moment; showing it never fails."""
    assert moment_text(milliseconds)
    assert stamp_text(milliseconds).endswith(("Z", f"{milliseconds} ms"))


def test_moments_of_others_become_text_in_one_place() -> None:
    """No other place turns a number into a date: `datetime.fromtimestamp` raises for years that no calendar has."""
    found = {str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py") if any(_dates(path))}
    assert found == set(OWN_CLOCK)


def _dates(path: Path) -> Iterator[ast.Attribute]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and node.attr in ("fromtimestamp", "utcfromtimestamp"):
            yield node
