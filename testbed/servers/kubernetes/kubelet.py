"""A node for tests: what a pod says runs as plain processes of this machine, in namespaces and folders of their own.

In: a control plane. Out: pods that run, are probed for readiness, restarted, drained and killed as their specs say, with
their users, read-only roots and volumes. Each pod has an address of loopback. There is no image: floe is this checkout
and its `.venv`, at the places of deploy/kubernetes/Dockerfile. Needs root, as every kubelet does.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import requests

from framework.local.broker import HOST
from testbed.servers.kubernetes.container import ENTRYPOINT, Container
from testbed.servers.kubernetes.control_plane import ControlPlane
from testbed.servers.kubernetes.pod_files import environment, mounts
from testbed.servers.kubernetes.pods import ProbeState, RunningPod, status_of

NODE = "test-node"
LOOK_EVERY_S = 0.3
LONGEST_BACKOFF_S = 4.0  # Kubernetes' own is five minutes


class Kubelet:
    """One node. It binds pods to itself, since there is no scheduler. `pods` by name, also those that are gone."""

    def __init__(self, plane: ControlPlane, root: Path) -> None:
        self._plane, self._root = plane, root
        self._http = requests.Session()
        self._http.headers["Authorization"] = f"Bearer {plane.token}"
        self._http.verify, self._http.trust_env = str(plane.ca), False
        self.pods: dict[str, RunningPod] = {}
        self._uids: dict[str, RunningPod] = {}
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        self._ask("POST", "/api/v1/nodes", {"kind": "Node", "apiVersion": "v1", "metadata": {"name": NODE}})
        self._looks = threading.Thread(target=self._look_often, daemon=True)
        self._looks.start()

    def stop(self) -> None:
        """Ends all containers at once."""
        self._ended.set()
        self._looks.join(10)
        for each in self._uids.values():
            if each.container is not None:
                each.container.signal(signal.SIGKILL)
        for thread in self._threads:
            thread.join(10)

    def forget(self, name: str) -> RunningPod:
        """As a node that is cut off: it runs the pod on, and hears and says nothing of it any more."""
        self.pods[name].forgotten = True
        return self.pods[name]

    # ---- what the API server says ------------------------------------------------------------------------------

    def _look_often(self) -> None:
        while not self._ended.wait(LOOK_EVERY_S):
            with suppress(requests.RequestException):
                self._look()

    def _look(self) -> None:
        found = {pod["metadata"]["uid"]: pod for pod in self._ask("GET", "/api/v1/pods")["items"]}
        for uid, pod in found.items():
            meta = pod["metadata"]
            if uid in self._uids:
                self._uids[uid].pod = pod
            elif "deletionTimestamp" in meta:
                self._delete(pod)
            elif not pod["spec"].get("nodeName"):
                target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
                binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": meta["name"]}, "target": target}
                self._ask("POST", f"{_path(pod)}/binding", binding)
            elif pod["status"].get("phase") == "Pending":
                ip = f"127.0.{1 + len(self._uids) // 250}.{1 + len(self._uids) % 250}"
                running = RunningPod(meta["name"], meta["namespace"], pod, self._root / f"{meta['name']}-{uid[:8]}", ip)
                self._uids[uid] = self.pods[meta["name"]] = running
                self._threads.append(threading.Thread(target=self._run, args=(running, pod), daemon=True))
                self._threads[-1].start()
        for uid in self._uids.keys() - found.keys():
            self._uids[uid].pod = None

    def _ask(self, method: str, path: str, body: object = None, kind: str = "application/json") -> Any:
        answer = self._http.request(
            method, self._plane.url + path, json=body, headers={"Content-Type": kind}, timeout=30
        )
        if answer.status_code in (404, 409):  # it is gone, or made already
            return {}
        answer.raise_for_status()
        return answer.json()

    def _delete(self, pod: Mapping[str, Any]) -> None:
        only = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        self._ask("DELETE", _path(pod), only)

    # ---- one pod -----------------------------------------------------------------------------------------------

    def _run(self, running: RunningPod, pod: dict[str, Any]) -> None:
        spec = pod["spec"]
        running.folder.mkdir(parents=True)
        while not self._ended.is_set():
            try:
                self._start(running, pod)
            except RuntimeError as error:  # a ConfigMap or a Secret is not there yet
                with running.log.open("a") as log:
                    log.write(f"kubelet: {error}\n")
                if running.pod is None or self._ended.wait(1):
                    return
                continue
            code = self._follow(running, pod)
            running.exit_codes.append(code)
            is_deleted = running.pod is None or "deletionTimestamp" in running.pod["metadata"]
            if is_deleted or spec.get("restartPolicy") == "Never":
                if running.pod is not None and not running.forgotten:
                    self._say(running.pod, "Failed" if code else "Succeeded", False, running, code)
                    if is_deleted:
                        self._delete(running.pod)
                return
            self._say(pod, "Running", False, running, code)
            running.restarts += 1
            self._ended.wait(min(LONGEST_BACKOFF_S, running.restarts))

    def _start(self, running: RunningPod, pod: dict[str, Any]) -> None:
        spec = pod["spec"]
        container = spec["containers"][0]
        pod["status"] |= {"podIP": running.ip, "hostIP": HOST}
        service = {"KUBERNETES_SERVICE_HOST": HOST, "KUBERNETES_SERVICE_PORT": str(self._plane.port)}
        variables = service | environment(self._ask, pod, container)
        at = mounts(self._ask, pod, container, running.folder)
        is_read_only = container.get("securityContext", {}).get("readOnlyRootFilesystem", False)
        user = spec.get("securityContext", {}).get("runAsUser", 10001)
        words = [*container.get("command", [ENTRYPOINT]), *container.get("args", [])]
        running.container = Container(
            [str(word) for word in words],
            variables,
            at,
            running.folder,
            user,
            container.get("workingDir", "/"),
            is_read_only,
        )
        self._say(pod, "Running", False, running)

    def _follow(self, running: RunningPod, pod: dict[str, Any]) -> int:
        """Until the container ends, whoever ends it; returns its exit code."""
        container = running.container
        assert container is not None
        killed_at, was_ready = None, False
        started, live, ready = (
            ProbeState(pod, running.ip, f"{kind}Probe") for kind in ("startup", "liveness", "readiness")
        )
        while (code := container.poll()) is None:
            now = time.monotonic()
            newest = running.pod if not running.forgotten else pod
            if newest is None:
                container.signal(signal.SIGKILL)
            elif killed_at is not None:
                if now >= killed_at:
                    container.signal(signal.SIGKILL)
            elif "deletionTimestamp" in newest["metadata"]:
                killed_at = now + newest["metadata"].get("deletionGracePeriodSeconds", 30)
                container.signal(signal.SIGTERM)
            elif started.has_failed or live.has_failed:
                running.killed_by_probe += 1
                killed_at = now + (live if live.has_failed else started).grace_s
                container.signal(signal.SIGTERM)
            elif started.is_well or started.look():
                live.look()
                if ready.look() != was_ready:
                    was_ready = ready.is_well
                    self._say(newest, "Running", was_ready, running)
            time.sleep(0.1)
        return code

    def _say(
        self, pod: Mapping[str, Any], phase: str, is_ready: bool, running: RunningPod, code: int | None = None
    ) -> None:
        if running.forgotten:
            return
        status = status_of(pod, running, phase, is_ready, code)
        self._ask("PATCH", f"{_path(pod)}/status", {"status": status}, "application/merge-patch+json")


def _path(pod: Mapping[str, Any]) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
