"""The option that writes golden outputs anew: `pytest tests/acceptance --update`."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="Write what commands print to the golden files.")
