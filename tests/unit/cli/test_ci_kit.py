"""What users copy into their own repositories is what its readers accept, and names commands that there are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft7Validator

from framework.cli.main import VERBS, run_main

ROOT = Path(__file__).parents[3]
CASES = sorted((ROOT / "tests" / "acceptance" / "cases").glob("*/*/pipeline.yaml"))


@pytest.mark.parametrize(
    ("schema", "example"),
    [("vendor.github-workflows", "github-actions.yml"), ("vendor.gitlab-ci", "gitlab-ci.yml")],
)
def test_ci_examples_are_right(schema: str, example: str) -> None:
    """Each example is accepted by the published schema of the service that it is for."""
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        schema,
        str(ROOT / "docs" / "ci" / example),
    ]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_hooks_name_verbs_that_there_are() -> None:
    """Each hook that the example configuration asks for is declared, and runs a verb of this version."""
    declared = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    asked = yaml.safe_load((ROOT / "docs" / "ci" / "pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert {hook["id"] for hook in asked} == set(declared)
    for hook in declared.values():
        program, verb, *_ = hook["entry"].split()
        assert program == "floe"
        assert verb in VERBS


def test_json_findings_keep_to_their_schema(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `floe validate --format json` prints of every kept wrong file is what the published schema promises."""
    schema = json.loads((ROOT / "schemas" / "diagnostics.v1.schema.json").read_text())
    Draft7Validator.check_schema(schema)
    validator = Draft7Validator(schema)
    monkeypatch.chdir(ROOT / "tests" / "acceptance" / "cases")
    run_main(["validate", "--format", "json", *(str(path) for path in CASES)])
    document = json.loads(capsys.readouterr().out)

    assert len(document["diagnostics"]) > 150
    assert [error.message for error in validator.iter_errors(document)] == []
