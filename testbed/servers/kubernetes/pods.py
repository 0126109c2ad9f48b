"""A pod that the test kubelet runs, its probes and its status.

In: a pod as the API server gives it. Out: what its container has done so far, in the API server's words, too, and whether its
probes find it well. They ask by the pod's address and with no secret, as a kubelet does.
"""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from framework.local.broker import HOST
from testbed.servers.kubernetes.container import Container

QUICKER = 5  # so many times as often as they say, probes ask


@dataclass
class RunningPod:
    """`pod` is the newest that the API server gave; None: it is gone there."""

    name: str
    namespace: str
    pod: dict[str, Any] | None
    folder: Path
    ip: str
    forgotten: bool = False
    restarts: int = 0
    killed_by_probe: int = 0
    exit_codes: list[int] = field(default_factory=list)
    container: Container | None = None

    @property
    def log(self) -> Path:
        return self.folder / "log"


class ProbeState:
    """One probe of a container, asked as a kubelet asks: by the pod's address, with no secret. Without one all is well."""

    def __init__(self, pod: Mapping[str, Any], ip: str, kind: str) -> None:
        container = pod["spec"]["containers"][0]
        self._probe = container.get(kind)
        self.is_well, self._failures, self._next = self._probe is None, 0, 0.0
        pods = pod["spec"].get("terminationGracePeriodSeconds", 30)
        self.grace_s = (self._probe or {}).get("terminationGracePeriodSeconds", pods)
        if self._probe is not None:
            ports = {each.get("name"): each["containerPort"] for each in container.get("ports", [])}
            asked = self._probe["httpGet"]
            self._url = f"http://{ip}:{ports.get(asked['port'], asked['port'])}{asked['path']}"

    @property
    def has_failed(self) -> bool:
        return self._probe is not None and self._failures >= self._probe.get("failureThreshold", 3)

    def look(self) -> bool:
        """Whether all is well; asks when the probe's period is over."""
        if self._probe is not None and time.monotonic() >= self._next:
            self._next = time.monotonic() + self._probe.get("periodSeconds", 10) / QUICKER
            self.is_well = False
            with suppress(OSError):
                timeout_s = self._probe.get("timeoutSeconds", 1)
                with urllib.request.urlopen(self._url, timeout=timeout_s) as answer:
                    self.is_well = answer.status == 200
            self._failures = 0 if self.is_well else self._failures + 1
        return self.is_well


def status_of(
    pod: Mapping[str, Any], running: RunningPod, phase: str, is_ready: bool, code: int | None
) -> dict[str, Any]:
    """What the API server is told. `code`: of a container that has ended."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    container = pod["spec"]["containers"][0]
    ended = {"terminated": {"exitCode": code, "finishedAt": now}}
    state = {"running": {"startedAt": now}} if code is None else ended
    kinds = {"PodScheduled": True, "Initialized": True, "ContainersReady": is_ready, "Ready": is_ready}
    one = {"name": container["name"], "image": container["image"], "imageID": container["image"]}
    return {
        "phase": phase,
        "hostIP": HOST,
        "podIP": running.ip,
        "podIPs": [{"ip": running.ip}],
        "startTime": now,
        "conditions": [
            {"type": kind, "status": str(is_so), "lastTransitionTime": now} for kind, is_so in kinds.items()
        ],
        "containerStatuses": [
            one | {"ready": is_ready, "restartCount": running.restarts, "state": state, "started": code is None}
        ],
    }
