"""Imports point one way, and pure packages are pure."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PURE = ("diagnose", "config", "plan", "record", "table", "commit")
FORBIDDEN = (
    "os",
    "time",
    "random",
    "logging",
    "socket",
    "subprocess",
    "threading",
    "pyspark",
    "confluent_kafka",
    "pyiceberg.catalog",
    "pyiceberg.io",
)


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_import_contracts_hold() -> None:
    """The layers of setup.cfg hold: no import points up."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports"))], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("package", PURE)
def test_pure_packages_do_not_touch_the_world(package: str) -> None:
    """No module of a pure package imports clock, environment, chance, logging, threads, engine, broker or catalog."""
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted((ROOT / "framework" / package).rglob("*.py"))
        for name in imported(path)
        if any(name == bad or name.startswith(bad + ".") for bad in FORBIDDEN)
    ]

    assert found == []


def test_the_check_of_purity_sees_a_forbidden_import(tmp_path: Path) -> None:
    """The check above can fail: a planted import is found in each of its forms."""
    planted = tmp_path / "planted.py"
    planted.write_text("import time\nfrom os import environ\nfrom pyiceberg.catalog import load_catalog\n")

    assert list(imported(planted)) == ["time", "os.environ", "pyiceberg.catalog.load_catalog"]
