"""The gallery of shapes: each file is right as it stands, tests itself, and is in the list."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from framework.cli.main import run_main

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(EXAMPLES.glob("*.yaml"))


def test_the_files_are_right_beside_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever takes several of them has files that may run together."""
    assert run_main(["validate", str(EXAMPLES)]) == 0, capsys.readouterr().out
    assert len(FILES) >= 25


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_shape_lands_as_it_says(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The records of the shape become the rows that the file expects, by the code of a run."""
    assert run_main(["test", str(file)]) == 0, capsys.readouterr().out
    assert "1 passed" in capsys.readouterr().out


def test_each_shape_is_in_the_list() -> None:
    """With the sentence that the file says of itself."""
    listed = (EXAMPLES / "README.md").read_text()
    for file in FILES:
        said = re.search(r'description: "(.*)"', file.read_text())
        assert said is not None
        assert f"| [{file.stem}]({file.name}) | {said[1]} |" in listed


# What `floe init` cannot know from records alone.
NOT_PROPOSED = {
    "array-records": "an element that fits no type is a dead letter on purpose",
    "debezium-log": "truncates say nothing of a row: what they mean is the file's to say",
    "raw-lines": "its values are not JSON",
}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_is_proposed_for_a_shape_lands_its_records(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`floe init --from-file` on a shape's own records writes a file under which none of them is a dead letter."""
    records = yaml.safe_load(file.read_text())["tests"][0]["input"]
    values = [record["value"] for record in records if record.get("value") is not None]
    sample = tmp_path / "records.jsonl"
    sample.write_text("".join(f"{value if isinstance(value, str) else json.dumps(value)}\n" for value in values))
    topics = sorted({record.get("topic", "t") for record in records})
    chosen = [word for topic in topics for word in ("--topic", topic)]
    init = ["init", "shape", *chosen, "--table", "a.b", "--from-file", str(sample), "--folder", str(tmp_path)]
    assert run_main(init) == 0, capsys.readouterr().out
    proposed = tmp_path / "shape.yaml"
    written = yaml.safe_load(proposed.read_text())
    written["tests"] = [{"name": "all land", "input": records, "expect": {"dead_letters": []}}]
    proposed.write_text(yaml.safe_dump(written))
    lands = run_main(["test", str(proposed)]) == 0
    assert lands is (file.stem not in NOT_PROPOSED), capsys.readouterr().out
