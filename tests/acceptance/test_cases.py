"""One folder per case: files, `cmd` (what follows `floe`), and `output.txt`, what it prints and its exit code.

`pytest tests/acceptance --update` writes `output.txt` anew; the difference is reviewed like code, since it is what people
read. `cmd` may hold several lines; each is run in turn.
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from framework.cli.main import run_main

CASES = sorted(path.parent for path in (Path(__file__).parent / "cases").glob("*/cmd"))


def printed(case: Path, capsys: pytest.CaptureFixture[str]) -> str:
    parts = []
    for line in (case / "cmd").read_text(encoding="utf-8").splitlines():
        code = run_main(shlex.split(line))
        captured = capsys.readouterr()
        parts.append(f"$ floe {line}\n{captured.out}{captured.err}exit code: {code}\n")
    return "\n".join(parts)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(
    case: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    """What floe prints is what was reviewed, to the letter."""
    folder = tmp_path / "case"
    shutil.copytree(case, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("FLOE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FLOE_CASE", "orders")
    golden = case / "output.txt"
    output = printed(case, capsys)
    assert str(tmp_path) not in output, "an output must not hold a path of this machine"
    if request.config.getoption("--update"):
        golden.write_text(output, encoding="utf-8")

    assert output == golden.read_text(encoding="utf-8")


def test_there_are_many_wrong_files() -> None:
    """At least 150 wrong files are kept with what is said about them."""
    wrong = [case for case in CASES if "exit code: 2" in (case / "output.txt").read_text(encoding="utf-8")]

    assert len(wrong) >= 150


# Every class of mistake that people make in these files, and cases that show what they are told: a case and its code.
CLASSES = {
    "indentation": {
        "yaml-indent-too-much": "C103",
        "yaml-indent-too-little": "C103",
        "yaml-indent-one-level-too-deep": "C201",
        "yaml-tab": "C104",
    },
    "unknown key at every level": {
        "key-unknown-top": "C201",
        "key-unknown-metadata": "C201",
        "key-unknown-source": "C201",
        "key-unknown-kafka": "C201",
        "key-unknown-format": "C201",
        "key-unknown-schema-field": "C201",
        "key-unknown-transform": "C201",
        "key-unknown-routes": "C201",
        "key-unknown-rule": "C201",
        "key-unknown-when": "C201",
        "key-unknown-tables": "C201",
        "key-unknown-defaults": "C201",
        "key-unknown-create": "C201",
        "key-unknown-evolve": "C201",
        "key-unknown-commit": "C201",
        "key-unknown-override": "C201",
        "key-unknown-errors": "C201",
        "errors-stage-unknown": "C201",
        "key-unknown-commit-top": "C201",
        "key-unknown-trigger": "C201",
        "key-unknown-variable": "C201",
        "key-unknown-test": "C201",
        "key-unknown-test-input": "C201",
        "key-unknown-test-expect": "C201",
        "target-unknown-key": "C201",
        "shared-mistake-in-template": "C201",
    },
    "wrong type": {
        "type-topics-text": "C203",
        "type-rules-mapping": "C203",
        "type-when-text": "C203",
        "type-format-null": "C203",
    },
    "wrong unit": {
        "unit-interval-number": "C205",
        "unit-interval-words": "C205",
        "unit-size-mb-lower": "C206",
        "word-unit": "C204",
    },
    "bad regular expression": {
        "regex-topic-pattern": "C207",
        "regex-matches": "C207",
        "regex-star-alone": "C207",
        "regex-look-ahead": "C220",
        "regex-back-reference": "C220",
        "regex-end-of-text": "C220",
        "regex-no-beginning": "C220",
    },
    "bad transform": {
        "partition-unknown": "C208",
        "partition-bucket-zero": "C208",
        "partition-type": "C415",
        "create-sort-typo": "C208",
    },
    "unknown column": {
        "partition-unknown-column": "C414",
        "partition-kafka-column-typo": "C414",
    },
    "duplicate key": {
        "yaml-duplicate-key": "C105",
        "yaml-duplicate-top-key": "C105",
        "template-yaml-error-after-rendering": "C105",
    },
    "`no`, `1:30` and `1e3`": {
        "type-enabled-no": "C203",
        "unit-interval-clock": "C205",
        "type-topics-exponent": "C203",
        "type-max-rows-underscore": "C203",
    },
    "undefined variable": {
        "ref-undefined": "C301",
        "ref-undefined-typo": "C301",
        "template-undefined": "C602",
        "shared-undefined-in-template": "C301",
    },
    "template cycle": {"include-cycle": "C604"},
    "include outside the tree": {"include-outside": "C603", "include-absolute": "C603"},
    "secret in clear": {
        "target-secret-in-clear": "C311",
        "target-password-in-url": "C311",
        "target-secret-in-text": "C311",
        "target-spark-secret": "C311",
        "target-registry-secret": "C311",
    },
    "unconfined route": {
        "route-unconfined": "C403",
        "route-any-namespace": "C403",
        "route-wide-allow": "C403",
    },
    "unreachable rule after a catch-all": {"rule-catch-all-first": "C402"},
    "two pipelines with one name": {"files-same-name": "C412"},
    "upserts that cannot be": {
        "upsert-no-key": "C450",
        "upsert-words-without-mode": "C451",
        "upsert-key-columns": "C452",
        "upsert-order-column": "C453",
        "upsert-version-1": "C454",
        "upsert-deletes-of-other-version": "C454",
        "upsert-branch": "C455",
        "upsert-history-itself": "C456",
        "upsert-history-upserted": "C456",
        "upsert-history-outside": "C456",
        "upsert-history-dead-letters": "C456",
        "upsert-debezium-delete-when": "C457",
        "upsert-tombstone-no-key": "C457",
        "upsert-tombstone-other-column": "C457",
        "upsert-sql": "C458",
        "upsert-dead-letter-table": "C459",
        "upsert-identifier-fields": "C460",
        "upsert-waiting-batches": "C461",
        "upsert-two-pipelines": "C462",
        "upsert-not-yet": "C501",
    },
    "conflicting table policies": {
        "files-other-policy": "C423",
        "policy-override-unreachable": "C411",
        "policy-override-twice": "C411",
    },
}


@pytest.mark.parametrize("name", CLASSES)
def test_every_class_of_mistake_has_cases(name: str) -> None:
    """Each class of mistake is kept with its code, its place, the line with a caret, and what to do."""
    for case, code in CLASSES[name].items():
        output = (Path(__file__).parent / "cases" / case / "output.txt").read_text(encoding="utf-8")
        assert "exit code: 2" in output, case
        found = [part for part in output.split("\n\n") if f"error[FLOE-{code}]" in part]
        assert found, case
        for part in found:
            assert ": error[FLOE-" in part, case
            assert re.search(r"^ +\d+ \| .*\n +\| +\^", part, re.MULTILINE), part
            assert "\n  remedy: " in part or "\n  hint: " in part, part
            assert "hunter2" not in part, "a secret that the file holds is shown"
