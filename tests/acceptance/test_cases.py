"""One folder per case: files, `cmd` (what follows `floe`), and `output.txt`, what it prints and its exit code.

`pytest tests/acceptance --update` writes `output.txt` anew; the difference is reviewed like code, since it is what people
read. `cmd` may hold several lines; each is run in turn.
"""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from framework.cli.main import run_main

CASES = sorted(path.parent for path in (Path(__file__).parent / "cases").glob("*/cmd"))


def printed(case: Path, capsys: pytest.CaptureFixture[str]) -> str:
    parts = []
    for line in (case / "cmd").read_text(encoding="utf-8").splitlines():
        code = run_main(shlex.split(line))
        captured = capsys.readouterr()
        parts.append(f"$ floe {line}\n{captured.out}{captured.err}exit code: {code}\n")
    return "\n".join(parts)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(
    case: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    """What floe prints is what was reviewed, to the letter."""
    folder = tmp_path / "case"
    shutil.copytree(case, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("FLOE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FLOE_CASE", "orders")
    golden = case / "output.txt"
    output = printed(case, capsys)
    assert str(tmp_path) not in output, "an output must not hold a path of this machine"
    if request.config.getoption("--update"):
        golden.write_text(output, encoding="utf-8")

    assert output == golden.read_text(encoding="utf-8")


def test_there_are_many_wrong_files() -> None:
    """At least 150 wrong files are kept with what is said about them."""
    wrong = [case for case in CASES if "exit code: 2" in (case / "output.txt").read_text(encoding="utf-8")]

    assert len(wrong) >= 150
