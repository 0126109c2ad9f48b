"""Who does what a message says has mended the file: for each golden case, with the words of the message and nothing else."""

from __future__ import annotations

import json
import shlex
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from framework.cli.main import run_main
from tests.acceptance.test_cases import CASES, FOLDER
from tests.remedies import by_hand, by_machine, noted

MOST_ROUNDS = 8  # a file may hold several mistakes, and some show only when others are mended
NOTES = noted()


def _command(case: Path) -> list[str]:
    """The first command of a case, without its own format."""
    words = shlex.split((case / "cmd").read_text(encoding="utf-8").splitlines()[0])
    if "--format" in words:
        del words[words.index("--format") : words.index("--format") + 2]
    return words


def _is_wrong(case: Path) -> bool:
    first = (case / "output.txt").read_text(encoding="utf-8").split("\n$ floe ")[0]
    return first.startswith("$ floe validate ") and "exit code: 2" in first


WRONG = {case.relative_to(FOLDER).as_posix(): case for case in CASES if _is_wrong(case)}
NO_EDIT = [name for name, edits in NOTES.items() if not edits]


def _findings(command: list[str], capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """What makes the command fail now."""
    code = run_main([*command, "--format", "json"])
    out = capsys.readouterr().out
    found = json.loads(out)["diagnostics"]
    return [one for one in found if one["severity"] == "error"] if code else []


def _texts(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file() and path.name not in ("cmd", "output.txt")]
    return {path.relative_to(folder).as_posix(): path.read_text("utf-8", errors="surrogateescape") for path in files}


@pytest.mark.parametrize("name", [name for name in WRONG if name not in NO_EDIT])
def test_who_follows_the_remedies_has_a_right_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each wrong file of the golden cases has no error left when its remedies are followed: by the noted edit, or by a machine
    that reads the message."""
    folder = tmp_path / "case"
    shutil.copytree(WRONG[name], folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("FLOE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FLOE_CASE", "orders")
    command = _command(folder)
    if name in NOTES:
        for file, text in by_hand(NOTES[name], _texts(folder)).items():
            (folder / file).write_text(text, encoding="utf-8", errors="surrogateescape")
        left = _findings(command, capsys)
    else:
        left = _followed(command, folder, capsys)

    assert left == []


def _followed(command: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """What is left when a machine has followed one remedy after the other."""
    left = _findings(command, capsys)
    for _ in range(MOST_ROUNDS):
        if not left or not _one_step(left, command, folder, capsys):
            break
        left = _findings(command, capsys)
    return left


def _one_step(left: list[dict[str, Any]], command: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> bool:
    """Follows the first remedy that makes the findings fewer."""
    for finding in left:
        path = folder / str(finding.get("file"))
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        for mended in by_machine(finding, text) if text else ():
            path.write_text(mended, encoding="utf-8")
            if len(_findings(command, capsys)) < len(left):
                return True
            path.write_text(text, encoding="utf-8")
    return False


def test_enough_files_are_mended() -> None:
    """At least 150 wrong files of which 40 are targets' and 30 are templates' are mended by their remedies; every note is about
    a wrong file, and few remedies ask for something else than an edit."""
    mended = Counter(name.split("/")[0] for name in WRONG if name not in NO_EDIT)

    assert set(NOTES) <= set(WRONG)
    assert sum(mended.values()) >= 350
    assert mended["targets"] >= 40
    assert mended["templates"] >= 30
    assert len(NO_EDIT) <= 40
