"""One folder per case: files, `cmd` (what follows `floe`), and `output.txt`, what it prints and its exit code. The folder above
it says what its cases show: mistakes in YAML, in keys, in routes, templates that work and that do not, plans.

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

FOLDER = Path(__file__).parent / "cases"
CASES = sorted(path.parent for path in FOLDER.glob("*/*/cmd"))


def printed(case: Path, capsys: pytest.CaptureFixture[str]) -> str:
    parts = []
    for line in (case / "cmd").read_text(encoding="utf-8").splitlines():
        code = run_main(shlex.split(line))
        captured = capsys.readouterr()
        parts.append(f"$ floe {line}\n{captured.out}{captured.err}exit code: {code}\n")
    return "\n".join(parts)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.relative_to(FOLDER).as_posix())
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
        "yaml/indent-too-much": "C103",
        "yaml/indent-too-little": "C103",
        "yaml/indent-one-level-too-deep": "C201",
        "yaml/tab": "C104",
    },
    "unknown key at every level": {
        "keys/unknown-top": "C201",
        "keys/unknown-metadata": "C201",
        "keys/unknown-source": "C201",
        "keys/unknown-kafka": "C201",
        "keys/unknown-format": "C201",
        "keys/unknown-schema-field": "C201",
        "keys/unknown-transform": "C201",
        "keys/unknown-routes": "C201",
        "keys/unknown-rule": "C201",
        "keys/unknown-when": "C201",
        "keys/unknown-tables": "C201",
        "keys/unknown-defaults": "C201",
        "keys/unknown-create": "C201",
        "keys/unknown-evolve": "C201",
        "keys/unknown-commit": "C201",
        "keys/unknown-override": "C201",
        "keys/unknown-errors": "C201",
        "errors/stage-unknown": "C201",
        "keys/unknown-commit-top": "C201",
        "keys/unknown-trigger": "C201",
        "keys/unknown-variable": "C201",
        "keys/unknown-test": "C201",
        "keys/unknown-test-input": "C201",
        "keys/unknown-test-expect": "C201",
        "targets/unknown-key": "C201",
        "templates/shared-mistake-in-template": "C201",
    },
    "wrong type": {
        "values/type-topics-text": "C203",
        "values/type-rules-mapping": "C203",
        "values/type-when-text": "C203",
        "values/type-format-null": "C203",
    },
    "wrong unit": {
        "values/unit-interval-number": "C205",
        "values/unit-interval-words": "C205",
        "values/unit-size-mb-lower": "C206",
        "values/word-unit": "C204",
    },
    "bad regular expression": {
        "routes/regex-topic-pattern": "C207",
        "routes/regex-matches": "C207",
        "routes/regex-star-alone": "C207",
        "routes/regex-look-ahead": "C220",
        "routes/regex-back-reference": "C220",
        "routes/regex-end-of-text": "C220",
        "routes/regex-no-beginning": "C220",
    },
    "bad transform": {
        "tables/partition-unknown": "C208",
        "tables/partition-bucket-zero": "C208",
        "tables/partition-type": "C415",
        "tables/create-sort-typo": "C208",
    },
    "unknown column": {
        "tables/partition-unknown-column": "C414",
        "tables/partition-kafka-column-typo": "C414",
        "tables/column-mistyped": "C414",
        "tables/time-not-declared": "C414",
        "upsert/key-mistyped": "C414",
    },
    "duplicate key": {
        "yaml/duplicate-key": "C105",
        "yaml/duplicate-top-key": "C105",
        "templates/yaml-error-after-rendering": "C105",
    },
    "`no`, `1:30` and `1e3`": {
        "values/type-enabled-no": "C203",
        "values/unit-interval-clock": "C205",
        "values/type-topics-exponent": "C203",
        "values/type-max-rows-underscore": "C203",
    },
    "undefined variable": {
        "variables/ref-undefined": "C301",
        "variables/ref-undefined-typo": "C301",
        "templates/undefined": "C602",
        "templates/shared-undefined-in-template": "C301",
    },
    "template cycle": {"templates/include-cycle": "C604"},
    "include outside the tree": {"templates/include-outside": "C603", "templates/include-absolute": "C603"},
    "secret in clear": {
        "targets/secret-in-clear": "C311",
        "targets/password-in-url": "C311",
        "targets/secret-in-text": "C311",
        "targets/spark-secret": "C311",
        "targets/registry-secret": "C311",
    },
    "unknown setting of a client": {
        "targets/unknown-settings": "C704",
        "targets/value-of-setting": "C705",
    },
    "unconfined route": {
        "routes/unconfined": "C403",
        "routes/any-namespace": "C403",
        "routes/wide-allow": "C403",
    },
    "unreachable rule after a catch-all": {"routes/rule-catch-all-first": "C402"},
    "two pipelines with one name": {"files/same-name": "C412"},
    "maintenance that takes what is needed": {
        "maintenance/expire-before-rollback": "C470",
        "maintenance/expire-before-reader": "C470",
        "maintenance/young-orphans": "C471",
        "maintenance/unknown-word": "C201",
        "maintenance/window": "C215",
    },
    "upserts that cannot be": {
        "upsert/no-key": "C450",
        "upsert/words-without-mode": "C451",
        "upsert/key-columns": "C452",
        "upsert/order-column": "C453",
        "upsert/order-other-column": "C453",
        "upsert/version-1": "C454",
        "upsert/deletes-of-other-version": "C454",
        "upsert/branch": "C455",
        "upsert/history-itself": "C456",
        "upsert/history-upserted": "C456",
        "upsert/history-outside": "C456",
        "upsert/history-dead-letters": "C456",
        "upsert/history-of-two": "C456",
        "upsert/history-routed": "C456",
        "upsert/debezium-delete-when": "C457",
        "upsert/tombstone-no-key": "C457",
        "upsert/tombstone-other-column": "C457",
        "upsert/tombstone-order": "C457",
        "upsert/sql": "C458",
        "upsert/dead-letter-table": "C459",
        "upsert/identifier-fields": "C460",
        "upsert/waiting-batches": "C461",
        "upsert/two-pipelines": "C462",
    },
    "conflicting table policies": {
        "files/other-policy": "C423",
        "tables/policy-override-unreachable": "C411",
        "tables/policy-override-twice": "C411",
    },
}


@pytest.mark.parametrize("name", CLASSES)
def test_every_class_of_mistake_has_cases(name: str) -> None:
    """Each class of mistake is kept with its code, its place, the line with a caret, and what to do."""
    for case, code in CLASSES[name].items():
        output = (FOLDER / case / "output.txt").read_text(encoding="utf-8")
        assert "exit code: 2" in output, case
        found = [part for part in output.split("\n\n") if f"error[FLOE-{code}]" in part]
        assert found, case
        for part in found:
            assert ": error[FLOE-" in part, case
            assert re.search(r"^ +\d+ \| .*\n +\| +\^", part, re.MULTILINE), part
            assert "\n  remedy: " in part or "\n  hint: " in part, part
            assert "hunter2" not in part, "a secret that the file holds is shown"
