"""Files as commands load them: from this machine, as this process sees it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from framework.adapters.project.files import load_or_raise, read_text, real_world
from framework.errors import ConfigError, SetupError
from tests.unit.config.in_memory import PIPELINE, TARGET, over


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one right pipeline, and no local stack."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLOE_HOME", str(tmp_path / "home"))
    (tmp_path / "a.yaml").write_text(PIPELINE, encoding="utf-8")
    return tmp_path


def test_a_stack_that_is_down_is_no_mistake_of_the_file(folder: Path) -> None:
    """A right file under the target `local` without its stack is an error of the environment, with the command to mend
    it."""
    with pytest.raises(SetupError) as raised:
        load_or_raise(["a.yaml"], None)

    assert raised.value.exit_code == 3
    assert "floe local up" in raised.value.remedy


def test_the_local_stack_s_state_fills_the_target(folder: Path) -> None:
    """What `floe local up` wrote is what `${local:...}` reads."""
    state = {"bootstrap_servers": "127.0.0.1:9392", "catalog_uri": "sqlite:///c.db", "warehouse": "file:///w", "pid": 5}
    (folder / "home" / "local").mkdir(parents=True)
    (folder / "home" / "local" / "state.json").write_text(json.dumps(state), encoding="utf-8")

    (pipeline,) = load_or_raise(["a.yaml"], None)

    assert pipeline.target.kafka["main"]["bootstrap.servers"] == "127.0.0.1:9392"


def test_wrong_files_are_reported_whole(folder: Path) -> None:
    """A command that needs right files is told every finding of every file."""
    (folder / "targets").mkdir()
    (folder / "targets" / "local.yaml").write_text(TARGET, encoding="utf-8")
    (folder / "a.yaml").write_text(over(PIPELINE, "trigger: {every: 5}"), encoding="utf-8")
    (folder / "b.yaml").write_text(over(PIPELINE, "errors: {polcy: drop}"), encoding="utf-8")

    with pytest.raises(ConfigError) as raised:
        load_or_raise(["a.yaml", "b.yaml"], None)

    assert {finding.code for finding in raised.value.diagnostics} == {"FLOE-C205", "FLOE-C201"}
    assert "2 files" in raised.value.message


def test_a_file_is_read_as_people_save_it(folder: Path) -> None:
    """A byte order mark and line ends of other systems do not matter; a file beyond all bounds is refused."""
    (folder / "bom.yaml").write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")
    (folder / "large.yaml").write_bytes(b"#" * (5 * 1024 * 1024))

    assert read_text(folder / "bom.yaml") == "a: 1\nb: 2\n"
    with pytest.raises(OSError, match="larger than 4 MiB"):
        read_text(folder / "large.yaml")
    assert real_world().offline is False
