"""A Kubernetes API server for tests: `kube-apiserver` with etcd and the controllers.

In: a folder. Out: a control plane on loopback with TLS, tokens and RBAC, and `kubectl` for its administrator. No node runs
here: pods are started by `testbed.servers.kubernetes.kubelet`. Everything ends with `stop`.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from framework.local.broker import HOST, free_port
from testbed.servers.certificates import Authority
from testbed.servers.kubernetes.programs import etcd, kubernetes_programs

CONTROLLERS = (
    *("deployment-controller", "replicaset-controller", "serviceaccount-controller", "namespace-controller"),
    *("garbage-collector-controller", "disruption-controller", "root-ca-certificate-publisher-controller"),
)


class ControlPlane:
    """An API server that asks for tokens and knows RBAC, with the controllers of Deployments. `url` from anywhere here."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        authority = Authority(root / "tls")
        self.ca = authority.certificate
        certificate, key = authority.issue("kube-apiserver")
        account_key = root / "tls" / "accounts.key"
        _make_key(account_key)
        self.port, etcd_port, peer_port = free_port(), free_port(), free_port()
        self.url = f"https://{HOST}:{self.port}"
        self.token = secrets.token_hex(16)
        users = root / "users.csv"
        users.write_text(f"{self.token},admin,admin,system:masters\n")
        self.audit = root / "audit.jsonl"  # each request: who, what, and whether it was allowed
        self.kubeconfig = root / "kubeconfig"
        self.kubeconfig.write_text(json.dumps(self._kubeconfig()))
        self._processes: list[subprocess.Popen[bytes]] = []
        self._programs = kubernetes_programs()
        store, peer = f"http://{HOST}:{etcd_port}", f"http://{HOST}:{peer_port}"
        try:
            self._start(
                etcd() / "server",
                *("--data-dir", root / "etcd", "--unsafe-no-fsync", "--log-level", "error", "--initial-cluster"),
                *(f"default={peer}", "--initial-advertise-peer-urls", peer, "--listen-peer-urls", peer),
                *("--listen-client-urls", store, "--advertise-client-urls", store),
            )
            self._start(
                self._programs / "kube-apiserver",
                *("--etcd-servers", store, "--bind-address", HOST, "--secure-port", self.port, "--cert-dir", root),
                *("--tls-cert-file", certificate, "--tls-private-key-file", key, "--token-auth-file", users),
                *("--service-account-issuer", "https://floe.test", "--service-account-key-file", account_key),
                *("--service-account-signing-key-file", account_key, "--service-cluster-ip-range", "10.99.0.0/24"),
                *("--audit-policy-file", _audited(root), "--audit-log-path", self.audit),
                *("--audit-log-mode", "blocking"),
                *("--authorization-mode", "RBAC", "--endpoint-reconciler-type", "none"),
            )
            self.wait(lambda: self.kubectl("get", "--raw", "/readyz") == "ok", "the API server", 120)
            self._start(
                self._programs / "kube-controller-manager",
                *("--kubeconfig", self.kubeconfig, "--controllers", ",".join(CONTROLLERS), "--leader-elect=false"),
                *("--service-account-private-key-file", account_key, "--root-ca-file", self.ca, "--secure-port", 0),
            )
            self.wait(lambda: self.kubectl("get", "serviceaccount", "default"), "the controllers", 60)
        except BaseException:
            self.stop()
            raise

    def kubectl(self, *words: object, text: str | None = None) -> str:
        """What kubectl prints, as the cluster's administrator.

        Raises:
            RuntimeError: it ended with another code than 0.
        """
        command = [str(self._programs / "kubectl"), "--kubeconfig", str(self.kubeconfig), *map(str, words)]
        answer = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=120)
        if answer.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, words))}: {answer.stderr}")
        return answer.stdout

    def get(self, *words: object) -> Any:
        """What `kubectl get` finds, as JSON."""
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def wait(self, condition: Callable[[], object], what: str, timeout_s: float = 60) -> None:
        limit, last = time.monotonic() + timeout_s, ""
        while time.monotonic() < limit:
            try:
                if condition():
                    return
            except RuntimeError as error:
                last = str(error)
            time.sleep(0.3)
        raise AssertionError(f"{what}: not within {timeout_s:.0f} s; {last}\n{self._logs()}")

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait()
        self._processes.clear()

    def _start(self, program: Path, *words: object) -> None:
        with (self.root / f"{program.name}.log").open("ab") as log:
            self._processes.append(subprocess.Popen([program, *map(str, words)], stdout=log, stderr=subprocess.STDOUT))

    def _logs(self) -> str:
        return "\n".join(f"== {each.name}\n{each.read_text()[-1500:]}" for each in sorted(self.root.glob("*.log")))

    def _kubeconfig(self) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": self.url, "certificate-authority": str(self.ca)}}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
            "current-context": "test",
        }


def _audited(root: Path) -> Path:
    policy = root / "audit-policy.yaml"
    rules = [{"level": "Metadata", "omitStages": ["RequestReceived"]}]
    policy.write_text(json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}))
    return policy


def _make_key(path: Path) -> None:
    command = ["openssl", "genrsa", "-out", str(path), "2048"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
