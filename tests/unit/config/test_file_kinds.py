"""Which YAML files are floe's, by what they hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.adapters.project.files import find_files
from framework.cli.main import run_main
from framework.config.names.file_kinds import is_floe_file, kind_in
from tests.unit.config.in_memory import PIPELINE, TARGET

OTHERS = {
    "docker-compose.yml": "services:\n  db: {image: postgres}\n",
    ".github/workflows/ci.yaml": "on: push\njobs: {test: {runs-on: ubuntu-latest}}\n",
    "chart/values.yaml": "replicas: 1\nimage: {tag: v1}\n",
    "chart/templates/job.yaml": "apiVersion: batch/v1\nkind: Job\nmetadata: {name: {{ .Values.name }}}\n",
    "tekton.yaml": "apiVersion: tekton.dev/v1\nkind: Pipeline\nmetadata: {name: build}\nspec: {tasks: []}\n",
    "mkdocs.yml": "site_name: A\nnav: [a.md]\n",
    "empty.yaml": "",
    "many.yaml": "---\na: 1\n---\nb: 2\n",
    "node_modules/left/pad.yaml": PIPELINE,
    ".venv/share/a.yaml": PIPELINE,
    "env/pyvenv.cfg": "",
    "env/share/a.yaml": PIPELINE,
}


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with files of other tools, a pipeline and a target."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {**OTHERS, "pipelines/a.yml": PIPELINE, "targets/local.yml": TARGET})
    return tmp_path


def test_other_tools_files_are_left_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a repository of many tools `floe validate .` checks floe's files, of both endings, and no others."""
    found = find_files(["."])

    assert [path.as_posix() for path in found.files] == ["pipelines/a.yml", "targets/local.yml"]
    assert run_main(["validate", "."]) == 0
    captured = capsys.readouterr()
    assert "2 files" in captured.out
    assert captured.err == ""


def test_what_is_skipped_can_be_seen(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`-v` names each YAML file that is taken for another tool's, on standard error."""
    assert run_main(["validate", ".", "-v", "--format", "json"]) == 0

    lines = capsys.readouterr().err.splitlines()
    assert "docker-compose.yml: skipped, not a floe file" in lines
    assert "tekton.yaml: skipped, not a floe file" in lines
    assert not [line for line in lines if "a.yml" in line]


def test_a_named_file_is_always_checked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is named on the command line is floe's, whatever it holds."""
    assert run_main(["validate", "mkdocs.yml"]) == 2
    assert run_main(["validate", ".", "tekton.yaml"]) == 2


@pytest.mark.parametrize("verb", ["validate", "test", "graph", "migrate", "plan"])
def test_nothing_to_check_is_an_error(verb: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder without floe's files, such as a mistyped path, never looks like one without mistakes."""
    assert run_main([verb, "chart"]) == 2

    captured = capsys.readouterr()
    assert ("FLOE-P004" if verb in ("plan", "graph") else "FLOE-C113") in captured.out + captured.err


@pytest.mark.parametrize("verb", ["test", "graph", "plan", "diff", "run", "submit"])
def test_a_folder_of_targets_alone_has_nothing_to_run(
    verb: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A verb for pipelines that finds none ends with an error, though there are files of other kinds."""
    assert run_main([verb, "targets"]) == 2

    captured = capsys.readouterr()
    assert "FLOE-P004" in captured.out + captured.err


def test_one_empty_folder_among_others_is_reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each folder that is named holds something to check."""
    assert run_main(["validate", "pipelines", "chart"]) == 2

    assert "chart" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    [
        PIPELINE,
        TARGET,
        PIPELINE.replace("apiVersion: floe/v1\n", ""),
        PIPELINE.replace("apiVersion: floe/v1", "apiVersion: floe/v9"),
        PIPELINE.replace("apiVersion: floe/v1", "apiVersion: 'Floe/V1'"),
        PIPELINE.replace("apiVersion: floe/v1", "apiVersion: flow/v1"),
        PIPELINE.replace("kind: Pipeline", "kind: Pipelin"),
        PIPELINE.replace("apiVersion: floe/v1\nkind: Pipeline\n", ""),
        "# yaml-language-server: $schema=../schemas/pipeline.v1.schema.json\nsuorce: {}\n",
        "kind: Template\nmetadata: {name: a}\n",
        "kind: Target\nconections: {}\n",
        PIPELINE + "\tx: [\n",
    ],
)
def test_a_file_with_mistakes_is_still_floe_s(text: str) -> None:
    """No single mistake in a file makes it pass for another tool's, and so escape the check."""
    assert is_floe_file(text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (TARGET, "Target"),
        (TARGET.replace("kind: Target", "kind: Tarvet"), "Target"),
        (TARGET.replace("kind:", "kiod:"), "Target"),
        (TARGET.replace("kind:", "kind::"), "Target"),
        (PIPELINE.replace("Pipeline", "Pipelne"), "Pipeline"),
        ("kind: Template\nparameters: {}\n", "Template"),
        ("apiVersion: v1\nkind: PodTemplate\nmetadata: {name: a}\n", "Pipeline"),
    ],
)
def test_a_mistyped_kind_is_still_known(text: str, kind: str) -> None:
    """A slip in `kind:` or in its value is one mistake: the file is checked as what it is. Kinds of other tools are none."""
    assert kind_in(text) == kind
