"""Whole projects with one file broken at random: `floe validate` and `floe test` answer, and never with a traceback.

The projects are those of the acceptance cases, the record corpus and the examples: pipelines, targets with overrides,
shared templates, included parts, Kafka Connect configurations. FLOE_FUZZ_EXAMPLES=100000 runs the long form, about half
an hour.
"""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from framework.cli.main import run_main
from framework.config.check_files import check_files, kind_of
from framework.config.load import DEFAULT_TARGET, load_pipelines, load_target
from framework.config.templates.uses import load_uses
from framework.diagnose.render import FORMATS, render
from framework.testing.report import render as render_reports
from framework.testing.suite import run_file
from tests.unit.config.in_memory import TARGET, world

EXAMPLES = int(os.environ.get("FLOE_FUZZ_EXAMPLES", "300"))
ROOT = Path(__file__).parents[3]
ACCEPTANCE = ROOT / "tests" / "acceptance"
CASES = sorted(path.parent for path in ACCEPTANCE.glob("cases/*/*/cmd"))
# What people write, and what has broken readers of YAML and templates before.
TOKENS = [
    *("\n", "  ", ":", "- ", "{", "}", "[", "]", '"', "'", "|\n", ">-\n", "\t", "---\n", "~", "1e400", "0x", "%", "? "),
    *("#% for a in var.b\n", "#% endfor\n", "#% include 'a.yaml'\n", "{{ ", " }}", "{{ param.a }}", "{{ [0] * 9 }}"),
    *("${", "${var.a}", "${param.a}", "${env:FLOE_CASE}", "${secret:env:A}", "${local:a}", "&a ", "*a", "!!set ", "<<: *a\n"),
    *("\u2028", "é", "\ue000", "\x00", "\ufeff", "\r"),
]  # fmt: skip
VALUES = [
    *("", "~", "no", "1:30", "1e3", "-1", "0", "99999999999999999999", "1.5", "NaN", "[]", "{}", "[[]]", "{a: {b: c}}", "''"),
    *("3m", "512MiB", "true", '"*"', "'^('", "a.b", "{table: a.b}", "[{table: a.b}]", "day(a)", '"{field}"', "'a.{b}'"),
    *("{type: struct}", "{name: landing}", "{name: ./a.yaml}", "decimal(99, 2)", "2024-02-30", "x" * 300, "'${var.a}'"),
]  # fmt: skip


def _texts(folder: Path, pattern: str = "*.yaml") -> dict[str, str]:
    found = {path.relative_to(folder).as_posix(): path.read_text("utf-8", "replace") for path in folder.rglob(pattern)}
    return dict(sorted(found.items()))


def _examples() -> list[dict[str, str]]:
    """One project for each example pipeline, with the targets and templates that all share."""
    files = _texts(ROOT / "pipelines")
    shared = {name: text for name, text in files.items() if "/" in name}
    return [{name: text, **shared} for name, text in files.items() if "/" not in name]


PROJECTS = [
    *(texts for folder in CASES if (texts := _texts(folder))),
    *(_texts(folder) for folder in sorted((ACCEPTANCE / "corpus").iterdir())),
    *_examples(),
]
CORPUS = [text for project in PROJECTS for text in project.values()]
SINKS = [text for folder in CASES for text in _texts(folder, "*.json").values()]


@st.composite
def mutated(draw: st.DrawFn, text: str, others: list[str]) -> str:
    """A text with one to four changes: at random characters, or line by line as an editor would make them."""
    for _ in range(draw(st.integers(1, 4))):
        lines = text.split("\n")
        line = draw(st.integers(0, len(lines) - 1))
        at, until = sorted((draw(st.integers(0, len(text))), draw(st.integers(0, len(text)))))
        match draw(st.integers(0, 8)):
            case 0:
                text = text[:at] + draw(st.sampled_from(TOKENS)) + text[at:]
            case 1:
                text = text[:at] + text[min(until, at + 12) :]
            case 2:
                text = text[:at] + text[at:until][:40] + text[at:]
            case 3:
                other = draw(st.sampled_from(others))
                text = text[:at] + other[at:until] + text[until:]
            case 4:
                text = "\n".join(lines[:line] + lines[line + 1 :])
            case 5:
                there = draw(st.integers(0, len(lines) - 1))
                text = "\n".join([*lines[:there], lines[line], *lines[there:]])
            case 6:
                lines[line] = lines[line][2:] if draw(st.booleans()) else "  " + lines[line]
                text = "\n".join(lines)
            case 7:
                foreign = draw(st.sampled_from(others)).split("\n")
                text = "\n".join([*lines[:line], draw(st.sampled_from(foreign)), *lines[line:]])
            case _:
                key, colon, _ = lines[line].partition(": ")
                lines[line] = key + colon + draw(st.sampled_from(VALUES)) if colon else lines[line]
                text = "\n".join(lines)
    return text


@st.composite
def broken_projects(draw: st.DrawFn) -> dict[str, str]:
    """A project, whole but for one file."""
    files = dict(draw(st.sampled_from(PROJECTS)))
    name = draw(st.sampled_from(sorted(files)))
    return {"targets/local.yaml": TARGET, **files, name: draw(mutated(files[name], CORPUS))}


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(broken_projects(), st.booleans(), st.sampled_from(FORMATS))
def test_no_text_makes_a_command_fail(files: dict[str, str], offline: bool, format_: str) -> None:
    """A project can hold anything: checking it and running its tests ends with a pipeline or with findings that have
    places."""
    outside = world(files, {"FLOE_CASE": "orders"}, offline)
    paths = [Path(name) for name in files]

    findings = check_files(paths, None, outside)

    assert all(one.span is not None and one.span.line > 0 and one.span.column > 0 for one in findings)
    render(findings, format_, list(files))
    kinds = {path: kind_of(path, outside) for path in paths}
    target = load_target(DEFAULT_TARGET, outside, Path())
    results = list(load_pipelines([path for path in paths if kinds[path] == "Pipeline"], None, outside))
    for path in paths:
        if kinds[path] == "Template":
            results += load_uses(path, target, outside).results
    for result in results:
        assert result.pipeline is not None or result.diagnostics
        # Raises only for what is an error of floe itself.
        assert render_reports([run_file(result)], "text")


@settings(max_examples=EXAMPLES // 6, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=st.sampled_from(SINKS).flatmap(lambda text: mutated(text, SINKS)))
def test_no_sink_makes_the_import_fail(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A configuration of Kafka Connect can hold anything too: it becomes a pipeline file, or is refused with a code."""
    file = tmp_path_factory.getbasetemp() / "mutated-sink.json"
    file.write_bytes(text.encode("utf-8", "replace"))
    assert run_main(["import-connector", str(file)]) in (0, 2)


def _places() -> list[tuple[int, str, int]]:
    """A project, a file and a line of it for each key that has a value somewhere, in the project where it comes first."""
    found: dict[str, tuple[int, str, int]] = {}
    for number, files in enumerate(PROJECTS):
        for name, text in files.items():
            for line, content in enumerate(text.split("\n")):
                if key := re.match(r"[ -]*([A-Za-z_.]+): [^#\s]", content):
                    found.setdefault(key[1], (number, name, line))
    return sorted(found.values())


# What takes time by the square of its length takes minutes.
LARGE = 30_000
MOST_S = 4.0
PARTS = ("0", "a", " ", "a ", "(", "{{", "${", "a.", "[", "'", "/", "x,", "*")


@pytest.mark.parametrize("part", PARTS)
def test_no_large_value_keeps_a_check_busy(part: str) -> None:
    """Whatever key it is of, and as a key: a value of thirty thousand characters costs a moment."""
    for number, name, line in _places():
        lines = PROJECTS[number][name].split("\n")
        key, _, _ = lines[line].partition(": ")
        large = json.dumps(part * (LARGE // len(part)))
        for changed in (f"{key}: {large}", f"{key[: len(key) - len(key.lstrip(' -'))]}{large}: 1"):
            text = "\n".join([*lines[:line], changed, *lines[line + 1 :]])
            files = {"targets/local.yaml": TARGET, **PROJECTS[number], name: text}
            began = time.thread_time()
            check_files([Path(each) for each in files], None, world(files, {"FLOE_CASE": "orders"}, True))
            took = time.thread_time() - began
            assert took < MOST_S, f"{took:.1f} s of CPU for `{changed[:60]}` in {name}"
