"""What teams copy into their repositories: the jobs and hooks as they stand, run on commits of a fresh repository.

The shell steps are read from the YAML and run one by one, as the services run them. The hooks run through pre-commit.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
CI = ROOT / "docs" / "ci"
# An environment of its own for git: nobody's settings, and an author.
GIT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": "a@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def environment(home: Path, binaries: Path = Path(sys.executable).parent) -> dict[str, str]:
    """What a fresh machine has: floe, pip and pre-commit on the path, and no variables of the project."""
    wanted = ("JAVA_HOME", "LANG", "TMPDIR", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
    kept = {
        name: value for name, value in os.environ.items() if name in wanted or name.lower().startswith(("pip_", "http"))
    }
    caches = {"PRE_COMMIT_HOME": str(home / "pre-commit"), "XDG_CACHE_HOME": str(home / "cache")}
    return {**kept, **GIT, **caches, "HOME": str(home), "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"}


def git(folder: Path, *words: str) -> None:
    done = subprocess.run(["git", *words], cwd=folder, env={**os.environ, **GIT}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--no-verify", "--message", "a change")


@dataclass(frozen=True)
class Told:
    """What a check said: whether it is green, its log, and the places that it marks: code, file, line."""

    green: bool
    log: str
    places: frozenset[tuple[str, str, int]] = field(default=frozenset())


def steps_of(example: Path) -> list[str]:
    """The shell steps of a job: each `run` of GitHub's, or GitLab's script, whose lines end at the first that fails."""
    job = yaml.safe_load(example.read_text())
    if "jobs" in job:
        return [step["run"] for step in job["jobs"]["check"]["steps"] if "run" in step]
    return ["\n".join(job["pipelines"]["script"])]


def run_job(folder: Path, example: Path, env: Mapping[str, str]) -> Told:
    """The steps of a job on a fresh clone of the last commit."""
    clone = folder.parent / f"clone-of-{folder.name}"
    shutil.rmtree(clone, ignore_errors=True)
    git(folder.parent, "clone", "--quiet", str(folder), str(clone))
    log, green = "", True
    for step in steps_of(example):
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step],
            cwd=clone,
            env=env,
            capture_output=True,
            text=True,
            timeout=280,
        )
        log, green = log + done.stdout + done.stderr, done.returncode == 0
        if not green:
            break
    if "jobs" in yaml.safe_load(example.read_text()):
        return Told(green, log, annotations(log))
    findings = json.loads((clone / "floe-findings.json").read_text())
    assert len({finding["fingerprint"] for finding in findings}) == len(findings)
    return Told(
        green,
        log,
        frozenset(
            (finding["check_name"], finding["location"]["path"], finding["location"]["lines"]["begin"])
            for finding in findings
        ),
    )


def annotations(log: str) -> frozenset[tuple[str, str, int]]:
    """What GitHub marks in a review."""
    found = re.findall(r"^::error file=([^,]+),line=(\d+),.*?title=([A-Z0-9-]+)::", log, re.MULTILINE)
    return frozenset((code, file, int(line)) for file, line, code in found)


def run_hooks(folder: Path, env: Mapping[str, str]) -> Told:
    """A commit of everything in the folder, with the hooks of the example."""
    shutil.copy(CI / "pre-commit-config.yaml", folder / ".pre-commit-config.yaml")
    git(folder, "add", "--all")
    done = subprocess.run(["pre-commit", "run"], cwd=folder, env=env, capture_output=True, text=True, timeout=280)
    marks = re.findall(r"^(\S+?):(\d+):\d+: error\[([A-Z0-9-]+)\]", done.stdout, re.MULTILINE)
    places = frozenset((code, file, int(line)) for file, line, code in marks)
    return Told(done.returncode == 0, done.stdout + done.stderr, places)


@pytest.fixture(scope="module")
def hooks() -> None:
    """What runs hooks."""
    if not shutil.which("pre-commit", path=str(Path(sys.executable).parent)):
        pytest.skip("pre-commit needs Python 3.11 or newer")


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path / "home")


def start(folder: Path, env: Mapping[str, str], *words: str) -> Path:
    """A fresh repository, as `floe init` and these words make it."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch", "main")
    done = subprocess.run(["floe", "init", *words], cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture
def project(tmp_path: Path, env: dict[str, str]) -> Path:
    """A fresh repository with a project, committed."""
    folder = start(tmp_path / "shop", env, "--project", ".")
    commit(folder)
    return folder


def test_the_pages_jobs_are_those_of_a_new_project() -> None:
    """What `floe init --project` writes and what the page offers is one text."""
    made = ROOT / "framework" / "config" / "project"
    assert (CI / "github-actions.yml").read_text() == (made / "github.yml").read_text()
    assert (CI / "gitlab-ci.yml").read_text() == (made / "gitlab.yml").read_text()


@pytest.mark.parametrize("example", ["github-actions.yml", "gitlab-ci.yml"])
def test_the_job_of_a_new_project_is_green(project: Path, env: dict[str, str], example: str) -> None:
    """The first commit of `floe init --project` passes, says what was checked, and leaves a report of its tests."""
    reported = run_job(project, CI / example, env)
    assert reported.green, reported.log
    assert reported.places == frozenset()
    assert "4 files checked, nothing to report" in reported.log
    assert "2 tests in 2 files: 2 passed" in reported.log
    report = ET.parse(project.parent / "clone-of-shop" / "floe-tests.xml").getroot()
    assert (report.get("tests"), report.get("failures")) == ("2", "0")


def test_the_hooks_of_a_new_project_are_green(project: Path, env: dict[str, str], hooks: None) -> None:
    """A commit that changes a pipeline, a target and a template together passes both hooks."""
    for path in (project / "pipelines").rglob("*.yaml"):
        path.write_text(path.read_text() + "# touched\n")
    reported = run_hooks(project, env)
    assert reported.green, reported.log
    assert reported.log.count("Passed") == 2


def test_one_file_of_init_is_green_everywhere(tmp_path: Path, env: dict[str, str], hooks: None) -> None:
    """A pipeline that `floe init NAME` writes passes the hooks and both jobs, once it has a target `prod`."""
    folder = start(tmp_path / "lone", env, "orders", "--topic", "shop.orders", "--table", "shop.orders")
    made = ROOT / "framework" / "config" / "project"
    shutil.copy(made / "prod.yaml", folder / "pipelines" / "targets" / "prod.yaml")
    shutil.copy(made / "requirements.txt", folder)
    reported = run_hooks(folder, env)
    assert reported.green, reported.log
    assert reported.log.count("Passed") == 2
    commit(folder)
    for example in ("github-actions.yml", "gitlab-ci.yml"):
        reported = run_job(folder, CI / example, env)
        assert reported.green, reported.log


@dataclass(frozen=True)
class Mistake:
    """An edit of a new project: in a file a text becomes another; the code that marks it then, and text of its line."""

    file: str
    before: str
    after: str
    code: str
    line_with: str


ORDERS, LANDING, PROD = "pipelines/orders.yaml", "pipelines/templates/landing.yaml", "pipelines/targets/prod.yaml"
# Row of the page -> the mistake.
MISTAKES = {
    "YAML that is not well-formed": Mistake(ORDERS, "metadata:\n", "metadata: {\n", "FLOE-C103", "metadata: {"),
    "a key that there is not": Mistake(ORDERS, "source:\n", "sorce:\n", "FLOE-C201", "sorce:"),
    "a parameter that the template has not": Mistake(
        ORDERS, "{topic: shop", "{topci: shop", "FLOE-C609", "{topci: shop"
    ),
    "a setting that Kafka does not know": Mistake(
        PROD, "security.protocol", "security.protocl", "FLOE-C704", "security.protocl"
    ),
    "a secret in plain text": Mistake(
        PROD, '"${secret:env:KAFKA_PASSWORD}"', "hunter2hunter2", "FLOE-C311", "hunter2hunter2"
    ),
    "a variable of `${env:...}` that the job does not set": Mistake(
        PROD, "kafka.example.com:9093", '"${env:BROKERS}"', "FLOE-C305", "${env:BROKERS}"
    ),
    "a test that gives other rows": Mistake(
        ORDERS, "shop.orders: {rows: [{id: 7,", "shop.orders: {rows: [{id: 8,", "FLOE-R401", "rows: [{id: 8"
    ),
    "a change of a template that breaks a test": Mistake(
        LANDING,
        'partition_by: ["day(_kafka_timestamp)"]}\n      evolve',
        "partition_by: []}\n      evolve",
        "FLOE-R401",
        'partition_by: ["day(_kafka_timestamp)"], rows',
    ),
}
# One in each kind of file.
SOME = ("a key that there is not", "a setting that Kafka does not know", "a change of a template that breaks a test")


def edit(folder: Path, mistake: Mistake) -> tuple[str, str, int]:
    """Makes the mistake; returns the place that must be marked."""
    path = folder / mistake.file
    text = path.read_text()
    assert text.count(mistake.before) == 1, mistake
    path.write_text(text.replace(mistake.before, mistake.after))
    lines = path.read_text().splitlines()
    (line,) = [number for number, line in enumerate(lines, 1) if mistake.line_with in line]
    return mistake.code, mistake.file, line


@pytest.mark.parametrize(
    ("example", "row"),
    [
        *(("github-actions.yml", row) for row in MISTAKES),
        *(pytest.param("gitlab-ci.yml", row, marks=pytest.mark.slow) for row in SOME),
    ],
)
def test_a_mistake_is_red_at_its_place(project: Path, env: dict[str, str], example: str, row: str) -> None:
    """Each mistake that the page names ends the job, with an annotation at the line that holds it."""
    place = edit(project, MISTAKES[row])
    commit(project)
    reported = run_job(project, CI / example, env)
    assert not reported.green, reported.log
    assert place in reported.places, (reported.places, reported.log)


@pytest.mark.slow
@pytest.mark.parametrize("row", SOME)
def test_a_mistake_is_not_committed(project: Path, env: dict[str, str], hooks: None, row: str) -> None:
    """The hooks refuse a commit with it, and name the line."""
    place = edit(project, MISTAKES[row])
    reported = run_hooks(project, env)
    assert not reported.green, reported.log
    assert place in reported.places, (reported.places, reported.log)


@pytest.mark.parametrize("example", ["github-actions.yml", "gitlab-ci.yml"])
def test_a_folder_without_pipelines_is_red(project: Path, env: dict[str, str], example: str) -> None:
    """A job that looks into the wrong folder is red: it would check nothing."""
    (project / "pipelines").rename(project / "flows")
    (project / "pipelines").mkdir()
    (project / "pipelines" / "README.md").write_text("moved\n")
    commit(project)
    reported = run_job(project, CI / example, env)
    assert not reported.green
    assert {code for code, _, _ in reported.places} == {"FLOE-C113"}


def test_a_variable_that_the_job_sets_is_green(project: Path, env: dict[str, str]) -> None:
    """With any value of the right form in the job's environment the same file passes."""
    edit(project, MISTAKES["a variable of `${env:...}` that the job does not set"])
    commit(project)
    reported = run_job(project, CI / "github-actions.yml", {**env, "BROKERS": "unchecked.example.com:9092"})
    assert reported.green, reported.log


def test_the_page_names_these_mistakes() -> None:
    """The table of docs/ci.md has a row for each mistake that is tried here, with its code, and no other."""
    rows = re.findall(r"^\| ([^|]+) \| `(FLOE-[A-Z0-9]+)` \|", (ROOT / "docs" / "ci.md").read_text(), re.MULTILINE)
    tried = {row: mistake.code for row, mistake in MISTAKES.items()}
    assert dict(rows) == {**tried, "a folder that holds no file of floe's": "FLOE-C113"}


def from_a_wheel(wheel: Path, folder: Path) -> str:
    return f"floe-pipelines @ {wheel.as_uri()}"


# The page's address; git is told that it is this repository.
GIT_ADDRESS = "https://git.example.com/data/floe.git"


def from_git(wheel: Path, folder: Path) -> str:
    return f"floe-pipelines @ git+{GIT_ADDRESS}@{head()}"


def from_an_index(wheel: Path, folder: Path) -> str:
    shelf = folder / "simple" / "floe-pipelines"
    shelf.mkdir(parents=True)
    shutil.copy(wheel, shelf)
    (shelf / "index.html").write_text(f'<!DOCTYPE html><a href="{wheel.name}">{wheel.name}</a>')
    version = wheel.name.split("-")[1]
    return f"--index-url {(folder / 'simple').as_uri()}\nfloe-pipelines=={version}"


def head() -> str:
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.packaging
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_each_way_to_install_that_the_page_names(tmp_path: Path) -> None:
    """From a wheel, from a git address and from an index of the team's own, floe gets into an empty environment through
    `requirements.txt`, and the job is green with it. The packages that it needs are those of this environment."""
    source = tmp_path / "source"
    git(tmp_path, "clone", "--quiet", str(ROOT), str(source))
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    subprocess.run([*build, str(tmp_path / "wheels"), str(source)], check=True, env={**os.environ, "CC": "/bin/false"})
    (wheel,) = (tmp_path / "wheels").glob("*.whl")
    assert GIT_ADDRESS in (ROOT / "docs" / "ci.md").read_text()
    ways: dict[str, Callable[[Path, Path], str]] = {"wheel": from_a_wheel, "git": from_git, "index": from_an_index}
    for way, requirement in ways.items():
        venv.create(tmp_path / way / "fresh", with_pip=True)
        binaries = tmp_path / way / "fresh" / "bin"
        env = {
            **environment(tmp_path / "home", binaries),
            # The locked packages. floe is there, too, as a link to its sources, which pip would count as installed.
            "PYTHONPATH": str(Path(pytest.__file__).parents[1]),
            "PIP_NO_DEPS": "1",
            "PIP_IGNORE_INSTALLED": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "CC": "/bin/false",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"url.{ROOT.as_uri()}.insteadOf",
            "GIT_CONFIG_VALUE_0": GIT_ADDRESS,
        }
        assert not (binaries / "floe").exists()
        folder = tmp_path / way / "shop"
        start(folder, environment(tmp_path / "home"), "--project", ".")
        (folder / "requirements.txt").write_text(requirement(wheel, tmp_path / way) + "\n")
        commit(folder)
        reported = run_job(folder, CI / "github-actions.yml", env)
        assert reported.green, (way, reported.log)
        assert (binaries / "floe").exists(), way
        assert "4 files checked, nothing to report" in reported.log
