"""Changes the code of the protocol in small ways, one at a time, and asks whether a test notices: `python -m
tests.mutation_run`.

In: HEAD, a number of mutants and a seed. Out: build/mutation/report.md with every mutant that no test noticed, and the
line for docs/reliability.md. The mutants and the runs are mutmut's; here they are drawn, bounded in time and written
down. The working tree is not touched. Only tests that need no server run, so what is left of `framework/runtime` is
often covered by those that do.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import venv
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WORK = ROOT / "build" / "mutation"
PROJECT = WORK / "project"
STATISTICS = Path("mutmut-stats.json")
PACKAGES = ("framework/commit", "framework/runtime")

# The exhaustive exploration would take two minutes for each mutant: the random histories stand for it. The two files of
# mutations take out rules of their own, and one test needs the environment in which floe is installed.
CONFIGURATION = """
[mutmut]
source_paths =
    framework
only_mutate =
    framework/commit/*.py
    framework/runtime/*.py
also_copy =
    schemas
    docs
    pipelines
    benchmarks
    README.md
    setup.py
    Makefile
    .ci
pytest_add_cli_args_test_selection =
    tests/unit/commit
    tests/unit/runtime
    tests/protocol
    --ignore=tests/protocol/test_mutations.py
    --ignore=tests/protocol/test_mutations_beside.py
    --ignore=tests/protocol/test_exploration.py
    --deselect=tests/unit/deploy/test_package.py::test_a_node_knows_the_version_without_an_installed_floe
    -m
    not slow
pytest_add_cli_args =
    -p
    tests.mutation_run
    -p
    no:cacheprovider
    --hypothesis-seed=0
timeout_multiplier = 3
timeout_constant = 10
use_git_change_detection = false
"""
# Run by mutmut's Python: the names of all mutants of the files of some folders.
NAMES = """
import json, sys
from pathlib import Path
from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.utils.format_utils import get_mutant_name
files = [path for folder in sys.argv[1:] for path in sorted(Path(folder).glob("*.py"))]
made = {path: mutate_file_contents(str(path), path.read_text(encoding="utf-8")) for path in files}
print(json.dumps([get_mutant_name(path, name) for path, one in made.items() for name in one.mutant_names]))
"""


@dataclass(frozen=True)
class Outcome:
    """How one mutant fared: killed, survived, no tests, timeout, not run."""

    mutant: str
    status: str

    @property
    def package(self) -> str:
        return ".".join(self.mutant.split(".")[:2])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The fastest tests first, by what mutmut measured: most mutants die at once."""
    if STATISTICS.is_file():
        known = json.loads(STATISTICS.read_text(encoding="utf-8"))["duration_by_test"]
        items.sort(key=lambda item: known.get(item.nodeid, 0))


def draw(names: Iterable[str], number: int, seed: int, only: str = "*") -> list[str]:
    """So many of the mutants of each package, or all where there are fewer; the same for the same seed."""
    chance = random.Random(seed)
    found: list[str] = []
    for package in PACKAGES:
        begin = package.replace("/", ".") + "."
        mine = sorted(name for name in names if name.startswith(begin) and fnmatch(name, only))
        found += chance.sample(mine, min(number, len(mine)))
    return found


def status(exit_code: int | None) -> str:
    """mutmut's exit codes in words; whatever ends a test run badly has noticed the mutant."""
    if exit_code is None:
        return "not run"
    return {
        0: "survived",
        5: "no tests",
        33: "no tests",
        36: "timeout",
        152: "timeout",
        24: "timeout",
        -24: "timeout",
    }.get(exit_code, "killed")


def row(package: str, outcomes: Iterable[Outcome]) -> str:
    """One line of the table of docs/reliability.md."""
    counts = Counter(each.status for each in outcomes if each.package == package.replace("/", "."))
    drawn = sum(counts.values()) - counts["not run"]
    noticed = counts["killed"] + counts["timeout"]
    return f"| `{package}` | {drawn} | {noticed} | {counts['survived']} | {counts['no tests']} |"


def prepare() -> tuple[str, Path]:
    """A copy of HEAD to be mutated, and the Python that has mutmut beside what .venv has."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    head, mark = commit.stdout.strip(), PROJECT / ".commit"
    if not mark.is_file() or mark.read_text(encoding="utf-8") != head:
        shutil.rmtree(PROJECT, ignore_errors=True)
        PROJECT.mkdir(parents=True)
        archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True)
        subprocess.run(["tar", "x", "-C", PROJECT], input=archive.stdout, check=True)
        for compiled in (ROOT / "framework").rglob("*.so"):
            shutil.copy(compiled, PROJECT / compiled.relative_to(ROOT))
        with (PROJECT / "setup.cfg").open("a", encoding="utf-8") as settings:
            settings.write(CONFIGURATION)
        mark.write_text(head, encoding="utf-8")
    python = WORK / "environment" / "bin" / "python"
    if not python.is_file():
        venv.create(WORK / "environment", clear=True, with_pip=True)
        beside = Path(pytest.__file__).parents[1]
        (found,) = (WORK / "environment" / "lib").glob("python*/site-packages")
        (found / "beside.pth").write_text(f"{beside}\n", encoding="utf-8")
        install = [python, "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps"]
        subprocess.run([*install, "--requirement", ROOT / ".ci" / "mutation.lock"], check=True)
    return head, python


def run(python: Path, mutants: list[str], minutes: float, histories: int) -> None:
    """mutmut's own run of these mutants, with its own progress; stopped when the time is over."""
    command = [python.parent / "mutmut", "run", "--max-children", "1", *mutants]
    environment = {**os.environ, "FLOE_HISTORIES": str(histories)}
    process = subprocess.Popen(command, cwd=PROJECT, env=environment, start_new_session=True)
    try:
        process.wait(minutes * 60)
    except subprocess.TimeoutExpired:
        print(f"\nthe {minutes:.0f} minutes are over")
    finally:
        if process.poll() is None:  # what it has found so far is written already
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def outcomes(mutants: Iterable[str]) -> list[Outcome]:
    """What mutmut wrote down of each."""
    codes: dict[str, int | None] = {}
    for file in sorted((PROJECT / "mutants").rglob("*.py.meta")):
        codes |= json.loads(file.read_text(encoding="utf-8"))["exit_code_by_key"]
    return [Outcome(mutant, status(codes.get(mutant))) for mutant in mutants]


def report(head: str, found: list[Outcome], changes: Mapping[str, str], command: str) -> str:
    """Figures, then every mutant that no test noticed, with its change."""
    lines = [f"`{command}` on {head[:7]}", "", "| package | mutants | noticed | not noticed | run by no fast test |"]
    lines += ["|---|---|---|---|---|", *(row(package, found) for package in PACKAGES), ""]
    for mutant, change in changes.items():
        lines += [f"## {mutant}", "", "```diff", change.strip(), "```", ""]
    untested = Counter(each.mutant.rpartition("__mutmut_")[0] for each in found if each.status == "no tests")
    lines += ["## Run by no fast test", "", *(f"- {name}: {count}" for name, count in sorted(untested.items())), ""]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation_run", description=__doc__)
    parser.add_argument("--number", type=int, default=200, help="mutants of each package (200)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (1)")
    parser.add_argument("--minutes", type=float, default=40, help="no longer than this, quick ones first (40)")
    parser.add_argument(
        "--only", default="*", help="only mutants of this name, say 'framework.commit.machine.progress.chain.*'"
    )
    parser.add_argument("--histories", type=int, default=60, help="random histories for each mutant (60)")
    given = parser.parse_args(arguments)
    head, python = prepare()
    listing = subprocess.run([python, "-c", NAMES, *PACKAGES], cwd=PROJECT, capture_output=True, text=True, check=True)
    mutants = draw(json.loads(listing.stdout), given.number, given.seed, given.only)
    print(f"{len(mutants)} mutants of {head[:7]}, seed {given.seed}", flush=True)
    run(python, mutants, given.minutes, given.histories)
    found = outcomes(mutants)
    survivors = [each.mutant for each in found if each.status == "survived"]
    changes = {}
    for mutant in survivors:
        show = [python.parent / "mutmut", "show", mutant]
        changes[mutant] = subprocess.run(show, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    text = report(head, found, changes, " ".join(["python -m tests.mutation_run", *arguments]))
    (WORK / "report.md").write_text(text, encoding="utf-8")
    print("\n".join(text.splitlines()[:6]))
    print(f"{(WORK / 'report.md').relative_to(ROOT)}: {len(survivors)} mutants that no test noticed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
