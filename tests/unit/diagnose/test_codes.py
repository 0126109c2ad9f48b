"""Codes are an API: each that is printed can be explained, and each example does what it says."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from pathlib import Path

import pytest

import framework
from framework.cli.main import run_main
from framework.config.load import load_pipelines
from framework.diagnose.codes.catalogue import CODES, explanation, lookup
from framework.diagnose.entry import CodeEntry
from tests.unit.config.in_memory import example_files, world

SOURCES = sorted(Path(framework.__file__).parent.rglob("*.py"))
EXAMPLES = [entry for entry in CODES.values() if entry.wrong and entry.about != "command"]
COMMANDS = [entry for entry in CODES.values() if entry.wrong and entry.about == "command"]
# What no file alone can show: bytes that are no text, an empty file or folder, an environment, a stack that is down, a live
# Spark, a library of templates and its lock, a project's CODEOWNERS.
WITHOUT_EXAMPLE = {
    "FLOE-C001", "FLOE-C102", "FLOE-C110", "FLOE-C113", "FLOE-C305", "FLOE-C306", "FLOE-C475", "FLOE-C613",
    "FLOE-C614", "FLOE-C615", "FLOE-C616", "FLOE-C801",
}  # fmt: skip


def found(entry: CodeEntry, example: str) -> list[str]:
    files = example_files(example, entry.about)
    paths = [name for name in files if "/" not in name and files[name].startswith(("apiVersion", "kind"))]
    results = load_pipelines(paths, None, world(files, {"FLOE_EXAMPLE_SET": "orders"}))
    return [finding.code for result in results for finding in result.diagnostics]


def test_every_code_in_the_program_can_be_explained() -> None:
    """No code is printed that `floe explain` does not know."""
    used = {
        code
        for source in SOURCES
        if not source.name.startswith("codes_")
        for code in re.findall(r"FLOE-[A-Z][0-9]{3}\b", source.read_text(encoding="utf-8"))
    }

    assert used - set(CODES) == set()


def test_every_code_that_can_be_explained_is_used() -> None:
    """`floe explain` tells of nothing that does not exist."""
    texts = "".join(s.read_text(encoding="utf-8") for s in SOURCES if "codes" not in s.parts)

    unused = {code for code in CODES if code not in texts and code.removeprefix("FLOE-") not in texts}

    assert unused == set()


def test_no_code_has_two_meanings() -> None:
    """Each code is defined once: of two definitions `floe explain` would show one, whichever was printed."""
    definitions = Counter(
        code
        for source in SOURCES
        if "codes" in source.parts
        for code in re.findall(r'Code(?:Entry)?\(\s*"(FLOE-[A-Z][0-9]{3})"', source.read_text(encoding="utf-8"))
    )
    assert [code for code, count in definitions.items() if count > 1] == []
    assert len(definitions) > 150


@pytest.mark.parametrize("entry", EXAMPLES, ids=lambda entry: entry.code)
def test_wrong_example_gives_its_code(entry: CodeEntry) -> None:
    """Each wrong example gives the code that it explains."""
    assert entry.code in found(entry, entry.wrong)


@pytest.mark.parametrize("entry", EXAMPLES, ids=lambda entry: entry.code)
def test_right_example_gives_nothing(entry: CodeEntry) -> None:
    """Nothing at all is said about a right example."""
    assert found(entry, entry.right) == []


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.code)
def test_command_examples(
    entry: CodeEntry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each example that is a command gives its code when wrong, and none when right."""
    monkeypatch.chdir(tmp_path)
    for name, text in example_files("").items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")

    assert run_main(shlex.split(entry.wrong)) == 2
    assert entry.code in capsys.readouterr().out
    assert run_main(shlex.split(entry.right)) == 0
    assert entry.code not in capsys.readouterr().out


def test_every_code_of_a_file_has_examples() -> None:
    """Every code about a file has a wrong and a right example, save those that no file alone can show."""
    files = {code for code in CODES if code.startswith("FLOE-C")}

    assert {code for code in files if not CODES[code].wrong} == WITHOUT_EXAMPLE
    assert {code for code in files if bool(CODES[code].wrong) != bool(CODES[code].right)} == set()


def test_codes_are_found_by_their_short_form() -> None:
    """A person may write C205, floe-c205 or FLOE-C205."""
    assert lookup("c205") is lookup("floe-c205") is CODES["FLOE-C205"]
    assert lookup("C999") is None


def test_pages_are_written_alike() -> None:
    """A title is a few words without a full stop, and the text is whole sentences."""
    for entry in CODES.values():
        assert not entry.title.endswith("."), entry.code
        assert entry.text.endswith("."), entry.code
        assert explanation(entry).startswith(f"{entry.code}: {entry.title}\n")
