"""What other tools read: SARIF and JUnit in the form that their specifications have.

The shapes below are the parts of SARIF 2.1.0 (OASIS) and of the XML that Jenkins' JUnit readers take which floe writes,
each closed: what is not named there is not written.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from framework.cli.main import run_main
from framework.diagnose.diagnostic import Diagnostic, Severity, Span
from framework.diagnose.render import render

CASES = Path(__file__).parents[2] / "acceptance" / "cases"


def _closed(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


TEXT = {"type": "string", "minLength": 1}
COUNT = {"type": "integer", "minimum": 1}
# Section 3.30 region, 3.29 physicalLocation, 3.27 result, 3.19 toolComponent, 3.14 run, 3.13 sarifLog.
REGION = _closed(["startLine"], startLine=COUNT, startColumn=COUNT, endLine=COUNT, endColumn=COUNT)
URI = {"type": "string", "pattern": r"^[A-Za-z0-9._~/%!$&'()*+,;=:@-]+$"}
PHYSICAL = _closed(["artifactLocation", "region"], artifactLocation=_closed(["uri"], uri=URI), region=REGION)
RESULT = _closed(
    ["ruleId", "ruleIndex", "level", "message", "locations"],
    ruleId=TEXT,
    ruleIndex={"type": "integer", "minimum": 0},
    level={"enum": ["none", "note", "warning", "error"]},
    message=_closed(["text"], text=TEXT),
    locations={"type": "array", "minItems": 1, "items": _closed(["physicalLocation"], physicalLocation=PHYSICAL)},
)
DRIVER = _closed(
    ["name", "rules"],
    name=TEXT,
    informationUri=URI,
    rules={"type": "array", "uniqueItems": True, "items": _closed(["id"], id=TEXT)},
)
RUN = _closed(
    ["tool", "results"],
    tool=_closed(["driver"], driver=DRIVER),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    results={"type": "array", "items": RESULT},
)
SARIF = Draft7Validator(
    _closed(["version", "runs"], **{"$schema": URI}, version={"const": "2.1.0"}, runs={"type": "array", "items": RUN})
)
# Elements with their attributes and the elements inside of them; those with a star are required.
JUNIT = {
    "testsuites": (("tests", "failures", "errors"), ("testsuite",)),
    "testsuite": (("name*", "tests*", "failures*", "errors*", "skipped"), ("testcase",)),
    "testcase": (("name*", "classname"), ("failure", "error", "skipped", "system-out")),
    "failure": (("type", "message"), ()),
    "error": (("type", "message"), ()),
    "skipped": (("type", "message"), ()),
    "system-out": ((), ()),
}
FINDINGS = st.lists(
    st.builds(
        Diagnostic,
        st.sampled_from(["FLOE-C201", "FLOE-C205"]),
        st.text(min_size=1),
        st.none()
        | st.builds(Span, st.text(min_size=1), *[st.integers(1, 9)] * 2, st.integers(9, 20), st.integers(9, 20)),
        st.sampled_from(Severity),
        hint=st.none() | st.text(),
        remedy=st.none() | st.text(),
        excerpt=st.none() | st.text(st.characters(exclude_characters="\n")),
    ),
    max_size=4,
)


def sarif_faults(text: str) -> list[str]:
    """What is not as the specification has it."""
    document = json.loads(text)
    faults = [f"{list(error.absolute_path)}: {error.message}" for error in SARIF.iter_errors(document)]
    for run in document["runs"]:
        rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
        faults += [str(one) for one in run["results"] if rules[one["ruleIndex"]] != one["ruleId"]]
    return faults


def junit_faults(text: str) -> list[str]:
    """What is not as readers of JUnit's XML have it; counts that do not fit included."""
    root = ElementTree.fromstring(text)
    faults = [] if root.tag in ("testsuites", "testsuite") else [root.tag]
    for element in root.iter():
        attributes, inner = JUNIT[element.tag]
        named = {name.rstrip("*") for name in attributes}
        faults += [f"{element.tag} has {name}" for name in element.attrib if name not in named]
        faults += [
            f"{element.tag} lacks {name}" for name in attributes if name[-1] == "*" and name[:-1] not in element.attrib
        ]
        faults += [f"{element.tag} holds {child.tag}" for child in element if child.tag not in inner]
        if element.tag.startswith("testsuite"):
            counts = {"tests": "testcase", "failures": "failure", "errors": "error"}
            faults += [
                f"{element.tag} counts {count}"
                for count, tag in counts.items()
                if int(element.attrib[count]) != sum(1 for _ in element.iter(tag))
            ]
    return faults


@given(FINDINGS)
def test_any_finding_keeps_to_the_formats(findings: list[Diagnostic]) -> None:
    """Whatever a message, a path or a line of a file holds, both reports can be read by what reads them."""
    assert sarif_faults(render(findings, "sarif", ["a file.yaml"])) == []
    assert junit_faults(render(findings, "junit", ["a file.yaml"])) == []


@pytest.mark.parametrize("command", [["validate"], ["test", "--no-spark"]], ids=lambda command: command[0])
def test_reports_of_all_kept_files(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reports of a hundred wrong files are what their specifications ask for."""
    monkeypatch.chdir(CASES)
    files = sorted(str(path.relative_to(CASES)) for path in CASES.glob("*/*/pipeline.yaml"))[::3]
    assert len(files) > 100
    run_main([*command, "--format", "junit", *files])
    assert junit_faults(capsys.readouterr().out) == []
    if command == ["validate"]:
        run_main([*command, "--format", "sarif", *files])
        text = capsys.readouterr().out
        assert len(json.loads(text)["runs"][0]["results"]) > 100
        assert sarif_faults(text) == []
