"""The chart, its plain manifests and its target, judged by Helm and by a real API server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from framework.adapters.project.files import real_world
from framework.config.target import load_target
from testbed.servers.kubernetes.control_plane import ControlPlane
from tests.kubernetes.manifests import FOLDER, PLAIN, documents, plain, run_helm, template

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

VALUES = {
    "defaults": (),
    "executors": ("--set", "driver.executors=true"),
    "several": (
        "--set",
        "drivers[0].name=one,drivers[0].files={a.yaml,b.yaml},drivers[1].name=two,drivers[1].files={c.yaml}",
    ),
    "least": ("--set", "coordinator.enabled=false,page.enabled=false,networkPolicy=false"),
    "more": (
        *("--set", "env[0].name=KAFKA_PASSWORD,env[0].valueFrom.secretKeyRef.name=kafka"),
        *("--set", "env[0].valueFrom.secretKeyRef.key=password,page.hosts={floe.example.com}"),
        *("--set", "podAnnotations.team=data,nodeSelector.pool=streams,imagePullSecrets[0].name=registry"),
    ),
}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    plane = ControlPlane(tmp_path_factory.mktemp("plane"))
    plane.kubectl("create", "namespace", "floe")
    # The API server itself refuses pods that are not as restricted as its strictest standard asks.
    plane.kubectl("label", "namespace", "floe", "pod-security.kubernetes.io/enforce=restricted")
    plane.wait(lambda: plane.get("-n", "floe", "serviceaccount", "default"), "the namespace")
    yield plane
    plane.stop()


def test_the_plain_manifests_are_those_of_the_chart() -> None:
    """Who has no Helm applies the same: the file is what the chart makes with its own values. Helm finds no fault."""
    assert PLAIN.read_text(encoding="utf-8") == plain()
    assert "0 chart(s) failed" in run_helm("lint", "--strict", str(FOLDER / "floe"))


@pytest.mark.parametrize("name", VALUES)
def test_an_api_server_takes_every_manifest(name: str, plane: ControlPlane) -> None:
    """With strict validation: no field is unknown, none twice, and every object is applied, and applied again."""
    text = template(*VALUES[name])
    plane.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", text=text)
    plane.kubectl("apply", "--validate=strict", "-f", "-", text=text)
    again = plane.kubectl("apply", "-f", "-", text=text).splitlines()
    # kubectl sends a budget's selector anew each time, and says so, whoever's budget it is.
    assert [line for line in again if not line.endswith(" unchanged") and "poddisruptionbudget" not in line] == []
    plane.kubectl("delete", "--wait=false", "-f", "-", text=text)


def test_helm_installs_upgrades_and_removes_it(plane: ControlPlane) -> None:
    """A release of another name in another namespace; what a change of values takes away is gone, and in the end all is."""
    plane.kubectl("create", "namespace", "streams")
    at = ("--namespace", "streams", "--kubeconfig", str(plane.kubeconfig))
    chart = str(FOLDER / "floe")
    run_helm("install", "lake", chart, *at)
    names = [each["metadata"]["name"] for each in plane.get("-n", "streams", "deployments")["items"]]
    assert sorted(names) == ["lake-coordinator", "lake-flights", "lake-page"]
    run_helm("upgrade", "lake", chart, *at, *VALUES["least"])
    names = [each["metadata"]["name"] for each in plane.get("-n", "streams", "deployments")["items"]]
    assert names == ["lake-flights"]
    run_helm("uninstall", "lake", *at)
    kinds = "deployments,pods,services,serviceaccounts,networkpolicies,poddisruptionbudgets"
    of_lake = ("-n", "streams", kinds, "-l", "app.kubernetes.io/instance=lake")
    plane.wait(lambda: not plane.get(*of_lake)["items"], "the end of all that was installed")


@pytest.mark.parametrize("name", VALUES)
def test_every_pod_is_as_restricted_as_the_strictest_standard_asks(name: str, plane: ControlPlane) -> None:
    """The API server admits each pod of each Deployment to a namespace that enforces `restricted`; roots are read-only, limits
    are set, and only a driver with executors gets a token of the API."""
    for deployment in _of_kind(template(*VALUES[name]), "Deployment"):
        pod = deployment["spec"]["template"]
        named = {**pod, "apiVersion": "v1", "kind": "Pod"}
        named["metadata"] = {**pod["metadata"], "name": deployment["metadata"]["name"], "namespace": "floe"}
        named["spec"] = {**pod["spec"], "serviceAccountName": "default"}
        plane.kubectl("create", "--dry-run=server", "-f", "-", text=json.dumps(named))
        (container,) = pod["spec"]["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert container["resources"]["limits"]["memory"]
        is_driver = pod["metadata"]["labels"]["app.kubernetes.io/component"] == "driver"
        assert pod["spec"]["automountServiceAccountToken"] is (is_driver and name == "executors")
        assert pod["spec"]["terminationGracePeriodSeconds"] >= (180 if is_driver else 10)
        named["spec"].pop("securityContext")
        with pytest.raises(RuntimeError, match="violates PodSecurity"):
            plane.kubectl("create", "--dry-run=server", "-f", "-", text=json.dumps(named))


@pytest.mark.parametrize("name", VALUES)
def test_no_secret_stands_in_a_manifest(name: str) -> None:
    """Secrets are named, and mounted as files; none is made, none is an argument, none is a variable with its value."""
    found = documents(template(*VALUES[name]))
    made = [each["metadata"]["name"] for each in found if each["kind"] in ("Secret", "ConfigMap")]
    assert made == (["floe-executors"] if name == "executors" else [])
    for deployment in _of_kind(template(*VALUES[name]), "Deployment"):
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        for variable in container["env"]:
            assert variable["name"] == "HOME" or "value" not in variable
        assert not [word for word in container["args"] if re.search(r"(?i)password|secret=|token=", word)]


def test_rights_are_those_of_the_driver_with_executors_alone() -> None:
    """No other process may ask the API anything, and no rule has a wildcard or reaches beyond the namespace."""
    without = {each["kind"] for each in documents(template())}
    assert not without & {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}
    (role,) = _of_kind(template(*VALUES["executors"]), "Role")
    for rule in role["rules"]:
        assert not {"*"} & {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
        assert {*rule["resources"]} <= {"pods", "configmaps"}
    (binding,) = _of_kind(template(*VALUES["executors"]), "RoleBinding")
    assert [each["name"] for each in binding["subjects"]] == ["floe-driver"]


def test_the_example_target_is_right() -> None:
    """`deploy/kubernetes/target.yaml` is a target as it stands, also with the lines that it shows for executors."""
    text = (FOLDER / "target.yaml").read_text(encoding="utf-8")
    assert _findings(FOLDER / "target.yaml") == []
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith('  # master: "k8s'))
    shown = [line.replace("# ", "", 1) for line in lines[start:]]
    assert 'master: "k8s://https://' in shown[0]
    assert all(line.startswith("  ") for line in shown)


def _findings(path: Path) -> list[str]:
    return [str(each) for each in load_target(str(path), real_world(), path.parent).diagnostics]


def _of_kind(text: str, kind: str) -> list[dict[str, Any]]:
    return [each for each in documents(text) if each["kind"] == kind]
