"""What programs read when a verb fails: one document of one shape, whatever the verb."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from jsonschema import Draft7Validator

from framework.cli import main
from framework.cli.main import VERBS, run_main
from framework.diagnose.codes.catalogue import CODES
from tests.unit.config.in_memory import PIPELINE, TARGET

SCHEMA = json.loads((Path(main.__file__).parents[2] / "schemas" / "error.v1.schema.json").read_text(encoding="utf-8"))


def _commands() -> dict[str, click.Command]:
    """Every verb, and every verb of a group, by its words."""
    context = click.Context(main.floe, **main.floe.context_settings)
    found: dict[str, click.Command] = {}
    for verb in VERBS:
        command = main.floe.get_command(context, verb)
        assert command is not None
        found[verb] = command
        if isinstance(command, click.Group):
            found |= {f"{verb} {name}": each for name, each in command.commands.items()}
    return found


def _says_json(command: click.Command) -> list[str]:
    """The option that asks for JSON; [] where the command has none."""
    for parameter in command.params:
        if "--json" in parameter.opts:
            return ["--json"]
        if "--format" in parameter.opts and "json" in getattr(parameter.type, "choices", ()):
            return ["--format", "json"]
    return []


WITH_JSON = {words: option for words, command in _commands().items() if (option := _says_json(command))}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a right pipeline, a wrong one and their target."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLOE_HOME", str(tmp_path / "home"))
    (tmp_path / "targets").mkdir()
    (tmp_path / "targets" / "local.yaml").write_text(TARGET, encoding="utf-8")
    (tmp_path / "a.yaml").write_text(PIPELINE, encoding="utf-8")
    (tmp_path / "wrong.yaml").write_text(PIPELINE.replace("routes:", "rotes:"), encoding="utf-8")
    return tmp_path


def document(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    """What stands on standard output: one document, and nothing else."""
    found = json.loads(capsys.readouterr().out)
    Draft7Validator(SCHEMA).validate(found)
    assert found["error"]["code"] in CODES
    return dict(found)


@pytest.mark.parametrize("words", WITH_JSON)
def test_every_verb_tells_a_wrong_option_as_json(words: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A verb that prints JSON prints its errors as JSON, too, and ends with the code that the document names."""
    code = run_main([*words.split(), *WITH_JSON[words], "--no-such-option"])

    found = document(capsys)
    assert (found["command"], found["exit_code"]) == (words, code)


@pytest.mark.parametrize("verb", ["plan", "diff", "run", "submit"])
def test_findings_are_in_the_document(verb: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is wrong with a file is told with its place, as `validate --format json` tells it."""
    assert run_main([verb, "wrong.yaml", "--json"]) == 2
    found = document(capsys)
    run_main(["validate", "wrong.yaml", "--format", "json"])
    checked = json.loads(capsys.readouterr().out)

    assert found["diagnostics"] == checked["diagnostics"]
    assert found["error"]["code"] == checked["diagnostics"][0]["code"]  # type: ignore[index]


@pytest.mark.parametrize(
    "arguments", [["plan", "a.yaml"], ["stop", "orders"], ["deploy", "--status"], ["pause", "--reading", "orders"]]
)
def test_an_unknown_target_is_in_the_document(
    arguments: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An error about no pipeline file has the same shape."""
    assert run_main([*arguments, "--target", "nowhere", "--json"]) == 2

    assert document(capsys)["error"]["code"] == "FLOE-C701"  # type: ignore[index]


def test_people_see_it_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The sentence for people stays on standard error, and without JSON standard output stays empty."""
    run_main(["plan", "wrong.yaml", "--json"])
    with_json = capsys.readouterr()
    run_main(["plan", "wrong.yaml"])
    without = capsys.readouterr()

    assert with_json.err == without.err != ""
    assert without.out == ""


def test_the_document_repeats_no_secret(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No secret that stands on a command line or in a file is in the document."""
    run_main(["plan", "a.yaml", "--json", "--targt=https://u:hunter2@host"])

    assert "hunter2" not in capsys.readouterr().out
