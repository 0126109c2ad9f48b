"""The gallery of shapes: each file is right as it stands, tests itself, and is in the list."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from framework.cli.main import run_main

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(EXAMPLES.glob("*.yaml"))


def test_the_files_are_right_beside_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever takes several of them has files that may run together."""
    assert run_main(["validate", str(EXAMPLES)]) == 0, capsys.readouterr().out
    assert len(FILES) >= 25


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_shape_lands_as_it_says(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The records of the shape become the rows that the file expects, by the code of a run."""
    assert run_main(["test", str(file)]) == 0, capsys.readouterr().out
    assert "1 passed" in capsys.readouterr().out


def test_each_shape_is_in_the_list() -> None:
    """With the sentence that the file says of itself."""
    listed = (EXAMPLES / "README.md").read_text()
    for file in FILES:
        said = re.search(r'description: "(.*)"', file.read_text())
        assert said is not None
        assert f"| [{file.stem}]({file.name}) | {said[1]} |" in listed
