"""`floe templates`: libraries of templates are fetched once, locked, and read only as they were locked."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from framework.cli.main import run_main

TEMPLATE = """\
apiVersion: floe/v1
kind: Template
metadata: {{name: landing, version: {version}, description: One topic to one table.}}
parameters:
  topic: {{type: string, description: The topic.}}
  interval: {{type: string, description: How often it is committed., default: {interval}}}
pipeline:
  source: {{kafka: {{topics: ["${{param.topic}}"]}}}}
#% include "parts/routes.yaml"
  tables: {{defaults: {{commit: {{interval: "${{param.interval}}"}}}}}}
  errors: {{dead_letter_table: shop.dead_letters}}
tests:
  - name: lands
    parameters: {{topic: orders}}
    input: [{{value: {{id: 1}}}}]
    expect: {{tables: {{shop.orders: {{rows: [{{id: 1}}]}}}}}}
"""
ROUTES = '  routes: {rules: [{table: "shop.${param.topic}"}]}\n'
VERSIONS = {"v1.0.0": "3m", "v1.1.0": "4m", "v2.0.0": "5m"}
Floe = Callable[..., tuple[int, str]]


class Repository:
    """A library with three versions of a template, in a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.url = folder, folder.as_uri()
        (folder / "templates" / "parts").mkdir(parents=True)
        (folder / "templates" / "parts" / "routes.yaml").write_text(ROUTES)
        self.git("init", "--quiet")
        for tag, interval in VERSIONS.items():
            text = TEMPLATE.format(version=tag.removeprefix("v"), interval=interval)
            (folder / "templates" / "landing.yaml").write_text(text)
            self.commit(tag)

    def commit(self, tag: str) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", tag)
        self.git("tag", "--force", "--annotate", "--message", tag, tag)

    def git(self, *arguments: str) -> str:
        who = ["-c", "user.name=acme", "-c", "user.email=templates@acme.example", "-c", "core.hooksPath=/dev/null"]
        done = subprocess.run(["git", *who, *arguments], cwd=self.folder, check=True, capture_output=True, text=True)
        return done.stdout.strip()


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    (tmp_path / "gitconfig").touch()
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Repository(tmp_path / "library")


@pytest.fixture
def floe(
    library: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Floe:
    """Runs `floe` in a project; gives the exit code and what it printed."""
    (tmp_path / "project" / "pipelines").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project")

    def run(*arguments: str) -> tuple[int, str]:
        code = run_main(list(arguments))
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


def pipeline(name: str, template: str, version: str) -> None:
    use = f'template: {{name: "{template}", version: "{version}", parameters: {{topic: {name}}}}}'
    text = f"apiVersion: floe/v1\nkind: Pipeline\nmetadata: {{name: {name}}}\n{use}\n"
    Path("pipelines", f"{name}.yaml").write_text(text)


def cached(tmp_path: Path) -> list[Path]:
    return sorted(path for path in (tmp_path / "cache").rglob("*.yaml"))


def test_two_versions_are_used_side_by_side(floe: Floe, library: Repository) -> None:
    """Pipelines take the version that they name, with the parts that it includes."""
    for tag in ("v1.1.0", "v2.0.0"):
        assert floe("templates", "lock", "acme", library.url, "--tag", tag)[0] == 0
    pipeline("orders", "acme:landing@1", "1")
    pipeline("refunds", "acme:landing@2.0.0", "2")

    assert floe("validate", "pipelines") == (0, "2 files checked, nothing to report\n")
    assert "4m" in floe("render", "pipelines/orders.yaml")[1]
    assert "5m" in floe("render", "pipelines/refunds.yaml")[1]


def test_nothing_but_the_lock_and_the_cache_is_asked_for(floe: Floe, library: Repository) -> None:
    """Files are checked when the repository is gone."""
    floe("templates", "lock", "acme", library.url, "--tag", "v1.1.0")
    pipeline("orders", "acme:landing", "1")
    library.folder.rename(library.folder.with_name("gone"))

    assert floe("validate", "pipelines")[0] == 0
    assert floe("templates", "lock") == (0, "acme@v1.1.0: here\n")


def test_a_library_that_is_not_here_is_refused_until_it_is_fetched(
    floe: Floe, library: Repository, tmp_path: Path
) -> None:
    """On a machine without the cache the finding names the command, which fetches just what was locked."""
    floe("templates", "lock", "acme", library.url, "--tag", "v1.1.0")
    pipeline("orders", "acme:landing", "1")
    (tmp_path / "cache").rename(tmp_path / "elsewhere")
    lock = Path("floe.lock").read_text()

    code, said = floe("validate", "pipelines")

    assert code == 2
    assert "pipelines/orders.yaml:4:18: error[FLOE-C614]" in said
    assert "remedy: run `floe templates lock`," in said
    assert floe("templates", "lock") == (0, "acme@v1.1.0: fetched\n")
    assert floe("validate", "pipelines")[0] == 0
    assert Path("floe.lock").read_text() == lock


@pytest.mark.parametrize("name", ["landing.yaml", "routes.yaml"])
def test_a_text_that_is_not_what_was_locked_is_refused(
    floe: Floe, library: Repository, tmp_path: Path, name: str
) -> None:
    """A template or a part of it that was changed in the cache takes part in nothing; fetching mends it."""
    floe("templates", "lock", "acme", library.url, "--tag", "v1.1.0")
    pipeline("orders", "acme:landing", "1")
    (changed,) = (path for path in cached(tmp_path) if path.name == name)
    changed.write_text(changed.read_text() + "# changed\n")

    code, said = floe("plan", "pipelines", "--offline")

    assert code == 2
    assert "error[FLOE-C614]" in said
    assert name in said
    assert floe("templates", "lock") == (0, "acme@v1.1.0: fetched\n")
    assert floe("validate", "pipelines")[0] == 0


def test_a_tag_that_moved_is_refused(floe: Floe, library: Repository, tmp_path: Path) -> None:
    """A version that was published again is not taken in silence, whichever way it is fetched."""
    floe("templates", "lock", "acme", library.url, "--tag", "v2.0.0")
    (tmp_path / "cache").rename(tmp_path / "elsewhere")
    lock = Path("floe.lock").read_text()
    (library.folder / "templates" / "landing.yaml").write_text(TEMPLATE.format(version="2.0.0", interval="9m"))
    library.commit("v2.0.0")

    for arguments in ((), ("acme", library.url, "--tag", "v2.0.0")):
        code, said = floe("templates", "lock", *arguments)
        assert (code, "error[FLOE-C616]" in said, library.git("rev-parse", "HEAD") in said) == (2, True, True)
    assert Path("floe.lock").read_text() == lock
    assert floe("templates", "update")[1] == "acme@v2.0.0 -> acme@v2.0.0\n  ~ landing.yaml\n"
    assert floe("templates", "lock") == (0, "acme@v2.0.0: here\n")


def test_an_update_stays_below_the_next_first_number(floe: Floe, library: Repository) -> None:
    """The newest version of the same first number is taken; another only with `--major`."""
    floe("templates", "lock", "acme", library.url, "--tag", "v1.0.0")

    assert floe("templates", "update") == (0, "acme@v1.0.0 -> acme@v1.1.0\n  ~ landing.yaml\n")
    assert floe("templates", "update", "acme@1") == (0, "acme@v1.1.0: no newer version\n")
    assert floe("templates", "update", "--major") == (0, "acme@v1.1.0 -> acme@v2.0.0\n  ~ landing.yaml\n")
    code, said = floe("templates", "update", "acme@1")
    assert (code, "the lock has no library `acme@1`" in said) == (2, True)


def test_templates_are_listed_described_and_tested(floe: Floe, library: Repository) -> None:
    """A library's templates show their versions and parameters, and their tests run as they lie in the cache."""
    floe("templates", "lock", "acme", library.url, "--tag", "v2.0.0")
    Path("pipelines/templates").mkdir()
    Path("pipelines/templates/own.yaml").write_text(TEMPLATE.format(version="1.0.0", interval="1m"))

    listed = json.loads(floe("templates", "list", "--json")[1])
    described = json.loads(floe("templates", "describe", "acme:landing@2", "--json")[1])

    assert [(each["name"], each["version"]) for each in listed["templates"]] == [
        ("own", "1.0.0"),
        ("acme:landing@2.0.0", "2.0.0"),
    ]
    assert [(each["name"], each.get("default")) for each in described["parameters"]] == [
        ("topic", None),
        ("interval", "5m"),
    ]
    assert "own" in floe("templates", "list")[1]
    assert "parameters: {topic: ...}" in floe("templates", "describe", "acme:landing")[1]
    code, said = floe("templates", "test", "acme:landing")
    assert (code, "1 test in 1 file: 1 passed" in said) == (0, True)
    code, said = floe("templates", "describe", "acme:landnig")
    assert (code, "error[FLOE-C605]" in said) == (2, True)


def test_a_difference_is_shown_for_those_who_use_the_template(floe: Floe, library: Repository) -> None:
    """Another version of a library is compared with what each pipeline uses now, here and below or in the folders that are
    named, and no file is changed. A second version of a library says how pipelines tell the two apart."""
    first, second = (floe("templates", "lock", "acme", library.url, "--tag", tag)[1] for tag in ("v1.1.0", "v2.0.0"))
    assert "beside" not in first
    assert (
        "beside `acme@v1.1.0`; pipelines say which they mean: `acme:TEMPLATE@1.1.0` or `acme:TEMPLATE@2.0.0`" in second
    )
    pipeline("orders", "acme:landing@1", "1")
    pipeline("refunds", "acme:landing@2", "2")
    before = Path("pipelines/orders.yaml").read_text()

    code, said = floe("diff", "pipelines", "--template", "acme:landing@2", "--exit-code")
    reported = json.loads(floe("diff", "pipelines", "--template", "acme:landing@2", "--json")[1])

    assert floe("diff", "--template", "acme:landing@2", "--exit-code") == (code, said)
    assert floe("diff")[0] == 2
    assert code == 1
    assert "tables.defaults.commit.interval: 4m -> 5m" in said
    assert (
        "acme:landing is used by 2 of 2 pipelines: 1 would change, 0 would not load, 1 would stay as they are" in said
    )
    assert [(each["pipeline"], each["after"]["version"], bool(each["changes"])) for each in reported["pipelines"]] == [
        ("orders", "2.0.0", True),
        ("refunds", "2.0.0", False),
    ]
    assert Path("pipelines/orders.yaml").read_text() == before
    assert floe("diff", "pipelines", "--template", "acme:landing@2", "--against", "floe.lock")[0] == 2


def test_what_git_would_run_is_not_run(floe: Floe, library: Repository, tmp_path: Path) -> None:
    """Neither hooks nor another protocol that a person's git is set up with take part in a fetch."""
    hooks, ran = tmp_path / "hooks", tmp_path / "ran"
    hooks.mkdir()
    (hooks / "reference-transaction").write_text(f"#!/bin/sh\ntouch {ran}\n")
    (hooks / "reference-transaction").chmod(0o755)
    (tmp_path / "gitconfig").write_text(
        f'[core]\n\thooksPath = {hooks}\n[protocol "ext"]\n\tallow = always\n'
        f'[url "ext::touch {ran} "]\n\tinsteadOf = https://git.example/\n'
    )

    assert floe("templates", "lock", "acme", library.url, "--tag", "v1.0.0")[0] == 0
    code, said = floe("templates", "lock", "other", "https://git.example/acme", "--tag", "v1.0.0")

    assert (code, "error[FLOE-E035]" in said, "not allowed" in said) == (3, True, True)
    assert not ran.exists()


def test_links_and_submodules_of_a_repository_are_passed_over(floe: Floe, library: Repository, tmp_path: Path) -> None:
    """Only plain files of a repository come into the cache, readable by this user alone."""
    (library.folder / "templates" / "passwords.yaml").symlink_to("/etc/passwd")
    library.git("-c", "protocol.file.allow=always", "submodule", "add", library.url, "templates/again")
    library.commit("v3.0.0")

    assert floe("templates", "lock", "acme", library.url, "--tag", "v3.0.0")[0] == 0

    assert [path.name for path in cached(tmp_path)] == ["landing.yaml", "routes.yaml"]
    assert {path.stat().st_mode & 0o777 for path in cached(tmp_path)} == {0o600}
    assert {Path(folder).stat().st_mode & 0o777 for folder, _, _ in os.walk(tmp_path / "cache")} == {0o700}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("acme", "ext::sh -c true", "--tag", "v1"), "it must begin with"),
        (("acme", "https://me:secret@git.example/a", "--tag", "v1"), "it holds a secret"),
        (("acme", "https://git.example/a", "--tag=--upload-pack=x"), "is not the name of a tag"),
        (("--upload-pack=x", "https://git.example/a"), "No such option"),
        (("acme", "https://git.example/a"), "a library has NAME, URL and --tag"),
    ],
)
def test_arguments_that_are_no_library_are_refused(floe: Floe, arguments: tuple[str, ...], said: str) -> None:
    """git is not asked for what is no name, no allowed address or no tag."""
    code, reported = floe("templates", "lock", *arguments)

    assert code == 2
    assert said in reported


def test_what_cannot_be_fetched_is_reported(floe: Floe, library: Repository) -> None:
    """A repository, a tag or a folder that does not exist is an error of the environment, and locks nothing."""
    for url, more in (
        (f"{library.url}-not", ()),
        (library.url, ("--folder", "nowhere")),
    ):
        code, said = floe("templates", "lock", "acme", url, "--tag", "v1.0.0", *more)
        assert (code, "error[FLOE-E035]" in said) == (3, True)
    assert floe("templates", "lock", "acme", library.url, "--tag", "v9")[0] == 3
    assert not Path("floe.lock").exists()
    assert floe("templates", "lock")[0] == 2
