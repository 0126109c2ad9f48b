"""The command's frame: what is imported, what exit codes mean, what is printed where."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import click
import pytest

from framework.cli import main
from framework.cli.main import VERBS, run_main
from framework.errors import ConfigError, DataLossError, FencedError, FloeError, SetupError
from tests.unit.config.in_memory import PIPELINE, TARGET

HEAVY = (
    "pyspark",
    "pyarrow",
    "confluent_kafka",
    "starlette",
    "uvicorn",
    "pyiceberg",
    "pandas",
    "numpy",
    "prometheus_client",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one right pipeline and its target."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "targets").mkdir()
    (tmp_path / "targets" / "local.yaml").write_text(TARGET, encoding="utf-8")
    (tmp_path / "a.yaml").write_text(PIPELINE, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ["validate", "a.yaml"],
        ["render", "a.yaml"],
        ["plan", ".", "--offline"],
        ["plan", ".", "--against", "before.json", "--steps"],
        ["diff", ".", "--against", "before.json"],
        ["explain", "C205"],
        ["--help"],
    ],
)
def test_checking_files_loads_no_engine(folder: Path, arguments: list[str]) -> None:
    """Verbs that only look at files import neither Spark, Arrow, Iceberg nor a Kafka client."""
    if "before.json" in arguments:
        assert run_main(["plan", "a.yaml", "--offline", "--out", "before.json"]) == 0
    program = (
        "import sys; from framework.cli.main import run_main; code = run_main(sys.argv[1:]);"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr); sys.exit(code)"
    )
    root = str(Path(main.__file__).parents[2])

    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": root},
    )

    assert done.stderr.strip() == "[]"
    assert done.returncode == 0


def test_every_verb_can_be_imported() -> None:
    """Each verb of the list leads to a command with help."""
    context = click.Context(main.floe, **main.floe.context_settings)

    for verb in VERBS:
        command = main.floe.get_command(context, verb)
        assert command is not None, verb
        assert command.get_short_help_str(), verb


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (FloeError("a"), 1),
        (ConfigError("a"), 2),
        (SetupError("a"), 3),
        (FencedError("a"), 4),
        (DataLossError("a"), 5),
    ],
)
def test_an_error_s_class_is_the_exit_code(
    error: FloeError, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An error is told on standard error, and its class decides how the process ends."""

    def fail(self: click.Group, context: click.Context) -> None:
        raise error

    monkeypatch.setattr(main.VerbGroup, "invoke", fail)

    assert run_main(["explain"]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error[FLOE-")


def test_findings_of_a_wrong_file_end_a_run_with_2(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A command that needs a right file prints every finding on standard error and ends with 2."""
    (folder / "a.yaml").write_text(PIPELINE.replace("rules", "rulse") + "trigger: {every: 5}\n", encoding="utf-8")

    assert run_main(["render", "a.yaml"]) == 2
    captured = capsys.readouterr()
    assert "FLOE-C201" in captured.err
    assert "FLOE-C205" in captured.err
    assert captured.out == ""


def test_strict_makes_warnings_count(folder: Path) -> None:
    """A warning fails only under --strict."""
    (folder / "a.yaml").write_text(PIPELINE.replace("[orders]", '["${env:FLOE_EXAMPLE_UNSET}"]'), encoding="utf-8")

    assert run_main(["validate", "a.yaml"]) == 0
    assert run_main(["validate", "--strict", "a.yaml"]) == 2


def test_every_format_can_be_read_by_its_readers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON and SARIF are JSON, JUnit is XML, and a GitHub annotation is one line, whatever a file holds."""
    text = PIPELINE.replace("{name: orders}", "{name: 'a, b: 100% <\"é\">', ownr: x}")
    (folder / "a.yaml").write_text(text, encoding="utf-8")
    printed = {}
    for name in ("json", "sarif", "junit", "github"):
        assert run_main(["validate", "a.yaml", "--format", name]) == 2
        printed[name] = capsys.readouterr().out

    assert [finding["code"] for finding in json.loads(printed["json"])["diagnostics"]] == ["FLOE-C209", "FLOE-C201"]
    run = json.loads(printed["sarif"])["runs"][0]
    assert [result["locations"][0]["physicalLocation"]["region"]["startLine"] for result in run["results"]] == [3, 3]
    suite = ElementTree.fromstring(printed["junit"].encode())
    assert suite.get("failures") == "2"
    *annotations, closing = printed["github"].splitlines()
    assert len(annotations) == 2
    assert all(line.startswith("::error file=a.yaml,line=3,col=") for line in annotations)
    assert closing == "found 2 errors in 1 file"


def test_all_files_right_is_said_in_each_format(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A right file gives an empty but whole document."""
    assert run_main(["validate", "a.yaml", "--format", "sarif"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["results"] == []
    assert run_main(["validate", "a.yaml", "--format", "junit"]) == 0
    assert ElementTree.fromstring(capsys.readouterr().out.encode()).get("tests") == "1"
