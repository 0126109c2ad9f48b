"""`lineage` of a target: one place, addresses of http and https alone, the token by reference and never in clear."""

from __future__ import annotations

import pytest

from framework.config.load import load_pipelines
from framework.config.spec import LineageSpec, SecretRef, TargetSpec
from framework.plan.canonical import settings_digests
from tests.unit.config.in_memory import example_files, world


def loaded(lineage: str) -> tuple[TargetSpec | None, list[str]]:
    files = example_files(f"lineage: {lineage}\n" if lineage else "", "target")
    [result] = load_pipelines(["base.yaml"], None, world(files, {}))
    return result.pipeline.target if result.pipeline else None, [finding.code for finding in result.diagnostics]


@pytest.mark.parametrize(
    ("lineage", "spec"),
    [
        ("{file: /var/log/lineage.jsonl}", LineageSpec(file="/var/log/lineage.jsonl")),
        (
            '{namespace: prod, http: "https://m:5000/api", token: "${secret:env:T}"}',
            LineageSpec("prod", http="https://m:5000/api", token=SecretRef("env", "T")),
        ),
        ('{http: "http://marquez:5000/api/v1/lineage"}', LineageSpec(http="http://marquez:5000/api/v1/lineage")),
        (
            '{http: "http://127.0.0.1:5000/", token: "${secret:env:T}"}',
            LineageSpec(http="http://127.0.0.1:5000/", token=SecretRef("env", "T")),
        ),
        ("{kafka: {topic: ol}}", LineageSpec(kafka_connection="main", kafka_topic="ol")),
        ("{kafka: {connection: main, topic: ol}}", LineageSpec(kafka_connection="main", kafka_topic="ol")),
    ],
)
def test_each_way_out_is_taken(lineage: str, spec: LineageSpec) -> None:
    """A file, a server, or a topic; and nothing of what runs is another for it."""
    target, codes = loaded(lineage)
    assert codes == []
    assert target is not None
    assert target.lineage == spec
    without, _ = loaded("")
    assert without is not None
    assert settings_digests(without) == settings_digests(target)


@pytest.mark.parametrize(
    ("lineage", "code"),
    [
        ("{}", "FLOE-C710"),
        ("{namespace: x}", "FLOE-C710"),
        ('{file: a, http: "https://m/"}', "FLOE-C710"),
        ('{http: "ftp://m/"}', "FLOE-C710"),
        ('{http: "file:///etc/passwd"}', "FLOE-C710"),
        ('{http: "https://"}', "FLOE-C710"),
        ('{http: "m:5000/api"}', "FLOE-C710"),
        ('{http: "http://[::1"}', "FLOE-C710"),
        ('{file: a, token: "${secret:env:T}"}', "FLOE-C710"),
        ("{kafka: {connection: mian, topic: ol}}", "FLOE-C710"),
        ('{http: "http://m/", token: "${secret:env:T}"}', "FLOE-C711"),
        ('{http: "http://localhost.evil/", token: "${secret:env:T}"}', "FLOE-C711"),
        ('{http: "https://m/", token: in-clear-token}', "FLOE-C311"),
        ('{http: "https://user:pass@m/"}', "FLOE-C311"),
    ],
)
def test_what_is_refused(lineage: str, code: str) -> None:
    """No other scheme, no second place, no unknown connection, and no secret where others read it."""
    assert loaded(lineage)[1] == [code]
