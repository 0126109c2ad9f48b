"""The tutorials, step by step: every `bash` block is run as it stands, in order, in one shell, on the embedded stack."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from framework.local import stack

ROOT = Path(__file__).parent.parent.parent
TUTORIALS = ROOT / "docs" / "tutorials"
BLOCK = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")


def steps(tutorial: str) -> list[str]:
    return BLOCK.findall((TUTORIALS / tutorial).read_text(encoding="utf-8"))


def run_tutorial(tutorial: str, state_dir: Path, scratch: Path, patience_s: float) -> str:
    """Runs a tutorial's steps in a folder with the project's files; returns what it printed, or fails with it."""
    for name in ("pipelines", "schemas"):
        (scratch / name).symlink_to(ROOT / name)
    script = "set -euo pipefail\n" + "\n".join(steps(tutorial))
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "FLOE_HOME": str(state_dir),
        "PYSPARK_PYTHON": sys.executable,
    }
    stack.up(state_dir, kafka_port=0)  # a free port, which the tutorial's own `floe local up` then finds running
    said = scratch / "said"
    with said.open("w") as output:
        shell = subprocess.Popen(
            ["bash", "-c", script],
            cwd=scratch,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        code = shell.wait(timeout=patience_s)
    finally:
        with suppress(ProcessLookupError):  # a step that failed may have left others in the background
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
        stack.down(state_dir, wipe=True)
    text = said.read_text()
    assert code == 0, text[-6000:]
    return text


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_one_table(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Every step of the first tutorial works as it is written, and shows what its text says."""
    said = run_tutorial("one-table.md", tmp_path_factory.mktemp("state"), tmp_path_factory.mktemp("work"), 570)
    assert "250 orders" in said
    assert len(re.findall(r"^\d+ \d+ orders, \d+ in all$", said, re.MULTILINE)) > 3, said[-6000:]
    assert "as it was at first: 250 orders" in said
    assert " 1 dead letters " in said
    assert "two pizzas please" in said


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_many_tables(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Every step of the second tutorial works as it is written; the three ways to cut the flights hold them all."""
    said = run_tutorial("many-tables.md", tmp_path_factory.mktemp("state"), tmp_path_factory.mktemp("work"), 1170)
    assert "336,776 of 336,776 flights in 16 tables, 26,115 of 26,115 hours of weather in another" in said
    reported = re.search(
        r"([0-9,]+) files in ([0-9,]+) partitions; all 58,665 rows of \S+carrier_ua, in [0-9]+ files, are", said
    )
    assert reported is not None
    # A day of the topic lies in one of its partitions, so a day of a table has few files.
    assert int(reported[1].replace(",", "")) < 1.3 * int(reported[2].replace(",", ""))
    for expected in ("carrier: 16 tables", "origin: 3 tables", "dest: 105 tables"):
        assert f"flights_by_{expected}, 336,776 flights" in said


def test_edit_test_review(tmp_path: Path) -> None:
    """Every step from an empty folder to a reviewed change works as it is written, with neither broker nor catalog nor Spark."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    script = "set -euo pipefail\n" + "\n".join(steps("edit-test-review.md"))
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**environment, "FLOE_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-6000:]
    assert "1 of them is not a JSON object and would be a dead letter" in said
    assert "did you mean `equals`?" in said
    assert "did you mean `table`?" in said
    assert "did you mean `3s`?" in said
    assert "found 3 errors in 1 of 2 files" in said
    assert "masked: customer.email" in said
    assert "ada@" not in (tmp_path / "shop" / "pipelines" / "orders.yaml").read_text(encoding="utf-8")
    assert "1 test in 1 file: 0 passed, 1 failed" in said
    assert (
        "~ tables.defaults.commit.interval: 3m -> 40m" in said or "! tables.defaults.commit.interval: 3m -> 40m" in said
    )
    assert "needs --allow FLOE-P103" in said
    assert [said.count(f"exit code {code}") for code in (1, 2)] == [1, 2]
    assert "<svg" in (tmp_path / "shop" / "pipelines.svg").read_text(encoding="utf-8")


def test_change_streams(tmp_path: Path) -> None:
    """The file of the tutorial is right, and its own tests, with the changes that the text tells of, pass."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", "set -euo pipefail\n" + "\n".join(steps("change-streams.md"))],
        cwd=tmp_path,
        env={**environment, "FLOE_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-6000:]
    assert "1 file checked, nothing to report" in said
    assert "2 tests in 1 file: 2 passed" in said
    assert "upserted by id, the later record is newer" in said


@pytest.mark.parametrize(
    "document",
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(TUTORIALS.glob("*.md"))],
    ids=lambda path: path.name,
)
def test_links_lead_somewhere(document: Path) -> None:
    """Every relative link of a document names a file or folder of the project."""
    links = LINK.findall(document.read_text(encoding="utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_the_readme_names_the_commands_that_there_are() -> None:
    """Each `make` target and each `floe` verb that the README mentions exists, and its table has every verb."""
    from framework.cli.main import VERBS

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)`|^make ([a-z-]+)$", text, re.MULTILINE)) <= {(t, "") for t in targets} | {
        ("", t) for t in targets
    }
    assert set(re.findall(r"floe ([a-z]+)(?: |`|$)", text)) - {"local", "turns", "is", "can"} <= set(VERBS)
    table = text.partition("\n## Commands\n")[2].partition("\n## ")[0]
    assert [verb for verb in VERBS if not re.search(rf"`[^`]*\b{verb}\b[^`]*`", table)] == []
