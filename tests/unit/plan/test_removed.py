"""Deployed pipelines that no file holds any longer."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from framework.adapters.project.files import real_world
from framework.cli.main import run_main
from framework.config.load import load_pipelines
from framework.deploy.applications import RECORD, Applications, Record
from framework.deploy.removed import removed_here
from framework.plan.deploy.removed import RemovedPipeline, needs_consent, removed_pipelines
from tests.unit.config.in_memory import PIPELINE, TARGET


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder `shop` with two pipelines that were planned, of which one file is deleted then."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "targets").mkdir()
    (tmp_path / "targets" / "local.yaml").write_text(TARGET, encoding="utf-8")
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "a.yaml").write_text(PIPELINE, encoding="utf-8")
    gone = PIPELINE.replace("name: orders", "name: refunds").replace("[orders]", "[refunds]")
    (tmp_path / "shop" / "b.yaml").write_text(gone.replace("shop.orders", "shop.refunds"), encoding="utf-8")
    assert run_main(["plan", "shop", "--offline", "--out", "before.json"]) == 0
    (tmp_path / "shop" / "b.yaml").unlink()
    return tmp_path


def test_what_is_deployed_and_not_held_is_removed() -> None:
    """Each deployed pipeline that no file holds is named once, in order; what is held is not."""
    deployed = {"b": ("sha256:1", "shop"), "a": ("", ""), "c": ("sha256:2", "shop")}

    removed = removed_pipelines(deployed, {"c", "d"})

    assert removed == (RemovedPipeline("a", "", ""), RemovedPipeline("b", "sha256:1", "shop"))
    assert needs_consent(removed, ())
    assert not needs_consent(removed, {"FLOE-P108"})
    assert not needs_consent((), ())


@pytest.mark.parametrize("verb", ["plan", "diff"])
def test_a_deleted_file_is_seen(verb: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pipeline of the saved plan whose file is gone is named by `plan` and `diff`, for people and programs."""
    capsys.readouterr()
    code = run_main([verb, "shop", "--against", "before.json", *(["--exit-code"] if verb == "diff" else [])])
    said = capsys.readouterr().out
    run_main([verb, "shop", "--against", "before.json", "--json"])
    document = json.loads(capsys.readouterr().out)

    assert code == (2 if verb == "plan" else 1)
    assert "pipeline refunds" in said
    assert "--allow FLOE-P108" in said
    assert [each["pipeline"] for each in document["removed"]] == ["refunds"]


def test_a_removal_can_be_allowed(folder: Path) -> None:
    """`--allow FLOE-P108` consents to it, as for every danger."""
    assert run_main(["plan", "shop", "--against", "before.json", "--allow", "FLOE-P108"]) == 0


def test_a_named_file_removes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who names one file says nothing of the others."""
    assert run_main(["plan", "shop/a.yaml", "--against", "before.json"]) == 0
    assert "removed" not in capsys.readouterr().out


def test_what_this_machine_deployed_is_known_offline(folder: Path) -> None:
    """A deployment of the folder's name on this machine is compared with the files without asking a broker."""
    pipelines = [
        found.pipeline for found in load_pipelines([Path("shop/a.yaml")], None, real_world()) if found.pipeline
    ]
    target = pipelines[0].target
    applications = Applications(Path(target.state_dir), target.name)
    for name, deployment in (("orders", "shop"), ("refunds", "shop"), ("else", "other")):
        home = applications.root / name
        home.mkdir(parents=True)
        record = Record(name, deployment, target.name, (name,), f"sha256:{name}", "f", str(home), ("c",), 1, 0)
        (home / RECORD).write_text(json.dumps(asdict(record)), encoding="utf-8")

    removed = removed_here([Path("shop")], pipelines)

    assert removed == (RemovedPipeline("refunds", "sha256:refunds", "shop"),)
    assert removed_here([], pipelines) == ()
