"""`monitoring` of a target: loopback without a token, others with one, and the token by reference alone."""

from __future__ import annotations

import pytest

from framework.config.load import load_pipelines
from framework.config.rules.target.monitoring import host_and_port, is_loopback
from framework.config.spec import MonitoringSpec, SecretRef, TargetSpec
from framework.plan.canonical import settings_digests
from tests.unit.config.in_memory import example_files, world


def loaded(monitoring: str, env: dict[str, str] | None = None) -> tuple[TargetSpec | None, list[str]]:
    files = example_files(f"monitoring: {monitoring}\n" if monitoring else "", "target")
    [result] = load_pipelines(["base.yaml"], None, world(files, env))
    return result.pipeline.target if result.pipeline else None, [finding.code for finding in result.diagnostics]


@pytest.mark.parametrize("listen", ["127.0.0.1:9464", "localhost:9464", "127.3.2.1:0", "[::1]:9464"])
def test_loopback_needs_no_token(listen: str) -> None:
    """An address that only this machine reaches may stand alone."""
    target, codes = loaded(f'{{listen: "{listen}"}}')
    assert codes == []
    assert target is not None
    assert target.monitoring.listen == listen


@pytest.mark.parametrize("listen", ["0.0.0.0:9464", "[::]:9464", "driver-1:9464", "10.0.0.3:9464", "localhost.evil:1"])
def test_an_address_that_others_reach_needs_a_token(listen: str) -> None:
    """Without a token it is refused; with one by reference it is taken, and the token is read by the driver alone."""
    assert loaded(f'{{listen: "{listen}"}}')[1] == ["FLOE-C708"]
    target, codes = loaded(f'{{listen: "{listen}", token: "${{secret:env:METRICS}}"}}')
    assert codes == []
    assert target is not None
    assert target.monitoring.token == SecretRef("env", "METRICS")


@pytest.mark.parametrize(
    ("monitoring", "code"),
    [
        ('{listen: "127.0.0.1:9464", token: "in-plain-text"}', "FLOE-C311"),
        ('{listen: "127.0.0.1:9464", token: "${env:METRICS}"}', "FLOE-C311"),
        ('{pushgateway: "http://user:password@gateway:9091"}', "FLOE-C311"),
        ("{listen: localhost}", "FLOE-C707"),
        ('{listen: "127.0.0.1:70000"}', "FLOE-C707"),
        ("{stalled_after_ms: 10}", "FLOE-C210"),
        ("{port: 9464}", "FLOE-C201"),
    ],
)
def test_what_is_wrong_is_refused_by_name(monitoring: str, code: str) -> None:
    """Secrets in plain text, addresses of another form and unknown keys have their codes."""
    assert code in loaded(monitoring, {"METRICS": "in-the-environment"})[1]


def test_the_defaults_are_those_of_the_spec() -> None:
    """A target that says nothing is not watched over HTTP, and its digests are as if there were no such key."""
    target, _ = loaded("")
    assert target is not None
    assert target.monitoring == MonitoringSpec()
    assert "monitoring" not in settings_digests(target)
    other, _ = loaded("{stalled_after_ms: 5000}")
    assert other is not None
    assert "monitoring" in settings_digests(other)


def test_hosts_are_distinguished_from_ports() -> None:
    """IPv6 addresses stand in brackets; what is no address is none."""
    assert host_and_port("[::1]:80") == ("::1", 80)
    assert host_and_port("::1:80") is None
    assert host_and_port("a b:80") is None
    assert [is_loopback(host) for host in ("127.0.0.9", "::1", "localhost", "0.0.0.0", "::", "example.org")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip
