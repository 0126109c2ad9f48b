"""`floe init --project` makes a project that is right as it stands, in front of its own CI."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from framework.cli.main import run_main
from framework.config import project
from framework.config.writing.scaffold import LOCAL_TARGET


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a new project with the jobs of both services, which is the current one."""
    monkeypatch.setenv("FLOE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert run_main(["init", "--project", "shop"]) == 0
    assert run_main(["init", "--project", "shop", "--ci", "gitlab", "--force"]) == 0
    monkeypatch.chdir(tmp_path / "shop")
    return tmp_path / "shop"


@pytest.mark.parametrize("target", ["local", "prod"])
def test_its_files_are_right_and_its_tests_pass(made: Path, target: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Under both targets nothing is said about any file, and the tests of pipeline and template pass."""
    capsys.readouterr()
    assert run_main(["validate", ".", "--target", target, "--strict"]) == 0
    assert "4 files checked, nothing to report" in capsys.readouterr().out
    assert run_main(["test", "pipelines", "--target", target, "--no-spark"]) == 0
    assert "2 tests in 2 files: 2 passed" in capsys.readouterr().out


@pytest.mark.parametrize("file", [".github/workflows/pipelines.yml", ".gitlab-ci.yml", "README.md"])
def test_the_commands_that_it_names_succeed(made: Path, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each `floe` step of a job, and of the README's first block, ends well in the project as it is."""
    text = (made / file).read_text()
    block = re.search(r"```bash\n(.*?)```", text, re.DOTALL)
    commands = re.findall(r"^[- ]*(?:run: )?floe (.*?)(?: > .*)?$", block[1] if block else text, re.MULTILINE)

    assert len(commands) == 2
    for command in commands:
        assert run_main(shlex.split(command)) == 0, capsys.readouterr()


def test_a_mistake_makes_its_job_red(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first step of the job ends with an annotation at the place of a mistake."""
    path = made / "pipelines" / "orders.yaml"
    path.write_text(path.read_text().replace("parameters: {topic:", "parameters: {topci:"))
    capsys.readouterr()

    assert run_main(["validate", "pipelines", "--target", "prod", "--strict", "--format", "github"]) == 2
    assert "::error file=pipelines/orders.yaml,line=" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("schema", "file"),
    [("vendor.github-workflows", ".github/workflows/pipelines.yml"), ("vendor.gitlab-ci", ".gitlab-ci.yml")],
)
def test_its_jobs_are_what_the_services_read(made: Path, schema: str, file: str) -> None:
    """Each job is accepted by the published schema of its service."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(made / file)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_nothing_is_written_over(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is there is left alone, and nothing else is written either."""
    (made / "README.md").write_text("ours")
    (made / "requirements.txt").unlink()

    assert run_main(["init", "--project", "."]) == 2
    assert "FLOE-E029" in capsys.readouterr().err
    assert (made / "README.md").read_text() == "ours"
    assert not (made / "requirements.txt").exists()
    assert run_main(["init", "orders", "--project", "."]) == 2


def test_the_next_pipeline_joins_it(made: Path) -> None:
    """`floe init` in the project adds a pipeline file, and the whole is still right."""
    assert run_main(["init", "refunds", "--topic", "shop.refunds", "--table", "shop.refunds"]) == 0
    assert run_main(["validate", ".", "--strict"]) == 0


def test_no_package_of_a_stranger_is_installed(made: Path) -> None:
    """The requirements name nothing until the team says where its floe comes from."""
    lines = (made / "requirements.txt").read_text().splitlines()
    assert [line for line in lines if line and not line.startswith("#")] == []


def test_what_it_is_made_of_is_shipped() -> None:
    """Every file of the skeleton is among those that are installed, and its local target is that of `floe init`."""
    root = Path(project.__file__).parents[3]
    shipped = re.search(r"^framework\.config\.project = (.*)$", (root / "setup.cfg").read_text(), re.MULTILINE)
    assert shipped is not None
    there = {path.name for path in Path(project.__file__).parent.iterdir() if path.is_file()} - {"__init__.py"}
    assert there == {name for pattern in shipped[1].split(", ") for name in there if Path(name).match(pattern)}
    assert there == {*project.PATHS, *(name for name, _ in project.CI.values())}
    assert project.project_files(None)["pipelines/targets/local.yaml"] == LOCAL_TARGET
    assert yaml.safe_load(project.project_files("github")[".github/workflows/pipelines.yml"])["jobs"]
