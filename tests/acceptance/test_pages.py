"""What the pages tell people to type is right, and is run by a test, or stands on a short list with the reason."""

from __future__ import annotations

import ast
import importlib.util
import re
import shutil
from functools import cache
from pathlib import Path

import pytest

from framework.cli.main import run_main
from tests.acceptance.pages import PAGES, ROOT, Command, commands, wrong

ALL = [command for page in PAGES for command in commands(page)]
IN_BLOCKS = [command for command in ALL if command.kind != "inline"]
# Pages whose `bash` blocks tests/acceptance/test_tutorials.py and test_first_minutes.py run, in order and as they stand.
RUN_AS_A_WHOLE = {
    "index.md",
    "one-table.md",
    "many-tables.md",
    "edit-test-review.md",
    "change-streams.md",
    "production.md",
}
# Verbs that need no server: their commands are run here, in a new project with the files that the pages speak of.
OFFLINE = {"validate", "test", "render", "explain", "schema", "graph", "docs", "completion", "migrate", "init"}
# What no test runs -> why not.
NOT_RUN = {
    "floe demo --by dest": "the tutorial of many tables runs `floe demo`, and the same pipeline with `--var by=dest`",
    "floe deploy pipelines/ -t prod [--plan plan.json]": "tests/kafka/test_plan.py runs `floe run --plan`: one check for both",
    "floe submit pipelines/pizzas.yaml --target standalone --until-caught-up": (
        "tests/spark/test_submit_command.py submits other files to such a cluster"
    ),
    "floe import-connector sink.json -o pipelines/events.yaml --fields fields.yaml --sample 20 --target lake"
    " --mask customer.email": "tests/kafka/test_sample.py runs both options on a broker, tests/acceptance/cases on files",
    "make demo": "downloads the broker; its steps are tests/spark/test_flights.py and the tutorial of many tables",
    "make setup": "makes the environment that the tests run in",
    "make test": "runs the tests",
    "make versions": "an hour, with Pythons and Javas of other versions",
    "make chaos": "runs the tests that kill processes, in full",
    "make fuzz": "hours; tests/fuzz runs it with fewer documents",
    "make sbom": "fetches a tool that lists packages",
    "make bench": "hours; CI runs `make bench SHORT=1`",
}
# A module that `python -m` runs in the pages, and is not run by a test as the page has it -> why not.
MODULES_NOT_RUN = {
    "floe demo --by dest": "the tutorial of many tables runs `floe demo`, and the same pipeline with `--var by=dest`",
    "floe deploy pipelines/ -t prod [--plan plan.json]": "tests/kafka/test_plan.py runs `floe run --plan`: one check for both",
    "pytest": "runs the tests",
    "tests.compatibility": "writes a page from result files; tests/unit/test_compatibility.py reads it with such files",
    "tests.mutation_run": "most of an hour",
    "tests.shares": "writes a page from result files; tests/unit/test_shares.py",
    "tests.known_settings": "asks installed packages for their lists; after a new version only",
    "benchmarks": "measures: nothing else may run at the same time; CI runs each small, by `make bench SHORT=1`",
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_floe_understands_every_command(page: Path) -> None:
    """Every verb and option of floe's that a page names, in a block or in a sentence, is one of this version; a command
    in a block that is written out is taken by the parser of the command line."""
    assert [
        f"{one.place}: {one.text}: {reported}" for one in commands(page) if one.is_floe and (reported := wrong(one))
    ] == []


def test_the_check_sees_what_is_wrong() -> None:
    """A verb, an option or an argument that there is not is found."""
    page = ROOT / "README.md"
    assert wrong(Command(page, 1, "bash", "floe valdate pipelines")) == "there is no command `valdate`"
    assert wrong(Command(page, 1, "inline", "floe dlq show --rwa")) == "`floe show` has no option --rwa"
    assert "Missing argument" in wrong(Command(page, 1, "bash", "floe validate"))
    assert "is not one of" in wrong(Command(page, 1, "bash", "floe validate p --format xlm"))
    assert wrong(Command(page, 1, "bash", "floe validate p --format junit > x.xml")) == ""
    assert len([one for one in ALL if one.is_floe]) > 300


def offline_commands() -> list[Command]:
    found = {}
    for one in IN_BLOCKS:
        if one.is_floe and one.words[0] in OFFLINE and not run_with_its_page(one):
            found.setdefault(" ".join(one.words), one)
    return [one for one in found.values() if "--record-topic" not in one.words]


def run_with_its_page(command: Command) -> bool:
    return command.kind in ("bash", "console") and command.page.name in RUN_AS_A_WHOLE


@pytest.mark.parametrize("command", offline_commands(), ids=lambda one: f"{one.place} {one.text}")
def test_what_needs_no_server_is_run(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a new project with the files that the pages speak of, each such command ends with 0."""
    monkeypatch.setenv("FLOE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert run_main(["init", "--project", "."]) == 0
    # The imported pipeline and its target, as docs/tutorials/from-kafka-connect.md names them.
    shutil.copy("pipelines/orders.yaml", "pipelines/events.yaml")
    Path("pipelines/events.yaml").write_text(
        Path("pipelines/orders.yaml").read_text().replace("name: orders ", "name: events ")
    )
    shutil.copy("pipelines/targets/prod.yaml", "pipelines/targets/lake.yaml")
    Path("orders.jsonl").write_text('{"id": 7, "total": 12.5, "ordered_at": "2024-01-04T12:28:13Z"}\n')
    for pipeline in ("pizzas", "flights"):
        shutil.copy(ROOT / "pipelines" / f"{pipeline}.yaml", "pipelines")
    assert run_main(command.words) == 0, capsys.readouterr()


@cache
def words_of_tests() -> list[frozenset[str]]:
    """The words of each test file that starts servers or git, and of each tutorial that is run as a whole: string constants,
    split as a command line is."""
    tutorials = [one.words for one in IN_BLOCKS if run_with_its_page(one)]
    found = [frozenset(word.partition("=")[0] for word in words) for words in tutorials]
    found += [frozenset(path.read_text().split()) for path in (ROOT / "tests" / "acceptance" / "cases").glob("*/*/cmd")]
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if {"kafka", "iceberg", "spark", "registry", "recovery", "chaos", "cli"} & {*path.relative_to(ROOT).parts}:
            constants = [
                node.value
                for node in ast.walk(ast.parse(text))
                if isinstance(node, ast.Constant) and isinstance(node.value, str)
            ]
            found.append(frozenset(word.partition("=")[0] for constant in constants for word in constant.split()))
    return found


def on_servers() -> list[Command]:
    return [
        one
        for one in IN_BLOCKS
        if one.is_floe
        and one.words
        and (one.words[0] not in OFFLINE or "--record-topic" in one.words)
        and not run_with_its_page(one)
        and one.text.split("  ")[0].strip() not in NOT_RUN
    ]


def test_what_needs_servers_is_run_on_servers() -> None:
    """For each such command a test that starts real servers gives that verb and those options."""
    same = {"-t": "--target", "-o": "--output"}
    missing = []
    for one in on_servers():
        words = [word.strip("[]") for word in one.words]
        verbs = words[:2] if words[0] in {"dlq", "offsets", "local", "templates"} else words[:1]
        options = {same.get(word, word).partition("=")[0] for word in words if word.startswith("-")}
        options -= {"--target", "--output"}  # every verb loads its target in one way
        if not any({*verbs, *options} <= known for known in words_of_tests()):
            missing.append(f"{one.place}: {one.text}")
    assert missing == []


def test_other_programs_are_there() -> None:
    """Each target of make exists, each module that Python runs too; and one that no test runs is listed with a reason."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    run_by_tests = {"wheel", "release", "lint"}
    for one in IN_BLOCKS:
        if one.text.startswith("make "):
            target = one.words[0]
            assert target in targets, one.place
            assert f"make {target}" in NOT_RUN or target in run_by_tests, one.place
        elif one.text.startswith("python") and one.words[:1] == ["-m"]:
            module = one.words[1]
            assert importlib.util.find_spec(module) is not None, one.place
            assert module in MODULES_NOT_RUN or module.split(".")[0] in MODULES_NOT_RUN, one.place


def test_the_list_of_what_is_not_run_is_short_and_needed() -> None:
    """Each line of the list is for a command of a page."""
    reported = {one.text.split("  ")[0].strip() for one in ALL}
    assert [line for line in NOT_RUN if not any(text == line or text.startswith(f"{line} ") for text in reported)] == []
    assert len(NOT_RUN) + len(MODULES_NOT_RUN) <= 20
