"""Pods of a real API server that are killed, evicted, rolled out, cut off from it and drained, beside records that arrive."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.servers.kubernetes.control_plane import ControlPlane
from testbed.servers.kubernetes.kubelet import Kubelet
from testbed.servers.places import Servers
from tests.conftest import Broker
from tests.kubernetes.manifests import documents
from tests.kubernetes.release import Release

PAGE = Path(__file__).parents[2] / "docs" / "kubernetes.md"
pytestmark = [
    *(pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.slow, pytest.mark.chaos),
    pytest.mark.timeout(1200),
]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    plane = ControlPlane(tmp_path_factory.mktemp("plane"))
    yield plane
    plane.stop()


@pytest.fixture(scope="module")
def kubelet(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubelet]:
    kubelet = Kubelet(plane, tmp_path_factory.mktemp("node"))
    yield kubelet
    kubelet.stop()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    servers = Servers(tmp_path_factory.mktemp("servers"))
    yield servers
    servers.stop()


@pytest.fixture
def release(
    tmp_path: Path, plane: ControlPlane, kubelet: Kubelet, broker: Broker, servers: Servers
) -> Iterator[Release]:
    release = Release(tmp_path, plane, kubelet, broker, servers)
    yield release
    release.end()


def test_drivers_that_are_killed_evicted_and_rolled_out_lose_nothing(release: Release) -> None:
    """A container that is killed starts again in its pod; an evicted driver and one that a rollout replaces drain within their
    grace period, end with 0, and others go on. Each record is in its table once."""
    release.send()
    first = release.driver()
    release.wait_for_rows()

    release.send()
    assert first.container is not None
    first.container.signal(signal.SIGKILL)
    release.send()
    release.wait_for_rows()
    assert (first.exit_codes, first.restarts) == ([137], 1)

    release.driver()
    release.evict(first)
    release.send()
    second = release.driver(but=first)
    release.wait_for_rows()
    assert first.exit_codes == [137, 0]

    release.send()
    began = time.monotonic()
    release.kubectl("rollout", "restart", "deployment/floe-orders")
    release.kubectl("rollout", "status", "deployment/floe-orders", "--timeout=180s")
    assert time.monotonic() - began < 180
    third = release.driver(but=second)
    assert second.exit_codes == [0]
    assert "draining" in second.log.read_text()
    release.send()
    release.check()
    assert third.exit_codes == []


def test_a_driver_that_hangs_is_started_again(release: Release) -> None:
    """Its liveness probe fails, so that the kubelet ends it and starts another one in its pod, which goes on."""
    release.send()
    driver = release.driver()
    release.wait_for_rows()
    assert driver.container is not None
    driver.container.signal(signal.SIGSTOP)
    release.send()
    release.wait_for_rows(300)
    release.check()
    assert (driver.killed_by_probe, driver.restarts, driver.exit_codes) == (1, 1, [137])


def test_a_driver_that_the_cluster_has_lost_is_fenced_by_the_next(release: Release, kubelet: Kubelet) -> None:
    """A node that is cut off runs its driver on, while the cluster starts another: the older run ends with 4, having written
    nothing that counts twice."""
    release.send()
    lost = kubelet.forget(release.driver().name)
    release.wait_for_rows()

    release.kubectl("delete", "pod", lost.name, "--force", "--grace-period=0")
    release.send()
    release.driver(but=lost)
    release.send()
    release.check()
    release.wait_for_exit(lost, 4)


@pytest.mark.timeout(1800)
def test_sparks_own_scheduler_runs_executors_as_pods(
    tmp_path: Path, plane: ControlPlane, kubelet: Kubelet, broker: Broker, servers: Servers
) -> None:
    """The driver has its executors started as pods; one of them is killed, and another one takes its place. The driver is killed,
    and goes on with new ones; the command of the page removes those of before, and none that runs. Each record is in its table
    once, as Spark reads them, too. Executors hold no secret and no token of the API, whose own log says that each right
    of the chart is needed, and that no other is."""
    release = Release(tmp_path, plane, kubelet, broker, servers, executors=2)
    try:
        release.send()
        release.driver()
        release.wait_for_rows()
        executors = release.executors()
        assert len(executors) == 2
        container = executors[0].container
        assert container is not None
        container.signal(signal.SIGKILL)
        release.send(6000)
        release.wait_for_rows()
        release.wait(lambda: len(release.executors()) == 3, "an executor in its place", 120)
        release.send()
        release.check()
        release.check_by_spark()
        driver = release.driver().container
        assert driver is not None
        driver.signal(signal.SIGKILL)
        release.send()
        release.wait_for_rows()
        release.check()
        release.wait(lambda: len(release.dead_executors()) >= 2, "the end of the executors of the driver before", 120)
        before = len(release.executors())
        (command,) = re.findall(
            r"^    kubectl -n floe (delete pods .*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
        )
        release.kubectl(*command.split())
        assert not release.dead_executors()
        release.send()
        release.wait_for_rows()
        assert len(release.executors()) == before
        held = {volume.name for each in release.executors() for volume in (each.folder / "volumes").iterdir()}
        assert not [name for name in held if name.startswith(("kube-api-access", "secrets"))]
    finally:
        release.end()
    plane.wait(lambda: not plane.get("-n", release.namespace, "pods")["items"], "the end of the executors", 60)
    allowed, denied = release.asked()
    (role,) = [each for each in documents(release.chart) if each["kind"] == "Role"]
    assert allowed == {(kind, verb) for rule in role["rules"] for kind in rule["resources"] for verb in rule["verbs"]}
    # What Spark clears at its end, and volumes that it would use again, also where it has made none; it goes on without.
    unneeded = {("services", "deletecollection"), ("persistentvolumeclaims", "deletecollection")}
    assert denied <= unneeded | {("persistentvolumeclaims", "list")}
