"""What a shell completes, and how help and tables are laid out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from framework.cli import main
from framework.cli.shared.status_text import pipelines_table
from framework.cli.verbs import GROUPS, VERBS
from framework.commit.events.event_types import Health
from tests.unit.cli.test_main import HEAVY
from tests.unit.config.in_memory import PIPELINE, TARGET


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a target, a pipeline, one that cannot be loaded, and one with a variable that is not set here."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "targets").mkdir()
    (tmp_path / "targets" / "prod.yaml").write_text(TARGET, encoding="utf-8")
    (tmp_path / "a.yaml").write_text(PIPELINE, encoding="utf-8")
    (tmp_path / "wrong.yaml").write_text("apiVersion: floe/v1\nkind: [", encoding="utf-8")
    unset = PIPELINE.replace("name: orders", "name: refunds").replace("[orders]", '["${env:FLOE_EXAMPLE_UNSET}"]')
    (tmp_path / "b.yaml").write_text(unset, encoding="utf-8")
    return tmp_path


def completed(words: str) -> tuple[list[str], str]:
    """What the shell is offered for the last word, and which engines were loaded for it."""
    program = (
        "import atexit, sys; from framework.cli.main import run_main;"
        f"atexit.register(lambda: print([n for n in {HEAVY!r} if n in sys.modules], file=sys.stderr));"
        "run_main([])"
    )
    env = {
        "PYTHONPATH": str(Path(main.__file__).parents[2]),
        "PATH": os.environ["PATH"],
        "_FLOE_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=env)
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line], done.stderr.strip()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("floe explain FLOE-R319", ["FLOE-R319"]),
        ("floe explain r319", ["R319"]),
        ("floe run a.yaml --target pr", ["prod"]),
        ("floe status -t pr", ["prod"]),
        ("floe pause --reading re", ["refunds"]),
        ("floe stop or", ["orders", "or"]),
        ("floe maintain shop.o", ["shop.orders"]),
        ("floe rollback --table shop.d", ["shop.dead_letters"]),
        ("floe reb", ["rebase"]),
    ],
)
def test_names_are_completed_from_files_alone(folder: Path, words: str, offered: list[str]) -> None:
    """Codes, targets, pipelines, tables and verbs are offered without an engine, whatever other files hold."""
    assert completed(words) == (offered, "[]")


def test_nothing_is_offered_where_there_is_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder offers no names, and says nothing of it."""
    monkeypatch.chdir(tmp_path)

    assert completed("floe maintain ") == ([], "[]")


def test_help_is_grouped_by_task() -> None:
    """`floe --help` shows each verb once, under what a person is about, in lines of at most 100 columns."""
    shown = CliRunner().invoke(main.floe, ["--help"], terminal_width=100).output
    titles = [line[:-1] for line in shown.splitlines() if line.endswith(":") and not line.startswith(" ")]
    verbs = [line.split()[0] for line in shown.splitlines() if line[:2] == "  " and line[2:3].islower()]

    assert titles == ["Options", *GROUPS] == ["Options", "Write", "Check", "Run", "Watch", "Repair"]
    assert [verb for verb in verbs if verb in VERBS] == list(VERBS)
    assert sum(map(len, GROUPS.values())) == len(VERBS)
    assert max(map(len, shown.splitlines())) <= 100


def line_of(name: str, number: int) -> SimpleNamespace:
    counts = ("offsets", "written", "filtered", "dead_lettered", "dropped", "holes", "lost")
    totals = SimpleNamespace(**dict.fromkeys(counts, number))
    word = SimpleNamespace(timestamp_ms=0)
    figures = {
        "batch": 1,
        "lag": 1,
        "totals": totals,
        "freshness_ms": 65_000,
        "word": word,
        "waits_since_ms": 0,
        "lag_trend": "",
    }
    return SimpleNamespace(pipeline=name, state=Health.DEGRADED, **figures)


@pytest.mark.parametrize(("name", "number", "fits"), [("orders", 123_456, True), ("o" * 60, 123_456_789, False)])
def test_tables_fit_and_cut_nothing(name: str, number: int, fits: bool) -> None:
    """A table fits 100 columns where its words do; a long name or number makes it wider and is never cut."""
    lines = pipelines_table((line_of(name, number),), 65_000)  # type: ignore[arg-type]

    shown = "\n".join(lines)
    assert (max(map(len, lines)) <= 100) is fits
    assert name in shown
    assert shown.count(f"{number:,}") == 7
