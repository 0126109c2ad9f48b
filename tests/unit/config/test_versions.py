"""Files of older versions: brought up step by step, and nothing else in them changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.cli.main import run_main
from framework.config.text import SourceText
from framework.config.versions import CURRENT, Migration, Steps, migrate
from tests.unit.config.in_memory import PIPELINE

STEPS: Steps = {
    "floe/v0": ("floe/v0.5", lambda text: text.replace("topic:", "topics:")),
    "floe/v0.5": ("floe/v1", lambda text: text.replace("kafka_settings:", "kafka:")),
}
OLD = """\
# apiVersion: floe/v0 is old
apiVersion: "floe/v0"   # the form
kind: Pipeline
source: {kafka_settings: {topic: [a]}}  # stays
"""


def migrated(text: str, steps: Steps = STEPS) -> Migration:
    return migrate(SourceText("a.yaml", text), steps)


def test_steps_follow_each_other() -> None:
    """An old file goes through every version on the way; comments, quotes and layout stay."""
    made = migrated(OLD)
    assert made.version == "floe/v0"
    assert made.text == OLD.replace('"floe/v0"', '"floe/v1"').replace("topic:", "topics:").replace(
        "kafka_settings", "kafka"
    )


def test_the_current_version_stays_as_it_is() -> None:
    """A file of the current version is not touched, whatever else is wrong with it."""
    assert migrated(PIPELINE + "nonsense: 1\n") == Migration(CURRENT, PIPELINE + "nonsense: 1\n")


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("apiVersion: floe/v7", "FLOE-C219", "use a newer floe"),
        ("apiVersion: v1", "FLOE-C219", "write `floe/v1`"),
        ("apiVersion: 1", "FLOE-C219", "write `floe/v1`"),
        ("kind: Pipeline", "FLOE-C202", "add `apiVersion: floe/v1`"),
        ("apiVersion: [", "FLOE-C103", ""),
        ("- a", "FLOE-C203", ""),
    ],
)
def test_what_is_no_version_is_reported(line: str, code: str, said: str) -> None:
    """A newer version, an unknown one, none and no YAML are findings, and there is no text to write."""
    made = migrated(f"{line}\n")
    assert made.text is None
    assert made.findings[0].code == code
    assert said in (made.findings[0].remedy or "")


def test_files_on_disk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`floe migrate` says what is of the current version with 0, and names a file that it cannot bring up with 2."""
    (tmp_path / "a.yaml").write_text(PIPELINE)
    (tmp_path / "targets").mkdir()
    (tmp_path / "targets" / "dev.yaml").write_text("apiVersion: floe/v1\nkind: Target\n")
    assert run_main(["migrate", str(tmp_path), "--check"]) == 0
    assert capsys.readouterr().out == "2 files have the current version, floe/v1\n"

    (tmp_path / "b.yaml").write_text(PIPELINE.replace("floe/v1", "floe/v2"))
    assert run_main(["migrate", str(tmp_path)]) == 2
    assert "b.yaml:1:13: error[FLOE-C219]" in capsys.readouterr().out
    assert (tmp_path / "b.yaml").read_text() == PIPELINE.replace("floe/v1", "floe/v2")
