"""What a pod's spec gives its container: variables, and volumes as folders of this machine.

In: a pod, and a way to ask the API server. Out: an environment, and a list of mounts; owners and modes are those that a
kubelet gives. A ConfigMap or a Secret that is not there is a RuntimeError.
"""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Ask = Callable[..., Any]


@dataclass(frozen=True)
class Mount:
    """A folder or a file of this machine, and where the container finds it."""

    source: Path
    path: str
    is_read_only: bool


def environment(ask: Ask, pod: Mapping[str, Any], container: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for each in container.get("env", ()):
        origin = each.get("valueFrom", {})
        if "fieldRef" in origin:
            found[each["name"]] = _field(pod, origin["fieldRef"]["fieldPath"])
        elif "secretKeyRef" in origin:
            key = origin["secretKeyRef"]
            found[each["name"]] = _secret(ask, pod, key["name"])[key["key"]].decode()
        else:
            assert not origin, f"the test kubelet does not know {origin}"
            found[each["name"]] = each.get("value", "")
    return found


def mounts(ask: Ask, pod: Mapping[str, Any], container: Mapping[str, Any], folder: Path) -> list[Mount]:
    group = pod["spec"].get("securityContext", {}).get("fsGroup", 0)
    volumes = {each["name"]: each for each in pod["spec"].get("volumes", ())}
    found = []
    for mount in container.get("volumeMounts", ()):
        volume = volumes[mount["name"]]
        source = folder / "volumes" / mount["name"]
        if "emptyDir" in volume:
            source.mkdir(parents=True, exist_ok=True)
            os.chown(source, 0, group)
            source.chmod(0o2777)
        else:
            _write(source, volume, list(_files(ask, pod, volume)), group)
        found.append(Mount(source, mount["mountPath"], bool(mount.get("readOnly"))))
    return sorted(found, key=lambda each: len(Path(each.path).parts))


def _files(ask: Ask, pod: Mapping[str, Any], volume: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    if "configMap" in volume:
        yield from _config_map(ask, pod, volume["configMap"]["name"])
    if "secret" in volume:
        content = _secret(ask, pod, volume["secret"]["secretName"])
        items = volume["secret"].get("items") or [{"key": key, "path": key} for key in content]
        yield from ((each["path"], content[each["key"]]) for each in items)
    for source in volume.get("projected", {}).get("sources", ()):  # the token of the pod's account
        if "serviceAccountToken" in source:
            path = f"serviceaccounts/{pod['spec']['serviceAccountName']}/token"
            body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
            answer = ask("POST", f"/api/v1/namespaces/{pod['metadata']['namespace']}/{path}", body)
            yield source["serviceAccountToken"]["path"], answer["status"]["token"].encode()
        if "downwardAPI" in source:
            for item in source["downwardAPI"]["items"]:
                yield item["path"], _field(pod, item["fieldRef"]["fieldPath"]).encode()
        if "configMap" in source:
            yield from _config_map(ask, pod, source["configMap"]["name"])


def _write(source: Path, volume: Mapping[str, Any], files: list[tuple[str, bytes]], group: int) -> None:
    """As a kubelet does: root's, the group may read, and each name is a link into a folder that is replaced as a whole."""
    shutil.rmtree(source, ignore_errors=True)
    data = source / "..data-1"
    data.mkdir(parents=True)
    mode = (volume.get("secret") or volume.get("configMap") or {}).get("defaultMode", 0o644)
    (source / "..data").symlink_to(data.name)
    for name, content in files:
        (data / name).write_bytes(content)
        os.chown(data / name, 0, group)
        (data / name).chmod(mode | (0o440 if group else 0))
        (source / name).symlink_to(f"..data/{name}")


def _config_map(ask: Ask, pod: Mapping[str, Any], name: str) -> Iterator[tuple[str, bytes]]:
    return ((key, value.encode()) for key, value in _data(ask, pod, "configmaps", name).items())


def _secret(ask: Ask, pod: Mapping[str, Any], name: str) -> dict[str, bytes]:
    return {key: base64.b64decode(value) for key, value in _data(ask, pod, "secrets", name).items()}


def _data(ask: Ask, pod: Mapping[str, Any], kind: str, name: str) -> dict[str, str]:
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/{kind}/{name}"
    found = ask("GET", path)
    if not found:
        raise RuntimeError(f"there is no {path}")
    return found.get("data") or {}


def _field(pod: Mapping[str, Any], path: str) -> str:
    found: Any = pod
    for part in path.split("."):
        found = found[part]
    return str(found)
