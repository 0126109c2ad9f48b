"""The programs of a control plane, and Helm, each built from its Go module.

In: nothing. Out: folders with kube-apiserver, kube-controller-manager and kubectl, with etcd, and with helm, of the versions
that stand here.
"""

from __future__ import annotations

from pathlib import Path

from testbed.servers.kubernetes.golang import go_programs

KUBERNETES_VERSION = "v1.36.3"
ETCD_VERSION = "v3.6.14"
HELM_VERSION = "v3.18.4"
# Modules that Kubernetes keeps in its own repository, and names there without a version.
_STAGED = (
    *("api", "apiextensions-apiserver", "apimachinery", "apiserver", "cli-runtime", "client-go", "cloud-provider"),
    *("cluster-bootstrap", "code-generator", "component-base", "component-helpers", "controller-manager", "cri-api"),
    *("cri-client", "cri-streaming", "csi-translation-lib", "dynamic-resource-allocation", "endpointslice"),
    *("externaljwt", "kms", "kube-aggregator", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubectl"),
    *("kubelet", "metrics", "mount-utils", "pod-security-admission", "sample-apiserver", "sample-cli-plugin"),
    *("sample-controller", "streaming"),
)
_PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kubectl")


def kubernetes_programs() -> Path:
    """The folder with kube-apiserver, kube-controller-manager and kubectl (about seven minutes of building)."""
    staged = {f"k8s.io/{name}": f"v0.{KUBERNETES_VERSION.split('.', 1)[1]}" for name in _STAGED}
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    named = {"gitVersion": KUBERNETES_VERSION, "gitMajor": major, "gitMinor": minor}
    texts = {f"k8s.io/component-base/version.{key}": value for key, value in named.items()}
    packages = [f"cmd/{each}" for each in _PROGRAMS]
    return go_programs("kubernetes", "k8s.io/kubernetes", KUBERNETES_VERSION, packages, staged, texts)


def etcd() -> Path:
    """The folder with etcd, whose program is called `server`."""
    return go_programs("etcd", "go.etcd.io/etcd/server/v3", ETCD_VERSION, [""], {})


def helm() -> Path:
    """The folder with helm."""
    package = "helm.sh/helm/v3"
    texts = {
        f"{package}/internal/version.version": HELM_VERSION,
        f"{package}/pkg/chartutil.k8sVersionMajor": "1",
        f"{package}/pkg/chartutil.k8sVersionMinor": "33",
    }
    return go_programs("helm", package, HELM_VERSION, ["cmd/helm"], texts=texts)
