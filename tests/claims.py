"""The claims of docs/compatibility.md that are written by hand, each held against the result of the run it rests on.

In: the tables of the page whose last column is a command of pytest, and `tests/claim_results.json`. Out: what does not agree;
or, with `run`, the results made anew. A claim with a command has a result, all of it passed, and shows the commit of that run;
whatever else the page says in such a table names no commit.

    python -m tests.claims run [WORD ...]    the commands in which all words stand; none: all of them
    python -m tests.claims check             what does not agree; exit code 1 if anything does not
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

from tests import reports
from tests.reports import ROOT

DOCUMENT = ROOT / "docs" / "compatibility.md"
RESULTS = ROOT / "tests" / "claim_results.json"
_ROW = re.compile(r"\|(?P<what>.*)\|(?P<result>.*)\|(?P<commit>[^|]*)\|(?P<command>[^|]*)\|\Z")


@dataclass(frozen=True)
class Claim:
    """One row. `command`: what stands behind pytest's name, perhaps with variables before it; "" where nothing was run."""

    line: int
    result: str
    commit: str
    command: str


@dataclass(frozen=True)
class ClaimResult:
    """How the command of a claim ended when it last ran."""

    commit: str
    date: str
    passed: int
    skipped: int
    failed: int
    seconds: int
    platform: Mapping[str, str]


def claims(document: str) -> Iterator[Claim]:
    """The rows of tables whose last column is a command."""
    is_inside = False
    for number, line in enumerate(document.splitlines()):
        row = _ROW.match(line)
        if row is None:
            is_inside = False
        elif row["command"].strip().startswith("command"):
            is_inside = True
        elif is_inside and not set(line) <= set("|- "):
            cells = {name: row[name].strip() for name in ("result", "commit", "command")}
            yield Claim(number, cells["result"], cells["commit"].strip("`"), cells["command"].strip("`"))


def problems(document: str, results: Mapping[str, ClaimResult]) -> list[str]:
    """What the page says and no result does."""
    found = []
    commands = set()
    for claim in claims(document):
        place = f"docs/compatibility.md:{claim.line + 1}"
        if not claim.command.startswith(("tests/", "FLOE_")):
            if claim.commit and claim.command != "by hand":
                found.append(f"{place} shows a commit and no command")
            if not claim.commit and "not run" not in claim.result and "passed on" not in claim.result:
                found.append(f"{place} claims something that was not run")
            continue
        commands.add(claim.command)
        result = results.get(claim.command)
        if result is None:
            found.append(f"{place} has no result: python -m tests.claims run {shlex.quote(claim.command)}")
        elif result.failed or not result.passed:
            found.append(f"{place} did not pass at {result.commit}: {claim.command}")
        elif result.commit != claim.commit:
            found.append(f"{place} shows {claim.commit}, and its result is of {result.commit}")
    return found + [f"no row of docs/compatibility.md has the command {each}" for each in results.keys() - commands]


def kept_results() -> dict[str, ClaimResult]:
    return {command: ClaimResult(**each) for command, each in json.loads(RESULTS.read_text(encoding="utf-8")).items()}


def run(command: str) -> ClaimResult:
    """Of this checkout, whose commit is what was tested."""
    words = shlex.split(command)
    variables = [word for word in words if re.match(r"FLOE_[A-Z_]+=", word)]
    commit = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    with tempfile.TemporaryDirectory() as folder:
        junit = Path(folder) / "results.xml"
        rest = [*words[len(variables) :], "--junit-xml", str(junit)]
        env = {**os.environ, **dict(each.split("=", 1) for each in variables)}
        ended = subprocess.run([sys.executable, "-m", "pytest", "-m", "", "-q", *rest], env=env, cwd=ROOT, check=False)
        if ended.returncode not in (0, 1):  # of a run that was cut off, pytest writes tests that passed in no time
            raise SystemExit(f"claims: no result of {command}: pytest ended with {ended.returncode}")
        found = reports.read_runs([junit])[0]
    counts = Counter(found.outcomes.values())
    return ClaimResult(
        commit.stdout.strip(),
        datetime.now(timezone.utc).date().isoformat(),
        counts["passed"],
        counts["skipped"],
        counts["failed"],
        round(sum(found.seconds.values())),
        {name: found.platform[name] for name in ("python", "java", "spark") if name in found.platform},
    )


def main(arguments: Sequence[str]) -> int:
    document = DOCUMENT.read_text(encoding="utf-8")
    if arguments[:1] == ["check"]:
        found = problems(document, kept_results())
        print("\n".join(found), file=sys.stderr)
        return 1 if found else 0
    if arguments[:1] != ["run"]:
        raise SystemExit(__doc__)
    wanted = dict.fromkeys(claim.command for claim in claims(document) if claim.command.startswith(("tests/", "FLOE_")))
    for command in (each for each in wanted if all(word in each for word in arguments[1:])):
        print(f"claims: {command}", flush=True)
        result = run(command)
        print(f"claims: {result}", flush=True)
        RESULTS.write_text(_text(kept_results() | {command: result}), encoding="utf-8")
        DOCUMENT.write_text(_shown(DOCUMENT.read_text(encoding="utf-8"), command, result.commit), encoding="utf-8")
    return 0


def _text(results: Mapping[str, ClaimResult]) -> str:
    return json.dumps({name: asdict(each) for name, each in sorted(results.items())}, indent=1) + "\n"


def _shown(document: str, command: str, commit: str) -> str:
    """The page with the commit of a command's newest run."""
    lines = document.splitlines()
    for claim in claims(document):
        if claim.command == command:
            lines[claim.line] = re.sub(r"\|[^|]*\|([^|]*)\|\Z", rf"| `{commit}` |\1|", lines[claim.line])
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
